/* The product of numbers of 16 bits on tensor cores (mma.sync, capability 8.0 and later), sums in f32.
 *
 * Order of summation: slices of MATMUL_SLICE depths from 0, each by one mma for sixteen depths after another;
 * slice after slice onto what was before; then the end. It is the same for every tile, so a product's tile
 * may be chosen by its shape, rows have the same bits alone and among others, and a product that is cut at
 * whole slices and chained through its accumulator has the bits of the whole. What is outside of an operand
 * counts as 0. Within an mma the order is the hardware's, so bits are not the CPU's.
 *
 * Tiles of both operands pass through STAGES buffers of shared memory, which cp.async fills while earlier
 * ones are multiplied. A buffer has an operand's lines as they lie in memory, 16 bytes swizzled so that eight
 * rows of a matrix, and eight neighbours, lie in different banks. Operands whose lines don't begin at 16
 * bytes pass through registers instead (PACKED false).
 *
 * Ends are those of matmul_cuda.h. */
#pragma once

#include "device/cuda/mma.h"
#include "ops/matmul/matmul_cuda.h"

extern "C" {
#include "base/instructions.h"
#include "ops/matmul/matmul.h"
}

/* A block's warps stand DOWN x ACROSS, each with ROWS16 * 16 x COLUMNS8 * 8 sums; BLOCKS fit a multiprocessor
 * by their registers. */
template <int DOWN, int ACROSS, int ROWS16, int COLUMNS8, int DEPTHS_, int STAGES_, int BLOCKS_>
struct tensor_tile {
    enum {
        WARPS_DOWN = DOWN,
        WARPS_ACROSS = ACROSS,
        THREADS = 32 * DOWN * ACROSS,
        FRAGMENTS_DOWN = ROWS16,
        FRAGMENTS_ACROSS = COLUMNS8,
        WARP_ROWS = 16 * ROWS16,
        WARP_COLUMNS = 8 * COLUMNS8,
        ROWS = WARP_ROWS * DOWN,
        COLUMNS = WARP_COLUMNS * ACROSS,
        DEPTHS = DEPTHS_,
        STAGES = STAGES_,
        BLOCKS = BLOCKS_,
        STAGE = (ROWS + COLUMNS) * DEPTHS, /* numbers */
        STRIP = WARP_COLUMNS + 8,          /* floats from one row of a warp's strip to the next */
        STRIPS = DOWN * ACROSS * 16 * STRIP,
        SHARED = STAGE * STAGES * 2 > STRIPS * 4 ? STAGE *STAGES * 2 : STRIPS * 4 /* bytes */
    };
    static_assert(MATMUL_SLICE % DEPTHS == 0 && DEPTHS % 16 == 0, "a slice ends with a stage");
    static_assert(COLUMNS8 % 2 == 0, "b's matrices come by fours");
};

struct tensor_operand {
    const uint16_t *data;
    int64_t stride; /* numbers from one line of memory to the next */
    int64_t lines;  /* rows of op(a), columns of op(b) */
};

struct tensor_product {
    tensor_operand a, b;
    int64_t depth;
    bool starts; /* from what the end has before */
};

/* A tile of LINES x DEPTHS in shared memory: lines of depths, or depths of lines (CROSSED), as in memory. */
template <int LINES, int DEPTHS, bool CROSSED, int THREADS>
struct tensor_buffer {
    enum {
        WIDE = CROSSED ? LINES : DEPTHS,
        HIGH = CROSSED ? DEPTHS : LINES,
        EIGHTS = WIDE / 8,
        GROUP = EIGHTS % 8 == 0 ? 8 : 4,
        PASS = THREADS / GROUP < HIGH ? THREADS / GROUP : HIGH, /* rows that threads fill at once */
        PASSES = HIGH / PASS,
        EACH = PASSES * (EIGHTS / GROUP), /* eights of a thread */
        FILLING = PASS * GROUP            /* threads */
    };
    static_assert(EIGHTS % GROUP == 0 && HIGH % PASS == 0, "threads have equal parts");
    GPU_MEMBER int swizzled(int row, int eight) { return eight ^ (GROUP == 8 ? row & 7 : row >> 1 & 3); }
    GPU_MEMBER int place(int row, int eight) { return row * WIDE + swizzled(row, eight) * 8; }

    /* Of eight n of this thread. */
    GPU_MEMBER int row_of(int n) { return (int)threadIdx.x / GROUP + n % PASSES * PASS; }
    GPU_MEMBER int eight_of(int n) { return (int)threadIdx.x % GROUP + n / PASSES * GROUP; }
    GPU_MEMBER bool fills() { return FILLING == THREADS || (int)threadIdx.x < FILLING; }

