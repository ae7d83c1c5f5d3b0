#include "estimate/serving/engine.h"

#include <math.h>

#define MIB (1024.0 * 1024.0)

/* Numbers of the logits of a text that is sampled: in 16 bits, widened, and their softmax. */
enum { SAMPLED_LOW = 6, SAMPLED = 10 };

/* Buffers of collectives on each of several devices, and what libraries take beside tensors. */
static const double collectives[3] = { 200 * MIB, 500 * MIB, 1200 * MIB };
static const double libraries[3] = { 32 * MIB, 256 * MIB, 900 * MIB };

static interval of_three(const double x[3]) {
    return (interval){ (uint64_t)fmax(x[0], 0), (uint64_t)fmax(x[1], 0), (uint64_t)fmax(x[2], 0) };
}

static double at(const interval *x, int which) {
    return (double)(which == 0 ? x->low : which == 1 ? x->likely : x->high);
}

static served_form form_of(const engine_settings *s) {
    return (served_form){ .quantization = s->quantization, .wide = s->wide, .gpus = s->gpus };
}

/* ---- what SGLang chooses by itself ---- */

/* By the device's memory: tokens of a piece of a prompt, and texts of the largest graph on fewer than four
 * devices and on more. */
typedef struct {
    double below; /* MiB */
    int64_t chunk, graph_few, graph_many;
} sglang_size;
static const sglang_size sglang_sizes[] = {
    { 20 * 1024, 2048, 8, 8 },      { 35 * 1024, 4096, 48, 160 },  { 60 * 1024, 4096, 32, 160 },
    { 160 * 1024, 8192, 256, 512 }, { HUGE_VAL, 16384, 512, 512 },
};

void engine_sglang_defaults(const hardware *h, engine_settings *s) {
    double memory = (double)h->memory / MIB;
    const sglang_size *x = sglang_sizes;
    s->page = 1;
    if (!h->memory) { /* nothing is known of the device */
        s->chunk = 4096, s->graph_batch = 160;
        return;
    }
    while (memory >= x->below) x++;
    s->chunk = x->chunk;
    s->graph_batch = s->gpus < 4 ? x->graph_few : x->graph_many;
}

/* Sizes of pieces of prompts that are captured: by 4, 16, 32, 64, 256 and 512. */
static double prompt_graphs(int64_t chunk) {
    static const struct {
        int64_t from, to, by;
    } parts[] = { { 4, 32, 4 },      { 48, 256, 16 },     { 288, 512, 32 },
                  { 576, 1024, 64 }, { 1280, 4096, 256 }, { 4608, INT64_MAX, 512 } };
    int64_t count = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        int64_t last = chunk < parts[i].to ? chunk : parts[i].to;
        if (last >= parts[i].from) count += (last - parts[i].from) / parts[i].by + 1;
    }
    return (double)count;
}

/* MiB that it leaves for graphs. */
static double sglang_graphs(const engine_settings *s) {
    return s->graph_batch ? 2 * (double)s->graph_batch + 8 * prompt_graphs(s->chunk) : 0;
}

static double sglang_fraction(const hardware *h, const engine_settings *s) {
    double memory = (double)h->memory / MIB, left;
    if (s->fraction > 0 || !h->memory) return s->fraction > 0 ? s->fraction : 0.95;
    left = 512 + 1.5 * fmax((double)s->chunk, 2048) + (double)s->gpus / 8 * 1024 + sglang_graphs(s);
    if (memory > 60 * 1024) left = fmax(left, 10 * 1024);
    return fmax(round((memory - left) / memory * 1000) / 1000, 0);
}

/* ---- the cache ---- */

static double token_bytes(const heads *h, const engine_settings *s) {
    return served_token(h, s->gpus, s->small_cache ? 1 : s->wide ? 4 : 2) * (double)h->layers;
}

