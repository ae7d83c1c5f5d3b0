/* Products by groups of warps (wgmma, capability 9.0): which way operands come, in which tile, and the kernel
 * whose threads bring them. Tiles, and what all ways have in common, stand in matmul_group_tile_cuda.h.
 *
 * Operands come by the copy engine (matmul_group_bulk_cuda.h). Where that can't read one, the kernel here
 * does it, with what brings operands in matmul_tensor_cuda.h: cp.async, or registers where lines don't begin
 * at 16 bytes or numbers are made of others. The sums are the same, bit for bit.
 *
 * In this kernel a stage's products are begun when it has come for all, and are waited for after those of the
 * next are begun. So a buffer is free two stages later, when all threads have met in between, and STAGES - 2
 * are under way. What comes by cp.async or through registers is written by threads, and tensor cores have to
 * be shown it (gpu_group_show) before all meet.
 *
 * What bounds it, reckoned from 128 bytes of shared memory and 2048 multiply-adds of 16 bits that a
 * multiprocessor has in a cycle. Of each 16 depths a group's tensor cores read 2 KiB of a and 32 bytes a
 * column of b, and as much as a tile has of both is written.
 *
 *   tile         tensor cores   shared memory read, written   sums a cycle
 *   128 x 192    192 cycles     128 + 80                      118
 *   128 x 128    128            96 + 64                       102
 *   64 x 64      32             32 + 32                       64
 *
 * So of a multiprocessor's own means shared memory bounds all three, the first of them at 0.92 of the peak;
 * and all of them by what the second cache gives (matmul_group_bulk_cuda.h). At a slice's end a group adds
 * its sums on: in the first tile 96 cycles beside 1536 of its products, in which tensor cores have the other
 * group's products, if any are left. Of 8 bits products take half as long and a slice has half the depths, so
 * these additions weigh four times as much. Nothing of it was measured: no GPU has run these kernels.
 *
 * Registers of a thread, by ptxas of CUDA 13.0 for sm_90a, without a stack or spills: 240 to 250 in 128 x
 * 192, 171 to 186 in 128 x 128 (254 where codes are widened), 163 to 168 in 128 x 64, 108 to 190 in 64 x 64.
 * The stages of a slice are a loop of their own, with the wait for all behind it: under a condition in one
 * loop, ptxas puts a wait after each stage (its message C7517), and products never run beside each other. */
#pragma once

#include <type_traits>

#include "ops/matmul/matmul_group_bulk_cuda.h"

/* op(a) is transposed in memory (TA); op(b) is not (B_CROSSED). */
template <class N, class S, class F, bool TA, bool B_CROSSED, class E>
__global__ void __launch_bounds__(S::THREADS, S::BLOCKS)
    matmul_group_kernel(tensor_product<typename F::operand> p, N numbers, E e) {
#if GPU_HAS_GROUPS
    typedef tensor_feed<S, F, N::BYTES, TA, B_CROSSED> feed;
    enum { STAGES_OF_SLICE = N::SLICE / feed::DEPTHS };
    static_assert(N::SLICE % feed::DEPTHS == 0, "a slice ends with a stage");
    GPU_SHARED(unsigned char, all);
    uint16_t *shared = (uint16_t *)gpu_group_aligned(all);
    const tensor_place at = tensor_place_of<S>(p.a.lines, p.b.lines);
    const int warp = (int)threadIdx.x / GPU_WARP, row = warp * S::WARP_ROWS;
    float *strip = (float *)shared + row * S::STRIP;
    tensor_sums<S> sum, slice;
    typename N::template sums<S> own;
    tensor_each_sum<S>([&](int i, int j, int k) { sum[i][j][k] = slice[i][j][k] = 0; });
    if (p.starts) {
        tensor_before<S>(p, e, strip, at.row + row, at.column, sum);
        __syncthreads();
    }
    feed f;
    f.a.open(p.a, at.row), f.b.open(p.b, at.column), f.depths_left = p.depth;
    own.open(numbers, at.row + row, at.column);
#pragma unroll 1
    for (int s = 0; s < feed::AHEAD; s++) f.begin(shared + s * S::STAGE), f.finish(shared + s * S::STAGE);
    int stages = (int)((p.depth + feed::DEPTHS - 1) / feed::DEPTHS), here = 0, fill = feed::AHEAD;
#pragma unroll 1
    for (int n = 0; stages > 0; n++, stages -= STAGES_OF_SLICE) {
        const int of_slice = stages < STAGES_OF_SLICE ? stages : (int)STAGES_OF_SLICE;
        own.begin(n);
#pragma unroll 1
        for (int t = 0; t < of_slice; t++) {
            f.arrived();
            gpu_group_show();
            __syncthreads(); /* the stage is here for all, and products of the one before the last are done */
            group_multiply<N, S, feed>(slice, shared + here * S::STAGE, t == 0);
            f.begin(shared + fill * S::STAGE);
            f.finish(shared + fill * S::STAGE);
            here = here + 1 == S::STAGES ? 0 : here + 1, fill = fill + 1 == S::STAGES ? 0 : fill + 1;
            gpu_group_wait<1>();
        }
        gpu_group_wait<0>(slice[0]);
        own.end(n, slice, sum);
    }
    f.end();
    __syncthreads();
    tensor_end<S>(p, e, strip, at.row + row, at.column, sum);
#endif
}

