#include <math.h>

#include "base/memory.h"
#include "estimate/recorded/recorded_play.h"

/* Runs that tell how sizes grow: `base`, another batch of its length, and two lengths of one batch. */
typedef struct {
    const recording_program *p;
    uint32_t base, batch, first_length, length;
    bool has_batch, has_length;
} basis;

static int64_t batch_of(const recording_program *p, uint32_t run) { return p->batches.of[run]; }
static int64_t length_of(const recording_program *p, uint32_t run) { return p->lengths.of[run]; }

/* Of several lengths or batches those furthest apart. */
static basis basis_of(const recording_program *p) {
    basis b = { .p = p };
    for (uint32_t i = 0; i < p->batches.count; i++)
        for (uint32_t k = 0; k < p->batches.count; k++) {
            int64_t batches = batch_of(p, k) - batch_of(p, i), lengths = length_of(p, k) - length_of(p, i);
            if (!lengths && batches > (b.has_batch ? batch_of(p, b.batch) - batch_of(p, b.base) : 0))
                b.base = i, b.batch = k, b.has_batch = true;
            if (!batches &&
                lengths > (b.has_length ? length_of(p, b.length) - length_of(p, b.first_length) : 0))
                b.first_length = i, b.length = k, b.has_length = true;
        }
    if (!b.has_batch) b.base = b.batch = b.has_length ? b.first_length : 0;
    if (!b.has_length) b.first_length = b.length = b.base;
    return b;
}

/* What a number is elsewhere that is so much in the runs of the basis. */
static double number_at(const basis *b, const double at[RECORDING_MOST_RUNS], double batch, double length) {
    const recording_program *p = b->p;
    double from = at[b->base], first = at[b->first_length], by_sample = 0, by_token = 0;
    double batch_base = (double)batch_of(p, b->base), length_base = (double)length_of(p, b->first_length);
    if (b->has_batch) by_sample = (at[b->batch] - from) / ((double)batch_of(p, b->batch) - batch_base);
    if (b->has_length) by_token = (at[b->length] - first) / ((double)length_of(p, b->length) - length_base);
    double by_batch = from + by_sample * (batch - batch_base),
           by_length = first + by_token * (length - length_base);
    if (by_token == 0) return by_batch;
    if (by_sample == 0) return by_length;
    double where_both_are = first + by_token * ((double)length_of(p, b->base) - length_base);
    return where_both_are > 0 ? by_batch * by_length / where_both_are : by_batch;
}

static const int64_t *dims_of(const recording_program *p, uint32_t run, uint32_t storage, int64_t *rank) {
    int64_t which = p->shape[run].of[storage];
    *rank = p->shape_ranks.of[which];
    return p->shape_dims.of + p->shape_at.of[which];
}

/* Storages whose bytes are those of their shape in every run: each dimension for itself. */
static bool size_by_dims(const basis *b, uint32_t storage, double batch, double length, double *out) {
    const recording_program *p = b->p;
    double of[RECORDING_MOST_RUNS], width = -1, whole;
    int64_t rank, other;
    dims_of(p, b->base, storage, &rank);
    for (uint32_t i = 0; i < p->batches.count; i++) {
        const int64_t *d = dims_of(p, i, storage, &other);
        whole = 1;
        for (int64_t k = 0; k < other; k++) whole *= (double)d[k];
        double w = whole > 0 ? (double)p->bytes[i].of[storage] / whole : 0;
        if (other != rank || (width >= 0 && w != width)) return false;
        width = w;
    }
    whole = width;
    for (int64_t k = 0; k < rank; k++) {
        for (uint32_t i = 0; i < p->batches.count; i++) of[i] = (double)dims_of(p, i, storage, &other)[k];
        whole *= fmax(round(number_at(b, of, batch, length)), 0);
    }
    *out = whole;
    return true;
}

static double size_at(const basis *b, uint32_t storage, double batch, double length) {
    double of[RECORDING_MOST_RUNS], whole;
    if (size_by_dims(b, storage, batch, length, &whole)) return whole;
    for (uint32_t i = 0; i < b->p->batches.count; i++) of[i] = (double)b->p->bytes[i].of[storage];
    return fmax(round(number_at(b, of, batch, length)), 0);
}

/* Of forward; of attention they are counted as recorded runs tell. */
static double operations_at(const basis *b, double batch, double length) {
    const recording_program *p = b->p;
    double sum[RECORDING_MOST_RUNS] = { 0 };
    for (uint32_t i = 0; i < p->batches.count; i++)
        for (uint32_t c = 0; c < p->call_name.count; c++)
            if (p->phase.of[c] == RECORDING_FORWARD) sum[i] += (double)p->operations[i].of[c];
    return number_at(b, sum, batch, length);
}

