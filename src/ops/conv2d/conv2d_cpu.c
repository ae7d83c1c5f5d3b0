#include "ops/conv2d/conv2d.h"
#include "ops/reference.h"

/* Every pair of a number of y and one of x that a weight joins, in the order of y and then of w: what all
 * three kernels add up. */
typedef struct {
    shape x, y, w;
    const conv2d_attributes *of;
} layout;

typedef void join_body(const op_call *c, int64_t x, int64_t y, int64_t w);

static int64_t at(const shape *s, int64_t a, int64_t b, int64_t c, int64_t d) {
    return ((a * s->dim[1] + b) * s->dim[2] + c) * s->dim[3] + d;
}

static void join_one(const op_call *c, const layout *l, const int64_t y[4], join_body *body) {
    int64_t first = y[3] / (l->y.dim[3] / l->of->groups) * l->w.dim[1],
            place = at(&l->y, y[0], y[1], y[2], y[3]);
    for (int64_t u = 0; u < l->w.dim[2]; u++)
        for (int64_t v = 0; v < l->w.dim[3]; v++) {
            int64_t i = y[1] * l->of->stride + u - l->of->padding,
                    j = y[2] * l->of->stride + v - l->of->padding;
            if (i < 0 || j < 0 || i >= l->x.dim[1] || j >= l->x.dim[2]) continue;
            for (int64_t k = 0; k < l->w.dim[1]; k++)
                body(c, at(&l->x, y[0], i, j, first + k), place, at(&l->w, y[3], k, u, v));
        }
}

static void join(const op_call *c, const layout *l, join_body *body) {
    int64_t y[4];
    for (y[0] = 0; y[0] < l->y.dim[0]; y[0]++)
        for (y[1] = 0; y[1] < l->y.dim[1]; y[1]++)
            for (y[2] = 0; y[2] < l->y.dim[2]; y[2]++)
                for (y[3] = 0; y[3] < l->y.dim[3]; y[3]++) join_one(c, l, y, body);
}

static void add_to(const op_arg *sum, int64_t i, double value) {
    reference_set(sum, i, reference_get(sum, i) + value);
}

static void forward(const op_call *c, int64_t x, int64_t y, int64_t w) {
    add_to(&c->out[0], y, reference_get(op_in(c, 0), x) * reference_get(op_in(c, 1), w));
}

static void conv2d_reference(const op_call *c) {
    const op_arg *bias = op_in(c, 2);
    int64_t width = shape_last(&c->out[0].shape);
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++)
        reference_set(&c->out[0], i, bias->data ? reference_get(bias, i % width) : 0);
    join(c, &(layout){ op_in(c, 0)->shape, c->out[0].shape, op_in(c, 1)->shape, c->attributes }, forward);
}

static void backward_data(const op_call *c, int64_t x, int64_t y, int64_t w) {
    add_to(&c->out[0], x, reference_get(op_in(c, 0), y) * reference_get(op_in(c, 1), w));
}

static void conv2d_data_reference(const op_call *c) {
    const conv2d_backward_attributes *a = c->attributes;
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++) reference_set(&c->out[0], i, 0);
    join(c, &(layout){ c->out[0].shape, op_in(c, 0)->shape, op_in(c, 1)->shape, &a->of }, backward_data);
}

static void backward_weights(const op_call *c, int64_t x, int64_t y, int64_t w) {
    add_to(&c->out[0], w, reference_get(op_in(c, 0), x) * reference_get(op_in(c, 1), y));
}

static void conv2d_weights_reference(const op_call *c) {
    const conv2d_backward_attributes *a = c->attributes;
    const op_arg *before = op_in(c, 2);
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++)
        reference_set(&c->out[0], i, before->data ? reference_get(before, i) : 0);
    join(c, &(layout){ op_in(c, 0)->shape, op_in(c, 1)->shape, c->out[0].shape, &a->of }, backward_weights);
}

const op_kernel conv2d_cpu[] = { { "conv2d_reference", NULL, NULL, conv2d_reference }, { 0 } };
const op_kernel conv2d_data_cpu[] = { { "conv2d_data_reference", NULL, NULL, conv2d_data_reference }, { 0 } };
const op_kernel conv2d_weights_cpu[] = { { "conv2d_weights_reference", NULL, NULL, conv2d_weights_reference },
                                         { 0 } };
