#include "export/architecture.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/rotary/rotary_math.h"

enum { MOST_LAYERS = 512 /* of llama.cpp */, KEY_BYTES = 80 };

typedef enum { HEAD_EITHER, HEAD_ALWAYS, HEAD_NEVER } own_head;
typedef enum { BIAS_NEVER, BIAS_EITHER, BIAS_ALWAYS } biases;

struct architecture {
    const char *type, *name; /* model_type; what llama.cpp calls it */
    own_head head;
    biases qkv, o, feed;
    decoder_activation activation;
    bool any_gelu;     /* both forms: the difference is that of its table of GELU's values */
    bool paired;       /* neighbours are turned together */
    bool square;       /* heads * head_dim must be hidden_size */
    bool partly;       /* a part of a head may be turned */
    bool llama3, yarn; /* ways to stretch angles */
    int64_t far_every; /* windows, and which layers see all; 0: there are no windows */
    int64_t root_of;   /* so many layers: scores are divided by sqrt(hidden_size / heads) */
    bool caps_scores;
};

static const architecture known[] = {
    { .type = "gpt2", .name = "gpt2" },
    { .type = "llama",
      .name = "llama",
      .qkv = BIAS_EITHER,
      .o = BIAS_EITHER,
      .feed = BIAS_EITHER,
      .paired = true,
      .llama3 = true,
      .yarn = true },
    { .type = "mistral", .name = "llama", .paired = true, .llama3 = true, .yarn = true },
    { .type = "qwen2", .name = "qwen2", .qkv = BIAS_EITHER, .square = true, .yarn = true },
    { .type = "qwen3", .name = "qwen3", .qkv = BIAS_EITHER, .yarn = true },
    { .type = "phi",
      .name = "phi2",
      .head = HEAD_ALWAYS,
      .qkv = BIAS_EITHER,
      .o = BIAS_ALWAYS,
      .feed = BIAS_ALWAYS,
      .activation = DECODER_GELU_TANH,
      .any_gelu = true,
      .square = true,
      .partly = true },
    { .type = "phi3", .name = "phi3", .square = true, .partly = true },
    { .type = "gemma", .name = "gemma", .head = HEAD_NEVER, .activation = DECODER_GELU_TANH },
    { .type = "gemma2",
      .name = "gemma2",
      .head = HEAD_NEVER,
      .activation = DECODER_GELU_TANH,
      .far_every = 2,
      .root_of = 46,
      .caps_scores = true },
    { .type = "gemma3_text",
      .name = "gemma3",
      .activation = DECODER_GELU_TANH,
      .far_every = 6,
      .root_of = 62 },
    { .type = "gpt_neox",
      .name = "gptneox",
      .head = HEAD_ALWAYS,
      .qkv = BIAS_ALWAYS,
      .o = BIAS_ALWAYS,
      .feed = BIAS_ALWAYS,
      .activation = DECODER_GELU_TANH,
      .any_gelu = true,
      .square = true,
      .partly = true },
};
enum { KNOWN = sizeof known / sizeof *known };

const char *architecture_name(const architecture *a) { return a->name; }

/* ---- what can't be said ---- */

static const char *bias_trouble(biases may, bool is, const char *without, const char *with) {
    if (may == BIAS_NEVER && is) return with;
    return may == BIAS_ALWAYS && !is ? without : NULL;
}

static const char *size_trouble(const architecture *a, const decoder_config *c) {
    if (c->layers > MOST_LAYERS) return "llama.cpp has room for 512 layers";
    if (a->square && c->heads * c->head_size != c->channels)
        return "llama.cpp takes num_attention_heads times head_dim for hidden_size in this family";
    bool fits = a->activation == c->activation || (a->any_gelu && c->activation == DECODER_GELU);
    if (!fits) return "llama.cpp computes another hidden_act in this family";
    if (!a->partly && c->rotary.turned != c->head_size)
        return "llama.cpp turns whole heads by the position in this family";
    if (a->head == HEAD_NEVER && !c->tied)
        return "llama.cpp knows no output projection of its own in this family (tie_word_embeddings)";
    return NULL;
}

static const char *biases_trouble(const architecture *a, const decoder_config *c) {
    const char *why = bias_trouble(a->qkv, c->bias_qkv, "llama.cpp wants biases of queries, keys and values",
                                   "llama.cpp has no biases of queries, keys and values in this family");
    if (!why)
        why = bias_trouble(a->o, c->bias_o, "llama.cpp wants a bias of attention's output",
                           "llama.cpp has no bias of attention's output in this family");
    if (!why)
        why = bias_trouble(a->feed, c->bias_feed, "llama.cpp wants biases of the feed-forward part",
                           "llama.cpp has no biases of the feed-forward part in this family");
    return why;
}

