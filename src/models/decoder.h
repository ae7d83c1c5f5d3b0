/* Decoders with rotary positions: one builder for Llama, Mistral, Qwen, Phi, Gemma, GPT-NeoX, OLMo 2 and 3,
 * Granite, SmolLM3, GLM, StarCoder2, Falcon, Cohere, StableLM, EXAONE 4, ERNIE 4.5 and their kin.
 *
 * What tells them apart is data. A *kind* is what a model_type of Hugging Face fixes: the names of its
 * weights and the order of its blocks. The *configuration* is what a config.json may choose.
 *
 *     one after the other:  x += o(attend(norm x));  x += feed(norm x)
 *     parallel:             x += o(attend(norm x)) + feed(norm x), with one norm or two
 *
 * A kind may have norms behind a half in place of those before it (OLMo 2) or beside them (Gemma 2, GLM-4).
 *
 * Names and layouts of the parameters are those of transformers: products are x W' + b with W of (out, in).
 * Papers: Touvron et al., arXiv:2307.09288 (Llama); Jiang et al., arXiv:2310.06825 (Mistral); Black et al.,
 * arXiv:2204.06745 (GPT-NeoX); Gemma team, arXiv:2403.08295; Yang et al., arXiv:2505.09388 (Qwen3);
 * OLMo team, arXiv:2501.00656 (OLMo 2); Lozhkov et al., arXiv:2402.19173 (StarCoder2); Almazrouei et al.,
 * arXiv:2311.16867 (Falcon); GLM team, arXiv:2406.12793; LG AI Research, arXiv:2507.11407 (EXAONE 4);
 * Bellagente et al., arXiv:2402.17834 (StableLM 2); squared relu: So et al., arXiv:2109.08668. */
#pragma once

#include "models/decoder_experts.h"
#include "models/model.h"
#include "ops/rotary/rotary.h"

/* How the weights of queries, keys and values are kept. */
typedef enum {
    DECODER_APART,
    DECODER_PACKED,  /* one product, q | k | v */
    DECODER_BY_HEAD, /* one product: queries that share a key, that key, its value; of the next key ... */
} decoder_packing;

typedef enum { DECODER_SERIAL, DECODER_PARALLEL, DECODER_PARALLEL_TWO_NORMS } decoder_order;
typedef enum { DECODER_NO_WINDOWS, DECODER_WINDOWS, DECODER_WINDOWS_ASKED } decoder_windows;
typedef enum { DECODER_SILU, DECODER_GELU, DECODER_GELU_TANH, DECODER_RELU2 } decoder_activation;

/* What config.json calls a value of the kind; NULL: as Llama's does. */
typedef struct {
    const char *kv_heads, *inner, *activation, *epsilon, *dropout_embedding, *dropout_residual;
    const char *biases; /* chooses those of all products of blocks at once */
    const char *bias_qkv, *bias_o;
    const char *logits; /* a factor of them; NULL: none is read */
} decoder_keys;

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
    bool bare_norms;       /* layer norms have scales and no biases */
    bool turned_first;     /* norms of queries and keys see them turned */
    bool around_one;       /* scales of norms are stored as their distance from 1 */
    bool scaled_embedding; /* by sqrt(channels) */
    bool fixed_biases;     /* config.json does not choose them */
    bool bare_o;           /* attention_bias does not speak of o */
    bool neighbours;       /* pairs that turn stand side by side (op_rotary) */
    bool turns_asked;      /* no_rope_layers says which layers turn nothing */
    bool turns_near;       /* layers without a window turn nothing ... */
    bool turns_windowless; /* ... unless no layer has one */
    bool near_plain;       /* layers with a window turn by theta, however those without are stretched */
    bool order_asked;      /* use_parallel_residual may choose other_order */
    bool drops_feed;       /* hidden_dropout is of the feed-forward half alone */
    bool multiplied;       /* embedding_multiplier and its like are read */
    bool unjudged;         /* transformers has no class of it that judges whole samples */
    decoder_keys keys;
    model_spelling spelling; /* gelu_whole: where config.json is silent */
    decoder_windows windows;
    decoder_order other_order;
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
    double logits_factor, dropout;   /* dropout: everywhere but behind embeddings */
    int64_t context, inner_times;    /* 0: config.json must say it; inner_times: of channels */
    int64_t turns_every;             /* where turns_asked: every so many layers one turns nothing */
    bool tied;
} decoder_kind;

typedef struct {
    const decoder_kind *kind;
    int64_t layers, heads, kv_heads, head_size, channels, inner, context, vocabulary;
    int64_t window;                         /* 0: every token sees all before it */
    uint64_t far[DECODER_MOST_LAYERS / 64]; /* bit per layer: sees all in spite of the window */
    rotary_angles_attributes rotary;        /* rows is not read */
    double near_theta;                      /* of layers with a window; 0: the same */
    decoder_activation activation;
    bool gelu_whole; /* model_spelling */
    decoder_order order;
    bool bias_qkv, bias_o, bias_feed, bias_head, tied;
    decoder_experts experts;
    double attention_scale;                   /* 0: 1/sqrt(head_size) */
    double cap_scores, cap_logits;            /* op_softcap; 0: none */
    double bound_qkv;                         /* of queries, keys and values: op_clamp; 0: none */
    bool head_norms;                          /* where norms_asked */
    bool lacks_norms;                         /* of queries and keys: asked for, and not built */
    uint64_t still[DECODER_MOST_LAYERS / 64]; /* bit per layer: positions turn nothing */
    /* What embeddings, what each half adds, and logits are multiplied by; 0: nothing. */
    double embedding_factor, residual_factor, logits_factor;
    double dropout_embedding, dropout_attention, dropout_residual;
    double epsilon, deviation;
    const char *untrained; /* why it plans only; NULL: it does not */
} decoder_config;

extern const decoder_kind decoder_kinds[];               /* end with type NULL */
const decoder_kind *decoder_kind_find(const char *type); /* the first of that type; NULL: no such */
/* Of a type that has several kinds, as Falcon has: they differ in these. NULL: no such. */
const decoder_kind *decoder_kind_of(const char *type, decoder_packing packing, decoder_order order);

static inline bool decoder_turns(const decoder_config *c, int64_t layer) {
    return !(c->still[layer / 64] >> (layer % 64) & 1u);
}

static inline bool decoder_sees_far(const decoder_config *c, int64_t layer) {
    return !c->window || c->far[layer / 64] >> (layer % 64) & 1u;
}

/* STATUS_INVALID with a sentence, in the words of config.json, when the sizes do not make a model. */
status decoder_check(const decoder_config *c);

/* `c` must outlive the model. */
void decoder_model(const decoder_config *c, const char *name, model *m);
