#include "ops/fast.h"
#include "ops/reference.h"
#include "ops/relative_bias/relative_bias.h"
#include "ops/relative_bias/relative_bias_math.h"

static void relative_bias_reference(const op_call *c) {
    const relative_bias_attributes *a = c->attributes;
    const op_arg *table = op_in(c, 0); /* (buckets,H) */
    int64_t heads = table->shape.dim[1], at = 0;
    for (int64_t h = 0; h < heads; h++)
        for (int64_t t = 0; t < a->queries; t++)
            for (int64_t s = 0; s < a->keys; s++, at++) {
                int64_t bucket = relative_bias_bucket(s - t - a->place, (int32_t)table->shape.dim[0], a);
                reference_set(&c->out[0], at, reference_get(table, bucket * heads + h));
            }
}

/* Of one head's column: all of it is looked through for each bucket, so that each sum is one number. */
static double sum_of_bucket(const op_call *c, int64_t h, int64_t bucket) {
    const relative_bias_backward_attributes *a = c->attributes;
    int64_t at = h * a->of.queries * a->of.keys;
    double sum = 0;
    for (int64_t t = 0; t < a->of.queries; t++)
        for (int64_t s = 0; s < a->of.keys; s++, at++)
            if (relative_bias_bucket(s - t - a->of.place, a->buckets, &a->of) == bucket)
                sum += reference_get(op_in(c, 0), at);
    return sum;
}

static void relative_bias_backward_reference(const op_call *c) {
    const op_arg *accumulator = op_in(c, 1), *dtable = &c->out[0];
    int64_t heads = dtable->shape.dim[1];
    for (int64_t i = 0, n = shape_elements(&dtable->shape); i < n; i++) {
        double before = accumulator->data ? reference_get(accumulator, i) : 0;
        reference_set(dtable, i, before + sum_of_bucket(c, i % heads, i / heads));
    }
}

/* ---- along distances, each of which is in one bucket ---- */

/* Of T queries and S keys, the first from the last query to the last from the first. */
static int64_t distances_of(const relative_bias_attributes *a) { return (int64_t)a->queries + a->keys - 1; }

static void find_buckets(const relative_bias_attributes *a, int32_t buckets, int32_t *of) {
    for (int64_t d = 0, n = distances_of(a); d < n; d++)
        of[d] = relative_bias_bucket(d - (a->queries - 1) - a->place, buckets, a);
}

/* In scratch: the bucket of each distance, and the table, heads first. */
static float *columns_in(const op_call *c) {
    return (float *)c->scratch + distances_of((const relative_bias_attributes *)c->attributes);
}

static uint64_t rows_scratch(const op_call *c, int threads) {
    const shape *table = &c->in[0].shape;
    (void)threads;
    return ((uint64_t)distances_of((const relative_bias_attributes *)c->attributes) +
            (uint64_t)shape_elements(table)) *
           sizeof(float);
}

/* Rows of a head and a query. */
static void bias_rows(const op_call *c, int64_t first, int64_t last) {
    enum { PART = 256 };
    const relative_bias_attributes *a = c->attributes;
    int64_t buckets = c->in[0].shape.dim[0], keys = a->keys;
    float room[PART];
    for (int64_t row = first; row < last; row++) {
        const float *column = columns_in(c) + row / a->queries * buckets;
        const int32_t *of = (const int32_t *)c->scratch + (a->queries - 1 - row % a->queries);
        for (int64_t s = 0, n; s < keys; s += n) {
            n = keys - s < PART ? keys - s : PART;
            for (int64_t j = 0; j < n; j++) room[j] = column[of[s + j]];
            fast_floats_store(&c->out[0], row * keys + s, n, room);
        }
    }
}

static void relative_bias_rows(const op_call *c) {
    const relative_bias_attributes *a = c->attributes;
    const op_arg *table = &c->in[0];
    int64_t buckets = table->shape.dim[0], heads = table->shape.dim[1];
    find_buckets(a, (int32_t)buckets, c->scratch);
    for (int64_t i = 0; i < buckets * heads; i++)
        columns_in(c)[i % heads * buckets + i / heads] = (float)reference_get(table, i);
    fast_for(c, heads * a->queries, fast_rows(a->keys), bias_rows);
}

/* In scratch: sums in double by head and distance, then by bucket, then the bucket of each distance. */
typedef struct {
    double *sums, *of_bucket;
    int32_t *bucket;
} added;

static added added_in(const op_call *c) {
    const relative_bias_backward_attributes *a = c->attributes;
    added x = { .sums = c->scratch };
    x.of_bucket = x.sums + c->in[0].shape.dim[0] * distances_of(&a->of);
    x.bucket = (int32_t *)(x.of_bucket + a->buckets);
    return x;
}

static uint64_t distances_scratch(const op_call *c, int threads) {
    const relative_bias_backward_attributes *a = c->attributes;
    uint64_t distances = (uint64_t)distances_of(&a->of), heads = (uint64_t)c->in[0].shape.dim[0];
    (void)threads;
    return (heads * distances + (uint64_t)a->buckets) * sizeof(double) + distances * sizeof(int32_t);
}

VECTOR_CLONES static void add_row(const float *x, int64_t n, double *sums) {
    for (int64_t j = 0; j < n; j++) sums[j] += (double)x[j];
}

static void add_heads(const op_call *c, int64_t first, int64_t last) {
    enum { PART = 256 };
    const relative_bias_backward_attributes *a = c->attributes;
    int64_t queries = a->of.queries, keys = a->of.keys, distances = distances_of(&a->of);
    float room[PART];
    for (int64_t h = first; h < last; h++) {
        double *sums = added_in(c).sums + h * distances;
        for (int64_t d = 0; d < distances; d++) sums[d] = 0;
        for (int64_t t = 0; t < queries; t++)
            for (int64_t s = 0, n; s < keys; s += n) {
                n = keys - s < PART ? keys - s : PART;
                const float *x = fast_floats(&c->in[0], (h * queries + t) * keys + s, n, room);
                add_row(x, n, sums + s - t + queries - 1);
            }
    }
}

static void relative_bias_backward_distances(const op_call *c) {
    const relative_bias_backward_attributes *a = c->attributes;
    const op_arg *accumulator = op_in(c, 1);
    int64_t heads = c->in[0].shape.dim[0], distances = distances_of(&a->of);
    added x = added_in(c);
    find_buckets(&a->of, a->buckets, x.bucket);
    fast_for(c, heads, 1, add_heads);
    for (int64_t h = 0; h < heads; h++) {
        for (int32_t b = 0; b < a->buckets; b++) x.of_bucket[b] = 0;
        for (int64_t d = 0; d < distances; d++) x.of_bucket[x.bucket[d]] += x.sums[h * distances + d];
        for (int32_t b = 0; b < a->buckets; b++) {
            double before = accumulator->data ? reference_get(accumulator, b * heads + h) : 0;
            reference_set(&c->out[0], b * heads + h, before + x.of_bucket[b]);
        }
    }
}

const op_kernel relative_bias_cpu[] = { { "relative_bias_cpu_rows", fast_accepts_halves, rows_scratch,
                                          relative_bias_rows },
                                        { "relative_bias_reference", NULL, NULL, relative_bias_reference },
                                        { 0 } };
const op_kernel relative_bias_backward_cpu[] = {
    { "relative_bias_backward_cpu_distances", fast_accepts_halves, distances_scratch,
      relative_bias_backward_distances },
    { "relative_bias_backward_reference", NULL, NULL, relative_bias_backward_reference },
    { 0 }
};
