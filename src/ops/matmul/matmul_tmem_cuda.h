/* Products whose sums lie in tensor memory (tcgen05, capability 10.0; device/cuda/mma_tmem.h): the kernel,
 * and which tile a product takes.
 *
 * - Operands come by the copy engine into the ring of matmul_group_bulk_cuda.h. Where it can't read one, four
 *   warps bring both through registers, as tensor_reads of matmul_tensor_cuda.h. Sums are the same, bit for
 *   bit.
 * - One thread multiplies: a stage's products are begun when it has come, and a commit gives its place back
 *   when they are done. The first product of a slice begins its half of tensor memory anew.
 * - A slice's end is a commit too. Then four or eight warps read its sums, 32 columns at a time, and add them
 *   to those before in f32, while the next slice is multiplied into the other half. So no thread waits for
 *   products but at the last slice, and the order of depths is that of all products.
 *
 * What bounds it, reckoned from 4096 multiply-adds of 16 bits (twice those of 9.0, which are the published
 * 2.25e15 flops of a B200 at 1.86 GHz) and 128 bytes of shared memory that a multiprocessor has in a cycle.
 * In cycles of 16 depths, for which (128 + COLUMNS) * 32 bytes are read, and written before:
 *
 *   tile         tensor cores   shared memory, read and written
 *   128 x 256    128            96 + 96
 *   128 x 64     32             48 + 48
 *
 * So shared memory bounds both, the first of them at 0.67 of the peak: the way to more are pairs of blocks
 * (cta_group::2), each of which has half of b. How fast tensor memory is read is not published; a slice of
 * the first tile is 2048 cycles of products or more, for 128 KiB of sums. Nothing of it was measured: no GPU
 * has run this kernel.
 *
 * Registers of a thread, by ptxas of CUDA 13.0 for sm_100a, without a stack or spills: 168 in 128 x 256, of
 * which 224 and 56 are made when the block has begun, 124 to 134 in 128 x 64, 146 to 165 where four warps
 * bring (bench/results/gpu_occupancy_tiles.md). */
#pragma once

#include "ops/matmul/matmul_group_cuda.h"
#include "ops/matmul/matmul_tmem_tile_cuda.h"

/* ---- who does what ---- */

/* By four warps: all stages, each read while its place may still be taken. */
template <class S, class F, class R, class P>
GPU_INLINE void tmem_read_all(const P &p, const R &ring, const tensor_place &at, int stages) {
    group_turn<S> turn = { 0, 0 };
    F f;
    f.a.open(p.a, at.row), f.b.open(p.b, at.column), f.depths_left = p.depth;
#pragma unroll 1
    for (int s = 0; s < stages; s++) {
        uint16_t *stage = ring.stage(turn.stage);
        f.begin(stage);
        gpu_barrier_wait(ring.empty + turn.stage, turn.round ^ 1);
        f.finish(stage);
        gpu_group_show();
        gpu_barrier_arrive(ring.full + turn.stage);
        turn.next();
    }
}

/* By one thread: all products. */
template <class N, class S, class F, class R>
GPU_INLINE void tmem_multiply_all(const R &ring, uint32_t memory, int stages) {
    enum { STAGES_OF_SLICE = N::SLICE / F::DEPTHS };
    static_assert(N::SLICE % F::DEPTHS == 0, "a slice ends with a stage");
    const uint32_t form = gpu_tmem_form<typename N::number, S::COLUMNS, F::A_IS_CROSSED, F::B_IS_CROSSED>();
    group_turn<S> turn = { 0, 0 };
#pragma unroll 1
    for (int n = 0; stages > 0; n++, stages -= STAGES_OF_SLICE) {
        const int of_slice = stages < STAGES_OF_SLICE ? stages : (int)STAGES_OF_SLICE, half = n % 2;
        gpu_barrier_wait(ring.free + half, (unsigned)n / 2 % 2 ^ 1);
#pragma unroll 1
        for (int t = 0; t < of_slice; t++) {
            gpu_barrier_wait(ring.full + turn.stage, turn.round);
            gpu_tmem_after();
            const uint16_t *stage = ring.stage(turn.stage);
            const uint64_t a = F::of_a::operand(stage), b = F::of_b::operand(stage + F::OF_A);
#pragma unroll
            for (int k = 0; k < S::DEPTHS / 16; k++)
                gpu_tmem_mma<N::BYTES>(memory + half * S::COLUMNS, gpu_group_further(a, k * F::of_a::STEP),
                                       gpu_group_further(b, k * F::of_b::STEP), form, t + k > 0);
            gpu_tmem_commit(ring.empty + turn.stage);
            turn.next();
        }
        gpu_tmem_commit(ring.ready + half);
    }
}

