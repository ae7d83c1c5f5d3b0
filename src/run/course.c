#include "run/course.h"

#include <math.h>

/* Usual for going on from published weights: that of transformers' Trainer, and for adapters that of QLoRA
 * (arXiv 2305.14314, table 9). */
static const double RATE_OF_WEIGHTS = 5e-5, RATE_OF_ADAPTERS = 2e-4, WARMUP_OF_WEIGHTS = 0.03;

static bool adapts(const setup *s) {
    for (int i = 0; pass_table[i]; i++)
        if (pass_table[i]->adapting && s->request.pins[i].kind == SEARCH_PINNED) return true;
    return false;
}

double course_epochs(const setup *s) {
    const setup_options *o = &s->options;
    return s->train.samples ? (double)o->steps * (double)o->batch / (double)s->train.samples : 0;
}

/* The steps in which `epochs` times all samples are taken; the last batch may go on into the next epoch. */
static status settle_steps(setup *s) {
    setup_options *o = &s->options;
    if (o->epochs > 0 && o->steps > 0)
        return status_set(STATUS_INVALID,
                          "--steps %lld and --epochs %g both say how long to train; leave one out",
                          (long long)o->steps, o->epochs);
    if (o->steps == COURSE_UNSAID) o->steps = COURSE_STEPS;
    if (o->epochs <= 0 || o->eval_only) return STATUS_OK;
    if (!s->train.samples)
        return status_set(STATUS_INVALID,
                          "--epochs %g: there is no data to go through; give --data, or --steps", o->epochs);
    double steps = ceil(o->epochs * (double)s->train.samples / (double)o->batch - 1e-9);
    if (steps > (double)(1 << 30))
        return status_set(STATUS_INVALID, "--epochs %g are %.3g steps, which is too many", o->epochs, steps);
    o->steps = steps > 1 ? (int64_t)steps : 1;
    return STATUS_OK;
}

/* What is decided by validations needs some. */
static status check_validated(const setup *s) {
    const setup_options *o = &s->options;
    const char *name = o->patience ? "--patience" : "--keep-best";
    if ((!o->patience && !o->keep_best) || o->eval_only) return STATUS_OK;
    if (o->patience && (!o->eval_every || o->eval_every > o->steps))
        return status_set(
            STATUS_INVALID,
            "--patience %lld counts validations, and there is one alone, at the end; say how often "
            "to validate with --eval-every",
            (long long)o->patience);
    if (s->validation.samples || !s->train.samples) return STATUS_OK;
    if (s->model.head.kind != HEAD_LANGUAGE)
        return status_set(STATUS_INVALID,
                          "%s: nothing validates, since every tenth record does and there are fewer; give "
                          "--eval-data",
                          name);
    return status_set(STATUS_INVALID,
                      "%s: nothing validates, since the last tenth of the data is shorter than a "
                      "sample; give --eval-data, or a smaller --context",
                      name);
}

status course_settle(setup *s) {
    setup_options *o = &s->options;
    TRY(settle_steps(s));
    TRY(check_validated(s));
    s->rate_unsaid = o->learning_rate == COURSE_UNSAID, s->warmup_unsaid = o->warmup == COURSE_UNSAID;
    double usual = !s->weights ? COURSE_RATE : adapts(s) ? RATE_OF_ADAPTERS : RATE_OF_WEIGHTS;
    int64_t rise = s->weights ? (int64_t)ceil(WARMUP_OF_WEIGHTS * (double)o->steps) : COURSE_WARMUP;
    if (s->rate_unsaid) o->learning_rate = usual;
    if (s->warmup_unsaid) o->warmup = rise;
    return STATUS_OK;
}

const char *course_reason(const setup *s) {
    bool rate = s->rate_unsaid, warmup = s->warmup_unsaid;
    if (!s->weights || (!rate && !warmup)) return NULL;
    if (!rate) return "its warmup is 3 % of the steps, as usual where weights are there already";
    if (adapts(s)) return "usual for adapters; --lr and --warmup say others";
    return "usual where weights are there already; --lr and --warmup say others";
}
