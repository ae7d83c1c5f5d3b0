/* Megatron-LM, as a framework that is asked. Settings have its own names; docs/megatron.md has the rules. */
#include <stdio.h>
#include <string.h>

#include "estimate/framework.h"
#include "estimate/megatron/megatron.h"

/* ---- settings ---- */

static status settle(const framework_subject *q, const framework_settings *settings, megatron_shape *m,
                     megatron_settings *s) {
    *s = settings->megatron;
    if (q->shape)
        *m = *q->shape;
    else
        TRY(megatron_shape_of(q->config, q->model->name, m));
    return megatron_settle(s, m, q->model->name);
}

static status check(const framework_subject *q, const framework_settings *settings) {
    megatron_shape m;
    megatron_settings s;
    return settle(q, settings, &m, &s);
}

/* ---- the answer ---- */

/* By the loads of experts: even ones, and at most half as many rows again where no token is dropped. */
static const double uneven = 1.5;

static status estimate_most(const megatron_shape *m, const megatron_settings *s, megatron_result *r) {
    megatron_settings most = *s;
    if (m->experts && !(s->capacity > 0)) most.capacity = uneven, most.pads = true;
    return megatron_estimate(m, &most, r);
}

/* Of what tensors take: how far versions of the libraries lie apart, and the allocator's pieces. */
static const double live_low = 0.98, live_high = 1.02, pieces_likely = 1.05, pieces_high = 1.15;

/* Buffers of NCCL's communicators, which the allocator does not know. */
static const interval collectives = { UINT64_C(256) << 20, UINT64_C(1) << 30, UINT64_C(4) << 30 };

static uint64_t times(uint64_t bytes, double factor) { return (uint64_t)((double)bytes * factor); }

static void add_count(framework_result *r, const char *key, const char *label, int64_t value) {
    double v = (double)value;
    framework_add_fact(
        r, &(framework_fact){
               .key = key, .label = label, .unit = FRAMEWORK_COUNT, .low = v, .likely = v, .high = v });
}

enum { MOST_LISTED = 16 };

/* Each stage, where they are few; else the two ends. */
static void add_stages(framework_result *r, const megatron_result *x) {
    static const char *const keys[MOST_LISTED] = { "stage_0_bytes",  "stage_1_bytes",  "stage_2_bytes",
                                                   "stage_3_bytes",  "stage_4_bytes",  "stage_5_bytes",
                                                   "stage_6_bytes",  "stage_7_bytes",  "stage_8_bytes",
                                                   "stage_9_bytes",  "stage_10_bytes", "stage_11_bytes",
                                                   "stage_12_bytes", "stage_13_bytes", "stage_14_bytes",
                                                   "stage_15_bytes" };
    static const char *const labels[MOST_LISTED] = { "stage 0",  "stage 1",  "stage 2",  "stage 3",
                                                     "stage 4",  "stage 5",  "stage 6",  "stage 7",
                                                     "stage 8",  "stage 9",  "stage 10", "stage 11",
                                                     "stage 12", "stage 13", "stage 14", "stage 15" };
    if (x->stages < 2) return;
    bool few = x->stages <= MOST_LISTED;
    r->under[r->fact_count] = "Live bytes of the pipeline's stages";
    for (int64_t i = 0; i < (few ? x->stages : 2); i++) {
        double v = (double)x->live_of[few || !i ? i : x->stages - 1];
        framework_add_fact(r, &(framework_fact){ .key = few ? keys[i]
                                                        : i ? "last_stage_bytes"
                                                            : "first_stage_bytes",
                                                 .label = few ? labels[i]
                                                          : i ? "the last one"
                                                              : "the first one",
                                                 .unit = FRAMEWORK_BYTES,
                                                 .layer = FRAMEWORK_LIVE,
                                                 .low = v,
                                                 .likely = v,
                                                 .high = v });
    }
}

