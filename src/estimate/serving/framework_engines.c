/* SGLang and TensorRT-LLM as frameworks that are asked: do they start, with how much room for keys and
 * values, and is what they leave beside it enough. */
#include <math.h>
#include <stdio.h>

#include "estimate/framework.h"

static bool is_sglang(const framework_settings *s) { return s->engine.is_sglang; }

static status check(const framework_subject *q, const framework_settings *s) {
    const char *title = is_sglang(s) ? "SGLang" : "TensorRT-LLM",
               *named = is_sglang(s) ? "sglang" : "tensorrt-llm";
    TRY(served_check(q->model, q->config, s->engine.gpus, title, named));
    return engine_check(&s->engine, title);
}

/* ---- the answer ---- */

static double sum(const engine_result *v, int which) {
    const interval *parts[] = { &v->weights, &v->activations, &v->graphs, &v->libraries, &v->tables };
    double all = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        all += (double)(which == 0 ? parts[i]->low : which == 1 ? parts[i]->likely : parts[i]->high);
    return all;
}

/* The cache takes its fraction whatever the rest turns out to be: the interval is that of the rest. */
static interval reserved_of(const engine_result *v) {
    double cache = (double)v->cache.likely, held = (double)v->weights.likely;
    double less = held - (double)v->weights.low, more = (double)v->weights.high - held;
    return (interval){ (uint64_t)(sum(v, 0) + cache + less), (uint64_t)(sum(v, 1) + cache),
                       (uint64_t)(sum(v, 2) + cache - more) };
}

static void judge(const framework_subject *q, const engine_settings *s, const engine_result *v,
                  framework_result *r) {
    bool named = q->hardware->memory != 0, runs = !s->running || s->requests <= s->running;
    double beside = v->wanted[1] - v->headroom;
    r->fits = runs && (!named || (v->missing <= 0 && beside <= 0));
    r->surely = r->spares =
        r->fits && (!named || ((double)v->cache.low >= v->needed && v->wanted[2] <= v->headroom));
    r->left = "of the cache are left beside the texts that were asked for";
    r->beyond = !named    ? 0
                : r->fits ? (uint64_t)((double)v->cache.likely - v->needed)
                          : (uint64_t)fmin(fmax(fmax(v->missing, beside), 1), 0x1p62);
}

static void add_facts(const framework_subject *q, const engine_result *v, framework_result *r) {
    const double *n = v->concurrency;
    const framework_fact facts[] = {
        { "cache_bytes", "keys and values", FRAMEWORK_BYTES, FRAMEWORK_LIVE, (double)v->cache.low,
          (double)v->cache.likely, (double)v->cache.high },
        { "cache_tokens", "tokens that they hold", FRAMEWORK_COUNT, FRAMEWORK_LIVE, (double)v->tokens.low,
          (double)v->tokens.likely, (double)v->tokens.high },
        { "cache_needed_bytes", "needed for texts of --context", FRAMEWORK_BYTES, FRAMEWORK_LIVE, v->needed,
          v->needed, v->needed },
        { "concurrency", "texts of --context at once", FRAMEWORK_TIMES, FRAMEWORK_LIVE, n[0], n[1], n[2] },
        { "headroom_bytes", "left beside the fraction", FRAMEWORK_BYTES, FRAMEWORK_LIVE, v->headroom,
          v->headroom, v->headroom },
        { "headroom_needed_bytes", "of which are needed", FRAMEWORK_BYTES, FRAMEWORK_LIVE, v->wanted[0],
          v->wanted[1], v->wanted[2] },
    };
    size_t count = q->hardware->memory ? sizeof facts / sizeof *facts : 4;
    for (size_t i = 0; i < count; i++) framework_add_fact(r, &facts[i]);
}

static status estimate(const framework_subject *q, const framework_settings *s, framework_result *r) {
    engine_result v;
    *r = (framework_result){ .terms_of = FRAMEWORK_RESERVED, .last_layer = FRAMEWORK_RESERVED };
    TRY((is_sglang(s) ? engine_sglang : engine_trtllm)(q->model, q->config, q->hardware, &s->engine, &v));
    interval reserved = reserved_of(&v);
    const uint64_t cache = v.cache.likely;
    r->parameters = v.parameters;
    r->layers[FRAMEWORK_LIVE] =
        (interval){ v.weights.low + cache, v.weights.likely + v.tables.likely + v.activations.likely + cache,
                    v.weights.high + v.tables.high + v.activations.high + cache };
    framework_place(q, r, &reserved);
    if (q->hardware->memory) r->last_layer = FRAMEWORK_DEVICE;
    framework_add_term(r, "weights", v.weights.likely);
    framework_add_term(r, "activations", v.activations.likely);
    framework_add_term(r, "graphs", v.graphs.likely);
    framework_add_term(r, "libraries", v.libraries.likely);
    if (v.tables.likely) framework_add_term(r, "tables", v.tables.likely);
    framework_add_term(r, "cache", cache);
    add_facts(q, &v, r);
    judge(q, &s->engine, &v, r);
    double token = v.needed / ((double)s->engine.requests * (double)s->engine.context);
    r->least =
        v.weights.low + (uint64_t)(token * (double)s->engine.page); /* longer texts are cut or refused */
    r->unknown[r->unknown_count++] = is_sglang(s) ? "SGLang's memory of the host has no rule"
                                                  : "TensorRT-LLM's memory of the host has no rule";
    return STATUS_OK;
}

