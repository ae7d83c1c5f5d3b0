/* The gradient of attention on tensor cores: what queries' slopes have in common, as the plain kernels make
 * it; dq by blocks that own queries; dk and dv by blocks that own keys, over all heads that read them. Both
 * kinds of blocks do the same: with own lines x and x' and others y and y',
 *
 *   pairs x y become probabilities, pairs x' y' their slopes, and slopes y is summed up;
 *
 * x, x', y, y' are q, dy, k, v where queries are the own, and k, v, q, dy where keys are, which sum up
 * probabilities times y' as well. Probabilities are made twice.
 *
 * What bounds it, reckoned as forward is: shared memory. A tile's dq takes 640 cycles of it and 384 of tensor
 * cores; its dk and dv, whose warps have 16 keys each, 1,280 and 512. */
#include "ops/attention_flash/attention_tensor_cuda.h"

struct attention_tensor_backward {
    attention_slope_job g;
    bool eights; /* all operands' lines */
};

/* What a thread's own queries have, by i and k / 2; of own keys the others have it, in shared memory. */
template <class S>
struct attention_tensor_queries {
    float lse[S::SIXTEENS][2], common[S::SIXTEENS][2];
};

/* What a block has in shared memory: 64 lines of each operand, others in STAGES buffers with what their
 * queries have: lse, then what slopes have in common. */
template <class S, bool OWN_KEYS>
struct attention_tensor_sides {
    enum {
        STAGE = 2 * S::LINES,
        OF_QUERIES = OWN_KEYS ? 2 * ATTENTION_TILE : 0, /* floats of a stage */
        SHARED = (2 * S::LINES + S::STAGES * STAGE) * 2 + S::STAGES * OF_QUERIES * 4,
        SHARED_SPECIAL = SHARED + attention_tensor_room_bytes<S>
    };
    uint16_t *own, *others;
    float *of_queries;
    attention_tensor_room<S> room;
    attention_tensor_queries<S> queries;
    int stage;

    __device__ __forceinline__ static attention_tensor_sides of(uint16_t *shared) {
        uint16_t *others = shared + 2 * S::LINES;
        float *of_queries = (float *)(others + S::STAGES * STAGE);
        return { shared,     others,
                 of_queries, attention_tensor_room<S>::of(of_queries + S::STAGES * OF_QUERIES),
                 {},         0 };
    }
    __device__ __forceinline__ uint16_t *first(int s) const { return others + s * STAGE; }
    __device__ __forceinline__ uint16_t *second(int s) const { return others + s * STAGE + S::LINES; }
    __device__ __forceinline__ float *lse(int s) const { return of_queries + s * OF_QUERIES; }
    __device__ __forceinline__ float *common(int s) const { return lse(s) + ATTENTION_TILE; }
    __device__ __forceinline__ int other_stage() const { return S::STAGES > 1 ? stage ^ 1 : 0; }
};

/* ---- the other side's tiles ---- */

/* Sets `at` to the first tile from here on whose queries and keys see each other: of own queries the keys
 * from `from` on; of own keys, which begin at `from`, the queries from at.t on, of head after head of the
 * group. */
template <bool OWN_KEYS>
GPU_INLINE bool attention_tensor_find(const attention_job &a, attention_tile &at, int64_t from) {
    if (!OWN_KEYS) return attention_sight_next(&a.sight, &at, from);
    int64_t group = a.heads / a.kv_heads;
    for (; at.h < (at.g + 1) * group; at.h++, at.t = 0)
        for (; at.t < a.queries; at.t += ATTENTION_TILE)
            if (attention_queries_see(a, &at, from)) return true;
    return false;
}

/* The one after `at`. */
template <bool OWN_KEYS>
GPU_INLINE bool attention_tensor_after(const attention_job &a, attention_tile &at, int64_t from) {
    if (!OWN_KEYS) return attention_tensor_find<OWN_KEYS>(a, at, at.s + ATTENTION_TILE);
    at.t += ATTENTION_TILE;
    return attention_tensor_find<OWN_KEYS>(a, at, from);
}

