#include "train/profile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "lower/movements.h"
#include "lower/predict.h"
#include "run/loader_plan.h"
#include "run/weights.h"
#include "train/feed.h"
#include "train/together.h"
#include "train/train_report.h"

/* ---- calls ---- */

uint32_t profile_runs(const decision *d) { return (uint32_t)plan_calls(&d->plan, TASK_TRAIN); }

static uint32_t program_of_run(const decision *d, uint32_t run) {
    return plan_call_of(&d->plan, TASK_TRAIN, run).program;
}

static const program *program_of(const decision *d, uint32_t run) {
    return &d->plan.programs[program_of_run(d, run)].program;
}

/* A run leaves a moment before its first kernel, and one after each. */
static uint64_t moments_of_runs(const decision *d, uint32_t first_runs) {
    uint64_t moments = 0;
    for (uint32_t run = 0; run < first_runs; run++) moments += (uint64_t)program_of(d, run)->count + 1;
    return moments;
}

const double *profile_moments(const profile_result *r, const decision *d, int64_t step, uint32_t run,
                              uint32_t *k) {
    *k = program_of_run(d, run);
    return r->moments + (uint64_t)step * r->moments_of_step + moments_of_runs(d, run);
}

double profile_peak(const device_rates *rates) { return rates->flops[WORK_PRODUCTS]; }
double profile_bandwidth(const device_rates *rates) { return rates->bandwidth; }

profile_bound profile_bound_of(const program *p, uint32_t step, const device_rates *rates) {
    const node *n = graph_node(&p->graph, p->steps[step].node);
    op_cost cost = n->op->cost(&p->graph, n);
    profile_bound b = { .flops = cost.flops, .bytes = cost.bytes_read + cost.bytes_written };
    b.compute = predict_arithmetic(&cost, rates);
    b.traffic = b.bytes / profile_bandwidth(rates);
    b.bound = b.compute > b.traffic ? b.compute : b.traffic;
    return b;
}

/* ---- tables ---- */

static uint64_t moments_of_step(const decision *d) { return moments_of_runs(d, profile_runs(d)); }

/* No op and phase, and no block, can make more rows than there are kernel calls. */
static uint64_t most_rows(const decision *d) {
    return (uint64_t)program_of(d, 0)->count + program_of(d, profile_runs(d) - 1)->count;
}

static uint64_t table_bytes(const decision *d, int64_t steps) {
    uint64_t world = (uint64_t)comm_world().world, of_rank = sizeof(profile_rank) + sizeof(train_rank);
    return (uint64_t)steps * (moments_of_step(d) * sizeof(double) + sizeof(profile_step)) +
           2 * most_rows(d) * sizeof(profile_row) + (world > 1 ? world * of_rank : 0);
}

status profile_reserve(const setup *s, decision *d, int64_t steps, bool *observes) {
    uint64_t bytes = table_bytes(d, steps);
    plan *p = &d->plan;
    train_keep(p, (int64_t)bytes);
    *observes = p->peak_bytes <= s->budget && train_reserve_lives(s, d);
    if (p->peak_bytes <= s->budget) return STATUS_OK;
    return status_set(STATUS_NO_FIT,
                      "the plan fits, but the profile keeps %llu bytes of its own, %llu more than the budget "
                      "leaves; use a larger --memory or fewer --steps",
                      (unsigned long long)bytes, (unsigned long long)(p->peak_bytes - s->budget));
}

static status open_tables(const decision *d, int64_t steps, bool observes, profile_result *r) {
    r->moments_of_step = moments_of_step(d);
    r->table_bytes = table_bytes(d, steps) + (observes ? exec_lives_bytes(&d->plan) : 0);
    r->moments = memory_new((size_t)steps * r->moments_of_step, sizeof *r->moments);
    r->step = memory_new((size_t)steps, sizeof *r->step);
    r->ops = memory_new(most_rows(d), sizeof *r->ops);
    r->blocks = memory_new(most_rows(d), sizeof *r->blocks);
    if (r->moments && r->step && r->ops && r->blocks) return STATUS_OK;
    return status_set(STATUS_FAILED, "no memory for a profile");
}

void profile_close(profile_result *r) {
    memory_free(r->moments);
    memory_free(r->step);
    memory_free(r->ops);
    memory_free(r->blocks);
    memory_free(r->ranks);
    train_result_close(&r->run);
    *r = (profile_result){ 0 };
}

/* ---- running ---- */

typedef struct {
    const setup *s;
    const decision *d;
    exec *exec;
    loader *loader;
    feed feed;
    volatile sig_atomic_t *stop;
} profiling;

static status begin(profiling *p) {
    const setup *s = p->s;
    TRY(exec_open(&p->d->plan, EXEC_OBSERVE, &p->exec));
    TRY(weights_begin(p->exec, s));
    TRY(loader_plan_open(s, p->d, exec_buffer(p->exec, "loader"), 0, &p->loader));
    return feed_open(&p->feed, s, p->d, p->exec);
}

