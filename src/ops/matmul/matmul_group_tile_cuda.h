/* Tiles of products by groups of warps (wgmma, capability 9.0): where a stage's operands lie in shared
 * memory, and how a stage is multiplied. What brings them there is another matter (matmul_group_cuda.h by
 * threads, matmul_group_bulk_cuda.h by the copy engine): both write the same bytes to the same places, in the
 * same stages, and so have the same sums.
 *
 * - Tensor cores read both operands from shared memory by themselves, so a warp keeps its sums in registers
 *   and nothing else: those of the slice, which an instruction adds to, and those so far. That is all there
 * is room for: 192 registers in the largest tile.
 * - A stage is one row of 128 bytes deep, 64 numbers of 16 bits or 128 of 8, swizzled as mma_group.h has it.
 *   Operands across their depths (a transposed, b not) are read as they lie, 64 lines in a row. Floats of 8
 *   bits have no such form: theirs come along the depth (matmul_fp8_group_cuda.cu says how).
 * - Products run beside the threads. A stage's are begun when it is here, and are waited for after those of
 *   the next are begun, but at a slice's end.
 *
 * All tiles begin with the same instruction's sums of 16 or 32 depths, whatever their columns, and add them
 * in the same order. Bits are not those of mma.sync, whose order within 16 depths may be another one, so runs
 * name the kind (run/products.h), and a plan has all its products of one kind. */
#pragma once

#include "device/cuda/mma_group.h"
#include "ops/matmul/matmul_tensor_cuda.h"

/* A tile in shared memory: lines of 64 words of depth, or (CROSSED) for each 64 lines the depths one after
 * the other. A row is 128 bytes either way, and threads fill it as they fill tensor_buffer's. */
template <int LINES, int DEPTHS, bool CROSSED, int THREADS>
struct group_buffer : tensor_buffer<LINES, DEPTHS, CROSSED, THREADS> {
    typedef tensor_buffer<LINES, DEPTHS, CROSSED, THREADS> filled;
    enum { WORDS = GPU_GROUP_ROW / 2 };
    static_assert((CROSSED ? LINES : DEPTHS) % WORDS == 0 && (int)filled::GROUP == 8, "rows are whole");

    GPU_MEMBER int place(int row, int eight) {
        return (eight / 8 * filled::HIGH + row) * WORDS + ((eight ^ row) & 7) * 8;
    }
    /* From `line` of the tile in this buffer on, a multiple of 64, or of 8 along the depth. */
    GPU_MEMBER uint64_t operand(const uint16_t *buffer, int line) {
        const int row = CROSSED ? line / WORDS * DEPTHS : line;
        return gpu_group_operand(buffer + row * WORDS, CROSSED ? DEPTHS * GPU_GROUP_ROW : 16,
                                 8 * GPU_GROUP_ROW);
    }
    /* Bytes from one instruction's depths to the next: it takes 16 words. */
    enum { STEP = CROSSED ? 16 * GPU_GROUP_ROW : 32 };
};

/* GROUPS of warps stand below each other, each with 64 x COLUMNS sums: warp w has 16 rows from 16 w on. */
template <int GROUPS, int COLUMNS_, int STAGES_, int BLOCKS_>
struct group_tile {
    enum {
        THREADS = GPU_GROUP * GROUPS,
        FRAGMENTS_DOWN = 1,
        FRAGMENTS_ACROSS = COLUMNS_ / 8,
        WARP_ROWS = 16,
        WARP_COLUMNS = COLUMNS_,
        ROWS = 64 * GROUPS,
        COLUMNS = COLUMNS_,
        DEPTHS = GPU_GROUP_ROW / 2, /* of a stage: words */
        STAGES = STAGES_,
        AHEAD = STAGES - 2,
        BLOCKS = BLOCKS_,
        STAGE = (ROWS + COLUMNS) * DEPTHS, /* words */
        STRIP = WARP_COLUMNS + 8,
        STRIPS = ROWS * STRIP * 4,
        SHARED = (STAGE * STAGES * 2 > STRIPS ? STAGE * STAGES * 2 : STRIPS) + GPU_GROUP_ALIGNED - 16
    };
    static_assert(STAGES > 2 && SHARED <= 227 << 10, "what a multiprocessor of 9.0 gives a block");
    template <int LINES, bool CROSSED>
    using buffer = group_buffer<LINES, DEPTHS, CROSSED, THREADS>;
};

/* A stage onto the sums of the slice, or as its first: begun. */
template <class N, class S, class F>
GPU_INLINE void group_multiply(tensor_sums<S> &slice, const uint16_t *stage, bool first) {
    const int group = (int)threadIdx.x / GPU_GROUP;
    const uint64_t a = F::of_a::operand(stage, group * 64), b = F::of_b::operand(stage + F::OF_A, 0);
    gpu_group_fence();
#pragma unroll
    for (int k = 0; k < S::DEPTHS / 16; k++)
        gpu_group_mma<F::A_IS_CROSSED, F::B_IS_CROSSED>(
            typename N::number(), slice[0], gpu_group_further(a, k * F::of_a::STEP),
            gpu_group_further(b, k * F::of_b::STEP), k > 0 || !first);
    gpu_group_commit();
}
