/* Seconds that single calls were measured to take on a GPU, by their shapes: products and attention, by
 * snug's kernels and by libraries, of f32 and of 16 bits. What a shape takes is not its arithmetic at one
 * rate, since a small one leaves multiprocessors idle and a large one does not; what decides is how many
 * tiles the multiprocessor that has the most of them makes, and how much arithmetic a tile is. So shapes are
 * compared by that alone, and what lies between two that were measured lies on a line between them, of
 * logarithms. */
#pragma once

#include <stdbool.h>

typedef enum { DEVICE_PRODUCT, DEVICE_ATTENTION, DEVICE_ATTENTION_BACKWARD, DEVICE_SHAPE_WORKS } device_work;

typedef struct {
    device_work work;
    bool half;       /* of 16 bits, which are multiplied */
    bool tensor;     /* by snug's kernels for tensor cores, or */
    bool by_library; /* by a library: then `tensor` does not matter */
    double tiles;    /* of 64 x 64 results, or of 64 queries of a head */
    double flops;    /* multiply-adds count two */
    double seconds;  /* of a call, without its start; 0 in what is asked for */
} device_shape;

enum { DEVICE_SHAPES = 48 };
typedef struct {
    int multiprocessors; /* of the GPU that they are of; 0: not known, and taken for one */
    int count;           /* 0: nothing was measured */
    device_shape of[DEVICE_SHAPES];
} device_shapes;

/* Puts one more in; what there is no room for is left out. */
void device_shapes_add(device_shapes *s, const device_shape *x);

/* Seconds of such a call, without its start. Never less for a larger shape. 0: nothing alike was measured
 * that occupies all of the GPU. */
double device_shapes_seconds(const device_shapes *s, const device_shape *asked);
