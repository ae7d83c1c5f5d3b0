/* Products by groups of warps (wgmma, capability 9.0) whose operands the copy engine brings
 * (cp.async.bulk.tensor): tiles, ends and the order of sums are those of matmul_group_tile_cuda.h, so bits
 * are those of the kernel whose threads copy (matmul_group_cuda.h).
 *
 * - One warp more than the groups have brings, and one of its threads is enough: a stage is a copy of b's
 * lines and one of a's, or one for each 64 lines of an operand across its depths. The others multiply, and
 * end.
 * - Stages are a ring. Each has two barriers (bulk.h): `full`, which counts the bytes that come, and `empty`,
 *   at which each warp arrives when its products of the stage are done. Nobody meets within a product, so a
 *   group may be a stage ahead of the other, and all stages but those that are multiplied are under way.
 * - Lines and depths that are not there come as zeros. So every stage brings as many bytes, and they are
 *   multiplied as in the other kernel.
 * - Maps are made by the host, at each launch, and are arguments of the kernel. Made on the GPU they would be
 *   scratch in its memory, a kernel before each product, and a fence between the two; and only the driver
 *   knows how a map is laid out.
 *
 * What bounds it, reckoned from what a multiprocessor has in a cycle: 2048 multiply-adds of 16 bits, 128
 * bytes of shared memory, and some 39 bytes of the second cache (5120 of all, as NVIDIA's paper on the A100
 * has it; there is no such figure of later GPUs). In cycles of a stage of 64 depths, whose bytes are ROWS +
 * COLUMNS times 128:
 *
 *   tile         tensor cores   shared memory, read and written   second cache
 *   128 x 192    768            512 + 320                         1050
 *   128 x 128    512            384 + 256                         840
 *   64 x 64      128            128 + 128                         420
 *
 * So the second cache bounds all three, the first of them at 0.73 of the peak, and shared memory behind it at
 * 0.92: what copies is not what limits, but it no longer takes a group's time to begin copies (ten a thread
 * and stage), nor has all of a block's threads meet. The way to more are clusters of two blocks with the same
 * columns, whose engines bring b's tile once for both: 28 of 40 KiB, which is 735 cycles. Latency is hidden
 * by what is under way: four stages of 1050 cycles in the first tile. Nothing of it was measured: no GPU has
 * run this kernel.
 *
 * Registers of a thread, by ptxas of CUDA 13.0 for sm_90a, without a stack or spills: 148 to 164 in 128 x
 * 128, 83 to 101 in 64 x 64. In 128 x 192 sums take 192, and a block begins with at most 168 for each thread:
 * so there a whole group brings, keeps 24, and those that multiply have 240 (setmaxnreg). Shared memory is
 * the ring's and 16 bytes a stage: 205,888 bytes in 128 x 192. */
#pragma once

#include "device/cuda/bulk.h"
#include "ops/matmul/matmul_group_tile_cuda.h"

struct group_bulk_operand {
    gpu_bulk_map map;
    int64_t lines;
};

/* The ring of a block's stages, and behind it their barriers. */
template <class S>
struct group_ring {
    enum {
        STAGES = S::STAGES,
        STAGE_BYTES = S::STAGE * 2,
        /* Where a thread's sums take more than it has when the block begins, a whole group brings, and gives
         * its registers to the others: they change hands by groups. */
        GIVES = S::COLUMNS > 128,
        BRINGING = GIVES ? (int)GPU_GROUP : (int)GPU_WARP, /* threads */
        THREADS = S::THREADS + BRINGING,
        REGISTERS = GIVES ? 240 : 0, /* of a thread that multiplies, when they have changed hands */
        SHARED = S::SHARED + 2 * STAGES * (int)sizeof(gpu_barrier)
    };
    uint16_t *stages;
    gpu_barrier *full, *empty;

