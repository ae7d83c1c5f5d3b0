/* The gradient of attention over tiles on GPUs, for both ops (attention_gradient.h): they differ in where
 * probabilities come from.
 *
 * Three kernels make it: `common` of every query, which probabilities' gradients have in common; dq, by
 * blocks that own queries; dk and dv, by blocks that own keys and walk over all queries of all heads that
 * read them. Probabilities are made twice and every sum has one owner, so no order depends on chance. A
 * fourth makes the gradient of a bias. */
#pragma once

#include "ops/attention/attention_cuda.h"

struct attention_slope_job {
    attention_job of;
    attention_cuda_place dq, dk, dv, dy, y; /* y: without probs */
    cuda_span dbias;                        /* (H,T,S); data may be NULL */
    const float *probs, *lse;               /* one of them */
    float *common;                          /* (B,H,T) */
};

/* Fills what both ops have alike. */
static inline attention_slope_job attention_slope_job_of(const op_call *c, const attention_view &v) {
    attention_slope_job g = {};
    attention_outputs out = attention_view_outputs(&v, c);
    g.of = attention_job_of(v);
    g.dq = attention_cuda_place_of(out.q), g.dk = attention_cuda_place_of(out.k);
    g.dv = attention_cuda_place_of(out.v);
    if (out.bias) g.dbias = cuda_span_of(out.bias);
    g.common = (float *)c->scratch;
    return g;
}

static inline uint64_t attention_slope_scratch(const attention_view &v) {
    return (uint64_t)(v.n.batch * v.n.heads * v.n.queries) * sizeof(float);
}

/* ---- pairs ---- */

/* Which side of the tile is its rows. */
enum attention_rows { ATTENTION_KEYS_DOWN, ATTENTION_QUERIES_DOWN };

template <int DOWN>
GPU_INLINE int attention_key(int i, int j) {
    return DOWN == ATTENTION_KEYS_DOWN ? attention_row() + i : attention_column() + j;
}
template <int DOWN>
GPU_INLINE int attention_query(int i, int j) {
    return DOWN == ATTENTION_KEYS_DOWN ? attention_column() + j : attention_row() + i;
}

/* Of the thread's pairs: inner products of queries and keys, and of dy and values. */
template <int TYPE, int DOWN, bool PROBS>
GPU_INLINE void attention_products(const attention_slope_job &g, const attention_tile &at,
                                   attention_pairs score, attention_pairs slope, float *loads) {
    const attention_job &a = g.of;
    attention_lines q = attention_at_queries(a, at, a.q, a.scale), dy = attention_at_queries(a, at, g.dy),
                    k = attention_at_keys(a, at, a.k), v = attention_at_keys(a, at, a.v);
    if (!PROBS || a.cap > 0) {
        if (DOWN == ATTENTION_KEYS_DOWN)
            attention_inner<TYPE>(score, k, q, loads);
        else
            attention_inner<TYPE>(score, q, k, loads);
    }
    if (DOWN == ATTENTION_KEYS_DOWN)
        attention_inner<TYPE>(slope, v, dy, loads);
    else
        attention_inner<TYPE>(slope, dy, v, loads);
}

/* What dropout multiplies the tile's pairs with, into `room`. Threads have met since they read what was
 * there, in attention_products. */
template <int DOWN>
GPU_INLINE void attention_drop_into(const attention_job &a, const attention_tile &at, float *room) {
    if (!(a.dropout > 0)) return;
    attention_drop(a, at, [&](int t, int s, float factor) {
        room[DOWN == ATTENTION_KEYS_DOWN ? s * ATTENTION_LINE + t : t * ATTENTION_LINE + s] = factor;
    });
    __syncthreads();
}

/* What stands in there for a pair of the thread. */
GPU_INLINE float attention_keep(const attention_job &a, const float *room, int i, int j) {
    return a.dropout > 0 ? room[(attention_row() + i) * ATTENTION_LINE + attention_column() + j] : 1.0f;
}

/* What is known of a pair, and what is made of it: its probability before dropout, the gradient that reaches
 * that, and the slope of the score's cap. */
struct attention_pair_known {
    int t, s;
    float score, slope, keep;
    float known; /* its probability, or of its query the logarithm of their sum */
};
struct attention_pair_slope {
    float weight, slope, bend;
};

template <bool PROBS>
GPU_INLINE attention_pair_slope attention_slope_of(const attention_job &a, const attention_tile &at,
                                                   const attention_seen &seen,
                                                   const attention_pair_known &pair) {
    bool sees = attention_sees(a, at, seen, pair.s);
    attention_pair_slope p = { 0.0f, pair.slope * pair.keep, 1.0f };
    float score = 0;
    if (!PROBS || a.cap > 0) score = attention_score(a, at, pair.t, pair.s, pair.score);
    if (sees) p.weight = PROBS ? pair.known : vector_exp(score - pair.known);
    if (a.cap > 0) p.bend = sees ? softcap_slope_f32(score, a.cap) : 0.0f;
    return p;
}

