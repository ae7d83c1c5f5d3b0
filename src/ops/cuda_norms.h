/* Norms of rows up to CUDA_KEPT wide, which read each row once, and their parameters once for some rows. A
 * block has some rows in shared memory: a warp makes the sums of each, then all threads make results, each
 * the columns t, t + GPU_BLOCK and so on, of which it has the parameters in registers.
 *
 *   a norm N      x, y (spans); gamma_of(column), beta_of(column)
 *                 measured(row, kept)                        by a warp; what is stored of a row it stores
 *                 value(x, measure, gamma, beta)
 *   a slope S     SUMS over rows: of dy normal, and of dy if there are two
 *                 x, dy, before, dx (spans); gamma_of(column); moments_of(row)
 *                 normal(x, moments), averages(u, normal, width), slope(u, normal, moments, averages) */
#pragma once

#include "ops/cuda_rows.h"
#include "ops/cuda_tiles.h"

enum { CUDA_NORM_COLUMNS = CUDA_KEPT / GPU_BLOCK /* of a thread */, CUDA_NORM_ROWS = 8 /* of a block */ };

struct cuda_moments { /* of a row: what norms and their slopes know of it */
    float mean, rstd;
};
struct cuda_averages { /* of the slopes u = dy gamma of a row: of u, and of u normal */
    float u, un;
};

/* f(q, column) for the thread's columns. */
template <class F>
GPU_INLINE void cuda_norm_columns(int width, const F &f) {
#pragma unroll
    for (int q = 0; q < CUDA_NORM_COLUMNS; q++) {
        int column = (int)threadIdx.x + q * GPU_BLOCK;
        if (column < width) f(q, column);
    }
}

template <class N>
__global__ void __launch_bounds__(GPU_BLOCK, 2)
    cuda_norm_kernel(N f, int64_t rows, int32_t width, int32_t together) {
    GPU_SHARED(float, kept); /* (row, column), then (row) moments */
    cuda_moments *moments = (cuda_moments *)(kept + together * width);
    float gamma[CUDA_NORM_COLUMNS], beta[CUDA_NORM_COLUMNS];
    cuda_norm_columns(width, [&](int q, int j) { gamma[q] = f.gamma_of(j), beta[q] = f.beta_of(j); });
    int warp = (int)threadIdx.x / GPU_WARP;
    int64_t first = (int64_t)blockIdx.x * CUDA_NORM_ROWS, last = first + CUDA_NORM_ROWS;
    if (last > rows) last = rows;
    for (; first < last; first += together) {
        int count = last - first < together ? (int)(last - first) : together;
        if (warp < count) {
            float *row = kept + warp * width;
#pragma unroll 8
            for (int j = cuda_lane(); j < width; j += GPU_WARP) row[j] = f.x.get((first + warp) * width + j);
            cuda_moments m = f.measured(first + warp, row);
            if (cuda_lane() == 0) moments[warp] = m;
        }
        __syncthreads();
        for (int r = 0; r < count; r++) {
            cuda_moments m = moments[r];
            cuda_norm_columns(width, [&](int q, int j) {
                f.y.set((first + r) * width + j, f.value(kept[r * width + j], m, gamma[q], beta[q]));
            });
        }
        __syncthreads();
    }
}

template <class N>
static void cuda_norm_rows(int64_t rows, int64_t width, const N &f) {
    enum { BESIDE = CUDA_ROWS * sizeof(cuda_moments) };
    int together = cuda_kept_rows(width * (int64_t)sizeof(float), BESIDE);
    if (rows > 0)
        GPU_LAUNCH((cuda_norm_kernel<N>), gpu_blocks(rows, CUDA_NORM_ROWS), GPU_BLOCK,
                   (size_t)(together * width) * sizeof(float) + BESIDE, f, rows, (int32_t)width, together);
}

/* ---- the gradient ----
 * A block has a share of rows (ops/row_tiles.h), and its threads the sums of their columns over it. What
 * stands in shared memory is seen by other threads only while a warp makes averages, between two barriers. */

template <int SUMS>
struct cuda_norm_own { /* of a thread's columns */
    float gamma[CUDA_NORM_COLUMNS], sum[SUMS][CUDA_NORM_COLUMNS];
};

/* Of the row that begins at `at`: adds to the sums; u and normal into shared memory. */
template <class S>
GPU_INLINE void cuda_norm_take(const S &f, int64_t at, const cuda_moments &m, cuda_norm_own<S::SUMS> &own,
                               float *u, float *normals) {
    cuda_norm_columns((int)f.width, [&](int q, int j) {
        float d = f.dy.get(at + j), normal = f.normal(f.x.get(at + j), m);
        own.sum[0][q] += d * normal;
        if (S::SUMS > 1) own.sum[S::SUMS - 1][q] += d;
        u[j] = d * own.gamma[q], normals[j] = normal;
    });
}

