/* What is in a file (POOL_FILE) passes through memory in pieces: a step that reads or writes it is run piece
 * by piece, each with its part of the file in a slot of memory that others use before and after it. Such
 * steps are updates, whose states are there, and copies from memory and back (ops/move). Both are elementwise
 * but for blocks of state (op_def.states), and pieces are whole blocks; so kernels take a piece for a smaller
 * tensor, and the bits are the same.
 *
 * All pieces of a program, in the order of its steps, are one sequence: what is read ahead and written back
 * follows it. */
#pragma once

#include "lower/lower.h"

enum {
    PIECES_ELEMENTS = 1 << 18, /* of a piece */
    PIECES_PAGE = 4096,        /* in a file and in a slot each part of a piece begins at a multiple of it */
    PIECES_SLOTS = 16,         /* as many are in memory at once, or all */
    PIECES_PARTS = 8           /* more than any step has: a weight, its gradient, two states */
};

/* Elements first .. first + count - 1 of a step's first input: of the weight that it updates. */
typedef struct {
    uint32_t step;
    int64_t first, count;
} piece;

/* The piece after *x, which begins as {0}; false: there is none. */
bool pieces_next(const program *p, piece *x);

/* Does this step read or write a file? */
bool pieces_step(const program *p, uint32_t step);

/* What a piece has in its slot: a part of each value that is in a file. */
typedef struct {
    tensor_id owner;      /* of the storage */
    uint64_t from, bytes; /* in the state, in bytes; a multiple of PIECES_PAGE, the end rounded up */
    uint64_t at;          /* in the slot */
    bool read, written;   /* is it input `in`, output `out` of the call? */
    uint32_t in, out;
} piece_part;
uint32_t pieces_parts(const program *p, const piece *x, piece_part parts[PIECES_PARTS]);

/* How many steps must be done before what this one reads is in the file: up to the last that writes any of
 * it in this program; 0: it is there from the beginning. */
uint32_t pieces_readable(const program *p, uint32_t step);

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
