/* Codes on their way into the plain product's steps (matmul_tile_cuda.h), so that what a request touches is
 * used. A step has eight or sixteen depths of a line, and a sector of memory has 32 codes.
 *
 * Along the depth a thread reads sixteen codes of a line at once, those of four or two steps. They wait in
 * registers as they lie, as many as a step's numbers would take, and become numbers step by step. A line's
 * scales are FP8_TILE depths apart, each a byte of a sector: so the lanes of a warp read those of eight tiles
 * in one request, four lines of eight, and hand them out when their tile begins.
 *
 * Across it a warp reads the lines of one depth, whose codes are neighbours and have one scale.
 *
 * Depths that are not there have -0 in one operand and 0 in the other, as in other readers: only in a step
 * whose first depth is there, so their scale is that of a depth that is there. */
#pragma once

#include "ops/matmul_fp8/matmul_fp8_cuda.h"

/* Of a matrix as it lies. ROWS_EACH rows share their scales. */
template <int ROWS_EACH>
struct matmul_fp8_matrix {
    const uint8_t *codes, *scales;
    int64_t width, blocks; /* of a row: numbers, scales */
    int shift;             /* as matmul_fp8_widened has it */
    float up;
    uint32_t special; /* no numbers begin here */

    __device__ __forceinline__ float number(uint32_t code, float scale) const {
        uint32_t size = code & 0x7fu, none = size == 0x7c ? 0x7f800000u : 0x7fc00000u;
        float x = matmul_fp8_widened(code, shift, up, 1);
        return (size < special ? x : half_float(none | (code & 0x80u) << 24)) * scale;
    }
};
template <int ROWS_EACH>
struct matmul_fp8_along : matmul_fp8_matrix<ROWS_EACH> {}; /* rows are lines; sixteens of codes are aligned */
template <int ROWS_EACH>
struct matmul_fp8_across : matmul_fp8_matrix<ROWS_EACH> {}; /* rows are depths; pairs of codes are aligned */

template <class T, int LINES, int ROWS_EACH>
struct matmul_reader<T, LINES, matmul_fp8_along<ROWS_EACH>> {
    typedef matmul_fp8_along<ROWS_EACH> operand;
    enum {
        PITCH = LINES + 4,
        CHUNK = 32, /* depths that two threads next to each other read of a line */
        WORDS = CHUNK / 8,
        WORDS_IN_STEP = T::DEPTHS / 8,
        TILES = 8, /* whose scales are read at once */
        WARP_LINES = GPU_WARP / 2,
        LINES_AT_ONCE = GPU_WARP / TILES
    };
    static_assert(T::THREADS == 2 * LINES && CHUNK % T::DEPTHS == 0, "a thread has sixteen codes");
    static_assert(WARP_LINES == 4 * LINES_AT_ONCE, "a thread has four scales");
    static_assert(ROWS_EACH == 1 || ROWS_EACH % LINES == 0, "lines have scales of their own, or one");
    const uint8_t *at;           /* of the thread's next sixteen codes */
    const uint8_t *scales;       /* of the first line whose scale the thread reads */
    int left, scales_left;       /* lines from the thread's on, and from that line on */
    uint32_t words[WORDS], four; /* four: scales, of lines LINES_AT_ONCE apart */
    float scale;                 /* of the thread's line, now */

    __device__ __forceinline__ void begin(const operand &o, int64_t first, int64_t last, int64_t) {
        const int t = (int)threadIdx.x, line = t / 2;
        const int of_scale = t / GPU_WARP * WARP_LINES + cuda_lane() / TILES;
        left = (int)(last - first < LINES ? last - first : LINES) - line;
        scales_left = left + line - of_scale;
        at = o.codes + (first + line) * o.width + t % 2 * (CHUNK / 2);
        scales = o.scales + (first + of_scale) / ROWS_EACH * o.blocks;
        four = 0, scale = 0;
    }

    __device__ __forceinline__ void fetch_scales(const operand &o, int64_t depth) {
        const int64_t tile = depth / FP8_TILE + cuda_lane() % TILES;
        const int64_t step = ROWS_EACH == 1 ? LINES_AT_ONCE * o.blocks : 0;
        four = 0;
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (tile < o.blocks && k * LINES_AT_ONCE < scales_left)
                four |= (uint32_t)scales[k * step + tile] << 8 * k;
    }
    __device__ __forceinline__ void take_scale(int64_t depth) {
        const int line = cuda_lane() / 2, tile = (int)(depth / FP8_TILE % TILES);
        uint32_t got = __shfl_sync(0xffffffffu, four, line % LINES_AT_ONCE * TILES + tile);
        scale = fp8_scale_value((uint8_t)(got >> line / LINES_AT_ONCE * 8));
    }

    /* Every other word of the chunk, from the first or from the second on, instead of four neighbours. */
    __device__ __forceinline__ void share() {
        const bool second = threadIdx.x % 2 != 0;
        uint32_t low = __shfl_xor_sync(0xffffffffu, second ? words[0] : words[1], 1);
        uint32_t high = __shfl_xor_sync(0xffffffffu, second ? words[2] : words[3], 1);
        uint32_t own_low = second ? words[1] : words[0], own_high = second ? words[3] : words[2];
        words[0] = second ? low : own_low, words[1] = second ? high : own_high;
        words[2] = second ? own_low : low, words[3] = second ? own_high : high;
    }