/* shares (share, sum, column) */
template <class S>
__global__ void __launch_bounds__(GPU_BLOCK, 2)
    cuda_norm_slope_kernel(S f, int64_t rows, int32_t width, int32_t together, float *shares) {
    GPU_SHARED(cuda_moments, moments); /* (row of the share); then averages, u and normal (row, column) */
    cuda_averages *averages = (cuda_averages *)(moments + ROW_TILES_SHARE);
    float *us = (float *)(averages + CUDA_ROWS), *normals = us + together * width;
    cuda_norm_own<S::SUMS> own;
    int warp = (int)threadIdx.x / GPU_WARP;
    int64_t first = (int64_t)blockIdx.x * ROW_TILES_SHARE;
    int share = rows - first < ROW_TILES_SHARE ? (int)(rows - first) : ROW_TILES_SHARE;
    if ((int)threadIdx.x < share) moments[threadIdx.x] = f.moments_of(first + threadIdx.x);
#pragma unroll
    for (int s = 0; s < S::SUMS; s++)
#pragma unroll
        for (int q = 0; q < CUDA_NORM_COLUMNS; q++) own.sum[s][q] = 0;
    cuda_norm_columns(width, [&](int q, int j) { own.gamma[q] = f.gamma_of(j); });
    __syncthreads();
    for (int row = 0; row < share; row += together) {
        int count = share - row < together ? share - row : together;
        for (int r = 0; r < count; r++)
            cuda_norm_take(f, (first + row + r) * width, moments[row + r], own, us + r * width,
                           normals + r * width);
        __syncthreads();
        if (warp < count) {
            cuda_averages a = f.averages(us + warp * width, normals + warp * width, width);
            if (cuda_lane() == 0) averages[warp] = a;
        }
        __syncthreads();
        for (int r = 0; r < count; r++)
            cuda_norm_columns(width, [&](int, int j) {
                int64_t i = (first + row + r) * width + j;
                float x = f.slope(us[r * width + j], normals[r * width + j], moments[row + r], averages[r]);
                f.dx.set(i, f.before.data ? f.before.get(i) + x : x);
            });
    }
#pragma unroll
    for (int s = 0; s < S::SUMS; s++)
        cuda_norm_columns(width, [&](int q, int j) {
            shares[((int64_t)blockIdx.x * S::SUMS + s) * width + j] = own.sum[s][q];
        });
}

/* The shares of each tile, one after the other, into the first. */
struct cuda_norm_tiles {
    float *shares;
    int64_t count, line; /* of shares; numbers of each */

    __device__ __forceinline__ void operator()(int64_t i) const {
        cuda_cell at = cuda_split(i, line);
        int64_t first = at.row * CUDA_TILE_SHARES;
        float sum = 0;
#pragma unroll
        for (int s = 0; s < CUDA_TILE_SHARES; s++)
            if (first + s < count) sum += shares[(first + s) * line + at.column];
        shares[first * line + at.column] = sum;
    }
};

static inline int64_t cuda_norm_shares(int64_t rows) {
    return (rows + ROW_TILES_SHARE - 1) / ROW_TILES_SHARE;
}

/* dx, and the sums over rows; those of wider rows too, which read them again. The call's scratch is used. */
template <class S>
static void cuda_norm_slopes(const op_call *c, int64_t rows, int64_t width, const S &f,
                             const cuda_tiles_sum (&to)[S::SUMS]) {
    if (width > CUDA_KEPT) {
        cuda_tiles(c, f, rows, width, to); /* before dx, which may live in x or dy */
        cuda_rows(rows, f);
        return;
    }
    enum { BESIDE = ROW_TILES_SHARE * sizeof(cuda_moments) + CUDA_ROWS * sizeof(cuda_averages) };
    float *shares = (float *)c->scratch;
    int64_t count = cuda_norm_shares(rows);
    int together = cuda_kept_rows(2 * width * (int64_t)sizeof(float), BESIDE);
    if (rows > 0)
        GPU_LAUNCH((cuda_norm_slope_kernel<S>), (unsigned)count, GPU_BLOCK,
                   (size_t)(2 * together * width) * sizeof(float) + BESIDE, f, rows, (int32_t)width, together,
                   shares);
    cuda_norm_tiles tiles = { shares, count, S::SUMS * width };
    cuda_each((count + CUDA_TILE_SHARES - 1) / CUDA_TILE_SHARES * tiles.line, tiles);
    cuda_tiles_gathered(shares, CUDA_TILE_SHARES, rows, width, to);
}

static inline uint64_t cuda_norm_scratch(int64_t rows, int64_t width, int sums) {
    if (width > CUDA_KEPT) return cuda_tiles_scratch(rows, width, sums);
    return (uint64_t)(cuda_norm_shares(rows) * width * sums) * sizeof(float);
}
