#define _GNU_SOURCE
#include "train/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "train/feed.h"
#include "train/journal.h"
#include "train/loader_plan.h"
#include "train/weights.h"

/* ---- a run in progress ---- */

typedef struct {
    const setup *s;
    const decision *d;
    const train_observer *observer;
    train_result *result;
    exec *exec;
    loader *loader;
    feed feed;
    journal *journal;
    double *times; /* seconds by step */
    double flops;  /* of a step */
} training;

static double learning_rate(const setup_options *o, int64_t step) {
    if (step < o->warmup) return o->learning_rate * (double)(step + 1) / (double)o->warmup;
    double span = (double)(o->steps - o->warmup), part = span > 0 ? (double)(step - o->warmup) / span : 1;
    double low = o->minimum_rate, height = 1;
    if (o->schedule == SCHEDULE_COSINE) height = low + (1 - low) * 0.5 * (1 + cos(M_PI * part));
    if (o->schedule == SCHEDULE_LINEAR) height = low + (1 - low) * (1 - part);
    return o->learning_rate * height;
}

/* ---- beginning ---- */

/* What the process holds beside its pool must be within the reserve that the plan promised. */
static status check_runtime(training *t) {
    uint64_t resident = device_resident(), pool = exec_pool_bytes(t->exec);
    t->result->runtime_bytes = resident > pool ? resident - pool : 0;
    uint64_t reserve = plan_runtime_bytes(&t->d->plan);
    if (t->result->runtime_bytes <= reserve) return STATUS_OK;
    return status_set(
        STATUS_NO_FIT,
        "the program itself holds %llu bytes before the first step, more than the %llu bytes reserved for "
        "it; use fewer --threads or a larger --memory",
        (unsigned long long)t->result->runtime_bytes, (unsigned long long)reserve);
}

/* Arithmetic of all kernels in an optimizer step, recomputation included. */
static double flops_of_step(const training *t) {
    double flops = 0;
    for (int k = PROGRAM_STEP; k <= PROGRAM_ACCUMULATE; k++) {
        const plan_program *pp = t->d->plan.programs[k];
        double calls = k == PROGRAM_STEP ? 1 : (double)t->d->split.accumulate;
        for (uint32_t i = 0; pp && i < pp->program.count; i++) {
            const node *n = graph_node(&pp->program.graph, pp->program.steps[i].node);
            flops += calls * n->op->cost(&pp->program.graph, n).flops;
        }
    }
    return flops;
}

static status begin(training *t) {
    const setup *s = t->s;
    if (!s->train.samples)
        return status_set(STATUS_INVALID, "nothing to train on; name a file or folder with --data");
    TRY(data_source_check(&s->train));
    TRY(data_source_check(&s->validation));
    size_t steps = (size_t)s->options.steps;
    t->result->losses = memory_new(steps, sizeof *t->result->losses);
    size_t evaluations = s->options.eval_every ? steps / (size_t)s->options.eval_every + 1 : 1;
    t->result->evaluations = memory_new(evaluations, sizeof *t->result->evaluations);
    t->times = memory_new(steps, sizeof *t->times);
    if (!t->result->losses || !t->result->evaluations || !t->times)
        return status_set(STATUS_FAILED, "no memory for a run");
    TRY(exec_open(&t->d->plan, EXEC_OBSERVE, &t->exec));
    if (s->weights)
        TRY(weights_load(t->exec, &t->d->plan, s->weights));
    else
        weights_initialise(t->exec, &t->d->plan, &s->model, (uint64_t)s->options.seed);
    TRY(loader_plan_open(s, exec_persistent(t->exec, "loader"), 0, &t->loader));
    feed_open(&t->feed, s, t->d, t->exec);
    TRY(check_runtime(t));
    t->flops = flops_of_step(t);
    return journal_open(s, t->d, 0,
                        &t->journal); /* last: what is refused leaves an earlier run's files alone */
}

/* ---- steps ---- */

static status evaluate(training *t, int64_t step) {
    if (!t->d->split.eval_calls && !t->d->split.eval_rest) return STATUS_OK;
    double loss;
    TRY(feed_evaluate(&t->feed, &loss));
    t->result->evaluations[t->result->evaluation_count].step = step;
    t->result->evaluations[t->result->evaluation_count++].loss = loss;
    if (t->observer->evaluated)
        t->observer->evaluated(t->observer->context, step, loss, t->s->request.run.eval_samples);
    return journal_evaluated(t->journal, step, loss);
}

