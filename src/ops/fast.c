#include "ops/fast.h"

#if defined(__x86_64__)
#include <immintrin.h>

enum { LINE = 64, LINE_FLOATS = 16 };

/* Whole lines, both sides aligned to 4 bytes only; `to` to a line. */
__attribute__((target("avx512f"))) static void lines_avx512(float *to, const float *from, int64_t lines) {
    for (int64_t i = 0; i < lines * LINE_FLOATS; i += LINE_FLOATS)
        _mm512_stream_ps(to + i, _mm512_loadu_ps(from + i));
}

static void lines_sse(float *to, const float *from, int64_t lines) {
    for (int64_t i = 0; i < lines * LINE_FLOATS; i += 4) _mm_stream_ps(to + i, _mm_loadu_ps(from + i));
}

void fast_store_past(float *to, const float *from, int64_t n) {
    int64_t i = 0;
    for (; i < n && (uintptr_t)(to + i) % LINE; i++) to[i] = from[i];
    int64_t lines = (n - i) / LINE_FLOATS;
    if (__builtin_cpu_supports("avx512f"))
        lines_avx512(to + i, from + i, lines);
    else
        lines_sse(to + i, from + i, lines);
    for (i += lines * LINE_FLOATS; i < n; i++) to[i] = from[i];
}

void fast_stored_past(void) { _mm_sfence(); }

#else

void fast_store_past(float *to, const float *from, int64_t n) {
    for (int64_t i = 0; i < n; i++) to[i] = from[i];
}

void fast_stored_past(void) {}
#endif
