/* The product on tensor cores (mma.sync, capability 8.0 and later), sums in f32: of numbers of 16 bits, and
 * what products of other numbers are made of.
 *
 * Order of summation: slices of N::SLICE depths from 0, by one mma after another; slice after slice onto what
 * was before; then the end. It is the same for every tile, so a product's tile may be chosen by its shape,
 * rows have the same bits alone and among others, and a product that is cut at whole slices and chained
 * through its accumulator has the bits of the whole. What is outside of an operand counts as 0. Within an mma
 * the order is the hardware's, so bits are not the CPU's.
 *
 * What bounds it, reckoned from 128 bytes of shared memory and 1024 multiply-adds of 16 bits that a
 * multiprocessor of 8.0 has in a cycle (9.0 has twice as many, of which mma.sync reaches some 0.6). In cycles
 * of 16 depths:
 *
 *   tile         tensor cores   shared memory, read and written
 *   128 x 128    256            192 + 64
 *   64 x 64      64             64 + 32
 *
 * So both bound the large tile alike on 8.0, and shared memory the small one, and all on 9.0.
 *
 * Tiles of both operands pass through STAGES buffers of shared memory, which are filled while earlier ones
 * are multiplied. A buffer has an operand's lines as they lie in memory, 16 bytes swizzled so that eight rows
 * of a matrix, and eight neighbours, lie in different banks.
 *
 *   N   numbers: their type, a's (number); BYTES of each; SLICE; IS_HERE, does the capability that is
 *       compiled for have their mma; multiply(d, a, b), one of these; and what a thread does when a slice
 *       begins and ends: `sums<S>`, and `line`, where its sums are a row's (tensor_halves)
 *   F   how operands come into buffers, and what they are: tensor_copies, by cp.async, where lines begin at
 *       16 bytes; tensor_reads, through registers, where they don't
 *   E   ends, those of matmul_cuda.h
 *
 * Buffers are counted in words of 16 bits: a number of 16 bits, or two of 8, for which an mma has the same
 * registers at twice the depth. Operands that lie across their depths have numbers of 16 bits. */
#pragma once

#include "device/cuda/mma.h"
#include "ops/matmul/matmul_cuda.h"

extern "C" {
#include "base/instructions.h"
#include "ops/matmul/matmul.h"
}

template <int LINES, int DEPTHS, bool CROSSED, int THREADS>
struct tensor_buffer;

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
        DEPTHS = DEPTHS_, /* of a stage: words */
        STAGES = STAGES_,
        AHEAD = STAGES - 1, /* stages that are under way */
        BLOCKS = BLOCKS_,
        STAGE = (ROWS + COLUMNS) * DEPTHS, /* words */
        STRIP = WARP_COLUMNS + 8,          /* floats from one row of a warp's strip to the next */
        STRIPS = DOWN * ACROSS * 16 * STRIP,
        SHARED = STAGE * STAGES * 2 > STRIPS * 4 ? STAGE *STAGES * 2 : STRIPS * 4 /* bytes */
    };
    static_assert(DEPTHS % 16 == 0, "a stage is whole mma");
    static_assert(COLUMNS8 % 2 == 0, "b's matrices come by fours");
    template <int LINES, bool CROSSED>
    using buffer = tensor_buffer<LINES, DEPTHS, CROSSED, THREADS>;
};

struct tensor_operand {
    const void *data;
    int64_t stride; /* bytes from one line of memory to the next */
    int64_t lines;  /* rows of op(a), columns of op(b) */
};

template <class O>
struct tensor_product {
    O a, b;
    int64_t depth;
    bool starts; /* from what the end has before */
};

/* A thread's sums, as tensor cores have them: sum k of fragment (i, j) is in row i * 16 + k / 2 * 8 + lane /
 * 4 of its warp's, and in column j * 8 + lane % 4 * 2 + k % 2. */
template <class S>
using tensor_sums = float[S::FRAGMENTS_DOWN][S::FRAGMENTS_ACROSS][4];

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