static double paged(double tokens, const engine_settings *s) {
    return ceil(tokens / (double)s->page) * (double)s->page;
}

static void fill_cache(const heads *h, const engine_settings *s, engine_result *r) {
    double token = token_bytes(h, s), one = paged((double)s->context, s), tokens[3];
    for (int i = 0; i < 3; i++) {
        tokens[i] = floor(at(&r->cache, i) / token / (double)s->page) * (double)s->page;
        r->concurrency[i] = tokens[i] / one;
    }
    r->tokens = of_three(tokens);
}

/* ---- what both hold ---- */

static void hold(const weights *w, const model_config *c, const heads *h, const engine_settings *s,
                 engine_result *r) {
    served_form f = form_of(s);
    double bytes = served_weights(w, c, h, &f), spread = f.quantization == SERVED_PLAIN ? 0.003 : 0.03;
    const double around[3] = { bytes * (1 - spread), bytes, bytes * (1 + spread) };
    r->weights = of_three(around);
    r->parameters = (uint64_t)w->elements;
    r->needed = paged((double)s->context, s) * token_bytes(h, s) * (double)s->requests;
    r->libraries = of_three(libraries);
}

static double sampled(const heads *h, double texts, int each) { return texts * (double)h->vocabulary * each; }

/* A step of `chunk` tokens, or the logits of a step of texts. */
static interval step_of(const heads *h, const engine_settings *s, double least_texts, double most_texts) {
    served_form f = form_of(s);
    double rows = (double)s->chunk, asked = (double)s->requests;
    const double x[3] = { fmax(rows * served_row(h, &f, true), sampled(h, least_texts, SAMPLED_LOW)),
                          fmax(rows * served_row(h, &f, false),
                               sampled(h, fmax(asked, least_texts), SAMPLED)),
                          fmax(rows * served_row(h, &f, false) * 1.2, sampled(h, most_texts, SAMPLED)) };
    return of_three(x);
}

/* ---- SGLang ---- */

enum { SGLANG_LEAST_TEXTS = 2048, SGLANG_MOST_TEXTS = 4096, SGLANG_MORE_CONTEXT = 4 };

static double sglang_texts(const engine_settings *s, double tokens) {
    double texts = floor(tokens / (double)s->context * 512);
    texts = fmin(fmax(texts, SGLANG_LEAST_TEXTS), SGLANG_MOST_TEXTS);
    return fmin(s->running ? (double)s->running : texts, floor(tokens / 2));
}

/* Where each token of each text lies: a number of 32 bits for all tokens that a text may have. */
static double sglang_table(const engine_settings *s, double texts) {
    return (texts + 1) * ((double)s->context + SGLANG_MORE_CONTEXT) * 4;
}

static void sglang_beside(const heads *h, const engine_settings *s, engine_result *r) {
    double graphs = sglang_graphs(s) * MIB, texts[3], tables[3];
    const double taken[3] = { graphs / 4, graphs / 2, graphs };
    for (int i = 0; i < 3; i++) {
        texts[i] = sglang_texts(s, at(&r->tokens, i));
        tables[i] = sglang_table(s, texts[i]);
    }
    r->graphs = of_three(taken);
    r->tables = of_three(tables);
    double least = fmin(fmax((double)s->graph_batch, 1), texts[1]);
    r->activations = step_of(h, s, least, fmin(texts[2], fmax(r->concurrency[2], least)));
    for (int i = 0; i < 3; i++)
        r->wanted[i] = at(&r->activations, i) + at(&r->graphs, i) + at(&r->tables, i) + at(&r->libraries, i);
}

