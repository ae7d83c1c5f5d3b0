/* Planning and training through the public API: options become a setup, the decision stays with the run. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/network.h"
#include "api/reserve.h"
#include "base/instructions.h"
#include "base/memory.h"
#include "base/threads.h"
#include "report/report.h"
#include "run/course.h"
#include "train/train.h"

struct snug_run {
    network network;
    model model;
    snug_data train, validation;
    data_source train_source, validation_source;
    setup setup;
    decision decision;
    bool fits;
    text words, json; /* made when asked for */
    char *texts[4];   /* copies of techniques (cut into words), weights, out, device */
};

const char *snug_error(void) { return status_message(); }

/* ---- data ---- */

static status read_sample(const data_source *s, uint64_t sample, void *scratch, void *const fields[]) {
    const snug_data *d = s->state;
    (void)scratch;
    int failed = d->read(d->context, (int64_t)sample, fields);
    return failed ? status_set(STATUS_FAILED, "reading sample %llu failed: the callback returned %d",
                               (unsigned long long)sample, failed)
                  : STATUS_OK;
}

static status make_source(const network *n, const model *m, const snug_data *given, snug_data *kept,
                          data_source *s) {
    if (!given) return STATUS_OK;
    if (given->samples < 1 || !given->read)
        return status_set(STATUS_INVALID, "data needs at least one sample and a function that reads it");
    *kept = *given;
    model_field fields[MODEL_MAX_FIELDS];
    *s = (data_source){ .samples = (uint64_t)given->samples,
                        .label_field = n->label_field < 0 ? DATA_NO_LABELS : n->label_field,
                        .read = read_sample,
                        .state = kept };
    s->field_count = m->fields(m, 1, fields);
    for (uint32_t i = 0; i < s->field_count; i++) {
        s->field_bytes[i] = (uint64_t)shape_elements(&fields[i].of) * dtype_bytes(fields[i].dtype);
        s->ranges[i] = (data_range){ fields[i].name, n->ranges[i].below, n->ranges[i].ignores };
    }
    return STATUS_OK;
}

/* ---- options ---- */

snug_options snug_defaults(void) {
    setup_options o = setup_defaults();
    return (snug_options){ .batch = o.batch,
                           .steps = COURSE_STEPS,
                           .eval_samples = o.eval_samples,
                           .learning_rate = COURSE_RATE,
                           .warmup = COURSE_WARMUP,
                           .schedule = SNUG_COSINE,
                           .minimum_rate = o.minimum_rate,
                           .optimizer = SNUG_ADAMW,
                           .beta1 = o.optimizer.beta1,
                           .beta2 = o.optimizer.beta2,
                           .epsilon = o.optimizer.eps,
                           .weight_decay = o.optimizer.weight_decay,
                           .clip = o.optimizer.clip,
                           .keep = o.keep,
                           .seed = o.seed };
}

static status check_options(const snug_options *o) {
    const struct {
        const char *name;
        int64_t value, low, high;
    } counts[] = { { "batch", o->batch, 1, 1 << 30 },
                   { "micro_batch", o->micro_batch, 0, o->batch },
                   { "steps", o->steps, 0, INT32_MAX },
                   { "eval_every", o->eval_every, 0, INT32_MAX },
                   { "eval_samples", o->eval_samples, 0, INT64_MAX },
                   { "warmup", o->warmup, 0, INT32_MAX },
                   { "schedule", (int64_t)o->schedule, SNUG_COSINE, SNUG_CONSTANT },
                   { "optimizer", (int64_t)o->optimizer, SNUG_ADAMW, SNUG_LION },
                   { "threads", o->threads, 0, 4096 },
                   { "save_every", o->save_every, 0, INT32_MAX },
                   { "keep", o->keep, 1, INT32_MAX } };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (counts[i].value < counts[i].low || counts[i].value > counts[i].high)
            return status_set(STATUS_INVALID, "%s is %lld; it must be from %lld to %lld", counts[i].name,
                              (long long)counts[i].value, (long long)counts[i].low,
                              (long long)counts[i].high);
    const struct {
        const char *name;
        double value, low, high;
    } numbers[] = { { "learning_rate", o->learning_rate, 0, 1e6 },
                    { "minimum_rate", o->minimum_rate, 0, 1 },
                    { "beta1", o->beta1, OPTIMIZER_OWN, 0.9999999 },
                    { "beta2", o->beta2, OPTIMIZER_OWN, 0.9999999 },
                    { "epsilon", o->epsilon, 1e-30, 1 },
                    { "momentum", o->momentum, 0, 0.9999999 },
                    { "weight_decay", o->weight_decay, 0, 1e6 },
                    { "clip", o->clip, 0, 1e30 } };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!(numbers[i].value >= numbers[i].low && numbers[i].value <= numbers[i].high))
            return status_set(STATUS_INVALID, "%s is %g; it must be from %g to %g", numbers[i].name,
                              numbers[i].value, numbers[i].low, numbers[i].high);
    if (o->momentum > 0 && o->optimizer == SNUG_ADAMW)
        return status_set(STATUS_INVALID, "momentum is %g, and AdamW has none; it belongs to SNUG_SGD",
                          o->momentum);
    return STATUS_OK;
}