    __device__ __forceinline__ void open(unsigned char *shared) {
        unsigned char *aligned = gpu_group_aligned(shared);
        stages = (uint16_t *)aligned;
        full = (gpu_barrier *)(aligned + S::SHARED - (GPU_GROUP_ALIGNED - 16)), empty = full + STAGES;
    }
    /* By one thread. */
    __device__ __forceinline__ void make() const {
#pragma unroll 1
        for (int s = 0; s < STAGES; s++)
            gpu_barrier_make(full + s, 1), gpu_barrier_make(empty + s, S::THREADS / GPU_WARP);
    }
    __device__ __forceinline__ uint16_t *stage(int n) const { return stages + n * S::STAGE; }
    /* By all threads of a warp: it has multiplied the stage. */
    __device__ __forceinline__ void give_back(int n) const {
        if (threadIdx.x % GPU_WARP == 0) gpu_barrier_arrive(empty + n);
    }
};

/* Which stage of the ring comes next, and the parity of the round. */
template <class S>
struct group_turn {
    int stage;
    unsigned round;
    __device__ __forceinline__ void next() {
        if (++stage == S::STAGES) stage = 0, round ^= 1;
    }
};

/* LINES of an operand begin their way into a stage. B: its buffer. */
template <class B, int LINES, bool CROSSED>
GPU_INLINE void group_bring(uint16_t *to, const gpu_bulk_map *map, int line, int depth, gpu_barrier *full) {
    if constexpr (!CROSSED) {
        gpu_bulk_copy(to, map, depth, line, full);
    } else {
#pragma unroll
        for (int l = 0; l < LINES; l += B::WORDS) gpu_bulk_copy(to + l * B::HIGH, map, line + l, depth, full);
    }
}

/* By one thread: all stages, one after the other, each as soon as its place is free. F: where they lie; R:
 * the ring. */
template <class S, class F, class R, class P>
GPU_INLINE void group_bring_all(const P &p, const R &ring, const tensor_place &at, int stages) {
    group_turn<S> turn = { 0, 0 };
#pragma unroll 1
    for (int s = 0; s < stages; s++) {
        gpu_barrier *full = ring.full + turn.stage;
        uint16_t *stage = ring.stage(turn.stage);
        gpu_barrier_wait(ring.empty + turn.stage, turn.round ^ 1);
        gpu_barrier_expect(full, R::STAGE_BYTES);
        group_bring<typename F::of_a, S::ROWS, F::A_IS_CROSSED>(stage, &p.a.map, (int)at.row, s * F::DEPTHS,
                                                                full);
        group_bring<typename F::of_b, S::COLUMNS, F::B_IS_CROSSED>(stage + F::OF_A, &p.b.map, (int)at.column,
                                                                   s * F::DEPTHS, full);
        turn.next();
    }
}

/* By the groups of warps: onto `sum`, which begins with what was before. */
template <class N, class S, class F, class O>
GPU_INLINE void group_multiply_all(const group_ring<S> &ring, O &own, int stages, tensor_sums<S> &sum) {
    enum { STAGES_OF_SLICE = N::SLICE / F::DEPTHS };
    static_assert(N::SLICE % F::DEPTHS == 0, "a slice ends with a stage");
    group_turn<S> turn = { 0, 0 };
    tensor_sums<S> slice;
    tensor_each_sum<S>([&](int i, int j, int k) { slice[i][j][k] = 0; });
#pragma unroll 1
    for (int n = 0; stages > 0; n++, stages -= STAGES_OF_SLICE) {
        const int of_slice = stages < STAGES_OF_SLICE ? stages : (int)STAGES_OF_SLICE;
        int before = 0;
        own.begin(n);
#pragma unroll 1
        for (int t = 0; t < of_slice; t++) {
            gpu_barrier_wait(ring.full + turn.stage, turn.round);
            group_multiply<N, S, F>(slice, ring.stage(turn.stage), t == 0);
            gpu_group_wait<1>();
            if (t > 0) ring.give_back(before);
            before = turn.stage;
            turn.next();
        }
        gpu_group_wait<0>(slice[0]);
        ring.give_back(before);
        own.end(n, slice, sum);
    }
}

/* All of a block, which is told at one place what it waits for. */
GPU_INLINE void group_meet() { __syncthreads(); }

