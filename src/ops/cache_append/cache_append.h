/* Appends rows to a cache that outlives the program, as one of rows that wait for the end of a batch: row t
 * of x goes to row offset + t. The columns [column, column + width) of x are taken. Rows that fall outside of
 * the cache are ignored. Not differentiable. */
#pragma once

#include "ir/op.h"

typedef struct {
    int32_t column, width;
} cache_append_attributes;

extern const op_def
    op_cache_append; /* cache (B,S,width), x (B,T,W), offset (1) -> cache, which lives in its input */
extern const op_kernel cache_append_cpu[];
extern const op_kernel cache_append_cuda[];

tensor_id cache_append_apply(graph *g, tensor_id cache, tensor_id x, tensor_id offset,
                             const cache_append_attributes *attributes);