/* One word, "recompute=block": sets its pass. The word is the run's, and is cut in two. */
static status read_pin(char *word, setup_options *s) {
    char *setting = strchr(word, '='), option[PASS_OPTION_BYTES];
    if (!setting || !setting[1])
        return status_set(STATUS_INVALID, "techniques: '%.60s' is not of the form name=setting", word);
    *setting++ = 0;
    for (int i = 0; pass_table[i]; i++) {
        if (strcmp(pass_option(pass_table[i], option), word) != 0) continue;
        s->passes[i] = setting;
        return STATUS_OK;
    }
    text names = { 0 };
    for (int i = 0; pass_table[i]; i++)
        text_add(&names, "%s%s", i ? ", " : "", pass_option(pass_table[i], option));
    status result = status_set(STATUS_INVALID, "techniques: there is no '%.60s'; there are %s", word,
                               names.data ? names.data : "none");
    text_close(&names);
    return result;
}

static status read_pins(char *words, setup_options *s) {
    char *rest;
    for (char *word = strtok_r(words, " ,", &rest); word; word = strtok_r(NULL, " ,", &rest))
        TRY(read_pin(word, s));
    return STATUS_OK;
}

static status copy_text(const char *from, char **to) {
    if (!from) return STATUS_OK;
    *to = memory_text(from);
    return *to ? STATUS_OK : status_set(STATUS_FAILED, "no memory for a run");
}

static status read_options(snug_run *r, const snug_options *o, setup_options *s) {
    static const optimizer_kind optimizers[] = { [SNUG_ADAMW] = OPTIMIZER_ADAMW,
                                                 [SNUG_SGD] = OPTIMIZER_SGD,
                                                 [SNUG_ADAFACTOR] = OPTIMIZER_ADAFACTOR,
                                                 [SNUG_LION] = OPTIMIZER_LION };
    static const schedule_kind schedules[] = {
        [SNUG_COSINE] = SCHEDULE_COSINE, [SNUG_LINEAR] = SCHEDULE_LINEAR, [SNUG_CONSTANT] = SCHEDULE_CONSTANT
    };
    TRY(check_options(o));
    TRY(copy_text(o->techniques, &r->texts[0]));
    TRY(copy_text(o->weights, &r->texts[1]));
    TRY(copy_text(o->out, &r->texts[2]));
    TRY(copy_text(o->device, &r->texts[3]));
    *s = setup_defaults();
    s->source = r->train.samples ? &r->train_source : NULL;
    s->eval_source = r->validation.samples ? &r->validation_source : NULL;
    s->memory = o->memory, s->batch = o->batch, s->micro_batch = o->micro_batch;
    s->steps = o->steps, s->eval_every = o->eval_every, s->eval_samples = o->eval_samples;
    s->learning_rate = o->learning_rate, s->minimum_rate = o->minimum_rate, s->warmup = o->warmup;
    s->schedule = schedules[o->schedule];
    s->optimizer = (optimizer_options){ .kind = optimizers[o->optimizer],
                                        .beta1 = o->beta1,
                                        .beta2 = o->beta2,
                                        .eps = o->epsilon,
                                        .momentum = o->momentum,
                                        .weight_decay = o->weight_decay,
                                        .clip = o->clip };
    s->seed = o->seed, s->threads = o->threads, s->exact = o->exact;
    s->out = r->texts[2], s->save_every = o->save_every, s->keep = o->keep, s->resume = o->resume;
    s->overwrite = o->overwrite, s->device = r->texts[3];
    return r->texts[0] ? read_pins(r->texts[0], s) : STATUS_OK;
}

snug_status snug_instructions(const char *name) {
    if (!name)
        return (snug_status)status_set(STATUS_INVALID,
                                       "snug_instructions needs a name, such as \"auto\", and got NULL");
    return (snug_status)instructions_pin(name);
}

/* ---- planning ---- */

static status plan_run(snug_run *r, const snug_network *description, const snug_data *data[2],
                       const snug_options *options) {
    setup_options s;
    TRY(network_open(description, &r->network, &r->model));
    if (!r->network.has_loss)
        return status_set(STATUS_INVALID, "%s has no loss: call snug_cross_entropy or another",
                          r->model.name);
    TRY(make_source(&r->network, &r->model, data[0], &r->train, &r->train_source));
    TRY(make_source(&r->network, &r->model, data[1], &r->validation, &r->validation_source));
    TRY(read_options(r, options, &s));
    TRY(setup_open(&s, &r->model, &r->setup));
    r->setup.weights = r->texts[1];
    if (!options->resume) return decision_make(&r->setup, &r->decision);
    resume from; /* its choices are wanted now, it itself when training begins */
    status result = resume_find(&r->setup, &from);
    if (result == STATUS_OK) result = resume_decide(&r->setup, &from, &r->decision);
    resume_close(&from);
    return result;
}