/* Numbers of 16 bits, whose slices are added as they are. */
template <class T>
struct tensor_halves {
    typedef T number;
    enum { BYTES = 2, SLICE = MATMUL_SLICE, IS_HERE = GPU_HAS_MMA };
    GPU_MEMBER void multiply(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
        gpu_mma(T(), d, a, b);
    }
    template <class S>
    struct sums {
        __device__ __forceinline__ void open(const tensor_halves &, int64_t, int64_t) {}
        __device__ __forceinline__ void begin(int) {} /* slice n is multiplied from here on, */
        __device__ __forceinline__ void end(int, const tensor_sums<S> &slice, tensor_sums<S> &sum) const {
            tensor_each_sum<S>([&](int i, int j, int k) { sum[i][j][k] += slice[i][j][k]; }); /* to here */
        }
    };
    /* The same of a thread that has sums of one row. */
    struct line {
        __device__ __forceinline__ void open(const tensor_halves &, int64_t, int64_t) {}
        __device__ __forceinline__ void begin(int) {}
        __device__ __forceinline__ float onto(float sum, float part) const { return sum + part; }
    };
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

    /* Bytes of it that are inside of the operand, of which so many rows, and bytes of each, are left. */
    GPU_MEMBER int inside(int n, int rows_left, int bytes_left) {
        int left = bytes_left - eight_of(n) * 16;
        return row_of(n) >= rows_left || left < 0 ? 0 : left < 16 ? left : 16;
    }
};

/* Where a thread reads of an operand for its buffers B, and how much of what it reads is left. */
template <class B, bool CROSSED, int DEPTHS, int BYTES>
struct tensor_lines {
    const unsigned char *at; /* of this thread's first eight, in the next stage */
    int64_t stride;
    int lines_left;

    __device__ __forceinline__ void open(const tensor_operand &o, int64_t line) {
        int64_t left = o.lines - line, row = B::row_of(0), eight = B::eight_of(0) * 16;
        lines_left = left < (1 << 20) ? (int)left : 1 << 20;
        stride = o.stride;
        at = (const unsigned char *)o.data +
             (CROSSED ? row * o.stride + line * BYTES + eight : (line + row) * o.stride + eight);
    }
    __device__ __forceinline__ const unsigned char *from(int n) const {
        return at + n % B::PASSES * B::PASS * stride + n / B::PASSES * B::GROUP * 16;
    }
    __device__ __forceinline__ int inside(int n, int depths_left) const {
        return CROSSED ? B::inside(n, depths_left, lines_left * BYTES)
                       : B::inside(n, lines_left, depths_left * BYTES);
    }
    __device__ __forceinline__ void next() { at += CROSSED ? DEPTHS * stride : DEPTHS * BYTES; }
};

/* Fillers of one operand's buffers: what is begun is in its buffer after `finish`, or with the next barrier
 * after the feed's `arrived`. */
template <class B, bool CROSSED, int DEPTHS, int BYTES>
struct tensor_copier : tensor_lines<B, CROSSED, DEPTHS, BYTES> {
    __device__ __forceinline__ void begin(uint16_t *buffer, int depths_left) {
        if (!B::fills()) return;
#pragma unroll
        for (int n = 0; n < B::EACH; n++)
            gpu_copy16(buffer + B::place(B::row_of(n), B::eight_of(n)), this->from(n),
                       this->inside(n, depths_left));
    }
    __device__ __forceinline__ void finish(uint16_t *, int) const {}
};

template <class B, bool CROSSED, int DEPTHS, int BYTES>
struct tensor_reader : tensor_lines<B, CROSSED, DEPTHS, BYTES> {
    gpu_bytes read[B::EACH]; /* of one stage */

    __device__ __forceinline__ void begin(uint16_t *, int depths_left) {
#pragma unroll
        for (int n = 0; n < B::EACH; n++)
            read[n] = gpu_bytes_read(this->from(n), B::fills() ? this->inside(n, depths_left) : 0);
    }
    __device__ __forceinline__ void finish(uint16_t *buffer, int depths_left) const {
        if (!B::fills()) return;
#pragma unroll
        for (int n = 0; n < B::EACH; n++) {
            uint32_t w[4];
            gpu_bytes_words(read[n], this->inside(n, depths_left), w);
            gpu_set16(buffer + B::place(B::row_of(n), B::eight_of(n)), w);
        }
    }
};

