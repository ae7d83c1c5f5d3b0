/* How much of the load each expert of a mixture has, over all layers, as the factors of a loss that balances
 * them. Layer after layer adds the rows that its experts were given (`ends` of op_route); the last one, to
 * which labels are given, makes of the sums
 *
 *   share[e] = coefficient E weight (load[e] / R) / R      R = sum of load / chosen, the rows of all layers
 *
 * so that coefficient E sum over e of (load[e] / R) (mean probability of e) is the sum of share[e] times the
 * routers' probabilities. `weight` is the part of the batch's counted labels that is here: scale times their
 * number, 1 of a whole batch. Not differentiable: the choice of experts has no slope.
 * Samples are coupled: the load is a mean over the batch. Paper: Fedus, Zoph, Shazeer, "Switch transformers",
 * arXiv:2101.03961. */
#pragma once

#include "ir/op.h"

typedef struct {
    float coefficient;
    int32_t chosen; /* experts of a row */
} expert_shares_attributes;

/* In the order of the op's inputs; labels and scale of the last layer alone. */
typedef struct {
    tensor_id ends, before; /* (E) i32; (E) f32, 0 in the first layer */
    tensor_id labels, scale;
} expert_shares_inputs;

extern const op_def op_expert_shares; /* -> (E) f32: the load, or with labels the shares */
extern const op_kernel expert_shares_cpu[];
extern const op_kernel expert_shares_cuda[];

tensor_id expert_shares_apply(graph *g, const expert_shares_inputs *in, const expert_shares_attributes *a);
