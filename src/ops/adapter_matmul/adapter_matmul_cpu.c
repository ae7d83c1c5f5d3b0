#include <string.h>

#include "ops/adapter_matmul/adapter_matmul.h"
#include "ops/fast.h"
#include "ops/matmul/matmul_kernel.h"
#include "ops/reference.h"

enum { Y, X, ADAPTER };

static int64_t adapter_of(const op_call *c, int64_t row) {
    return ((const int32_t *)op_in(c, ADAPTER)->data)[row];
}
static int64_t rows_of(const op_call *c) { return op_in(c, ADAPTER)->shape.dim[0]; }

/* y becomes the result, where it is not already. */
static void keep(const op_call *c) {
    const op_arg *y = op_in(c, Y), *out = &c->out[0];
    if (out->data != y->data)
        memcpy(out->data, y->data, (size_t)shape_elements(&y->shape) * dtype_bytes(y->dtype));
}

/* ---- reference ---- */

static void add_plainly(const op_call *c, int64_t row, const adapter_part *p, double *h) {
    int64_t in = shape_last(&op_in(c, X)->shape), out = shape_last(&c->out[0].shape);
    for (int64_t r = 0; r < p->rank; r++) {
        h[r] = 0;
        for (int64_t i = 0; i < in; i++)
            h[r] += reference_get(op_in(c, X), row * in + i) * (double)p->a[r * in + i];
        h[r] *= (double)p->scale;
    }
    for (int64_t o = 0; o < out; o++) {
        double sum = 0;
        for (int64_t r = 0; r < p->rank; r++) sum += h[r] * (double)p->b[o * p->rank + r];
        reference_set(&c->out[0], row * out + o, reference_get(&c->out[0], row * out + o) + sum);
    }
}

static uint64_t reference_scratch(const op_call *c, int threads) {
    (void)threads;
    return (uint64_t)adapter_matmul_most_rank(c) * sizeof(double);
}

static void adapter_matmul_reference(const op_call *c) {
    keep(c);
    for (int64_t row = 0; row < rows_of(c); row++) {
        int64_t k = adapter_of(c, row);
        if (k < 0 || k >= adapter_matmul_count(c)) continue;
        adapter_part p = adapter_matmul_part(c, k);
        add_plainly(c, row, &p, c->scratch);
    }
}

/* ---- two products for the rows of each adapter, some of which are gathered at a time ---- */

enum { TOGETHER = 64 };

/* Floats of the scratch, before what products take. */
typedef struct {
    int64_t x, h, y, all;
} places;

static places places_of(const op_call *c) {
    int64_t together = rows_of(c) < TOGETHER ? rows_of(c) : TOGETHER;
    places p = { 0 };
    p.h = p.x + together * shape_last(&op_in(c, X)->shape);
    p.y = p.h + together * adapter_matmul_most_rank(c);
    p.all = (p.y + together * shape_last(&c->out[0].shape) + 15) / 16 * 16;
    return p;
}

/* y = x w^T */
static matmul_problem product(const float *x, const float *w, float *y, const int64_t sizes[3]) {
    return (matmul_problem){ .rows = sizes[0],
                             .columns = sizes[1],
                             .depth = sizes[2],
                             .a = { .data = x, .stride = sizes[2], .type = DTYPE_F32 },
                             .b = { .data = w, .stride = sizes[2], .type = DTYPE_F32 },
                             .y = y,
                             .type = DTYPE_F32 };
}

static uint64_t scratch(const op_call *c, int threads) {
    int64_t together = rows_of(c) < TOGETHER ? rows_of(c) : TOGETHER, rank = adapter_matmul_most_rank(c);
    matmul_problem down = product(NULL, NULL, NULL,
                                  (int64_t[]){ together, rank, shape_last(&op_in(c, X)->shape) }),
                   up =
                       product(NULL, NULL, NULL, (int64_t[]){ together, shape_last(&c->out[0].shape), rank });
    uint64_t a = matmul_packed_scratch_most(&down, threads), b = matmul_packed_scratch_most(&up, threads);
    return (uint64_t)places_of(c).all * sizeof(float) + (a > b ? a : b);
}

VECTOR_CLONES static void multiply_by(float *x, int64_t n, float factor) {
    for (int64_t i = 0; i < n; i++) x[i] *= factor;
}

VECTOR_INLINE void add_typed(void *y, const float *x, int64_t n, const dtype type) {
    for (int64_t i = 0; i < n; i++) fast_put(y, i, x[i] + fast_get(y, i, type), type);
}

VECTOR_CLONES static void add(const op_arg *y, int64_t first, const float *x, int64_t n) {
    char *to = (char *)y->data + first * (int64_t)dtype_bytes(y->dtype);
    if (y->dtype == DTYPE_F32) add_typed(to, x, n, DTYPE_F32);
    if (y->dtype == DTYPE_BF16) add_typed(to, x, n, DTYPE_BF16);
    if (y->dtype == DTYPE_F16) add_typed(to, x, n, DTYPE_F16);
}

static void add_rows(const op_call *c, const adapter_part *p, const int64_t *row, int64_t count) {
    int64_t in = shape_last(&op_in(c, X)->shape), out = shape_last(&c->out[0].shape);
    places at = places_of(c);
    float *floats = c->scratch, *x = floats + at.x, *h = floats + at.h, *y = floats + at.y;
    for (int64_t i = 0; i < count; i++) {
        const float *from = fast_floats(op_in(c, X), row[i] * in, in, x + i * in);
        if (from != x + i * in) memcpy(x + i * in, from, (size_t)in * sizeof *x);
    }
    matmul_problem down = product(x, p->a, h, (int64_t[]){ count, p->rank, in });
    matmul_packed_run(&down, floats + at.all);
    multiply_by(h, count * p->rank, p->scale);
    matmul_problem up = product(h, p->b, y, (int64_t[]){ count, out, p->rank });
    matmul_packed_run(&up, floats + at.all);
    for (int64_t i = 0; i < count; i++) add(&c->out[0], row[i] * out, y + i * out, out);
}

static void adapter_matmul_rows(const op_call *c) {
    keep(c);
    for (int64_t k = 0; k < adapter_matmul_count(c); k++) {
        adapter_part p = adapter_matmul_part(c, k);
        int64_t row[TOGETHER], count = 0;
        for (int64_t i = 0; p.rank && i < rows_of(c); i++) {
            if (adapter_of(c, i) != k) continue;
            row[count++] = i;
            if (count == TOGETHER) add_rows(c, &p, row, count), count = 0;
        }
        if (count) add_rows(c, &p, row, count);
    }
}

const op_kernel adapter_matmul_cpu[] = {
    { "adapter_matmul_cpu_rows", fast_accepts_halves, scratch, adapter_matmul_rows },
    { "adapter_matmul_reference", NULL, reference_scratch, adapter_matmul_reference },
    { 0 }
};
