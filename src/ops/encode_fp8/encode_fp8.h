/* Rows of numbers as floats of 8 bits (ops/fp8.h): x -> codes (u8, as x), scales (u8, one for each FP8_TILE
 * neighbours of a row; the rest of a row is a block as well). What flows back into the codes is the gradient
 * of the numbers that they stand for, and flows on to x as it is: rounding counts as the identity. Its type
 * is that of x's gradient. */
#pragma once

#include "ops/fp8.h"

typedef struct {
    int32_t form; /* fp8_form */
} encode_fp8_attributes;

extern const op_def op_encode_fp8;
extern const op_kernel encode_fp8_cpu[];
extern const op_kernel encode_fp8_cuda[];

tensor_id encode_fp8_apply(graph *g, tensor_id x, fp8_form form); /* codes; the scales follow */

/* The shape of the scales. */
shape encode_fp8_scales(const shape *codes);
