/* A product's tile, made by a block of threads on GPUs of every kind, with the bits of the CPU's product
 * (matmul_kernel.h): slices of MATMUL_SLICE products from 0, each by one fused multiply-add, slice after
 * slice onto what was before. No bit depends on the tile.
 *
 *   A, B   float get(of_line(line), of_depth(depth)), where each of the two parts is found once for many
 *          numbers: a line is a row of op(a), or a column of op(b). `along`: neighbouring depths are
 *          neighbours in memory, else neighbouring lines; threads are laid out accordingly. A
 *          matmul_matrix is read by what it knows of its memory.
 *   E      float before(row, column); void end(row, column, sum); and of four columns at once, the first a
 *          multiple of four, before4 and end4, where `fours` says that all is aligned to that
 *
 * While a block multiplies DEPTHS of both operands, which stand in shared memory, the next are on their way
 * into registers; then they are put where those before stood, so a step has one barrier. Slices stand in
 * registers. The sums so far stand in shared memory, each where only its thread looks: registers for both
 * would leave a multiprocessor too few warps, and ends are loops and not as long as the tile is large.
 *
 * What bounds it: multiply-adds in f32, 128 a cycle of a multiprocessor, and beside them what brings operands
 * to registers: of a thread with 8 x 8 sums four reads of 16 bytes for 64 multiply-adds, of one with 4 x 4
 * two for 16, twice as many for each. */
#pragma once

#include <utility>

#include "ops/cuda.h"

enum { MATMUL_SLICE = 256 };

struct matmul_extent {
    int64_t rows, columns, depth;
};

/* ROWS x COLUMNS sums; a thread has DOWN x ACROSS of them, in squares of 4 x 4, HIGH * 4 rows and WIDE * 4
 * columns apart. BLOCKS at a time have registers on a multiprocessor. */
template <int ROWS_, int COLUMNS_, int DOWN_, int ACROSS_, int DEPTHS_, int BLOCKS_>
struct matmul_tile {
    enum {
        ROWS = ROWS_,
        COLUMNS = COLUMNS_,
        DOWN = DOWN_,
        ACROSS = ACROSS_,
        DEPTHS = DEPTHS_,
        BLOCKS = BLOCKS_,
        HIGH = ROWS / DOWN,
        WIDE = COLUMNS / ACROSS,
        THREADS = HIGH * WIDE,
        FOURS = DOWN * ACROSS / 4, /* of a thread's sums */
        STEP = DEPTHS * (ROWS + COLUMNS + 8),
        SHARED = (2 * STEP + ROWS * COLUMNS) * (int)sizeof(float)
    };
    static_assert(HIGH % 4 == 0 && WIDE % 8 == 0, "a warp has 4 x 8 threads");
    static_assert(MATMUL_SLICE % DEPTHS == 0, "a slice ends with a step");
    static_assert(SHARED <= 48 * 1024, "more has to be asked for");
};

typedef matmul_tile<128, 64, 8, 8, 8, 3> matmul_large;
typedef matmul_tile<64, 64, 8, 4, 8, 4> matmul_medium;
typedef matmul_tile<32, 32, 4, 4, 16, 8> matmul_small;

/* A matrix in memory. */
struct matmul_matrix {
    cuda_span x;
    int64_t by_line, by_depth; /* distances of elements; one of them is 1 */
    bool along;
    bool fours; /* fours of neighbours, from multiples of four on, are aligned, and none is partly outside */
    int64_t first; /* element; a multiple of four with `fours` */

    __device__ __forceinline__ int64_t of_line(int64_t line) const { return first + line * by_line; }
    __device__ __forceinline__ int64_t of_depth(int64_t depth) const { return depth * by_depth; }
    __device__ __forceinline__ float get(int64_t line, int64_t depth) const { return x.get(line + depth); }
    __device__ __forceinline__ int64_t bytes() const { return x.type == DTYPE_F32 ? 4 : 2; }
    __device__ __forceinline__ const char *address(int64_t line, int64_t depth) const {
        return (const char *)x.data + (of_line(line) + of_depth(depth)) * bytes();
    }

