/* Rows of a table of codes, picked by ids: row i of y is the row's codes times its scale, or scales. So one
 * table of codes serves the embedding and the projection that is tied to it, whose outputs are the table's
 * rows.
 *
 *   8 bits, ops/codes.h:  codes i8 (V, C),     scales f32 (V)
 *   4 bits, ops/codes4.h: codes u8 (V, C / 2), scales f16 (V * groups of C)
 *
 * Ids outside of the table read row 0, as in ops/embedding. It has no gradient: tables of
 * codes are for reading. */
#pragma once

#include "ir/op.h"

typedef struct {
    int32_t type; /* dtype of y: f32, bf16 or f16 */
} embedding_coded_attributes;

extern const op_def op_embedding_coded; /* ids (N) or (B,T) i32, codes, scales -> y (ids...,C) */
extern const op_kernel embedding_coded_cpu[];
extern const op_kernel embedding_coded_cuda[];

tensor_id embedding_coded_apply(graph *g, tensor_id ids, tensor_id codes, tensor_id scales, dtype type);
