/* Adafactor: the second moment of a matrix (n,m) is kept as the means of its rows and of its columns, n + m
 * numbers in place of n m. With G = scale g, and d the decay 1 - t^-0.8 of Adam's beta2, which rises from 0
 * to 1: rows' = d rows + (1 - d) mean over columns of (G^2 + eps),  columns' = likewise over rows V = rows'
 * columns' / mean(rows'),  U = G / sqrt(V),  U' = U / max(1, RMS(U) / clip) w' = w - lr weight_decay w - lr
 * U' A tensor of more dimensions is taken as a matrix of its last one. A vector has no columns: `rows` is of
 * its shape, and V = rows'. This is algorithm 4 (5 for vectors) of the paper with an explicit learning rate
 * and its update clipping, without its relative step, and without a first moment, which the paper leaves out
 * by default. Paper: Shazeer, Stern, "Adafactor: adaptive learning rates with sublinear memory cost",
 * arXiv:1804.04235. */
#pragma once

#include "ir/op.h"

typedef struct {
    float decay_power; /* 0.8 */
    float eps;         /* added to squares: 1e-30 */
    float clip;        /* largest root of the mean square of an update: 1 */
    float weight_decay;
} adafactor_attributes;

typedef struct {
    tensor_id w, g;    /* of one shape */
    tensor_id rows;    /* (n); for a vector of w's shape */
    tensor_id columns; /* (m); absent for vectors */
    tensor_id lr;      /* (1) */
    tensor_id t;       /* (1) i32: number of this update, 1 for the first */
    tensor_id scale;   /* (1), absent: 1; multiplies g (clipping by the global norm) */
    tensor_id ok;      /* (1) i32, absent: 1; where 0 everything stays as it is */
} adafactor_inputs;

/* The inputs above in their order -> w', rows' and, of a matrix, columns', living where they lived. */
extern const op_def op_adafactor;
extern const op_kernel adafactor_cpu[];
extern const op_kernel adafactor_cuda[];

tensor_id adafactor_apply(graph *g, adafactor_inputs in, const adafactor_attributes *attributes);
