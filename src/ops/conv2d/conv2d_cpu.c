#include "ops/conv2d/conv2d_depthwise.h"
#include "ops/conv2d/conv2d_math.h"
#include "ops/conv2d/conv2d_packed.h"
#include "ops/fast.h"
#include "ops/reference.h"

static double product(const op_arg *x, int64_t x_at, const op_arg *w, int64_t w_at) {
    return x_at < 0 ? 0 : reference_get(x, x_at) * reference_get(w, w_at);
}

static void conv2d_reference(const op_call *c) {
    const op_arg *x = op_in(c, 0), *w = op_in(c, 1), *bias = op_in(c, 2), *y = &c->out[0];
    conv2d_sizes n = conv2d_sizes_of(&x->shape, &w->shape, &y->shape, c->attributes);
    for (int64_t i = 0; i < shape_elements(&y->shape); i++) {
        int64_t o = i % n.all_outputs;
        double sum = bias->data ? reference_get(bias, o) : 0;
        n.group = o / n.outputs;
        for (int64_t u = 0; u < n.kernel_height; u++)
            for (int64_t v = 0; v < n.kernel_width; v++)
                for (int64_t k = 0; k < n.channels; k++)
                    sum += product(x, conv2d_seen(&n, (conv2d_join){ i / n.all_outputs, u, v, k }), w,
                                   conv2d_weight(&n, o % n.outputs, k, u, v));
        reference_set(y, i, sum);
    }
}

static void conv2d_data_reference(const op_call *c) {
    const conv2d_backward_attributes *a = c->attributes;
    const op_arg *dy = op_in(c, 0), *w = op_in(c, 1), *dx = &c->out[0];
    conv2d_sizes n = conv2d_sizes_of(&dx->shape, &w->shape, &dy->shape, &a->of);
    for (int64_t i = 0; i < shape_elements(&dx->shape); i++) {
        int64_t k = i % n.all_channels;
        double sum = 0;
        n.group = k / n.channels;
        for (int64_t u = 0; u < n.kernel_height; u++)
            for (int64_t v = 0; v < n.kernel_width; v++)
                for (int64_t o = 0; o < n.outputs; o++)
                    sum += product(dy, conv2d_seer(&n, (conv2d_join){ i / n.all_channels, u, v, o }), w,
                                   conv2d_weight(&n, o, k % n.channels, u, v));
        reference_set(dx, i, sum);
    }
}

static void conv2d_weights_reference(const op_call *c) {
    const conv2d_backward_attributes *a = c->attributes;
    const op_arg *x = op_in(c, 0), *dy = op_in(c, 1), *before = op_in(c, 2), *dw = &c->out[0];
    conv2d_sizes n = conv2d_sizes_of(&x->shape, &dw->shape, &dy->shape, &a->of);
    for (int64_t i = 0; i < shape_elements(&dw->shape); i++) {
        int64_t v = i % n.kernel_width, u = i / n.kernel_width % n.kernel_height,
                line = i / n.kernel_width / n.kernel_height, o = line / n.channels;
        double sum = before->data ? reference_get(before, i) : 0;
        n.group = o / n.outputs;
        for (int64_t place = 0; place < shape_rows(&dy->shape); place++)
            sum += product(x, conv2d_seen(&n, (conv2d_join){ place, u, v, line % n.channels }), dy,
                           place * n.all_outputs + o);
        reference_set(dw, i, sum);
    }
}

const op_kernel conv2d_cpu[] = {
    { "conv2d_cpu_depthwise", conv2d_depthwise_accepts, conv2d_depthwise_scratch, conv2d_depthwise_run },
    { "conv2d_cpu_packed", fast_accepts_halves, conv2d_packed_scratch, conv2d_packed_run },
    { "conv2d_reference", NULL, NULL, conv2d_reference },
    { 0 }
};
const op_kernel conv2d_data_cpu[] = { { "conv2d_data_cpu_depthwise", conv2d_data_depthwise_accepts,
                                        conv2d_data_depthwise_scratch, conv2d_data_depthwise_run },
                                      { "conv2d_data_cpu_packed", fast_accepts_halves,
                                        conv2d_data_packed_scratch, conv2d_data_packed_run },
                                      { "conv2d_data_reference", NULL, NULL, conv2d_data_reference },
                                      { 0 } };
const op_kernel conv2d_weights_cpu[] = { { "conv2d_weights_cpu_depthwise", conv2d_weights_depthwise_accepts,
                                           NULL, conv2d_weights_depthwise_run },
                                         { "conv2d_weights_cpu_packed", fast_accepts_halves,
                                           conv2d_weights_packed_scratch, conv2d_weights_packed_run },
                                         { "conv2d_weights_reference", NULL, NULL, conv2d_weights_reference },
                                         { 0 } };
