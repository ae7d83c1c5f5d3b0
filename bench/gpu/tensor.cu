/* Products on tensor cores on a GPU: bench-gpu-tensor DEVICE [seconds]
 *
 * 1. Each instruction of device/cuda/mma.h on whole numbers, whose sums are exact in any order: the same as
 * what is documented of it, and so as its twin.
 * 2. Every tile on small products of all forms: near the sum in f64; each with the bits of the others, rows
 * alone with those that they have among others, and cut at a slice with those of the whole.
 * 3. Floats of 8 bits, where the GPU has them: whole numbers, whose sums are exact, in both tiles.
 * 4. The same of groups of warps (device/cuda/mma_group.h), where GPU and build have them (capability 9.0,
 * code for 90a): the instruction, every tile, floats of 8 bits. Says whether bits are those of mma.sync.
 * 5. With a second argument: TFLOP/s of every tile on gpt2's shapes (4 x 1024 tokens) and one large square,
 * the best of three rounds of so many launches that each takes about 20 ms; and of floats of 8 bits.
 *
 * Which tile a product takes (tensor_sized, group_choose) was chosen by what tiles read, before anything
 * could be timed; this program says what to choose. Exit 0: nothing was wrong. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ops/matmul/matmul_group_cuda.h"
#include "ops/matmul_fp8/matmul_fp8_tensor_cuda.h"

extern "C" {
#include "device/device.h"
}

static const device *gpu;
static device_pool pool;
static int wrong;

static void say_wrong(const char *what, const char *which) {
    if (wrong++ < 20) printf("WRONG: %s: %s\n", which, what);
}

static void die(const char *why) {
    fprintf(stderr, "%s\n", why);
    exit(2);
}

static uint64_t draw() {
    static uint64_t state = 88172645463325252ull;
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state >> 11;
}

static float wide(dtype type, uint16_t x) {
    return type == DTYPE_BF16 ? half_from_bf16(x) : half_from_f16(x);
}
static uint16_t narrow(dtype type, float x) { return type == DTYPE_BF16 ? half_to_bf16(x) : half_to_f16(x); }

/* -4 .. 4 */
static uint16_t whole_number(dtype type) { return narrow(type, (float)(draw() % 9) - 4); }

/* The pool is given out from its beginning, to one check or timing after the other. */
static uint64_t taken;
static void *take(uint64_t bytes) {
    void *at = (char *)pool.data + taken;
    taken += (bytes + 511) / 256 * 256;
    if (taken > pool.bytes) die("the pool is too small");
    return at;
}

/* ---- instructions ---- */

enum { EDGE = 16 };

/* d = a b of 16 x 16 by one warp; `A_CROSSED`: a lies column by column, `B_CROSSED`: b lies row by row. */
template <class T, bool A_CROSSED, bool B_CROSSED>
__global__ void one_product(const uint16_t *a, const uint16_t *b, float *d) {
#if GPU_HAS_MMA
    GPU_SHARED(uint16_t, of_a);
    uint16_t *of_b = of_a + EDGE * EDGE;
    int l = (int)threadIdx.x, straight = l % 16 * EDGE + l / 16 * 8;
    int turned = (l % 8 + l / 16 * 8) * EDGE + l / 8 % 2 * 8;
    uint32_t x[4], y[4];
    gpu_copy16(of_a + l * 8, a + l * 8, 16), gpu_copy16(of_b + l * 8, b + l * 8, 16);
    gpu_copies_commit();
    gpu_copies_wait<0>();
    __syncwarp();
    if (A_CROSSED)
        gpu_ldmatrix_across(x, of_a + turned);
    else
        gpu_ldmatrix(x, of_a + straight);
    if (B_CROSSED)
        gpu_ldmatrix_across(y, of_b + straight);
    else
        gpu_ldmatrix(y, of_b + turned);
    for (int j = 0; j < 2; j++) {
        float sum[4] = { 1, 2, 3, 4 };
        uint32_t half[2] = { y[2 * j], y[2 * j + 1] };
        gpu_mma(T(), sum, x, half);
        for (int k = 0; k < 4; k++)
            d[(l / 4 + k / 2 * 8) * EDGE + j * 8 + l % 4 * 2 + k % 2] = sum[k] - (float)(k + 1);
    }
#endif
}

template <class T, bool A_CROSSED, bool B_CROSSED>
static void check_instructions(dtype type) {
    uint16_t a[EDGE * EDGE], b[EDGE * EDGE];
    float d[EDGE * EDGE];
    for (int i = 0; i < EDGE * EDGE; i++) a[i] = whole_number(type), b[i] = whole_number(type);
    taken = 0;
    uint16_t *at_a = (uint16_t *)take(sizeof a), *at_b = (uint16_t *)take(sizeof b);
    float *at_d = (float *)take(sizeof d);
    gpu->put(gpu, at_a, a, sizeof a), gpu->put(gpu, at_b, b, sizeof b);
    gpu->begin(gpu);
    GPU_LAUNCH((one_product<T, A_CROSSED, B_CROSSED>), 1, 32, 2 * sizeof a, at_a, at_b, at_d);
    gpu->end(gpu);
    gpu->get(gpu, d, at_d, sizeof d);
    for (int i = 0; i < EDGE; i++)
        for (int j = 0; j < EDGE; j++) {
            float sum = 0;
            for (int k = 0; k < EDGE; k++)
                sum += wide(type, a[A_CROSSED ? k * EDGE + i : i * EDGE + k]) *
                       wide(type, b[B_CROSSED ? k * EDGE + j : j * EDGE + k]);
            if (sum != d[i * EDGE + j])
                say_wrong("cp.async, ldmatrix and mma of 16 x 16", type == DTYPE_BF16 ? "bf16" : "f16");
        }
}

