/* Which numbers a convolution joins, for the kernels of every kind of device. */
#pragma once

#include "base/vector.h"
#include "ops/conv2d/conv2d.h"

/* x (B,H,W,C), w (O,C/g,U,V), y (B,P,Q,O). Channels and outputs are those of a group, which `group` names. */
typedef struct {
    int64_t height, width, all_channels, channels;
    int64_t kernel_height, kernel_width, all_outputs, outputs;
    int64_t rows, columns; /* P, Q */
    int64_t stride, padding, group;
} conv2d_sizes;

static inline conv2d_sizes conv2d_sizes_of(const shape *x, const shape *w, const shape *y,
                                           const conv2d_attributes *a) {
    conv2d_sizes n;
    n.height = x->dim[1], n.width = x->dim[2], n.all_channels = x->dim[3], n.channels = w->dim[1];
    n.kernel_height = w->dim[2], n.kernel_width = w->dim[3];
    n.all_outputs = w->dim[0], n.outputs = w->dim[0] / a->groups;
    n.rows = y->dim[1], n.columns = y->dim[2];
    n.stride = a->stride, n.padding = a->padding, n.group = 0;
    return n;
}

/* A pair of places that a weight may join. */
typedef struct {
    int64_t place;        /* of the image on one side: (b,i,j) as a number */
    int64_t u, v, number; /* number: channel of x or output of y, of the group */
} conv2d_join;

/* A GPU divides by software: in 32 bits, where they do, it has much less to do than in 64. None is below 0.
 */
typedef struct {
    int64_t whole, rest;
} conv2d_quotient;
VECTOR_INLINE conv2d_quotient conv2d_divide(int64_t x, int64_t by) {
    conv2d_quotient d;
    d.whole = (x | by) >> 32 ? x / by : (int64_t)((uint32_t)x / (uint32_t)by);
    d.rest = x - d.whole * by;
    return d;
}

/* What of a place does not depend on the weight: the other side's image, by its first element that the group
 * has, and where in it the place's window begins (`of_y`), or the place itself, padded (`of_x`). */
typedef struct {
    int64_t first, i, j;
} conv2d_window;
VECTOR_INLINE conv2d_window conv2d_window_of_y(const conv2d_sizes *n, int64_t place) {
    conv2d_quotient q = conv2d_divide(place, n->columns), p = conv2d_divide(q.whole, n->rows);
    conv2d_window w;
    w.first = p.whole * n->height * n->width * n->all_channels + n->group * n->channels;
    w.i = p.rest * n->stride - n->padding, w.j = q.rest * n->stride - n->padding;
    return w;
}
VECTOR_INLINE conv2d_window conv2d_window_of_x(const conv2d_sizes *n, int64_t place) {
    conv2d_quotient j = conv2d_divide(place, n->width), i = conv2d_divide(j.whole, n->height);
    conv2d_window w;
    w.first = i.whole * n->rows * n->columns * n->all_outputs + n->group * n->outputs;
    w.i = i.rest + n->padding, w.j = j.rest + n->padding;
    return w;
}

/* The element of x that a window's place of y sees through (u,v); -1: none. */
VECTOR_INLINE int64_t conv2d_seen_in(const conv2d_sizes *n, conv2d_window w, int64_t u, int64_t v,
                                     int64_t number) {
    int64_t i = w.i + u, j = w.j + v;
    if (i < 0 || j < 0 || i >= n->height || j >= n->width) return -1;
    return w.first + (i * n->width + j) * n->all_channels + number;
}
VECTOR_INLINE int64_t conv2d_seen(const conv2d_sizes *n, conv2d_join at) {
    return conv2d_seen_in(n, conv2d_window_of_y(n, at.place), at.u, at.v, at.number);
}

/* The element of y that sees a window's place of x through (u,v); -1: none. */
VECTOR_INLINE int64_t conv2d_seer_in(const conv2d_sizes *n, conv2d_window w, int64_t u, int64_t v,
                                     int64_t number) {
    int64_t p = w.i - u, q = w.j - v;
    if (p < 0 || q < 0) return -1;
    if (n->stride > 1) {
        conv2d_quotient down = conv2d_divide(p, n->stride), across = conv2d_divide(q, n->stride);
        if (down.rest || across.rest) return -1;
        p = down.whole, q = across.whole;
    }
    if (p >= n->rows || q >= n->columns) return -1;
    return w.first + (p * n->columns + q) * n->all_outputs + number;
}
VECTOR_INLINE int64_t conv2d_seer(const conv2d_sizes *n, conv2d_join at) {
    return conv2d_seer_in(n, conv2d_window_of_x(n, at.place), at.u, at.v, at.number);
}

/* The element of w between an output and a channel of the group. */
VECTOR_INLINE int64_t conv2d_weight(const conv2d_sizes *n, int64_t output, int64_t channel, int64_t u,
                                    int64_t v) {
    int64_t line = (n->group * n->outputs + output) * n->channels + channel;
    return (line * n->kernel_height + u) * n->kernel_width + v;
}
