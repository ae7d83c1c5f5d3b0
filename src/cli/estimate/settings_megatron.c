/* The settings of Megatron-LM, from options. */
#include "cli/estimate/estimate.h"

/* --batch is a micro-batch's, unless --micro-batch cuts a step of so many samples. */
void estimate_settle_megatron(estimate_question *e) {
    const setup_options *run = &e->o->run;
    megatron_settings *s = &e->settings.megatron;
    int64_t most = estimate_most_context(e);
    *s = e->o->estimate.megatron;
    s->gpus = e->o->estimate.gpus;
    s->batch = run->micro_batch ? run->micro_batch : run->batch;
    s->context = run->context ? run->context : most;
    s->accumulate = run->accumulate;
    if (!s->step && run->micro_batch && run->batch != setup_defaults().batch) s->step = run->batch;
    if (!run->context)
        text_add(&e->notes, "the whole context of %lld tokens is assumed; say --context\n", (long long)most);
}