enum { CODES = 32 };

/* d = 1, 2, 3, 4 + a b of 16 x 32 by 32 x 8 codes by one warp; b lies column by column. */
__global__ void one_product_of_codes(const int8_t *a, const int8_t *b, int32_t *d) {
#if GPU_HAS_MMA
    int g = (int)threadIdx.x / 4, t = (int)threadIdx.x % 4;
    const uint32_t *of_a = (const uint32_t *)a, *of_b = (const uint32_t *)b; /* by fours */
    uint32_t x[4], y[2];
    int32_t sum[4] = { 1, 2, 3, 4 };
    for (int k = 0; k < 4; k++) x[k] = of_a[(g + k % 2 * 8) * (CODES / 4) + t + k / 2 * 4];
    for (int k = 0; k < 2; k++) y[k] = of_b[g * (CODES / 4) + t + k * 4];
    gpu_mma_codes(sum, x, y);
    for (int k = 0; k < 4; k++) d[(g + k / 2 * 8) * 8 + 2 * t + k % 2] = sum[k] - (k + 1);
#endif
}

static void check_codes() {
    alignas(4) int8_t a[EDGE * CODES], b[8 * CODES];
    int32_t d[EDGE * 8];
    for (int8_t &x : a) x = (int8_t)(draw() % 256);
    for (int8_t &x : b) x = (int8_t)(draw() % 256);
    taken = 0;
    int8_t *at_a = (int8_t *)take(sizeof a), *at_b = (int8_t *)take(sizeof b);
    int32_t *at_d = (int32_t *)take(sizeof d);
    gpu->put(gpu, at_a, a, sizeof a), gpu->put(gpu, at_b, b, sizeof b);
    gpu->begin(gpu);
    GPU_LAUNCH((one_product_of_codes), 1, 32, 0, at_a, at_b, at_d);
    gpu->end(gpu);
    gpu->get(gpu, d, at_d, sizeof d);
    for (int i = 0; i < EDGE; i++)
        for (int j = 0; j < 8; j++) {
            int32_t sum = 0;
            for (int k = 0; k < CODES; k++) sum += a[i * CODES + k] * b[j * CODES + k];
            if (sum != d[i * 8 + j]) say_wrong("mma of 16 x 32 by 32 x 8", "codes of 8 bits");
        }
}

/* The same of floats of 8 bits: 16 x 32 of T by 32 x 8 of e4m3. */
template <class T>
__global__ void one_product_of_floats(const uint8_t *a, const uint8_t *b, float *d) {
#if GPU_HAS_MMA_FP8
    int g = (int)threadIdx.x / 4, t = (int)threadIdx.x % 4;
    const uint32_t *of_a = (const uint32_t *)a, *of_b = (const uint32_t *)b; /* by fours */
    uint32_t x[4], y[2];
    float sum[4] = { 1, 2, 3, 4 };
    for (int k = 0; k < 4; k++) x[k] = of_a[(g + k % 2 * 8) * (CODES / 4) + t + k / 2 * 4];
    for (int k = 0; k < 2; k++) y[k] = of_b[g * (CODES / 4) + t + k * 4];
    gpu_mma(T(), sum, x, y);
    for (int k = 0; k < 4; k++) d[(g + k / 2 * 8) * 8 + 2 * t + k % 2] = sum[k] - (float)(k + 1);
#endif
}

static uint8_t whole_code(fp8_form form) { return fp8_encode(form, (float)(draw() % 9) - 4); }

template <class T>
static void check_floats(fp8_form form) {
    alignas(4) uint8_t a[EDGE * CODES], b[8 * CODES];
    float d[EDGE * 8];
    for (uint8_t &x : a) x = whole_code(form);
    for (uint8_t &x : b) x = whole_code(FP8_E4M3);
    taken = 0;
    uint8_t *at_a = (uint8_t *)take(sizeof a), *at_b = (uint8_t *)take(sizeof b);
    float *at_d = (float *)take(sizeof d);
    gpu->put(gpu, at_a, a, sizeof a), gpu->put(gpu, at_b, b, sizeof b);
    gpu->begin(gpu);
    GPU_LAUNCH((one_product_of_floats<T>), 1, 32, 0, at_a, at_b, at_d);
    gpu->end(gpu);
    gpu->get(gpu, d, at_d, sizeof d);
    for (int i = 0; i < EDGE; i++)
        for (int j = 0; j < 8; j++) {
            float sum = 0;
            for (int k = 0; k < CODES; k++)
                sum += fp8_decode(form, a[i * CODES + k]) * fp8_decode(FP8_E4M3, b[j * CODES + k]);
            if (sum != d[i * 8 + j])
                say_wrong("mma of 16 x 32 by 32 x 8", form == FP8_E4M3 ? "e4m3" : "e5m2");
        }
}

