#include "ops/widened.h"

#include "base/half.h"

/* Floats that are widened at a time where rows are short: with what they come from they stay in the first
 * cache. */
enum { MOST = 4096 };

static bool is_whole(uint32_t mask, uint32_t i) { return (mask >> i & 1u) != 0; }

/* Elements of a row, or of all that every body gets. */
static int64_t part_of(const op_arg *x, const widened *how, bool whole) {
    int64_t n = shape_elements(&x->shape);
    return whole ? n : n / how->rows;
}

static int64_t align_floats(int64_t n) { return (n + 15) & ~(int64_t)15; }

/* Floats of scratch for `count` rows of one thread. */
static int64_t floats_of(const op_call *c, const widened *how, int64_t count) {
    int64_t floats = 0;
    for (uint32_t i = 0; i < c->in_count; i++) {
        bool whole = is_whole(how->whole_in, i);
        if (dtype_is_half(c->in[i].dtype))
            floats += align_floats(part_of(&c->in[i], how, whole) * (whole ? 1 : count));
    }
    for (uint32_t o = 0; o < c->out_count; o++)
        if (dtype_is_half(c->out[o].dtype) && !is_whole(how->whole_out, o))
            floats += align_floats(part_of(&c->out[o], how, false) * count);
    return floats;
}

bool widened_accepts(const op_call *c) {
    bool any = false;
    for (uint32_t i = 0; i < c->in_count + c->out_count; i++) {
        dtype type = i < c->in_count ? c->in[i].dtype : c->out[i - c->in_count].dtype;
        if (dtype_is_float(type) && dtype_wide(type) != DTYPE_F32) return false;
        any |= dtype_is_half(type);
    }
    return any;
}

int64_t widened_step(const op_call *c, const widened *how) {
    int64_t one = floats_of(c, how, 1), more = floats_of(c, how, 17) - one; /* of 16 rows, rounded up */
    int64_t step = one >= MOST || !more ? 1 : (MOST - one) * 16 / more;
    if (step > how->rows) step = how->rows;
    return step < 1 ? 1 : step;
}

uint64_t widened_scratch(const op_call *c, const widened *how, int threads) {
    uint64_t each = (uint64_t)floats_of(c, how, widened_step(c, how)) * sizeof(float);
    return how->own + each * (uint64_t)threads;
}

/* An argument as a body sees it; where it is narrow, `*at` is where its wide rows go. */
static op_arg wide_arg(const widened_rows *w, const op_arg *x, bool whole, float **at) {
    int64_t part = part_of(x, w->how, whole), count = whole ? 1 : w->count;
    op_arg y = *x;
    if (!x->data) return y;
    if (!whole) y.shape = SHAPE(count, part);
    if (!whole) y.data = (char *)x->data + (uint64_t)(w->first * part) * dtype_bytes(x->dtype);
    if (!dtype_is_half(x->dtype)) return y;
    y.data = *at, y.dtype = DTYPE_F32;
    *at += align_floats(part * count);
    return y;
}

static const uint16_t *narrow_rows(const widened_rows *w, const op_arg *x, bool whole) {
    return (const uint16_t *)x->data + (whole ? 0 : w->first * part_of(x, w->how, false));
}

void widened_open(widened_rows *w, const op_call *c, const widened *how, int64_t first, int64_t count,
                  int thread) {
    *w = (widened_rows){ .call = *c, .of = c, .first = first, .count = count, .how = how };
    w->call.in = w->in, w->call.out = w->out;
    float *at = (float *)((char *)c->scratch + how->own);
    at += floats_of(c, how, widened_step(c, how)) * thread;
    for (uint32_t i = 0; i < c->in_count; i++) {
        bool whole = is_whole(how->whole_in, i);
        w->in[i] = wide_arg(w, &c->in[i], whole, &at);
        if (c->in[i].data && dtype_is_half(c->in[i].dtype))
            half_widen(c->in[i].dtype, narrow_rows(w, &c->in[i], whole), shape_elements(&w->in[i].shape),
                       w->in[i].data);
    }
    for (uint32_t o = 0; o < c->out_count; o++)
        w->out[o] = is_whole(how->whole_out, o) ? c->out[o] : wide_arg(w, &c->out[o], false, &at);
}

static void narrow_past(dtype type, const float *from, int64_t n, uint16_t *to) {
    uint16_t part[FAST_PART];
    for (int64_t i = 0; i < n; i += FAST_PART) {
        int64_t count = n - i < FAST_PART ? n - i : FAST_PART;
        half_narrow(type, from + i, count, part);
        fast_store_past_halves(to + i, part, count);
    }
}

/* Past the caches where results are large. */
static void narrow_outputs(const widened_rows *w) {
    for (uint32_t o = 0; o < w->of->out_count; o++) {
        const op_arg *y = &w->of->out[o];
        if (!dtype_is_half(y->dtype) || is_whole(w->how->whole_out, o)) continue;
        (fast_is_past_caches(w->of, y) ? narrow_past : half_narrow)(
            y->dtype, w->out[o].data, shape_elements(&w->out[o].shape), (uint16_t *)narrow_rows(w, y, false));
    }
}

void widened_close(const widened_rows *w) {
    narrow_outputs(w);
    fast_stored_past();
}

typedef struct {
    const op_call *call;
    const widened *how;
    fast_body body;
    int64_t step;
} work;

/* Steps of a thread at a time: whoever waits for what goes past the caches does so once for them. */
enum { STEPS = 8 };

static void run_piece(void *context, int64_t piece, int thread) {
    const work *j = context;
    int64_t first = piece * STEPS * j->step, last = first + STEPS * j->step;
    if (last > j->how->rows) last = j->how->rows;
    for (; first < last; first += j->step) {
        widened_rows w;
        widened_open(&w, j->call, j->how, first, last - first < j->step ? last - first : j->step, thread);
        j->body(&w.call, 0, w.count);
        narrow_outputs(&w);
    }
    fast_stored_past();
}

void widened_run(const op_call *c, const widened *how, fast_body body) {
    work j = { c, how, body, widened_step(c, how) };
    int64_t rows = j.step * STEPS;
    threads_for((how->rows + rows - 1) / rows, run_piece, &j);
}

static widened by_elements(const op_call *c) {
    widened how = { .rows = shape_elements(&c->out[0].shape) };
    for (uint32_t i = 0; i < c->in_count; i++)
        if (c->in[i].dtype && shape_elements(&c->in[i].shape) == 1) how.whole_in |= 1u << i;
    return how;
}

uint64_t widened_elements_scratch(const op_call *c, int threads) {
    widened how = by_elements(c);
    return widened_scratch(c, &how, threads);
}

void widened_elements(const op_call *c, fast_body body) {
    widened how = by_elements(c);
    widened_run(c, &how, body);
}
