#include "estimate/llama_cpp/llama_cpp.h"

#include <math.h>

/* ---- types of caches ---- */

const gguf_type llama_cpp_cache_types[] = { GGUF_F16,  GGUF_BF16, GGUF_F32,  GGUF_Q8_0,  GGUF_Q5_1,
                                            GGUF_Q5_0, GGUF_Q4_1, GGUF_Q4_0, GGUF_IQ4_NL };

const char *llama_cpp_cache_name(gguf_type t) {
    static const char *const names[GGUF_TYPES] = {
        [GGUF_F16] = "f16",   [GGUF_BF16] = "bf16", [GGUF_F32] = "f32",
        [GGUF_Q8_0] = "q8_0", [GGUF_Q5_1] = "q5_1", [GGUF_Q5_0] = "q5_0",
        [GGUF_Q4_1] = "q4_1", [GGUF_Q4_0] = "q4_0", [GGUF_IQ4_NL] = "iq4_nl"
    };
    return names[t];
}

status llama_cpp_check(const model *m, const model_config *c, const llama_cpp_settings *s) {
    heads h;
    if (!heads_of(c, &h))
        return status_set(STATUS_INVALID,
                          "--framework llama.cpp: %s is no decoder, which is what is served here", m->name);
    if (!s->flash && gguf_bits(s->values) < 16)
        return status_set(STATUS_INVALID,
                          "--cache-type-v %s wants flash attention in llama.cpp; leave --attn eager out",
                          llama_cpp_cache_name(s->values));
    int64_t most = h.layers + 1 < LLAMA_CPP_MOST_DEVICES ? h.layers + 1 : LLAMA_CPP_MOST_DEVICES;
    if (s->gpus > most)
        return status_set(STATUS_INVALID, "--gpus %lld: llama.cpp shares %lld layers out among %lld at most",
                          (long long)s->gpus, (long long)h.layers + 1, (long long)most);
    int64_t rows = h.head_size * h.kv_heads;
    if (rows % 32 && (gguf_bits(s->keys) < 16 || gguf_bits(s->values) < 16))
        return status_set(STATUS_INVALID,
                          "--cache-type-k and -v: rows of %lld numbers are no whole blocks of 32; take f16",
                          (long long)rows);
    return STATUS_OK;
}

/* ---- who lies where ---- */

static bool on_device(const heads *h, const llama_cpp_settings *s, int64_t layer) {
    return layer >= h->layers + 1 - s->gpu_layers;
}

static int64_t layers_on_devices(const heads *h, const llama_cpp_settings *s) {
    return s->gpu_layers <= h->layers ? s->gpu_layers : h->layers + 1;
}

/* Bytes by place; place 0 is the host, the devices follow. */
typedef struct {
    double weights[1 + LLAMA_CPP_MOST_DEVICES], cache[1 + LLAMA_CPP_MOST_DEVICES];
} places;

/* Of n layers on G devices number k lies on device k G / n. */
static int64_t place_of(const heads *h, const llama_cpp_settings *s, int64_t layer) {
    int64_t count = layers_on_devices(h, s), first = h->layers + 1 - count;
    return layer < first ? 0 : 1 + (layer - first) * s->gpus / count;
}

/* The table of tokens stays with the host; where the head is tied to it the head's device has a copy. */
static void place_weights(const weights *w, const heads *h, const llama_cpp_settings *s, places *p,
                          llama_cpp_result *r) {
    gguf_model q = { h, w->tied };
    double file = 0;
    int64_t head = place_of(h, s, h->layers);
    for (uint32_t i = 1; i < w->items.count; i++) {
        const weights_item *x = weights_at(w, i);
        double bytes = gguf_bytes(s->mix, &q, x);
        bool input = x->part == WEIGHTS_TABLE || x->part == WEIGHTS_POSITIONS;
        p->weights[input ? 0 : x->block >= 0 ? place_of(h, s, x->block) : head] += bytes;
        file += bytes;
        if (x->part == WEIGHTS_TABLE && w->tied && head) p->weights[head] += bytes;
    }
    r->bits = file * 8 / w->elements;
}

/* ---- keys and values ---- */

static double padded(double tokens) { return ceil(tokens / 256) * 256; }

/* Layers with a window keep it and what one step adds. */
static double cells(const heads *h, const llama_cpp_settings *s, bool near) {
    double all = padded((double)(s->context * s->requests));
    if (!near) return all;
    return fmin(all, padded((double)(h->window * s->requests + s->ubatch)));
}

static void place_cache(const model_config *c, const heads *h, const llama_cpp_settings *s, places *p) {
    double cell = (double)(h->kv_heads * h->head_size) * (gguf_bits(s->keys) + gguf_bits(s->values)) / 8;
    for (int64_t i = 0; i < h->layers; i++) {
        bool near = c->family == FAMILY_DECODER && !decoder_sees_far(&c->decoder, i);
        p->cache[place_of(h, s, i)] += cell * cells(h, s, near);
    }
}