static void describe(const framework_subject *q, const framework_settings *settings,
                     const framework_result *r, text *out) {
    static const char *const kinds[] = { "16 bits", "fp8", "awq", "gptq", "bitsandbytes" };
    const engine_settings *s = &settings->engine;
    engine_result v;
    text_add(out, "%.2f billion parameters, %s, texts of %lld tokens, steps of %lld tokens",
             (double)r->parameters / 1e9,
             s->wide && s->quantization == SERVED_PLAIN ? "32 bits" : kinds[s->quantization],
             (long long)s->context, (long long)s->chunk);
    if (s->gpus > 1) text_add(out, ", over %lld devices", (long long)s->gpus);
    status told = (s->is_sglang ? engine_sglang : engine_trtllm)(q->model, q->config, q->hardware, s, &v);
    if (q->hardware->memory && told == STATUS_OK)
        text_add(out, s->is_sglang ? ", --mem-fraction-static %.3f" : ", --free-gpu-memory-fraction %.2f",
                 v.fraction);
    text_add(out, "\n");
}

static int64_t *variable(framework_settings *s, framework_variable v) {
    switch (v) {
    case FRAMEWORK_BATCH: return &s->engine.requests;
    case FRAMEWORK_CONTEXT: return &s->engine.context;
    case FRAMEWORK_GPUS: return &s->engine.gpus;
    }
    return NULL;
}

/* ---- changes ---- */

/* The fraction, by thousandths, with which both sides have room: more than the half of it is tried. */
static bool to_fraction(const framework_subject *q, framework_settings *s, char *out) {
    engine_settings *e = &s->engine;
    engine_result v;
    if (!q->hardware->memory || !e->is_sglang) return false;
    if (engine_sglang(q->model, q->config, q->hardware, e, &v) != STATUS_OK) return false;
    double whole = v.headroom / (1 - v.fraction);
    double most = floor((1 - v.wanted[1] / whole) * 1000) / 1000;
    if (!(most > 0) || fabs(most - v.fraction) < 0.0005) return false;
    e->fraction = most;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--mem-fraction-static %.3f", most);
    return true;
}

static const framework *framework_of_engine(const framework_settings *s) {
    return s->engine.is_sglang ? &framework_sglang : &framework_trtllm;
}

static bool to_what_fits(const framework_subject *q, framework_settings *s, char *out) {
    return !s->engine.context_asked && framework_shorten(framework_of_engine(s), q, s, out);
}

static bool to_shorter(const framework_subject *q, framework_settings *s, char *out) {
    return s->engine.context_asked && framework_shorten(framework_of_engine(s), q, s, out);
}

static bool to_small_steps(const framework_subject *q, framework_settings *s, char *out) {
    (void)q;
    engine_settings *e = &s->engine;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "%s 2048",
             e->is_sglang ? "--chunked-prefill-size" : "--max-num-tokens");
    return e->chunk > 2048 && (e->chunk = 2048, true);
}

static bool to_few_texts(const framework_subject *q, framework_settings *s, char *out) {
    (void)q;
    engine_settings *e = &s->engine;
    int64_t texts = e->requests > 64 ? e->requests : 64;
    if (!e->is_sglang || (e->running && e->running <= texts)) return false;
    e->running = texts;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--max-running-requests %lld", (long long)texts);
    return true;
}

static bool to_small_cache(const framework_subject *q, framework_settings *s, char *out) {
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--kv-cache-dtype fp8");
    return q->hardware->f8 > 0 && !s->engine.small_cache && (s->engine.small_cache = true);
}

static bool to_fp8(const framework_subject *q, framework_settings *s, char *out) {
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--quantization fp8");
    return q->hardware->f8 > 0 && s->engine.quantization == SERVED_PLAIN &&
           (s->engine.quantization = SERVED_FP8, true);
}

static bool to_four_bits(const framework_subject *q, framework_settings *s, char *out) {
    (void)q;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--quantization awq");
    return s->engine.quantization <= SERVED_FP8 && (s->engine.quantization = SERVED_AWQ, true);
}

static bool to_more(const framework_subject *q, framework_settings *s, char *out) {
    s->engine.gpus *= 2;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--gpus %lld", (long long)s->engine.gpus);
    return s->engine.gpus <= 64 && check(q, s) == STATUS_OK;
}

/* A smaller table of texts or smaller steps leave room, which the fraction then gives to the cache. */
static const framework_change changes[] = {
    { .apply = to_few_texts },
    { .apply = to_small_steps },
    { .apply = to_fraction },
    { .apply = to_what_fits },
    { .apply = to_small_cache, .alone = true },
    { .apply = to_fp8, .alone = true },
    { .apply = to_shorter, .alone = true },
    { .apply = to_four_bits, .alone = true },
    { .apply = to_more, .repeats = true },
};
enum { CHANGES = sizeof changes / sizeof *changes };

const framework framework_sglang = { .name = "sglang",
                                     .title = "SGLang",
                                     .changes = changes,
                                     .change_count = CHANGES,
                                     .check = check,
                                     .estimate = estimate,
                                     .describe = describe,
                                     .variable = variable };
const framework framework_trtllm = { .name = "tensorrt-llm",
                                     .title = "TensorRT-LLM",
                                     .changes = changes,
                                     .change_count = CHANGES,
                                     .check = check,
                                     .estimate = estimate,
                                     .describe = describe,
                                     .variable = variable };
