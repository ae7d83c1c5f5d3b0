/* Every rank gets the shares of all, or of all of its group (all-gather). What is received is there behind
 * op_arrive. */
#pragma once

#include "ir/op.h"

typedef struct {
    int64_t dim[SHAPE_MAX_RANK]; /* of the whole; behind `rank` of them zeros */
    int64_t rank;
    int64_t group; /* ranks of a group (comm.h); 0: all */
} gather_ranks_attributes;

/* share; place, absent: memory of its own -> whole, of the shape in the attributes, where `place` was: the
 * elements of all shares, one rank behind the other, as many as it has room for. Not to be touched until it
 * has arrived. */
extern const op_def op_gather_ranks;
extern const op_kernel gather_ranks_cpu[];
extern const op_kernel gather_ranks_cuda[];

tensor_id gather_ranks_apply(graph *g, tensor_id share, tensor_id place, shape whole);
tensor_id gather_group_apply(graph *g, tensor_id share, tensor_id place, shape whole, int64_t group);