/* Of each x: itself and its negative in bf16, then in f16; 2^x. */
__global__ void some_numbers(const float *x, uint32_t *y) {
#if GPU_HAS_MMA
    int i = (int)threadIdx.x;
    y[3 * i] = gpu_pack(gpu_bf16(), x[i], -x[i]), y[3 * i + 1] = gpu_pack(gpu_f16(), x[i], -x[i]);
    y[3 * i + 2] = half_bits(gpu_exp2(x[i]));
#endif
}

/* Rounded as base/half.h rounds, bit for bit; powers within 2^-22, and those of minus infinity 0. */
static void check_numbers() {
    enum { MANY = 512 };
    float x[MANY] = { 0, 1, -INFINITY, 65504, 65519.996f, 65520, 3e-8f, 1.00390625f, 1.01171875f, -126, 127 };
    uint32_t y[3 * MANY];
    for (int i = 11; i < MANY; i++) x[i] = ((float)draw() * 0x1p-53f - 0.5f) * (i % 2 ? 200.0f : 2e-4f);
    taken = 0;
    float *at_x = (float *)take(sizeof x);
    uint32_t *at_y = (uint32_t *)take(sizeof y);
    gpu->put(gpu, at_x, x, sizeof x);
    gpu->begin(gpu);
    GPU_LAUNCH((some_numbers), 1, MANY, 0, at_x, at_y);
    gpu->end(gpu);
    gpu->get(gpu, y, at_y, sizeof y);
    for (int i = 0; i < MANY; i++) {
        uint32_t bf16 = half_to_bf16(x[i]) | (uint32_t)half_to_bf16(-x[i]) << 16;
        uint32_t f16 = half_to_f16(x[i]) | (uint32_t)half_to_f16(-x[i]) << 16;
        double power = exp2((double)x[i]), is = (double)half_float(y[3 * i + 2]);
        if (y[3 * i] != bf16) say_wrong("rounding", "bf16");
        if (y[3 * i + 1] != f16) say_wrong("rounding", "f16");
        if (is != power && !(fabs(is - power) <= 0x1p-22 * power + 0x1p-126)) say_wrong("powers of 2", "f32");
    }
}

/* Thread (offset, count): eight numbers from that offset on, and a copy of so many. */
__global__ void some_eights(const uint16_t *x, uint16_t *y) {
#if GPU_HAS_MMA
    GPU_SHARED(uint16_t, shared);
    int offset = (int)threadIdx.x % 8, count = (int)threadIdx.x / 8, t = (int)threadIdx.x;
    uint32_t w[4];
    gpu_bytes_words(gpu_bytes_read(x + offset, 2 * count), 2 * count, w);
    gpu_set16(shared + t * 16, w);
    gpu_copy16(shared + t * 16 + 8, x, 2 * count);
    gpu_copies_commit();
    gpu_copies_wait<0>();
    for (int i = 0; i < 16; i++) y[t * 16 + i] = shared[t * 16 + i];
#endif
}

static void check_eights() {
    enum { THREADS = 8 * 9 };
    uint16_t x[16], y[THREADS * 16];
    for (int i = 0; i < 16; i++) x[i] = (uint16_t)(1000 + i);
    taken = 0;
    uint16_t *at_x = (uint16_t *)take(sizeof x), *at_y = (uint16_t *)take(sizeof y);
    gpu->put(gpu, at_x, x, sizeof x);
    gpu->begin(gpu);
    GPU_LAUNCH((some_eights), 1, THREADS, THREADS * 32, at_x, at_y);
    gpu->end(gpu);
    gpu->get(gpu, y, at_y, sizeof y);
    for (int t = 0; t < THREADS; t++)
        for (int i = 0; i < 16; i++) {
            int from = i < 8 ? t % 8 + i : i - 8, inside = i % 8 < t / 8;
            if (y[t * 16 + i] != (inside ? x[from] : 0))
                say_wrong("part of eight", i < 8 ? "reads" : "copies");
        }
}

/* ---- groups of warps ---- */

enum { WORDS = 64, GROUP_TILE = 64 * WORDS /* of an operand */ };

/* d = a b of 64 x 64, 64 words deep, by one group: four instructions. */
template <class T, bool A_CROSSED, bool B_CROSSED>
__global__ void __launch_bounds__(GPU_GROUP) one_group(const uint16_t *a, const uint16_t *b, float *d) {
#if GPU_HAS_GROUPS
    typedef group_buffer<64, WORDS, A_CROSSED, GPU_GROUP> of_a;
    typedef group_buffer<64, WORDS, B_CROSSED, GPU_GROUP> of_b;
    GPU_SHARED(unsigned char, all);
    uint16_t *x = (uint16_t *)gpu_group_aligned(all), *y = x + GROUP_TILE;
    for (int n = 0; n < of_a::EACH; n++) {
        int row = of_a::row_of(n), eight = of_a::eight_of(n), from = row * WORDS + eight * 8;
        gpu_copy16(x + of_a::place(row, eight), a + from, 16);
        gpu_copy16(y + of_b::place(row, eight), b + from, 16);
    }
    gpu_copies_commit();
    gpu_copies_wait<0>();
    gpu_group_show();
    __syncthreads();
    float sum[8][4] = {};
    const uint64_t at_x = of_a::operand(x, 0), at_y = of_b::operand(y, 0);
    gpu_group_fence();
#pragma unroll
    for (int k = 0; k < 4; k++)
        gpu_group_mma<A_CROSSED, B_CROSSED>(T(), sum, gpu_group_further(at_x, k * of_a::STEP),
                                            gpu_group_further(at_y, k * of_b::STEP), k > 0);
    gpu_group_commit();
    gpu_group_wait<0>(sum);
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 32; i++)
        d[(warp * 16 + lane / 4 + i % 4 / 2 * 8) * 64 + i / 4 * 8 + lane % 4 * 2 + i % 2] = sum[i / 4][i % 4];
