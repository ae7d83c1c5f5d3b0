/* Weights of a stage on one device. */
#pragma once

#include "estimate/megatron/megatron_calls.h"

enum { MEGATRON_MOST_SHAPES = 16 };

typedef struct {
    double shared, experts; /* numbers: those that every replica has, and those of experts */
    /* Of the products' matrices, each shape once. */
    struct {
        double rows, columns;
    } shapes[MEGATRON_MOST_SHAPES];
    int shape_count;
} megatron_weights;

/* Adds a chunk's. `table`: the head has a copy of a tied table, since the first stage is elsewhere. */
void megatron_count(const megatron_shape *m, const megatron_settings *s, const megatron_chunk *c, bool table,
                    megatron_weights *w);

/* Numbers of all shapes together. */
double megatron_shapes_sum(const megatron_weights *w);
