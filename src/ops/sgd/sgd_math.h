/* The update of one element, in f32: the formula of sgd.h. */
#pragma once

#include "base/vector.h"
#include "ops/sgd/sgd.h"

typedef struct {
    float lr, scale, momentum, decay;
} sgd_step;

VECTOR_INLINE sgd_step sgd_step_of(const sgd_attributes *a, float lr, float scale) {
    sgd_step s = { lr, scale, a->momentum, a->weight_decay };
    return s;
}

/* Weight and buffer in and out: one element. */
typedef struct {
    float w, buffer;
} sgd_element;

VECTOR_INLINE sgd_element sgd_update(const sgd_step *f, sgd_element x, float g) {
    float d = f->momentum * x.buffer + (f->scale * g + f->decay * x.w);
    sgd_element y = { x.w - f->lr * d, d };
    return y;
}

/* Without a buffer. */
VECTOR_INLINE float sgd_update_plain(const sgd_step *f, float w, float g) {
    return w - f->lr * (f->scale * g + f->decay * w);
}