    /* A number as it lies, and four of them: a load, which nothing waits for before it is widened. Of 16 bits
     * there is one in a float, or two in each of the first two. */
    __device__ __forceinline__ void take(const char *at, float *raw) const {
        if (x.type == DTYPE_F32)
            *raw = *(const float *)at;
        else
            *raw = half_float(*(const uint16_t *)at);
    }
    __device__ __forceinline__ void take4(const char *at, float raw[4]) const {
        if (x.type == DTYPE_F32) {
            gpu_get4((const float *)at, raw);
            return;
        }
        uint64_t bits = *GPU_WIDE(uint64_t, (void *)at);
        raw[0] = half_float((uint32_t)bits), raw[1] = half_float((uint32_t)(bits >> 32));
    }
    /* Of 16 bits along the depth: do eights of neighbours, from multiples of eight on, lie in sixteen aligned
     * bytes, and is none partly outside? */
    __device__ __forceinline__ bool has_eights(int64_t depths) const {
        return along && fours && x.type != DTYPE_F32 && by_line % 8 == 0 && first % 8 == 0 &&
               depths % 8 == 0 && (uintptr_t)x.data % 16 == 0;
    }
    /* What take and take4 would have of -0 and of 0. */
    __device__ __forceinline__ float raw_zero(bool negative) const {
        return !negative ? 0.0f : x.type == DTYPE_F32 ? -0.0f : half_float(0x80008000u);
    }
    __device__ __forceinline__ float widen(uint32_t half) const {
        return x.type == DTYPE_BF16 ? half_from_bf16((uint16_t)half) : half_from_f16((uint16_t)half);
    }
    template <int EACH>
    __device__ __forceinline__ void widen(float raw[EACH]) const {
        if (x.type == DTYPE_F32) return;
#pragma unroll
        for (int i = 0; i < EACH; i += 4) {
            uint32_t low = half_bits(raw[i]), high = half_bits(raw[i + 1]);
            if (fours)
                raw[i] = widen(low), raw[i + 1] = widen(low >> 16), raw[i + 2] = widen(high),
                raw[i + 3] = widen(high >> 16);
            else
#pragma unroll
                for (int k = i; k < i + 4; k++) raw[k] = widen(half_bits(raw[k]));
        }
    }
};

/* Rows of `wide` numbers, one after the other. */
static inline matmul_matrix matmul_matrix_at(const cuda_span &x, int64_t wide, bool lines_are_columns) {
    bool fours = wide % 4 == 0 && cuda_fours(x);
    if (lines_are_columns) return { x, 1, wide, false, fours, 0 };
    return { x, wide, 1, true, fours, 0 };
}

static inline matmul_matrix matmul_matrix_of(const op_arg *x, bool lines_are_columns) {
    return matmul_matrix_at(cuda_span_of(x), shape_last(&x->shape), lines_are_columns);
}

/* ---- reading ---- */

/* A thread's part of a step's numbers of an operand, on the way from memory to shared memory, where they lie
 * by (depth, line). Its numbers, or fours of them, are so many lines or depths apart. */
template <class T, int LINES>
struct matmul_part {
    enum {
        EACH = LINES * T::DEPTHS / T::THREADS,
        PITCH = LINES + 4, /* depths one after the other begin at other banks */
        LINES_APART = T::THREADS / T::DEPTHS,
        DEPTHS_APART = T::THREADS / LINES
    };
    static_assert(EACH % 4 == 0 && T::THREADS % T::DEPTHS == 0 && T::THREADS % LINES == 0,
                  "all have as many");
    float x[EACH];
    int line, depth; /* of the first, in the step */

    __device__ __forceinline__ void begin(bool along, bool fours) {
        int t = (int)threadIdx.x;
        if (fours)
            line = along ? t / (T::DEPTHS / 4) : t % (LINES / 4) * 4,
            depth = along ? t % (T::DEPTHS / 4) * 4 : t / (LINES / 4);
        else
            line = along ? t / T::DEPTHS : t % LINES, depth = along ? t % T::DEPTHS : t / LINES;
#pragma unroll
        for (int i = 0; i < EACH; i++) x[i] = 0;
    }
    __device__ __forceinline__ void put(bool along, bool fours, float *to) const {
        to += depth * PITCH + line;
        if (fours && along) {
#pragma unroll
            for (int i = 0; i < EACH; i++) to[i % 4 * PITCH + i / 4 * 4 * LINES_APART] = x[i];
        } else if (fours) {
#pragma unroll
            for (int i = 0; i < EACH / 4; i++) gpu_set4(to + i * 4 * DEPTHS_APART * PITCH, x + 4 * i);
        } else if (along) {
#pragma unroll
            for (int i = 0; i < EACH; i++) to[i * LINES_APART] = x[i];
        } else {
#pragma unroll
            for (int i = 0; i < EACH; i++) to[i * DEPTHS_APART * PITCH] = x[i];
        }
    }
};

