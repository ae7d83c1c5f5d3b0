/* Twin of attention_cpu.c's fast kernels: scores of a block of queries into the rows of probs, softmax there,
 * then times the values; every sum in their order. What bounds it: multiply-adds in f32 and shared memory, as
 * in attention_gradient_cuda.h; and of long texts memory, since probabilities are written and read again, for
 * the softmax and for the values. */
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

enum { SCORES = ATTENTION_TILE / ATTENTION_ACROSS /* of a thread's own line in a tile */ };

/* The tile's scores, minus infinity where a query does not see a key. `rows`: of its first query. */
template <int HALVES>
GPU_INLINE void attention_put_scores(const attention_job &a, const attention_tile &at,
                                     const float (&x)[attention_shape<HALVES>::LINES][SCORES], float *rows) {
    attention_sighted by = attention_sight_of(a, at);
#pragma unroll
    for (int i = 0; i < attention_shape<HALVES>::LINES; i++) {
        int t = attention_line<HALVES>() + i * ATTENTION_DOWN;
        if (t >= at.queries) continue;
#pragma unroll
        for (int j = 0; j < SCORES; j++) {
            int s = attention_across() + j * ATTENTION_ACROSS;
            if (s >= at.keys) continue;
            rows[t * a.keys + at.s + s] = attention_score(a, at, by, t, s, x[i][j]);
        }
    }
}

/* Of a.parts 1: whole rows have one owner. */
template <int TYPE, int HALVES>
__global__ void __launch_bounds__(attention_shape<HALVES>::THREADS, attention_shape<HALVES>::BLOCKS)
    attention_probs_kernel(attention_job a, float *probs) {
    enum { LINES = attention_shape<HALVES>::LINES, WARPS = attention_shape<HALVES>::THREADS / GPU_WARP };
    GPU_SHARED(float, own);
    int part;
    attention_tile at = attention_queries_here(a, &part);
    float *rows = probs + attention_row_of(a, at) * a.keys;
    int64_t first = a.keys, last = a.keys;
    bool resident = false;
    for (int64_t from = 0; attention_sight_next(&a.sight, &at, from); from = at.s + ATTENTION_TILE) {
        float x[LINES][SCORES];
        attention_products_of<TYPE, HALVES>(x, attention_at_queries(a, at, a.q, a.scale), own, resident,
                                            attention_at_keys(a, at, a.k), own + ATTENTION_LOADS);
        resident = true;
        attention_put_scores<HALVES>(a, at, x, rows);
        if (first == a.keys) first = at.s;
        last = at.s + at.keys;
    }
    __syncthreads();
    for (int t = (int)threadIdx.x / GPU_WARP; t < at.queries; t += WARPS)
        attention_softmax(rows + t * a.keys, first, last, a.keys);
}

/* The warp's pairs of a step: probabilities, as they are after dropout. */
template <int HALVES>
GPU_INLINE void attention_put_probs(const attention_job &a, const attention_tile &at, int from,
                                    const float *rows, float *pairs) {
    typedef attention_shape<HALVES> shape;
    int own = attention_warp_line<HALVES>(), s = from + cuda_lane();
    for (int t = 0; t < shape::WARP && own + t < at.queries; t++)
        if (s < at.keys) pairs[attention_pair_at(t, cuda_lane())] = rows[(own + t) * a.keys + at.s + s];
    __syncwarp();
    if (!(a.dropout > 0)) return;
    attention_drop(a, at, { own, shape::WARP, from, ATTENTION_STEP },
                   [&](int t, int k, float keep) { pairs[attention_pair_at(t - own, k - from)] *= keep; });
    __syncwarp();
}

template <int TYPE, int HALVES>
__global__ void __launch_bounds__(attention_shape<HALVES>::THREADS, attention_shape<HALVES>::BLOCKS)
    attention_mix_kernel(attention_job a, attention_cuda_place y, const float *probs) {
    GPU_SHARED(float, other);
    enum { OTHER = HALVES * ATTENTION_STEP * ATTENTION_CHUNK };
    float *pairs = attention_warp_pairs<HALVES>(other + OTHER);
    int part;
    attention_tile at = attention_queries_here(a, &part);
    const float *rows = probs + attention_row_of(a, at) * a.keys;
    attention_sums<HALVES> mixed;
    attention_clear(mixed);
    for (int64_t from = 0; attention_sight_next(&a.sight, &at, from); from = at.s + ATTENTION_TILE)
        for (int s = 0; s < at.keys; s += ATTENTION_STEP) {
            attention_lines values = attention_part(attention_from(attention_at_keys(a, at, a.v), s), part);
            attention_load_halves<TYPE, HALVES, ATTENTION_STEP>(other, values);
            attention_put_probs<HALVES>(a, at, s, rows, pairs);
            attention_add<HALVES, ATTENTION_STEP>(
                mixed, { pairs, other, attention_step_of(values.count), values.size, NULL });
        }
    attention_store<TYPE, HALVES>(mixed, attention_part(attention_at_queries(a, at, y), part));
}

struct attention_launch {
    template <int TYPE, int HALVES>
    static void run(const attention_job &a, const attention_cuda_place &y, float *probs) {
        attention_job whole = a;
        whole.parts = 1;
        int64_t blocks = attention_tiles(a.queries) * a.batch * a.heads;
        if (blocks == 0) return;
        GPU_LAUNCH((attention_probs_kernel<TYPE, HALVES>), (unsigned)blocks, attention_shape<HALVES>::THREADS,
                   2 * ATTENTION_LOADS * sizeof(float), whole, probs);
        GPU_LAUNCH((attention_mix_kernel<TYPE, HALVES>), (unsigned)(blocks * a.parts),
                   attention_shape<HALVES>::THREADS,
                   (HALVES * ATTENTION_STEP * ATTENTION_CHUNK + ATTENTION_PAIRS) * sizeof(float), a, y,
                   (const float *)probs);
    }
};

static void run(const op_call *c) {
    attention_view v = attention_view_of(c, 3);
    attention_cuda_place y = attention_cuda_place_of(attention_view_rows(&v, &c->out[0]), v.n.size);
    attention_cuda_run<attention_launch>(attention_job_of(v), y, (float *)c->out[1].data);
}

/* ---- the gradient ---- */

static void run_backward(const op_call *c) {
    attention_view v = attention_view_of(c, 5);
    attention_slope_job g = attention_slope_job_of(c, v);
    g.probs = (const float *)op_in(c, 3)->data;
    g.dy = attention_cuda_place_of(attention_view_rows(&v, op_in(c, 4)), v.n.size);
    attention_cuda_run<attention_slope_launch<true>>(g.of, g);
}

static uint64_t backward_scratch(const op_call *c, int) {
    return attention_slope_scratch(attention_view_of(c, 5));
}

CUDA_KERNELS(attention_cuda, { "attention_cuda_tiled", cuda_accepts, NULL, run });
CUDA_KERNELS(attention_backward_cuda,
             { "attention_backward_cuda_tiled", cuda_accepts, backward_scratch, run_backward });
