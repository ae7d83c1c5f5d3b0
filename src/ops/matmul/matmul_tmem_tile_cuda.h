/* Tiles of products in tensor memory (tcgen05, capability 10.0): who of a block does what, where its shared
 * memory and its sums lie, and how sums pass to and from memory.
 *
 * A stage's operands lie as those of groups of warps (matmul_group_tile_cuda.h), whoever brings them. Tensor
 * memory has the sums of two slices of 128 x COLUMNS, so that the products of the next one are made while
 * threads read the last one's and add them to theirs: each of those has a line's sums, OWN of them, in its
 * registers. */
#pragma once

#include "device/cuda/mma_tmem.h"
#include "ops/matmul/matmul_group_bulk_cuda.h"

/* group_buffer, told as tcgen05 wants it. */
template <int LINES, int DEPTHS, bool CROSSED, int THREADS>
struct tmem_buffer : group_buffer<LINES, DEPTHS, CROSSED, THREADS> {
    GPU_MEMBER uint64_t operand(const uint16_t *buffer) {
        return gpu_tmem_operand(buffer, CROSSED ? DEPTHS * GPU_GROUP_ROW : 16, 8 * GPU_GROUP_ROW);
    }
};

/* GROUPS of four warps add, each its own columns. */
template <int COLUMNS_, int GROUPS_, int STAGES_, int BLOCKS_>
struct tmem_tile {
    enum {
        ROWS = GPU_TMEM_LINES,
        COLUMNS = COLUMNS_,
        GROUPS = GROUPS_,
        ADDING = GPU_GROUP * GROUPS, /* threads */
        OWN = COLUMNS / GROUPS,
        TAKEN = 2 * COLUMNS,        /* columns of tensor memory */
        DEPTHS = GPU_GROUP_ROW / 2, /* of a stage */
        STAGES = STAGES_,
        AHEAD = STAGES,
        BLOCKS = BLOCKS_,
        STAGE = (ROWS + COLUMNS) * DEPTHS, /* words */
        WARP_COLUMNS = OWN,
        STRIP = OWN + 4, /* floats: eight lanes that write sixteen bytes each find all banks */
        STRIPS = ADDING * STRIP * 4,
        RING = STAGE * STAGES * 2 > STRIPS ? STAGE *STAGES * 2 : STRIPS
    };
    static_assert(TAKEN * BLOCKS <= GPU_TMEM_COLUMNS && (TAKEN & (TAKEN - 1)) == 0, "what there is");
    static_assert(OWN % GPU_TMEM_READ == 0, "threads read whole pieces");
    template <int LINES, bool CROSSED>
    using buffer = tmem_buffer<LINES, DEPTHS, CROSSED, GPU_GROUP>;
};

/* Who brings: one thread of a warp (the copy engine's, behind the others), or the block's first four warps,
 * since fillers count threads from 0. One warp multiplies, by its first lane, and takes the tensor memory. */
template <class S, bool BULK>
struct tmem_roles {
    enum {
        ADDS_FROM = BULK ? 0 : (int)GPU_GROUP,
        MULTIPLIES = ADDS_FROM + S::ADDING,
        BRINGS_FROM = BULK ? (int)MULTIPLIES + GPU_WARP : 0,
        BRINGING = BULK ? (int)GPU_WARP : (int)GPU_GROUP,
        /* Where more than one group adds, sums take more registers than a thread has when the block begins.
         * Then those who multiply and bring are a whole group, of which two warps do nothing, and give
         * theirs. */
        GIVES = BULK && S::GROUPS > 1,
        THREADS = S::ADDING + (GIVES ? (int)GPU_GROUP : GPU_WARP + BRINGING),
        FEW = 56, /* registers of a thread, when they have changed hands */
        MANY = 224
    };
    static_assert(!GIVES || (MANY * S::ADDING + FEW * GPU_GROUP) * S::BLOCKS <= GPU_TMEM_REGISTERS,
                  "all there are");
    GPU_MEMBER bool is(int first, int count) {
        return (int)threadIdx.x >= first && (int)threadIdx.x < first + count;
    }
    GPU_MEMBER bool adds() { return is(ADDS_FROM, S::ADDING); }
    GPU_MEMBER bool multiplies() { return is(MULTIPLIES, GPU_WARP); }
    GPU_MEMBER bool brings() { return is(BRINGS_FROM, BRINGING); }
    /* Of a thread that adds: its warp among those, the warp's first line and column of the tile, and where
     * they are in tensor memory. */
    GPU_MEMBER int warp() { return ((int)threadIdx.x - ADDS_FROM) / GPU_WARP; }
    GPU_MEMBER int first_line() { return warp() % 4 * GPU_WARP; }
    GPU_MEMBER int column() { return warp() / 4 * S::OWN; }
    GPU_MEMBER uint32_t mine() { return (uint32_t)first_line() << 16 | (uint32_t)column(); }
};