/* Steps of an operand, one after the other. Depths that are not there have -0 in one operand and 0 in the
 * other, whose product leaves every sum as it is. What lines have that are not there is in no sum that is
 * kept. */
template <class T, int LINES, class O>
struct matmul_reader {
    typedef decltype(std::declval<const O &>().of_line(0)) part_of_line;
    matmul_part<T, LINES> part;
    part_of_line lines[matmul_part<T, LINES>::EACH]; /* without `along` the first is that of all */

    __device__ __forceinline__ void begin(const O &o, int64_t first, int64_t last, int64_t) {
        part.begin(o.along, false);
#pragma unroll
        for (int i = 0; i < part.EACH; i++) {
            int64_t line = first + part.line + (o.along ? i * part.LINES_APART : 0);
            lines[i] = o.of_line(line < last ? line : last - 1);
        }
    }
    __device__ __forceinline__ void fetch(const O &, int64_t, int64_t, bool) {}
    __device__ __forceinline__ void put(const O &o, int64_t depth, int64_t depths, bool negative, float *to) {
        depth += part.depth;
        auto along = o.of_depth(depth < depths ? depth : depths - 1);
#pragma unroll
        for (int i = 0; i < part.EACH; i++) {
            int64_t d = o.along ? depth : depth + i * part.DEPTHS_APART;
            part.x[i] = negative ? -0.0f : 0.0f;
            if (d < depths) part.x[i] = o.along ? o.get(lines[i], along) : o.get(lines[0], o.of_depth(d));
        }
        part.put(o.along, false, to);
    }
};

/* A matrix goes by an address. Eight depths of 16 bits are half a sector of memory: where a step has no more,
 * those of two steps are read at once, sixteen bytes a thread, and stay in as many registers as a step in
 * f32.
 */
template <class T, int LINES>
struct matmul_reader<T, LINES, matmul_matrix> {
    matmul_part<T, LINES> part;
    const char *at; /* of the thread's first number of the next step */
    int left;       /* lines from the thread's first on */
    bool by_twos;   /* steps are read */
    enum { BY_TWOS = T::DEPTHS == 8 };

    __device__ __forceinline__ void begin(const matmul_matrix &o, int64_t first, int64_t last,
                                          int64_t depths) {
        part.begin(o.along, o.fours);
        by_twos = BY_TWOS && o.has_eights(depths);
        left = (int)(last - first < LINES ? last - first : LINES) - part.line;
        at = o.address(first + part.line, by_twos ? 2 * part.depth : part.depth);
    }

    /* Two threads next to each other have a line's sixteen depths, */
    __device__ __forceinline__ void fetch_two(const matmul_matrix &o, int64_t depth, int64_t depths,
                                              bool negative) {
        const bool inside = depth + 2 * part.depth < depths;
        const int64_t step = 4 * part.LINES_APART * o.by_line * 2;
        const char *p = at;
        at += 4 * T::DEPTHS;
#pragma unroll
        for (int i = 0; i < part.EACH / 4; i++, p += step) {
            if (!inside)
#pragma unroll
                for (int k = 0; k < 4; k++) part.x[4 * i + k] = o.raw_zero(negative);
            else if (i * 4 * part.LINES_APART < left)
                gpu_get4((const float *)p, part.x + 4 * i);
        }
    }
    /* eight each, and change the second four of the first one for the first four of the second: then both
     * have fours of this step and of the next. */
    __device__ __forceinline__ void share_two() {
        const bool is_second = part.depth != 0;
#pragma unroll
        for (int i = 0; i < part.EACH; i++) {
            if (i % 4 > 1) continue;
            float got = __shfl_xor_sync(0xffffffffu, is_second ? part.x[i] : part.x[i + 2], 1);
            part.x[i] = is_second ? got : part.x[i];
            part.x[i + 2] = is_second ? part.x[i + 2] : got;
        }
    }
    __device__ __forceinline__ void put_of_two(const matmul_matrix &o, bool second, float *to) {
        if (!second) share_two();
        to += part.depth * part.PITCH + part.line;
#pragma unroll
        for (int i = 0; i < part.EACH; i += 4, to += 4 * part.LINES_APART) {
            uint32_t low = half_bits(second ? part.x[i + 2] : part.x[i]),
                     high = half_bits(second ? part.x[i + 3] : part.x[i + 1]);
            to[0] = o.widen(low), to[part.PITCH] = o.widen(low >> 16);
            to[2 * part.PITCH] = o.widen(high), to[3 * part.PITCH] = o.widen(high >> 16);
        }
    }

