/* vLLM as a framework that is asked: does it start, with how much room for keys and values. */
#include <math.h>
#include <stdio.h>

#include "estimate/framework.h"

/* ---- asking ---- */

static status check(const framework_subject *q, const framework_settings *s) {
    return vllm_check(q->model, q->config, &s->vllm);
}

static double sum(const vllm_result *v, int which) {
    const interval *parts[] = { &v->weights, &v->activations, &v->graphs, &v->libraries };
    double all = 0;
    for (int i = 0; i < 4; i++)
        all += (double)(which == 0 ? parts[i]->low : which == 1 ? parts[i]->likely : parts[i]->high);
    return all;
}

/* The share is filled with pages whatever the rest takes: idle, activations are given back; graphs are made
 * when pages have their size already. */
static interval reserved_of(const framework_subject *q, const vllm_result *v) {
    double taken = sum(v, 1), cache = (double)v->cache.likely, likely = taken + cache;
    if (!q->hardware->memory)
        return (interval){ (uint64_t)(sum(v, 0) + cache), (uint64_t)likely, (uint64_t)(sum(v, 2) + cache) };
    return (interval){ (uint64_t)(likely - (double)v->activations.likely), (uint64_t)likely,
                       (uint64_t)(likely + (double)(v->graphs.high - v->graphs.likely)) };
}

static void judge(const framework_subject *q, const vllm_result *v, framework_result *r) {
    const hardware *h = q->hardware;
    const interval *whole = &r->layers[FRAMEWORK_DEVICE];
    double missing = v->needed + sum(v, 1) - (double)v->share;
    double over = (double)whole->likely - (double)h->memory;
    r->fits = !h->memory || (missing <= 0 && over <= 0);
    r->surely = r->spares =
        r->fits && (!h->memory || ((double)v->cache.low >= v->needed && whole->high <= h->memory));
    r->left = "of the cache are left beside the texts that were asked for";
    r->beyond = !h->memory ? 0 : r->fits ? (uint64_t)-missing : (uint64_t)fmax(missing, over);
}

static void add_facts(const vllm_result *v, const vllm_settings *s, framework_result *r) {
    const framework_fact facts[] = {
        { "cache_bytes", "keys and values", FRAMEWORK_BYTES, FRAMEWORK_LIVE, (double)v->cache.low,
          (double)v->cache.likely, (double)v->cache.high },
        { "cache_tokens", "tokens that they hold", FRAMEWORK_COUNT, FRAMEWORK_LIVE, (double)v->tokens.low,
          (double)v->tokens.likely, (double)v->tokens.high },
        { "cache_needed_bytes", "needed for texts of --context", FRAMEWORK_BYTES, FRAMEWORK_LIVE, v->needed,
          v->needed, v->needed },
        { "longest_context", "longest text", FRAMEWORK_COUNT, FRAMEWORK_LIVE, (double)v->longest.low,
          (double)v->longest.likely, (double)v->longest.high },
        { "concurrency", "texts of --context at once", FRAMEWORK_TIMES, FRAMEWORK_LIVE, v->concurrency[0],
          v->concurrency[1], v->concurrency[2] },
    };
    (void)s;
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) framework_add_fact(r, &facts[i]);
}

static status estimate(const framework_subject *q, const framework_settings *s, framework_result *r) {
    vllm_result v;
    *r = (framework_result){ .terms_of = FRAMEWORK_RESERVED, .last_layer = FRAMEWORK_RESERVED };
    TRY(vllm_estimate(q->model, q->config, q->hardware, &s->vllm, &v));
    double live = (double)v.weights.likely + (double)v.activations.likely + (double)v.cache.likely;
    double most = (double)v.weights.high + (double)v.activations.high + (double)v.cache.likely;
    interval reserved = reserved_of(q, &v);
    r->parameters = v.parameters;
    r->layers[FRAMEWORK_LIVE] = (interval){ v.weights.low + v.cache.likely, (uint64_t)live, (uint64_t)most };
    framework_place(q, r, &reserved);
    if (q->hardware->memory) r->last_layer = FRAMEWORK_DEVICE;
    framework_add_term(r, "weights", v.weights.likely);
    framework_add_term(r, "activations", v.activations.likely);
    framework_add_term(r, "graphs", v.graphs.likely);
    framework_add_term(r, "libraries", v.libraries.likely);
    framework_add_term(r, "cache", v.cache.likely);
    add_facts(&v, &s->vllm, r);
    judge(q, &v, r);
    /* It refuses to start where one of the longest texts has no room (_check_enough_kv_cache_memory). */
    r->least = v.weights.low + (uint64_t)(v.needed / (double)s->vllm.requests);
    r->unknown[r->unknown_count++] = "vLLM's memory of the host has no rule";
    return STATUS_OK;
}

