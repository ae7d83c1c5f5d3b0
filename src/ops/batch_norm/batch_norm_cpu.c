#include <math.h>

#include "ops/batch_norm/batch_norm.h"
#include "ops/reference.h"

static void batch_norm_reference(const op_call *c) {
    const batch_norm_attributes *a = c->attributes;
    const op_arg *x = op_in(c, 0);
    int64_t width = shape_last(&x->shape), rows = shape_rows(&x->shape);
    for (int64_t i = 0; i < width; i++) {
        double mean = 0, variance = 0;
        for (int64_t r = 0; r < rows; r++) mean += reference_get(x, r * width + i) / (double)rows;
        for (int64_t r = 0; r < rows; r++) {
            double away = reference_get(x, r * width + i) - mean;
            variance += away * away / (double)rows;
        }
        double rstd = 1 / sqrt(variance + (double)a->eps);
        reference_set(&c->out[1], i, mean);
        reference_set(&c->out[2], i, rstd);
        for (int64_t r = 0; r < rows; r++)
            reference_set(&c->out[0], r * width + i,
                          (reference_get(x, r * width + i) - mean) * rstd * reference_get(op_in(c, 1), i) +
                              reference_get(op_in(c, 2), i));
    }
}

/* With n = (x - mean) rstd: dbeta = sum dy, dgamma = sum dy n, dx = gamma rstd (dy - dbeta / N - n dgamma /
 * N). dx may live where x or dy does, so an element is read before it is written. */
static void batch_norm_backward_reference(const op_call *c) {
    const op_arg *x = op_in(c, 0), *dy = op_in(c, 4);
    int64_t width = shape_last(&x->shape), rows = shape_rows(&x->shape);
    for (int64_t i = 0; i < width; i++) {
        double mean = reference_get(op_in(c, 2), i), rstd = reference_get(op_in(c, 3), i), sum = 0, dot = 0;
        for (int64_t r = 0; r < rows; r++) {
            double d = reference_get(dy, r * width + i);
            sum += d, dot += d * (reference_get(x, r * width + i) - mean) * rstd;
        }
        for (int64_t r = 0; r < rows; r++) {
            int64_t at = r * width + i;
            double n = (reference_get(x, at) - mean) * rstd;
            double d = reference_get(dy, at) - (sum + n * dot) / (double)rows;
            reference_set(&c->out[0], at, reference_get(op_in(c, 1), i) * rstd * d);
        }
        for (uint32_t k = 0; k < 2; k++) {
            const op_arg *before = op_in(c, 5 + k);
            reference_set(&c->out[1 + k], i, (before->data ? reference_get(before, i) : 0) + (k ? sum : dot));
        }
    }
}

static void batch_norm_running_reference(const op_call *c) {
    const batch_norm_running_attributes *a = c->attributes;
    double share = (double)a->momentum, rows = (double)a->rows;
    for (int64_t i = 0, n = shape_elements(&op_in(c, 0)->shape); i < n; i++) {
        double rstd = reference_get(op_in(c, 3), i), variance = 1 / (rstd * rstd) - (double)a->eps;
        if (rows > 1) variance *= rows / (rows - 1);
        reference_set(&c->out[0], i,
                      (1 - share) * reference_get(op_in(c, 0), i) + share * reference_get(op_in(c, 2), i));
        reference_set(&c->out[1], i, (1 - share) * reference_get(op_in(c, 1), i) + share * variance);
    }
}

static void batch_norm_fixed_reference(const op_call *c) {
    const batch_norm_attributes *a = c->attributes;
    const op_arg *x = op_in(c, 0);
    int64_t width = shape_last(&x->shape);
    for (int64_t at = 0, n = shape_elements(&x->shape); at < n; at++) {
        int64_t i = at % width;
        double rstd = 1 / sqrt(reference_get(op_in(c, 4), i) + (double)a->eps);
        reference_set(&c->out[0], at,
                      (reference_get(x, at) - reference_get(op_in(c, 3), i)) * rstd *
                              reference_get(op_in(c, 1), i) +
                          reference_get(op_in(c, 2), i));
    }
}

const op_kernel batch_norm_cpu[] = { { "batch_norm_reference", NULL, NULL, batch_norm_reference }, { 0 } };
const op_kernel batch_norm_backward_cpu[] = {
    { "batch_norm_backward_reference", NULL, NULL, batch_norm_backward_reference }, { 0 }
};
const op_kernel batch_norm_running_cpu[] = {
    { "batch_norm_running_reference", NULL, NULL, batch_norm_running_reference }, { 0 }
};
const op_kernel batch_norm_fixed_cpu[] = {
    { "batch_norm_fixed_reference", NULL, NULL, batch_norm_fixed_reference }, { 0 }
};
