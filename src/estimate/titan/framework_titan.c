/* torchtitan, as a framework that is asked. Settings have its own names; docs/titan.md has the rules. */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "estimate/framework.h"
#include "estimate/titan/titan_time.h"

static status check(const framework_subject *q, const framework_settings *s) {
    return titan_check(q->model, q->config, &s->titan);
}

/* ---- the answer ---- */

/* Times what tensors take: published peaks lie within, bench/results/parallel.md. What lies between live
 * tensors is a likely share of them, from twelve published runs of 8B; `held_high` is times all that is held.
 */
static const double live_low = 0.88, live_high = 1.15, between_likely = 0.03, held_high = 1.15;

/* Buffers of NCCL's communicators, which the allocator does not know. */
static const interval collectives = { UINT64_C(256) << 20, UINT64_C(1) << 30, UINT64_C(4) << 30 };

static uint64_t whole(double bytes) { return (uint64_t)(bytes + 0.5); }

static void add_count(framework_result *r, const char *key, const char *label, double v) {
    framework_add_fact(
        r, &(framework_fact){
               .key = key, .label = label, .unit = FRAMEWORK_COUNT, .low = v, .likely = v, .high = v });
}

static void add_facts(framework_result *r, const titan_settings *s, const titan_result *x) {
    r->under[0] = "That device";
    add_count(r, "shards", "devices that share a weight out", (double)x->shards);
    add_count(r, "stage_layers", "layers", x->at.layers);
    if (s->pipeline > 1) {
        add_count(r, "stage", "its stage, from 0", (double)x->stage);
        add_count(r, "kept_micro_batches", "micro-batches kept at most", x->at.kept);
    }
    if (!s->float8) return;
    framework_add_fact(r, &(framework_fact){ .key = "float8_saves_bytes",
                                             .label = "saved by it: weights sent",
                                             .unit = FRAMEWORK_BYTES,
                                             .layer = FRAMEWORK_LIVE,
                                             .low = x->at.saved,
                                             .likely = x->at.saved,
                                             .high = x->at.saved });
    r->under[r->fact_count - 1] = "Products in 8 bits";
}

static void add_seconds(framework_result *r, const char *key, const char *label, double seconds) {
    if (seconds > 0)
        framework_add_fact(r, &(framework_fact){ .key = key,
                                                 .label = label,
                                                 .unit = FRAMEWORK_SECONDS,
                                                 .low = seconds,
                                                 .likely = seconds,
                                                 .high = seconds });
}

/* Hours of all steps, where they are asked for: `devices` times, and by the clock. */
static void add_hours(framework_result *r, const titan_settings *s, const titan_time *w) {
    double devices = (double)s->gpus, tokens = s->tokens;
    if (s->steps > 0) tokens = (double)s->steps * w->step * w->tokens * devices;
    if (!(tokens > 0)) return;
    const struct {
        const char *key, *label;
        double each;
    } facts[] = { { "gpu_hours", "hours of devices", tokens / 3600 },
                  { "hours", "hours by the clock", tokens / 3600 / devices } };
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        framework_add_fact(r, &(framework_fact){ .key = facts[i].key,
                                                 .label = facts[i].label,
                                                 .unit = FRAMEWORK_HOURS,
                                                 .low = facts[i].each / w->tokens_high,
                                                 .likely = facts[i].each / w->tokens,
                                                 .high = facts[i].each / w->tokens_low });
    snprintf(r->time_is, sizeof r->time_is, "Time of %.4g tokens", tokens);
    r->under[r->fact_count - 2] = r->time_is;
}

/* Tokens a second, what a step's seconds are made of, and hours. */
static void add_time(const framework_subject *q, const titan_settings *s, const titan_result *x,
                     framework_result *r) {
    titan_time w;
    if (!q->hardware->memory) return;
    const char *why = titan_time_find(q->config, s, q->hardware, x, &w);
    if (why) {
        r->unknown[r->unknown_count++] = why;
        return;
    }
    uint32_t first = r->fact_count;
    framework_add_fact(r, &(framework_fact){ .key = "tokens_per_second",
                                             .label = "tokens a second, of a device",
                                             .unit = FRAMEWORK_COUNT,
                                             .low = w.tokens_low,
                                             .likely = w.tokens,
                                             .high = w.tokens_high });
    add_seconds(r, "step_seconds", "seconds of a step", w.step);
    add_seconds(r, "products_seconds", "products", w.products);
    add_seconds(r, "attention_seconds", "attention", w.attention);
    add_seconds(r, "memory_seconds", "what waits for its memory", w.memory);
    add_seconds(r, "sending_seconds", "sending, that nothing hides", w.sending);
    add_seconds(r, "update_seconds", "the update", w.update);
    add_seconds(r, "idle_seconds", "the pipeline's idle time", w.idle);
    add_seconds(r, "begins_seconds", "beginning kernels", w.begins);
    r->under[first] = "Likely time of a step";
    add_hours(r, s, &w);
    r->unknown[r->unknown_count++] =
        "time does not know loaders, checkpoints, stragglers, and multiprocessors that sending takes";
}

