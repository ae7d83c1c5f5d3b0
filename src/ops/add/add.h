/* y = a + b, elementwise, of one shape: the residual connection, and the sum of two gradients. */
#pragma once

#include "ir/op.h"

extern const op_def op_add; /* a, b -> y; y may live in either */
extern const op_kernel add_cpu[];

tensor_id add_apply(graph *g, tensor_id a, tensor_id b);

/* The gradient gathered so far plus `d`; d itself when there was none (gathered == 0). */
tensor_id add_gather(graph *g, tensor_id gathered, tensor_id d);
