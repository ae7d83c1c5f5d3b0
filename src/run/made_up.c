#include "run/made_up.h"

#include <string.h>

#include "data/synthetic_source.h"

static bool is_any(const char *name, const char *a, const char *b, const char *c) {
    return strcmp(name, a) == 0 || strcmp(name, b) == 0 || strcmp(name, c) == 0;
}

static uint32_t below(const model *m, const char *field) {
    if (m->head.kind == HEAD_CLASSES && strcmp(field, "labels") == 0) return (uint32_t)m->head.outputs;
    return (uint32_t)(m->vocabulary ? m->vocabulary : 2);
}

static status make_up(const setup *s, uint64_t samples, uint64_t seed, data_source *source) {
    model_field fields[MODEL_MAX_FIELDS];
    const compose_run *r = &s->request.run;
    synthetic_options o = { .samples = samples, .label_field = DATA_NO_LABELS, .seed = seed };
    o.field_count = s->model.fields(&s->model, r->context, fields);
    for (uint32_t i = 0; i < o.field_count; i++) {
        o.integers[i] = fields[i].dtype == DTYPE_I32;
        o.below[i] = below(&s->model, fields[i].name);
        o.zeros[i] = is_any(fields[i].name, "segments", "positions", "place");
        if (strcmp(fields[i].name, "source_length") == 0) o.always[i] = (int32_t)r->context;
        o.field_bytes[i] = (uint64_t)shape_elements(&fields[i].of) * dtype_bytes(fields[i].dtype);
        if (o.integers[i] && strcmp(fields[i].name, "labels") == 0) o.label_field = (int32_t)i;
    }
    if (s->model.vocabulary && s->model.head.kind == HEAD_LANGUAGE)
        o.scratch_bytes = (uint64_t)r->context + 1; /* what was planned for text */
    return synthetic_source_open(&o, source);
}

status made_up_train(setup *s) {
    return s->train.samples ? STATUS_OK : make_up(s, 1 << 20, (uint64_t)s->options.seed, &s->train);
}

status made_up_validation(setup *s) {
    uint64_t samples = (uint64_t)s->request.run.eval_samples;
    if (s->validation.samples || !samples) return STATUS_OK;
    return make_up(s, samples, (uint64_t)s->options.seed + 1, &s->validation);
}
