#include "ops/class_token/class_token.h"
#include "ops/reference.h"

static void class_token_reference(const op_call *c) {
    const op_arg *x = op_in(c, 0), *token = op_in(c, 1);
    int64_t width = x->shape.dim[2], sample = x->shape.dim[1] * width;
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++) {
        int64_t b = i / (sample + width), at = i % (sample + width) - width;
        reference_set(&c->out[0], i,
                      at < 0 ? reference_get(token, at + width) : reference_get(x, b * sample + at));
    }
}

/* Sums are in f32 but where the gradient is f64: sample after sample, so that a batch may be cut anywhere. */
static void class_token_backward_reference(const op_call *c) {
    const op_arg *dy = op_in(c, 0), *before = op_in(c, 1);
    int64_t samples = dy->shape.dim[0], width = dy->shape.dim[2], sample = dy->shape.dim[1] * width;
    for (int64_t i = 0; i < width; i++) {
        double sum = before->data ? reference_get(before, i) : 0;
        for (int64_t b = 0; b < samples; b++) {
            sum += reference_get(dy, b * sample + i);
            if (c->out[0].dtype != DTYPE_F64) sum = (double)(float)sum;
        }
        reference_set(&c->out[0], i, sum);
    }
    for (int64_t i = 0, n = shape_elements(&c->out[1].shape); i < n; i++)
        reference_set(&c->out[1], i,
                      reference_get(dy, i / (sample - width) * sample + width + i % (sample - width)));
}

const op_kernel class_token_cpu[] = { { "class_token_reference", NULL, NULL, class_token_reference }, { 0 } };
const op_kernel class_token_backward_cpu[] = {
    { "class_token_backward_reference", NULL, NULL, class_token_backward_reference }, { 0 }
};
