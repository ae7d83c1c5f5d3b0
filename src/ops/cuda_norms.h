/* Norms of rows up to CUDA_KEPT wide, which read each row once, and their parameters once for some rows. A
 * block has some rows in shared memory: a warp makes the sums of each, then all threads make results, each
 * the columns t, t + GPU_BLOCK and so on, of which it has the parameters in registers.
 *
 * What bounds them: memory, as each row is read once and written once.
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
enum { CUDA_NORM_AHEAD = 8 /* numbers of a row that a thread reads before it keeps the first */ };

struct cuda_moments { /* of a row: what norms and their slopes know of it */
    float mean, rstd;
};
struct cuda_averages { /* of the slopes u = dy gamma of a row: of u, and of u normal */
    float u, un;
};

/* f(q, column) for the thread's columns, of which there are at most COLUMNS. */
template <int COLUMNS = CUDA_NORM_COLUMNS, class F>
GPU_INLINE void cuda_norm_columns(int width, const F &f) {
#pragma unroll
    for (int q = 0; q < COLUMNS; q++) {
        int column = (int)threadIdx.x + q * GPU_BLOCK;
        if (column < width) f(q, column);
    }
}

/* A row into shared memory, by a warp. */
GPU_INLINE void cuda_norm_keep(const cuda_span &x, int64_t at, int width, float *row) {
    for (int j = cuda_lane(); j < width; j += GPU_WARP * CUDA_NORM_AHEAD) {
        float some[CUDA_NORM_AHEAD];
        x.get_some(at + j, GPU_WARP, at + width, some);
#pragma unroll
        for (int k = 0; k < CUDA_NORM_AHEAD; k++)
            if (j + k * GPU_WARP < width) row[j + k * GPU_WARP] = some[k];
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
            cuda_norm_keep(f.x, (first + warp) * width, width, row);
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

template <int SUMS, int COLUMNS>
struct cuda_norm_own { /* of a thread's columns */
    float gamma[COLUMNS], sum[SUMS][COLUMNS];
};

/* The thread's numbers of up to ROWS rows, `count` of which are there: all of them are on their way at a
 * time. */
template <int ROWS, int COLUMNS>
GPU_INLINE void cuda_norm_read(const cuda_span &x, int64_t at, int64_t width, int count,
                               float (&to)[ROWS][COLUMNS]) {
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        x.get_some(at + r * width + threadIdx.x, GPU_BLOCK, r < count ? at + (r + 1) * width : 0, to[r]);
}

/* Some rows, up to ROWS of them, which begin at `at`: what is known of each, and where u and normal stand. */
struct cuda_norm_some {
    int64_t at;
    int count;
    const cuda_moments *moments;
    const cuda_averages *averages;
    float *us, *normals;
};

/* Adds to the sums; u and normal into shared memory. */
template <int ROWS, int COLUMNS, class S>
GPU_INLINE void cuda_norm_take(const S &f, const cuda_norm_some &some, cuda_norm_own<S::SUMS, COLUMNS> &own) {
    float d[ROWS][COLUMNS], x[ROWS][COLUMNS];
    cuda_norm_read<ROWS, COLUMNS>(f.dy, some.at, f.width, some.count, d);
    cuda_norm_read<ROWS, COLUMNS>(f.x, some.at, f.width, some.count, x);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        if (r >= some.count) continue;
        int row = r * (int)f.width;
        cuda_norm_columns<COLUMNS>((int)f.width, [&](int q, int j) {
            float normal = f.normal(x[r][q], some.moments[r]);
            own.sum[0][q] += d[r][q] * normal;
            if (S::SUMS > 1) own.sum[S::SUMS - 1][q] += d[r][q];
            some.us[row + j] = d[r][q] * own.gamma[q], some.normals[row + j] = normal;
        });
    }
}

/* dx */
template <int ROWS, int COLUMNS, class S>
GPU_INLINE void cuda_norm_give(const S &f, const cuda_norm_some &some) {
    float before[ROWS][COLUMNS];
    if (f.before.data) cuda_norm_read<ROWS, COLUMNS>(f.before, some.at, f.width, some.count, before);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        if (r >= some.count) continue;
        int row = r * (int)f.width;
        cuda_norm_columns<COLUMNS>((int)f.width, [&](int q, int j) {
            float x = f.slope(some.us[row + j], some.normals[row + j], some.moments[r], some.averages[r]);
            f.dx.set(some.at + row + j, f.before.data ? before[r][q] + x : x);
        });
    }
}