#endif
}

/* What stands in an operand at a line and a depth: a number of 16 bits, or a float of 8. */
static float group_number(const uint16_t *x, bool crossed, int each, fp8_form form, dtype type, int line,
                          int depth) {
    if (each == 1) return fp8_decode(form, ((const uint8_t *)x)[line * 2 * WORDS + depth]);
    return wide(type, x[crossed ? depth * WORDS + line : line * WORDS + depth]);
}

/* each: bytes of a number. */
template <class T, bool A_CROSSED, bool B_CROSSED>
static void check_group(const char *name, int each, dtype type, fp8_form form) {
    static uint16_t a[GROUP_TILE], b[GROUP_TILE];
    static float d[64 * 64];
    for (int i = 0; i < GROUP_TILE; i++) {
        a[i] = each == 2 ? whole_number(type) : (uint16_t)(whole_code(form) | whole_code(form) << 8);
        b[i] = each == 2 ? whole_number(type) : (uint16_t)(whole_code(FP8_E4M3) | whole_code(FP8_E4M3) << 8);
    }
    taken = 0;
    uint16_t *at_a = (uint16_t *)take(sizeof a), *at_b = (uint16_t *)take(sizeof b);
    float *at_d = (float *)take(sizeof d);
    gpu->put(gpu, at_a, a, sizeof a), gpu->put(gpu, at_b, b, sizeof b);
    gpu->begin(gpu);
    GPU_LAUNCH((one_group<T, A_CROSSED, B_CROSSED>), 1, GPU_GROUP, 4 * GROUP_TILE + GPU_GROUP_ALIGNED, at_a,
               at_b, at_d);
    gpu->end(gpu);
    gpu->get(gpu, d, at_d, sizeof d);
    for (int i = 0; i < 64; i++)
        for (int j = 0; j < 64; j++) {
            float sum = 0;
            for (int k = 0; k < WORDS * 2 / each; k++)
                sum += group_number(a, A_CROSSED, each, form, type, i, k) *
                       group_number(b, B_CROSSED, each, FP8_E4M3, type, j, k);
            if (sum != d[i * 64 + j]) say_wrong("products by a group of warps", name);
        }
}

static void check_groups() {
    check_group<gpu_bf16, true, false>("bf16, a across", 2, DTYPE_BF16, FP8_E4M3);
    check_group<gpu_bf16, false, true>("bf16, b across", 2, DTYPE_BF16, FP8_E4M3);
    check_group<gpu_f16, true, true>("f16, across", 2, DTYPE_F16, FP8_E4M3);
    check_group<gpu_f16, false, false>("f16, along", 2, DTYPE_F16, FP8_E4M3);
    check_group<gpu_e4m3, false, false>("e4m3", 1, DTYPE_NONE, FP8_E4M3);
    check_group<gpu_e5m2, false, false>("e5m2", 1, DTYPE_NONE, FP8_E5M2);
}

/* ---- tiles ---- */

struct form {
    int64_t rows, columns, depth;
    bool ta, tb;
    dtype type;
};

/* A product in the pool. */
struct product {
    form f;
    tensor_operand a, b;
    float *before, *y; /* `before` may be NULL */
};

template <class T, class S, class F>
static void launch(const product &p) {
    cuda_span none = { NULL, DTYPE_F32 }, before = { p.before, DTYPE_F32 }, y = { p.y, DTYPE_F32 };
    matmul_end end = matmul_end_of(none, none, before, y, p.f.columns);
    tensor_product<tensor_operand> t = { p.a, p.b, p.f.depth, p.before != NULL };
    const tensor_halves<T> numbers = {};
    if (p.f.ta)
        tensor_launch<S, F, true, true>(t, numbers, end);
    else if (p.f.tb)
        tensor_launch<S, F, false, false>(t, numbers, end);
    else
        tensor_launch<S, F, false, true>(t, numbers, end);
}

template <class T, class S, class F>
static void launch_group(const product &p) {
    cuda_span none = { NULL, DTYPE_F32 }, before = { p.before, DTYPE_F32 }, y = { p.y, DTYPE_F32 };
    matmul_end end = matmul_end_of(none, none, before, y, p.f.columns);
    tensor_product<tensor_operand> t = { p.a, p.b, p.f.depth, p.before != NULL };
    if (p.f.ta)
        group_launch<S, F, true, true>(t, tensor_halves<T>(), end);
    else if (p.f.tb)
        group_launch<S, F, false, false>(t, tensor_halves<T>(), end);
    else
        group_launch<S, F, false, true>(t, tensor_halves<T>(), end);
}