static void sglang_take(const heads *h, const hardware *on, const engine_settings *s, engine_result *r) {
    double cache[3] = { r->needed, r->needed, r->needed };
    r->fraction = sglang_fraction(on, s);
    r->headroom = HUGE_VAL;
    for (int i = 0; on->memory && i < 3; i++) { /* the cache is least where the rest is most */
        double sent = s->gpus > 1 ? collectives[2 - i] : 0;
        double before = (double)on->memory - (double)on->context[2 - i] - sent;
        cache[i] = before * r->fraction - at(&r->weights, 2 - i);
        if (i == 1) r->headroom = floor(before * (1 - r->fraction));
        if (i == 1) r->missing = r->needed - cache[i];
    }
    r->cache = of_three(cache);
    fill_cache(h, s, r);
    sglang_beside(h, s, r);
}

/* ---- TensorRT-LLM ---- */

void engine_trtllm_defaults(engine_settings *s) {
    s->page = 32, s->chunk = 8192, s->running = 2048, s->graph_batch = 128;
}

/* Graphs of 1, 2, 4 and by 8 texts; a tenth of a MiB of a layer each (vLLM's reports, 8 MiB for 67). */
static void trtllm_beside(const heads *h, const engine_settings *s, engine_result *r) {
    double count = s->graph_batch ? 3 + floor((double)s->graph_batch / 8) : 0;
    double graphs = count * (double)h->layers * MIB;
    const double taken[3] = { 0.05 * graphs, 0.12 * graphs, 0.36 * graphs };
    r->graphs = of_three(taken);
    r->activations = step_of(h, s, 1, 1);
}

/* Later steps have more texts than the one that was measured; their logits must find room in what is left. */
static void trtllm_take(const heads *h, const hardware *on, const engine_settings *s, engine_result *r) {
    double cache[3] = { r->needed, r->needed, r->needed };
    r->fraction = s->fraction > 0 ? s->fraction : 0.9;
    r->headroom = HUGE_VAL;
    trtllm_beside(h, s, r);
    for (int i = 0; on->memory && i < 3; i++) {
        int of = 2 - i;
        double taken = at(&r->weights, of) + at(&r->activations, of) + at(&r->graphs, of);
        taken += at(&r->libraries, of) + (double)on->context[of] + (s->gpus > 1 ? collectives[of] : 0);
        double left = (double)on->memory - taken;
        cache[i] = left * r->fraction;
        if (i == 1) r->headroom = floor(fmax(left * (1 - r->fraction), 0));
        if (i == 1) r->missing = r->needed / r->fraction - left;
    }
    r->cache = of_three(cache);
    fill_cache(h, s, r);
    for (int i = 0; i < 3; i++)
        r->wanted[i] = sampled(h, fmin((double)s->running, (double)s->requests), i ? SAMPLED : SAMPLED_LOW);
}

/* ---- the whole ---- */

status engine_check(const engine_settings *s, const char *title) {
    if (s->page & (s->page - 1))
        return status_set(STATUS_INVALID, "pages of %lld tokens: %s has pages of a power of two",
                          (long long)s->page, title);
    if (s->running && s->requests > s->running)
        return status_set(STATUS_INVALID, "--requests %lld is more than the %lld texts that %s runs at once",
                          (long long)s->requests, (long long)s->running, title);
    return STATUS_OK;
}

static status estimate(const model *m, const model_config *c, const hardware *on, const engine_settings *s,
                       void (*take)(const heads *h, const hardware *on, const engine_settings *s,
                                    engine_result *r),
                       engine_result *r) {
    heads h;
    weights w;
    *r = (engine_result){ 0 };
    heads_of(c, &h);
    status result = weights_open(m, &w);
    if (result == STATUS_OK) {
        hold(&w, c, &h, s, r);
        take(&h, on, s, r);
    }
    weights_close(&w);
    return result;
}

status engine_sglang(const model *m, const model_config *c, const hardware *h, const engine_settings *s,
                     engine_result *r) {
    return estimate(m, c, h, s, sglang_take, r);
}

status engine_trtllm(const model *m, const model_config *c, const hardware *h, const engine_settings *s,
                     engine_result *r) {
    return estimate(m, c, h, s, trtllm_take, r);
}
