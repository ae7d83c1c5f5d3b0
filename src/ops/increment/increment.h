/* Counts on: t + 1, or t where ok is given and 0 (a skipped step is not counted). */
#pragma once

#include "ir/op.h"

extern const op_def op_increment; /* t (1) i32 must, ok? (1) i32 -> t + 1 */
extern const op_kernel increment_cpu[];
extern const op_kernel increment_cuda[];

tensor_id increment_apply(graph *g, tensor_id t, tensor_id ok);