static void add_facts(framework_result *r, const megatron_result *x) {
    r->under[0] = "That stage";
    add_count(r, "stage", "its number, from 0", x->stage);
    add_count(r, "stage_layers", "layers", x->at.layers);
    add_count(r, "kept_micro_batches", "micro-batches kept at most", x->at.kept);
    add_count(r, "micro_batches", "micro-batches of a step", x->micro_batches);
    add_count(r, "replicas", "copies of the model", x->replicas);
    add_stages(r, x);
}

static status estimate(const framework_subject *q, const framework_settings *settings, framework_result *r) {
    megatron_shape m;
    megatron_settings s;
    megatron_result x, most;
    *r = (framework_result){ .terms_of = FRAMEWORK_LIVE, .last_layer = FRAMEWORK_DEVICE };
    TRY(settle(q, settings, &m, &s));
    TRY(megatron_estimate(&m, &s, &x));
    TRY(estimate_most(&m, &s, &most));
    const megatron_stage *at = &x.at;
    framework_add_term(r, "weights", at->weights);
    framework_add_term(r, "gradients", at->gradients);
    framework_add_term(r, "optimizer", at->optimizer);
    framework_add_term(r, "activations", at->activations);
    framework_add_term(r, "temporaries", at->temporaries);
    framework_add_term(r, "buffers", at->buffers);
    r->peak_in = at->peak_in;
    r->parameters = r->trained = x.parameters;
    interval *live = &r->layers[FRAMEWORK_LIVE];
    *live = (interval){ times(at->live, live_low), at->live, times(most.at.live, live_high) };
    interval reserved = { live->low, times(live->likely, pieces_likely), times(live->high, pieces_high) };
    if (s.gpus > 1) r->beside = collectives;
    if (!q->hardware->memory) r->last_layer = FRAMEWORK_RESERVED;
    framework_place(q, r, &reserved);
    add_facts(r, &x);
    r->unknown[r->unknown_count++] = "validating, saving and the host's memory have no rule for Megatron-LM";
    if (m.predicted)
        r->unknown[r->unknown_count++] = "layers that predict more than one token ahead are not counted";
    return STATUS_OK;
}

static void describe(const framework_subject *q, const framework_settings *settings,
                     const framework_result *r, text *out) {
    megatron_shape m;
    megatron_settings s;
    if (settle(q, settings, &m, &s) != STATUS_OK) return;
    double count = (double)r->parameters;
    text_add(out, "%.2f %s parameters, micro-batches of %lld x %lld tokens, ",
             count / (count < 1e9 ? 1e6 : 1e9), count < 1e9 ? "million" : "billion", (long long)s.batch,
             (long long)s.context);
    if (s.gpus > 1)
        text_add(out, "one of %lld devices: ", (long long)s.gpus);
    else
        text_add(out, "one device: ");
    text_add(out, "tensors by %lld, stages %lld", (long long)s.tensor, (long long)s.pipeline);
    if (s.contexts > 1) text_add(out, ", contexts by %lld", (long long)s.contexts);
    if (m.experts) text_add(out, ", experts by %lld", (long long)s.experts);
    text_add(out, "%s%s\n", s.sequence ? ", sequences divided" : "",
             s.shares ? ", a share of the optimizer" : "");
}

static int64_t *variable(framework_settings *s, framework_variable v) {
    switch (v) {
    case FRAMEWORK_BATCH: return &s->megatron.batch;
    case FRAMEWORK_CONTEXT: return &s->megatron.context;
    case FRAMEWORK_GPUS: return &s->megatron.gpus;
    }
    return NULL;
}

/* ---- changes ---- */

static bool to_shared(const framework_subject *q, framework_settings *s, char *out) {
    megatron_settings *x = &s->megatron;
    (void)q;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--use-distributed-optimizer");
    return !x->shares && x->gpus > x->tensor * x->pipeline && (x->shares = true);
}

static bool to_sequence(const framework_subject *q, framework_settings *s, char *out) {
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--sequence-parallel");
    return s->megatron.tensor > 1 && !s->megatron.sequence && (s->megatron.sequence = true) &&
           check(q, s) == STATUS_OK;
}