    /* Numbers of it that are inside of the operand, 0 .. 8. */
    GPU_MEMBER int inside(int n, int lines_left, int depths_left) {
        int high = CROSSED ? depths_left : lines_left, wide = CROSSED ? lines_left : depths_left;
        int left = wide - eight_of(n) * 8;
        return row_of(n) >= high || left < 0 ? 0 : left < 8 ? left : 8;
    }
};

/* How a thread fills one operand's buffers: where it reads, and how much of what it reads is left. */
template <class B, bool CROSSED, int DEPTHS>
struct tensor_filler {
    const uint16_t *at; /* of this thread's first eight, in the next stage */
    int64_t stride;
    int lines_left;

    __device__ __forceinline__ void begin(const tensor_operand &o, int64_t line) {
        int64_t left = o.lines - line, row = B::row_of(0), eight = B::eight_of(0) * 8;
        lines_left = left < (1 << 20) ? (int)left : 1 << 20;
        stride = o.stride;
        at = o.data + (CROSSED ? row * o.stride + line + eight : (line + row) * o.stride + eight);
    }
    __device__ __forceinline__ const uint16_t *from(int n) const {
        return at + n % B::PASSES * B::PASS * stride + n / B::PASSES * B::GROUP * 8;
    }
    __device__ __forceinline__ void copy(uint16_t *buffer, int depths_left) const {
        if (!B::fills()) return;
#pragma unroll
        for (int n = 0; n < B::EACH; n++)
            gpu_copy16(buffer + B::place(B::row_of(n), B::eight_of(n)), from(n),
                       2 * B::inside(n, lines_left, depths_left));
    }
    __device__ __forceinline__ void read(gpu_eight (&e)[B::EACH], int depths_left) const {
#pragma unroll
        for (int n = 0; n < B::EACH; n++)
            e[n] = gpu_eight_read(from(n), B::fills() ? B::inside(n, lines_left, depths_left) : 0);
    }
    __device__ __forceinline__ void write(uint16_t *buffer, const gpu_eight (&e)[B::EACH],
                                          int depths_left) const {
        if (!B::fills()) return;
#pragma unroll
        for (int n = 0; n < B::EACH; n++) {
            uint32_t w[4];
            gpu_eight_words(e[n], B::inside(n, lines_left, depths_left), w);
            gpu_set16(buffer + B::place(B::row_of(n), B::eight_of(n)), w);
        }
    }
    __device__ __forceinline__ void next() { at += CROSSED ? DEPTHS * stride : DEPTHS; }
};

/* Where a block's tile is: tiles that run together lie together, so that the second cache has what they read.
 */
struct tensor_place {
    int64_t row, column;
};
template <class S>
GPU_INLINE tensor_place tensor_place_of(int64_t rows, int64_t columns) {
    const unsigned TOGETHER = 8; /* tiles one below the other */
    unsigned down = (unsigned)((rows + S::ROWS - 1) / S::ROWS);
    unsigned across = (unsigned)((columns + S::COLUMNS - 1) / S::COLUMNS);
    unsigned group = blockIdx.x / (TOGETHER * across), first = group * TOGETHER;
    unsigned high = down - first < TOGETHER ? down - first : TOGETHER, in = blockIdx.x % (TOGETHER * across);
    return { (int64_t)(first + in % high) * S::ROWS, (int64_t)(in / high) * S::COLUMNS };
}

/* A warp's sums pass through its strip of shared memory, sixteen rows at a time: registers have them as
 * tensor cores do, memory has them by rows. f(place in the strip, row, column, all four of them inside and
 * aligned). One copy of the code for all types. */
template <class S, class F>
GPU_INLINE void tensor_each_of_strip(const tensor_product &p, int64_t row, int64_t column, bool fours, F f) {
    enum { FOURS = S::WARP_COLUMNS / 4 };
#pragma unroll 1
    for (int i = (int)threadIdx.x % 32; i < 16 * FOURS; i += 32) {
        int r = i / FOURS, c = i % FOURS * 4;
        if (row + r >= p.a.lines) break;
        if (fours && column + c + 4 <= p.b.lines)
            f(r * S::STRIP + c, row + r, column + c, 4);
        else if (column + c < p.b.lines) {
            int64_t left = p.b.lines - column - c;
            f(r * S::STRIP + c, row + r, column + c, -(int)(left < 4 ? left : 4));
        }
    }
}