typedef void (*runner)(const product &);
struct variant {
    const char *name;
    int shared;
    runner packed[2], unpacked[2]; /* bf16, f16 */
};
#define VARIANT(...)                                                                                         \
    {                                                                                                        \
#__VA_ARGS__, tensor_tile < __VA_ARGS__> ::SHARED,                                                   \
            { launch < gpu_bf16, tensor_tile < __VA_ARGS__>, tensor_copies>, launch < gpu_f16,               \
              tensor_tile < __VA_ARGS__>, tensor_copies> },                                                  \
        {                                                                                                    \
            launch<gpu_bf16, tensor_tile<__VA_ARGS__>, tensor_reads>,                                        \
                launch<gpu_f16, tensor_tile<__VA_ARGS__>, tensor_reads>                                      \
        }                                                                                                    \
    }
/* Warps down and across, sixteens of rows and eights of columns of each, depths, stages, blocks. */
static const variant variants[] = {
    VARIANT(2, 4, 4, 4, 32, 4, 1), /* tensor_large */
    VARIANT(2, 2, 2, 4, 32, 4, 3), /* tensor_small */
    VARIANT(2, 4, 4, 4, 64, 3, 1), VARIANT(2, 4, 4, 4, 32, 6, 1),
    VARIANT(2, 2, 4, 4, 32, 4, 2), VARIANT(4, 2, 2, 4, 32, 4, 1),
};

/* Groups, columns, stages, blocks. What does not lie at 16 bytes comes in group_slim, or group_small. */
#define GROUP_VARIANT(SLIM, ...)                                                                             \
    {                                                                                                        \
        "group " #__VA_ARGS__, group_tile<__VA_ARGS__>::SHARED,                                              \
            { launch_group<gpu_bf16, group_tile<__VA_ARGS__>, tensor_copies>,                                \
              launch_group<gpu_f16, group_tile<__VA_ARGS__>, tensor_copies> },                               \
        {                                                                                                    \
            launch_group<gpu_bf16, SLIM, tensor_reads>, launch_group<gpu_f16, SLIM, tensor_reads>            \
        }                                                                                                    \
    }
static const variant group_variants[] = {
    GROUP_VARIANT(group_slim, 2, 192, 5, 1), /* group_wide */
    GROUP_VARIANT(group_slim, 2, 128, 6, 1), /* group_large */
    GROUP_VARIANT(group_slim, 2, 64, 4, 1),  /* group_slim */
    GROUP_VARIANT(group_small, 1, 64, 4, 3), /* group_small */
};

struct variant_list {
    const variant *first;
    size_t count;
};
static const variant_list warps = { variants, sizeof variants / sizeof *variants };
static const variant_list groups = { group_variants, sizeof group_variants / sizeof *group_variants };
static bool has_groups() { return gpu_group_known(gpu->capability); }

static void run(const variant &v, const product &p) {
    bool packed = tensor_packed(p.a) && tensor_packed(p.b);
    (packed ? v.packed : v.unpacked)[p.f.type == DTYPE_F16](p);
}

static tensor_operand operand_of(const form &f, bool b, const uint16_t *data) {
    if (b) return { data, 2 * (f.tb ? f.depth : f.columns), f.columns };
    return { data, 2 * (f.ta ? f.rows : f.depth), f.rows };
}

struct host_product {
    uint16_t *a, *b;
    float *y, *other;
    product p; /* in the pool */
};

static host_product open_product(const form &f) {
    size_t n_a = (size_t)(f.rows * f.depth), n_b = (size_t)(f.depth * f.columns),
           n = (size_t)(f.rows * f.columns);
    host_product h = { (uint16_t *)malloc(n_a * 2),
                       (uint16_t *)malloc(n_b * 2),
                       (float *)malloc(n * 4),
                       (float *)malloc(n * 4),
                       {} };
    if (!h.a || !h.b || !h.y || !h.other) die("no memory");
    for (size_t i = 0; i < n_a; i++) h.a[i] = narrow(f.type, (float)draw() * 0x1p-53f - 0.5f);
    for (size_t i = 0; i < n_b; i++) h.b[i] = narrow(f.type, (float)draw() * 0x1p-53f - 0.5f);
    taken = 0;
    uint16_t *a = (uint16_t *)take(n_a * 2), *b = (uint16_t *)take(n_b * 2);
    gpu->put(gpu, a, h.a, n_a * 2), gpu->put(gpu, b, h.b, n_b * 2);
    h.p = { f, operand_of(f, false, a), operand_of(f, true, b), NULL, (float *)take(n * 4) };
    return h;
}
static void close_product(host_product &h) { free(h.a), free(h.b), free(h.y), free(h.other); }

static void get(const variant &v, const product &p, float *y) {
    gpu->begin(gpu);
    run(v, p);
    gpu->end(gpu);
    gpu->get(gpu, y, p.y, (uint64_t)(p.f.rows * p.f.columns) * sizeof *y);
}

static void check_near(const variant &v, const host_product &h) {
    const form &f = h.p.f;
    for (int64_t i = 0; i < f.rows; i += 5)
        for (int64_t j = 0; j < f.columns; j += 3) {
            double sum = 0, size = 0;
            for (int64_t k = 0; k < f.depth; k++) {
                double x = (double)wide(f.type, h.a[f.ta ? k * f.rows + i : i * f.depth + k]) *
                           (double)wide(f.type, h.b[f.tb ? j * f.depth + k : k * f.columns + j]);
                sum += x, size += fabs(x);
            }
            if (!(fabs(sum - (double)h.y[i * f.columns + j]) <= 2e-6 * size))
                say_wrong("far from f64", v.name);
        }
}

