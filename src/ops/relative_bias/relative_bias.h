/* What a score of attention gets for how far a key is from its query: bias[h,t,s] = table[bucket(s - t), h].
 * Half of the buckets are for single distances, the others grow as logarithms do up to `farthest`; from there
 * on all distances share the last one. Where both directions are seen, the first half of the buckets is for
 * keys at and before the query and the second for keys behind it; else keys behind it count as distance 0,
 * and a mask hides them anyway.
 * Paper: Raffel et al., "Exploring the limits of transfer learning with a unified text-to-text transformer",
 * arXiv:1910.10683. */
#pragma once

#include "ir/op.h"

typedef struct {
    int32_t queries, keys, both_ways, farthest;
    int32_t place; /* of query 0 among the keys; others stand behind it */
} relative_bias_attributes;

typedef struct {
    relative_bias_attributes of;
    int32_t buckets;
} relative_bias_backward_attributes;

/* table (buckets,H) -> bias (H,T,S) */
extern const op_def op_relative_bias;
extern const op_def op_relative_bias_backward; /* dbias (H,T,S), accumulator? (buckets,H) must -> dtable */
extern const op_kernel relative_bias_cpu[], relative_bias_backward_cpu[];
extern const op_kernel relative_bias_cuda[], relative_bias_backward_cuda[];

tensor_id relative_bias_apply(graph *g, tensor_id table, const relative_bias_attributes *attributes);
