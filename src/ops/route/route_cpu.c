#include <math.h>

#include "ops/reference.h"
#include "ops/route/route.h"
#include "ops/wide_math.h"

/* 1 / sum of exp(x - largest) of a row. */
static double share(const op_arg *x, int64_t row, int64_t experts, double *largest) {
    double sum = 0;
    *largest = -INFINITY;
    for (int64_t e = 0; e < experts; e++) *largest = fmax(*largest, reference_get(x, row * experts + e));
    for (int64_t e = 0; e < experts; e++) sum += wide_exp(reference_get(x, row * experts + e) - *largest);
    return 1 / sum;
}

/* The j-th largest of a row, given those before it. */
static int32_t choose(const op_arg *x, int64_t row, int64_t experts, const int32_t *before, int32_t count) {
    int32_t best = -1;
    for (int32_t e = 0; e < (int32_t)experts; e++) {
        bool taken = false;
        for (int32_t j = 0; j < count; j++) taken |= before[j] == e;
        if (taken) continue;
        if (best < 0 || reference_get(x, row * experts + e) > reference_get(x, row * experts + best))
            best = e;
    }
    return best;
}

/* Experts of all rows come to lie in `places` first, and are counted; then they become places. */
static void route_reference(const op_call *c) {
    const route_attributes *a = c->attributes;
    const op_arg *x = op_in(c, 0);
    int64_t experts = shape_last(&x->shape), rows = shape_rows(&x->shape), k = a->chosen;
    int32_t *places = c->out[1].data, *ends = c->out[2].data;
    for (int64_t e = 0; e < experts; e++) ends[e] = 0;
    for (int64_t r = 0; r < rows; r++) {
        double largest, each = share(x, r, experts, &largest), sum = 0;
        int32_t *of = places + r * k;
        for (int32_t j = 0; j < k; j++) {
            of[j] = choose(x, r, experts, of, j);
            ends[of[j]]++;
            sum += wide_exp(reference_get(x, r * experts + of[j]) - largest);
        }
        for (int32_t j = 0; j < k; j++) {
            double value = wide_exp(reference_get(x, r * experts + of[j]) - largest);
            reference_set(&c->out[0], r * k + j, a->normalised ? value / sum : value * each);
        }
    }
    int32_t begin = 0;
    for (int64_t e = 0; e < experts; e++) {
        int32_t count = ends[e];
        ends[e] = begin, begin += count;
    }
    for (int64_t i = 0; i < rows * k; i++) places[i] = ends[places[i]]++;
}

static int64_t expert_of(const op_call *c, int32_t place, int64_t experts) {
    const int32_t *ends = op_in(c, 2)->data;
    int64_t e = 0;
    while (e + 1 < experts && ends[e] <= place) e++;
    return e;
}

/* With p the softmax, over all experts or over those chosen: dlogits = p (dw - sum of p dw), where dw is 0
 * for those not chosen; over those chosen p is 0 for the others. */
static void route_backward_reference(const op_call *c) {
    const route_attributes *a = c->attributes;
    const op_arg *x = op_in(c, 0), *dw = op_in(c, 3);
    const int32_t *places = op_in(c, 1)->data;
    int64_t experts = shape_last(&x->shape), rows = shape_rows(&x->shape), k = a->chosen;
    for (int64_t r = 0; r < rows; r++) {
        int64_t of[ROUTE_MOST_CHOSEN];
        double largest, each = share(x, r, experts, &largest), sum = 0, dot = 0, value[ROUTE_MOST_CHOSEN];
        for (int64_t j = 0; j < k; j++) {
            of[j] = expert_of(c, places[r * k + j], experts);
            sum += value[j] = wide_exp(reference_get(x, r * experts + of[j]) - largest);
        }
        if (a->normalised) each = 1 / sum;
        for (int64_t j = 0; j < k; j++) dot += value[j] * each * reference_get(dw, r * k + j);
        for (int64_t e = 0; e < experts; e++) {
            double p = a->normalised ? 0 : wide_exp(reference_get(x, r * experts + e) - largest) * each,
                   d = 0;
            for (int64_t j = 0; j < k; j++)
                if (of[j] == e) p = value[j] * each, d = reference_get(dw, r * k + j);
            reference_set(&c->out[0], r * experts + e, p * (d - dot));
        }
    }
}

const op_kernel route_cpu[] = { { "route_reference", NULL, NULL, route_reference }, { 0 } };
const op_kernel route_backward_cpu[] = { { "route_backward_reference", NULL, NULL, route_backward_reference },
                                         { 0 } };