static tensor_operand further(tensor_operand o, int64_t bytes) {
    o.data = (const char *)o.data + bytes;
    return o;
}

/* Rows from 40 on: of a as it lies, which is shorter. */
static void check_alone(const variant &v, const host_product &h) {
    product p = h.p;
    p.f.rows = p.a.lines = 10;
    p.a = further(p.a, p.f.ta ? 40 * 2 : 40 * p.a.stride);
    get(v, p, h.other);
    if (memcmp(h.other, h.y + 40 * p.f.columns, (size_t)(10 * p.f.columns) * 4) != 0)
        say_wrong("rows alone have other bits", v.name);
}

static void check_cut(const variant &v, const host_product &h) {
    const int64_t cut = MATMUL_SLICE;
    product first = h.p, rest = h.p;
    first.f.depth = cut, rest.f.depth -= cut, rest.before = rest.y;
    rest.a = further(rest.a, rest.f.ta ? cut * rest.a.stride : cut * 2);
    rest.b = further(rest.b, rest.f.tb ? cut * 2 : cut * rest.b.stride);
    get(v, first, h.other);
    get(v, rest, h.other);
    if (memcmp(h.other, h.y, (size_t)(h.p.f.rows * h.p.f.columns) * 4) != 0) say_wrong("cut", v.name);
}

static void check_tiles(const variant_list &all) {
    static const form forms[] = {
        { 200, 136, 600, false, false, DTYPE_BF16 }, { 200, 136, 608, true, false, DTYPE_F16 },
        { 136, 264, 520, false, true, DTYPE_BF16 },  { 77, 139, 301, false, false, DTYPE_F16 },
        { 131, 67, 300, true, false, DTYPE_BF16 },   { 70, 35, 279, false, true, DTYPE_F16 }
    };
    for (const form &f : forms) {
        host_product h = open_product(f);
        size_t bytes = (size_t)(f.rows * f.columns) * 4;
        float *first = (float *)malloc(bytes);
        if (!first) die("no memory");
        for (size_t i = 0; i < all.count; i++) {
            const variant &v = all.first[i];
            get(v, h.p, h.y);
            if (i == 0) memcpy(first, h.y, bytes);
            if (memcmp(first, h.y, bytes) != 0) say_wrong("a tile has other bits than the first", v.name);
            check_near(v, h), check_alone(v, h), check_cut(v, h);
        }
        get(variants[0], h.p, h.y);
        if (all.first == group_variants)
            printf("groups of warps, %lld deep: %s bits\n", (long long)f.depth,
                   memcmp(first, h.y, bytes) ? "other" : "mma.sync's");
        free(first);
        close_product(h);
    }
}

/* ---- floats of 8 bits ---- */

/* e4m3 by e4m3 in the pool, whose scales are 1: along rows, or over them. */
struct floats {
    int64_t rows, columns, depth;
    bool over_rows;
    uint8_t *a, *b, *scales;
    float *y;
};

/* Which kernel, in which tile. */
template <class S>
struct float_warps {
    template <class F, bool CROSSED, class P, class N, class E>
    static void launch(const P &p, const N &numbers, const E &e) {
        tensor_launch<S, F, CROSSED, CROSSED>(p, numbers, e);
    }
};
template <class S>
struct float_groups {
    template <class F, bool CROSSED, class P, class N, class E>
    static void launch(const P &p, const N &numbers, const E &e) {
        group_launch<S, F, CROSSED, CROSSED>(p, numbers, e);
    }
};

/* READS: the kernel of what does not lie at 16 bytes. */
template <class BY, class READS>
static void run_floats(const floats &p) {
    cuda_span none = { NULL, DTYPE_F32 }, y = { p.y, DTYPE_F32 };
    matmul_end end = matmul_end_of(none, none, none, y, p.columns);
    int64_t blocks = fp8_blocks(p.depth);
    if (p.over_rows) {
        matmul_fp8_lines a = { p.a, p.scales, p.rows, fp8_blocks(p.rows), 20, 0x1p120f, p.rows % 8 == 0 };
        matmul_fp8_lines b = { p.b, p.scales, p.columns,         fp8_blocks(p.columns),
                               20,  0x1p120f, p.columns % 8 == 0 };
        tensor_product<matmul_fp8_lines> t = { a, b, p.depth, false };
        BY::template launch<matmul_fp8_widens, true>(t, tensor_halves<gpu_bf16>{}, end);
        return;
    }
    matmul_fp8_numbers<gpu_e4m3> numbers = { p.scales, p.scales, p.rows, p.columns,
                                             blocks,   blocks,   1,      blocks % 4 == 0 };
    tensor_product<tensor_operand> t = {
        { p.a, p.depth, p.rows }, { p.b, p.depth, p.columns }, p.depth, false
    };
    if (p.depth % 16 == 0)
        BY::template launch<tensor_copies, false>(t, numbers, end);
    else
        READS::template launch<tensor_reads, false>(t, numbers, end);
}

static const struct {
    const char *name;
    bool groups;
    void (*run)(const floats &);
} float_variants[] = {
    { "large", false, run_floats<float_warps<tensor_large>, float_warps<tensor_large>> },
    { "small", false, run_floats<float_warps<tensor_small>, float_warps<tensor_small>> },
    { "group, large", true, run_floats<float_groups<group_large>, float_groups<group_slim>> },
    { "group, small", true, run_floats<float_groups<group_small>, float_groups<group_small>> },
};

