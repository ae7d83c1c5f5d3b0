/* Rows of a table, picked by ids. Ids outside of the table read row 0 and add nothing to the gradient: a
 * kernel never reads or writes out of bounds, whatever the data say.
 *
 * The gradient adds the rows of dy one after the other, in their order, straight into the accumulator. So a
 * batch in several pieces, chained through the accumulator, gives the same bits wherever it is cut. */
#pragma once

#include "ir/op.h"

typedef struct {
    int64_t rows; /* V, of the table */
    int64_t type; /* dtype of dtable; 0: that of dy */
} embedding_backward_attributes;

extern const op_def op_embedding;          /* ids (N) or (B,T) i32, table (V,C) -> (N,C) or (B,T,C) */
extern const op_def op_embedding_backward; /* ids, dy (ids...,C), accumulator? (V,C) must -> dtable (V,C) */

extern const op_kernel embedding_cpu[], embedding_backward_cpu[];
extern const op_kernel embedding_cuda[], embedding_backward_cuda[];

tensor_id embedding_apply(graph *g, tensor_id ids, tensor_id table);
tensor_id embedding_backward_apply(graph *g, tensor_id ids, tensor_id dy, tensor_id accumulator, int64_t rows,
                                   dtype type);