template <class S>
using tensor_sums = float[S::FRAGMENTS_DOWN][S::FRAGMENTS_ACROSS][4];

template <class S, class E>
GPU_INLINE void tensor_before(const tensor_product &p, const E &e, float *strip, int64_t row, int64_t column,
                              tensor_sums<S> &sum) {
    int lane = (int)threadIdx.x % 32, first = lane / 4 * S::STRIP + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < S::FRAGMENTS_DOWN; i++) {
        tensor_each_of_strip<S>(p, row + i * 16, column, e.fours, [&](int at, int64_t r, int64_t c, int n) {
            if (n > 0) e.before4(r, c, strip + at);
            for (int k = 0; k < -n; k++) strip[at + k] = e.before(r, c + k);
        });
        __syncwarp();
#pragma unroll
        for (int j = 0; j < S::FRAGMENTS_ACROSS; j++)
#pragma unroll
            for (int k = 0; k < 4; k++) sum[i][j][k] = strip[first + k / 2 * 8 * S::STRIP + j * 8 + k % 2];
        __syncwarp();
    }
}

template <class S, class E>
GPU_INLINE void tensor_end(const tensor_product &p, const E &e, float *strip, int64_t row, int64_t column,
                           const tensor_sums<S> &sum) {
    int lane = (int)threadIdx.x % 32, first = lane / 4 * S::STRIP + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < S::FRAGMENTS_DOWN; i++) {
#pragma unroll
        for (int j = 0; j < S::FRAGMENTS_ACROSS; j++)
#pragma unroll
            for (int k = 0; k < 4; k++) strip[first + k / 2 * 8 * S::STRIP + j * 8 + k % 2] = sum[i][j][k];
        __syncwarp();
        tensor_each_of_strip<S>(p, row + i * 16, column, e.fours, [&](int at, int64_t r, int64_t c, int n) {
            if (n > 0) {
                float x[4];
                gpu_get4(strip + at, x);
                e.end4(r, c, x);
            }
            for (int k = 0; k < -n; k++) e.end(r, c + k, strip[at + k]);
        });
        __syncwarp();
    }
}

/* The matrices of a step of sixteen depths, from a stage. A: rows 0-7, 8-15 at depths 0-7, the same at 8-15.
 * B: columns 0-7 at depths 0-7, at 8-15; columns 8-15 likewise. */
template <class S, class BA, bool TA>
GPU_INLINE void tensor_read_a(uint32_t (&a)[S::FRAGMENTS_DOWN][4], const uint16_t *buffer, int row,
                              int depth) {
    int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < S::FRAGMENTS_DOWN; i++) {
        if (TA)
            gpu_ldmatrix_across(a[i], buffer + BA::place(depth + lane % 8 + lane / 16 * 8,
                                                         (row + i * 16) / 8 + lane / 8 % 2));
        else
            gpu_ldmatrix(a[i], buffer + BA::place(row + i * 16 + lane % 16, depth / 8 + lane / 16));
    }
}
template <class S, class BB, bool CROSSED>
GPU_INLINE void tensor_read_b(uint32_t (&b)[S::FRAGMENTS_ACROSS][2], const uint16_t *buffer, int column,
                              int depth) {
    int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < S::FRAGMENTS_ACROSS; j += 2) {
        uint32_t four[4];
        if (CROSSED)
            gpu_ldmatrix_across(four,
                                buffer + BB::place(depth + lane % 16, (column + j * 8) / 8 + lane / 16));
        else
            gpu_ldmatrix(four, buffer + BB::place(column + j * 8 + lane % 8 + lane / 16 * 8,
                                                  depth / 8 + lane / 8 % 2));
        b[j][0] = four[0], b[j][1] = four[1], b[j + 1][0] = four[2], b[j + 1][1] = four[3];
    }
}

/* Feeds both operands: stage after stage into the buffers, ahead of what is multiplied. */
template <class S, bool TA, bool B_CROSSED, bool PACKED>
struct tensor_feed {
    typedef tensor_buffer<S::ROWS, S::DEPTHS, TA, S::THREADS> of_a;
    typedef tensor_buffer<S::COLUMNS, S::DEPTHS, B_CROSSED, S::THREADS> of_b;
    enum { OF_A = S::ROWS * S::DEPTHS, AHEAD = S::STAGES - 1 };
    tensor_filler<of_a, TA, S::DEPTHS> a;
    tensor_filler<of_b, B_CROSSED, S::DEPTHS> b;
    gpu_eight read_a[of_a::EACH], read_b[of_b::EACH]; /* of one stage, where they aren't PACKED */
    int64_t depths_left;                              /* of stages that are still to be read */

