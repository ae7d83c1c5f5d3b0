/* The settings of torchtitan, from options. */
#include "cli/estimate/estimate.h"

static void say_assumed(estimate_question *e, int64_t most) {
    if (e->o->estimate.batch_assumed)
        text_add(&e->notes, "%lld samples at once are assumed; say --batch\n",
                 (long long)e->settings.titan.batch);
    if (!e->o->run.context)
        text_add(&e->notes, "the whole context of %lld tokens is assumed; say --context\n", (long long)most);
}

/* --batch is what a device's group computes at once, local_batch_size. */
void estimate_settle_titan(estimate_question *e) {
    const setup_options *run = &e->o->run;
    const estimate_options *x = &e->o->estimate;
    titan_settings *s = &e->settings.titan;
    int64_t most = estimate_most_context(e);
    *s = x->titan;
    s->gpus = x->gpus;
    s->batch = run->batch;
    s->context = run->context ? run->context : most;
    s->accumulate = run->accumulate ? run->accumulate : 1;
    s->stages_each =
        s->schedule == TITAN_INTERLEAVED ? 2 : 1; /* torchtitan's own, where nothing else is said */
    s->loss = x->loss == LOSS_FUSED ? TITAN_LOSS_CHUNKED : TITAN_LOSS_PLAIN;
    s->compiled = x->compiled;
    s->foreach = x->update == UPDATE_FOREACH;
    s->tokens = x->tokens;
    s->steps = x->steps;
    say_assumed(e, most);
}