/* A block's stages, and behind them its barriers: a stage has come; its products are done; of either half of
 * tensor memory, a slice's products are done, and threads have read them. Then the address of that memory. */
template <class S, bool BULK>
struct tmem_ring {
    enum {
        STAGE_BYTES = S::STAGE * 2,
        BARRIERS = 2 * S::STAGES + 4,
        SHARED = S::RING + BARRIERS * (int)sizeof(gpu_barrier) + 16 + GPU_GROUP_ALIGNED - 16
    };
    static_assert((int)SHARED * S::BLOCKS <= 227 << 10, "what a multiprocessor of 10.0 gives its blocks");
    uint16_t *stages;
    gpu_barrier *full, *empty, *ready, *free;
    uint32_t *address;

    __device__ __forceinline__ void open(unsigned char *shared) {
        unsigned char *aligned = gpu_group_aligned(shared);
        stages = (uint16_t *)aligned;
        full = (gpu_barrier *)(aligned + S::RING), empty = full + S::STAGES;
        ready = empty + S::STAGES, free = ready + 2;
        address = (uint32_t *)(free + 2);
    }
    /* By one thread. */
    __device__ __forceinline__ void make() const {
#pragma unroll 1
        for (int s = 0; s < S::STAGES; s++)
            gpu_barrier_make(full + s, BULK ? 1 : GPU_GROUP), gpu_barrier_make(empty + s, 1);
#pragma unroll 1
        for (int h = 0; h < 2; h++)
            gpu_barrier_make(ready + h, 1), gpu_barrier_make(free + h, S::ADDING / GPU_WARP);
    }
    __device__ __forceinline__ uint16_t *stage(int n) const { return stages + n * S::STAGE; }
};

/* ---- sums ---- */

/* A warp's lines pass through its strip: a lane has a line's sums, memory has lines one after the other. */
template <class S, class P, class E>
GPU_INLINE void tmem_before(const P &p, const E &e, float *strip, int64_t row, int64_t column,
                            float (&sum)[S::OWN]) {
    const float *mine = strip + (int)threadIdx.x % GPU_WARP * S::STRIP;
    tensor_each_of_strip<GPU_WARP, S>(
        p, row, column, e.fours, [&](int at, int64_t r, int64_t c) { tensor_bring(e, strip + at, r, c); });
    __syncwarp();
#pragma unroll
    for (int i = 0; i < S::OWN; i += 4) {
        float four[4];
        gpu_get4(mine + i, four);
#pragma unroll
        for (int k = 0; k < 4; k++) sum[i + k] = four[k];
    }
    __syncwarp();
}

template <class S, class P, class E>
GPU_INLINE void tmem_end(const P &p, const E &e, float *strip, int64_t row, int64_t column,
                         const float (&sum)[S::OWN]) {
    float *mine = strip + (int)threadIdx.x % GPU_WARP * S::STRIP;
#pragma unroll
    for (int i = 0; i < S::OWN; i += 4) {
        const float four[4] = { sum[i], sum[i + 1], sum[i + 2], sum[i + 3] };
        gpu_set4(mine + i, four);
    }
    __syncwarp();
    tensor_each_of_strip<GPU_WARP, S>(
        p, row, column, e.fours, [&](int at, int64_t r, int64_t c) { tensor_give(e, strip + at, r, c); });
}
