/* The update of one element, in f32: the formula of lion.h, with what depends on the step only worked out
 * before. */
#pragma once

#include "base/vector.h"
#include "ops/lion/lion.h"

typedef struct {
    float lr, scale, decay, fresh1, fresh2; /* decay: 1 - lr weight_decay; fresh: 1 - beta */
} lion_step;

VECTOR_INLINE lion_step lion_step_of(const lion_attributes *a, float lr, float scale) {
    lion_step s;
    s.lr = lr;
    s.scale = scale;
    s.decay = (float)(1 - (double)lr * (double)a->weight_decay);
    s.fresh1 = (float)(1 - (double)a->beta1);
    s.fresh2 = (float)(1 - (double)a->beta2);
    return s;
}

/* Weight and mean in and out: one element. */
typedef struct {
    float w, m;
} lion_element;

VECTOR_INLINE lion_element lion_update(const lion_step *f, lion_element x, float g) {
    float d = f->scale * g - x.m, mean = x.m + f->fresh1 * d;
    float step = mean > 0 ? f->lr : mean < 0 ? -f->lr : 0 * mean; /* NaN goes through */
    lion_element y = { f->decay * x.w - step, x.m + f->fresh2 * d };
    return y;
}
