/* The gradient of attention over tiles on GPUs, for both ops (attention_gradient.h): they differ in where
 * probabilities come from.
 *
 * Three kernels make it: `common` of every query, which probabilities' gradients have in common; dq, by
 * blocks that own queries; dk and dv, by blocks that own keys and walk over all queries of all heads that
 * read them. Probabilities are made twice and every sum has one owner, so no order depends on chance. A
 * fourth makes the gradient of a bias.
 *
 * What bounds them: multiply-adds in f32, of which they make seven for each pair of lines and number of a
 * head (five would do without making probabilities twice), and shared memory, since a thread has sums of 4 x
 * 4 pairs: it reads 8 numbers for 16 multiply-adds. Of memory a tile of 64 lines reads the other side once.
 */
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
    g.dq = attention_cuda_place_of(out.q, v.n.size), g.dk = attention_cuda_place_of(out.k, v.n.size);
    g.dv = attention_cuda_place_of(out.v, v.n.size);
    if (out.bias) g.dbias = cuda_span_of(out.bias);
    g.common = (float *)c->scratch;
    return g;
}

static inline uint64_t attention_slope_scratch(const attention_view &v) {
    return (uint64_t)(v.n.batch * v.n.heads * v.n.queries) * sizeof(float);
}

/* ---- pairs ---- */

/* Which side of the tile is the block's own. */
enum attention_own { ATTENTION_OWN_QUERIES, ATTENTION_OWN_KEYS };

/* The pairs of a thread in a step. */
template <int HALVES>
using attention_pairs = float[attention_shape<HALVES>::LINES][ATTENTION_EACH];

/* Where they are: `from`: the first line of the other side. */
template <int HALVES, int OWN>
struct attention_places {
    int from;

    __device__ __forceinline__ int own(int i) const { return attention_line<HALVES>() + i * ATTENTION_DOWN; }
    __device__ __forceinline__ int other(int j) const {
        return from + attention_across() + j * ATTENTION_ACROSS;
    }
    __device__ __forceinline__ int key(int i, int j) const {
        return OWN == ATTENTION_OWN_KEYS ? own(i) : other(j);
    }
    __device__ __forceinline__ int query(int i, int j) const {
        return OWN == ATTENTION_OWN_KEYS ? other(j) : own(i);
    }
};

/* The shared memory of a block: own lines of two operands, lines of the other side, and the warp's pairs.
 * Lines that come in several chunks stand in one place, one after the other. */
template <int HALVES>
struct attention_room {
    enum {
        OWN = HALVES > 1 ? 0 : (int)ATTENTION_LOADS, /* from one operand's to the other's */
        OTHER = HALVES * ATTENTION_STEP * ATTENTION_CHUNK,
        FLOATS = ATTENTION_LOADS + OWN + OTHER + ATTENTION_PAIRS
    };
    float *first, *second, *other, *pairs;
};
template <int HALVES>
GPU_INLINE attention_room<HALVES> attention_room_of(float *shared) {
    typedef attention_room<HALVES> room;
    float *other = shared + ATTENTION_LOADS + room::OWN;
    return { shared, shared + room::OWN, other, attention_warp_pairs<HALVES>(other + room::OTHER) };
}

/* Lines of a step, of so many that are left. */
GPU_INLINE int attention_step_of(int left) { return left < ATTENTION_STEP ? left : (int)ATTENTION_STEP; }

/* What dropout multiplies the step's pairs with, into the warp's. */
template <int HALVES, int OWN>
GPU_INLINE void attention_drop_into(const attention_job &a, const attention_tile &at, int from,
                                    float *pairs) {
    typedef attention_shape<HALVES> shape;
    int own = attention_warp_line<HALVES>();
    __syncwarp();
    if (OWN == ATTENTION_OWN_QUERIES)
        attention_drop(a, at, { own, shape::WARP, from, ATTENTION_STEP }, [&](int t, int s, float factor) {
            pairs[attention_pair_at(t - own, s - from)] = factor;
        });
    else
        attention_drop(a, at, { from, ATTENTION_STEP, own, shape::WARP }, [&](int t, int s, float factor) {
            pairs[attention_pair_at(s - own, t - from)] = factor;
        });
    __syncwarp();
}

