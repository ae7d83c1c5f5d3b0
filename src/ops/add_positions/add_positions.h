/* Learned positions: y[b,t] = x[b,t] + table[first + offset + t], with offset 0 when absent; or the same row
 * for all, y[b,t] = x[b,t] + table[first], where `still`. Positions outside of the table read its nearest row
 * and add nothing to the gradient; callers see to it that there are none. */
#pragma once

#include "ir/op.h"

typedef struct {
    int32_t first, still;
} add_positions_attributes;

typedef struct {
    int64_t rows; /* S, of the table */
    int64_t type; /* dtype of dtable; 0: that of dy */
    add_positions_attributes at;
} add_positions_backward_attributes;

extern const op_def
    op_add_positions; /* x (B,T,C), table (S,C) of either width, offset? (1) i32 -> y; y may live in x */
extern const op_def
    op_add_positions_backward; /* dy (B,T,C), offset?, accumulator? (S,C) must -> dtable (S,C) */

extern const op_kernel add_positions_cpu[], add_positions_backward_cpu[];
extern const op_kernel add_positions_cuda[], add_positions_backward_cuda[];

tensor_id add_positions_apply(graph *g, tensor_id x, tensor_id table, tensor_id offset); /* from row 0 on */
tensor_id add_positions_at(graph *g, tensor_id x, tensor_id table, const add_positions_attributes *at);
tensor_id add_positions_backward_apply(graph *g, tensor_id dy, tensor_id offset, tensor_id accumulator,
                                       const add_positions_backward_attributes *attributes);