    __device__ __forceinline__ void fetch(const operand &o, int64_t depth, int64_t depths, bool negative) {
        if (depth % (TILES * FP8_TILE) == 0) fetch_scales(o, depth);
        if (depth % CHUNK) return;
        const bool there = depth + (int)threadIdx.x % 2 * (CHUNK / 2) < depths;
        float raw[WORDS] = { 0, 0, 0, 0 };
        if (there && left > 0) gpu_get4((const float *)(const void *)at, raw);
#pragma unroll
        for (int k = 0; k < WORDS; k++) words[k] = !there && negative ? 0x80808080u : half_bits(raw[k]);
        at += CHUNK;
    }
    __device__ __forceinline__ void put(const operand &o, int64_t depth, int64_t, bool, float *to) {
        if (depth % FP8_TILE == 0) take_scale(depth);
        if (depth % CHUNK == 0) share();
        to += (int)threadIdx.x % 2 * 4 * PITCH + (int)threadIdx.x / 2;
#pragma unroll
        for (int w = 0; w < WORDS_IN_STEP; w++)
#pragma unroll
            for (int k = 0; k < 4; k++) to[(8 * w + k) * PITCH] = o.number(words[w] >> 8 * k, scale);
#pragma unroll
        for (int w = 0; w + WORDS_IN_STEP < WORDS; w++) words[w] = words[w + WORDS_IN_STEP];
    }
};

template <class T, int LINES, int ROWS_EACH>
struct matmul_reader<T, LINES, matmul_fp8_across<ROWS_EACH>> {
    typedef matmul_fp8_across<ROWS_EACH> operand;
    enum {
        PITCH = LINES + 4,
        BESIDE = LINES / GPU_WARP, /* codes of a lane, one or two, */
        WARPS = T::THREADS / GPU_WARP,
        TIMES = T::DEPTHS / WARPS, /* so often, as many depths apart as there are warps */
        SCALES = ROWS_EACH == 1 ? TIMES : 1
    };
    static_assert(BESIDE == 1 || BESIDE == 2, "codes of a lane are read at once");
    static_assert(FP8_TILE % LINES == 0, "lines have one scale");
    static_assert(ROWS_EACH == 1 || ROWS_EACH == FP8_TILE, "a step's depths have their own scales, or one");
    const uint8_t *at, *scale_at; /* of the thread's first, in the next step */
    int left;                     /* lines from the thread's first on */
    uint32_t codes[TIMES];
    uint8_t scale[SCALES];

    GPU_MEMBER int warp() { return (int)threadIdx.x / GPU_WARP; }

    __device__ __forceinline__ void begin(const operand &o, int64_t first, int64_t last, int64_t) {
        const int line = cuda_lane() * BESIDE;
        left = (int)(last - first < LINES ? last - first : LINES) - line;
        at = o.codes + warp() * o.width + first + line;
        scale_at = o.scales + (ROWS_EACH == 1 ? warp() * o.blocks : 0) + first / FP8_TILE;
    }
    __device__ __forceinline__ void fetch_scales(const operand &o, int64_t depth, int64_t depths) {
        if (ROWS_EACH == 1) {
#pragma unroll
            for (int i = 0; i < TIMES; i++)
                scale[i % SCALES] =
                    depth + warp() + i * WARPS < depths ? scale_at[i * WARPS * o.blocks] : (uint8_t)127;
            scale_at += T::DEPTHS * o.blocks;
        } else if (depth % FP8_TILE == 0) {
            scale[0] = *scale_at;
            scale_at += o.blocks;
        }
    }
    __device__ __forceinline__ void fetch(const operand &o, int64_t depth, int64_t depths, bool negative) {
        fetch_scales(o, depth, depths);
#pragma unroll
        for (int i = 0; i < TIMES; i++) {
            const uint8_t *from = at + i * WARPS * o.width;
            const bool there = depth + warp() + i * WARPS < depths;
            codes[i] = negative ? 0x8080u : 0u;
            if (there && left > 0) codes[i] = BESIDE == 2 ? *GPU_WIDE(uint16_t, (void *)from) : *from;
        }
        at += T::DEPTHS * o.width;
    }
    __device__ __forceinline__ void put(const operand &o, int64_t, int64_t, bool, float *to) {
        to += warp() * PITCH + cuda_lane() * BESIDE;
#pragma unroll
        for (int i = 0; i < TIMES; i++, to += WARPS * PITCH) {
            float unit = fp8_scale_value(scale[i % SCALES]), x = o.number(codes[i], unit);
            if (BESIDE == 1)
                *to = x;
            else
                *GPU_WIDE(uint64_t, to) = half_bits(x) | (uint64_t)half_bits(o.number(codes[i] >> 8, unit))
                                                             << 32;
        }
    }
};
