/* y = a b, elementwise, of one shape: gates, masks and squares. The gradients are such products, too:
 * da = dy b, db = dy a. */
#pragma once

#include "ir/op.h"

extern const op_def op_multiply; /* a, b -> y; y may live in either */
extern const op_kernel multiply_cpu[];
extern const op_kernel multiply_cuda[];

tensor_id multiply_apply(graph *g, tensor_id a, tensor_id b);
