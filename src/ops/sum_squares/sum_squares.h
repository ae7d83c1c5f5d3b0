/* The sum of the squares of all elements: one term of the global gradient norm. Tiles of
 * SUM_SQUARES_TILE elements, partial sums in double, added in their order. */
#pragma once

#include "ir/op.h"

enum { SUM_SQUARES_TILE = 4096 };

extern const op_def op_sum_squares; /* x -> (1) */
extern const op_kernel sum_squares_cpu[];
extern const op_kernel sum_squares_cuda[];

tensor_id sum_squares_apply(graph *g, tensor_id x);
