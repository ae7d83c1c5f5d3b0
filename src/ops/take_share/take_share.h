/* A copy of this rank's share of a tensor, whole on every rank: what comes of it is written in its place.
 * op_gather_ranks puts the shares of all back. */
#pragma once

#include "ir/op.h"

typedef struct {
    int64_t share; /* elements; the last ones may lie behind the whole: they are 0 */
} take_share_attributes;

extern const op_def op_take_share; /* x -> (share), x's elements from the call's `first` on */
extern const op_kernel take_share_cpu[];
extern const op_kernel take_share_cuda[];

tensor_id take_share_apply(graph *g, tensor_id x, int64_t share);
