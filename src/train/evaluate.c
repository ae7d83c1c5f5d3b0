#include "train/evaluate.h"

#include <math.h>

#include "base/clock.h"
#include "comm/comm.h"
#include "run/weights.h"
#include "train/feed.h"
#include "train/together.h"

static status all_samples(const setup *s, const decision *d, exec *e, runner_verdict *v) {
    feed f;
    status result = feed_open(&f, s, d, e);
    if (result == STATUS_OK) result = feed_evaluate(&f, NULL, v);
    feed_close(&f);
    return result;
}

static status run(const setup *s, const decision *d, const evaluate_observer *o, exec *e,
                  evaluate_result *r) {
    runner_verdict v;
    TRY(comm_agree(weights_load(e, s->weights)));
    TRY(comm_agree(exec_check_reserve(e, &r->run.runtime_bytes)));
    double began = clock_seconds();
    TRY(all_samples(s, d, e, &v));
    r->loss = v.loss, r->accuracy = v.accuracy, r->f1 = v.f1;
    r->samples = s->request.run.eval_samples;
    r->seconds = clock_seconds() - began;
    r->tokens_per_second = r->seconds > 0 ? (double)(r->samples * s->request.run.context) / r->seconds : NAN;
    if (!isfinite(r->loss))
        return status_set(STATUS_FAILED, "the loss of %s on these samples is not finite", s->weights);
    return o ? o->done(o->context, &d->plan, e) : STATUS_OK;
}

/* Adapters begin as nothing, so the model would be evaluated without the ones that somebody has trained. */
static status check_techniques(const decision *d) {
    char option[PASS_OPTION_BYTES];
    for (int i = 0; pass_table[i]; i++)
        if (pass_table[i]->adapting && d->point.choice.settings[i].text[0])
            return status_set(
                STATUS_INVALID,
                "--%s is for training; merge what it has trained with 'snug merge' and evaluate "
                "the model that this makes",
                pass_option(pass_table[i], option));
    return STATUS_OK;
}

status evaluate_run(const setup *s, const decision *d, const evaluate_observer *o, evaluate_result *r) {
    exec *e = NULL;
    *r = (evaluate_result){ 0 };
    TRY(model_computes(&s->model));
    TRY(check_techniques(d));
    if (!s->weights)
        return status_set(STATUS_INVALID,
                          "%s brings no weights, so there is nothing to evaluate; name a model directory",
                          s->model.name);
    if (s->new_head)
        return status_set(STATUS_INVALID,
                          "--head %s: %s has no such head, so there is nothing to evaluate; train one first",
                          s->options.head, s->weights);
    if (!s->validation.samples)
        return status_set(STATUS_INVALID, "nothing to evaluate on; name a file or folder with --data");
    TRY(data_source_check(&s->validation));
    status result = comm_agree(exec_open(&d->plan, EXEC_OBSERVE, &e));
    if (result == STATUS_OK) result = run(s, d, o, e, r);
    if (result == STATUS_OK) result = together_measure(e, d, &r->run);
    if (result == STATUS_OK) result = exec_measure(e, &r->run.memory);
    r->run.resident_peak_bytes = exec_resident_peak(e);
    exec_close(e);
    return result;
}