static comm_moved moved_since(const comm_moved *before) {
    comm_moved now = comm_moved_so_far();
    return (comm_moved){ now.movements - before->movements, now.bytes - before->bytes,
                         now.sent - before->sent, now.seconds - before->seconds };
}

/* Ranks say before a step how they have come to it, `so_far`, as in training: what comes back is the same on
 * all of them. */
static status begin_step(profiling *p, status so_far, loader_batch *batch, profile_step *step) {
    *batch = (loader_batch){ 0 };
    step->begin = exec_now();
    if (so_far == STATUS_OK) so_far = loader_next(p->loader, batch);
    step->ready = exec_now();
    together_note note = { batch->counted_labels, p->stop && *p->stop };
    TRY(together_agree(so_far, &note));
    if (note.stops) return status_set(STATUS_INTERRUPTED, "stopped; nothing was written");
    batch->counted_labels = note.labels;
    step->met = comm_world().world > 1 ? exec_now() : step->ready;
    return STATUS_OK;
}

static status end_step(profiling *p, const loader_batch *batch, int64_t number, profile_step *step) {
    comm_moved before = comm_moved_so_far();
    TRY(feed_step(&p->feed, batch, number, p->s->options.learning_rate));
    loader_done(p->loader);
    step->end = exec_now();
    step->moved = moved_since(&before);
    return STATUS_OK;
}

/* What memory is used, as it is before the clock is read at each kernel. */
static status look(profiling *p, int64_t steps, bool observes, profile_result *r) {
    TRY(exec_measure(p->exec, &r->run.memory));
    if (observes) TRY(exec_lives_of(p->exec, &r->run.lives));
    return exec_time(p->exec, r->moments, (uint64_t)steps * r->moments_of_step);
}

static status measure(profiling *p, int64_t steps, bool observes, profile_result *r) {
    profile_step warm_up;
    loader_batch batch;
    /* It is part of the plan: its memory is looked at too. */
    status so_far = runner_rehearse_validation(&p->feed.run);
    TRY(begin_step(p, so_far, &batch, &warm_up));
    so_far = end_step(p, &batch, 0, &warm_up);
    if (so_far == STATUS_OK) so_far = look(p, steps, observes, r);
    for (int64_t i = 0; i < steps; i++) {
        TRY(begin_step(p, so_far, &batch, &r->step[i]));
        so_far = end_step(p, &batch, 1 + i, &r->step[i]);
        if (so_far == STATUS_OK) r->steps++;
    }
    return comm_agree(so_far);
}

/* ---- summing up ---- */

static op_cost cost_of(const program *p, uint32_t step) {
    const node *n = graph_node(&p->graph, p->steps[step].node);
    return n->op->cost(&p->graph, n);
}

static bool is_wait(const program *p, uint32_t step) {
    op_cost cost = cost_of(p, step);
    return movements_is_wait(graph_node(&p->graph, p->steps[step].node)->op, &cost);
}

static void split_step(const profile_result *r, const decision *d, int64_t number) {
    profile_step *step = &r->step[number];
    double last = step->met;
    step->data = step->ready - step->begin, step->meeting = step->met - step->ready;
    for (uint32_t run = 0; run < profile_runs(d); run++) {
        uint32_t k;
        const double *moment = profile_moments(r, d, number, run, &k);
        const program *p = &d->plan.programs[k].program;
        step->hand_in += moment[0] - last;
        for (uint32_t i = 0; i < p->count; i++)
            if (is_wait(p, i)) step->links += moment[i + 1] - moment[i];
        last = moment[p->count];
        step->kernels += last - moment[0];
    }
    step->rest = step->end - last;
}

static double seconds_of(const profile_step *step) { return step->end - step->begin; }

/* The step with as many faster as slower ones: of an even number the faster one in the middle. */
static uint32_t median_step(const profile_result *r) {
    for (int64_t i = 0; i < r->steps; i++) {
        int64_t before = 0;
        for (int64_t j = 0; j < r->steps; j++) {
            double a = seconds_of(&r->step[j]), b = seconds_of(&r->step[i]);
            before += a < b || (!(a > b) && j < i);
        }
        if (before == (r->steps - 1) / 2) return (uint32_t)i;
    }
    return 0;
}

static void add_call(profile_row *row, phase p, double seconds, double predicted, const profile_bound *b) {
    row->calls++;
    row->seconds += seconds;
    row->by_phase[p] += seconds;
    row->predicted += predicted;
    row->bound += b->bound;
    row->compute += b->compute;
    row->traffic += b->traffic;
    row->flops += b->flops;
    row->bytes += b->bytes;
}

static profile_row *row_of_op(profile_result *r, const char *name, phase p) {
    for (uint32_t i = 0; i < r->op_count; i++)
        if (r->ops[i].phase == p && strcmp(r->ops[i].op, name) == 0) return &r->ops[i];
    r->ops[r->op_count] = (profile_row){ .op = name, .phase = p, .site = SITE_NONE };
    return &r->ops[r->op_count++];
}

