/* y = a + b, elementwise, of one shape: the residual connection, and the sum of two gradients. */
#pragma once

#include "ir/op.h"

/* a, b -> y, of the type of a; f32 and floats of 16 bits may be mixed. y may live in either. */
extern const op_def op_add;
extern const op_kernel add_cpu[];
extern const op_kernel add_cuda[];

tensor_id add_apply(graph *g, tensor_id a, tensor_id b);

/* The gradient gathered so far plus `d`; d itself when there was none (gathered == 0). */
tensor_id add_gather(graph *g, tensor_id gathered, tensor_id d);