/* f(i, j, t, s) for the thread's pairs, query by query. */
template <int HALVES, int OWN, class F>
GPU_INLINE void attention_each_pair(int from, const F &f) {
    enum { LINES = attention_shape<HALVES>::LINES, KEYS = OWN == ATTENTION_OWN_KEYS };
    attention_places<HALVES, OWN> places = { from };
#pragma unroll
    for (int q = 0; q < (KEYS ? (int)ATTENTION_EACH : (int)LINES); q++)
#pragma unroll
        for (int k = 0; k < (KEYS ? (int)LINES : (int)ATTENTION_EACH); k++)
            f(KEYS ? k : q, KEYS ? q : k, places.query(q, q), places.key(k, k));
}

/* What each query of the thread's pairs has, by q of attention_each_pair; 0 beyond the tile. */
template <int HALVES, int OWN, int QUERIES>
GPU_INLINE void attention_of_queries(const attention_job &a, const attention_tile &at, int from,
                                     const float *x, float (&to)[QUERIES]) {
    attention_places<HALVES, OWN> places = { from };
    x += attention_row_of(a, at);
#pragma unroll
    for (int q = 0; q < QUERIES; q++) {
        int t = places.query(q, q);
        to[q] = t < at.queries ? x[t] : 0.0f;
    }
}

/* The same, for special ones: through the warp's pairs, whose content is lost. Of probabilities those are 0
 * whose query does not see the key. */
template <int HALVES, int OWN, bool PROBS>
GPU_INLINE void attention_specials(const attention_job &a, const attention_tile &at, int from,
                                   attention_pairs<HALVES> &x, float *pairs) {
    attention_sighted by = attention_sight_of(a, at);
    attention_put<HALVES, 0>(x, pairs);
    attention_each_put<HALVES, 1>(pairs, [&](int own, int other, float &pair) {
        int t = OWN == ATTENTION_OWN_KEYS ? from + other : own,
            s = OWN == ATTENTION_OWN_KEYS ? own : from + other;
        if (!PROBS)
            pair = attention_score(a, at, by, t, s, pair);
        else if (t >= at.queries || !attention_sees(by, t, s))
            pair = 0.0f;
    });
    attention_take<HALVES, 0>(x, pairs);
}

/* Scores to probabilities before dropout: 0 where a query does not see a key. What stood in `pairs` is lost
 * where pairs are special. */
template <int HALVES, int OWN, bool PROBS>
GPU_INLINE void attention_weights(const attention_slope_job &g, const attention_tile &at, int from,
                                  attention_pairs<HALVES> &x, float *pairs) {
    enum { KEYS = OWN == ATTENTION_OWN_KEYS };
    const attention_job &a = g.of;
    attention_sighted by = attention_sight_of(a, at);
    float lse[KEYS ? (int)ATTENTION_EACH : (int)attention_shape<HALVES>::LINES];
    if (!PROBS && attention_is_special(a)) attention_specials<HALVES, OWN, PROBS>(a, at, from, x, pairs);
    if (!PROBS) attention_of_queries<HALVES, OWN>(a, at, from, g.lse, lse);
    const float *probs = PROBS ? g.probs + attention_row_of(a, at) * a.keys + at.s : NULL;
    int line = (int)a.keys;
    attention_each_pair<HALVES, OWN>(from, [&](int i, int j, int t, int s) {
        bool sees = t < at.queries && attention_is_placed(by, t, s);
        float p = PROBS ? 0.0f : vector_exp(x[i][j] - lse[KEYS ? j : i]);
        if (PROBS && sees) p = probs[t * line + s];
        x[i][j] = sees ? p : 0.0f;
    });
    if (PROBS && a.sight.segments) attention_specials<HALVES, OWN, PROBS>(a, at, from, x, pairs);
}

