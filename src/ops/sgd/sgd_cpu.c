#include <string.h>

#include "ops/fast.h"
#include "ops/reference.h"
#include "ops/sgd/sgd.h"

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

static void sgd_reference(const op_call *c) {
    const sgd_attributes *a = c->attributes;
    const op_arg *buffer = op_in(c, 2), *factor = op_in(c, 4);
    double lr = reference_get(op_in(c, 3), 0), scale = factor->data ? reference_get(factor, 0) : 1;
    if (is_skipped(c)) {
        copy_state(c);
        return;
    }
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++) {
        double w = reference_get(op_in(c, 0), i);
        double d = scale * reference_get(op_in(c, 1), i) + (double)a->weight_decay * w;
        if (buffer->data) {
            d = (double)a->momentum * reference_get(buffer, i) + d;
            reference_set(&c->out[1], i, d);
        }
        reference_set(&c->out[0], i, w - lr * d);
    }
}

VECTOR_CLONES static void sgd_piece(const op_call *c, int64_t first, int64_t last) {
    const sgd_attributes *a = c->attributes;
    const float *w = c->in[0].data, *g = c->in[1].data, *buffer = op_in(c, 2)->data;
    float *w_out = c->out[0].data, *buffer_out = buffer ? c->out[1].data : NULL;
    float lr = *(const float *)c->in[3].data, scale = fast_number(op_in(c, 4), 1);
    float momentum = a->momentum, decay = a->weight_decay;
    if (!buffer) {
#pragma GCC ivdep
        for (int64_t i = first; i < last; i++) w_out[i] = w[i] - lr * (scale * g[i] + decay * w[i]);
        return;
    }
#pragma GCC ivdep
    for (int64_t i = first; i < last; i++) {
        float d = momentum * buffer[i] + (scale * g[i] + decay * w[i]);
        w_out[i] = w[i] - lr * d;
        buffer_out[i] = d;
    }
}

static void sgd_fast(const op_call *c) {
    if (is_skipped(c))
        copy_state(c);
    else
        fast_for_elements(c, sgd_piece);
}

const op_kernel sgd_cpu[] = { { "sgd_cpu_sweep", fast_accepts, NULL, sgd_fast },
                              { "sgd_reference", NULL, NULL, sgd_reference },
                              { 0 } };
