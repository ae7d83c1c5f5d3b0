/* Products of floats of 8 bits on tensor cores (mma.sync), by the kernel of matmul_tensor_cuda.h.
 *
 * Along a row scales change every FP8_TILE depths, and so do a weight's. So codes are multiplied as they are
 * (capabilities 8.9, 9.0, 10.0 and 12.0), each FP8_TILE depths from 0, and a fused multiply-add takes the two
 * scales' product with them onto the sum: a power of 2, so rounding is the addition's alone. What accumulates
 * between two such additions are four mma, of whose sums units for 8 bits may keep some 14 bits (mma.h).
 * Where the product of two scales is beyond f32, or either is NaN, so are the sums.
 *
 * Over rows, for the gradient of a weight, scales change from depth to depth: codes are widened to the bf16
 * that they stand for, exactly, on their way into shared memory, and multiplied as those (8.0 and later).
 * This has the bits of matmul_tensor on the same numbers, with slices of MATMUL_SLICE depths.
 *
 * What bounds it, reckoned: along rows the tensor cores where these have units for 8 bits, at twice the rate
 * of 16: a tile reads as many bytes of shared memory for an mma. On 9.0 six conversions for each mma of f16
 * stand beside it. Over rows the widening, some six instructions a code, beside half an mma of bf16 for each
 * thirty-two. */
#pragma once

#include "ops/matmul/matmul_tensor_cuda.h"
#include "ops/matmul_fp8/matmul_fp8_cuda.h"

extern "C" {
#include "base/least.h"
}

/* ---- along rows ---- */

/* The factors of a slice: of a, by row and tile; of the weight, by square. T: a's type. */
template <class T>
struct matmul_fp8_numbers {
    typedef T number;
    enum { BYTES = 1, SLICE = FP8_TILE, IS_HERE = GPU_HAS_MMA_FP8 };
    const uint8_t *a, *b;
    int64_t rows, columns, blocks; /* blocks: of a row */
    int64_t b_by_column, b_by_slice;
    bool fours; /* four scales of a row, from a multiple of four on, are aligned, and none is outside */

    GPU_MEMBER void multiply(float (&d)[4], const uint32_t (&x)[4], const uint32_t (&y)[2]) {
#if GPU_HAS_MMA_FP8
        gpu_mma(T(), d, x, y);
#endif
    }

    __device__ __forceinline__ const uint8_t *scales_at(int64_t row, int64_t slice) const {
        return a + (row < rows ? row : rows - 1) * blocks + slice;
    }
    /* A row's scales of four slices, the first in the lowest byte; else the four lanes that have the row have
     * one each, */
    __device__ __forceinline__ uint32_t take(int64_t row, int64_t slice) const {
        const uint8_t *at = scales_at(row, slice);
        if (fours) return *GPU_WIDE(uint32_t, (void *)at);
        const int k = (int)threadIdx.x % 4;
        return slice + k < blocks ? at[k] : 0;
    }
    /* which become that. */
    __device__ __forceinline__ uint32_t gathered(uint32_t taken) const {
        if (fours) return taken;
        taken <<= (int)threadIdx.x % 4 * 8;
        taken |= __shfl_xor_sync(0xffffffffu, taken, 1);
        return taken | __shfl_xor_sync(0xffffffffu, taken, 2);
    }
    /* The same by a thread that has the row alone. */
    __device__ __forceinline__ uint32_t take_all(int64_t row, int64_t slice) const {
        const uint8_t *at = scales_at(row, slice);
        if (fours) return *GPU_WIDE(uint32_t, (void *)at);
        uint32_t word = 0;
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (slice + k < blocks) word |= (uint32_t)at[k] << 8 * k;
        return word;
    }

    /* Scales of ROWS, eight apart, and of one square of columns. A row's are read for four slices at a time:
     * neighbours are in one sector. */
    template <int ROWS>
    struct scales {
        matmul_fp8_numbers of;
        const uint8_t *squares;
        int64_t row;
        uint32_t four[ROWS];
        uint8_t square;

        __device__ __forceinline__ void open(const matmul_fp8_numbers &n, int64_t first, int64_t column) {
            of = n, row = first;
            square = 0;
#pragma unroll
            for (int h = 0; h < ROWS; h++) four[h] = 0;
            squares = n.b + (column < n.columns ? column : n.columns - 1) / FP8_TILE * n.b_by_column;
        }
        __device__ __forceinline__ void begin(int slice) { square = squares[slice * of.b_by_slice]; }
        __device__ __forceinline__ float factor(int slice, int h) const {
            return fp8_scale_value((uint8_t)(four[h] >> slice % 4 * 8)) * fp8_scale_value(square);
        }
    };