static void keep_fullest(const places *p, const llama_cpp_settings *s, llama_cpp_result *r) {
    int64_t most = 1;
    for (int64_t i = 2; i <= s->gpus; i++)
        if (p->weights[i] + p->cache[i] > p->weights[most] + p->cache[most]) most = i;
    r->host.weights = (uint64_t)p->weights[0], r->host.cache = (uint64_t)p->cache[0];
    r->device.weights = (uint64_t)p->weights[most], r->device.cache = (uint64_t)p->cache[most];
}

/* ---- buffers of the graph ---- */

/* Attention: scores of all heads and the mask that is added to them, beside what comes in, the queries and
 * two more of that width; where q, k and v are one product it is two more still. With flash attention the
 * mask alone, in f32 and f16. */
static double attention_bytes(const weights *w, const heads *h, const llama_cpp_settings *s) {
    double rows = (double)s->ubatch, seen = cells(h, s, false), width = (double)(h->heads * h->head_size);
    bool packed = false;
    for (uint32_t i = 1; i < w->items.count; i++) packed |= weights_at(w, i)->part == WEIGHTS_QKV;
    double beside = rows * 4 * (2 * (double)h->channels + (packed ? 4 : 2) * width);
    double mask = rows * seen * (s->flash ? 6 : 4);
    double scores = s->flash ? 0 : rows * seen * (double)h->heads * 4;
    return scores + mask + beside;
}

static double feed_bytes(const heads *h, const llama_cpp_settings *s) {
    double width = (double)h->inner * (h->experts ? (double)h->chosen : 1);
    return (double)s->ubatch * 4 * (2 * width + 2 * (double)h->channels);
}

/* Logits of a whole step; newer ones hold those that are asked for only. */
static double logits_bytes(const heads *h, const llama_cpp_settings *s) {
    return (double)s->ubatch * 4 * (double)(h->vocabulary + h->channels);
}

/* Of products whose weights lie with the host the device gets a copy when the step is long. */
static double copied_bytes(const weights *w, const heads *h, const llama_cpp_settings *s) {
    gguf_model q = { h, w->tied };
    double most = 0;
    for (uint32_t i = 1; i < w->items.count; i++) {
        const weights_item *x = weights_at(w, i);
        bool head = x->part == WEIGHTS_HEAD || (w->tied && x->part == WEIGHTS_TABLE);
        bool there = on_device(h, s, head ? h->layers : x->block);
        if ((head || x->block >= 0) && !there) most = fmax(most, gguf_bytes(s->mix, &q, x));
    }
    return most;
}

/* Where several devices hold all layers, up to four steps are under way, each with what it is given. */
static double copies_bytes(const heads *h, const llama_cpp_settings *s) {
    enum { MOST_COPIES = 4 };
    if (s->gpus < 2 || layers_on_devices(h, s) <= h->layers) return 0;
    return (MOST_COPIES - 1) * (double)s->ubatch * 4 * (cells(h, s, false) + (double)h->channels);
}

static void place_buffers(const weights *w, const heads *h, const llama_cpp_settings *s,
                          llama_cpp_result *r) {
    double attention = attention_bytes(w, h, s), feed = feed_bytes(h, s), logits = logits_bytes(h, s);
    double least = fmax(s->flash ? attention * 0.5 : attention, feed), copied = copied_bytes(w, h, s);
    double mask = (double)s->ubatch * cells(h, s, false) * 4, rows = (double)(s->ubatch * h->channels) * 4;
    double answers = (double)(s->requests * h->vocabulary) * 4;
    double most = fmax(fmax(attention, feed), logits) + copies_bytes(h, s);
    if (r->on_device)
        r->device.compute =
            (interval){ (uint64_t)least, (uint64_t)(most + copied), (uint64_t)(most * 1.1 + copied) };
    double host = r->on_device ? mask + rows + answers : most + answers;
    r->host.compute =
        (interval){ (uint64_t)(r->on_device ? rows : least), (uint64_t)host, (uint64_t)(host * 1.1) };
}

status llama_cpp_estimate(const model *m, const model_config *c, const llama_cpp_settings *s,
                          llama_cpp_result *r) {
    heads h;
    weights w;
    places p = { { 0 }, { 0 } };
    *r = (llama_cpp_result){ 0 };
    heads_of(c, &h);
    status result = weights_open(m, &w);
    if (result == STATUS_OK) {
        r->parameters = (uint64_t)w.elements;
        r->layers = h.layers + 1;
        r->on_device = layers_on_devices(&h, s);
        place_weights(&w, &h, s, &p, r);
        place_cache(c, &h, s, &p);
        keep_fullest(&p, s, r);
        place_buffers(&w, &h, s, r);
    }
    weights_close(&w);
    return result;
}
