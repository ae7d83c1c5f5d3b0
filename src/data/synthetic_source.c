#include "data/synthetic_source.h"

#include "base/memory.h"
#include "base/philox.h"

static status read(const data_source *s, uint64_t sample, void *scratch, void *const fields[]) {
    const synthetic_options *o = s->state;
    (void)scratch;
    for (uint32_t f = 0; f < o->field_count; f++) {
        int32_t *integer = fields[f];
        float *number = fields[f];
        for (uint64_t i = 0; i < o->field_bytes[f] / 4; i++) {
            philox_block drawn =
                philox_draw(o->seed, (philox_block){ { (uint32_t)i, (uint32_t)sample, f, 0 } });
            if (o->zeros[f] || o->always[f])
                integer[i] = o->always[f];
            else if (o->integers[f])
                integer[i] = (int32_t)((uint64_t)drawn.word[0] * o->below[f] >> 32);
            else
                number[i] = philox_uniform(drawn.word[0]);
        }
    }
    return STATUS_OK;
}

static void close_source(data_source *s) { memory_free(s->state); }

status synthetic_source_open(const synthetic_options *options, data_source *source) {
    synthetic_options *o = memory_new(1, sizeof *o);
    if (!o) return status_set(STATUS_FAILED, "no memory for made-up data");
    *o = *options;
    *source = (data_source){ .samples = o->samples,
                             .field_count = o->field_count,
                             .label_field = o->label_field,
                             .scratch_bytes = o->scratch_bytes,
                             .read = read,
                             .close = close_source,
                             .state = o };
    for (uint32_t f = 0; f < o->field_count; f++) source->field_bytes[f] = o->field_bytes[f];
    return STATUS_OK;
}
