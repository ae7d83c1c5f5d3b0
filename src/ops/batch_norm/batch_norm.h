/* Batch norm over all rows of a batch, channels last: y = (x - mean) rstd gamma + beta, with mean and rstd of
 * each channel over all samples and places. So samples see each other, and a batch that is cut is another
 * one.
 *
 * While training, averages of the means and variances run along, for later: batch_norm_running adds the share
 * `momentum` of this batch's to what was there, of the variance the unbiased one. batch_norm_fixed uses them
 * in place of a batch's own. Paper: Ioffe, Szegedy, arXiv:1502.03167. */
#pragma once

#include "ir/op.h"

typedef struct {
    float eps;
} batch_norm_attributes;

typedef struct {
    int64_t rows; /* of the batch */
    float eps, momentum;
} batch_norm_running_attributes;

extern const op_def op_batch_norm; /* x (..,C), gamma (C), beta (C) -> y, mean (C), rstd (C) */
/* x, gamma, mean, rstd, dy, accumulator_dgamma? must, accumulator_dbeta? must -> dx, dgamma, dbeta */
extern const op_def op_batch_norm_backward;
/* mean (C), variance (C): running; mean, rstd: of the batch -> both running ones, where they were */
extern const op_def op_batch_norm_running;
extern const op_def op_batch_norm_fixed; /* x, gamma, beta, mean, variance -> y */
extern const op_kernel batch_norm_cpu[], batch_norm_backward_cpu[], batch_norm_running_cpu[],
    batch_norm_fixed_cpu[];
extern const op_kernel batch_norm_cuda[], batch_norm_backward_cuda[], batch_norm_running_cuda[],
    batch_norm_fixed_cuda[];

/* Returns y; mean and rstd follow. */
tensor_id batch_norm_apply(graph *g, tensor_id x, tensor_id gamma, tensor_id beta, float eps);
tensor_id batch_norm_fixed_apply(graph *g, const tensor_id in[5], float eps);