/* shares (share, sum, column). Rows are read ROWS at a time. */
template <class S, int ROWS, int COLUMNS>
__global__ void __launch_bounds__(GPU_BLOCK, 2)
    cuda_norm_slope_kernel(S f, int64_t rows, int32_t width, int32_t together, float *shares) {
    GPU_SHARED(cuda_moments, moments); /* (row of the share); then averages, u and normal (row, column) */
    cuda_averages *averages = (cuda_averages *)(moments + ROW_TILES_SHARE);
    float *us = (float *)(averages + CUDA_ROWS), *normals = us + together * width;
    cuda_norm_own<S::SUMS, COLUMNS> own;
    int warp = (int)threadIdx.x / GPU_WARP;
    int64_t first = (int64_t)blockIdx.x * ROW_TILES_SHARE;
    int share = rows - first < ROW_TILES_SHARE ? (int)(rows - first) : ROW_TILES_SHARE;
    if ((int)threadIdx.x < share) moments[threadIdx.x] = f.moments_of(first + threadIdx.x);
#pragma unroll
    for (int s = 0; s < S::SUMS; s++)
#pragma unroll
        for (int q = 0; q < COLUMNS; q++) own.sum[s][q] = 0;
    cuda_norm_columns<COLUMNS>(width, [&](int q, int j) { own.gamma[q] = f.gamma_of(j); });
    __syncthreads();
    for (int row = 0; row < share; row += together) {
        int count = share - row < together ? share - row : together;
        auto some = [&](int r) {
            cuda_norm_some x = {
                (first + row + r) * width, count - r, moments + row + r, averages + r, us + r * width,
                normals + r * width
            };
            return x;
        };
        for (int r = 0; r < count; r += ROWS) cuda_norm_take<ROWS, COLUMNS>(f, some(r), own);
        __syncthreads();
        if (warp < count) {
            cuda_averages a = f.averages(us + warp * width, normals + warp * width, width);
            if (cuda_lane() == 0) averages[warp] = a;
        }
        __syncthreads();
        for (int r = 0; r < count; r += ROWS) cuda_norm_give<ROWS, COLUMNS>(f, some(r));
    }
#pragma unroll
    for (int s = 0; s < S::SUMS; s++)
        cuda_norm_columns<COLUMNS>(width, [&](int q, int j) {
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

/* Threads read ROWS rows at a time, with COLUMNS numbers of each. */
template <int ROWS, class S>
static void cuda_norm_slope_launch(const S &f, int64_t rows, int64_t width, float *shares) {
    enum {
        COLUMNS = CUDA_NORM_COLUMNS / ROWS,
        BESIDE = ROW_TILES_SHARE * sizeof(cuda_moments) + CUDA_ROWS * sizeof(cuda_averages)
    };
    int together = cuda_kept_rows(2 * width * (int64_t)sizeof(float), BESIDE);
    GPU_LAUNCH((cuda_norm_slope_kernel<S, ROWS, COLUMNS>), (unsigned)cuda_norm_shares(rows), GPU_BLOCK,
               (size_t)(2 * together * width) * sizeof(float) + BESIDE, f, rows, (int32_t)width, together,
               shares);
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
    float *shares = (float *)c->scratch;
    int64_t count = cuda_norm_shares(rows);
    if (rows > 0) {
        if (width <= CUDA_KEPT / 4)
            cuda_norm_slope_launch<4>(f, rows, width, shares);
        else if (width <= CUDA_KEPT / 2)
            cuda_norm_slope_launch<2>(f, rows, width, shares);
        else
            cuda_norm_slope_launch<1>(f, rows, width, shares);
    }
    cuda_norm_tiles tiles = { shares, count, S::SUMS * width };
    cuda_each((count + CUDA_TILE_SHARES - 1) / CUDA_TILE_SHARES * tiles.line, tiles);
    cuda_tiles_gathered(shares, CUDA_TILE_SHARES, rows, width, to);
}

static inline uint64_t cuda_norm_scratch(int64_t rows, int64_t width, int sums) {
    if (width > CUDA_KEPT) return cuda_tiles_scratch(rows, width, sums);
    return (uint64_t)(cuda_norm_shares(rows) * width * sums) * sizeof(float);
}