static status not_finite(int64_t step, double loss) {
    return status_set(STATUS_FAILED,
                      "the loss became %g in step %lld; try a smaller --lr, a longer --warmup or --clip 1",
                      loss, (long long)step + 1);
}

static status report_step(const training *t, int64_t step, double rate, double elapsed) {
    const setup_options *o = &t->s->options;
    double seconds = t->times[step];
    train_progress p = { .step = step + 1,
                         .steps = o->steps,
                         .loss = t->result->losses[step],
                         .norm = t->feed.norm ? (double)*t->feed.norm : NAN,
                         .learning_rate = rate,
                         .seconds = seconds,
                         .tokens_per_second = (double)(o->batch * t->s->request.run.context) / seconds,
                         .peak_share =
                             t->flops / seconds / t->s->request.run.lower.rates.flops[WORK_PRODUCTS],
                         .seconds_left = elapsed / (double)(step + 1) * (double)(o->steps - step - 1),
                         .resident_bytes = device_resident(),
                         .planned_bytes = t->d->plan.peak_bytes,
                         .budget_bytes = t->s->budget };
    if (t->observer->stepped) t->observer->stepped(t->observer->context, &p);
    return journal_step(t->journal, &p);
}

static status one_step(training *t, int64_t step, double started) {
    const setup_options *o = &t->s->options;
    double begin_time = clock_seconds(), rate = learning_rate(o, step);
    loader_batch batch;
    TRY(loader_next(t->loader, &batch));
    double loss = feed_step(&t->feed, &batch, step, rate);
    loader_done(t->loader);
    t->result->losses[step] = loss;
    t->times[step] = clock_seconds() - begin_time;
    t->result->steps = step + 1;
    if (!isfinite(loss)) return not_finite(step, loss);
    TRY(report_step(t, step, rate, clock_seconds() - started));
    if (o->eval_every && (step + 1) % o->eval_every == 0 && step + 1 < o->steps) return evaluate(t, step + 1);
    return STATUS_OK;
}

static int compare_numbers(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void summarise(training *t, double seconds) {
    train_result *r = t->result;
    r->seconds = seconds;
    if (r->steps) {
        qsort(t->times, (size_t)r->steps, sizeof *t->times, compare_numbers);
        r->step_seconds = t->times[r->steps / 2];
        r->tokens_per_second = (double)(t->s->options.batch * t->s->request.run.context) / r->step_seconds;
    }
    if (t->exec) r->memory = exec_measure(t->exec);
    r->resident_peak_bytes = device_resident_peak();
}

static status save(training *t) {
    if (!t->s->options.out) return STATUS_OK;
    bool gpt2 = strcmp(t->s->model.family, "gpt2") == 0; /* others have no configuration to write */
    return weights_save(t->exec, &t->d->plan, gpt2 ? &t->s->gpt2 : NULL, t->s->options.out);
}

status train_run(const setup *s, const decision *d, const train_observer *o, train_result *r) {
    *r = (train_result){ 0 };
    training t = { .s = s, .d = d, .observer = o, .result = r };
    status result = begin(&t);
    double started = clock_seconds();
    if (result == STATUS_OK && o->started) o->started(o->context, s, d);
    bool stopped = false;
    for (int64_t step = 0; step < s->options.steps && result == STATUS_OK && !stopped; step++) {
        result = one_step(&t, step, started);
        stopped = o->stop && *o->stop;
    }
    if (result == STATUS_OK && !stopped) result = evaluate(&t, r->steps);
    if (result == STATUS_OK) result = save(&t);
    if (result == STATUS_OK && stopped)
        result = status_set(STATUS_INTERRUPTED, "stopped after step %lld of %lld; the weights are in %s",
                            (long long)r->steps, (long long)s->options.steps,
                            s->options.out ? s->options.out : "memory only");
    result = journal_close(t.journal, result, r->steps);
    summarise(&t, clock_seconds() - started);
    loader_close(t.loader);
    exec_close(t.exec);
    memory_free(t.times);
    return result;
}

void train_result_close(train_result *r) {
    memory_free(r->losses);
    memory_free(r->evaluations);
    *r = (train_result){ 0 };
}
