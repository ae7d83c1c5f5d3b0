#define _GNU_SOURCE
#include "infer/generate.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/philox.h"
#include "base/threads.h"
#include "base/units.h"
#include "exec/exec.h"
#include "infer/sample.h"
#include "io/model_files.h"

enum { LINE_END = 10 }; /* what an empty prompt begins after */

/* ---- the prompt ---- */

typedef struct {
    const unsigned char *ids;
    int64_t count;
} prompt;

static status check_options(const generate_options *o) {
    if (o->tokens < 0) return status_set(STATUS_INVALID, "%lld tokens cannot be added", (long long)o->tokens);
    if (!(o->temperature >= 0 && o->temperature <= 1000))
        return status_set(STATUS_INVALID, "the temperature is %g; it must be from 0 to 1000", o->temperature);
    if (o->top_k < 0)
        return status_set(STATUS_INVALID, "top-k is %lld; it must be 0 (all) or more", (long long)o->top_k);
    return STATUS_OK;
}

static status read_prompt(const generate_options *o, const gpt2_config *c, prompt *p) {
    static const unsigned char beginning[] = { LINE_END };
    bool given = o->prompt && *o->prompt;
    p->ids = given ? (const unsigned char *)o->prompt : beginning;
    p->count = given ? (int64_t)strlen(o->prompt) : 1;
    if (p->count >= c->context && o->tokens > 0)
        return status_set(STATUS_INVALID,
                          "the prompt has %lld tokens and the context %lld: nothing can be added",
                          (long long)p->count, (long long)c->context);
    for (int64_t i = 0; i < p->count; i++)
        if (p->ids[i] >= c->vocabulary)
            return status_set(STATUS_INVALID,
                              "byte %lld of the prompt is %d; the model knows the ids 0 to %lld",
                              (long long)i, p->ids[i], (long long)c->vocabulary - 1);
    return STATUS_OK;
}

/* ---- one run ---- */

typedef struct {
    const generate_options *options;
    gpt2_config config;
    model model;
    prompt prompt;
    plan plan;
    exec *exec;
} generation;

static status make_plan(generation *g) {
    const generate_options *o = g->options;
    lower_options lower = { .threads = o->threads > 0 ? o->threads : threads_available() };
    lower.rates = device_rates_default(lower.threads);
    threads_set(lower.threads);
    TRY(compose_decode(&g->model, &lower, &g->plan));
    memory_trim();
    uint64_t needed = g->plan.peak_bytes;
    if (!o->memory || needed <= o->memory) return STATUS_OK;
    char budget[UNITS_TEXT_BYTES], bytes[UNITS_TEXT_BYTES], more[UNITS_TEXT_BYTES];
    return status_set(STATUS_NO_FIT, "generating with %s does not fit %s: it needs %s (%llu bytes), %s more",
                      g->model.name, units_bytes_text(o->memory, budget), units_bytes_text(needed, bytes),
                      (unsigned long long)needed, units_bytes_text(needed - o->memory, more));
}

static status load_weights(const generation *g) {
    const plan *p = &g->plan;
    model_weight *weights = memory_new(p->persistent_count + 1u, sizeof *weights);
    if (!weights) return status_set(STATUS_FAILED, "no memory to list the weights");
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->persistent_count; i++) {
        const plan_persistent *x = &p->persistent[i];
        if (x->category != CATEGORY_WEIGHTS) continue;
        weights[count++] =
            (model_weight){ .name = x->name, .shape = x->shape, .data = exec_persistent(g->exec, x->name) };
    }
    status result = model_files_load(g->options->directory, weights, count);
    memory_free(weights);
    return result;
}

/* The logits after one more token. */
static const float *feed(const generation *g, int32_t id, int64_t position) {
    *(int32_t *)exec_input(g->exec, PROGRAM_DECODE, "tokens") = id;
    *(int32_t *)exec_input(g->exec, PROGRAM_DECODE, "position") = (int32_t)position;
    exec_run(g->exec, PROGRAM_DECODE);
    return exec_output(g->exec, PROGRAM_DECODE, "logits");
}

static status continue_text(const generation *g, generate_result *r) {
    const generate_options *o = g->options;
    sample_options how = { .temperature = o->temperature, .top_k = o->top_k, .seed = o->seed };
    const float *logits = NULL;
    double begin = clock_seconds();
    int64_t position = 0;
    for (; position < g->prompt.count; position++) logits = feed(g, g->prompt.ids[position], position);
    r->prompt_tokens = position;
    r->seconds_prompt = clock_seconds() - begin;
    begin = clock_seconds();
    while (r->new_tokens < o->tokens && position < g->config.context) {
        int32_t id;
        TRY(sample_next(&how, logits, g->config.vocabulary, (uint32_t)position, &id));
        r->new_tokens++;
        if (o->token) o->token(o->context, id);
        bool last = r->new_tokens == o->tokens || position + 1 == g->config.context;
        if (!last) logits = feed(g, id, position);
        position++;
    }
    r->seconds_new = clock_seconds() - begin;
    return STATUS_OK;
}

status generate_run(const generate_options *o, generate_result *r) {
    *r = (generate_result){ 0 };
    generation g = { .options = o };
    status result;
    TRY(check_options(o));
    TRY(model_files_read_config(o->directory, &g.config));
    gpt2_model(&g.config, o->directory, &g.model);
    TRY(read_prompt(o, &g.config, &g.prompt));
    TRY_OR(done, make_plan(&g));
    r->planned_bytes = g.plan.peak_bytes;
    TRY_OR(done, exec_open(&g.plan, 0, &g.exec));
    TRY_OR(done, load_weights(&g));
    result = continue_text(&g, r);
    r->resident_peak_bytes = device_resident_peak();
done:
    exec_close(g.exec);
    plan_close(&g.plan);
    return result;
}