static const char *angle_trouble(const architecture *a, const decoder_config *c) {
    const rotary_angles_attributes *r = &c->rotary;
    if (r->stretch == ROTARY_LLAMA3 && !a->llama3)
        return "llama.cpp stretches angles by rope_type llama3 in the family llama only";
    if (r->stretch == ROTARY_LONG) return "rope_type longrope is not written";
    if (r->stretch == ROTARY_YARN && !a->yarn) return "rope_type yarn is not written for this family";
    if (r->stretch == ROTARY_YARN && r->unrounded)
        return "llama.cpp begins and ends yarn's ramp at whole pairs (rope_parameters: truncate)";
    if (r->stretch == ROTARY_YARN && r->original > INT32_MAX)
        return "original_max_position_embeddings is larger than any that llama.cpp keeps";
    return NULL;
}

static const char *window_trouble(const architecture *a, const decoder_config *c) {
    if (!a->far_every || !c->window) return NULL;
    for (int64_t i = 0; i < c->layers; i++)
        if (decoder_sees_far(c, i) != ((i + 1) % a->far_every == 0))
            return "llama.cpp knows which layers have a window by the family, and here it is others";
    return NULL;
}

static const char *score_trouble(const architecture *a, const decoder_config *c) {
    double width = a->root_of == c->layers ? (double)(c->channels / c->heads) : (double)c->head_size;
    if (c->attention_scale > 0 && fabs(c->attention_scale * sqrt(width) - 1) > 1e-6)
        return "llama.cpp knows query_pre_attn_scalar by the family and the number of layers, and here it is "
               "another";
    if (a->caps_scores && !(c->cap_scores > 0 && c->cap_logits > 0))
        return "llama.cpp always bounds scores and logits in this family (attn_logit_softcapping, "
               "final_logit_softcapping)";
    if (!a->caps_scores && c->cap_scores > 0)
        return "llama.cpp does not bound scores in this family (attn_logit_softcapping)";
    return NULL;
}

static const char *trouble(const architecture *a, const model_config *c) {
    if (c->family == FAMILY_GPT2) {
        if (c->gpt2.layers > MOST_LAYERS) return "llama.cpp has room for 512 layers";
        return c->gpt2.tanh ? NULL
                            : "llama.cpp computes GELU's tanh form in this family (activation_function)";
    }
    const decoder_config *d = &c->decoder;
    const char *why = size_trouble(a, d);
    if (!why) why = biases_trouble(a, d);
    if (!why) why = angle_trouble(a, d);
    if (!why) why = window_trouble(a, d);
    return why ? why : score_trouble(a, d);
}

/* ---- finding ---- */

/* Where llama.cpp has no windows, what is longer than one would be computed otherwise. */
static int64_t context_of(const architecture *a, const model_config *c) {
    int64_t all = families_context(c);
    if (c->family == FAMILY_GPT2 || a->far_every || !c->decoder.window || c->decoder.window >= all)
        return all;
    for (int64_t i = 0; i < c->decoder.layers; i++)
        if (!decoder_sees_far(&c->decoder, i)) return c->decoder.window;
    return all;
}

