/* A matrix (rows, last) as codes of 8 bits with a scale for each row or each column (ops/codes.h). With a key
 * codes are rounded stochastically: element (row, column) of a matrix takes its bits from draw
 * row * codes_draws(columns) + column / CODES_DRAWN of sample 0.
 *
 * The codes that there were before may be given, with their scales: then the new ones live in their place, as
 * those of a weight that was updated, and where `ok` is 0 nothing changes. */
#pragma once

#include "ir/op.h"

typedef struct {
    int32_t columns; /* 1: a scale for each column; 0: for each row */
    int32_t stream;  /* of the random bits, with key */
} quantize_attributes;

typedef struct {
    tensor_id x;             /* f32 */
    tensor_id key;           /* (4) i32; absent: to the nearest */
    tensor_id ok;            /* (1) i32, absent: 1 */
    tensor_id codes, scales; /* what they were; absent: none */
} quantize_inputs;

extern const op_def op_quantize; /* the inputs in their order -> codes i8, as x; scales (lanes) */
extern const op_kernel quantize_cpu[];
extern const op_kernel quantize_cuda[];

tensor_id quantize_apply(graph *g, const quantize_inputs *in, const quantize_attributes *attributes);