/* Sends the other side's lines of a tile on their way. */
template <class S, bool OWN_KEYS>
GPU_INLINE void attention_tensor_send(const attention_tensor_backward &f, const attention_tile &at,
                                      const attention_tensor_sides<S, OWN_KEYS> &m, int stage) {
    const attention_job &a = f.g.of;
    attention_tensor_fill<S>(m.first(stage),
                             OWN_KEYS ? attention_at_queries(a, at, a.q) : attention_at_keys(a, at, a.k),
                             f.eights);
    attention_tensor_fill<S>(m.second(stage),
                             OWN_KEYS ? attention_at_queries(a, at, f.g.dy) : attention_at_keys(a, at, a.v),
                             f.eights);
    if (!OWN_KEYS) return;
    int64_t row = attention_row_of(a, at);
    for (int t = (int)threadIdx.x; t < ATTENTION_TILE; t += S::THREADS) {
        m.lse(stage)[t] = t < at.queries ? f.g.lse[row + t] * ATTENTION_LOG2_E : 0.0f;
        m.common(stage)[t] = t < at.queries ? f.g.common[row + t] : 0.0f;
    }
}

/* ---- a step ---- */

/* Own lines' sums: dq, or dk and dv. */
template <class S, bool OWN_KEYS>
struct attention_tensor_gradient {
    attention_tensor_sums<S> slopes, weights;
};
template <class S>
struct attention_tensor_gradient<S, false> {
    attention_tensor_sums<S> slopes;
};

/* Scores to probabilities before dropout. */
template <class S, bool OWN_KEYS>
GPU_INLINE void attention_tensor_weights(const attention_tensor_sides<S, OWN_KEYS> &m, int line,
                                         attention_tensor_pairs<S> &x) {
    const float *lse = OWN_KEYS ? m.lse(m.stage) + line : NULL;
    attention_tensor_each<S>([&](int i, int j, int k) {
        x[i][j][k] = gpu_exp2(x[i][j][k] - (OWN_KEYS ? lse[S::other(j, k)] : m.queries.lse[i][k / 2]));
    });
}

/* slope: gradients of probabilities behind dropout, to those of scores, but for the scale. */
template <class S, bool OWN_KEYS, bool SPECIAL>
GPU_INLINE void attention_tensor_bend(const attention_job &a, const attention_tensor_sides<S, OWN_KEYS> &m,
                                      int line, const attention_tensor_pairs<S> &weight,
                                      attention_tensor_pairs<S> &slope) {
    const float *common = OWN_KEYS ? m.common(m.stage) + line : NULL;
    if (SPECIAL && a.dropout > 0) attention_tensor_keep<S>(a, m.room, slope);
    attention_tensor_each<S>([&](int i, int j, int k) {
        float less = slope[i][j][k] - (OWN_KEYS ? common[S::other(j, k)] : m.queries.common[i][k / 2]);
        slope[i][j][k] = weight[i][j][k] != 0.0f ? weight[i][j][k] * less : 0.0f;
    });
    if (SPECIAL && a.cap > 0)
        attention_tensor_each<S>([&](int i, int j, int k) {
            float bent = softcap_slope_f32(m.room.at(i, j, k), a.cap);
            slope[i][j][k] = slope[i][j][k] != 0.0f ? slope[i][j][k] * bent : 0.0f;
        });
}

GPU_INLINE float attention_tensor_as_before(int, int) { return 1.0f; }

