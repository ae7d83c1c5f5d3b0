/* The sizes of a decoder as Megatron-Core has them: those of any decoder or GPT-2 that snug reads, and of
 * DeepSeek's, whose attention is latent (DeepSeek-V2, arXiv:2405.04434; DeepSeek-V3, arXiv:2412.19437). */
#pragma once

#include "models/families.h"

typedef struct {
    int64_t layers, channels, vocabulary, context;
    int64_t heads, kv_heads, head_size; /* latent: head_size counts what positions do not turn */
    int64_t kv_rank, q_rank;    /* latent attention; kv_rank 0: none; q_rank 0: queries are no latent */
    int64_t turned, value_size; /* of a head, of latent attention */
    int64_t inner;              /* of layers without experts */
    int64_t experts, chosen, expert_inner, shared; /* experts 0: none; shared: width of all together */
    uint64_t dense[DECODER_MOST_LAYERS / 64];      /* bit per layer: no experts here */
    int64_t patterned;                             /* layers that `dense` speaks of; 0: all that can be */
    int64_t predicted; /* layers that predict tokens further ahead, which no rule counts */
    bool gated, layer_norm, bias_qkv, bias_o, bias_feed; /* layer_norm: norms have a bias too */
    bool tied, head_norms, learns_positions, drops;      /* drops: dropout of what each half adds */
} megatron_shape;

static inline bool megatron_has_experts(const megatron_shape *m, int64_t layer) {
    return m->experts && !(m->dense[layer / 64] >> (layer % 64) & 1u);
}

/* STATUS_INVALID: Megatron-Core has no such model, with a sentence. */
status megatron_shape_of(const model_config *c, const char *name, megatron_shape *m);

/* Is `path` (a config.json, or a directory that has one) DeepSeek's? `*read` says so, and then `m` has it.
 * STATUS_INVALID: it is, and its sizes make no model. */
status megatron_shape_read(const char *path, megatron_shape *m, bool *read);
