/* Which bucket of relative_bias.h a distance falls into. */
#pragma once

#include "base/vector.h"
#include "ops/relative_bias/relative_bias.h"
#include "ops/wide_math.h"

/* Of a key at `distance` = s - t. */
VECTOR_INLINE int32_t relative_bias_bucket(int64_t distance, int32_t buckets,
                                           const relative_bias_attributes *a) {
    int32_t half = a->both_ways ? buckets / 2 : buckets, first = a->both_ways && distance > 0 ? half : 0;
    int64_t away = a->both_ways ? (distance < 0 ? -distance : distance) : distance < 0 ? -distance : 0;
    int32_t single = half / 2;
    if (away < single) return first + (int32_t)away;
    double share = wide_log((double)away / single) / wide_log((double)a->farthest / single);
    int64_t bucket = single + (int64_t)(share * (half - single));
    return first + (int32_t)(bucket < half ? bucket : half - 1);
}
