/* All ranks exchange shares of a tensor (all-to-all): share r of each goes to rank r. What is received is
 * there behind op_arrive. */
#pragma once

#include "ir/op.h"

typedef struct {
    int64_t ranks, share; /* share: elements; the last ones of x may be shorter, or empty */
} exchange_attributes;

/* x -> parts (ranks, share): row q has this rank's share of what rank q has, with zeros behind a shorter one.
 * Not to be touched until it has arrived. */
extern const op_def op_exchange;
extern const op_kernel exchange_cpu[];

tensor_id exchange_apply(graph *g, tensor_id x, int64_t ranks, int64_t share);
