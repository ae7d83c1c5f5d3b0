/* Stochastic gradient descent with momentum, in PyTorch's form: with d = scale g + weight_decay w,
 *   buffer' = momentum buffer + d,  w' = w - lr buffer'      (without a buffer: w' = w - lr d)
 * The buffer starts as zeros; it may be kept in fewer bits (ops/state.h). Paper: Sutskever et al., "On the
 * importance of initialization and momentum in deep learning", ICML 2013. */
#pragma once

#include "ir/op.h"
#include "ir/update.h"

typedef struct {
    float momentum, weight_decay;
    int32_t stream; /* of the random bits, with key */
} sgd_attributes;

typedef struct {
    tensor_id w, g;
    tensor_id buffer; /* of the shape of w, absent: plain gradient descent */
    tensor_id lr;     /* (1) */
    tensor_id scale;  /* (1), absent: 1; multiplies g (clipping) */
    tensor_id ok;     /* (1) i32, absent: 1; where 0 everything stays as it is */
    tensor_id scales; /* of the buffer, where it is u8 */
    tensor_id key;    /* (4) i32: results of bf16 are rounded stochastically; absent: to the nearest */
} sgd_inputs;

extern const op_def op_sgd; /* the inputs above in their order -> w' and, with a buffer, buffer', scales' */
extern const op_state sgd_states[1];
extern const op_kernel sgd_cpu[];
extern const op_kernel sgd_cuda[];

tensor_id sgd_apply(graph *g, sgd_inputs in, const sgd_attributes *attributes);
