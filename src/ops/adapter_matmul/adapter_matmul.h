/* The low-rank parts of several adapters beside one product, each for rows of its own:
 *
 *   y[n] + (x[n] A_k^T) scale_k B_k^T   for rows n of adapter k = adapter[n], A (rank,in), B (out,rank)
 *
 * and y[n] for rows of none: adapter[n] is below 0, not a number of an adapter, or that of one that does not
 * stand beside this product. Ranks are the adapters' own. A row has the bits of the same adapter alone, added
 * as a product with a residual (passes/lora). Not differentiable. Paper: Hu et al., "LoRA: low-rank
 * adaptation of large language models", arXiv:2106.09685; several at once: Chen et al., "Punica: multi-tenant
 * LoRA serving", arXiv:2310.18547. */
#pragma once

#include "ir/op.h"

enum { ADAPTERS_MOST = 32 };

typedef struct {
    float scale[ADAPTERS_MOST];
} adapter_matmul_attributes;

typedef struct {
    tensor_id a, b; /* 0: it does not stand beside this product */
} adapter_matrices;

/* y (B,T,out), x (B,T,in), adapter (B T) i32, then A and B of each adapter in f32 -> y; sums are f32 */
extern const op_def op_adapter_matmul;
extern const op_kernel adapter_matmul_cpu[];
extern const op_kernel adapter_matmul_cuda[];

/* y, x, adapter; `count` adapters, of which some stand beside this product. */
typedef struct {
    tensor_id y, x, adapter;
    uint32_t count;
    adapter_matrices of[ADAPTERS_MOST];
} adapter_matmul_inputs;

tensor_id adapter_matmul_apply(graph *g, const adapter_matmul_inputs *in, const adapter_matmul_attributes *a);

/* For kernels: adapter k of a call. rank 0: it is not there. */
typedef struct {
    const float *a, *b;
    int64_t rank;
    float scale;
} adapter_part;
static inline int64_t adapter_matmul_count(const op_call *c) { return (c->in_count - 3) / 2; }
static inline adapter_part adapter_matmul_part(const op_call *c, int64_t k) {
    const op_arg *a = op_in(c, (uint32_t)(3 + 2 * k)), *b = op_in(c, (uint32_t)(4 + 2 * k));
    adapter_part p = { (const float *)a->data, (const float *)b->data, 0, 0 };
    p.rank = a->dtype ? a->shape.dim[0] : 0;
    p.scale = ((const adapter_matmul_attributes *)c->attributes)->scale[k];
    return p;
}
static inline int64_t adapter_matmul_most_rank(const op_call *c) {
    int64_t most = 1;
    for (int64_t k = 0; k < adapter_matmul_count(c); k++) {
        int64_t rank = adapter_matmul_part(c, k).rank;
        if (rank > most) most = rank;
    }
    return most;
}