/* STEP of the other side's lines into the sums. */
template <class T, class S, bool OWN_KEYS, bool SPECIAL>
GPU_INLINE void attention_tensor_step_into(const attention_tensor_backward &f,
                                           const attention_tensor_step &step,
                                           const attention_tensor_sides<S, OWN_KEYS> &m,

                                           attention_tensor_gradient<S, OWN_KEYS> &sums) {
    const attention_job &a = f.g.of;
    attention_tensor_pairs<S> weight, slope;
    attention_tensor_packed<S> packed;
    auto own_first = [&](uint32_t(&own)[S::SIXTEENS][4], int depth) {
        attention_tensor_own<S>(own, m.own, depth);
    };
    auto own_second = [&](uint32_t(&own)[S::SIXTEENS][4], int depth) {
        attention_tensor_own<S>(own, m.own + S::LINES, depth);
    };
    attention_tensor_inner<T, S>(weight, own_first, m.first(m.stage), step.line, a.size);
    attention_tensor_scores<S, OWN_KEYS, SPECIAL>(a, step, weight, m.room);
    attention_tensor_weights<S, OWN_KEYS>(m, step.line, weight);
    if (SPECIAL && a.dropout > 0) attention_tensor_draw<S, OWN_KEYS>(a, step, m.room);
    attention_tensor_inner<T, S>(slope, own_second, m.second(m.stage), step.line, a.size);
    attention_tensor_bend<S, OWN_KEYS, SPECIAL>(a, m, step.line, weight, slope);
    attention_tensor_pack<T, S>(slope, packed);
    attention_tensor_add<T, S>(sums.slopes, packed, m.first(m.stage), step.line, a.size,
                               attention_tensor_as_before);
    if constexpr (OWN_KEYS) {
        if (SPECIAL && a.dropout > 0) attention_tensor_keep<S>(a, m.room, weight);
        attention_tensor_pack<T, S>(weight, packed);
        attention_tensor_add<T, S>(sums.weights, packed, m.second(m.stage), step.line, a.size,
                                   attention_tensor_as_before);
    }
}

/* ---- kernels ---- */

template <class S>
GPU_INLINE void attention_tensor_own_queries(const attention_slope_job &g, const attention_tile &at,
                                             attention_tensor_queries<S> &queries) {
    int64_t row = attention_row_of(g.of, at);
#pragma unroll
    for (int i = 0; i < S::SIXTEENS; i++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int t = S::own(i, 2 * h);
            queries.lse[i][h] = t < at.queries ? g.lse[row + t] * ATTENTION_LOG2_E : 0.0f;
            queries.common[i][h] = t < at.queries ? g.common[row + t] : 0.0f;
        }
}

template <class T, class S, bool OWN_KEYS, bool SPECIAL>
__global__ void __launch_bounds__(S::THREADS, S::BLOCKS)
    attention_slope_tensor_kernel(attention_tensor_backward f) {
#if GPU_HAS_MMA
    GPU_SHARED(uint16_t, shared);
    typedef attention_tensor_sides<S, OWN_KEYS> sides;
    sides m = sides::of(shared);
    const attention_slope_job &g = f.g;
    const attention_job &a = g.of;
    int part;
    attention_tile own = OWN_KEYS ? attention_keys_here(a, &part) : attention_queries_here(a, &part);
    attention_tensor_gradient<S, OWN_KEYS> sums;
    attention_tensor_clear<S>(sums.slopes);
    if constexpr (OWN_KEYS) attention_tensor_clear<S>(sums.weights);
    if (!OWN_KEYS) attention_tensor_own_queries<S>(g, own, m.queries);
    attention_tensor_fill<S>(
        m.own, OWN_KEYS ? attention_at_keys(a, own, a.k) : attention_at_queries(a, own, a.q), f.eights);
    attention_tensor_fill<S>(m.own + S::LINES,
                             OWN_KEYS ? attention_at_keys(a, own, a.v) : attention_at_queries(a, own, g.dy),
                             f.eights);
    attention_tile next = own;
    if (OWN_KEYS) next.h = own.g * (a.heads / a.kv_heads);
    bool here = attention_tensor_find<OWN_KEYS>(a, next, own.s);
    if (here) attention_tensor_send<S, OWN_KEYS>(f, next, m, 0);
    gpu_copies_commit();
    while (here) {
        attention_tile at = next;
        here = attention_tensor_after<OWN_KEYS>(a, next, own.s);
        if (S::STAGES > 1) {
            if (here) attention_tensor_send<S, OWN_KEYS>(f, next, m, m.other_stage());
            gpu_copies_commit();
        }
        gpu_copies_wait<S::STAGES - 1>();
        __syncthreads(); /* the tile is here */
#pragma unroll 1
        for (int line = 0; line < (OWN_KEYS ? at.queries : at.keys); line += S::STEP)
            attention_tensor_step_into<T, S, OWN_KEYS, SPECIAL>(f, { at, line }, m, sums);
        __syncthreads(); /* and is read */
        if (S::STAGES == 1) {
            if (here) attention_tensor_send<S, OWN_KEYS>(f, next, m, 0);
            gpu_copies_commit();
        }
        m.stage = m.other_stage();
    }
    gpu_copies_wait<0>();
    __syncthreads();
    attention_tensor_store<T, S>(
        sums.slopes, m.own, OWN_KEYS ? attention_at_keys(a, own, g.dk) : attention_at_queries(a, own, g.dq),
        f.eights, [&](int, int) { return a.scale; });
    if constexpr (OWN_KEYS)
        attention_tensor_store<T, S>(sums.weights, m.own, attention_at_keys(a, own, g.dv), f.eights,
                                     attention_tensor_as_before);
#endif
}