static bool has_floats(bool groups) { return groups ? has_groups() : gpu_mma_fp8_known(gpu->capability); }

/* Whole numbers, some of them, again and again. */
static floats open_floats(int64_t rows, int64_t columns, int64_t depth, bool over_rows) {
    const uint64_t SOME = 1 << 16;
    static uint8_t drawn[SOME], ones[SOME];
    for (uint64_t i = 0; i < SOME; i++) drawn[i] = whole_code(FP8_E4M3), ones[i] = 127;
    taken = 0;
    int64_t most = rows > columns ? rows : columns;
    uint64_t n_a = (uint64_t)(rows * depth), n_b = (uint64_t)(columns * depth);
    uint64_t scales = (uint64_t)(over_rows ? depth * fp8_blocks(most) : most * fp8_blocks(depth));
    floats p = {
        rows, columns, depth, over_rows, (uint8_t *)take(n_a), (uint8_t *)take(n_b), (uint8_t *)take(scales),
        NULL
    };
    p.y = (float *)take((uint64_t)(rows * columns) * sizeof *p.y);
    for (uint64_t i = 0; i < n_a; i += SOME) gpu->put(gpu, p.a + i, drawn, n_a - i < SOME ? n_a - i : SOME);
    for (uint64_t i = 0; i < n_b; i += SOME / 2)
        gpu->put(gpu, p.b + i, drawn + SOME / 2, n_b - i < SOME / 2 ? n_b - i : SOME / 2);
    for (uint64_t i = 0; i < scales; i += SOME)
        gpu->put(gpu, p.scales + i, ones, scales - i < SOME ? scales - i : SOME);
    return p;
}

static void check_float_tiles() {
    static const struct {
        int64_t rows, columns, depth;
        bool over_rows;
    } forms[] = {
        { 150, 70, 512, false }, { 67, 140, 301, false }, { 150, 72, 300, true }, { 67, 35, 70, true }
    };
    for (const auto &f : forms) {
        floats p = open_floats(f.rows, f.columns, f.depth, f.over_rows);
        uint64_t n_a = (uint64_t)(f.rows * f.depth), n_b = (uint64_t)(f.columns * f.depth);
        uint8_t *a = (uint8_t *)malloc(n_a), *b = (uint8_t *)malloc(n_b);
        float *y = (float *)malloc((size_t)(f.rows * f.columns) * sizeof *y);
        if (!a || !b || !y) die("no memory");
        gpu->get(gpu, a, p.a, n_a), gpu->get(gpu, b, p.b, n_b);
        for (const auto &v : float_variants) {
            if (!has_floats(v.groups)) continue;
            gpu->begin(gpu);
            v.run(p);
            gpu->end(gpu);
            gpu->get(gpu, y, p.y, (uint64_t)(f.rows * f.columns) * sizeof *y);
            for (int64_t i = 0; i < f.rows; i++)
                for (int64_t j = 0; j < f.columns; j++) {
                    float sum = 0;
                    for (int64_t k = 0; k < f.depth; k++)
                        sum += fp8_decode(FP8_E4M3, a[f.over_rows ? k * f.rows + i : i * f.depth + k]) *
                               fp8_decode(FP8_E4M3, b[f.over_rows ? k * f.columns + j : j * f.depth + k]);
                    if (sum != y[i * f.columns + j]) say_wrong("products of floats of 8 bits", v.name);
                }
        }
        free(a), free(b), free(y);
    }
}

/* ---- time ---- */

