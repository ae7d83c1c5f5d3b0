/* Is this number one? 1 where x is finite, 0 for NaN and infinities: the `ok` of an optimizer, so that a step
 * that went wrong leaves weights and moments as they were. */
#pragma once

#include "ir/op.h"

extern const op_def op_finite; /* x (1) -> (1) i32 */
extern const op_kernel finite_cpu[];
extern const op_kernel finite_cuda[];

tensor_id finite_apply(graph *g, tensor_id x);