static status estimate(const framework_subject *q, const framework_settings *settings, framework_result *r) {
    const titan_settings *s = &settings->titan;
    titan_result x;
    *r = (framework_result){ .terms_of = FRAMEWORK_LIVE, .last_layer = FRAMEWORK_DEVICE };
    TRY(titan_estimate(q->model, q->config, s, &x));
    const titan_stage *at = &x.at;
    framework_add_term(r, "weights", whole(at->weights));
    framework_add_term(r, "gradients", whole(at->gradients));
    framework_add_term(r, "optimizer", whole(at->optimizer));
    framework_add_term(r, "gathered", whole(at->gathered));
    framework_add_term(r, "activations", whole(at->activations));
    framework_add_term(r, "logits", whole(at->logits));
    framework_add_term(r, "temporaries", whole(at->temporaries));
    r->peak_in = at->peak_in;
    r->parameters = r->trained = (uint64_t)x.parameters;
    double reserved = titan_held(at);
    r->layers[FRAMEWORK_LIVE] =
        (interval){ whole(at->live * live_low), whole(at->live), whole(at->live * live_high) };
    interval pieces = { whole(at->live * live_low), whole(reserved + between_likely * at->live),
                        whole(reserved * live_high * held_high) };
    if (s->gpus > 1) r->beside = collectives;
    if (!q->hardware->memory) r->last_layer = FRAMEWORK_RESERVED;
    framework_place(q, r, &pieces);
    add_facts(r, s, &x);
    add_time(q, s, &x, r);
    if (s->sends_beside)
        r->unknown[r->unknown_count++] = "symmetric buffers of async tensor parallelism are not counted";
    r->unknown[r->unknown_count++] = "validating, saving and the host's memory have no rule for torchtitan";
    return STATUS_OK;
}

static void describe_float8(const titan_settings *s, text *out) {
    static const char *const how[] = { "", "one scale a tensor", "one scale a row",
                                       "one scale for 32 numbers" };
    if (!s->float8) return;
    text_add(out,
             "products in 8 bits (%s): what is kept for backward stays in bf16, and so do weights, gradients "
             "and the optimizer's state in f32, so none of these gets smaller; %s\n",
             how[s->float8],
             s->gathers_float8 ? "weights are sent and held gathered in 8 bits"
                               : "weights are sent in bf16 too, so nothing is saved");
}

static void describe(const framework_subject *q, const framework_settings *settings,
                     const framework_result *r, text *out) {
    static const char *const again[] = { "every second product kept", "blocks computed again", "all kept" };
    const titan_settings *s = &settings->titan;
    char count[UNITS_TEXT_BYTES];
    (void)q;
    text_add(out, "%s parameters, %lld x %lld tokens", units_count_text(r->parameters, count),
             (long long)s->batch, (long long)s->context);
    if (s->passes > 1) text_add(out, " in %lld micro-batches", (long long)s->passes);
    text_add(out, ", %s%s; one of %lld devices: tensors by %lld, stages %lld", again[s->checkpoint],
             s->compiled ? ", compiled" : "", (long long)s->gpus, (long long)s->tensor,
             (long long)s->pipeline);
    if (s->stages_each > 1) text_add(out, " with %lld parts each", (long long)s->stages_each);
    if (s->contexts > 1) text_add(out, ", contexts by %lld", (long long)s->contexts);
    if (s->experts > 1) text_add(out, ", experts by %lld", (long long)s->experts);
    if (s->replicas > 1) text_add(out, ", %lld copies", (long long)s->replicas);
    text_add(out, "\n");
    describe_float8(s, out);
}

static int64_t *variable(framework_settings *s, framework_variable v) {
    switch (v) {
    case FRAMEWORK_BATCH: return &s->titan.batch;
    case FRAMEWORK_CONTEXT: return &s->titan.context;
    case FRAMEWORK_GPUS: return &s->titan.gpus;
    }
    return NULL;
}

/* ---- changes ---- */

static bool to_chunks(const framework_subject *q, framework_settings *s, char *out) {
    (void)q;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--loss fused");
    return s->titan.loss != TITAN_LOSS_CHUNKED && (s->titan.loss = TITAN_LOSS_CHUNKED, true);
}

static bool to_selective(const framework_subject *q, framework_settings *s, char *out) {
    (void)q;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--activation-checkpoint selective");
    return s->titan.checkpoint == TITAN_KEEPS && (s->titan.checkpoint = TITAN_SELECTIVE, true);
}

static bool to_full(const framework_subject *q, framework_settings *s, char *out) {
    (void)q;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--activation-checkpoint full");
    return s->titan.checkpoint != TITAN_FULL && (s->titan.checkpoint = TITAN_FULL, true);
}

/* Half as many samples at once, and twice as many passes of them. */
static bool to_smaller(const framework_subject *q, framework_settings *s, char *out) {
    titan_settings *t = &s->titan;
    if (t->batch % 2 || t->batch / 2 % t->passes) return false;
    t->batch /= 2, t->accumulate *= 2;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--batch %lld --accumulate %lld", (long long)t->batch,
             (long long)t->accumulate);
    return check(q, s) == STATUS_OK;
}

enum { MOST_TENSOR = 8 }; /* devices of a node, beyond which products wait for each other */

static bool to_more_tensor(const framework_subject *q, framework_settings *s, char *out) {
    s->titan.tensor *= 2;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--tensor-parallel-degree %lld", (long long)s->titan.tensor);
    return s->titan.tensor <= MOST_TENSOR && check(q, s) == STATUS_OK;
}

static bool to_more(const framework_subject *q, framework_settings *s, char *out) {
    s->titan.gpus *= 2;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--gpus %lld", (long long)s->titan.gpus);
    return s->titan.gpus <= 1024 && check(q, s) == STATUS_OK;
}

static const framework_change changes[] = {
    { .apply = to_chunks },
    { .apply = to_selective, .alone = true },
    { .apply = to_full },
    { .apply = to_smaller, .repeats = true },
    { .apply = to_more_tensor, .repeats = true },
    { .apply = to_more, .repeats = true },
};

const framework framework_titan = { .name = "torchtitan",
                                    .title = "torchtitan",
                                    .changes = changes,
                                    .change_count = sizeof changes / sizeof *changes,
                                    .check = check,
                                    .estimate = estimate,
                                    .describe = describe,
                                    .variable = variable };
