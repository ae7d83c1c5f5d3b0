/* x as (outer, I, between, J, inner): where the numbers of y are read. */
#pragma once

#include "ops/transpose/transpose.h"

typedef struct {
    int64_t outer, first, between, second, inner; /* sizes; first and second as x has them */
} transpose_sizes;

static inline transpose_sizes transpose_sizes_of(const shape *x, const transpose_attributes *a) {
    transpose_sizes s = { 1, x->dim[a->first], 1, x->dim[a->second], 1 };
    for (int32_t d = 0; d < (int32_t)x->rank; d++) {
        if (d < a->first) s.outer *= x->dim[d];
        if (d > a->first && d < a->second) s.between *= x->dim[d];
        if (d > a->second) s.inner *= x->dim[d];
    }
    return s;
}
