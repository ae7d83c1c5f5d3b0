/* The update of one element, in f32: the formula of adamw.h, with what depends on the step only worked out
 * before. */
#pragma once

#include <math.h>

#include "base/vector.h"

typedef struct {
    float decay, step, grow, eps, scale, beta2, fresh1, fresh2;
} adamw_step;

/* Weight, moments in and out: one element. */
typedef struct {
    float w, m, v;
} adamw_element;

VECTOR_INLINE adamw_element adamw_update(const adamw_step *f, adamw_element x, float g) {
    float d = f->scale * g;
    float mean = x.m + f->fresh1 * (d - x.m);
    float square = f->beta2 * x.v + f->fresh2 * (d * d);
    float w = f->decay * x.w - f->step * (mean / (sqrtf(square) * f->grow + f->eps));
    adamw_element y = { w, mean, square };
    return y;
}