/* By the others: onto `sum`, which begins with what was before. `memory`: of the warp's lanes and columns. */
template <class N, class S, class F, class R, class O>
GPU_INLINE void tmem_add_all(const R &ring, O &own, uint32_t memory, int stages, float (&sum)[S::OWN]) {
    enum { STAGES_OF_SLICE = N::SLICE / F::DEPTHS };
#pragma unroll 1
    for (int n = 0; n * STAGES_OF_SLICE < stages; n++) {
        const int half = n % 2;
        own.begin(n);
        gpu_barrier_wait(ring.ready + half, (unsigned)n / 2 % 2);
        gpu_tmem_after();
#pragma unroll
        for (int c = 0; c < S::OWN; c += GPU_TMEM_READ) {
            float slice[GPU_TMEM_READ];
            gpu_tmem_read(slice, memory + half * S::COLUMNS + c);
            gpu_tmem_wait(slice);
#pragma unroll
            for (int i = 0; i < GPU_TMEM_READ; i++) sum[c + i] = own.onto(sum[c + i], slice[i]);
        }
        gpu_tmem_before();
        __syncwarp();
        if (threadIdx.x % GPU_WARP == 0) gpu_barrier_arrive(ring.free + half);
    }
}

/* ---- the kernel ---- */

/* By all of a block, when its barriers are made and its tensor memory is taken: the address of this. */
template <class R>
GPU_INLINE uint32_t tmem_meet(const R &ring) {
    gpu_tmem_before();
    gpu_group_show(); /* barriers; and copies are written over strips */
    group_meet();
    gpu_tmem_after();
    return *ring.address;
}

/* Does the engine bring them? Else what fills buffers through registers: tensor_reads, or its like. */
template <class F>
struct tmem_way {
    enum { BULK = std::is_same<F, group_bulk>::value };
    typedef typename std::conditional<BULK, tensor_reads, F>::type reads;
};

/* op(a) is transposed in memory (TA); op(b) is not (B_CROSSED). */
template <class N, class S, class F, bool TA, bool B_CROSSED, class E>
__global__ void __launch_bounds__((tmem_roles<S, tmem_way<F>::BULK>::THREADS), S::BLOCKS)
    matmul_tmem_kernel(const __grid_constant__ tensor_product<typename F::operand> p, N numbers, E e) {
#if !GPU_HAS_TMEM
    __trap(); /* other code for this GPU was taken than that of 100a */
#else
    constexpr bool BULK = tmem_way<F>::BULK;
    typedef tensor_feed<S, typename tmem_way<F>::reads, N::BYTES, TA, B_CROSSED> feed;
    typedef tmem_roles<S, BULK> roles;
    GPU_SHARED(unsigned char, all);
    tmem_ring<S, BULK> ring;
    ring.open(all);
    const tensor_place at = tensor_place_of<S>(p.a.lines, p.b.lines);
    const int stages = (int)((p.depth + feed::DEPTHS - 1) / feed::DEPTHS);
    if (threadIdx.x == 0) ring.make();
    if constexpr (roles::GIVES)
        if (!roles::adds()) gpu_registers_give<roles::FEW>();
    if (roles::brings()) {
        tmem_meet(ring);
        if constexpr (!BULK)
            tmem_read_all<S, feed>(p, ring, at, stages);
        else if (threadIdx.x % GPU_WARP == 0)
            group_bring_all<S, feed>(p, ring, at, stages);
        group_meet();
    } else if (roles::multiplies()) {
        gpu_tmem_take<S::TAKEN>(ring.address);
        const uint32_t memory = tmem_meet(ring);
        if (threadIdx.x % GPU_WARP == 0) tmem_multiply_all<N, S, feed>(ring, memory, stages);
        group_meet(); /* all that was multiplied has been read */
        __syncwarp();
        gpu_tmem_after();
        gpu_tmem_give<S::TAKEN>(memory);
    } else if (!roles::adds()) {
        tmem_meet(ring);
        group_meet();
    } else {
        if constexpr (roles::GIVES) gpu_registers_take<roles::MANY>();
        const int64_t row = at.row + roles::first_line(), column = at.column + roles::column();
        float *strip = (float *)ring.stages + roles::warp() * GPU_WARP * S::STRIP;
        float sum[S::OWN];
#pragma unroll
        for (int i = 0; i < S::OWN; i++) sum[i] = 0;
        if (p.starts) tmem_before<S>(p, e, strip, row, column, sum);
        const uint32_t memory = tmem_meet(ring) + roles::mine();
        typename N::line own;
        own.open(numbers, row + (int)threadIdx.x % GPU_WARP, column);
        tmem_add_all<N, S, feed>(ring, own, memory, stages, sum);
        gpu_tmem_before();
        group_meet();
        tmem_end<S>(p, e, strip, row, column, sum);
    }
#endif
}

