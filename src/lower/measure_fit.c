#include "lower/measure_fit.h"

#include "lower/predict.h"

typedef struct {
    const measure_taken *taken;
    int count;
} taken_list;

/* The next sample of a purpose from *i on; NULL: there is none. */
static const measure_taken *next(const taken_list *l, measure_purpose of, int *i) {
    while (*i < l->count) {
        const measure_taken *m = &l->taken[(*i)++];
        if (m->of == of && m->seconds > 0) return m;
    }
    return NULL;
}

static double bytes_of(const measure_taken *m) {
    return m->cost.bytes_read + m->cost.bytes_written + m->cost.bytes_again;
}

/* seconds = flops * a + moved * b, by least squares of relative errors; neither may be negative. */
static void fit_products(const taken_list *l, device_rates *r) {
    double ff = 0, fm = 0, mm = 0, f = 0, v = 0;
    const measure_taken *m;
    for (int i = 0; (m = next(l, MEASURE_PRODUCTS, &i));) {
        double traffic = m->cost.reads ? bytes_of(m) / r->cached : 0;
        double seconds = m->seconds - r->call_seconds - traffic;
        if (seconds <= 0) continue;
        double x = m->cost.flops / seconds, y = m->cost.bytes_moved / seconds;
        ff += x * x, fm += x * y, mm += y * y, f += x, v += y;
    }
    if (f <= 0) return;
    double determinant = ff * mm - fm * fm;
    double a = (f * mm - v * fm) / determinant, b = (v * ff - f * fm) / determinant;
    bool sound = determinant > 0 && a > 0 && b > 0;
    r->flops[WORK_PRODUCTS] = sound ? 1 / a : ff / f;
    r->moved = sound ? 1 / b : 1e12;
}

/* What products of another kind take beside drawing and moving, whose rates are known by now: the mean of the
 * times per flop, at least a third of a sample's. */
static void fit_other_products(const taken_list *l, work_kind kind, device_rates *r) {
    double sum = 0, count = 0;
    const measure_taken *m;
    for (int i = 0; (m = next(l, MEASURE_OTHER_PRODUCTS, &i));) {
        if (m->cost.kind != kind) continue;
        double beside = r->call_seconds + m->cost.draws / r->draws + m->cost.bytes_moved / r->moved;
        double seconds = m->seconds - beside, least = m->seconds / 3;
        sum += (seconds > least ? seconds : least) / m->cost.flops, count++;
    }
    if (count > 0) r->flops[kind] = count / sum;
}

/* Seconds of a sample that are neither its start nor traffic with caches. */
static double seconds_of_work(const measure_taken *m, const device_rates *r) {
    return m->seconds - r->call_seconds - bytes_of(m) / r->cached;
}

/* Of a kind: the mean of the times per flop of its samples. */
static void fit_work(const taken_list *l, work_kind kind, device_rates *r) {
    double sum = 0, count = 0;
    const measure_taken *m;
    for (int i = 0; (m = next(l, MEASURE_WORK, &i));) {
        double seconds = seconds_of_work(m, r);
        if (m->cost.kind != kind || seconds <= 0) continue;
        sum += seconds / (m->cost.work > 0 ? m->cost.work : m->cost.flops), count++;
    }
    if (count > 0) r->flops[kind] = count / sum;
}

/* What samples with operands from memory take beyond their work; at least `least` of their time. */
static void fit_memory(const taken_list *l, measure_purpose of, const device_rates *r, double *rate) {
    const double least = 0.05;
    double bytes = 0, seconds = 0;
    const measure_taken *m;
    for (int i = 0; (m = next(l, of, &i));) {
        double beyond = m->seconds - r->call_seconds - predict_work(&m->cost, r);
        bytes += m->memory_bytes;
        seconds += beyond > least * m->seconds ? beyond : least * m->seconds;
    }
    if (bytes > 0) *rate = bytes / seconds;
}

static bool is_told(const taken_list *l, work_kind kind) {
    for (int i = 0; i < l->count; i++)
        if (l->taken[i].cost.kind == kind && l->taken[i].seconds > 0) return true;
    return false;
}

/* Of 16 bits, where no sample tells: as much faster than of 32 as it was before the latter were measured. */
static void follow(const taken_list *l, work_kind half, work_kind full, const device_rates *before,
                   device_rates *r) {
    if (!is_told(l, half)) r->flops[half] *= r->flops[full] / before->flops[full];
}

void measure_fit(const measure_taken *m, int count, double thread_seconds, device_rates *r) {
    const device_rates before = *r;
    const taken_list l = { m, count };
    const measure_taken *x;
    for (int i = 0; (x = next(&l, MEASURE_CALL, &i));) r->call_seconds = x->seconds + thread_seconds;
    for (int i = 0; (x = next(&l, MEASURE_CACHE, &i));) r->cached = bytes_of(x) / x->seconds;
    for (int kind = 0; kind < WORK_KINDS; kind++)
        if (!work_is_products((work_kind)kind)) fit_work(&l, (work_kind)kind, r);
    for (int i = 0; (x = next(&l, MEASURE_DRAWS, &i));)
        if (seconds_of_work(x, r) > 0) r->draws = x->cost.draws / seconds_of_work(x, r);
    fit_products(&l, r);
    fit_other_products(&l, WORK_CODES, r);
    fit_other_products(&l, WORK_PRODUCTS_HALF, r);
    follow(&l, WORK_PRODUCTS_HALF, WORK_PRODUCTS, &before, r);
    follow(&l, WORK_ATTENTION_HALF, WORK_ATTENTION, &before, r);
    follow(&l, WORK_ARITHMETIC_HALF, WORK_ARITHMETIC, &before, r);
    follow(&l, WORK_FUNCTIONS_HALF, WORK_FUNCTIONS, &before, r);
    fit_memory(&l, MEASURE_MEMORY, r, &r->bandwidth);
    fit_memory(&l, MEASURE_FETCH, r, &r->fetched);
}