    __device__ __forceinline__ void fetch(const matmul_matrix &o, int64_t depth, int64_t depths,
                                          bool negative) {
        if (by_twos) {
            if (depth % (2 * T::DEPTHS) == 0) fetch_two(o, depth, depths, negative);
            return;
        }
        bool whole = depth + T::DEPTHS <= depths;
        int rest = whole ? (int)T::DEPTHS : (int)(depths - depth) - part.depth, apart = o.fours ? 4 : 1;
        int by_line = o.along ? apart * part.LINES_APART : 0,
            by_depth = o.along ? 0 : apart * part.DEPTHS_APART;
        int64_t step = (by_line * o.by_line + by_depth * o.by_depth) * o.bytes();
        const char *p = at;
        if (!whole) {
#pragma unroll
            for (int i = 0; i < part.EACH; i++) part.x[i] = o.raw_zero(negative);
        }
        if (o.fours) {
#pragma unroll
            for (int i = 0; i < part.EACH / 4; i++, p += step)
                if (i * by_line < left && i * by_depth < rest) o.take4(p, part.x + 4 * i);
        } else {
#pragma unroll
            for (int i = 0; i < part.EACH; i++, p += step)
                if (i * by_line < left && i * by_depth < rest) o.take(p, part.x + i);
        }
        at += T::DEPTHS * o.by_depth * o.bytes();
    }
    __device__ __forceinline__ void put(const matmul_matrix &o, int64_t depth, int64_t, bool, float *to) {
        if (by_twos) {
            put_of_two(o, depth % (2 * T::DEPTHS) != 0, to);
            return;
        }
        o.template widen<matmul_part<T, LINES>::EACH>(part.x);
        part.put(o.along, o.fours, to);
    }
};

/* ---- sums ---- */

struct matmul_place {
    int row, column; /* of a thread's first sum, in the tile */
};

/* Lanes that differ in their lowest bit alone have the same rows, in the next one the same columns. Half a
 * warp then reads eight fours of a step at most, as many as shared memory gives at once. */
template <class T>
GPU_INLINE matmul_place matmul_place_of(int thread) {
    int lane = thread % GPU_WARP, warp = thread / GPU_WARP, warps = T::WIDE / 8;
    int high = (lane >> 1 & 1) + (lane >> 3 & 2), wide = (lane & 1) + (lane >> 1 & 6);
    return { (warp / warps * 4 + high) * 4, (warp % warps * 8 + wide) * 4 };
}

/* What a thread's sums are, four by four. */
template <class T>
struct matmul_sums {
    int64_t row, column;
    float *shared;

    __device__ __forceinline__ matmul_sums(int64_t r, int64_t c, float *s) {
        matmul_place at = matmul_place_of<T>((int)threadIdx.x);
        row = r + at.row, column = c + at.column;
        shared = s + threadIdx.x * 4;
    }
    __device__ __forceinline__ float *four(int i) const { return shared + i * 4 * T::THREADS; }
    __device__ __forceinline__ int64_t row_of(int i) const {
        int down = i / (T::ACROSS / 4);
        return row + down / 4 * 4 * T::HIGH + down % 4;
    }
    __device__ __forceinline__ int64_t column_of(int i) const {
        return column + i % (T::ACROSS / 4) * 4 * T::WIDE;
    }
};

