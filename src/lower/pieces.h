/* Tensors that are away (ir/graph.h) stay in a file or in the host's memory. A step that reads or writes one
 * is run piece by piece: its part of the tensor is brought into a slot of the device's memory, computed on,
 * and written back. The pieces of all steps use the slots in turn. No other memory is used by two lanes at
 * once. Between a device apart and a file a part passes through a slot of the host's as well.
 *
 * Such steps are updates, whose states are away, copies there and back (ops/move), and casts of weights. All
 * are elementwise, but for blocks of state (op_def.update), and a piece is a whole number of blocks. So a
 * kernel can run on a piece as on a smaller tensor, and the bits are the same.
 *
 * All pieces of a program form one sequence, in the order of its steps. Reading ahead and writing back follow
 * it. */
#pragma once

#include "lower/lower.h"

enum {
    PIECES_ELEMENTS = 1 << 18, /* elements of a piece; the last of a step may have fewer */
    PIECES_PAGE = 4096,        /* each part begins at a multiple of this, where it waits and in its slot */
    PIECES_SLOTS = 16,         /* the most pieces that are in memory at once */
    PIECES_PARTS = 8,          /* more than any step has: a weight, its gradient, two states */
    PIECES_FILED = 2,          /* tensor.away: in a file, where others are in the host's memory */
    PIECES_RING = 2 * PIECES_SLOTS /* slots of the host's between a device apart and a file: reading a file
                                    * is as far ahead of copying as copying is of computing */
};

/* Elements [first, first + count) of the step's first input, which is the weight where the step is an update.
 */
typedef struct {
    uint32_t step;
    int64_t first, count;
} piece;

/* The piece after *x, of this step or a later one; false: there is none. *x begins as {0}, or with `step`
 * alone for the first one from there on. */
bool pieces_next(const program *p, piece *x);

/* STATUS_FAILED: node n has more values away than a slot has parts. */
status pieces_check(const graph *g, const node *n);

/* Does this step read or write what is away? */
bool pieces_step(const program *p, uint32_t step);

/* One part of a piece: its elements of one tensor that is away. */
typedef struct {
    tensor_id owner;      /* the tensor */
    uint64_t from, bytes; /* where the part begins in the tensor; its size, rounded up to PIECES_PAGE */
    uint64_t at;          /* where it begins in the slot */
    bool read, written;   /* it is input `in`, it is output `out` of the call */
    bool filed;           /* of a device apart: it waits in a file */
    uint32_t in, out;
} piece_part;
uint32_t pieces_parts(const program *p, const piece *x, piece_part parts[PIECES_PARTS]);

/* Is any part of a step's pieces `filed`? */
bool pieces_filed(const program *p, uint32_t step);

/* How many steps of the program must be done before what this step reads is there: all up to the last one
 * that writes any of it. 0: it is there from the beginning. */
uint32_t pieces_readable(const program *p, uint32_t step);

/* How many pieces a program has, and the bytes of the largest in its slot. */
typedef struct {
    uint64_t count, slot_bytes;
    uint64_t updates, update_bytes; /* the same for updates only */
} pieces_size;
pieces_size pieces_measure(const program *p);

/* Makes the call of a step on one piece out of its call on all. `args` has room for all arguments. */
void pieces_call(const program *p, const piece *x, const op_call *whole, char *slot, op_arg *args,
                 op_call *part);

/* Predicted seconds of a program that runs again and again: its steps take the times they have, and reading
 * and writing go on beside them, between memory and a file, or where the device is `apart` the host's memory,
 * and from there on a file where parts are `filed`. What one run leaves to be written is written beside the
 * next. `waits` (by step; may be NULL) receives how long each step waits for its pieces. */
status pieces_seconds(const program *p, bool apart, const device_rates *rates, double *waits,
                      double *seconds);

/* A lower bound of how long steps wait for their pieces: it looks at each step alone. */
double pieces_waiting(const program *p, bool apart, const device_rates *rates);
