/* Scaled dot-product attention that keeps its probabilities: y = dropout(softmax(cap(q k^T scale))) v for
 * every head, and the probabilities themselves, which the gradient reads. Memory grows with T*S;
 * attention_flash is the same mathematics without that. Both take the same inputs, in the same order, and the
 * same attributes, so that a pass turns one node into the other by changing its op. Papers: Vaswani et al.,
 * "Attention is all you need", arXiv:1706.03762; grouped queries: Ainslie et al., arXiv:2305.13245.
 *
 * Shapes. Packed: k and v are absent and a row of q is q | k | v, (B,T,(H+2G)D), which is (B,T,3HD) where
 * every head has its own keys. Unpacked: q (B,T,HD), k and v (B,S,GD). Head h reads keys and values of h /
 * (H/G).
 *
 * Which keys a query sees: key s counts for query t of sample b when
 *   s < lengths[b]                                   where lengths (B) is given,
 *   segments[b][s] == segments[b][t]                 where segments (B,T) is given (S = T),
 *   s <= offset + t                                  where causal (offset (1) is 0 when absent),
 *   offset + t - s < window, and s - offset - t < window where window is not 0.
 * A query that sees no key gives y = 0, probabilities 0 and no gradient. Where bias (H,T,S) is given it is
 * added to the scaled scores of every sample, and has a gradient of its own.
 *
 * Dropout: the probability of (b,h,t,s) is kept when the Philox word of sample b, element (h*T + t)*S + s is
 * at least `dropout` as a uniform number, and is then divided by 1 - dropout. Nothing is stored: forward and
 * backward of either op draw the same mask. The probabilities that are kept for the gradient are those before
 * dropout. */
#pragma once

#include "ir/op.h"

typedef struct {
    int32_t heads, kv_heads; /* kv_heads divides heads; 0: the same */
    int32_t causal;
    float scale; /* 0: 1/sqrt(D) */
    float dropout;
    int32_t stream; /* of the random numbers; only read where dropout > 0 */
    int32_t window; /* 0: none */
    float cap;      /* of scores, as op_softcap; 0: none */
} attention_attributes;

/* In the order of the op's inputs; 0 where absent. */
typedef struct {
    tensor_id q, k, v;
    tensor_id lengths, segments, offset, key, bias;
} attention_inputs;

/* -> y (B,T,HD), probs (B,H,T,S) */
extern const op_def op_attention;
/* q, k?, v?, probs, dy, lengths?, segments?, offset?, key?, bias? -> the gradient of packed q; or dq, dk, dv;
 * then that of bias, where it is given */
extern const op_def op_attention_backward;
extern const op_kernel attention_cpu[], attention_backward_cpu[];
extern const op_kernel attention_cuda[], attention_backward_cuda[];

/* Returns y; probs is the next id. */
tensor_id attention_apply(graph *g, const attention_inputs *in, const attention_attributes *attributes);

/* ---- shared with attention_flash ---- */

typedef struct {
    int64_t batch, queries, keys, heads, kv_heads, size; /* B, T, S, H, G, D */
} attention_sizes;

/* Sizes from shapes that were checked; k is NULL where packed. */
attention_sizes attention_sizes_of(const shape *q, const shape *k, const attention_attributes *attributes);

/* Checks all inputs of a node whose lengths, segments, offset, key and bias are inputs side .. side+4. */
status attention_check(const graph *g, const node *n, uint32_t side, attention_sizes *sizes);

/* Outputs of either backward op, whose last input is the bias: as q, k and v, then as the bias. */
uint8_t attention_gradient_outputs(const graph *g, const node *n);
void attention_gradient_shapes(const graph *g, const node *n, tensor *out);

/* Gathers the outputs of the backward node of forward node n, first .. , into din. */
void attention_gradient_gather(graph *g, const node *n, tensor_id first, const bool *want, tensor_id *din);

enum { ATTENTION_BIAS = 7 }; /* input of either forward op */

/* `products` inner products of D numbers for each pair of a query and a key that it may see. */
op_cost attention_cost(const graph *g, const node *n, uint32_t side, double products);