static profile_row *row_of_block(profile_result *r, int32_t site) {
    for (uint32_t i = 0; i < r->block_count; i++)
        if (r->blocks[i].site == site) return &r->blocks[i];
    r->blocks[r->block_count] = (profile_row){ .site = site };
    return &r->blocks[r->block_count++];
}

static void add_run(profile_result *r, const setup *s, const decision *d, uint32_t run) {
    uint32_t k;
    const double *moment = profile_moments(r, d, r->shown, run, &k);
    const program *p = &d->plan.programs[k].program;
    for (uint32_t i = 0; i < p->count; i++) {
        const node *n = graph_node(&p->graph, p->steps[i].node);
        double seconds = moment[i + 1] - moment[i], predicted = p->steps[i].seconds;
        profile_bound b = profile_bound_of(p, i, &s->request.run.lower.rates);
        phase at = (phase)n->phase;
        op_cost cost = cost_of(p, i);
        if (cost.sent > 0) r->moving += movements_seconds(&s->request.run.lower.rates.links, &cost);
        add_call(row_of_op(r, n->op->name, at), at, seconds, predicted, &b);
        add_call(row_of_block(r, n->site), at, seconds, predicted, &b);
        add_call(&r->total, at, seconds, predicted, &b);
    }
}

static int compare_seconds(const void *a, const void *b) {
    const profile_row *x = a, *y = b;
    return (x->seconds < y->seconds) - (x->seconds > y->seconds);
}

static int compare_sites(const void *a, const void *b) {
    const profile_row *x = a, *y = b;
    uint32_t i = (uint32_t)x->site, j = (uint32_t)y->site; /* SITE_NONE becomes the largest */
    return (i > j) - (i < j);
}

/* All ranks show the same step. `so_far` is that of all. */
static status choose_step(status so_far, profile_result *r, const decision *d) {
    for (int64_t i = 0; i < r->steps; i++) split_step(r, d, i);
    r->shown = median_step(r);
    return so_far == STATUS_OK ? comm_tell(&r->shown, sizeof r->shown) : so_far;
}

static void summarise(profile_result *r, const setup *s, const decision *d) {
    if (!r->steps) return;
    for (uint32_t run = 0; run < profile_runs(d); run++) add_run(r, s, d, run);
    qsort(r->ops, r->op_count, sizeof *r->ops, compare_seconds);
    qsort(r->blocks, r->block_count, sizeof *r->blocks, compare_sites);
    r->run.steps = r->steps;
    r->run.seconds = r->step[r->steps - 1].end - r->step[0].begin;
    r->run.step_seconds = seconds_of(&r->step[r->shown]);
    double tokens = (double)(s->options.batch * s->request.run.context);
    r->run.tokens_per_second = r->run.step_seconds > 0 ? tokens / r->run.step_seconds : NAN;
}

/* What each of several ranks tells of itself. */
static status hear_ranks(const profiling *p, profile_result *r) {
    uint64_t world = (uint64_t)comm_world().world;
    if (world < 2) return STATUS_OK;
    TRY(together_measure(p->exec, p->d, &r->run));
    r->ranks = memory_new(world, sizeof *r->ranks);
    TRY(comm_agree(r->ranks ? STATUS_OK : status_set(STATUS_FAILED, "no memory for a profile")));
    profile_rank mine = { .step = r->step[r->shown] };
    memcpy(mine.by_category, r->run.memory.by_category, sizeof mine.by_category);
    mine.by_category[CATEGORY_RUNTIME] = r->run.runtime_bytes;
    return comm_share(&mine, r->ranks, sizeof mine);
}

/* As training does before its first step. */
static status keep_reserve(const profiling *p, profile_result *r) {
    if (comm_world().world < 2) return STATUS_OK;
    exec_rehearse(p->exec);
    return comm_agree(exec_check_reserve(p->exec, &r->run.runtime_bytes));
}

status profile_run(const setup *s, const decision *d, int64_t steps, bool observes,
                   volatile sig_atomic_t *stop, profile_result *r) {
    TRY(model_computes(&s->model));
    *r = (profile_result){ 0 };
    profiling p = { .s = s, .d = d, .stop = stop };
    status result = open_tables(d, steps, observes, r);
    if (result == STATUS_OK) result = begin(&p);
    result = comm_agree(result);
    if (result == STATUS_OK) result = keep_reserve(&p, r);
    if (result == STATUS_OK) result = measure(&p, steps, observes, r);
    result = choose_step(result, r, d);
    summarise(r, s, d);
    if (result == STATUS_OK) result = hear_ranks(&p, r);
    r->run.resident_peak_bytes = exec_resident_peak(p.exec);
    loader_close(p.loader);
    feed_close(&p.feed);
    exec_close(p.exec);
    return result;
}
