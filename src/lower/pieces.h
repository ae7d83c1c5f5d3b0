/* State in a file (POOL_FILE) passes through memory in pieces: an update of such state is run piece by piece,
 * each with its part of the state in a slot of memory that others use before and after it. An op whose states
 * may live so (op_def.states) is elementwise but for blocks of them, and pieces are whole blocks; so its
 * kernels take a piece for a smaller weight, and the bits are the same.
 *
 * All pieces of a program, in the order of its steps, are one sequence: what is read ahead and written back
 * follows it. */
#pragma once

#include "lower/lower.h"

enum {
    PIECES_ELEMENTS = 1 << 18, /* of a piece */
    PIECES_PAGE = 4096,        /* in a file and in a slot each part of a piece begins at a multiple of it */
    PIECES_SLOTS = 16,         /* as many are in memory at once, or all */
    PIECES_STATES = 4          /* of an op, at most */
};

/* Elements first .. first + count - 1 of the weight that a step updates. */
typedef struct {
    uint32_t step;
    int64_t first, count;
} piece;

/* The piece after *x, which begins as {0}; false: there is none. */
bool pieces_next(const program *p, piece *x);

/* Does this step have states in a file? */
bool pieces_step(const program *p, uint32_t step);

/* What a piece has in its slot: a part of each state that is in a file. */
typedef struct {
    tensor_id state;      /* source */
    uint64_t from, bytes; /* in the state, in bytes; a multiple of PIECES_PAGE, the end rounded up */
    uint64_t at;          /* in the slot */
    uint8_t in, out;      /* which input and output of the call it is */
} piece_part;
uint32_t pieces_parts(const program *p, const piece *x, piece_part parts[PIECES_STATES]);

/* How many pieces there are, and what the largest takes in its slot. */
typedef struct {
    uint64_t count, slot_bytes;
} pieces_size;
pieces_size pieces_measure(const program *p);

/* The call of a step on one piece: `args` has room for as many as the whole call has. */
void pieces_call(const program *p, const piece *x, const op_call *whole, char *slot, op_arg *args,
                 op_call *part);

/* Seconds of a program whose steps take what they say, with reading and writing beside them; `waits` (may be
 * NULL, by step) receives how long each waits for its pieces. */
double pieces_seconds(const program *p, const device_rates *rates, double *waits);