    template <class S>
    struct sums : scales<2 * S::FRAGMENTS_DOWN> {
        enum { HALVES = 2 * S::FRAGMENTS_DOWN };
        typedef scales<HALVES> own;
        static_assert(FP8_TILE % (int)S::WARP_COLUMNS == 0, "a warp's columns have one scale");
        __device__ __forceinline__ void open(const matmul_fp8_numbers &n, int64_t first, int64_t column) {
            own::open(n, first + (int)threadIdx.x % GPU_WARP / 4, column);
        }
        __device__ __forceinline__ void begin(int slice) {
            own::begin(slice);
            if (slice % 4) return;
#pragma unroll
            for (int h = 0; h < HALVES; h++) own::four[h] = own::of.take(own::row + 8 * h, slice);
        }
        __device__ __forceinline__ void end(int slice, const tensor_sums<S> &part, tensor_sums<S> &sum) {
            float factor[HALVES];
#pragma unroll
            for (int h = 0; h < HALVES; h++) {
                if (slice % 4 == 0) own::four[h] = own::of.gathered(own::four[h]);
                factor[h] = own::factor(slice, h);
            }
            tensor_each_sum<S>([&](int i, int j, int k) {
                sum[i][j][k] = fmaf(part[i][j][k], factor[2 * i + k / 2], sum[i][j][k]);
            });
        }
    };

    /* Of a thread whose sums are a row's, in columns of one square. */
    struct line : scales<1> {
        float by;
        __device__ __forceinline__ void begin(int slice) {
            scales<1>::begin(slice);
            if (slice % 4 == 0) scales<1>::four[0] = scales<1>::of.take_all(scales<1>::row, slice);
            by = scales<1>::factor(slice, 0);
        }
        __device__ __forceinline__ float onto(float sum, float part) const { return fmaf(part, by, sum); }
    };
};

/* ---- over rows ---- */

/* Codes as they lie: rows of `lines` are depths. */
struct matmul_fp8_lines {
    const uint8_t *codes, *scales;
    int64_t lines, blocks; /* of a row: codes, scales */
    int shift;             /* as matmul_fp8_widened has it; codes that are no numbers */
    float up;              /* stand where the scale is NaN */
    bool eights;           /* eight codes, from a multiple of eight on, are aligned, and none is outside */
};

template <class B, bool CROSSED, int DEPTHS, int BYTES>
struct matmul_fp8_widener {
    static_assert(CROSSED && BYTES == 2 && FP8_TILE % (int)B::WIDE == 0, "a stage has one scale of a row");
    const uint8_t *at, *scale_at; /* of this thread's first eight, in the next stage */
    matmul_fp8_lines of;
    int lines_left;
    uint32_t read[B::EACH][2];
    uint8_t scale[B::PASSES]; /* of its rows */

    __device__ __forceinline__ void open(const matmul_fp8_lines &o, int64_t line) {
        int64_t left = o.lines - line;
        of = o, lines_left = left < (1 << 20) ? (int)left : 1 << 20;
        at = o.codes + B::row_of(0) * o.lines + line + B::eight_of(0) * 8;
        scale_at = o.scales + B::row_of(0) * o.blocks + line / FP8_TILE;
#pragma unroll
        for (int n = 0; n < B::PASSES; n++) scale[n] = 127;
    }
    __device__ __forceinline__ int count_of(int n, int depths_left) const {
        return B::fills() ? B::inside(n, depths_left, lines_left * 2) / 2 : 0;
    }
    __device__ __forceinline__ void begin(uint16_t *, int depths_left) {
#pragma unroll
        for (int n = 0; n < B::PASSES; n++)
            scale[n] = count_of(n, depths_left) > 0 ? scale_at[n * B::PASS * of.blocks] : 127;
#pragma unroll
        for (int n = 0; n < B::EACH; n++) {
            int count = count_of(n, depths_left);
            const uint8_t *from = at + n % B::PASSES * B::PASS * of.lines + n / B::PASSES * B::GROUP * 8;
            read[n][0] = read[n][1] = 0;
            if (of.eights && count > 0) {
                uint64_t eight = *GPU_WIDE(uint64_t, (void *)from);
                read[n][0] = (uint32_t)eight, read[n][1] = (uint32_t)(eight >> 32);
            } else {
#pragma unroll
                for (int k = 0; k < 8; k++)
                    if (k < count) read[n][k / 4] |= (uint32_t)from[k] << k % 4 * 8;
            }
        }
    }
    __device__ __forceinline__ void finish(uint16_t *buffer, int) const {
        if (!B::fills()) return;
#pragma unroll
        for (int n = 0; n < B::EACH; n++) {
            float unit = fp8_scale_value(scale[n % B::PASSES]);
            uint32_t w[4];
#pragma unroll
            for (int k = 0; k < 4; k++) {
                uint32_t two = read[n][k / 2] >> k % 2 * 16;
                uint32_t low = half_bits(matmul_fp8_widened(two, of.shift, of.up, unit));
                uint32_t high = half_bits(matmul_fp8_widened(two >> 8, of.shift, of.up, unit));
                w[k] = low >> 16 | (high & 0xffff0000u);
            }
            gpu_set16(buffer + B::place(B::row_of(n), B::eight_of(n)), w);
        }
    }
    __device__ __forceinline__ void next() { at += DEPTHS * of.lines, scale_at += DEPTHS * of.blocks; }
};

struct matmul_fp8_widens {
    typedef matmul_fp8_lines operand;
    enum { ASIDE = false };
    template <class B, bool CROSSED, int DEPTHS, int BYTES>
    using filler = matmul_fp8_widener<B, CROSSED, DEPTHS, BYTES>;
};