static status find(const char *directory, const char *type, const architecture **a) {
    char names[FAMILIES_NAMES_BYTES];
    size_t used = 0;
    for (*a = known; *a < known + KNOWN; ++*a)
        if (strcmp((*a)->type, type) == 0) return STATUS_OK;
    *a = NULL;
    for (size_t i = 0; i < KNOWN && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", known[i].type);
    return status_set(STATUS_INVALID, "%s: models of the family %s are not written as GGUF; these are: %s",
                      directory, type, names);
}

status architecture_find(const char *directory, const model_config *c, const architecture **a, text *notes) {
    static const char *const others[] = { [FAMILY_GPT2] = "gpt2",
                                          [FAMILY_ENCODER] = "of encoders",
                                          [FAMILY_MODERNBERT] = "of encoders",
                                          [FAMILY_T5] = "t5",
                                          [FAMILY_VIT] = "of images",
                                          [FAMILY_RESNET] = "of images",
                                          [FAMILY_CONVNEXT] = "of images" };
    TRY(find(directory, c->family == FAMILY_DECODER ? c->decoder.kind->type : others[c->family], a));
    const char *why = trouble(*a, c);
    if (why) return status_set(STATUS_INVALID, "%s can't be written as GGUF: %s", directory, why);
    int64_t context = context_of(*a, c);
    if (context < families_context(c))
        text_add(notes,
                 "the file says a context of %lld: llama.cpp has no windows in this family, and within "
                 "one they change nothing\n",
                 (long long)context);
    return STATUS_OK;
}

/* ---- places ---- */

typedef struct {
    const char *module, *name;
} pair;

/* The module that a parameter belongs to, without its layer (-1: it is of none) and ".weight" or ".bias". */
static bool take_apart(const char *layers, const char *parameter, int64_t *layer, char module[KEY_BYTES],
                       const char **ending) {
    size_t prefix = strlen(layers);
    const char *at = parameter;
    char *end;
    *layer = -1;
    if (strncmp(at, layers, prefix) == 0 && at[prefix] == '.' && isdigit((unsigned char)at[prefix + 1])) {
        *layer = strtoll(at + prefix + 1, &end, 10);
        if (*end != '.') return false;
        at = end + 1;
    }
    *ending = strrchr(at, '.');
    return *ending && snprintf(module, KEY_BYTES, "%.*s", (int)(*ending - at), at) < KEY_BYTES;
}

static const char *look_up(const pair *pairs, size_t count, const char *module) {
    for (size_t i = 0; i < count; i++)
        if (pairs[i].module && strcmp(pairs[i].module, module) == 0) return pairs[i].name;
    return NULL;
}

static const char *gpt2_name(const char *module) {
    static const pair pairs[] = { { "transformer.wte", "token_embd" },
                                  { "transformer.wpe", "position_embd" },
                                  { "transformer.ln_f", "output_norm" },
                                  { "lm_head", "output" },
                                  { "ln_1", "attn_norm" },
                                  { "ln_2", "ffn_norm" },
                                  { "attn.c_attn", "attn_qkv" },
                                  { "attn.c_proj", "attn_output" },
                                  { "mlp.c_fc", "ffn_up" },
                                  { "mlp.c_proj", "ffn_down" } };
    return look_up(pairs, sizeof pairs / sizeof *pairs, module);
}

static const char *decoder_name(const decoder_kind *k, const char *module) {
    const pair pairs[] = { { k->embedding, "token_embd" },
                           { k->last_norm, "output_norm" },
                           { k->head, "output" },
                           { k->attention_norm, "attn_norm" },
                           { k->feed_norm, "ffn_norm" },
                           { k->after_attention, "post_attention_norm" },
                           { k->after_feed, "post_ffw_norm" },
                           { k->q, k->packing == DECODER_APART ? "attn_q" : "attn_qkv" },
                           { k->k, "attn_k" },
                           { k->v, "attn_v" },
                           { k->o, "attn_output" },
                           { k->q_norm, "attn_q_norm" },
                           { k->k_norm, "attn_k_norm" },
                           { k->up, "ffn_up" }, /* before gate: packed, both are one module */
                           { k->gate, "ffn_gate" },
                           { k->down, "ffn_down" } };
    return look_up(pairs, sizeof pairs / sizeof *pairs, module);
}

static void set_rows(const architecture *a, const model_config *c, const char *name, bool weight,
                     architecture_place *p) {
    bool query = strcmp(name, "attn_q") == 0, key = strcmp(name, "attn_k") == 0;
    if (c->family == FAMILY_GPT2) {
        bool product = strncmp(name, "attn_", 5) == 0 || strncmp(name, "ffn_", 4) == 0;
        if (product && weight && p->narrow) p->rows = ROWS_TURNED;
        return;
    }
    if (a->paired && (query || key)) {
        p->rows = ROWS_PAIRED;
        p->heads = query ? c->decoder.heads : c->decoder.kv_heads;
    }
    if (c->decoder.kind->packing == DECODER_BY_HEAD && strcmp(name, "attn_qkv") == 0)
        p->rows = ROWS_GATHERED, p->heads = c->decoder.heads;
}

status architecture_place_of(const architecture *a, const model_config *c, const char *parameter,
                             architecture_place *p) {
    bool gpt2 = c->family == FAMILY_GPT2;
    char module[KEY_BYTES];
    const char *ending, *name = NULL;
    int64_t layer;
    *p = (architecture_place){ .rows = ROWS_KEPT };
    if (take_apart(gpt2 ? "transformer.h" : c->decoder.kind->layers, parameter, &layer, module, &ending))
        name = gpt2 ? gpt2_name(module) : decoder_name(c->decoder.kind, module);
    if (!name) return status_set(STATUS_FAILED, "the parameter '%s' has no place in a GGUF file", parameter);
    bool norm = text_ends_with(name, "_norm"), weight = strcmp(ending, ".weight") == 0;
    p->narrow = weight && !norm && strcmp(name, "position_embd") != 0;
    if (norm && weight && !gpt2 && c->decoder.kind->around_one) p->plus = 1;
    set_rows(a, c, name, weight, p);
    if (layer < 0)
        snprintf(p->name, sizeof p->name, "%s%s", name, ending);
    else
        snprintf(p->name, sizeof p->name, "blk.%lld.%s%s", (long long)layer, name, ending);
    return STATUS_OK;
}

bool architecture_copies_head(const architecture *a, const model_config *c) {
    return c->family == FAMILY_DECODER && a->head == HEAD_ALWAYS && c->decoder.tied;
}

int64_t architecture_speeds(const model_config *c) {
    if (c->family != FAMILY_DECODER || c->decoder.rotary.stretch != ROTARY_LLAMA3) return 0;
    return c->decoder.rotary.turned / 2;
}

float architecture_speed(const model_config *c, int64_t pair_) {
    rotary_angles_attributes plain = c->decoder.rotary;
    plain.stretch = ROTARY_PLAIN;
    return (float)(rotary_speed(&plain, pair_) / rotary_speed(&c->decoder.rotary, pair_));
}

/* ---- metadata ---- */

typedef struct {
    gguf_writer *w;
    const char *architecture;
    char key[KEY_BYTES];
} keys;

static const char *key(keys *k, const char *name) {
    snprintf(k->key, sizeof k->key, "%s.%s", k->architecture, name);
    return k->key;
}

static void put_whole(keys *k, const char *name, int64_t value) {
    gguf_put_u32(k->w, key(k, name), (uint32_t)value);
}

static void put_number(keys *k, const char *name, double value) {
    gguf_put_f32(k->w, key(k, name), (float)value);
}

static void put_gpt2(keys *k, const gpt2_config *c) {
    put_whole(k, "block_count", c->layers);
    put_whole(k, "context_length", c->context);
    put_whole(k, "embedding_length", c->channels);
    put_whole(k, "feed_forward_length", c->inner);
    put_whole(k, "attention.head_count", c->heads);
    put_number(k, "attention.layer_norm_epsilon", c->epsilon);
}

static void put_stretch(keys *k, const rotary_angles_attributes *r) {
    if (r->stretch != ROTARY_LINEAR && r->stretch != ROTARY_YARN) return;
    gguf_put_string(k->w, key(k, "rope.scaling.type"), r->stretch == ROTARY_YARN ? "yarn" : "linear");
    put_number(k, "rope.scaling.factor", r->factor);
    if (r->stretch != ROTARY_YARN) return;
    double usual = r->factor > 1 ? 0.1 * log(r->factor) + 1 : 1, gain = r->gain > 0 ? r->gain : 1;
    put_whole(k, "rope.scaling.original_context_length", (int64_t)r->original);
    put_number(k, "rope.scaling.yarn_beta_fast", r->high);
    put_number(k, "rope.scaling.yarn_beta_slow", r->low);
    if (fabs(gain / usual - 1) > 1e-7) put_number(k, "rope.scaling.attn_factor", gain / usual);
}

static void put_window(keys *k, const architecture *a, const decoder_config *c) {
    if (!a->far_every) return;
    if (c->window)
        put_whole(k, "attention.sliding_window", c->window);
    else if (a->caps_scores) /* gemma2 has one in any case: as wide as all */
        put_whole(k, "attention.sliding_window", c->context);
    if (c->near_theta > 0) put_number(k, "rope.freq_base_swa", c->near_theta);
}

static void put_decoder(keys *k, const architecture *a, const model_config *all) {
    const decoder_config *c = &all->decoder;
    put_whole(k, "block_count", c->layers);
    put_whole(k, "context_length", context_of(a, all));
    put_whole(k, "embedding_length", c->channels);
    put_whole(k, "feed_forward_length", c->inner);
    put_whole(k, "vocab_size", c->vocabulary);
    put_whole(k, "attention.head_count", c->heads);
    put_whole(k, "attention.head_count_kv", c->kv_heads);
    put_whole(k, "attention.key_length", c->head_size);
    put_whole(k, "attention.value_length", c->head_size);
    put_number(k, c->kind->layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon",
               c->epsilon);
    put_whole(k, "rope.dimension_count", c->rotary.turned);
    put_number(k, "rope.freq_base", c->rotary.theta);
    put_stretch(k, &c->rotary);
    put_window(k, a, c);
    if (c->cap_scores > 0) put_number(k, "attn_logit_softcapping", c->cap_scores);
    if (c->cap_logits > 0) put_number(k, "final_logit_softcapping", c->cap_logits);
    if (c->kind->packing == DECODER_BY_HEAD)
        gguf_put_bool(k->w, key(k, "use_parallel_residual"), c->order != DECODER_SERIAL);
}

void architecture_put(const architecture *a, const model_config *c, gguf_writer *w) {
    keys k = { .w = w, .architecture = a->name };
    if (c->family == FAMILY_GPT2)
        put_gpt2(&k, &c->gpt2);
    else
        put_decoder(&k, a, c);
}