/* ---- launching ---- */

/* Both operands of the same 16 bits, on 10.0, where its own instructions are asked for. */
static inline bool matmul_tmem_accepts(const op_call *c) {
    return gpu_tmem_known(c->capability) && instructions_groups(CONFIRM_TMEM, c->capability) &&
           matmul_tensor_accepts(c);
}

typedef tmem_tile<256, 2, 4, 1> tmem_wide;
typedef tmem_tile<64, 1, 4, 2> tmem_small;
typedef tmem_tile<64, 1, 4, 1> tmem_least; /* what comes through registers leaves few for two blocks */
enum { TMEM_WORK_WIDE = 6, TMEM_WORK_SMALL = 12 }; /* of a sum, in cycles of the table above */

template <class S, class F, bool TA, bool B_CROSSED, class N, class E>
static void tmem_launch(const tensor_product<typename F::operand> &p, const N &numbers, const E &e) {
    constexpr bool BULK = tmem_way<F>::BULK;
    const int shared = tmem_ring<S, BULK>::SHARED;
    GPU_SHARED_MOST((matmul_tmem_kernel<N, S, F, TA, B_CROSSED, E>), shared);
    GPU_LAUNCH((matmul_tmem_kernel<N, S, F, TA, B_CROSSED, E>),
               gpu_blocks(p.a.lines, S::ROWS) * gpu_blocks(p.b.lines, S::COLUMNS),
               (tmem_roles<S, BULK>::THREADS), shared, p, numbers, e);
}

/* False: the engine can't bring an operand, and nothing was launched. */
template <class S, bool TA, bool B_CROSSED, class N, class E>
static bool tmem_bulk_launch(const tensor_product<tensor_operand> &p, const N &numbers, const E &e) {
    typedef tensor_feed<S, tensor_reads, N::BYTES, TA, B_CROSSED> feed;
    tensor_product<group_bulk_operand> q = {};
    if (!group_bulk_of<typename feed::of_a, TA, N::BYTES>(p.a, p.depth, &q.a) ||
        !group_bulk_of<typename feed::of_b, B_CROSSED, N::BYTES>(p.b, p.depth, &q.b))
        return false;
    q.depth = p.depth, q.starts = p.starts;
    tmem_launch<S, group_bulk, TA, B_CROSSED>(q, numbers, e);
    return true;
}

/* In the way that goes with where it lies, and in the tile that goes with its size. */
struct tensor_in_tmem {
    template <bool TA, bool B_CROSSED, class N, class E>
    static void choose(const tensor_product<tensor_operand> &p, const N &numbers, const E &e) {
        bool wide = group_cost<tmem_wide>(p, TMEM_WORK_WIDE) <= group_cost<tmem_small>(p, TMEM_WORK_SMALL);
        if (wide ? !tmem_bulk_launch<tmem_wide, TA, B_CROSSED>(p, numbers, e)
                 : !tmem_bulk_launch<tmem_small, TA, B_CROSSED>(p, numbers, e))
            tmem_launch<tmem_least, tensor_reads, TA, B_CROSSED>(p, numbers, e);
    }
};

/* The plain product's (matmul_tmem_cuda.cu). */
void matmul_tmem_run(const op_call *c);