/* x times what dropout has for its pairs, where the warp's pairs stand; what is 0 may have none. */
template <int HALVES>
GPU_INLINE void attention_keep(attention_pairs<HALVES> &x, const float *pairs) {
#pragma unroll
    for (int i = 0; i < attention_shape<HALVES>::LINES; i++)
#pragma unroll
        for (int j = 0; j < ATTENTION_EACH; j++) {
            float keep = pairs[attention_pair_at(attention_down() + i * ATTENTION_DOWN,
                                                 attention_across() + j * ATTENTION_ACROSS)];
            if (x[i][j] != 0.0f) x[i][j] *= keep;
        }
}

/* Gradients that reach probabilities before dropout: those behind it, less what a query's have in common. */
template <int HALVES, int OWN>
GPU_INLINE void attention_less_common(const attention_slope_job &g, const attention_tile &at, int from,
                                      const attention_pairs<HALVES> &weight, attention_pairs<HALVES> &slope,
                                      float scale) {
    enum { KEYS = OWN == ATTENTION_OWN_KEYS };
    float common[KEYS ? (int)ATTENTION_EACH : (int)attention_shape<HALVES>::LINES];
    attention_of_queries<HALVES, OWN>(g.of, at, from, g.common, common);
    attention_each_pair<HALVES, OWN>(from, [&](int i, int j, int, int) {
        float x = weight[i][j] * (slope[i][j] - common[KEYS ? j : i]);
        slope[i][j] = weight[i][j] != 0.0f ? x * scale : 0.0f;
    });
}

/* weight: probabilities, to what multiplied the values; slope: the gradients of that, to those of scores, but
 * for a cap. `keeps`: what dropout has, where there is some. */
template <int HALVES, int OWN>
GPU_INLINE void attention_slopes(const attention_slope_job &g, const attention_tile &at, int from,
                                 attention_pairs<HALVES> &weight, attention_pairs<HALVES> &slope,
                                 const float *keeps) {
    bool drops = g.of.dropout > 0;
    if (drops) attention_keep<HALVES>(slope, keeps);
    attention_less_common<HALVES, OWN>(g, at, from, weight, slope, g.of.scale);
    if (drops) attention_keep<HALVES>(weight, keeps);
    __syncwarp();
}

/* ---- what the slopes of a query have in common ---- */

/* From y: sixteen partial sums of dy y, then a tree. A warp has a row, and its upper half copies the lower.
 */
template <int TYPE>
struct attention_common_of_y {
    attention_slope_job g;