/* op(a) is transposed in memory (TA); op(b) is not (B_CROSSED). */
template <class N, class S, bool TA, bool B_CROSSED, class E>
__global__ void __launch_bounds__(group_ring<S>::THREADS, S::BLOCKS)
    matmul_group_bulk_kernel(const __grid_constant__ tensor_product<group_bulk_operand> p, N numbers, E e) {
#if GPU_HAS_GROUPS
    typedef tensor_feed<S, tensor_copies, N::BYTES, TA, B_CROSSED> feed; /* where they bring it, this does */
    GPU_SHARED(unsigned char, all);
    group_ring<S> ring;
    ring.open(all);
    const tensor_place at = tensor_place_of<S>(p.a.lines, p.b.lines);
    const int warp = (int)threadIdx.x / GPU_WARP, row = warp * S::WARP_ROWS;
    const int stages = (int)((p.depth + feed::DEPTHS - 1) / feed::DEPTHS);
    const bool brings = threadIdx.x >= (unsigned)S::THREADS;
    float *strip = (float *)ring.stages + row * S::STRIP;
    if (threadIdx.x == 0) ring.make();
    gpu_group_show();
    group_meet();
    if (brings) {
        if constexpr (group_ring<S>::GIVES) gpu_registers_give<GPU_REGISTERS_FEW>();
        if (p.starts) group_meet();
        if (threadIdx.x == S::THREADS) group_bring_all<S, feed>(p, ring, at, stages);
        return; /* the others wait for what comes, and not for who brought it */
    }
    if constexpr (group_ring<S>::GIVES) gpu_registers_take<group_ring<S>::REGISTERS>();
    tensor_sums<S> sum;
    tensor_each_sum<S>([&](int i, int j, int k) { sum[i][j][k] = 0; });
    if (p.starts) {
        tensor_before<S>(p, e, strip, at.row + row, at.column, sum);
        gpu_group_show(); /* copies are written over strips */
        group_meet();
    }
    typename N::template sums<S> own;
    own.open(numbers, at.row + row, at.column);
    group_multiply_all<N, S, feed>(ring, own, stages, sum);
    __syncthreads(); /* all that multiply have come to their end, and what came was waited for */
    tensor_end<S>(p, e, strip, at.row + row, at.column, sum);
#endif
}

/* ---- launching ---- */

/* Maps of an operand's tiles. False: the engine can't bring it. */
template <class B, bool CROSSED, int BYTES>
static bool group_bulk_of(const tensor_operand &o, int64_t depth, group_bulk_operand *out) {
    out->lines = o.lines;
    return gpu_bulk_map_make(&out->map, { o.data, CROSSED ? o.lines : depth, CROSSED ? depth : o.lines,
                                          o.stride, BYTES, (unsigned)B::HIGH });
}

/* False: the engine can't bring an operand, and nothing was launched. */
template <class S, bool TA, bool B_CROSSED, class N, class E>
static bool group_bulk_launch(const tensor_product<tensor_operand> &p, const N &numbers, const E &e) {
    typedef tensor_feed<S, tensor_copies, N::BYTES, TA, B_CROSSED> feed;
    tensor_product<group_bulk_operand> q = {};
    if (!group_bulk_of<typename feed::of_a, TA, N::BYTES>(p.a, p.depth, &q.a) ||
        !group_bulk_of<typename feed::of_b, B_CROSSED, N::BYTES>(p.b, p.depth, &q.b))
        return false;
    q.depth = p.depth, q.starts = p.starts;
    GPU_SHARED_MOST((matmul_group_bulk_kernel<N, S, TA, B_CROSSED, E>), group_ring<S>::SHARED);
    GPU_LAUNCH((matmul_group_bulk_kernel<N, S, TA, B_CROSSED, E>),
               gpu_blocks(p.a.lines, S::ROWS) * gpu_blocks(p.b.lines, S::COLUMNS), group_ring<S>::THREADS,
               group_ring<S>::SHARED, q, numbers, e);
    return true;
}
