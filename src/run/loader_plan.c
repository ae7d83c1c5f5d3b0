#include "run/loader_plan.h"

#include "base/dtype.h"
#include "base/units.h"

enum { READ_AHEAD = 2 }; /* batches: one in use, one being read */

data_masking loader_plan_masking(const setup *s, bool validation) {
    return (data_masking){ .on = s->model.masks,
                           .seed = validation ? 0 : (uint64_t)s->options.seed,
                           .context = (uint32_t)s->request.run.context,
                           .vocabulary = (uint32_t)s->model.vocabulary,
                           .mask = s->model.mask,
                           .skips_ignored = (validation ? &s->validation : &s->train)->in_place };
}

/* `turn`: samples that follow each other on one rank, which take as many bytes however many they are. */
static loader_options options_of(const setup *s, const data_source *source, int64_t turn) {
    return (loader_options){ .source = source,
                             .batch = (uint32_t)compose_here(&s->request.run),
                             .ranks = (uint32_t)s->comm.world,
                             .rank = (uint32_t)s->comm.rank,
                             .unit = (uint32_t)turn,
                             .depth = READ_AHEAD,
                             .workers = (uint32_t)s->options.workers,
                             .seed = (uint64_t)s->options.seed,
                             .masking = loader_plan_masking(s, false) };
}

/* What the fields of the model say of a sample, where there is no data to ask. */
static data_source imagined(const setup *s) {
    model_field fields[MODEL_MAX_FIELDS];
    data_source source = { .samples = 1 << 20, .label_field = DATA_NO_LABELS };
    source.field_count = s->model.fields(&s->model, s->request.run.context, fields);
    for (uint32_t i = 0; i < source.field_count; i++)
        source.field_bytes[i] = (uint64_t)shape_elements(&fields[i].of) * dtype_bytes(fields[i].dtype);
    if (s->model.vocabulary && s->model.head.kind == HEAD_LANGUAGE)
        source.scratch_bytes = (uint64_t)s->request.run.context + 1; /* as text_source reads bytes */
    return source;
}

/* One sample in all its fields, each aligned, and the scratch of reading it. */
static uint64_t sample_bytes(const data_source *source) {
    uint64_t bytes = units_align(source->scratch_bytes, LIVE_ALIGN);
    for (uint32_t i = 0; i < source->field_count; i++)
        bytes += units_align(source->field_bytes[i], LIVE_ALIGN);
    return bytes;
}

status loader_plan_buffers(const setup *s, compose_run *run) {
    data_source source = s->train.samples ? s->train : imagined(s);
    loader_options o = options_of(s, &source, compose_unit(run));
    const data_source *validation = s->validation.samples ? &s->validation : &source;
    plan_buffer ahead = { .name = "loader" };
    run->buffer_count = 0;
    if (run->training) { /* validation reads one sample after the other */
        TRY(loader_bytes(&o, &ahead.bytes));
        run->buffers[run->buffer_count++] = ahead;
    }
    run->buffers[run->buffer_count++] = (plan_buffer){ .name = "sample", .bytes = sample_bytes(validation) };
    return STATUS_OK;
}

status loader_plan_open(const setup *s, const decision *d, void *memory, uint64_t first_sample, loader **l) {
    loader_options o = options_of(s, &s->train, compose_turn(&s->request.run, d->point.choice.micro_batch));
    o.first_sample = first_sample;
    return loader_open(&o, memory, l);
}