static double seconds_now() {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double seconds_of(const variant &v, const product &p, int launches) {
    double began = seconds_now();
    gpu->begin(gpu);
    for (int i = 0; i < launches; i++) run(v, p);
    gpu->end(gpu);
    return (seconds_now() - began) / launches;
}

static double rate_of(const variant &v, const product &p, double work) {
    double once = seconds_of(v, p, 2), best = 1e9;
    int launches = once > 0.02 ? 1 : (int)(0.02 / once);
    for (int round = 0; round < 3; round++) best = fmin(best, seconds_of(v, p, launches));
    return 1e-12 * work / best;
}

static void time_form(const form &f, bool before) {
    taken = 0;
    const uint64_t some = 1 << 20, n_a = (uint64_t)(f.rows * f.depth), n_b = (uint64_t)(f.depth * f.columns);
    uint16_t *a = (uint16_t *)take(2 * n_a), *b = (uint16_t *)take(2 * n_b),
             *drawn = (uint16_t *)malloc(2 * some);
    if (!drawn) die("no memory");
    for (uint64_t i = 0; i < some; i++) drawn[i] = narrow(f.type, (float)draw() * 0x1p-53f - 0.5f);
    for (uint64_t i = 0; i < n_a; i += some)
        gpu->put(gpu, a + i, drawn, 2 * (n_a - i < some ? n_a - i : some));
    for (uint64_t i = 0; i < n_b; i += some)
        gpu->put(gpu, b + i, drawn, 2 * (n_b - i < some ? n_b - i : some));
    free(drawn);
    float *y = (float *)take((uint64_t)(f.rows * f.columns) * 4);
    product p = { f, operand_of(f, false, a), operand_of(f, true, b), before ? y : NULL, y };
    double work = 2.0 * (double)f.rows * (double)f.columns * (double)f.depth;
    printf("%6lld x %6lld x %6lld %s%s", (long long)f.rows, (long long)f.depth, (long long)f.columns,
           f.ta   ? "tn"
           : f.tb ? "nt"
                  : "nn",
           before ? "+" : " ");
    for (const variant &v : variants) printf(" %8.1f", rate_of(v, p, work));
    for (const variant &v : group_variants)
        if (has_groups()) printf(" %8.1f", rate_of(v, p, work));
    printf("\n");
    fflush(stdout);
}

static void time_all() {
    enum { TOKENS = 4096, WORDS = 50257 };
    printf("\nTFLOP/s, f32 results; tiles as in this file:\n%-27s", "rows x depth x columns");
    for (size_t i = 0; i < warps.count; i++) printf(" %8zu", i);
    for (size_t i = 0; has_groups() && i < groups.count; i++) printf("  group %zu", i);
    printf("\n");
    static const int64_t layers[][2] = { { 768, 2304 }, { 768, 768 }, { 768, 3072 }, { 3072, 768 } };
    for (const int64_t(&w)[2] : layers) {
        time_form({ TOKENS, w[1], w[0], false, false, DTYPE_BF16 }, false);
        time_form({ TOKENS, w[0], w[1], false, true, DTYPE_BF16 }, false);
        time_form({ w[0], w[1], TOKENS, true, false, DTYPE_BF16 }, true);
    }
    time_form({ TOKENS, WORDS, 768, false, true, DTYPE_BF16 }, false);
    time_form({ TOKENS, 768, WORDS, false, false, DTYPE_BF16 }, false);
    time_form({ WORDS, 768, TOKENS, true, false, DTYPE_BF16 }, true);
    time_form({ 1, 3072, 768, false, true, DTYPE_BF16 }, false);
    time_form({ 32, 3072, 768, false, true, DTYPE_BF16 }, false);
    time_form({ 8192, 8192, 8192, false, false, DTYPE_BF16 }, false);
}

static void time_floats(int64_t rows, int64_t columns, int64_t depth, bool over_rows) {
    floats p = open_floats(rows, columns, depth, over_rows);
    double work = 2.0 * (double)rows * (double)columns * (double)depth;
    printf("%6lld x %6lld x %6lld %s ", (long long)rows, (long long)depth, (long long)columns,
           over_rows ? "tn" : "nt");
    for (const auto &v : float_variants) {
        if (!has_floats(v.groups)) continue;
        double best = 1e9;
        for (int round = 0, launches = 1; round < 4; round++) {
            double began = seconds_now();
            gpu->begin(gpu);
            for (int i = 0; i < launches; i++) v.run(p);
            gpu->end(gpu);
            double each = (seconds_now() - began) / launches;
            if (round) best = fmin(best, each);
            launches = each > 0.02 ? 1 : (int)(0.02 / each) + 1;
        }
        printf(" %8.1f", 1e-12 * work / best);
    }
    printf("\n");
    fflush(stdout);
}

static void time_all_floats() {
    enum { TOKENS = 4096 };
    printf("\nfloats of 8 bits, their products alone: TFLOP/s in %s\n",
           has_groups() ? "group_large, group_small" : "tensor_large, tensor_small");
    static const int64_t layers[][2] = { { 768, 2304 }, { 768, 768 }, { 768, 3072 }, { 3072, 768 } };
    for (const int64_t(&w)[2] : layers)
        time_floats(TOKENS, w[1], w[0], false), time_floats(w[0], w[1], TOKENS, true);
    time_floats(8192, 8192, 8192, false), time_floats(8192, 8192, 8192, true);
}

int main(int count, char **arguments) {
    if (count < 2 || count > 3) die("usage: bench-gpu-tensor DEVICE [seconds]");
    bool timed = count == 3;
    if (device_find(arguments[1], &gpu) != STATUS_OK) die(status_message());
    if (!gpu->apart) die("this device is no GPU");
    if (gpu->open(gpu, &pool, timed ? 1600ull << 20 : 16 << 20) != STATUS_OK) die(status_message());
    if (gpu->capability < GPU_MMA_LEAST) die("this GPU has none of these instructions");
    check_instructions<gpu_bf16, false, false>(DTYPE_BF16),
        check_instructions<gpu_bf16, true, true>(DTYPE_BF16);
    check_instructions<gpu_f16, false, true>(DTYPE_F16), check_instructions<gpu_f16, true, false>(DTYPE_F16);
    check_codes();
    if (has_floats(false)) check_floats<gpu_e4m3>(FP8_E4M3), check_floats<gpu_e5m2>(FP8_E5M2);
    check_numbers();
    check_eights();
    if (wrong) printf("tensor cores: instructions are wrong\n");
    check_tiles(warps);
    if (has_groups()) check_groups(), check_tiles(groups);
    check_float_tiles();
    if (!wrong)
        printf("tensor cores: instructions, and %zu tiles: right\n",
               warps.count + (has_groups() ? groups.count : 0));
    if (!has_groups() && gpu->capability == 90)
        printf("tensor cores: this build has no code for 90a: groups of warps were left out\n");
    if (timed) time_all();
    if (timed && (has_floats(false) || has_groups())) time_all_floats();
    if (gpu->failed && gpu->failed(gpu) != STATUS_OK) die(status_message());
    gpu->close(gpu, &pool);
    return wrong > 0;
}
