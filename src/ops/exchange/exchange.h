/* Ranks exchange shares of a tensor (all-to-all): share r of each goes to rank r, or to the one at place r of
 * a group. What is received is there behind op_arrive. */
#pragma once

#include "ir/op.h"

typedef struct {
    int64_t ranks, share; /* ranks: all, or those of a group (comm.h). share: elements; the last ones of x may
                             be shorter, or empty */
    int64_t first, some;  /* so many elements of each share, from this one on; some 0: all of it */
} exchange_attributes;

/* x -> parts (ranks, share or `some`): row q has this rank's share of what the one at place q has, or the
 * piece of it, with zeros behind a shorter one. Not to be touched until it has arrived. */
extern const op_def op_exchange;
extern const op_kernel exchange_cpu[];
extern const op_kernel exchange_cuda[];

tensor_id exchange_apply(graph *g, tensor_id x, int64_t ranks, int64_t share);
tensor_id exchange_piece_apply(graph *g, tensor_id x, const exchange_attributes *a);
