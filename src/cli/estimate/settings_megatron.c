/* The settings of Megatron-LM, from options. */
#include "cli/estimate/estimate.h"

static void say_assumed(estimate_question *e, int64_t most) {
    const setup_options *run = &e->o->run;
    const megatron_settings *s = &e->settings.megatron;
    if (!run->micro_batch && e->o->estimate.batch_assumed)
        text_add(&e->notes, "micro-batches of %lld samples are assumed; say --micro-batch\n",
                 (long long)s->batch);
    if (!run->context)
        text_add(&e->notes, "the whole context of %lld tokens is assumed; say --context\n", (long long)most);
    if (s->pipeline > 1 && !s->step && !s->batch_step && !s->accumulate)
        text_add(&e->notes,
                 "a step of %lld micro-batches, as many as there are stages, is assumed; say "
                 "--global-batch-size or --accumulate\n",
                 (long long)s->pipeline);
}

/* --batch is a micro-batch's, unless --micro-batch cuts a step of so many samples. */
void estimate_settle_megatron(estimate_question *e) {
    const setup_options *run = &e->o->run;
    megatron_settings *s = &e->settings.megatron;
    int64_t most = estimate_most_context(e);
    bool said = !e->o->estimate.batch_assumed;
    *s = e->o->estimate.megatron;
    s->gpus = e->o->estimate.gpus;
    s->batch = run->micro_batch ? run->micro_batch : run->batch;
    s->batch_step = run->micro_batch && said ? run->batch : 0;
    s->batch_name = run->micro_batch || !said ? NULL : "--batch";
    s->context = run->context ? run->context : most;
    s->accumulate = run->accumulate;
    say_assumed(e, most);
}
