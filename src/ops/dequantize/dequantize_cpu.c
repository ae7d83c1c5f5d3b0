#include "ops/dequantize/dequantize.h"
#include "ops/fast.h"
#include "ops/reference.h"

VECTOR_CLONES static void decode_by_row(const int8_t *restrict codes, float scale, int64_t n,
                                        float *restrict y) {
    for (int64_t i = 0; i < n; i++) y[i] = scale * (float)codes[i];
}

VECTOR_CLONES static void widen_each(const int8_t *restrict codes, const float *restrict scales, int64_t n,
                                     float *restrict y) {
    for (int64_t i = 0; i < n; i++) y[i] = scales[i] * (float)codes[i];
}

static void widen_rows(const op_call *c, int64_t first, int64_t last) {
    const dequantize_attributes *a = c->attributes;
    const float *scales = c->in[1].data;
    int64_t n = shape_last(&c->out[0].shape);
    for (int64_t row = first; row < last; row++) {
        const int8_t *codes = (const int8_t *)c->in[0].data + row * n;
        float *y = (float *)c->out[0].data + row * n;
        if (a->columns)
            widen_each(codes, scales, n, y);
        else
            decode_by_row(codes, scales[row], n, y);
    }
}

static void dequantize_fast(const op_call *c) {
    const shape *s = &c->out[0].shape;
    fast_for(c, shape_rows(s), fast_rows(shape_last(s)), widen_rows);
}

static void dequantize_reference(const op_call *c) {
    const dequantize_attributes *a = c->attributes;
    int64_t n = shape_last(&c->out[0].shape);
    for (int64_t i = 0, all = shape_elements(&c->out[0].shape); i < all; i++)
        reference_set(&c->out[0], i,
                      reference_get(&c->in[1], a->columns ? i % n : i / n) * reference_get(&c->in[0], i));
}

const op_kernel dequantize_cpu[] = { { "dequantize_cpu_vector", NULL, NULL, dequantize_fast },
                                     { "dequantize_reference", NULL, NULL, dequantize_reference },
                                     { 0 } };
