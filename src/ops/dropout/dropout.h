/* Dropout: each element is zeroed with probability p, the others are scaled by 1/(1-p). Element e of sample
 * b (dimension 0 counts samples) is kept where philox_uniform(philox_word(key, stream, b, e)) >= p, so no
 * mask is stored: the gradient is the same op, with the same key and stream, applied to dy.
 * Paper: Srivastava et al., "Dropout: a simple way to prevent neural networks from overfitting", JMLR 2014.
 */
#pragma once

#include "ir/op.h"

typedef struct {
    float p;        /* in [0,1) */
    int32_t stream; /* tells the random nodes of a model apart */
} dropout_attributes;

extern const op_def op_dropout; /* x (B,...), key (4) i32 (philox_key) -> y; y may live in x */
extern const op_kernel dropout_cpu[];
extern const op_kernel dropout_cuda[];

tensor_id dropout_apply(graph *g, tensor_id x, tensor_id key, float p, int32_t stream);
