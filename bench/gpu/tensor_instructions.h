/* What bench/gpu/tensor.cu checks of single instructions: of tensor cores, by warps, by groups of warps and
 * in tensor memory, and of the copy engine; and what all its checks have: the GPU, a pool of its memory, and
 * how they say what is wrong. */
#pragma once

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/matmul/matmul_tmem_cuda.h"
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

/* ---- the copy engine ---- */

/* A tile of 64 x 64 words, as it comes into shared memory. */
__global__ void __launch_bounds__(GPU_GROUP)
    one_bulk(const __grid_constant__ gpu_bulk_map map, int x, int y, uint16_t *to) {
#if GPU_HAS_GROUPS || GPU_HAS_TMEM
    GPU_SHARED(unsigned char, all);
    uint16_t *tile = (uint16_t *)gpu_group_aligned(all);
    gpu_barrier *b = (gpu_barrier *)(tile + GROUP_TILE);
    if (threadIdx.x == 0) gpu_barrier_make(b, 1);
    gpu_group_show();
    __syncthreads();
    if (threadIdx.x == 0) {
        gpu_barrier_expect(b, GROUP_TILE * 2);
        gpu_bulk_copy(tile, &map, x, y, b);
    }
    gpu_barrier_wait(b, 0);
    for (int i = (int)threadIdx.x; i < GROUP_TILE; i += GPU_GROUP) to[i] = tile[i];
#endif
}

/* Swizzled as products want it, zeros outside of the matrix: of its first tile, and of its last. */
static void check_bulk() {
    enum { WIDE = 100, HIGH = 90, STRIDE = 104 };
    static uint16_t x[HIGH * STRIDE], tile[GROUP_TILE];
    for (uint16_t &n : x) n = (uint16_t)(1 + draw() % 60000);
    taken = 0;
    uint16_t *at_x = (uint16_t *)take(sizeof x), *at_tile = (uint16_t *)take(sizeof tile);
    gpu->put(gpu, at_x, x, sizeof x);
    gpu_bulk_map map;
    if (!gpu_bulk_map_make(&map, { at_x, WIDE, HIGH, STRIDE * 2, 2, WORDS })) {
        say_wrong("the driver makes no map of a matrix", "the copy engine");
        return;
    }
    for (int first = 0; first <= WORDS; first += WORDS) {
        gpu->begin(gpu);
        GPU_LAUNCH((one_bulk), 1, GPU_GROUP, 2 * GROUP_TILE + GPU_GROUP_ALIGNED, map, first, first, at_tile);
        gpu->end(gpu);
        gpu->get(gpu, tile, at_tile, sizeof tile);
        for (int row = 0; row < WORDS; row++)
            for (int i = 0; i < WORDS; i++) {
                bool inside = first + row < HIGH && first + i < WIDE;
                uint16_t is = tile[row * WORDS + (i / 8 ^ row % 8) * 8 + i % 8];
                if (is != (inside ? x[(first + row) * STRIDE + first + i] : 0))
                    say_wrong("a tile in shared memory", "the copy engine");
            }
    }
}

/* ---- tensor memory ---- */

/* d = a b of 128 x 64, 64 words deep, by a block of four warps, of which the first takes tensor memory, and
 * its first thread multiplies: four instructions. */
