/* Twin of attention_cpu.c's fast kernels: scores of a block of queries into the rows of probs, softmax there,
 * then times the values; every sum in their order. */
#include "ops/attention/attention_gradient_cuda.h"
#include "ops/cuda_rows.h"

/* softmax_row_f32 over numbers [first, last) of a row and zeros elsewhere, by a warp. */
GPU_INLINE void attention_softmax(float *row, int64_t first, int64_t last, int64_t keys) {
    float top = -INFINITY;
    for (int64_t s = first + cuda_lane(); s < last; s += GPU_WARP) top = row[s] > top ? row[s] : top;
    top = cuda_warp_largest(top);
    float share =
        1.0f / cuda_row_sum(last - first, [&](int64_t i) { return vector_exp(row[first + i] - top); });
    for (int64_t s = cuda_lane(); s < keys; s += GPU_WARP)
        row[s] = top == -INFINITY || s < first || s >= last ? 0.0f : vector_exp(row[s] - top) * share;
}

/* The tile's scores, minus infinity where a query does not see a key. `rows`: of its first query. */
GPU_INLINE void attention_put_scores(const attention_job &a, const attention_tile &at,
                                     const attention_pairs x, float *rows) {
#pragma unroll
    for (int i = 0; i < ATTENTION_EACH; i++) {
        int t = attention_row() + i;
        if (t >= at.queries) continue;
        attention_seen seen = attention_seen_by(a, at, t);
        int s = attention_column();
        float scores[ATTENTION_EACH];
#pragma unroll
        for (int j = 0; j < ATTENTION_EACH; j++)
            scores[j] = s + j < at.keys && attention_sees(a, at, seen, s + j)
                            ? attention_score(a, at, t, s + j, x[i][j])
                            : -INFINITY;
        attention_set4<DTYPE_F32>(rows, t * a.keys + at.s + s, scores, at.keys - s);
    }
}

/* Of a.parts 1: whole rows have one owner. */
template <int TYPE, int>
__global__ void __launch_bounds__(GPU_BLOCK, 1) attention_probs_kernel(attention_job a, float *probs) {
    GPU_SHARED(float, loads);
    int part;
    attention_tile at = attention_queries_here(a, &part);
    float *rows = probs + attention_row_of(a, at) * a.keys;
    int64_t first = a.keys, last = a.keys;
    for (int64_t from = 0; attention_sight_next(&a.sight, &at, from); from = at.s + ATTENTION_TILE) {
        attention_pairs x;
        attention_inner<TYPE>(x, attention_at_queries(a, at, a.q, a.scale), attention_at_keys(a, at, a.k),
                              loads);
        attention_put_scores(a, at, x, rows);
        if (first == a.keys) first = at.s;
        last = at.s + at.keys;
    }
    __syncthreads();
    for (int t = (int)threadIdx.x / GPU_WARP; t < at.queries; t += CUDA_ROWS)
        attention_softmax(rows + t * a.keys, first, last, a.keys);
}

template <int TYPE, int HALVES>
__global__ void __launch_bounds__(GPU_BLOCK, 1)
    attention_mix_kernel(attention_job a, attention_cuda_place y, const float *probs) {
    GPU_SHARED(float, loads);
    float *pairs = loads + ATTENTION_LOADS; /* (key, query) */
    int part;
    attention_tile at = attention_queries_here(a, &part);
    const float *rows = probs + attention_row_of(a, at) * a.keys;
    attention_sums<HALVES> mixed;
    attention_clear(mixed);
    for (int64_t from = 0; attention_sight_next(&a.sight, &at, from); from = at.s + ATTENTION_TILE) {
        for (int i = (int)threadIdx.x; i < ATTENTION_TILE * ATTENTION_TILE; i += GPU_BLOCK) {
            int t = i / ATTENTION_TILE, s = i % ATTENTION_TILE;
            if (t < at.queries && s < at.keys) pairs[s * ATTENTION_LINE + t] = rows[t * a.keys + at.s + s];
        }
        if (a.dropout > 0) {
            __syncthreads();
            attention_drop(a, at, [&](int t, int s, float keep) { pairs[s * ATTENTION_LINE + t] *= keep; });
        }
        attention_add<TYPE, HALVES>(mixed, pairs, at.queries,
                                    attention_part(attention_at_keys(a, at, a.v), part), loads);
    }
    attention_store<TYPE, HALVES>(mixed, attention_part(attention_at_queries(a, at, y), part), NULL);
}

struct attention_launch {
    template <int TYPE, int HALVES>
    static void run(const attention_job &a, const attention_cuda_place &y, float *probs) {
        attention_job whole = a;
        whole.parts = 1;
        int64_t blocks = attention_tiles(a.queries) * a.batch * a.heads;
        if (blocks == 0) return;
        GPU_LAUNCH((attention_probs_kernel<TYPE, HALVES>), (unsigned)blocks, GPU_BLOCK,
                   ATTENTION_LOADS * sizeof(float), whole, probs);
        GPU_LAUNCH((attention_mix_kernel<TYPE, HALVES>), (unsigned)(blocks * a.parts), GPU_BLOCK,
                   ATTENTION_SHARED, a, y, (const float *)probs);
    }
};

static void run(const op_call *c) {
    attention_view v = attention_view_of(c, 3);
    attention_cuda_place y = attention_cuda_place_of(attention_view_rows(&v, &c->out[0]));
    attention_cuda_run<attention_launch>(attention_job_of(v), y, (float *)c->out[1].data);
}

/* ---- the gradient ---- */

static void run_backward(const op_call *c) {
    attention_view v = attention_view_of(c, 5);
    attention_slope_job g = attention_slope_job_of(c, v);
    g.probs = (const float *)op_in(c, 3)->data;
    g.dy = attention_cuda_place_of(attention_view_rows(&v, op_in(c, 4)));
    attention_cuda_run<attention_slope_launch<true>>(g.of, g);
}

static uint64_t backward_scratch(const op_call *c, int) {
    return attention_slope_scratch(attention_view_of(c, 5));
}

CUDA_KERNELS(attention_cuda, { "attention_cuda_tiled", cuda_accepts, NULL, run });
CUDA_KERNELS(attention_backward_cuda,
             { "attention_backward_cuda_tiled", cuda_accepts, backward_scratch, run_backward });