    __device__ __forceinline__ int left() const {
        return depths_left < S::DEPTHS ? (int)depths_left : S::DEPTHS;
    }
    __device__ __forceinline__ void next() { a.next(), b.next(), depths_left -= S::DEPTHS; }
    /* The next stage begins its way, */
    __device__ __forceinline__ void begin(uint16_t *buffer) {
        if (depths_left > 0) {
            if (PACKED)
                a.copy(buffer, left()), b.copy(buffer + OF_A, left()), next();
            else
                a.read(read_a, left()), b.read(read_b, left());
        }
        if (PACKED) gpu_copies_commit();
    }
    /* and is in its buffer after this, or with the next barrier after arrived(). */
    __device__ __forceinline__ void finish(uint16_t *buffer) {
        if (PACKED || depths_left <= 0) return;
        a.write(buffer, read_a, left()), b.write(buffer + OF_A, read_b, left()), next();
    }
    __device__ __forceinline__ void arrived() const {
        if (PACKED) gpu_copies_wait<AHEAD - 1>();
    }
    __device__ __forceinline__ void end() const {
        if (PACKED) gpu_copies_wait<0>();
    }
};

/* One stage onto the sums of the slice. */
template <class T, class S, class F, bool TA, bool B_CROSSED>
GPU_INLINE void tensor_multiply(tensor_sums<S> &slice, const uint16_t *stage, int row, int column) {
#pragma unroll
    for (int k = 0; k < S::DEPTHS; k += 16) {
        uint32_t a[S::FRAGMENTS_DOWN][4], b[S::FRAGMENTS_ACROSS][2];
        tensor_read_a<S, typename F::of_a, TA>(a, stage, row, k);
        tensor_read_b<S, typename F::of_b, B_CROSSED>(b, stage + F::OF_A, column, k);
#pragma unroll
        for (int i = 0; i < S::FRAGMENTS_DOWN; i++)
#pragma unroll
            for (int j = 0; j < S::FRAGMENTS_ACROSS; j++) gpu_mma(T(), slice[i][j], a[i], b[j]);
    }
}

/* f(i, j, k) for each sum of a thread. */
template <class S, class F>
GPU_INLINE void tensor_each_sum(F f) {
#pragma unroll
    for (int i = 0; i < S::FRAGMENTS_DOWN; i++)
#pragma unroll
        for (int j = 0; j < S::FRAGMENTS_ACROSS; j++)
#pragma unroll
            for (int k = 0; k < 4; k++) f(i, j, k);
}

/* op(a) is transposed in memory (TA); op(b) is not (B_CROSSED: neighbours are columns). */
template <class T, class S, bool TA, bool B_CROSSED, bool PACKED, class E>
__global__ void __launch_bounds__(S::THREADS, S::BLOCKS) matmul_tensor_kernel(tensor_product p, E e) {
#if GPU_HAS_MMA
    typedef tensor_feed<S, TA, B_CROSSED, PACKED> feed;
    GPU_SHARED(uint16_t, shared);
    const tensor_place at = tensor_place_of<S>(p.a.lines, p.b.lines);
    const int warp = (int)threadIdx.x / 32;
    const int row = warp / S::WARPS_ACROSS * S::WARP_ROWS;
    const int column = warp % S::WARPS_ACROSS * S::WARP_COLUMNS;
    float *strip = (float *)shared + warp * 16 * S::STRIP;
    tensor_sums<S> sum, slice;
    tensor_each_sum<S>([&](int i, int j, int k) { sum[i][j][k] = slice[i][j][k] = 0; });
    if (p.starts) {
        tensor_before<S>(p, e, strip, at.row + row, at.column + column, sum);
        __syncthreads();
    }
    feed f;
    f.a.begin(p.a, at.row), f.b.begin(p.b, at.column), f.depths_left = p.depth;
#pragma unroll 1
    for (int s = 0; s < feed::AHEAD; s++) f.begin(shared + s * S::STAGE), f.finish(shared + s * S::STAGE);
    int stages = (int)((p.depth + S::DEPTHS - 1) / S::DEPTHS), here = 0, fill = feed::AHEAD;
#pragma unroll 1
    for (int t = 1; t <= stages; t++) {
        f.arrived();
        __syncthreads(); /* the stage is here for all, and nobody reads the one before */
        f.begin(shared + fill * S::STAGE);
        tensor_multiply<T, S, feed, TA, B_CROSSED>(slice, shared + here * S::STAGE, row, column);
        f.finish(shared + fill * S::STAGE);
        here = here + 1 == S::STAGES ? 0 : here + 1, fill = fill + 1 == S::STAGES ? 0 : fill + 1;
        if (t % (MATMUL_SLICE / S::DEPTHS) == 0 || t == stages)
            tensor_each_sum<S>(
                [&](int i, int j, int k) { sum[i][j][k] += slice[i][j][k], slice[i][j][k] = 0; });
    }
    f.end();
    __syncthreads();
    tensor_end<S>(p, e, strip, at.row + row, at.column + column, sum);
#endif
}