struct tensor_copies {
    typedef tensor_operand operand;
    enum { ASIDE = true /* copies go on beside the kernel, and are waited for */ };
    template <class B, bool CROSSED, int DEPTHS, int BYTES>
    using filler = tensor_copier<B, CROSSED, DEPTHS, BYTES>;
};
struct tensor_reads {
    typedef tensor_operand operand;
    enum { ASIDE = false };
    template <class B, bool CROSSED, int DEPTHS, int BYTES>
    using filler = tensor_reader<B, CROSSED, DEPTHS, BYTES>;
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

/* A warp's sums pass through its strip of shared memory, HIGH rows at a time: registers have them as
 * tensor cores do, memory has them by rows. f(place in the strip, row, column) for what this thread has of
 * memory's side: a number, or four with `fours`, which are inside together, since then rows are whole fours.
 * One copy of the code for all types.
 *
 * Lanes next to each other have neighbours, so banks are never waited for on this side. On the other, a lane
 * has two neighbours of a row, which go as one access: half a warp at a time, whose four rows begin STRIP,
 * eight banks, apart and are eight numbers wide. */
template <int HIGH, class S, class P, class F>
GPU_INLINE void tensor_each_of_strip(const P &p, int64_t row, int64_t column, bool fours, F f) {
    const int each = fours ? 4 : 1;
#pragma unroll 1
    for (int i = (int)threadIdx.x % 32 * each; i < HIGH * S::WARP_COLUMNS; i += 32 * each) {
        int r = i / S::WARP_COLUMNS, c = i % S::WARP_COLUMNS;
        if (row + r >= p.a.lines) break;
        if (column + c < p.b.lines) f(r * S::STRIP + c, row + r, column + c);
    }
}

/* Two neighbours in one access. */
GPU_INLINE void tensor_get2(const float *at, float x[2]) {
    uint64_t bits = *GPU_WIDE(uint64_t, (float *)at);
    x[0] = half_float((uint32_t)bits), x[1] = half_float((uint32_t)(bits >> 32));
}
GPU_INLINE void tensor_set2(float *at, const float x[2]) {
    *GPU_WIDE(uint64_t, at) = half_bits(x[0]) | (uint64_t)half_bits(x[1]) << 32;
}

/* Where a lane's two sums at 2 * half of fragment j are in the strip. */
template <class S>
GPU_INLINE int tensor_in_strip(int j, int half) {
    static_assert(S::STRIP % 32 == 8, "four rows are in different banks");
    int lane = (int)threadIdx.x % 32;
    return (lane / 4 + half * 8) * S::STRIP + j * 8 + lane % 4 * 2;
}

/* What was before comes to a place in the strip, and what is there goes to its end: one number, or four. */
template <class E>
GPU_INLINE void tensor_bring(const E &e, float *at, int64_t row, int64_t column) {
    if (!e.fours) {
        *at = e.before(row, column);
        return;
    }
    float x[4] = { 0, 0, 0, 0 };
    e.before4(row, column, x);
    gpu_set4(at, x);
}
template <class E>
GPU_INLINE void tensor_give(const E &e, const float *at, int64_t row, int64_t column) {
    if (!e.fours) {
        e.end(row, column, *at);
        return;
    }
    float x[4];
    gpu_get4(at, x);
    e.end4(row, column, x);
}

template <class S, class P, class E>
GPU_INLINE void tensor_before(const P &p, const E &e, float *strip, int64_t row, int64_t column,
                              tensor_sums<S> &sum) {
#pragma unroll
    for (int i = 0; i < S::FRAGMENTS_DOWN; i++) {
        tensor_each_of_strip<16, S>(p, row + i * 16, column, e.fours,
                                    [&](int at, int64_t r, int64_t c) { tensor_bring(e, strip + at, r, c); });
        __syncwarp();
#pragma unroll
        for (int j = 0; j < S::FRAGMENTS_ACROSS; j++)
#pragma unroll
            for (int k = 0; k < 4; k += 2) tensor_get2(strip + tensor_in_strip<S>(j, k / 2), sum[i][j] + k);
        __syncwarp();
    }
}

template <class S, class P, class E>
GPU_INLINE void tensor_end(const P &p, const E &e, float *strip, int64_t row, int64_t column,
                           const tensor_sums<S> &sum) {
#pragma unroll
    for (int i = 0; i < S::FRAGMENTS_DOWN; i++) {
#pragma unroll
        for (int j = 0; j < S::FRAGMENTS_ACROSS; j++)
#pragma unroll
            for (int k = 0; k < 4; k += 2) tensor_set2(strip + tensor_in_strip<S>(j, k / 2), sum[i][j] + k);
        __syncwarp();
        tensor_each_of_strip<16, S>(p, row + i * 16, column, e.fours,
                                    [&](int at, int64_t r, int64_t c) { tensor_give(e, strip + at, r, c); });
        __syncwarp();
    }
}

/* The matrices of a step of sixteen words of depth, from a stage. A: rows 0-7, 8-15 at depths 0-7, the same
 * at 8-15. B: columns 0-7 at depths 0-7, at 8-15; columns 8-15 likewise. */
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
template <class S, class F, int BYTES, bool TA, bool B_CROSSED>
struct tensor_feed {
    typedef typename S::template buffer<S::ROWS, TA> of_a;
    typedef typename S::template buffer<S::COLUMNS, B_CROSSED> of_b;
    static constexpr bool A_IS_CROSSED = TA, B_IS_CROSSED = B_CROSSED;
    enum { OF_A = S::ROWS * S::DEPTHS, AHEAD = S::AHEAD, DEPTHS = S::DEPTHS * 2 / BYTES };
    static_assert(BYTES == 2 || !(TA || B_CROSSED), "numbers lie along the depth, or have 16 bits");
    typename F::template filler<of_a, TA, DEPTHS, BYTES> a;
    typename F::template filler<of_b, B_CROSSED, DEPTHS, BYTES> b;
    int64_t depths_left; /* of stages that are still to be read */

