#include "train/feed.h"

#include "base/units.h"
#include "run/loader_plan.h"

status feed_open(feed *f, const setup *s, const decision *d, exec *e) {
    *f = (feed){ .setup = s, .exec = e };
    const compose_run *r = &s->request.run;
    TRY(runner_open(&f->run, e, &d->plan, &s->model, r->context, (uint64_t)s->options.seed));
    f->run.unit = compose_turn(r, d->point.choice.micro_batch), f->run.eval_unit = r->unit;
    f->run.ranks = s->comm.world, f->run.rank = s->comm.rank;
    return STATUS_OK;
}

void feed_close(feed *f) { runner_close(&f->run); }

static runner_batch batch_of(const feed *f, const loader_batch *from, int64_t step, double learning_rate) {
    runner_batch batch = { .samples = from->samples,
                           .counted_labels = from->counted_labels,
                           .step = step,
                           .learning_rate = learning_rate };
    for (uint32_t i = 0; i < f->run.field_count; i++) batch.fields[i] = from->fields[i];
    return batch;
}

status feed_step(feed *f, const loader_batch *from, int64_t step, double learning_rate) {
    runner_batch batch = batch_of(f, from, step, learning_rate);
    return runner_step(&f->run, &batch);
}

status feed_find_fault(feed *f, const loader_batch *from, int64_t step, double learning_rate,
                       exec_fault *fault, bool *found) {
    runner_batch batch = batch_of(f, from, step, learning_rate);
    return runner_find_fault(&f->run, &batch, fault, found);
}

static status read_sample(void *context, uint64_t sample, const void *fields[], uint64_t *counted) {
    const feed *f = context;
    const data_source *source = &f->setup->validation;
    char *room = exec_buffer(f->exec, "sample");
    void *scratch = room, *to[MODEL_MAX_FIELDS] = { 0 };
    room += units_align(source->scratch_bytes, LIVE_ALIGN);
    for (uint32_t i = 0; i < f->run.field_count; i++) {
        fields[i] = to[i] = room;
        room += units_align(runner_field_bytes(&f->run, i), LIVE_ALIGN);
    }
    data_masking masking = loader_plan_masking(f->setup, true);
    TRY(source->read(source, sample, scratch, to));
    data_masking_apply(&masking, sample, to[0], to[1]);
    return data_source_look(source, sample, to, counted);
}

status feed_evaluate(feed *f, const volatile sig_atomic_t *stop, runner_verdict *v) {
    return runner_evaluate(&f->run, &(runner_samples){ .read = read_sample, .context = f, .stop = stop }, v);
}