/* ---- launching ---- */

/* Both operands of the same 16 bits. Shapes don't matter: a row has the same bits alone and among others. */
static inline bool matmul_tensor_accepts(const op_call *c) {
    dtype type = c->in[0].dtype;
    return c->capability >= GPU_MMA_LEAST && instructions_tensor() &&
           (type == DTYPE_BF16 || type == DTYPE_F16) && c->in[1].dtype == type && cuda_accepts(c);
}

static inline tensor_operand tensor_operand_of(const op_arg *x, int64_t lines) {
    return { (const uint16_t *)x->data, shape_last(&x->shape), lines };
}

/* Sixteen bytes at a time. */
static inline bool tensor_packed(const tensor_operand &o) {
    return o.stride % 8 == 0 && (uintptr_t)o.data % 16 == 0;
}

enum { TENSOR_FEW = 100 /* blocks, of which a GPU runs more at a time */ };

/* A large product: few warps, large parts, so that shared memory is read little. A small one: many blocks. */
typedef tensor_tile<2, 4, 4, 4, 32, 4, 1> tensor_large;
typedef tensor_tile<2, 2, 2, 4, 32, 4, 3> tensor_small;

template <class T, class S, bool TA, bool B_CROSSED, bool PACKED, class E>
static void tensor_launch(const tensor_product &p, const E &e) {
    GPU_SHARED_MOST((matmul_tensor_kernel<T, S, TA, B_CROSSED, PACKED, E>), S::SHARED);
    GPU_LAUNCH((matmul_tensor_kernel<T, S, TA, B_CROSSED, PACKED, E>),
               gpu_blocks(p.a.lines, S::ROWS) * gpu_blocks(p.b.lines, S::COLUMNS), S::THREADS, S::SHARED, p,
               e);
}

template <class T, bool TA, bool B_CROSSED, class E>
static void tensor_choose(const tensor_product &p, const E &e) {
    bool packed = tensor_packed(p.a) && tensor_packed(p.b);
    int64_t blocks = gpu_blocks(p.a.lines, tensor_large::ROWS) * gpu_blocks(p.b.lines, tensor_large::COLUMNS);
    if (blocks < TENSOR_FEW && packed)
        tensor_launch<T, tensor_small, TA, B_CROSSED, true>(p, e);
    else if (blocks < TENSOR_FEW)
        tensor_launch<T, tensor_small, TA, B_CROSSED, false>(p, e);
    else if (packed)
        tensor_launch<T, tensor_large, TA, B_CROSSED, true>(p, e);
    else
        tensor_launch<T, tensor_large, TA, B_CROSSED, false>(p, e);
}

template <class T, class E>
static void tensor_form(const tensor_product &p, bool ta, bool tb, const E &e) {
    if (ta && tb)
        tensor_choose<T, true, false>(p, e);
    else if (ta)
        tensor_choose<T, true, true>(p, e);
    else if (tb)
        tensor_choose<T, false, false>(p, e);
    else
        tensor_choose<T, false, true>(p, e);
}

/* op(a) op(b), the call's first inputs, with this end; `starts`: from what it has before. */
template <class E>
static void matmul_tensor_product(const op_call *c, const matmul_attributes *t, const E &e, bool starts) {
    const op_arg *a = op_in(c, MATMUL_A), *b = op_in(c, MATMUL_B);
    matmul_sizes s;
    matmul_sizes_of(&a->shape, &b->shape, t, &s);
    if (s.rows <= 0 || s.columns <= 0) return;
    tensor_product p = { tensor_operand_of(a, s.rows), tensor_operand_of(b, s.columns), s.depth, starts };
    if (a->dtype == DTYPE_BF16)
        tensor_form<gpu_bf16>(p, t->ta, t->tb, e);
    else
        tensor_form<gpu_f16>(p, t->ta, t->tb, e);
}
