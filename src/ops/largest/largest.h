/* The largest absolute value of all elements, and of what was found before: what one scale for a whole tensor
 * follows from. In any order the same number. */
#pragma once

#include "ir/op.h"

extern const op_def op_largest; /* x, before (1) -> (1), which lives in `before` */
extern const op_kernel largest_cpu[];
extern const op_kernel largest_cuda[];

tensor_id largest_apply(graph *g, tensor_id x, tensor_id before);