/* Of programs with the library's switch on, or of those without. */
static bool find_run(const recording *r, bool switched, int64_t batch, int64_t length, uint32_t *program,
                     uint32_t *run) {
    for (*program = 0; *program < r->program_count; ++*program) {
        const recording_program *p = &r->programs[*program];
        for (*run = 0; p->switched == switched && *run < p->batches.count; ++*run)
            if (batch_of(p, *run) == batch && length_of(p, *run) == length) return true;
    }
    return false;
}

/* RECORDING_MOST_PROGRAMS where there is none such. */
static uint32_t most_runs(const recording *r, bool switched) {
    uint32_t most = RECORDING_MOST_PROGRAMS;
    for (uint32_t i = 0; i < r->program_count; i++) {
        if (r->programs[i].switched != switched) continue;
        if (most == RECORDING_MOST_PROGRAMS || r->programs[i].batches.count > r->programs[most].batches.count)
            most = i;
    }
    return most;
}

static status check_basis(const basis *b, int64_t batch, int64_t length) {
    long long has_batch = batch_of(b->p, b->base), has_length = length_of(b->p, b->base);
    if (!b->has_batch && batch != has_batch)
        return status_set(
            STATUS_INVALID,
            "--batch %lld: the step was recorded with a batch of %lld alone, which does not tell "
            "how it grows; say --batch %lld, or record it with batches=(1, 2, 3)",
            (long long)batch, has_batch, has_batch);
    if (!b->has_length && length != has_length)
        return status_set(STATUS_INVALID,
                          "--context %lld: the step was recorded with a length of %lld alone, which does not "
                          "tell how it grows; say --context %lld, or record it with two lengths",
                          (long long)length, has_length, has_length);
    return STATUS_OK;
}

status recorded_sizes_find(const recording *r, int64_t batch, int64_t length, bool again, recorded_sizes *s) {
    uint32_t program = 0, run = 0;
    bool switched = again && most_runs(r, true) < RECORDING_MOST_PROGRAMS;
    *s = (recorded_sizes){ .was_recorded = find_run(r, switched, batch, length, &program, &run) };
    if (!s->was_recorded) program = most_runs(r, switched);
    const recording_program *p = s->program = &r->programs[program];
    basis b = basis_of(p);
    s->has_batches = b.has_batch, s->has_lengths = b.has_length;
    if (!s->was_recorded) TRY(check_basis(&b, batch, length));
    double sum = 0; /* times of it are added up in 64 bits later */
    s->bytes = memory_new((size_t)recording_storages(p) + 1, sizeof *s->bytes);
    if (!s->bytes) return status_set(STATUS_FAILED, "no memory to estimate");
    for (uint32_t i = 0; i < recording_storages(p); i++) {
        double whole =
            s->was_recorded ? (double)p->bytes[run].of[i] : size_at(&b, i, (double)batch, (double)length);
        if (whole >= 0x1p47)
            return status_set(STATUS_INVALID, "a tensor of the step has 2^47 bytes or more, which none can "
                                              "hold; make --micro-batch or --context smaller");
        sum += whole;
        s->bytes[i + 1] = (uint64_t)whole;
    }
    if (sum >= 0x1p60)
        return status_set(STATUS_INVALID,
                          "the tensors of the step have 2^60 bytes or more together, which no "
                          "device holds; make --micro-batch or --context smaller");
    s->operations = operations_at(&b, (double)batch, (double)length);
    return STATUS_OK;
}

void recorded_sizes_operations(const recorded_sizes *s, int64_t batch, int64_t length, double *out) {
    const recording_program *p = s->program;
    double of[RECORDING_MOST_RUNS] = { 0 };
    if (!p->batches.count) { /* settings have rewritten it, at that size */
        for (uint32_t c = 0; c < p->call_name.count; c++) out[c] = (double)p->operations[0].of[c];
        return;
    }
    basis b = basis_of(p);
    for (uint32_t c = 0; c < p->call_name.count; c++) {
        for (uint32_t i = 0; i < p->batches.count; i++) of[i] = (double)p->operations[i].of[c];
        out[c] = fmax(number_at(&b, of, (double)batch, (double)length), 0);
    }
}

void recorded_sizes_close(recorded_sizes *s) {
    memory_free(s->bytes);
    *s = (recorded_sizes){ 0 };
}