    __device__ __forceinline__ int left() const { return depths_left < DEPTHS ? (int)depths_left : DEPTHS; }
    /* The next stage begins its way, */
    __device__ __forceinline__ void begin(uint16_t *buffer) {
        if (depths_left > 0) a.begin(buffer, left()), b.begin(buffer + OF_A, left());
        if (F::ASIDE) gpu_copies_commit();
    }
    /* and is in its buffer after this, or with the next barrier after arrived(). */
    __device__ __forceinline__ void finish(uint16_t *buffer) {
        if (depths_left <= 0) return;
        a.finish(buffer, left()), b.finish(buffer + OF_A, left());
        a.next(), b.next(), depths_left -= DEPTHS;
    }
    __device__ __forceinline__ void arrived() const {
        if (F::ASIDE) gpu_copies_wait<AHEAD - 1>();
    }
    __device__ __forceinline__ void end() const {
        if (F::ASIDE) gpu_copies_wait<0>();
    }
};

/* One stage onto the sums of the slice. */
template <class N, class S, class F, bool TA, bool B_CROSSED>
GPU_INLINE void tensor_multiply(tensor_sums<S> &slice, const uint16_t *stage, int row, int column) {
#pragma unroll
    for (int k = 0; k < S::DEPTHS; k += 16) {
        uint32_t a[S::FRAGMENTS_DOWN][4], b[S::FRAGMENTS_ACROSS][2];
        tensor_read_a<S, typename F::of_a, TA>(a, stage, row, k);
        tensor_read_b<S, typename F::of_b, B_CROSSED>(b, stage + F::OF_A, column, k);
#pragma unroll
        for (int i = 0; i < S::FRAGMENTS_DOWN; i++)
#pragma unroll
            for (int j = 0; j < S::FRAGMENTS_ACROSS; j++) N::multiply(slice[i][j], a[i], b[j]);
    }
}

/* op(a) is transposed in memory (TA); op(b) is not (B_CROSSED: neighbours are columns). */
template <class N, class S, class F, bool TA, bool B_CROSSED, class E>
__global__ void __launch_bounds__(S::THREADS, S::BLOCKS)
    matmul_tensor_kernel(tensor_product<typename F::operand> p, N numbers, E e) {
#if GPU_HAS_MMA
    typedef tensor_feed<S, F, N::BYTES, TA, B_CROSSED> feed;
    enum { STAGES_OF_SLICE = N::SLICE / feed::DEPTHS };
    if (!N::IS_HERE) return;
    static_assert(N::SLICE % feed::DEPTHS == 0, "a slice ends with a stage");
    GPU_SHARED(uint16_t, shared);
    const tensor_place at = tensor_place_of<S>(p.a.lines, p.b.lines);
    const int warp = (int)threadIdx.x / 32;
    const int row = warp / S::WARPS_ACROSS * S::WARP_ROWS;
    const int column = warp % S::WARPS_ACROSS * S::WARP_COLUMNS;
    float *strip = (float *)shared + warp * 16 * S::STRIP;
    tensor_sums<S> sum, slice;
    typename N::template sums<S> own;
    tensor_each_sum<S>([&](int i, int j, int k) { sum[i][j][k] = 0; });
    if (p.starts) {
        tensor_before<S>(p, e, strip, at.row + row, at.column + column, sum);
        __syncthreads();
    }
    feed f;
    f.a.open(p.a, at.row), f.b.open(p.b, at.column), f.depths_left = p.depth;
    own.open(numbers, at.row + row, at.column + column);
#pragma unroll 1
    for (int s = 0; s < feed::AHEAD; s++) f.begin(shared + s * S::STAGE), f.finish(shared + s * S::STAGE);
    int stages = (int)((p.depth + feed::DEPTHS - 1) / feed::DEPTHS), here = 0, fill = feed::AHEAD;
#pragma unroll 1
    for (int t = 0; t < stages; t++) {
        if (t % STAGES_OF_SLICE == 0) {
            own.begin(t / STAGES_OF_SLICE);
            tensor_each_sum<S>([&](int i, int j, int k) { slice[i][j][k] = 0; });
        }
        f.arrived();
        __syncthreads(); /* the stage is here for all, and nobody reads the one before */
        f.begin(shared + fill * S::STAGE);
        tensor_multiply<N, S, feed, TA, B_CROSSED>(slice, shared + here * S::STAGE, row, column);
        f.finish(shared + fill * S::STAGE);
        here = here + 1 == S::STAGES ? 0 : here + 1, fill = fill + 1 == S::STAGES ? 0 : fill + 1;
        if (t % STAGES_OF_SLICE == STAGES_OF_SLICE - 1 || t == stages - 1)
            own.end(t / STAGES_OF_SLICE, slice, sum);
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
    return c->capability >= GPU_MMA_LEAST && instructions_tensor(CONFIRM_PRODUCTS, c->capability) &&
           (type == DTYPE_BF16 || type == DTYPE_F16) && c->in[1].dtype == type && cuda_accepts(c);
}

static inline tensor_operand tensor_operand_of(const op_arg *x, int64_t lines) {
    return { x->data, shape_last(&x->shape) * dtype_bytes(x->dtype), lines };
}

/* Sixteen bytes at a time. */
static inline bool tensor_packed(const tensor_operand &o) {
    return o.stride % 16 == 0 && (uintptr_t)o.data % 16 == 0;
}

enum { TENSOR_FEW = 100 /* blocks, of which a GPU runs more at a time */ };

/* A large product: few warps, large parts, so that shared memory is read little. A small one: many blocks. */
typedef tensor_tile<2, 4, 4, 4, 32, 4, 1> tensor_large;
typedef tensor_tile<2, 2, 2, 4, 32, 4, 3> tensor_small;

template <class S, class F, bool TA, bool B_CROSSED, class P, class N, class E>
static void tensor_launch(const P &p, const N &numbers, const E &e) {
    GPU_SHARED_MOST((matmul_tensor_kernel<N, S, F, TA, B_CROSSED, E>), S::SHARED);
    GPU_LAUNCH((matmul_tensor_kernel<N, S, F, TA, B_CROSSED, E>),
               gpu_blocks(p.a.lines, S::ROWS) * gpu_blocks(p.b.lines, S::COLUMNS), S::THREADS, S::SHARED, p,
               numbers, e);
}

/* In tiles that go with its size. */
template <class F, bool TA, bool B_CROSSED, class P, class N, class E>
static void tensor_sized(const P &p, const N &numbers, const E &e) {
    int64_t blocks = gpu_blocks(p.a.lines, tensor_large::ROWS) * gpu_blocks(p.b.lines, tensor_large::COLUMNS);
    if (blocks < TENSOR_FEW)
        tensor_launch<tensor_small, F, TA, B_CROSSED>(p, numbers, e);
    else
        tensor_launch<tensor_large, F, TA, B_CROSSED>(p, numbers, e);
}

/* Products by mma.sync: in the way that goes with where it lies. */
struct tensor_by_warps {
    template <bool TA, bool B_CROSSED, class N, class E>
    static void choose(const tensor_product<tensor_operand> &p, const N &numbers, const E &e) {
        if (tensor_packed(p.a) && tensor_packed(p.b))
            tensor_sized<tensor_copies, TA, B_CROSSED>(p, numbers, e);
        else
            tensor_sized<tensor_reads, TA, B_CROSSED>(p, numbers, e);
    }
};

template <class BY, class T, class E>
static void tensor_form(const tensor_product<tensor_operand> &p, bool ta, bool tb, const E &e) {
    const tensor_halves<T> numbers = {};
    if (ta && tb)
        BY::template choose<true, false>(p, numbers, e);
    else if (ta)
        BY::template choose<true, true>(p, numbers, e);
    else if (tb)
        BY::template choose<false, false>(p, numbers, e);
    else
        BY::template choose<false, true>(p, numbers, e);
}

/* op(a) op(b), the call's first inputs, with this end; `starts`: from what it has before. BY: what
 * multiplies: tensor_by_warps, tensor_by_groups of matmul_group_cuda.h, tensor_in_tmem of matmul_tmem_cuda.h.
 */
template <class BY, class E>
static void matmul_tensor_product(const op_call *c, const matmul_attributes *t, const E &e, bool starts) {
    const op_arg *a = op_in(c, MATMUL_A), *b = op_in(c, MATMUL_B);
    matmul_sizes s;
    matmul_sizes_of(&a->shape, &b->shape, t, &s);
    if (s.rows <= 0 || s.columns <= 0) return;
    tensor_product<tensor_operand> p = { tensor_operand_of(a, s.rows), tensor_operand_of(b, s.columns),
                                         s.depth, starts };
    if (a->dtype == DTYPE_BF16)
        tensor_form<BY, gpu_bf16>(p, t->ta, t->tb, e);
    else
        tensor_form<BY, gpu_f16>(p, t->ta, t->tb, e);
}

/* The end of the plain product. */
static inline matmul_end matmul_tensor_end(const op_call *c) {
    return matmul_end_of(cuda_in(c, MATMUL_BIAS), cuda_in(c, MATMUL_RESIDUAL), cuda_in(c, MATMUL_ACCUMULATOR),
                         cuda_out(c, 0), shape_last(&c->out[0].shape));
}

/* The plain product. */
template <class BY>
static void matmul_tensor_run(const op_call *c) {
    const matmul_attributes *t = (const matmul_attributes *)c->attributes;
    matmul_tensor_product<BY>(c, t, matmul_tensor_end(c), op_in(c, MATMUL_ACCUMULATOR)->data != NULL);
}
