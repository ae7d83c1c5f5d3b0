/* Decoders with rotary positions: one builder for Llama, Mistral, Qwen, Phi, Gemma, GPT-NeoX and their kin.
 *
 * What tells them apart is data. A *kind* is what a model_type of Hugging Face fixes: the names of its
 * weights and the order of its blocks. The *configuration* is what a config.json may choose.
 *
 *     one after the other:  x += o(attend(norm x));  x += feed(norm x)
 *     parallel:             x += o(attend(norm x)) + feed(norm x), with one norm or two
 *
 * Names and layouts of the parameters are those of transformers: products are x W' + b with W of (out, in).
 * Papers: Touvron et al., arXiv:2307.09288 (Llama); Jiang et al., arXiv:2310.06825 (Mistral); Black et al.,
 * arXiv:2204.06745 (GPT-NeoX); Gemma team, arXiv:2403.08295; Yang et al., arXiv:2505.09388 (Qwen3). */
#pragma once

#include "models/decoder_experts.h"
#include "models/model.h"
#include "ops/rotary/rotary.h"

/* How the weights of queries, keys and values are kept. */
typedef enum {
    DECODER_APART,
    DECODER_PACKED,  /* one product, q | k | v */
    DECODER_BY_HEAD, /* one product, q | k | v of head 0, then of head 1 ... */
} decoder_packing;

typedef enum { DECODER_SERIAL, DECODER_PARALLEL, DECODER_PARALLEL_TWO_NORMS } decoder_order;
typedef enum { DECODER_NO_WINDOWS, DECODER_WINDOWS, DECODER_WINDOWS_ASKED } decoder_windows;
typedef enum { DECODER_SILU, DECODER_GELU, DECODER_GELU_TANH } decoder_activation;

/* Names without ".weight". NULL: the kind has none such. Those of a block follow "LAYERS.n.". */
typedef struct {
    const char *type, *architecture; /* "llama", "LlamaForCausalLM" */
    const char *embedding, *layers, *last_norm, *head;
    const char *attention_norm, *feed_norm, *after_attention, *after_feed;
    const char *q, *k, *v, *o;    /* packed: q is the product of all three */
    const char *q_norm, *k_norm;  /* of every head; whole_norms: of all heads at once */
    bool norms_asked;             /* qk_layernorm says whether there are such */
    bool bounds_qkv;              /* clip_qkv is read */
    const char *gate, *up, *down; /* gate_up_packed: up is the product of both */
    decoder_packing packing;
    decoder_order order;
    bool gate_up_packed, whole_norms;
    bool layer_norm;       /* else root mean square */
    bool around_one;       /* scales of norms are stored as their distance from 1 */
    bool scaled_embedding; /* by sqrt(channels) */
    bool fixed_biases;     /* config.json does not choose them */
    decoder_windows windows;
    const decoder_experts_kind *experts; /* NULL: none */

    /* What transformers takes where config.json is silent; 0 as noted. */
    decoder_activation activation;
    bool bias_qkv, bias_o, bias_feed, bias_head;
    int64_t kv_heads, head_size;     /* 0: heads; channels / heads */
    int64_t window, far_every;       /* far_every: which layers see all; 0: none */
    int64_t near_from;               /* the first layer with a window */
    double theta, near_theta, share; /* 0: 10,000; theta; all of a head is turned */
    double epsilon, query_scalar;    /* 0: 1e-6; head_size */
    double cap_scores, cap_logits;   /* 0: none; read where there is a query_scalar */
} decoder_kind;

typedef struct {
    const decoder_kind *kind;
    int64_t layers, heads, kv_heads, head_size, channels, inner, context, vocabulary;
    int64_t window;                         /* 0: every token sees all before it */
    uint64_t far[DECODER_MOST_LAYERS / 64]; /* bit per layer: sees all in spite of the window */
    rotary_angles_attributes rotary;        /* rows is not read */
    double near_theta;                      /* of layers with a window; 0: the same */
    decoder_activation activation;
    decoder_order order;
    bool bias_qkv, bias_o, bias_feed, bias_head, tied;
    decoder_experts experts;
    double attention_scale;        /* 0: 1/sqrt(head_size) */
    double cap_scores, cap_logits; /* op_softcap; 0: none */
    double bound_qkv;              /* of queries, keys and values: op_clamp; 0: none */
    bool head_norms;               /* where norms_asked */
    double dropout_embedding, dropout_attention, dropout_residual;
    double epsilon, deviation;
    const char *untrained; /* why it plans only; NULL: it does not */
} decoder_config;

extern const decoder_kind decoder_kinds[];               /* end with type NULL */
const decoder_kind *decoder_kind_find(const char *type); /* NULL: no such */

static inline bool decoder_sees_far(const decoder_config *c, int64_t layer) {
    return !c->window || c->far[layer / 64] >> (layer % 64) & 1u;
}

/* STATUS_INVALID with a sentence, in the words of config.json, when the sizes do not make a model. */
status decoder_check(const decoder_config *c);

/* `c` must outlive the model. */
void decoder_model(const decoder_config *c, const char *name, model *m);
