#include "ops/fast.h"

#if defined(__x86_64__)
#include <immintrin.h>

enum { LINE = 64 };

/* Whole lines; `to` is aligned to one. */
__attribute__((target("avx512f"))) static void lines_avx512(char *to, const char *from, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += LINE)
        _mm512_stream_si512((void *)(to + i), _mm512_loadu_si512((const void *)(from + i)));
}

static void lines_sse(char *to, const char *from, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += (int)sizeof(__m128i))
        _mm_stream_si128((void *)(to + i), _mm_loadu_si128((const void *)(from + i)));
}

static void store_past(void *to, const void *from, int64_t bytes) {
    int64_t head = (int64_t)(-(uintptr_t)to % LINE);
    if (head > bytes) head = bytes;
    int64_t lines = (bytes - head) / LINE * LINE, rest = bytes - head - lines;
    memcpy(to, from, (size_t)head);
    to = (char *)to + head, from = (const char *)from + head;
    (__builtin_cpu_supports("avx512f") ? lines_avx512 : lines_sse)(to, from, lines);
    memcpy((char *)to + lines, (const char *)from + lines, (size_t)rest);
}

void fast_stored_past(void) { _mm_sfence(); }

#else

static void store_past(void *to, const void *from, int64_t bytes) { memcpy(to, from, (size_t)bytes); }

void fast_stored_past(void) {}
#endif

void fast_store_past(float *to, const float *from, int64_t n) {
    store_past(to, from, n * (int64_t)sizeof *to);
}

void fast_store_past_halves(uint16_t *to, const uint16_t *from, int64_t n) {
    store_past(to, from, n * (int64_t)sizeof *to);
}
