/* The sums of squares of a tensor's tiles, as op_sum_squares makes them, of one rank's share of it. Shares
 * are whole tiles; behind the last element of the whole they have nothing. op_add_tiles adds those of all
 * ranks.
 */
#pragma once

#include "ir/op.h"

typedef struct {
    int64_t whole; /* elements of the tensor; the share begins at the call's `first` */
} square_tiles_attributes;

/* share (n), n a multiple of SUM_SQUARES_TILE -> (n / SUM_SQUARES_TILE), f64. */
extern const op_def op_square_tiles;
extern const op_kernel square_tiles_cpu[];
extern const op_kernel square_tiles_cuda[];

tensor_id square_tiles_apply(graph *g, tensor_id share, int64_t whole);

/* The sum of the squares of x's elements from `at` on, up to `end` or a tile's width. */
double square_tiles_of(const op_arg *x, int64_t at, int64_t end);