static void describe(const framework_subject *q, const framework_settings *settings,
                     const framework_result *r, text *out) {
    static const char *const kinds[] = { "16 bits", "fp8", "awq", "gptq", "bitsandbytes" };
    const vllm_settings *s = &settings->vllm;
    text_add(out, "%.2f billion parameters, %s, texts of %lld tokens, batches of %lld tokens and %lld texts",
             (double)r->parameters / 1e9,
             s->wide && s->quantization == SERVED_PLAIN ? "32 bits" : kinds[s->quantization],
             (long long)s->context, (long long)s->batched, (long long)s->sequences);
    if (s->gpus > 1) text_add(out, ", over %lld devices", (long long)s->gpus);
    text_add(out, "\n");
    if (q->hardware->no_bf16 && !s->wide)
        text_add(out, "%s has no bf16: say --dtype half to vLLM where the model's is bfloat16\n",
                 q->hardware->name);
}

static int64_t *variable(framework_settings *s, framework_variable v) {
    switch (v) {
    case FRAMEWORK_BATCH: return &s->vllm.requests;
    case FRAMEWORK_CONTEXT: return &s->vllm.context;
    case FRAMEWORK_GPUS: return &s->vllm.gpus;
    }
    return NULL;
}

/* ---- changes ---- */

static bool to_more_use(const framework_subject *q, framework_settings *s, char *out) {
    (void)q;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--gpu-memory-utilization 0.95");
    return s->vllm.utilization < 0.95 && (s->vllm.utilization = 0.95, true);
}

static bool to_what_fits(const framework_subject *q, framework_settings *s, char *out) {
    return !s->vllm.context_asked && framework_shorten(&framework_vllm, q, s, out);
}

static bool to_shorter(const framework_subject *q, framework_settings *s, char *out) {
    return s->vllm.context_asked && framework_shorten(&framework_vllm, q, s, out);
}

static bool to_eager(const framework_subject *q, framework_settings *s, char *out) {
    (void)q;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--enforce-eager");
    return !s->vllm.eager && (s->vllm.eager = true);
}

static bool to_small_cache(const framework_subject *q, framework_settings *s, char *out) {
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--kv-cache-dtype fp8");
    return q->hardware->f8 > 0 && s->vllm.cache == VLLM_CACHE_AUTO && (s->vllm.cache = VLLM_CACHE_FP8, true);
}

static bool to_fp8(const framework_subject *q, framework_settings *s, char *out) {
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--quantization fp8");
    return q->hardware->f8 > 0 && s->vllm.quantization == SERVED_PLAIN &&
           (s->vllm.quantization = SERVED_FP8, true);
}

static bool to_four_bits(const framework_subject *q, framework_settings *s, char *out) {
    (void)q;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--quantization awq");
    return s->vllm.quantization <= SERVED_FP8 && (s->vllm.quantization = SERVED_AWQ, true);
}

static bool to_more(const framework_subject *q, framework_settings *s, char *out) {
    s->vllm.gpus *= 2;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--gpus %lld", (long long)s->vllm.gpus);
    return s->vllm.gpus <= 64 && check(q, s) == STATUS_OK;
}

static const framework_change changes[] = {
    { .apply = to_more_use },
    { .apply = to_what_fits },
    { .apply = to_eager, .alone = true },
    { .apply = to_small_cache, .alone = true },
    { .apply = to_fp8, .alone = true },
    { .apply = to_shorter, .alone = true },
    { .apply = to_four_bits, .alone = true },
    { .apply = to_more, .repeats = true },
};

const framework framework_vllm = { .name = "vllm",
                                   .title = "vLLM",
                                   .changes = changes,
                                   .change_count = sizeof changes / sizeof *changes,
                                   .check = check,
                                   .estimate = estimate,
                                   .describe = describe,
                                   .variable = variable };
