/* The update of one element, in f32: the formula of adamw.h, with what depends on the step only worked out
 * before. */
#pragma once

#include <math.h>

#include "base/vector.h"
#include "ops/adamw/adamw.h"
#include "ops/wide_math.h"

typedef struct {
    float decay; /* 1 - lr weight_decay */
    float step;  /* lr / (1 - beta1^t) */
    float grow;  /* 1 / sqrt(1 - beta2^t) */
    float eps, scale, beta2, fresh1, fresh2;
} adamw_step;

/* In double: 1 - beta^t is small at first and sensitive. `t` counts from 1. */
VECTOR_INLINE adamw_step adamw_step_of(const adamw_attributes *a, float lr, int32_t t, float scale) {
    double rate = (double)lr, beta1 = (double)a->beta1, beta2 = (double)a->beta2;
    double left1 = 1 - wide_power_whole(beta1, (uint32_t)t);
    double left2 = sqrt(1 - wide_power_whole(beta2, (uint32_t)t));
    adamw_step s;
    s.decay = (float)(1 - rate * (double)a->weight_decay);
    s.step = (float)(rate / left1);
    s.grow = (float)(1 / left2);
    s.eps = a->eps;
    s.scale = scale;
    s.beta2 = a->beta2;
    s.fresh1 = (float)(1 - beta1);
    s.fresh2 = (float)(1 - beta2);
    return s;
}

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
