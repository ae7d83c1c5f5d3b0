/* Consecutive indexes of dimension 0: a view, nothing moves. Its gradient is dy in its place, zero elsewhere.
 */
#pragma once

#include "ir/op.h"

typedef struct {
    int64_t start, count;
} slice_attributes;

typedef struct {
    int64_t start, rows; /* place of dy in dimension 0; size of dimension 0 of the result */
} slice_backward_attributes;

extern const op_def op_slice;          /* x (N,...) -> (count,...), a view of x */
extern const op_def op_slice_backward; /* dy (count,...), accumulator? (rows,...) may -> dx (rows,...) */

extern const op_kernel slice_backward_cpu[];
extern const op_kernel slice_backward_cuda[];

tensor_id slice_apply(graph *g, tensor_id x, int64_t start, int64_t count);
tensor_id slice_backward_apply(graph *g, tensor_id dy, tensor_id accumulator, int64_t start, int64_t rows);
