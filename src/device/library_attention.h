/* Attention by a library of the GPU's maker (cuDNN), opened when the program runs, as its products are
 * (device/library.h): a build needs neither the library nor its header. Who does not ask for it loads
 * nothing.
 *
 * What it makes is what ops/attention_flash makes of plain attention in 16 bits: y = softmax(q k^T scale) v
 * and the logarithms of the sums, and the gradient of both. A query sees all keys, or those up to its own
 * place. The graph of operations is that of Dao et al., "FlashAttention", arXiv:2205.14135: scores have no
 * place in memory. The gradient is asked for so that no sum has two owners; engines that say that their
 * results differ from run to run are not taken. Which engine it is, is what the library's heuristic names
 * first: of one version, on GPUs of one kind, that is always the same, and no clock takes part. What of the
 * library's interface is used stands in library_attention_calls.h.
 *
 * Choosing may be done by several threads at a time, all else by one. */
#pragma once

#include "device/library.h"

/* Two are the same attention where their bytes are: there is no padding. Rows of q, k and v are as in
 * ops/attention: packed, one after the other in a row of q | k | v, or each in a matrix of its own; so are
 * those of their gradients. y and its gradient are (B,T,HD), the logarithms (B,H,T) f32. */
typedef struct {
    int64_t batch, queries, keys, heads, kv_heads, size; /* B, T, S, H, G, D */
    int32_t type;                                        /* dtype of all but the logarithms: bf16 or f16 */
    int32_t causal, packed;
    int32_t gradient; /* 0: y and the logarithms; 1: the gradients of q, k and v */
} library_attention;

/* Why the library does not make an attention. */
typedef enum {
    LIBRARY_ATTENTION_MAKES,
    LIBRARY_ATTENTION_TYPES,  /* it is not of 16 bits */
    LIBRARY_ATTENTION_SIGHTS, /* windows, lengths, segments, offsets, biases, caps or dropout */
    LIBRARY_ATTENTION_PLACES, /* heads, or parts of something else, don't begin at multiples of 16 bytes */
    LIBRARY_ATTENTION_NO_WAY, /* it has no engine for the shape whose bits are always the same */
    LIBRARY_ATTENTION_ANSWERS
} library_attention_answer;

/* As library_open. */
status library_attention_open(void *stream, bool emulated);

/* "cuDNN 9.26.0"; "": it is not open. */
const char *library_attention_name(void);

/* The engine, its settings and its workspace: words[0] is the engine's number, words[1] a digest of its
 * settings. */
library_attention_answer library_attention_choose(const library_attention *p, library_algorithm *out);

/* Has the library make what runs it, which may take seconds; before the first run of each. INVALID: it makes
 * something else than was planned, with a sentence. `a` is what library_attention_choose said in this
 * process. */
status library_attention_prepare(const library_attention *p, const library_algorithm *a);

/* Scratch of a call: the library's workspace, and for the gradient a sum for each query before it. */
uint64_t library_attention_scratch(const library_attention *p, const library_algorithm *a);

/* Addresses on the device. The gradient reads q, k, v, y, logarithms and dy, and writes dq, dk and dv. */
typedef struct {
    const void *q, *k, *v, *dy;
    void *y, *logarithms, *dq, *dk, *dv, *scratch;
    float scale;
} library_attention_operands;

/* Puts the attention, which is prepared, onto the stream. */
void library_attention_run(const library_attention *p, const library_algorithm *a,
                           const library_attention_operands *at);

/* As library_failed. */
status library_attention_failed(void);