static bool to_te_loss(const framework_subject *q, framework_settings *s, char *out) {
    (void)q;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--cross-entropy-fusion-impl te");
    return s->megatron.loss != MEGATRON_LOSS_TE && (s->megatron.loss = MEGATRON_LOSS_TE, true);
}

/* All layers one by one. --recompute-modules has its usual value beside it: others are of selective alone. */
static bool to_full(const framework_subject *q, framework_settings *s, char *out) {
    megatron_settings *x = &s->megatron;
    bool some = x->recompute == MEGATRON_FULL && x->method == MEGATRON_BLOCK && x->again_layers;
    (void)q;
    if (x->recompute == MEGATRON_FULL && !some) return false;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "%s%s",
             some ? "--recompute-method uniform --recompute-num-layers 1" : "--recompute-granularity full",
             x->again_names ? " --recompute-modules core_attn" : "");
    x->recompute = MEGATRON_FULL, x->method = MEGATRON_UNIFORM;
    x->again_names = NULL, x->again_layers = some ? 1 : 0;
    return true;
}

static int64_t samples_of(const megatron_settings *s) {
    return megatron_micro_batches(s) * megatron_replicas(s) * s->batch;
}

/* A step keeps its samples: where nothing but the number of micro-batches says how many they are, that is
 * said anew behind the change. False: no number of them makes as many. */
static bool keep_samples(const framework_settings *was, framework_settings *now, char *out) {
    megatron_settings *s = &now->megatron;
    int64_t pass = megatron_replicas(s) * s->batch, samples = samples_of(&was->megatron);
    size_t length = strlen(out);
    if (s->step || s->batch_step) return true;
    if (!pass || samples % pass || samples / pass > 1 << 20) return false;
    if (megatron_micro_batches(s) == samples / pass) return true;
    s->accumulate = samples / pass;
    snprintf(out + length, FRAMEWORK_CHANGE_BYTES - length, " --accumulate %lld", (long long)s->accumulate);
    return true;
}

/* At most half of it, of which a step's samples are a multiple. */
static bool to_smaller(const framework_subject *q, framework_settings *s, char *out) {
    const framework_settings was = *s;
    megatron_settings *x = &s->megatron;
    const char *name = x->batch_name ? x->batch_name : "--micro-batch";
    for (int64_t batch = (x->batch + 1) / 2; batch < was.megatron.batch && batch; batch--) {
        *s = was, x->batch = batch;
        snprintf(out, FRAMEWORK_CHANGE_BYTES, "%s %lld", name, (long long)batch);
        if (keep_samples(&was, s, out) && check(q, s) == STATUS_OK) return true;
    }
    return false;
}

enum { MOST_TENSOR = 8 }; /* devices of a node, beyond which products wait for each other */

static bool to_more_tensor(const framework_subject *q, framework_settings *s, char *out) {
    const framework_settings was = *s;
    s->megatron.tensor *= 2;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--tensor-model-parallel-size %lld", (long long)s->megatron.tensor);
    return s->megatron.tensor <= MOST_TENSOR && keep_samples(&was, s, out) && check(q, s) == STATUS_OK;
}

static bool to_more_stages(const framework_subject *q, framework_settings *s, char *out) {
    const framework_settings was = *s;
    s->megatron.pipeline *= 2;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--pipeline-model-parallel-size %lld",
             (long long)s->megatron.pipeline);
    return keep_samples(&was, s, out) && check(q, s) == STATUS_OK;
}

static const framework_change changes[] = { { .apply = to_shared },
                                            { .apply = to_sequence },
                                            { .apply = to_te_loss },
                                            { .apply = to_full },
                                            { .apply = to_smaller, .repeats = true },
                                            { .apply = to_more_tensor, .repeats = true },
                                            { .apply = to_more_stages, .repeats = true } };

const framework framework_megatron = { .name = "megatron",
                                       .title = "Megatron-LM",
                                       .changes = changes,
                                       .change_count = sizeof changes / sizeof *changes,
                                       .check = check,
                                       .estimate = estimate,
                                       .describe = describe,
                                       .variable = variable };