template <class T, bool A_CROSSED, bool B_CROSSED>
__global__ void __launch_bounds__(GPU_GROUP) one_in_tmem(const uint16_t *a, const uint16_t *b, float *d) {
#if GPU_HAS_TMEM
    enum { COLUMNS = 64 };
    typedef tmem_buffer<GPU_TMEM_LINES, WORDS, A_CROSSED, GPU_GROUP> of_a;
    typedef tmem_buffer<COLUMNS, WORDS, B_CROSSED, GPU_GROUP> of_b;
    GPU_SHARED(unsigned char, all);
    uint16_t *x = (uint16_t *)gpu_group_aligned(all), *y = x + 2 * GROUP_TILE;
    gpu_barrier *done = (gpu_barrier *)(y + GROUP_TILE);
    uint32_t *address = (uint32_t *)(done + 1);
    const int warp = (int)threadIdx.x / GPU_WARP;
    for (int n = 0; n < of_a::EACH; n++)
        gpu_copy16(x + of_a::place(of_a::row_of(n), of_a::eight_of(n)),
                   a + of_a::row_of(n) * of_a::WIDE + of_a::eight_of(n) * 8, 16);
    for (int n = 0; n < of_b::EACH; n++)
        gpu_copy16(y + of_b::place(of_b::row_of(n), of_b::eight_of(n)),
                   b + of_b::row_of(n) * of_b::WIDE + of_b::eight_of(n) * 8, 16);
    gpu_copies_commit();
    gpu_copies_wait<0>();
    if (threadIdx.x == 0) gpu_barrier_make(done, 1);
    if (warp == 0) gpu_tmem_take<COLUMNS>(address);
    gpu_tmem_before();
    gpu_group_show();
    __syncthreads();
    gpu_tmem_after();
    const uint32_t memory = *address, form = gpu_tmem_form<T, COLUMNS, A_CROSSED, B_CROSSED>();
    if (threadIdx.x == 0) {
#pragma unroll
        for (int k = 0; k < 4; k++)
            gpu_tmem_mma<2>(memory, gpu_group_further(of_a::operand(x), k * of_a::STEP),
                            gpu_group_further(of_b::operand(y), k * of_b::STEP), form, k > 0);
        gpu_tmem_commit(done);
    }
    __syncwarp();
    gpu_barrier_wait(done, 0);
    gpu_tmem_after();
    for (int c = 0; c < COLUMNS; c += GPU_TMEM_READ) {
        float sum[GPU_TMEM_READ];
        gpu_tmem_read(sum, memory + ((uint32_t)(warp * GPU_WARP) << 16) + (uint32_t)c);
        gpu_tmem_wait(sum);
#pragma unroll
        for (int i = 0; i < GPU_TMEM_READ; i++) d[(int)threadIdx.x * COLUMNS + c + i] = sum[i];
    }
    gpu_tmem_before();
    __syncthreads();
    gpu_tmem_after();
    if (warp == 0) gpu_tmem_give<COLUMNS>(memory);
#endif
}

template <class T, bool A_CROSSED, bool B_CROSSED>
static void check_one_in_tmem(const char *name, dtype type) {
    enum { LINES = GPU_TMEM_LINES, COLUMNS = 64 };
    static uint16_t a[LINES * WORDS], b[COLUMNS * WORDS];
    static float d[LINES * COLUMNS];
    for (uint16_t &n : a) n = whole_number(type);
    for (uint16_t &n : b) n = whole_number(type);
    taken = 0;
    uint16_t *at_a = (uint16_t *)take(sizeof a), *at_b = (uint16_t *)take(sizeof b);
    float *at_d = (float *)take(sizeof d);
    gpu->put(gpu, at_a, a, sizeof a), gpu->put(gpu, at_b, b, sizeof b);
    gpu->begin(gpu);
    GPU_LAUNCH((one_in_tmem<T, A_CROSSED, B_CROSSED>), 1, GPU_GROUP, sizeof a + sizeof b + GPU_GROUP_ALIGNED,
               at_a, at_b, at_d);
    gpu->end(gpu);
    gpu->get(gpu, d, at_d, sizeof d);
    for (int i = 0; i < LINES; i++)
        for (int j = 0; j < COLUMNS; j++) {
            float sum = 0;
            for (int k = 0; k < WORDS; k++)
                sum += wide(type, a[A_CROSSED ? k * LINES + i : i * WORDS + k]) *
                       wide(type, b[B_CROSSED ? k * COLUMNS + j : j * WORDS + k]);
            if (sum != d[i * COLUMNS + j]) say_wrong("products in tensor memory", name);
        }
}

static void check_tmem() {
    check_one_in_tmem<gpu_bf16, true, false>("bf16, a across", DTYPE_BF16);
    check_one_in_tmem<gpu_bf16, false, true>("bf16, b across", DTYPE_BF16);
    check_one_in_tmem<gpu_f16, true, true>("f16, across", DTYPE_F16);
    check_one_in_tmem<gpu_f16, false, false>("f16, along", DTYPE_F16);
}
