/* Products of rows that lie in groups, one after the other, each group with a matrix of its own: rows
 * ends[e-1] .. ends[e]-1 are those of expert e. However they are shared out, rows and results are of one
 * size.
 *
 *   tb = 1: W (E,out,in), y = x W_e^T.    tb = 0: W (E,in,out), y = x W_e.
 *
 * Ends that go down or too far are taken as if they did not, so kernels stay within their buffers.
 * Papers: Fedus et al., arXiv:2101.03961; Gale et al., arXiv:2211.15841. */
#pragma once

#include "ir/op.h"

typedef struct {
    int32_t tb;
} expert_matmul_attributes;

typedef struct {
    int32_t type; /* dtype of the sums; 0: that of a */
} expert_matmul_weights_attributes;

extern const op_def op_expert_matmul;         /* x (R,in), W, ends (E) -> y (R,out) */
extern const op_def op_expert_matmul_weights; /* a (R,M), b (R,K), ends, accumulator? must -> sums (E,M,K) */
extern const op_kernel expert_matmul_cpu[], expert_matmul_weights_cpu[];
extern const op_kernel expert_matmul_cuda[], expert_matmul_weights_cuda[];

/* Of an expert's product, and bytes that all of them copy into panels and add up between slices. */
typedef struct {
    int64_t experts, rows, columns, depth;
} expert_sizes;
double expert_matmul_moved(const expert_sizes *s);

tensor_id expert_matmul_apply(graph *g, tensor_id x, tensor_id w, tensor_id ends, bool tb);