template <class T, class E>
GPU_INLINE void matmul_begin(const matmul_sums<T> &sums, const E &e, const matmul_extent &n) {
#pragma unroll 2
    for (int i = 0; i < T::FOURS; i++) {
        int64_t row = sums.row_of(i), column = sums.column_of(i);
        float x[4] = { 0, 0, 0, 0 };
        if (e.fours && row < n.rows && column < n.columns) e.before4(row, column, x);
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (!e.fours && row < n.rows && column + k < n.columns) x[k] = e.before(row, column + k);
        gpu_set4(sums.four(i), x);
    }
}

template <class T, class E>
GPU_INLINE void matmul_finish(const matmul_sums<T> &sums, const E &e, const matmul_extent &n) {
#pragma unroll 2
    for (int i = 0; i < T::FOURS; i++) {
        int64_t row = sums.row_of(i), column = sums.column_of(i);
        float x[4];
        gpu_get4(sums.four(i), x);
        if (e.fours && row < n.rows && column < n.columns) e.end4(row, column, x);
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (!e.fours && row < n.rows && column + k < n.columns) e.end(row, column + k, x[k]);
    }
}

template <class T>
struct matmul_slice {
    float x[T::DOWN][T::ACROSS];

    __device__ __forceinline__ void begin() {
#pragma unroll
        for (int i = 0; i < T::DOWN; i++)
#pragma unroll
            for (int j = 0; j < T::ACROSS; j++) x[i][j] = 0;
    }
    __device__ __forceinline__ void multiply(const float *a, const float *b) {
#pragma unroll
        for (int q = 0; q < T::DEPTHS; q++, a += T::ROWS + 4, b += T::COLUMNS + 4) {
            float u[T::DOWN], v[T::ACROSS];
#pragma unroll
            for (int i = 0; i < T::DOWN; i += 4) gpu_get4(a + i * T::HIGH, u + i);
#pragma unroll
            for (int j = 0; j < T::ACROSS; j += 4) gpu_get4(b + j * T::WIDE, v + j);
#pragma unroll
            for (int i = 0; i < T::DOWN; i++)
#pragma unroll
                for (int j = 0; j < T::ACROSS; j++) x[i][j] = fmaf(u[i], v[j], x[i][j]);
        }
    }
    __device__ __forceinline__ void add_to(const matmul_sums<T> &sums) const {
#pragma unroll
        for (int i = 0; i < T::FOURS; i++) {
            float sum[4];
            gpu_get4(sums.four(i), sum);
#pragma unroll
            for (int k = 0; k < 4; k++) sum[k] += x[i / (T::ACROSS / 4)][i % (T::ACROSS / 4) * 4 + k];
            gpu_set4(sums.four(i), sum);
        }
    }
};

/* The sums from this row and column on, by a whole block. */
template <class T, class A, class B, class E>
GPU_INLINE void matmul_block(const A &a, const B &b, const E &e, const matmul_extent &n, int64_t row,
                             int64_t column) {
    enum { OF_B = T::DEPTHS * (T::ROWS + 4) };
    GPU_SHARED(float, shared); /* two steps, each of a and of b, and the sums */
    matmul_sums<T> sums(row, column, shared + 2 * T::STEP);
    matmul_begin(sums, e, n);
    matmul_reader<T, T::ROWS, A> of_a;
    matmul_reader<T, T::COLUMNS, B> of_b;
    of_a.begin(a, row, n.rows, n.depth), of_b.begin(b, column, n.columns, n.depth);
    of_a.fetch(a, 0, n.depth, true), of_b.fetch(b, 0, n.depth, false);
    matmul_place at = matmul_place_of<T>((int)threadIdx.x);
    matmul_slice<T> slice;
    slice.begin();
    for (int64_t d = 0; d < n.depth;) {
        float *step = shared + d / T::DEPTHS % 2 * T::STEP;
        of_a.put(a, d, n.depth, true, step), of_b.put(b, d, n.depth, false, step + OF_B);
        __syncthreads(); /* and nobody is in the step before the last, which this one replaced */
        d += T::DEPTHS;
        if (d < n.depth) of_a.fetch(a, d, n.depth, true), of_b.fetch(b, d, n.depth, false);
        slice.multiply(step + at.row, step + OF_B + at.column);
        if (d % MATMUL_SLICE && d < n.depth) continue;
        slice.add_to(sums);
        slice.begin();
    }
    matmul_finish(sums, e, n);
}
