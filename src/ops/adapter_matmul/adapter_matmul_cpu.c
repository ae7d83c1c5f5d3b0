#include <string.h>

#include "base/threads.h"
#include "ops/adapter_matmul/adapter_matmul.h"
#include "ops/matmul/matmul_kernel.h"
#include "ops/reference.h"
#include "ops/vector_math.h"

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

static void add_plainly(const op_call *c, int64_t row, const adapter_part *p, const op_arg *b) {
    int64_t in = shape_last(&op_in(c, X)->shape), out = shape_last(&c->out[0].shape);
    for (int64_t r = 0; r < p->rank; r++) {
        double h = 0;
        for (int64_t i = 0; i < in; i++)
            h += reference_get(op_in(c, X), row * in + i) * (double)p->a[r * in + i];
        h *= (double)p->scale;
        for (int64_t o = 0; o < out; o++)
            reference_set(&c->out[0], row * out + o,
                          reference_get(&c->out[0], row * out + o) + h * reference_get(b, o * p->rank + r));
    }
}

static void adapter_matmul_reference(const op_call *c) {
    keep(c);
    for (int64_t row = 0; row < rows_of(c); row++) {
        int64_t k = adapter_of(c, row);
        if (k < 0 || k >= adapter_matmul_count(c)) continue;
        adapter_part p = adapter_matmul_part(c, k);
        add_plainly(c, row, &p, op_in(c, (uint32_t)(4 + 2 * k)));
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

VECTOR_CLONES static void add(float *y, const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = x[i] + y[i];
}

static void add_rows(const op_call *c, const adapter_part *p, const int64_t *row, int64_t count) {
    int64_t in = shape_last(&op_in(c, X)->shape), out = shape_last(&c->out[0].shape);
    places at = places_of(c);
    float *floats = c->scratch, *x = floats + at.x, *h = floats + at.h, *y = floats + at.y;
    for (int64_t i = 0; i < count; i++)
        memcpy(x + i * in, (const float *)op_in(c, X)->data + row[i] * in, (size_t)in * sizeof *x);
    matmul_problem down = product(x, p->a, h, (int64_t[]){ count, p->rank, in });
    matmul_packed_run(&down, floats + at.all);
    multiply_by(h, count * p->rank, p->scale);
    matmul_problem up = product(h, p->b, y, (int64_t[]){ count, out, p->rank });
    matmul_packed_run(&up, floats + at.all);
    for (int64_t i = 0; i < count; i++) add((float *)c->out[0].data + row[i] * out, y + i * out, out);
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

const op_kernel adapter_matmul_cpu[] = { { "adapter_matmul_cpu_rows", NULL, scratch, adapter_matmul_rows },
                                         { "adapter_matmul_reference", NULL, NULL, adapter_matmul_reference },
                                         { 0 } };