    __device__ __forceinline__ void operator()(int64_t row) const {
        const attention_job &a = g.of;
        cuda_span of_y = { g.y.data, TYPE }, of_dy = { g.dy.data, TYPE };
        int64_t t = row % a.queries, h = row / a.queries % a.heads, b = row / a.queries / a.heads;
        int64_t y = g.y.first + (b * a.queries + t) * g.y.stride + h * a.size;
        int64_t dy = g.dy.first + (b * a.queries + t) * g.dy.stride + h * a.size;
        float sum = 0;
        for (int d = (int)threadIdx.x % 16; d < a.size; d += 16) sum += of_y.get(y + d) * of_dy.get(dy + d);
        for (int lanes = 8; lanes; lanes /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
        if (threadIdx.x % GPU_WARP == 0) g.common[row] = sum;
    }
};

/* From probabilities: the sum over the keys of probability times slope, key after key. */
template <int TYPE, int HALVES>
__global__ void __launch_bounds__(attention_shape<HALVES>::THREADS, attention_shape<HALVES>::BLOCKS)
    attention_common_kernel(attention_slope_job g) {
    GPU_SHARED(float, shared);
    attention_room<HALVES> room = attention_room_of<HALVES>(shared);
    int part;
    const attention_job &a = g.of;
    attention_tile at = attention_queries_here(a, &part);
    float sum = 0;
    bool resident = false;
    for (int64_t from = 0; attention_sight_next(&a.sight, &at, from); from = at.s + ATTENTION_TILE)
        for (int s = 0; s < at.keys; s += ATTENTION_STEP) {
            attention_pairs<HALVES> weight, slope;
            attention_products_of<TYPE, HALVES>(slope, attention_at_queries(a, at, g.dy), room.second,
                                                resident, attention_from(attention_at_keys(a, at, a.v), s),
                                                room.other);
            resident = true;
            attention_weights<HALVES, ATTENTION_OWN_QUERIES, true>(g, at, s, weight, room.pairs);
            if (a.dropout > 0) {
                attention_drop_into<HALVES, ATTENTION_OWN_QUERIES>(a, at, s, room.pairs);
                attention_keep<HALVES>(slope, room.pairs);
                __syncwarp();
            }
            attention_each_pair<HALVES, ATTENTION_OWN_QUERIES>(s, [&](int i, int j, int, int) {
                slope[i][j] = weight[i][j] != 0.0f ? weight[i][j] * slope[i][j] : 0.0f;
            });
            attention_put<HALVES, 0>(slope, room.pairs);
            __syncwarp();
            for (int k = 0; k < ATTENTION_STEP && s + k < at.keys; k++)
                sum += room.pairs[attention_pair_at(attention_running_line<HALVES>(), k)];
            __syncwarp();
        }
    int t = attention_warp_line<HALVES>() + attention_running_line<HALVES>();
    if (t < at.queries && part == 0 && attention_across() < attention_shape<HALVES>::LINES)
        g.common[attention_row_of(a, at) + t] = sum;
}

/* ---- gradients ---- */

/* What the cap of scores leaves of their gradients, which stand in `pairs`: the scores are made once more, as
 * nothing had room for them, and stand where the other side's lines were. */
template <int TYPE, int HALVES>
GPU_INLINE void attention_bend(const attention_slope_job &g, const attention_lines &own,
                               const attention_lines &other, const attention_room<HALVES> &room) {
    float cap = g.of.cap, *scores = attention_warp_pairs<HALVES>(room.other);
    attention_pairs<HALVES> score;
    attention_products_of<TYPE, HALVES>(score, own, room.first, false, other, room.other);
    __syncthreads();
    attention_put<HALVES, 0>(score, scores);
    attention_each_put<HALVES, 1>(scores, [&](int line, int to, float &x) {
        room.pairs[attention_pair_at(line - attention_warp_line<HALVES>(), to)] *=
            softcap_slope_f32(softcap_value_f32(x, cap), cap);
    });
}

/* Where a kernel is: a step of a tile, whose lines of the other side begin at `from`, and the part of lines
 * that the block makes. `resident`: own lines of one chunk are in shared memory. */
struct attention_step {
    attention_tile at;
    int from, part;
    bool resident;
};

/* A step of keys into dq. Keys stay in shared memory behind the scores, where they come in one chunk. */
template <int TYPE, int HALVES, bool PROBS>
GPU_INLINE void attention_queries_step(const attention_slope_job &g, const attention_step &step,
                                       const attention_room<HALVES> &room, attention_sums<HALVES> &dq) {
    const attention_job &a = g.of;
    const attention_tile &at = step.at;
    int s = step.from;
    attention_pairs<HALVES> weight, slope;
    attention_lines q = attention_at_queries(a, at, a.q, a.scale),
                    k = attention_from(attention_at_keys(a, at, a.k), s);
    attention_products_of<TYPE, HALVES>(slope, attention_at_queries(a, at, g.dy), room.second, step.resident,
                                        attention_from(attention_at_keys(a, at, a.v), s), room.other);
    if (!PROBS) attention_products_of<TYPE, HALVES>(weight, q, room.first, step.resident, k, room.other);
    attention_weights<HALVES, ATTENTION_OWN_QUERIES, PROBS>(g, at, s, weight, room.pairs);
    if (a.dropout > 0) attention_drop_into<HALVES, ATTENTION_OWN_QUERIES>(a, at, s, room.pairs);
    attention_slopes<HALVES, ATTENTION_OWN_QUERIES>(g, at, s, weight, slope, room.pairs);
    attention_put<HALVES, 0>(slope, room.pairs);
    if (a.cap > 0) attention_bend<TYPE, HALVES>(g, q, k, room);
    attention_lines made = attention_part(k, step.part);
    if (HALVES > 1 || PROBS || a.cap > 0)
        attention_load_halves<TYPE, HALVES, ATTENTION_STEP>(room.other, made);
    else
        __syncwarp();
    attention_add<HALVES, ATTENTION_STEP>(
        dq, { room.pairs, room.other, attention_step_of(k.count), made.size, NULL });
}

template <int TYPE, int HALVES, bool PROBS>
__global__ void __launch_bounds__(attention_shape<HALVES>::THREADS, attention_shape<HALVES>::BLOCKS)
    attention_queries_kernel(attention_slope_job g) {
    GPU_SHARED(float, shared);
    attention_room<HALVES> room = attention_room_of<HALVES>(shared);
    int part;
    const attention_job &a = g.of;
    attention_tile at = attention_queries_here(a, &part);
    attention_sums<HALVES> dq;
    attention_clear(dq);
    bool resident = false;
    for (int64_t from = 0; attention_sight_next(&a.sight, &at, from); from = at.s + ATTENTION_TILE)
        for (int s = 0; s < at.keys; s += ATTENTION_STEP) {
            attention_queries_step<TYPE, HALVES, PROBS>(g, { at, s, part, resident }, room, dq);
            resident = true;
        }
    attention_store<TYPE, HALVES>(dq, attention_part(attention_at_queries(a, at, g.dq), part));
}

/* The block's keys of a head of keys; no queries yet. Early ones first, as late ones have the least to do
 * where attention is causal. */
GPU_INLINE attention_tile attention_keys_here(const attention_job &a, int *part) {
    int64_t heads = a.batch * a.kv_heads, i = blockIdx.x / a.parts;
    attention_tile at = {};
    *part = (int)(blockIdx.x % (unsigned)a.parts);
    at.g = i % heads % a.kv_heads, at.b = i % heads / a.kv_heads;
    at.s = i / heads * ATTENTION_TILE, at.keys = attention_within(a.keys - at.s);
    return at;
}

/* The tile's queries, against the keys from `s` on that the block has; false: they see none of them. */
GPU_INLINE bool attention_queries_see(const attention_job &a, attention_tile *at, int64_t s) {
    at->queries = attention_within(a.queries - at->t);
    return attention_sight_next(&a.sight, at, s) && at->s == s;
}

/* What a block that owns keys makes. Both at once take the most registers: where probabilities are given,
 * wide heads have a launch for each, for that costs no product. */
enum attention_made { ATTENTION_DV = 1, ATTENTION_DK = 2, ATTENTION_DK_DV = 3 };
template <int HALVES>
struct attention_key_sums {
    attention_sums<HALVES> dk, dv;
};

/* A step of queries. Probabilities wait among the warp's pairs until their slopes are there, for registers
 * have no room for all of both; what dropout has stands where lines stand else. Queries come twice, scaled
 * for the scores and as they are. */
template <int TYPE, int HALVES, bool PROBS, int MADE>
GPU_INLINE void attention_keys_step(const attention_slope_job &g, const attention_step &step,
                                    const attention_room<HALVES> &room, attention_key_sums<HALVES> &sums) {
    const attention_job &a = g.of;
    const attention_tile &at = step.at;
    int t = step.from;
    attention_pairs<HALVES> weight, slope;
    attention_lines k = attention_at_keys(a, at, a.k),
                    q = attention_from(attention_at_queries(a, at, a.q), t), scaled = q,
                    dy = attention_from(attention_at_queries(a, at, g.dy), t);
    int count = attention_step_of(q.count);
    scaled.factor = a.scale;
    if (!PROBS)
        attention_products_of<TYPE, HALVES>(weight, k, room.first, step.resident, scaled, room.other);
    else
        __syncwarp(); /* the last step's pairs were read */
    attention_weights<HALVES, ATTENTION_OWN_KEYS, PROBS>(g, at, t, weight, room.pairs);
    attention_put<HALVES, 0>(weight, room.pairs);
    if (MADE & ATTENTION_DK)
        attention_products_of<TYPE, HALVES>(slope, attention_at_keys(a, at, a.v), room.second, step.resident,
                                            dy, room.other);
    float *keeps = attention_warp_pairs<HALVES>(room.other);
    if (a.dropout > 0) {
        __syncthreads();
        attention_drop_into<HALVES, ATTENTION_OWN_KEYS>(a, at, t, keeps);
    }
    attention_take<HALVES, 0>(weight, room.pairs);
    if (MADE & ATTENTION_DK)
        attention_slopes<HALVES, ATTENTION_OWN_KEYS>(g, at, t, weight, slope, keeps);
    else if (a.dropout > 0)
        attention_keep<HALVES>(weight, keeps);
    if (a.dropout > 0) attention_put<HALVES, 0>(weight, room.pairs);
    dy = attention_part(dy, step.part), q = attention_part(q, step.part);
    if (MADE & ATTENTION_DV) {
        if (HALVES > 1 || a.dropout > 0 || !(MADE & ATTENTION_DK))
            attention_load_halves<TYPE, HALVES, ATTENTION_STEP>(room.other, dy);
        else
            __syncwarp();
        attention_add<HALVES, ATTENTION_STEP>(sums.dv, { room.pairs, room.other, count, dy.size, NULL });
    }
    if (!(MADE & ATTENTION_DK)) return;
    __syncwarp();
    attention_put<HALVES, 0>(slope, room.pairs);
    if (a.cap > 0) attention_bend<TYPE, HALVES>(g, k, scaled, room);
    attention_load_halves<TYPE, HALVES, ATTENTION_STEP>(room.other, q);
    attention_add<HALVES, ATTENTION_STEP>(sums.dk, { room.pairs, room.other, count, q.size, NULL });
}

template <int TYPE, int HALVES, bool PROBS, int MADE>
__global__ void __launch_bounds__(attention_shape<HALVES>::THREADS, attention_shape<HALVES>::BLOCKS)
    attention_keys_kernel(attention_slope_job g) {
    GPU_SHARED(float, shared);
    attention_room<HALVES> room = attention_room_of<HALVES>(shared);
    int part;
    const attention_job &a = g.of;
    attention_tile at = attention_keys_here(a, &part);
    attention_key_sums<HALVES> sums;
    if (MADE & ATTENTION_DK) attention_clear(sums.dk);
    if (MADE & ATTENTION_DV) attention_clear(sums.dv);
    int group = (int)(a.heads / a.kv_heads);
    bool resident = false;
    at.h = at.g * group;
    for (int left = group; left; left--, at.h++)
        for (at.t = 0; at.t < a.queries; at.t += ATTENTION_TILE) {
            if (!attention_queries_see(a, &at, attention_keys_here(a, &part).s)) continue;
            for (int t = 0; t < at.queries; t += ATTENTION_STEP) {
                attention_keys_step<TYPE, HALVES, PROBS, MADE>(g, { at, t, part, resident }, room, sums);
                resident = true;
            }
        }
    at = attention_keys_here(a, &part);
    if (MADE & ATTENTION_DK)
        attention_store<TYPE, HALVES>(sums.dk, attention_part(attention_at_keys(a, at, g.dk), part));
    if (MADE & ATTENTION_DV)
        attention_store<TYPE, HALVES>(sums.dv, attention_part(attention_at_keys(a, at, g.dv), part));
}

/* `blocks`: tiles of keys, by their parts. */
template <int TYPE, int HALVES, bool PROBS>
static void attention_keys_launch(const attention_slope_job &g, unsigned blocks) {
    enum {
        THREADS = attention_shape<HALVES>::THREADS,
        SHARED = attention_room<HALVES>::FLOATS * (int)sizeof(float),
        APART = PROBS && HALVES > 1,
        MADE = APART ? ATTENTION_DK : ATTENTION_DK_DV
    };
    if (blocks == 0) return;
    GPU_LAUNCH((attention_keys_kernel<TYPE, HALVES, PROBS, MADE>), blocks, THREADS, SHARED, g);
    if (APART)
        GPU_LAUNCH((attention_keys_kernel < TYPE, HALVES, PROBS, APART ? ATTENTION_DV : ATTENTION_DK_DV >),
                   blocks, THREADS, SHARED, g);
}

/* Of the bias of each score: the sum over the samples. A block has 64 queries and 32 keys. */
template <int TYPE, int HALVES, bool PROBS>
__global__ void __launch_bounds__(attention_shape<HALVES>::THREADS, attention_shape<HALVES>::BLOCKS)
    attention_bias_kernel(attention_slope_job g) {
    GPU_SHARED(float, shared);
    attention_room<HALVES> room = attention_room_of<HALVES>(shared);
    const attention_job &a = g.of;
    int64_t steps = (a.keys + ATTENTION_STEP - 1) / ATTENTION_STEP, i = blockIdx.x / steps,
            blocks = (a.queries + ATTENTION_TILE - 1) / ATTENTION_TILE, first = blockIdx.x % steps;
    attention_tile at = {};
    at.h = i / blocks, at.g = at.h / (a.heads / a.kv_heads);
    at.t = i % blocks * ATTENTION_TILE, at.queries = attention_within(a.queries - at.t);
    int from = (int)(first % 2) * ATTENTION_STEP;
    at.s = first / 2 * ATTENTION_TILE, at.keys = attention_within(a.keys - at.s);
    attention_pairs<HALVES> sum = {};
    for (at.b = 0; at.b < a.batch; at.b++) {
        attention_pairs<HALVES> weight, slope;
        attention_products_of<TYPE, HALVES>(slope, attention_at_queries(a, at, g.dy), room.second, false,
                                            attention_from(attention_at_keys(a, at, a.v), from), room.other);
        if (!PROBS)
            attention_products_of<TYPE, HALVES>(weight, attention_at_queries(a, at, a.q, a.scale), room.first,
                                                false, attention_from(attention_at_keys(a, at, a.k), from),
                                                room.other);
        attention_weights<HALVES, ATTENTION_OWN_QUERIES, PROBS>(g, at, from, weight, room.pairs);
        if (a.dropout > 0) {
            attention_drop_into<HALVES, ATTENTION_OWN_QUERIES>(a, at, from, room.pairs);
            attention_keep<HALVES>(slope, room.pairs);
        }
        attention_less_common<HALVES, ATTENTION_OWN_QUERIES>(g, at, from, weight, slope, 1.0f);
        attention_each_pair<HALVES, ATTENTION_OWN_QUERIES>(
            from, [&](int r, int k, int, int) { sum[r][k] += slope[r][k]; });
    }
    attention_places<HALVES, ATTENTION_OWN_QUERIES> places = { from };
#pragma unroll
    for (int r = 0; r < attention_shape<HALVES>::LINES; r++)
#pragma unroll
        for (int k = 0; k < ATTENTION_EACH; k++) {
            int t = places.own(r), s = places.other(k);
            if (t < at.queries && s < at.keys)
                g.dbias.set((at.h * a.queries + at.t + t) * a.keys + at.s + s, sum[r][k]);
        }
}

/* ---- launches ---- */

template <bool PROBS>
struct attention_slope_launch {
    template <int TYPE, int HALVES>
    static void run(const attention_job &a, const attention_slope_job &g) {
        enum {
            THREADS = attention_shape<HALVES>::THREADS,
            SHARED = attention_room<HALVES>::FLOATS * (int)sizeof(float)
        };
        int64_t owners = attention_tiles(a.queries) * a.batch * a.heads,
                keys = attention_tiles(a.keys) * a.batch * a.kv_heads * a.parts;
        attention_slope_job whole = g; /* sums over keys have one owner */
        whole.of.parts = 1;
        if (PROBS && owners > 0)
            GPU_LAUNCH((attention_common_kernel<TYPE, HALVES>), (unsigned)owners, THREADS, SHARED, whole);
        attention_common_of_y<TYPE> of_y = { g };
        if (!PROBS) cuda_rows(a.batch * a.heads * a.queries, of_y);
        if (owners > 0)
            GPU_LAUNCH((attention_queries_kernel<TYPE, HALVES, PROBS>), (unsigned)(owners * a.parts), THREADS,
                       SHARED, g);
        attention_keys_launch<TYPE, HALVES, PROBS>(g, (unsigned)keys);
        int64_t pairs = attention_tiles(a.queries) * gpu_blocks(a.keys, ATTENTION_STEP) * a.heads;
        if (g.dbias.data && pairs > 0)
            GPU_LAUNCH((attention_bias_kernel<TYPE, HALVES, PROBS>), (unsigned)pairs, THREADS, SHARED, g);
    }
};