/* ---- calls ---- */

/* A weight's codes in scratch, as lines of depths that begin at 16 bytes, and its scales behind them. */
struct matmul_fp8_scratch {
    int64_t stride;
    uint64_t scales, all;
};
static inline matmul_fp8_scratch matmul_fp8_scratch_of(const op_call *c, const matmul_fp8_sizes &s) {
    enum { COPY = 16, LINE = 64 };
    int64_t stride = divide_up(s.depth, COPY) * COPY, codes = divide_up(s.columns * stride, LINE) * LINE;
    int64_t squares = fp8_blocks(s.columns) * fp8_blocks(s.depth);
    if (op_in(c, MATMUL_FP8_B)->dtype == DTYPE_U8) return { 0, 0, 0 };
    return { stride, (uint64_t)codes, (uint64_t)(codes + divide_up(squares, LINE) * LINE) };
}

static inline uint64_t matmul_fp8_tensor_scratch(const op_call *c, int) {
    return matmul_fp8_scratch_of(c, matmul_fp8_sizes_here(c)).all;
}

/* BY: what multiplies (matmul_fp8_by_warps). T: a's type. */
template <class BY, class T>
static void matmul_fp8_run_along(const op_call *c, const matmul_fp8_sizes &s) {
    const shape *w = &op_in(c, MATMUL_FP8_B)->shape;
    bool turned = !matmul_fp8_of(c)->tb;
    matmul_fp8_scratch place = matmul_fp8_scratch_of(c, s);
    uint8_t *codes = (uint8_t *)c->scratch, *squares = codes + place.scales;
    int64_t rows = shape_rows(w), width = shape_last(w), blocks = fp8_blocks(s.depth);
    matmul_fp8_weight weight = {
        cuda_in(c, MATMUL_FP8_B), rows, width, codes, squares, place.stride, FP8_E4M3
    };
    if (turned)
        matmul_fp8_round<true>(weight);
    else
        matmul_fp8_round<false>(weight);
    const uint8_t *scales = (const uint8_t *)op_in(c, MATMUL_FP8_A_SCALES)->data;
    matmul_fp8_numbers<T> numbers = { scales,
                                      squares,
                                      s.rows,
                                      s.columns,
                                      blocks,
                                      turned ? 1 : fp8_blocks(width),
                                      turned ? fp8_blocks(width) : 1,
                                      blocks % 4 == 0 && (uintptr_t)scales % 4 == 0 };
    tensor_product<tensor_operand> p = {
        { op_in(c, MATMUL_FP8_A)->data, s.depth, s.rows }, { codes, place.stride, s.columns }, s.depth, false
    };
    BY::along(p, numbers, matmul_fp8_end(c, s));
}

static inline matmul_fp8_lines matmul_fp8_lines_of(const op_call *c, uint32_t codes, uint32_t scales,
                                                   int32_t form) {
    const op_arg *x = op_in(c, codes);
    int64_t width = shape_last(&x->shape);
    return { (const uint8_t *)x->data,
             (const uint8_t *)op_in(c, scales)->data,
             width,
             fp8_blocks(width),
             matmul_fp8_shift((fp8_form)form),
             matmul_fp8_up((fp8_form)form),
             width % 8 == 0 && (uintptr_t)x->data % 8 == 0 };
}

template <class BY>
static void matmul_fp8_run_over_rows(const op_call *c, const matmul_fp8_sizes &s) {
    const matmul_fp8_attributes *t = matmul_fp8_of(c);
    tensor_product<matmul_fp8_lines> p = {
        matmul_fp8_lines_of(c, MATMUL_FP8_A, MATMUL_FP8_A_SCALES, t->a_form),
        matmul_fp8_lines_of(c, MATMUL_FP8_B, MATMUL_FP8_B_SCALES, t->b_form), s.depth,
        op_in(c, MATMUL_FP8_ACCUMULATOR)->data != NULL
    };
    BY::over_rows(p, tensor_halves<gpu_bf16>{}, matmul_fp8_end(c, s));
}

template <class BY>
static void matmul_fp8_run(const op_call *c) {
    matmul_fp8_sizes s = matmul_fp8_sizes_here(c);
    if (s.rows <= 0 || s.columns <= 0) return;
    if (matmul_fp8_of(c)->ta)
        matmul_fp8_run_over_rows<BY>(c, s);
    else if (matmul_fp8_of(c)->a_form == FP8_E4M3)
        matmul_fp8_run_along<BY, gpu_e4m3>(c, s);
    else
        matmul_fp8_run_along<BY, gpu_e5m2>(c, s);
}

/* By mma.sync. */
struct matmul_fp8_by_warps {
    template <class P, class N, class E>
    static void along(const P &p, const N &numbers, const E &e) {
        tensor_by_warps::choose<false, false>(p, numbers, e);
    }
    template <class P, class N, class E>
    static void over_rows(const P &p, const N &numbers, const E &e) {
        tensor_sized<matmul_fp8_widens, true, true>(p, numbers, e);
    }
};
