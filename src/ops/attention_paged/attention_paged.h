/* Scaled dot-product attention of rows of any texts, each to the keys and values of its own text in a paged
 * cache (ops/cache_write): y = softmax(cap(q k^T scale)) v for every head, head h with the keys and values of
 * h / (H/G).
 *
 * Row i of text text[i] sees positions 0 .. position[i], of these the last `window` where that is not 0: its
 * own is the last where attention is causal, the text's where it is not. Position p lies in block
 * table[text[i]][p / CACHE_BLOCK]. A row at a position below 0 or beyond the table, or of no text of it,
 * gives y = 0; a block that there is none of is read as block 0. Columns of the table whose positions no row
 * sees are not read.
 *
 * Where a bias is given the row stands at place[i], and the scaled score of position p in head h gets
 * bias[h][p - place[i] + here]; distances beyond either end of it count as its end. There is no cap then.
 *
 * The order of every sum goes by positions alone (attention_paged_math.h), so a row has the same bits
 * whatever else is in the call, and wherever its blocks lie. What others have left in blocks beyond what a
 * row sees is not read into a sum, not even as zero times it. Not differentiable. Paper: Kwon et al.,
 * "PagedAttention", arXiv:2309.06180. */
#pragma once

#include "ops/cache_write/cache_write.h"

typedef struct {
    int32_t heads, kv_heads, size; /* H; G, which divides it; D */
    int32_t window;                /* 0: none */
    float scale;                   /* 0: 1/sqrt(D) */
    float cap;                     /* of scores, as op_softcap; 0: none */
    int32_t here;                  /* where in the bias distance 0 stands; 0 without one */
} attention_paged_attributes;

/* In the order of the op's inputs; 0 where absent. Queries are the first H D columns of q (B,T,W). */
typedef struct {
    tensor_id q, keys, values;
    tensor_id table, text, position; /* (texts, blocks of each), (N), (N) i32; N = B T */
    tensor_id key_scales, value_scales;
    tensor_id bias, place; /* (H,1,distances) f32, (N) i32: both or none */
} attention_paged_inputs;

extern const op_def op_attention_paged; /* -> (B,T,HD) */
extern const op_kernel attention_paged_cpu[];
extern const op_kernel attention_paged_cuda[];

tensor_id attention_paged_apply(graph *g, const attention_paged_inputs *in,
                                const attention_paged_attributes *a);
