#include "ops/mean_space/mean_space.h"
#include "ops/reference.h"

static void mean_space_reference(const op_call *c) {
    const op_arg *x = op_in(c, 0);
    int64_t places = x->shape.dim[1] * x->shape.dim[2], channels = x->shape.dim[3];
    for (int64_t i = 0, n = x->shape.dim[0] * channels; i < n; i++) {
        double sum = 0;
        for (int64_t p = 0; p < places; p++)
            sum += reference_get(x, (i / channels * places + p) * channels + i % channels);
        reference_set(&c->out[0], i, sum / (double)places);
    }
}

static void mean_space_backward_reference(const op_call *c) {
    const shape *dx = &c->out[0].shape;
    int64_t places = dx->dim[1] * dx->dim[2], channels = dx->dim[3];
    for (int64_t i = 0, n = shape_elements(dx); i < n; i++)
        reference_set(&c->out[0], i,
                      reference_get(op_in(c, 0), i / (places * channels) * channels + i % channels) /
                          (double)places);
}

const op_kernel mean_space_cpu[] = { { "mean_space_reference", NULL, NULL, mean_space_reference }, { 0 } };
const op_kernel mean_space_backward_cpu[] = {
    { "mean_space_backward_reference", NULL, NULL, mean_space_backward_reference }, { 0 }
};
