#include "train/train_report.h"

#include <math.h>
#include <stdlib.h>

#include "lower/predict.h"

double train_report_least(const setup *s, const decision *d) {
    double seconds = 0;
    for (uint32_t k = 0; k < d->plan.program_count; k++) {
        const plan_program *pp = &d->plan.programs[k];
        double calls = (double)pp->program.shape.calls;
        for (uint32_t i = 0; pp->program.shape.task == TASK_TRAIN && i < pp->program.count; i++) {
            const node *n = graph_node(&pp->program.graph, pp->program.steps[i].node);
            op_cost cost = n->op->cost(&pp->program.graph, n);
            seconds += calls * predict_arithmetic(&cost, &s->request.run.lower.rates);
        }
    }
    return seconds;
}

static double tokens_per_second(const setup *s, double seconds) {
    return seconds > 0 ? (double)(s->options.batch * s->request.run.context) / seconds : NAN;
}

void train_report_step(const setup *s, const decision *d, double least, int64_t first, double elapsed,
                       train_progress *p) {
    const setup_options *o = &s->options;
    p->steps = o->steps;
    p->images = s->model.sees;
    p->tokens_per_second = tokens_per_second(s, p->seconds);
    p->peak_share = p->seconds > 0 ? least / p->seconds : 0;
    p->seconds_left = elapsed / (double)(p->step - first) * (double)(o->steps - p->step);
    p->resident_bytes = device_resident();
    p->planned_bytes = d->plan.peak_bytes;
    p->budget_bytes = s->budget;
}

static int compare_numbers(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void train_keep(plan *p, int64_t bytes) {
    p->runtime.tables += (uint64_t)bytes;
    p->pools[plan_host_pool(p)].runtime_bytes += (uint64_t)bytes;
    p->by_category[CATEGORY_RUNTIME] += (uint64_t)bytes;
    p->peak_bytes += (uint64_t)bytes;
}

bool train_reserve_lives(const setup *s, decision *d) {
    int64_t bytes = (int64_t)exec_lives_bytes(&d->plan);
    train_keep(&d->plan, bytes);
    if (d->plan.peak_bytes <= s->budget) return true;
    train_keep(&d->plan, -bytes);
    return false;
}

status train_report_end(const train_observer *o, const setup *s, const exec *e, double *times, double seconds,
                        train_result *r) {
    int64_t count = r->steps - r->first;
    r->seconds = seconds;
    if (count > 0) {
        qsort(times + r->first, (size_t)count, sizeof *times, compare_numbers);
        r->step_seconds = times[r->first + count / 2];
        r->tokens_per_second = tokens_per_second(s, r->step_seconds);
    }
    if (e && o->lives) TRY(exec_lives_of(e, &r->lives));
    r->resident_peak_bytes = exec_resident_peak(e);
    return e ? exec_measure(e, &r->memory) : STATUS_OK;
}
