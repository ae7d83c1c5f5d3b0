/* Sums over rows in the CPU's order (ops/row_tiles.h): shares of 32 rows, one row after the other; eight
 * shares to a tile; tile after tile onto the accumulator. A block takes a tile of rows and 32 columns, a
 * warp a share of it. What bounds it: memory, as each number is read once for one addition. Few columns make
 * few blocks, and then a block's time to read its 32 rows one after the other does. */
#pragma once

#include "ops/cuda.h"

extern "C" {
#include "ops/row_tiles.h"
}

enum { CUDA_TILE_SHARES = THREADS_ROW_TILE / ROW_TILES_SHARE };
static_assert(CUDA_TILE_SHARES * GPU_WARP == GPU_BLOCK, "a warp for each share");

/* What rows first .. last-1 have in a column. Who knows how reads some of them at a time. */
template <class F, int COUNT>
GPU_INLINE void cuda_tiles_add(const F &f, int64_t first, int64_t last, int64_t column, float (&sum)[COUNT]) {
    for (int64_t row = first; row < last; row++) f.add(row, column, sum);
}

/* tiles (tile, sum, column). f.add(row, column, sum[COUNT]) adds what a row has. */
template <class F, int COUNT>
__global__ void __launch_bounds__(GPU_BLOCK)
    cuda_tiles_kernel(F f, int64_t rows, int64_t width, float *tiles) {
    GPU_SHARED(float, shares); /* (share, sum, lane) */
    int lane = (int)threadIdx.x % GPU_WARP, share = (int)threadIdx.x / GPU_WARP;
    int64_t column = (int64_t)blockIdx.x * GPU_WARP + lane, tile = blockIdx.y;
    int64_t first = tile * THREADS_ROW_TILE + share * ROW_TILES_SHARE, last = first + ROW_TILES_SHARE;
    if (last > rows) last = rows;
    float sum[COUNT];
    for (int s = 0; s < COUNT; s++) sum[s] = 0;
    if (column < width) cuda_tiles_add(f, first, last, column, sum);
    for (int s = 0; s < COUNT; s++) shares[(share * COUNT + s) * GPU_WARP + lane] = sum[s];
    __syncthreads();
    if (share >= COUNT || column >= width) return;
    float whole = 0;
    for (int i = 0; i < CUDA_TILE_SHARES && tile * THREADS_ROW_TILE + i * ROW_TILES_SHARE < rows; i++)
        whole += shares[(i * COUNT + share) * GPU_WARP + lane];
    tiles[(tile * COUNT + share) * width + column] = whole;
}

/* Where a sum goes, in f32. */
struct cuda_tiles_sum {
    const float *accumulator; /* (width); NULL: zeros; may be `out` */
    float *out;               /* (width); NULL: not wanted */
};

static_assert(ROW_TILES_SUMS == 2, "one or the other");
struct cuda_tiles_gather {
    const float *tiles;
    int64_t count, width, step; /* of tiles: their number; a sum's; from one to the next */
    cuda_tiles_sum to[ROW_TILES_SUMS];

    __device__ __forceinline__ void operator()(int64_t i) const {
        int64_t s = i / width, column = i % width;
        cuda_tiles_sum into = s ? to[1] : to[0]; /* no address: it would ask for a stack */
        if (!into.out) return;
        float sum = into.accumulator ? into.accumulator[column] : 0;
        for (int64_t t = 0; t < count; t++) sum = sum + tiles[t * step + i];
        into.out[column] = sum;
    }
};

static inline uint64_t cuda_tiles_scratch(int64_t rows, int64_t width, int count) {
    return (uint64_t)((rows + THREADS_ROW_TILE - 1) / THREADS_ROW_TILE * width * count) * sizeof(float);
}

/* Tile after tile of rows onto the accumulators; `apart`: tiles stand so many times their size apart. */
template <int COUNT>
static void cuda_tiles_gathered(const float *tiles, int apart, int64_t rows, int64_t width,
                                const cuda_tiles_sum (&to)[COUNT]) {
    static_assert(COUNT <= ROW_TILES_SUMS, "room for so many");
    cuda_tiles_gather gather = {
        tiles, (rows + THREADS_ROW_TILE - 1) / THREADS_ROW_TILE, width, apart * COUNT * width, {}
    };
    for (int s = 0; s < COUNT; s++) gather.to[s] = to[s];
    cuda_each(width * COUNT, gather);
}

/* The call's scratch is used from its start, cuda_tiles_scratch bytes of it. */
template <int COUNT, class F>
static void cuda_tiles(const op_call *c, const F &f, int64_t rows, int64_t width,
                       const cuda_tiles_sum (&to)[COUNT]) {
    int64_t tiles = (rows + THREADS_ROW_TILE - 1) / THREADS_ROW_TILE;
    float *scratch = (float *)c->scratch;
    if (rows > 0)
        GPU_LAUNCH((cuda_tiles_kernel<F, COUNT>), dim3(gpu_blocks(width, GPU_WARP), (unsigned)tiles),
                   GPU_BLOCK, GPU_BLOCK * COUNT * sizeof(float), f, rows, width, scratch);
    cuda_tiles_gathered(scratch, 1, rows, width, to);
}