/* Probabilities of a query with four keys from place s of the tile on. */
GPU_INLINE void attention_probs4(const attention_slope_job &g, const attention_tile &at, int64_t row, int s,
                                 float p[4]) {
    const float *from = g.probs + row * g.of.keys + at.s + s;
    if (s + 4 <= at.keys && (uintptr_t)from % 16 == 0) {
        gpu_get4(from, p);
        return;
    }
#pragma unroll
    for (int k = 0; k < 4; k++) p[k] = s + k < at.keys ? from[k] : 0.0f;
}

/* f(i, j, row, pair, keep) for the thread's pairs that the tile has, query by query: what belongs to a query
 * is read once. `row`: the query in a (B,H,T) array. */
template <int DOWN, bool PROBS, class F>
GPU_INLINE void attention_each_pair(const attention_slope_job &g, const attention_tile &at,
                                    const attention_pairs score, const attention_pairs slope,
                                    const float *room, const F &f) {
    const attention_job &a = g.of;
    int s = attention_key<DOWN>(0, 0), t = attention_query<DOWN>(0, 0);
#pragma unroll
    for (int q = 0; q < ATTENTION_EACH; q++) {
        if (t + q >= at.queries) continue;
        attention_seen seen = attention_seen_by(a, at, t + q);
        int64_t row = attention_row_of(a, at) + t + q;
        float known[ATTENTION_EACH];
        if (PROBS) attention_probs4(g, at, row, s, known);
        if (!PROBS) known[0] = known[1] = known[2] = known[3] = g.lse[row];
#pragma unroll
        for (int k = 0; k < ATTENTION_EACH; k++) {
            const int i = DOWN == ATTENTION_KEYS_DOWN ? k : q, j = DOWN == ATTENTION_KEYS_DOWN ? q : k;
            if (s + k >= at.keys) continue;
            float keep = attention_keep(a, room, i, j);
            f(i, j, row,
              attention_slope_of<PROBS>(a, at, seen,
                                        { t + q, s + k, score[i][j], slope[i][j], keep, known[k] }),
              keep);
        }
    }
}

/* weight: what multiplied the values; slope: the gradients of scores. 0 beyond the tile's edges. */
template <int TYPE, int DOWN, bool PROBS>
GPU_INLINE void attention_slopes(const attention_slope_job &g, const attention_tile &at,
                                 attention_pairs weight, attention_pairs slope, float *loads, float *room) {
    const attention_job &a = g.of;
    attention_products<TYPE, DOWN, PROBS>(g, at, weight, slope, loads);
    attention_drop_into<DOWN>(a, at, room);
    attention_each_pair<DOWN, PROBS>(
        g, at, weight, slope, room,
        [&](int i, int j, int64_t row, const attention_pair_slope &p, float keep) {
            weight[i][j] = p.weight * keep;
            slope[i][j] = p.weight * (p.slope - g.common[row]) * a.scale;
            if (a.cap > 0) slope[i][j] *= p.bend;
        });
#pragma unroll
    for (int i = 0; i < ATTENTION_EACH; i++)
#pragma unroll
        for (int j = 0; j < ATTENTION_EACH; j++)
            if (attention_key<DOWN>(i, j) >= at.keys || attention_query<DOWN>(i, j) >= at.queries)
                weight[i][j] = slope[i][j] = 0.0f;
}

GPU_INLINE void attention_put(const attention_pairs x, float *pairs) {
#pragma unroll
    for (int i = 0; i < ATTENTION_EACH; i++)
#pragma unroll
        for (int j = 0; j < ATTENTION_EACH; j++)
            pairs[(attention_row() + i) * ATTENTION_LINE + attention_column() + j] = x[i][j];
}

/* ---- what the slopes of a query have in common ---- */

/* From y: sixteen partial sums of dy y, then a tree. A warp has a row, and its upper half copies the lower.
 */
template <int TYPE>
struct attention_common_of_y {
    attention_slope_job g;

