#include "ops/conv2d/conv2d_math.h"
#include "ops/fast.h"
#include "ops/ordered_product.h"
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

/* ---- in the order of the plain product ----
 *
 *   y    rows: places of y,   columns: outputs,           sums over (u, v, channel)
 *   dx   rows: places of x,   columns: channels,          sums over (u, v, output)
 *   dw   rows: outputs,       columns: (channel, u, v),   sums over the places of y */

typedef struct {
    const op_call *call;
    conv2d_sizes sizes;
} products;

static conv2d_sizes sizes_of(const products *p, const ordered_block *at) {
    conv2d_sizes n = p->sizes;
    n.group = at->group;
    return n;
}

typedef int64_t place_finder(const conv2d_sizes *n, conv2d_join at);

/* What a place has of the numbers (u, v, number): neighbours in `number` are so in memory. */
static void gather(const products *p, const ordered_block *at, int64_t numbers, place_finder *find,
                   float *to) {
    conv2d_sizes n = sizes_of(p, at);
    for (int64_t d = 0, some; d < at->depths; d += some) {
        int64_t uv = (at->depth + d) / numbers, number = (at->depth + d) % numbers;
        some = numbers - number < at->depths - d ? numbers - number : at->depths - d;
        int64_t from = find(&n, (conv2d_join){ at->row, uv / n.kernel_width, uv % n.kernel_width, number });
        const float *x = from < 0 ? NULL : fast_floats(op_in(p->call, 0), from, some, to + d);
        for (int64_t i = 0; i < some && x != to + d; i++) to[d + i] = x ? x[i] : 0.0f;
    }
}

static int64_t seen(const conv2d_sizes *n, conv2d_join at) { return conv2d_seen(n, at); }
static int64_t seer(const conv2d_sizes *n, conv2d_join at) { return conv2d_seer(n, at); }

static void image_of_y(const void *of, const ordered_block *at, float *to) {
    gather(of, at, ((const products *)of)->sizes.channels, seen, to);
}
static void slopes_of_x(const void *of, const ordered_block *at, float *to) {
    gather(of, at, ((const products *)of)->sizes.outputs, seer, to);
}

/* The weights (u, v, number) of columns: `turned` where numbers are outputs. */
static void weights(const products *p, const ordered_block *at, bool turned, float *to) {
    conv2d_sizes n = sizes_of(p, at);
    int64_t numbers = turned ? n.outputs : n.channels;
    for (int64_t d = 0; d < at->depths; d++)
        for (int64_t j = 0; j < at->columns; j++) {
            int64_t uv = (at->depth + d) / numbers, number = (at->depth + d) % numbers,
                    column = at->column + j;
            int64_t u = uv / n.kernel_width, v = uv % n.kernel_width;
            int64_t i =
                turned ? conv2d_weight(&n, number, column, u, v) : conv2d_weight(&n, column, number, u, v);
            to[d * ORDERED_COLUMNS + j] = (float)reference_get(op_in(p->call, 1), i);
        }
}
static void weights_of_y(const void *of, const ordered_block *at, float *to) { weights(of, at, false, to); }
static void weights_of_x(const void *of, const ordered_block *at, float *to) { weights(of, at, true, to); }

static void store_y(const void *of, const ordered_block *at, const float *sum) {
    const products *p = of;
    const op_arg *bias = op_in(p->call, 2);
    float biased[ORDERED_COLUMNS];
    int64_t first = at->group * p->sizes.outputs + at->column;
    for (int64_t j = 0; j < at->columns; j++)
        biased[j] = bias->data ? sum[j] + (float)reference_get(bias, first + j) : sum[j];
    fast_floats_store(&p->call->out[0], at->row * p->sizes.all_outputs + first, at->columns, biased);
}
static void store_x(const void *of, const ordered_block *at, const float *sum) {
    const products *p = of;
    int64_t first = at->row * p->sizes.all_channels + at->group * p->sizes.channels + at->column;
    fast_floats_store(&p->call->out[0], first, at->columns, sum);
}

