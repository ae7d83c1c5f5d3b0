#include <string.h>

#include "ops/fast.h"
#include "ops/lion/lion.h"
#include "ops/reference.h"

static bool is_skipped(const op_call *c) {
    const op_arg *ok = op_in(c, 5);
    return ok->data && *(const int32_t *)ok->data == 0;
}

static void copy_state(const op_call *c) {
    for (uint32_t o = 0; o < c->out_count; o++)
        if (c->out[o].data != c->in[o ? 2 : 0].data)
            memcpy(c->out[o].data, c->in[o ? 2 : 0].data,
                   (size_t)shape_elements(&c->out[o].shape) * dtype_bytes(c->out[o].dtype));
}

static void lion_reference(const op_call *c) {
    const lion_attributes *a = c->attributes;
    const op_arg *factor = op_in(c, 4);
    double lr = reference_get(op_in(c, 3), 0), scale = factor->data ? reference_get(factor, 0) : 1;
    if (is_skipped(c)) {
        copy_state(c);
        return;
    }
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++) {
        double w = reference_get(op_in(c, 0), i), m = reference_get(op_in(c, 2), i);
        double d = scale * reference_get(op_in(c, 1), i) - m, mean = m + (1 - (double)a->beta1) * d;
        double step = mean > 0 ? lr : mean < 0 ? -lr : 0 * mean; /* NaN goes through */
        reference_set(&c->out[0], i, (1 - lr * (double)a->weight_decay) * w - step);
        reference_set(&c->out[1], i, m + (1 - (double)a->beta2) * d);
    }
}

VECTOR_CLONES static void lion_piece(const op_call *c, int64_t first, int64_t last) {
    const lion_attributes *a = c->attributes;
    const float *w = c->in[0].data, *g = c->in[1].data, *m = c->in[2].data;
    float *w_out = c->out[0].data, *m_out = c->out[1].data;
    float lr = *(const float *)c->in[3].data, scale = fast_number(op_in(c, 4), 1);
    float decay = (float)(1 - (double)lr * (double)a->weight_decay);
    float fresh1 = (float)(1 - (double)a->beta1), fresh2 = (float)(1 - (double)a->beta2);
#pragma GCC ivdep
    for (int64_t i = first; i < last; i++) {
        float d = scale * g[i] - m[i], mean = m[i] + fresh1 * d;
        float step = mean > 0 ? lr : mean < 0 ? -lr : 0 * mean;
        w_out[i] = decay * w[i] - step;
        m_out[i] = m[i] + fresh2 * d;
    }
}

static void lion_fast(const op_call *c) {
    if (is_skipped(c))
        copy_state(c);
    else
        fast_for_elements(c, lion_piece);
}

const op_kernel lion_cpu[] = { { "lion_cpu_sweep", fast_accepts, NULL, lion_fast },
                               { "lion_reference", NULL, NULL, lion_reference },
                               { 0 } };
