#include "ops/attention/attention_product.h"

#include <string.h>

#include "ops/vector_math.h"

/* ---- any machine ---- */

typedef float four __attribute__((vector_size(16)));

static inline four four_load(const float *from, int count) {
    four x = { 0 };
    memcpy(&x, from, (size_t)count * sizeof *from);
    return x;
}

#define NAME(x) portable_##x
#define TARGET
#define VECTOR four
#define LANES 4
#define ROWS 4
#define LOAD(from) four_load(from, 4)
#define STORE(to, x) memcpy(to, &(x), sizeof(four))
#define LOAD_PART(from, count) four_load(from, count)
#define STORE_PART(to, x, count) memcpy(to, &(x), (size_t)(count) * sizeof(float))
#define SPREAD(x) ((four){ 0 } + (x))
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#include "ops/attention/attention_product_kernel.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

/* ---- AVX2 with fused multiply-add ---- */

#define AVX2 __attribute__((target("avx2,fma")))

AVX2 static inline __m256i avx2_first(int count) {
    static const int32_t lanes[16] = { -1, -1, -1, -1, -1, -1, -1, -1 };
    return _mm256_loadu_si256((const __m256i *)(const void *)(lanes + 8 - count));
}

#define NAME(x) avx2_##x
#define TARGET AVX2
#define VECTOR __m256
#define LANES 8
#define ROWS 4
#define LOAD(from) _mm256_loadu_ps(from)
#define STORE(to, x) _mm256_storeu_ps(to, x)
#define LOAD_PART(from, count) _mm256_maskload_ps(from, avx2_first(count))
#define STORE_PART(to, x, count) _mm256_maskstore_ps(to, avx2_first(count), x)
#define SPREAD(x) _mm256_set1_ps(x)
#define MULTIPLY_ADD(a, b, c) _mm256_fmadd_ps(a, b, c)
#include "ops/attention/attention_product_kernel.h"

/* ---- AVX-512 ---- */

#define FIRST(count) ((__mmask16)((1u << (count)) - 1))

#define NAME(x) avx512_##x
#define TARGET __attribute__((target("avx512f")))
#define VECTOR __m512
#define LANES 16
#define ROWS 8
#define LOAD(from) _mm512_loadu_ps(from)
#define STORE(to, x) _mm512_storeu_ps(to, x)
#define LOAD_PART(from, count) _mm512_maskz_loadu_ps(FIRST(count), from)
#define STORE_PART(to, x, count) _mm512_mask_storeu_ps(to, FIRST(count), x)
#define SPREAD(x) _mm512_set1_ps(x)
#define MULTIPLY_ADD(a, b, c) _mm512_fmadd_ps(a, b, c)
#include "ops/attention/attention_product_kernel.h"

static bool has_avx512(void) { return __builtin_cpu_supports("avx512f") != 0; }
static bool has_avx2(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

#endif

static bool always(void) { return true; }

const attention_multiplier attention_multipliers[] = {
#if defined(__x86_64__) && defined(__GNUC__)
    { "avx512", has_avx512, avx512_multiply, true },
    { "avx2", has_avx2, avx2_multiply, true },
#endif
    { "portable", always, portable_multiply, false },
    { 0 }
};

void attention_multiply(const attention_product *p) {
    const attention_multiplier *way = attention_multipliers;
    while (!way->available()) way++;
    way->run(p);
}

/* Sixteen columns at a time. */
VECTOR_CLONES static void plain_row(const attention_product *p, const float *a, float *c, int64_t j) {
    enum { SOME = 16 };
    float sum[SOME];
    for (int i = 0; i < SOME; i++) sum[i] = p->accumulate ? c[j + i] : 0;
    for (int64_t x = 0; x < p->k; x++)
        for (int i = 0; i < SOME; i++)
            sum[i] = vector_fused(a[x * p->a_column], p->b[x * p->b_row + j + i], sum[i]);
    for (int i = 0; i < SOME; i++) c[j + i] = sum[i];
}

static void plain_multiply(const attention_product *p) {
    for (int64_t i = 0; i < p->m; i++) {
        const float *a = p->a + i * p->a_row;
        float *c = p->c + i * p->c_row;
        int64_t j = 0;
        for (; j + 16 <= p->n; j += 16) plain_row(p, a, c, j);
        for (; j < p->n; j++) {
            float sum = p->accumulate ? c[j] : 0;
            for (int64_t x = 0; x < p->k; x++)
                sum = vector_fused(a[x * p->a_column], p->b[x * p->b_row + j], sum);
            c[j] = sum;
        }
    }
}

void attention_multiply_fused(const attention_product *p) {
    const attention_multiplier *way = attention_multipliers;
    while (way->name && !(way->fuses && way->available())) way++;
    if (way->name)
        way->run(p);
    else
        plain_multiply(p);
}
