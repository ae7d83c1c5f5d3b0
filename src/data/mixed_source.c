#include "data/mixed_source.h"

#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "data/order.h"

typedef struct {
    uint32_t count;
    uint64_t all, samples; /* of all parts; of an epoch */
    bool weighted, shuffles;
    uint64_t seed;
    mixture turns;       /* of weights */
    data_source parts[]; /* (count) */
} mixed_state;

/* ---- which sample ---- */

/* Parts of the same size would else be gone through in the same order. */
static uint64_t seed_of(const mixed_state *m, uint32_t part) {
    return m->seed + part * UINT64_C(0x9e3779b97f4a7c15);
}

/* Number `sample` of all that are numbered through: becomes its number in its part. */
static uint32_t part_of(const mixed_state *m, uint64_t *sample) {
    uint32_t p = 0;
    while (*sample >= m->parts[p].samples) *sample -= m->parts[p++].samples;
    return p;
}

static uint32_t find(const mixed_state *m, uint64_t place, uint64_t *sample) {
    if (!m->weighted) {
        *sample = m->shuffles ? data_order_sample(m->seed, m->all, place)
                              : (uint64_t)((__uint128_t)place * m->all / m->samples);
        return part_of(m, sample);
    }
    uint64_t turn;
    uint32_t p = mixture_at(&m->turns, place, &turn);
    uint64_t n = m->parts[p].samples;
    *sample = m->shuffles ? data_order_sample(seed_of(m, p), n, turn) : turn % n;
    return p;
}

/* ---- the source ---- */

static status read(const data_source *s, uint64_t place, void *scratch, void *const fields[]) {
    const mixed_state *m = s->state;
    uint64_t sample;
    const data_source *part = &m->parts[find(m, place, &sample)];
    return part->read(part, sample, scratch, fields);
}

static status check(const data_source *s) {
    const mixed_state *m = s->state;
    for (uint32_t p = 0; p < m->count; p++) TRY(data_source_check(&m->parts[p]));
    return STATUS_OK;
}

static void close_all(data_source *s) {
    mixed_state *m = s->state;
    for (uint32_t p = 0; p < m->count; p++) data_source_close(&m->parts[p]);
    mixture_close(&m->turns);
    memory_free(m);
}

/* ---- opening ---- */

static bool same_fields(const data_source *a, const data_source *b) {
    bool same = a->field_count == b->field_count && a->label_field == b->label_field;
    for (uint32_t f = 0; same && f < a->field_count; f++)
        same = a->field_bytes[f] == b->field_bytes[f] && a->ranges[f].below == b->ranges[f].below;
    return same;
}

static status check_parts(const mixed_options *o) {
    for (uint32_t p = 0; p < o->count; p++) {
        if (!o->parts[p].samples)
            return status_set(STATUS_INVALID, "part %u of the data has no sample", p + 1);
        if (!same_fields(&o->parts[0], &o->parts[p]))
            return status_set(STATUS_INVALID, "part %u of the data has other fields than the first", p + 1);
    }
    return STATUS_OK;
}

/* The last part to be through all of its samples ends the epoch. */
static status find_epoch(mixed_state *m) {
    m->samples = 0;
    for (uint32_t p = 0; p < m->count; p++) {
        uint64_t last;
        TRY(mixture_place(&m->turns, p, m->parts[p].samples - 1, &last));
        if (m->samples <= last) m->samples = last + 1;
    }
    return STATUS_OK;
}

static status set_up(const mixed_options *o, mixed_state *m, uint32_t *part) {
    bool in_place = false;
    for (uint32_t p = 0; p < o->count; p++) in_place = in_place || o->parts[p].in_place;
    m->shuffles = o->shuffles, m->seed = o->seed, m->weighted = o->weights != NULL;
    for (uint32_t p = 0; p < o->count; p++) {
        if (__builtin_add_overflow(m->all, o->parts[p].samples, &m->all) || m->all > INT64_MAX / 2)
            return status_set(STATUS_INVALID, "all parts of the data have more samples than can be counted");
        m->parts[p] = o->parts[p];
        m->parts[p].in_place = in_place;
    }
    m->count = o->count, m->samples = m->all;
    if (m->weighted) TRY(mixture_open(o->weights, o->count, &m->turns, part));
    if (m->weighted) TRY(find_epoch(m));
    if (!m->shuffles && m->samples > o->most) m->samples = o->most;
    return STATUS_OK;
}

static void describe(mixed_state *m, data_source *s) {
    *s = m->parts[0];
    s->samples = m->samples, s->ordered = true;
    s->parts = m->parts, s->part_count = m->count;
    s->read = read, s->check = check, s->close = close_all, s->state = m;
    s->scratch_bytes = 0, s->held_bytes = sizeof *m + m->count * sizeof *m->parts + m->turns.held_bytes;
    for (uint32_t p = 0; p < m->count; p++) {
        s->held_bytes += m->parts[p].held_bytes;
        if (s->scratch_bytes < m->parts[p].scratch_bytes) s->scratch_bytes = m->parts[p].scratch_bytes;
    }
}

status mixed_source_open(const mixed_options *o, data_source *s, uint32_t *part) {
    *s = (data_source){ 0 };
    *part = 0;
    TRY(check_parts(o));
    mixed_state *m = memory_new(1, sizeof *m + o->count * sizeof *m->parts);
    if (!m) return status_set(STATUS_FAILED, "no memory to mix %u parts of data", o->count);
    status result = set_up(o, m, part);
    if (result == STATUS_OK) {
        describe(m, s);
        return STATUS_OK;
    }
    mixture_close(&m->turns);
    memory_free(m);
    return result;
}

/* ---- asking ---- */

bool mixed_source_weighted(const data_source *s) {
    return s->part_count && ((const mixed_state *)s->state)->weighted;
}

mixed_share mixed_source_share(const data_source *s, uint32_t part) {
    const mixed_state *m = s->state;
    if (!s->part_count) return (mixed_share){ 1, 1 };
    if (!m->weighted) return (mixed_share){ m->parts[part].samples, m->all };
    return (mixed_share){ m->turns.share[part], m->turns.period };
}