static void slopes_of_output(const void *of, const ordered_block *at, float *to) {
    const products *p = of;
    for (int64_t d = 0; d < at->depths; d++)
        to[d] = (float)reference_get(op_in(p->call, 1), (at->depth + d) * p->sizes.all_outputs +
                                                            at->group * p->sizes.outputs + at->row);
}
static void images_of_weights(const void *of, const ordered_block *at, float *to) {
    const products *p = of;
    conv2d_sizes n = sizes_of(p, at);
    for (int64_t d = 0; d < at->depths; d++)
        for (int64_t j = 0; j < at->columns; j++) {
            int64_t v = (at->column + j) % n.kernel_width, line = (at->column + j) / n.kernel_width;
            conv2d_join join = { at->depth + d, line % n.kernel_height, v, line / n.kernel_height };
            int64_t i = conv2d_seen(&n, join);
            to[d * ORDERED_COLUMNS + j] = i < 0 ? 0.0f : (float)reference_get(op_in(p->call, 0), i);
        }
}

static int64_t weight_at(const products *p, const ordered_block *at) {
    int64_t width = p->sizes.channels * p->sizes.kernel_height * p->sizes.kernel_width;
    return (at->group * p->sizes.outputs + at->row) * width + at->column;
}
static void begin_weights(const void *of, const ordered_block *at, float *to) {
    const products *p = of;
    const op_arg *before = op_in(p->call, 2);
    for (int64_t j = 0; before->data && j < at->columns; j++)
        to[j] = (float)reference_get(before, weight_at(p, at) + j);
}
static void store_weights(const void *of, const ordered_block *at, const float *sum) {
    const products *p = of;
    fast_floats_store(&p->call->out[0], weight_at(p, at), at->columns, sum);
}

static void conv2d_ordered(const op_call *c) {
    const conv2d_attributes *a = c->attributes;
    const shape *y = &c->out[0].shape;
    products p = { c, conv2d_sizes_of(&c->in[0].shape, &c->in[1].shape, y, a) };
    int64_t window = p.sizes.kernel_height * p.sizes.kernel_width;
    ordered_product_run(
        &(ordered_product){ .call = c,
                            .of = &p,
                            .n = { shape_rows(y), p.sizes.outputs, window * p.sizes.channels },
                            .groups = a->groups,
                            .a = image_of_y,
                            .b = weights_of_y,
                            .end = store_y });
}

static void conv2d_data_ordered(const op_call *c) {
    const conv2d_attributes *a = &((const conv2d_backward_attributes *)c->attributes)->of;
    const shape *dx = &c->out[0].shape;
    products p = { c, conv2d_sizes_of(dx, &c->in[1].shape, &c->in[0].shape, a) };
    int64_t window = p.sizes.kernel_height * p.sizes.kernel_width;
    ordered_product_run(
        &(ordered_product){ .call = c,
                            .of = &p,
                            .n = { shape_rows(dx), p.sizes.channels, window * p.sizes.outputs },
                            .groups = a->groups,
                            .a = slopes_of_x,
                            .b = weights_of_x,
                            .end = store_x });
}

static void conv2d_weights_ordered(const op_call *c) {
    const conv2d_attributes *a = &((const conv2d_backward_attributes *)c->attributes)->of;
    const shape *dy = &c->in[1].shape;
    products p = { c, conv2d_sizes_of(&c->in[0].shape, &c->out[0].shape, dy, a) };
    int64_t window = p.sizes.kernel_height * p.sizes.kernel_width;
    ordered_product_run(
        &(ordered_product){ .call = c,
                            .of = &p,
                            .n = { p.sizes.outputs, p.sizes.channels * window, shape_rows(dy) },
                            .groups = a->groups,
                            .a = slopes_of_output,
                            .b = images_of_weights,
                            .begin = begin_weights,
                            .end = store_weights });
}

const op_kernel conv2d_cpu[] = { { "conv2d_cpu_ordered", fast_accepts_halves, ordered_product_scratch,
                                   conv2d_ordered },
                                 { "conv2d_reference", NULL, NULL, conv2d_reference },
                                 { 0 } };
const op_kernel conv2d_data_cpu[] = { { "conv2d_data_cpu_ordered", fast_accepts_halves,
                                        ordered_product_scratch, conv2d_data_ordered },
                                      { "conv2d_data_reference", NULL, NULL, conv2d_data_reference },
                                      { 0 } };
const op_kernel conv2d_weights_cpu[] = { { "conv2d_weights_cpu_ordered", fast_accepts_halves,
                                           ordered_product_scratch, conv2d_weights_ordered },
                                         { "conv2d_weights_reference", NULL, NULL, conv2d_weights_reference },
                                         { 0 } };