/* ---- launching ---- */

/* Both operands of the same 16 bits, on 9.0, where groups are asked for. */
static inline bool matmul_group_accepts(const op_call *c) {
    return gpu_group_known(c->capability) && instructions_groups(CONFIRM_GROUPS, c->capability) &&
           matmul_tensor_accepts(c);
}

typedef group_tile<2, 192, 5, 1> group_wide;
typedef group_tile<2, 128, 6, 1> group_large;
typedef group_tile<2, 64, 4, 1> group_slim; /* what comes through registers leaves few for sums */
typedef group_tile<1, 64, 4, 3> group_small;
typedef group_tile<1, 64, 4, 2> group_least; /* the same, of which two fit: what comes through registers */

/* A way beside those of matmul_tensor_cuda.h: by the copy engine, or where that can't, as tensor_copies. */
struct group_bulk {
    typedef group_bulk_operand operand;
};

template <class S, class F, bool TA, bool B_CROSSED, class P, class N, class E>
static void group_launch(const P &p, const N &numbers, const E &e) {
    if constexpr (std::is_same<F, group_bulk>::value) {
        if (!group_bulk_launch<S, TA, B_CROSSED>(p, numbers, e))
            group_launch<S, tensor_copies, TA, B_CROSSED>(p, numbers, e);
    } else {
        GPU_SHARED_MOST((matmul_group_kernel<N, S, F, TA, B_CROSSED, E>), S::SHARED);
        GPU_LAUNCH((matmul_group_kernel<N, S, F, TA, B_CROSSED, E>),
                   gpu_blocks(p.a.lines, S::ROWS) * gpu_blocks(p.b.lines, S::COLUMNS), S::THREADS, S::SHARED,
                   p, numbers, e);
    }
}

/* How long a product takes in tiles of S, in some unit: of the multiprocessor that has the most of them. A
 * sum costs `work`: the cycles of the table above. */
template <class S, class P>
static inline uint64_t group_cost(const P &p, unsigned work) {
    uint64_t blocks = (uint64_t)gpu_blocks(p.a.lines, S::ROWS) * gpu_blocks(p.b.lines, S::COLUMNS);
    uint64_t beside = gpu_size_here().multiprocessors;
    return (blocks + beside - 1) / beside * S::ROWS * S::COLUMNS * work;
}
enum { GROUP_WORK_WIDE = 10, GROUP_WORK_LARGE = 12, GROUP_WORK_SLIM = 15, GROUP_WORK_SMALL = 18 };

/* In tiles that go with its size. M: the largest; WORK: what its sums cost. */
template <class M, int WORK, class F, bool TA, bool B_CROSSED, class P, class N, class E>
static void group_sized(const P &p, const N &numbers, const E &e) {
    typedef
        typename std::conditional<std::is_same<F, group_bulk>::value, group_small, group_least>::type least;
    if (group_cost<M>(p, WORK) <= group_cost<group_small>(p, GROUP_WORK_SMALL))
        group_launch<M, F, TA, B_CROSSED>(p, numbers, e);
    else
        group_launch<least, F, TA, B_CROSSED>(p, numbers, e);
}

/* And in the way that goes with where it lies: what lies at 16 bytes comes by bulk. WIDE: tiles may have more
 * than 128 columns. */
template <bool WIDE>
struct tensor_by_groups {
    template <bool TA, bool B_CROSSED, class N, class E>
    static void choose(const tensor_product<tensor_operand> &p, const N &numbers, const E &e) {
        if (!tensor_packed(p.a) || !tensor_packed(p.b)) {
            group_sized<group_slim, GROUP_WORK_SLIM, tensor_reads, TA, B_CROSSED>(p, numbers, e);
            return;
        }
        if constexpr (WIDE) {
            if (group_cost<group_wide>(p, GROUP_WORK_WIDE) < group_cost<group_large>(p, GROUP_WORK_LARGE)) {
                group_sized<group_wide, GROUP_WORK_WIDE, group_bulk, TA, B_CROSSED>(p, numbers, e);
                return;
            }
        }
        group_sized<group_large, GROUP_WORK_LARGE, group_bulk, TA, B_CROSSED>(p, numbers, e);
    }
};

/* The plain product's (matmul_group_cuda.cu). */
void matmul_group_run(const op_call *c);
