/* What codes of 8 bits would make of a matrix (rows, last), in its own type: y = scale * code, with a scale
 * for each row or each column and codes to the nearest (ops/codes.h). The same codes as those of a model that
 * is quantized later, so training can get used to them.
 *
 * Rounding has no useful slope; the gradient goes straight through: dx = dy. No number lies beyond the
 * largest code, so nothing is clipped. */
#pragma once

#include "ir/op.h"

typedef struct {
    int32_t columns; /* 1: a scale for each column; 0: for each row */
} fake_quantize_attributes;

extern const op_def op_fake_quantize; /* x (rows, columns) -> y, which may live in x */
extern const op_kernel fake_quantize_cpu[];
extern const op_kernel fake_quantize_cuda[];

tensor_id fake_quantize_apply(graph *g, tensor_id x, bool columns);
