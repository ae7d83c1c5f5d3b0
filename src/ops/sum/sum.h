/* The sum of all elements, over tiles of THREADS_ROW_TILE rows (x as a matrix of its last dimension), and
 * its gradient: dy everywhere. */
#pragma once

#include "ir/op.h"

typedef struct {
    struct shape shape; /* of the result */
} sum_backward_attributes;

extern const op_def op_sum;          /* x, accumulator? (1) must -> (1) */
extern const op_def op_sum_backward; /* dy (1) -> dx (attributes' shape) */

extern const op_kernel sum_cpu[], sum_backward_cpu[];
extern const op_kernel sum_cuda[], sum_backward_cuda[];

tensor_id sum_apply(graph *g, tensor_id x, tensor_id accumulator);
tensor_id sum_backward_apply(graph *g, tensor_id dy, shape to);
