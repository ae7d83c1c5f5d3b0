/* The update of sixteen elements in registers: adamw_math.h, step by step. */
#pragma once

#include "ops/adamw/adamw_math.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define ADAMW_TARGET __attribute__((target("avx512f")))

typedef struct {
    __m512 w, m, v;
} adamw_vector;

ADAMW_TARGET static inline adamw_vector adamw_update_vector(const adamw_step *f, adamw_vector x, __m512 g) {
    const __m512 d = _mm512_mul_ps(_mm512_set1_ps(f->scale), g);
    const __m512 m = _mm512_add_ps(x.m, _mm512_mul_ps(_mm512_set1_ps(f->fresh1), _mm512_sub_ps(d, x.m)));
    const __m512 v = _mm512_add_ps(_mm512_mul_ps(_mm512_set1_ps(f->beta2), x.v),
                                   _mm512_mul_ps(_mm512_set1_ps(f->fresh2), _mm512_mul_ps(d, d)));
    const __m512 by =
        _mm512_add_ps(_mm512_mul_ps(_mm512_sqrt_ps(v), _mm512_set1_ps(f->grow)), _mm512_set1_ps(f->eps));
    const __m512 w = _mm512_sub_ps(_mm512_mul_ps(_mm512_set1_ps(f->decay), x.w),
                                   _mm512_mul_ps(_mm512_set1_ps(f->step), _mm512_div_ps(m, by)));
    return (adamw_vector){ w, m, v };
}
#endif
