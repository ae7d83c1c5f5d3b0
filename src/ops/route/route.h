/* The router of a mixture of experts: a softmax over the experts, and of each row the k largest. Nothing is
 * dropped, however rows crowd: N rows take N*k places, in the order of the experts, and within an expert in
 * the order of the rows. So every size is known before anything is routed.
 *
 * weights[n][j] is the j-th largest probability of row n, or with `normalised` its share of the k;
 * places[n][j] where that row lies among the places; ends[e] the place after the last one of expert e.
 * Between equals the first expert wins. Of logits of 16
 * bits the weights have 16 too, unless they are `wide`.
 * Papers: Shazeer et al., arXiv:1701.06538; Jiang et al., "Mixtral of experts", arXiv:2401.04088; Gale et
 * al., "MegaBlocks" (dropless), arXiv:2211.15841. */
#pragma once

#include "ir/op.h"

enum { ROUTE_MOST_CHOSEN = 64, ROUTE_MOST_EXPERTS = 1 << 14 };

typedef struct {
    int32_t chosen, normalised, wide;
} route_attributes;

extern const op_def op_route;          /* logits (..,E) -> weights (N,k), places (N,k) i32, ends (E) i32 */
extern const op_def op_route_backward; /* logits, places, ends, dweights -> dlogits */
extern const op_kernel route_cpu[], route_backward_cpu[];
extern const op_kernel route_cuda[], route_backward_cuda[];

/* Returns weights; places and ends follow. */
tensor_id route_apply(graph *g, tensor_id logits, const route_attributes *a);