snug_status snug_plan(const snug_network *description, const snug_data *train, const snug_data *validation,
                      const snug_options *options, snug_run **run) {
    if (run) *run = NULL;
    if (!description || !options || !run)
        return (snug_status)status_set(STATUS_INVALID,
                                       "snug_plan needs a network, options (snug_defaults has "
                                       "some), and where to put the run");
    snug_run *r = *run = memory_new(1, sizeof *r);
    if (!r) return (snug_status)status_set(STATUS_FAILED, "no memory for a run");
    const snug_data *data[2] = { train, validation };
    reserve_begin(options->program_bytes);
    status result = plan_run(r, description, data, options);
    reserve_end();
    r->fits = result == STATUS_OK;
    bool planned = r->fits || (result == STATUS_NO_FIT && r->decision.front.points);
    if (!planned) {
        snug_close(r);
        *run = NULL;
    }
    return (snug_status)result;
}

void snug_close(snug_run *r) {
    if (!r) return;
    decision_close(&r->decision);
    setup_close(&r->setup);
    network_close(&r->network);
    text_close(&r->words);
    text_close(&r->json);
    for (size_t i = 0; i < sizeof r->texts / sizeof *r->texts; i++) memory_free(r->texts[i]);
    memory_free(r);
}

/* Is there a run to ask? */
static bool is_run(const snug_run *r, const char *function) {
    if (r) return true;
    return status_set(STATUS_INVALID, "%s needs a run that snug_plan has made, and got NULL", function) ==
           STATUS_OK;
}

snug_needs snug_run_needs(const snug_run *r) {
    if (!is_run(r, "snug_run_needs")) return (snug_needs){ .fits = false };
    const decision *d = &r->decision;
    return (snug_needs){ .fits = r->fits,
                         .peak_bytes = d->plan.peak_bytes,
                         .least_budget_bytes = search_least(&d->front),
                         .plain_peak_bytes = d->front.plain.peak_bytes,
                         .pool_bytes = plan_pool_bytes(&d->plan),
                         .parameters = r->network.elements,
                         .step_seconds = d->point.seconds,
                         .micro_batch = d->point.choice.micro_batch };
}

const char *snug_run_text(snug_run *r) {
    if (!is_run(r, "snug_run_text")) return NULL;
    if (!r->words.data)
        report_plan_text(&r->words, &r->setup, &r->decision, &(report_style){ .unicode = true });
    return r->words.failed ? NULL : r->words.data;
}

const char *snug_run_json(snug_run *r) {
    if (!is_run(r, "snug_run_json")) return NULL;
    if (!r->json.data) report_plan_json(&r->json, &r->setup, &r->decision);
    return r->json.failed ? NULL : r->json.data;
}

/* ---- training ---- */

static void stepped(void *context, const train_progress *p) {
    const snug_observer *o = context;
    o->stepped(o->context, &(snug_progress){ .step = p->step,
                                             .steps = p->steps,
                                             .loss = p->loss,
                                             .norm = p->norm,
                                             .learning_rate = p->learning_rate,
                                             .seconds = p->seconds,
                                             .seconds_left = p->seconds_left,
                                             .resident_bytes = p->resident_bytes,
                                             .planned_bytes = p->planned_bytes });
}

static void evaluated(void *context, int64_t step, const runner_verdict *v, int64_t samples) {
    const snug_observer *o = context;
    (void)samples;
    o->evaluated(o->context, step, v->loss);
}

snug_status snug_train(snug_run *r, const snug_observer *observer, snug_result *result) {
    snug_observer copy = observer ? *observer : (snug_observer){ 0 };
    train_observer o = { .context = &copy,
                         .stepped = copy.stepped ? stepped : NULL,
                         .evaluated = copy.evaluated ? evaluated : NULL,
                         .stop = copy.stop };
    if (result) *result = (snug_result){ .loss = NAN, .eval_loss = NAN };
    if (!is_run(r, "snug_train")) return SNUG_INVALID;
    if (!r->fits)
        return (snug_status)status_set(STATUS_NO_FIT, "the plan of %s does not fit its budget",
                                       r->model.name);
    if (!r->train.samples)
        return (snug_status)status_set(STATUS_INVALID, "%s was planned without data to train on",
                                       r->model.name);
    train_result measured = { 0 };
    threads_set(r->decision.plan.threads); /* another run may have changed it */
    resume from;
    status done = resume_find(&r->setup, &from);
    if (done == STATUS_OK) done = train_run(&r->setup, &r->decision, &from, &o, &measured);
    resume_close(&from);
    if (result) {
        *result = (snug_result){ .steps = measured.steps,
                                 .loss = measured.steps ? measured.losses[measured.steps - 1] : NAN,
                                 .eval_loss = NAN,
                                 .seconds = measured.seconds,
                                 .step_seconds = measured.step_seconds,
                                 .resident_peak_bytes = measured.resident_peak_bytes };
        if (measured.evaluation_count)
            result->eval_loss = measured.evaluations[measured.evaluation_count - 1].loss;
    }
    train_result_close(&measured);
    return (snug_status)done;
}
