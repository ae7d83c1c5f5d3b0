/* Attention whose memory grows with T, not with T*S: probabilities are made tile by tile, with a running
 * maximum and sum, and are never stored; the gradient makes them again from the logarithm of the sum, lse.
 * Inputs, attributes and mathematics are those of ops/attention; only the order of summation differs. lse is
 * 0 for a query that sees no key. Papers: Rabe, Staats, "Self-attention does not need O(n^2) memory",
 * arXiv:2112.05682; Dao et al., "FlashAttention", arXiv:2205.14135; Milakov, Gimelshein, "Online normalizer
 * calculation for softmax", arXiv:1805.02867. */
#pragma once

#include "ops/attention/attention.h"

/* -> y (B,T,HD), lse (B,H,T) */
extern const op_def op_attention_flash;
/* q, k?, v?, y, lse, dy, lengths?, segments?, offset?, key?, bias? -> as attention_backward */
extern const op_def op_attention_flash_backward;
extern const op_kernel attention_flash_cpu[], attention_flash_backward_cpu[];
extern const op_kernel attention_flash_cuda[], attention_flash_backward_cuda[];
extern const op_kernel attention_flash_tensor[], attention_flash_backward_tensor[];

/* Returns y; lse is the next id. */
tensor_id attention_flash_apply(graph *g, const attention_inputs *in, const attention_attributes *attributes);
