#include "ops/max_pool/max_pool.h"
#include "ops/reference.h"

/* The place of the largest number in the window of (i,j). */
static int64_t find(const op_arg *x, const max_pool_attributes *a, int64_t sample, int64_t i, int64_t j,
                    int64_t channel) {
    int64_t height = x->shape.dim[1], width = x->shape.dim[2], channels = x->shape.dim[3], best = -1;
    for (int64_t u = 0; u < a->size; u++)
        for (int64_t v = 0; v < a->size; v++) {
            int64_t row = i * a->stride + u - a->padding, column = j * a->stride + v - a->padding;
            if (row < 0 || column < 0 || row >= height || column >= width) continue;
            int64_t place = row * width + column, base = sample * height * width;
            if (best < 0 || reference_get(x, (base + place) * channels + channel) >
                                reference_get(x, (base + best) * channels + channel))
                best = place;
        }
    return best;
}

static void max_pool_reference(const op_call *c) {
    const op_arg *x = op_in(c, 0);
    const shape *y = &c->out[0].shape;
    int64_t image = x->shape.dim[1] * x->shape.dim[2], channels = y->dim[3];
    for (int64_t at = 0, n = shape_elements(y); at < n; at++) {
        int64_t channel = at % channels, j = at / channels % y->dim[2],
                i = at / channels / y->dim[2] % y->dim[1];
        int64_t sample = at / channels / y->dim[2] / y->dim[1];
        int64_t place = find(x, c->attributes, sample, i, j, channel);
        reference_set(&c->out[0], at, reference_get(x, (sample * image + place) * channels + channel));
        reference_set(&c->out[1], at, (double)place);
    }
}

static void max_pool_backward_reference(const op_call *c) {
    const op_arg *places = op_in(c, 0), *dy = op_in(c, 1), *dx = &c->out[0];
    const shape *y = &places->shape;
    int64_t image = dx->shape.dim[1] * dx->shape.dim[2], channels = y->dim[3];
    for (int64_t i = 0, n = shape_elements(&dx->shape); i < n; i++) reference_set(dx, i, 0);
    for (int64_t at = 0, n = shape_elements(y); at < n; at++) {
        int64_t place = ((const int32_t *)places->data)[at], sample = at / (channels * y->dim[1] * y->dim[2]);
        if (place < 0 || place >= image) continue;
        int64_t to = (sample * image + place) * channels + at % channels;
        reference_set(dx, to, reference_get(dx, to) + reference_get(dy, at));
    }
}

const op_kernel max_pool_cpu[] = { { "max_pool_reference", NULL, NULL, max_pool_reference }, { 0 } };
const op_kernel max_pool_backward_cpu[] = {
    { "max_pool_backward_reference", NULL, NULL, max_pool_backward_reference }, { 0 }
};
