/* sum += the rows of parts, one after the other, in place: what all ranks have sent is added in the order of
 * ranks, as one process adds unit after unit. */
#pragma once

#include "ir/op.h"

/* sum must -> sum, f32; parts (ranks, n), f32, where sum has n elements. */
extern const op_def op_add_parts;
extern const op_kernel add_parts_cpu[];
extern const op_kernel add_parts_cuda[];

tensor_id add_parts_apply(graph *g, tensor_id sum, tensor_id parts);
