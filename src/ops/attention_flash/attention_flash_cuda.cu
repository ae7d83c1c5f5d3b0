/* Twin of attention_flash_cpu.c's fast kernels: the same tiles, and every sum in their order. */
#include "ops/attention/attention_gradient_cuda.h"

extern "C" {
#include "ops/attention_flash/attention_flash.h"
}
#include "ops/attention_flash/attention_flash_math.h"

/* The scores of the tile into (key, query), minus infinity where a query does not see a key. */
GPU_INLINE void attention_flash_store_scores(const attention_job &a, const attention_tile &at,
                                             const attention_pairs x, float *pairs) {
    int s = attention_row(), t = attention_column();
#pragma unroll
    for (int j = 0; j < ATTENTION_EACH; j++) {
        if (t + j >= at.queries) continue;
        attention_seen seen = attention_seen_by(a, at, t + j);
#pragma unroll
        for (int i = 0; i < ATTENTION_EACH; i++)
            if (s + i < at.keys)
                pairs[(s + i) * ATTENTION_LINE + t + j] = attention_sees(a, at, seen, s + i)
                                                              ? attention_score(a, at, t + j, s + i, x[i][j])
                                                              : -INFINITY;
    }
}

GPU_INLINE void attention_flash_exponentials(const attention_tile &at, const float *top, float *pairs) {
    int s = attention_row(), t = attention_column();
#pragma unroll
    for (int j = 0; j < ATTENTION_EACH; j++) {
        if (t + j >= at.queries) continue;
        float reached = attention_flash_reached(top[t + j]);
#pragma unroll
        for (int i = 0; i < ATTENTION_EACH; i++)
            if (s + i < at.keys) {
                float *x = &pairs[(s + i) * ATTENTION_LINE + t + j];
                *x = vector_exp(*x - reached);
            }
    }
}

/* What one thread for each query keeps: its maximum and sum so far, and what a larger maximum does to both.
 */
struct attention_flash_softening {
    float *top, *sum, *shrink;

    __device__ __forceinline__ void begin() const {
        if (threadIdx.x < ATTENTION_TILE) top[threadIdx.x] = -INFINITY, sum[threadIdx.x] = 0;
        __syncthreads();
    }
    __device__ __forceinline__ void raise(const attention_tile &at, const float *pairs) const {
        int t = (int)threadIdx.x;
        if (t >= at.queries) return;
        float before = top[t], now = before;
        for (int s = 0; s < at.keys; s++) {
            float x = pairs[s * ATTENTION_LINE + t];
            now = x > now ? x : now;
        }
        top[t] = now;
        shrink[t] = vector_exp(before - attention_flash_reached(now));
    }
    __device__ __forceinline__ void add(const attention_tile &at, const float *pairs) const {
        int t = (int)threadIdx.x;
        if (t >= at.queries) return;
        float sums = sum[t] * shrink[t];
        for (int s = 0; s < at.keys; s++) sums += pairs[s * ATTENTION_LINE + t];
        sum[t] = sums;
    }
};

/* The values so far, where the maximum has grown. */
template <int HALVES>
GPU_INLINE void attention_flash_shrink_sums(attention_sums<HALVES> &mixed, const attention_tile &at,
                                            const float *shrink) {
    int t = attention_row();
#pragma unroll
    for (int i = 0; i < ATTENTION_EACH; i++) {
        if (t + i >= at.queries || shrink[t + i] == 1.0f) continue;
#pragma unroll
        for (int h = 0; h < HALVES; h++)
#pragma unroll
            for (int j = 0; j < ATTENTION_EACH; j++) mixed.of[h][i][j] *= shrink[t + i];
    }
}

template <int TYPE, int HALVES>
__global__ void __launch_bounds__(GPU_BLOCK, 1)
    attention_flash_kernel(attention_job a, attention_cuda_place y, float *lse) {
    GPU_SHARED(float, loads);
    float *pairs = loads + ATTENTION_LOADS, *top = pairs + ATTENTION_PAIRS;
    attention_flash_softening soft = { top, top + ATTENTION_TILE, top + 2 * ATTENTION_TILE };
    int part;
    attention_tile at = attention_queries_here(a, &part);
    attention_sums<HALVES> mixed;
    attention_clear(mixed);
    soft.begin();
    for (int64_t from = 0; attention_sight_next(&a.sight, &at, from); from = at.s + ATTENTION_TILE) {
        attention_pairs x;
        attention_inner<TYPE>(x, attention_at_keys(a, at, a.k), attention_at_queries(a, at, a.q, a.scale),
                              loads);
        attention_flash_store_scores(a, at, x, pairs);
        __syncthreads();
        soft.raise(at, pairs);
        __syncthreads();
        attention_flash_exponentials(at, top, pairs);
        attention_flash_shrink_sums(mixed, at, soft.shrink);
        __syncthreads();
        soft.add(at, pairs);
        if (a.dropout > 0) {
            __syncthreads();
            attention_drop(a, at, [&](int t, int s, float keep) { pairs[s * ATTENTION_LINE + t] *= keep; });
        }
        attention_add<TYPE, HALVES>(mixed, pairs, at.queries,
                                    attention_part(attention_at_keys(a, at, a.v), part), loads);
    }
    int t = (int)threadIdx.x;
    if (t < at.queries) {
        if (part == 0) lse[attention_row_of(a, at) + t] = attention_flash_lse(top[t], soft.sum[t]);
        soft.shrink[t] = attention_flash_share(soft.sum[t]);
    }
    __syncthreads();
    attention_store<TYPE, HALVES>(mixed, attention_part(attention_at_queries(a, at, y), part), soft.shrink);
}

struct attention_flash_launch {
    template <int TYPE, int HALVES>
    static void run(const attention_job &a, const attention_cuda_place &y, float *lse) {
        int64_t blocks = attention_tiles(a.queries) * a.batch * a.heads * a.parts;
        if (blocks > 0)
            GPU_LAUNCH((attention_flash_kernel<TYPE, HALVES>), (unsigned)blocks, GPU_BLOCK,
                       (ATTENTION_LOADS + ATTENTION_PAIRS + 3 * ATTENTION_TILE) * sizeof(float), a, y, lse);
    }
};

static void run(const op_call *c) {
    attention_view v = attention_view_of(c, 3);
    attention_cuda_place y = attention_cuda_place_of(attention_view_rows(&v, &c->out[0]));
    attention_cuda_run<attention_flash_launch>(attention_job_of(v), y, (float *)c->out[1].data);
}

/* ---- the gradient ---- */

static void run_backward(const op_call *c) {
    attention_view v = attention_view_of(c, 6);
    attention_slope_job g = attention_slope_job_of(c, v);
    g.y = attention_cuda_place_of(attention_view_rows(&v, op_in(c, 3)));
    g.lse = (const float *)op_in(c, 4)->data;
    g.dy = attention_cuda_place_of(attention_view_rows(&v, op_in(c, 5)));
    attention_cuda_run<attention_slope_launch<false>>(g.of, g);
}

static uint64_t backward_scratch(const op_call *c, int) {
    return attention_slope_scratch(attention_view_of(c, 6));
}

CUDA_KERNELS(attention_flash_cuda, { "attention_flash_cuda_tiled", cuda_accepts, NULL, run });
CUDA_KERNELS(attention_flash_backward_cuda,
             { "attention_flash_backward_cuda_tiled", cuda_accepts, backward_scratch, run_backward });