/* ---- launching ---- */

/* Steps of 32 whatever the size, since the order of sums depends on it. A warp has as many own lines as
 * registers have room for. */
typedef attention_tensor_shape<64, 2, 32, 2, 4> attention_tensor_queries_narrow;
typedef attention_tensor_shape<64, 1, 32, 2, 3> attention_tensor_keys_narrow;
typedef attention_tensor_shape<128, 1, 32, 1, 2> attention_tensor_wide;

template <class T, class S, bool OWN_KEYS, bool SPECIAL>
static void launch(const attention_tensor_backward &f) {
    typedef attention_tensor_sides<S, OWN_KEYS> sides;
    enum { SHARED = SPECIAL ? sides::SHARED_SPECIAL : sides::SHARED };
    const attention_job &a = f.g.of;
    int64_t blocks = OWN_KEYS ? attention_tiles(a.keys) * a.batch * a.kv_heads
                              : attention_tiles(a.queries) * a.batch * a.heads;
    if (blocks <= 0) return;
    GPU_SHARED_MOST((attention_slope_tensor_kernel<T, S, OWN_KEYS, SPECIAL>), SHARED);
    GPU_LAUNCH((attention_slope_tensor_kernel<T, S, OWN_KEYS, SPECIAL>), (unsigned)blocks, S::THREADS, SHARED,
               f);
}

template <class T, int TYPE, bool SPECIAL>
static void launch_all(const attention_tensor_backward &f) {
    const attention_job &a = f.g.of;
    attention_common_of_y<TYPE> of_y = { f.g };
    cuda_rows(a.batch * a.heads * a.queries, of_y);
    if (a.size > attention_tensor_keys_narrow::SIZE) {
        launch<T, attention_tensor_wide, false, SPECIAL>(f);
        launch<T, attention_tensor_wide, true, SPECIAL>(f);
    } else {
        launch<T, attention_tensor_queries_narrow, false, SPECIAL>(f);
        launch<T, attention_tensor_keys_narrow, true, SPECIAL>(f);
    }
}

static void run(const op_call *c) {
    attention_view v = attention_view_of(c, 6);
    attention_tensor_backward f = {};
    f.g = attention_slope_job_of(c, v);
    f.g.y = attention_cuda_place_of(attention_view_rows(&v, op_in(c, 3)), v.n.size);
    f.g.lse = (const float *)op_in(c, 4)->data;
    f.g.dy = attention_cuda_place_of(attention_view_rows(&v, op_in(c, 5)), v.n.size);
    f.eights = true;
    const attention_job &a = f.g.of;
    const attention_cuda_place places[] = { a.q, a.k, a.v, f.g.dy, f.g.dq, f.g.dk, f.g.dv };
    for (const attention_cuda_place &p : places) f.eights &= attention_tensor_eights(p, v.n.size);
    bool special = attention_tensor_is_special(a);
    if (a.type == DTYPE_BF16)
        special ? launch_all<gpu_bf16, DTYPE_BF16, true>(f) : launch_all<gpu_bf16, DTYPE_BF16, false>(f);
    else
        special ? launch_all<gpu_f16, DTYPE_F16, true>(f) : launch_all<gpu_f16, DTYPE_F16, false>(f);
}

static uint64_t scratch(const op_call *c, int) { return attention_slope_scratch(attention_view_of(c, 6)); }

/* A bias has a gradient, which the plain kernels make. */
static bool accepts(const op_call *c) {
    return attention_tensor_accepts(c, 6) && op_in(c, 10)->dtype == DTYPE_NONE;
}

CUDA_KERNELS(attention_flash_backward_tensor,
             { "attention_flash_backward_cuda_tensor", accepts, scratch, run });
