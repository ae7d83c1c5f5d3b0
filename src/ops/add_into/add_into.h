/* sum += x, in place: the finished sum of a unit of samples is added to the sum of the units before it. */
#pragma once

#include "ir/op.h"

/* sum must -> sum, of f32; x of the same shape, f32 or a float of 16 bits. */
extern const op_def op_add_into;

tensor_id add_into_apply(graph *g, tensor_id sum, tensor_id x);
