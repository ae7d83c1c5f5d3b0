/* The formulas of adafactor.h: what depends on the step only and means of squares in double, elements in f32.
 */
#pragma once

#include <math.h>

#include "base/vector.h"
#include "ops/adafactor/adafactor.h"
#include "ops/wide_math.h"

typedef struct {
    double fresh;       /* of a mean: 1 - d */
    double lr, weights; /* what stays of them: 1 - lr weight_decay */
    double scale, eps, clip;
} adafactor_step;

/* `t` counts from 1. */
VECTOR_INLINE adafactor_step adafactor_step_of(const adafactor_attributes *a, double lr, int32_t t,
                                               double scale) {
    adafactor_step s;
    s.fresh = wide_power((double)t, -(double)a->decay_power);
    s.lr = lr;
    s.weights = 1 - lr * (double)a->weight_decay;
    s.scale = scale;
    s.eps = (double)a->eps;
    s.clip = (double)a->clip;
    return s;
}

/* A mean of squares as it goes on. */
VECTOR_INLINE double adafactor_mean(const adafactor_step *f, double before, double mean) {
    return (1 - f->fresh) * before + f->fresh * mean;
}

/* The learning rate of an update of `count` elements whose squares have this sum. */
VECTOR_INLINE double adafactor_rate(const adafactor_step *f, double sum, double count) {
    double size = sqrt(sum / count) / f->clip;
    return size > 1 ? f->lr / size : f->lr;
}

/* ---- of a matrix: an element of G is multiplied with its row's factor and its column's ---- */

/* `row` is the row's mean as it goes on, `mean` that of all rows. */
VECTOR_INLINE float adafactor_row(const adafactor_step *f, double mean, float row) {
    return (float)(f->scale * sqrt(mean / (double)row));
}

VECTOR_INLINE float adafactor_column(float column) { return (float)(1 / sqrt((double)column)); }

VECTOR_INLINE float adafactor_update(float weights, float rate, float w, float direction) {
    return weights * w - rate * direction;
}

/* ---- of a vector ---- */

VECTOR_INLINE float adafactor_moment(const adafactor_step *f, float before, float square) {
    float keep = (float)(1 - f->fresh), fresh = (float)f->fresh;
    return keep * before + fresh * (square + (float)f->eps);
}
