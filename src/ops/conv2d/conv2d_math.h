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

/* The element of x that place (b,p,q) of y sees through (u,v); -1: none. */
VECTOR_INLINE int64_t conv2d_seen(const conv2d_sizes *n, conv2d_join at) {
    int64_t q = at.place % n->columns, p = at.place / n->columns % n->rows,
            b = at.place / n->columns / n->rows;
    int64_t i = p * n->stride + at.u - n->padding, j = q * n->stride + at.v - n->padding;
    if (i < 0 || j < 0 || i >= n->height || j >= n->width) return -1;
    return ((b * n->height + i) * n->width + j) * n->all_channels + n->group * n->channels + at.number;
}

/* The element of y that sees place (b,i,j) of x through (u,v); -1: none. */
VECTOR_INLINE int64_t conv2d_seer(const conv2d_sizes *n, conv2d_join at) {
    int64_t j = at.place % n->width, i = at.place / n->width % n->height, b = at.place / n->width / n->height;
    int64_t p = i + n->padding - at.u, q = j + n->padding - at.v;
    if (p < 0 || q < 0 || p % n->stride || q % n->stride) return -1;
    p /= n->stride, q /= n->stride;
    if (p >= n->rows || q >= n->columns) return -1;
    return ((b * n->rows + p) * n->columns + q) * n->all_outputs + n->group * n->outputs + at.number;
}

/* The element of w between an output and a channel of the group. */
VECTOR_INLINE int64_t conv2d_weight(const conv2d_sizes *n, int64_t output, int64_t channel, int64_t u,
                                    int64_t v) {
    int64_t line = (n->group * n->outputs + output) * n->channels + channel;
    return (line * n->kernel_height + u) * n->kernel_width + v;
}
