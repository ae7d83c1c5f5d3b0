#include "ops/expert_rows/expert_rows.h"
#include "ops/reference.h"

/* The place of (row, j); -1: outside. */
static int64_t place_of(const op_arg *places, int64_t i, int64_t room) {
    int32_t place = ((const int32_t *)places->data)[i];
    return place >= 0 && place < room ? place : -1;
}

static void clear(const op_arg *y) {
    for (int64_t i = 0, n = shape_elements(&y->shape); i < n; i++) reference_set(y, i, 0);
}

static void expert_rows_reference(const op_call *c) {
    const op_arg *x = op_in(c, 0), *places = op_in(c, 1);
    int64_t width = shape_last(&x->shape), rows = shape_rows(&x->shape), k = places->shape.dim[1];
    clear(&c->out[0]);
    for (int64_t i = 0; i < rows * k; i++) {
        int64_t place = place_of(places, i, rows * k);
        for (int64_t w = 0; place >= 0 && w < width; w++)
            reference_set(&c->out[0], place * width + w, reference_get(x, i / k * width + w));
    }
}

static void expert_sum_reference(const op_call *c) {
    const op_arg *x = op_in(c, 0), *places = op_in(c, 1), *weights = op_in(c, 2);
    int64_t width = x->shape.dim[1], rows = places->shape.dim[0], k = places->shape.dim[1];
    for (int64_t r = 0; r < rows; r++)
        for (int64_t w = 0; w < width; w++) {
            double sum = 0;
            for (int64_t j = 0; j < k; j++) {
                int64_t place = place_of(places, r * k + j, rows * k);
                double by = weights->data ? reference_get(weights, r * k + j) : 1;
                if (place >= 0) sum += by * reference_get(x, place * width + w);
            }
            reference_set(&c->out[0], r * width + w, sum);
        }
}

static void expert_sum_backward_reference(const op_call *c) {
    const op_arg *x = op_in(c, 0), *places = op_in(c, 1), *weights = op_in(c, 2), *dy = op_in(c, 3);
    int64_t width = x->shape.dim[1], rows = places->shape.dim[0], k = places->shape.dim[1];
    clear(&c->out[0]);
    for (int64_t i = 0; i < rows * k; i++) {
        int64_t place = place_of(places, i, rows * k);
        double dot = 0, by = reference_get(weights, i);
        for (int64_t w = 0; place >= 0 && w < width; w++) {
            double d = reference_get(dy, i / k * width + w);
            dot += d * reference_get(x, place * width + w);
            reference_set(&c->out[0], place * width + w, by * d);
        }
        reference_set(&c->out[1], i, dot);
    }
}

const op_kernel expert_rows_cpu[] = { { "expert_rows_reference", NULL, NULL, expert_rows_reference }, { 0 } };
const op_kernel expert_sum_cpu[] = { { "expert_sum_reference", NULL, NULL, expert_sum_reference }, { 0 } };
const op_kernel expert_sum_backward_cpu[] = {
    { "expert_sum_backward_reference", NULL, NULL, expert_sum_backward_reference }, { 0 }
};