    __device__ __forceinline__ void operator()(int64_t row) const {
        const attention_job &a = g.of;
        int64_t t = row % a.queries, h = row / a.queries % a.heads, b = row / a.queries / a.heads;
        int64_t y = g.y.first + (b * a.queries + t) * g.y.stride + h * a.size;
        int64_t dy = g.dy.first + (b * a.queries + t) * g.dy.stride + h * a.size;
        float sum = 0;
        for (int d = (int)threadIdx.x % 16; d < a.size; d += 16)
            sum += attention_get<TYPE>(g.y.data, y + d) * attention_get<TYPE>(g.dy.data, dy + d);
        for (int lanes = 8; lanes; lanes /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
        if (threadIdx.x % GPU_WARP == 0) g.common[row] = sum;
    }
};

/* From probabilities: the sum over the keys of probability times slope, key after key. */
template <int TYPE, int>
__global__ void __launch_bounds__(GPU_BLOCK, 1) attention_common_kernel(attention_slope_job g) {
    GPU_SHARED(float, loads);
    float *pairs = loads + ATTENTION_LOADS;
    int part, t = (int)threadIdx.x;
    attention_tile at = attention_queries_here(g.of, &part);
    float sum = 0;
    for (int64_t from = 0; attention_sight_next(&g.of.sight, &at, from); from = at.s + ATTENTION_TILE) {
        attention_pairs score, slope;
        attention_products<TYPE, ATTENTION_KEYS_DOWN, true>(g, at, score, slope, loads);
        attention_drop_into<ATTENTION_KEYS_DOWN>(g.of, at, pairs);
        attention_each_pair<ATTENTION_KEYS_DOWN, true>(
            g, at, score, slope, pairs, [&](int i, int j, int64_t, const attention_pair_slope &p, float) {
                score[i][j] = p.weight * p.slope;
            });
        attention_put(score, pairs);
        __syncthreads();
        for (int s = 0; s < at.keys && t < at.queries; s++) sum += pairs[s * ATTENTION_LINE + t];
    }
    if (t < at.queries && part == 0) g.common[attention_row_of(g.of, at) + t] = sum;
}

/* ---- gradients ---- */

template <int TYPE, int HALVES, bool PROBS>
__global__ void __launch_bounds__(GPU_BLOCK, 1) attention_queries_kernel(attention_slope_job g) {
    GPU_SHARED(float, loads);
    float *pairs = loads + ATTENTION_LOADS;
    int part;
    attention_tile at = attention_queries_here(g.of, &part);
    attention_sums<HALVES> dq;
    attention_clear(dq);
    for (int64_t from = 0; attention_sight_next(&g.of.sight, &at, from); from = at.s + ATTENTION_TILE) {
        attention_pairs weight, slope;
        attention_slopes<TYPE, ATTENTION_KEYS_DOWN, PROBS>(g, at, weight, slope, loads, pairs);
        attention_put(slope, pairs);
        attention_add<TYPE, HALVES>(dq, pairs, at.queries,
                                    attention_part(attention_at_keys(g.of, at, g.of.k), part), loads);
    }
    attention_store<TYPE, HALVES>(dq, attention_part(attention_at_queries(g.of, at, g.dq), part), NULL);
}

/* The block's keys of a head of keys; no queries yet. */
GPU_INLINE attention_tile attention_keys_here(const attention_job &a, int *part) {
    int64_t tiles = (a.keys + ATTENTION_TILE - 1) / ATTENTION_TILE, i = blockIdx.x / a.parts;
    attention_tile at = {};
    *part = (int)(blockIdx.x % (unsigned)a.parts);
    at.g = i / tiles % a.kv_heads, at.b = i / tiles / a.kv_heads;
    at.s = i % tiles * ATTENTION_TILE, at.keys = attention_within(a.keys - at.s);
    return at;
}

/* Queries t .. of head h against the keys from `s` on that the block has; false: they see none of them. */
GPU_INLINE bool attention_queries_at(const attention_job &a, attention_tile *at, int64_t h, int64_t t,
                                     int64_t s) {
    at->h = h, at->t = t, at->queries = attention_within(a.queries - t);
    return attention_sight_next(&a.sight, at, s) && at->s == s;
}

template <int TYPE, int HALVES, bool PROBS>
__global__ void __launch_bounds__(GPU_BLOCK, 1) attention_keys_kernel(attention_slope_job g) {
    GPU_SHARED(float, loads);
    float *weights = loads + ATTENTION_LOADS, *slopes = weights + ATTENTION_PAIRS;
    int part;
    const attention_job &a = g.of;
    attention_tile own = attention_keys_here(a, &part);
    attention_sums<HALVES> dk, dv;
    attention_clear(dk);
    attention_clear(dv);
    int64_t group = a.heads / a.kv_heads, s = own.s;
    for (int64_t i = 0, tiles = (a.queries + ATTENTION_TILE - 1) / ATTENTION_TILE; i < group * tiles; i++) {
        attention_tile at = own;
        if (!attention_queries_at(a, &at, own.g * group + i / tiles, i % tiles * ATTENTION_TILE, s)) continue;
        attention_pairs weight, slope;
        attention_slopes<TYPE, ATTENTION_QUERIES_DOWN, PROBS>(g, at, weight, slope, loads, weights);
        attention_put(weight, weights);
        attention_put(slope, slopes);
        attention_add<TYPE, HALVES>(dv, weights, at.keys,
                                    attention_part(attention_at_queries(a, at, g.dy), part), loads);
        attention_add<TYPE, HALVES>(dk, slopes, at.keys,
                                    attention_part(attention_at_queries(a, at, a.q), part), loads);
    }
    attention_store<TYPE, HALVES>(dk, attention_part(attention_at_keys(a, own, g.dk), part), NULL);
    attention_store<TYPE, HALVES>(dv, attention_part(attention_at_keys(a, own, g.dv), part), NULL);
}

/* Of the bias of each score: the sum over the samples. */
template <int TYPE, bool PROBS>
__global__ void __launch_bounds__(GPU_BLOCK, 1) attention_bias_kernel(attention_slope_job g) {
    GPU_SHARED(float, loads);
    float *pairs = loads + ATTENTION_LOADS;
    const attention_job &a = g.of;
    int64_t tiles = (a.keys + ATTENTION_TILE - 1) / ATTENTION_TILE, i = blockIdx.x / tiles,
            blocks = (a.queries + ATTENTION_TILE - 1) / ATTENTION_TILE;
    attention_tile at = {};
    at.h = i / blocks, at.g = at.h / (a.heads / a.kv_heads);
    at.t = i % blocks * ATTENTION_TILE, at.queries = attention_within(a.queries - at.t);
    at.s = blockIdx.x % tiles * ATTENTION_TILE, at.keys = attention_within(a.keys - at.s);
    attention_sums<1> sum;
    attention_clear(sum);
    for (at.b = 0; at.b < a.batch; at.b++) {
        attention_pairs score, slope;
        attention_products<TYPE, ATTENTION_QUERIES_DOWN, PROBS>(g, at, score, slope, loads);
        attention_drop_into<ATTENTION_QUERIES_DOWN>(a, at, pairs);
        attention_each_pair<ATTENTION_QUERIES_DOWN, PROBS>(
            g, at, score, slope, pairs, [&](int r, int k, int64_t row, const attention_pair_slope &p, float) {
                sum.of[0][r][k] += p.weight * (p.slope - g.common[row]);
            });
    }
#pragma unroll
    for (int r = 0; r < ATTENTION_EACH; r++)
        for (int k = 0; k < ATTENTION_EACH; k++) {
            int t = attention_row() + r, s = attention_column() + k;
            if (t < at.queries && s < at.keys)
                g.dbias.set((at.h * a.queries + at.t + t) * a.keys + at.s + s, sum.of[0][r][k]);
        }
}

/* ---- launches ---- */

enum {
    ATTENTION_SHARED = (ATTENTION_LOADS + ATTENTION_PAIRS) * (int)sizeof(float),
    ATTENTION_SHARED_KEYS = ATTENTION_SHARED + ATTENTION_PAIRS * (int)sizeof(float)
};

template <bool PROBS>
struct attention_slope_launch {
    template <int TYPE, int HALVES>
    static void run(const attention_job &a, const attention_slope_job &g) {
        int64_t owners = attention_tiles(a.queries) * a.batch * a.heads,
                keys = attention_tiles(a.keys) * a.batch * a.kv_heads * a.parts;
        if (PROBS && owners > 0)
            GPU_LAUNCH((attention_common_kernel<TYPE, HALVES>), (unsigned)(owners * a.parts), GPU_BLOCK,
                       ATTENTION_SHARED, g);
        attention_common_of_y<TYPE> of_y = { g };
        if (!PROBS) cuda_rows(a.batch * a.heads * a.queries, of_y);
        if (owners > 0)
            GPU_LAUNCH((attention_queries_kernel<TYPE, HALVES, PROBS>), (unsigned)(owners * a.parts),
                       GPU_BLOCK, ATTENTION_SHARED, g);
        if (keys > 0)
            GPU_LAUNCH((attention_keys_kernel<TYPE, HALVES, PROBS>), (unsigned)keys, GPU_BLOCK,
                       ATTENTION_SHARED_KEYS, g);
        int64_t pairs = attention_tiles(a.queries) * attention_tiles(a.keys) * a.heads;
        if (g.dbias.data && pairs > 0)
            GPU_LAUNCH((attention_bias_kernel<TYPE, PROBS>), (unsigned)pairs, GPU_BLOCK, ATTENTION_SHARED, g);
    }
};
