/* Twin of attention_flash_cpu.c's fast kernels: the same tiles, and every sum in their order. What bounds it:
 * multiply-adds in f32 and shared memory, as in attention_gradient_cuda.h. */
#include "ops/attention/attention_gradient_cuda.h"

extern "C" {
#include "ops/attention_flash/attention_flash.h"
}
#include "ops/attention_flash/attention_flash_math.h"

enum { SCORES = ATTENTION_TILE / ATTENTION_ACROSS /* of a thread's own line in a tile */ };

/* Pairs from FROM on of those that are special. */
template <int HALVES, int FROM>
GPU_INLINE void attention_flash_specials(const attention_job &a, const attention_tile &at,
                                         const attention_sighted &by,
                                         float (&x)[attention_shape<HALVES>::LINES][SCORES], float *pairs) {
    attention_put<HALVES, FROM>(x, pairs);
    attention_each_put<HALVES, 1>(pairs, [&](int t, int s, float &pair) {
        pair = attention_score(a, at, by, t, FROM * ATTENTION_ACROSS + s, pair);
    });
    attention_take<HALVES, FROM>(x, pairs);
}

/* What becomes of the tile's inner products: minus infinity where a query does not see a key. */
template <int HALVES>
GPU_INLINE void attention_flash_scores(const attention_job &a, const attention_tile &at,
                                       float (&x)[attention_shape<HALVES>::LINES][SCORES], float *pairs) {
    attention_sighted by = attention_sight_of(a, at);
    if (attention_is_special(a)) {
        attention_flash_specials<HALVES, 0>(a, at, by, x, pairs);
        attention_flash_specials<HALVES, SCORES / 2>(a, at, by, x, pairs);
        return;
    }
    if (by.all) return;
#pragma unroll
    for (int i = 0; i < attention_shape<HALVES>::LINES; i++)
#pragma unroll
        for (int j = 0; j < SCORES; j++) {
            int t = attention_line<HALVES>() + i * ATTENTION_DOWN,
                s = attention_across() + j * ATTENTION_ACROSS;
            if (!attention_is_placed(by, t, s)) x[i][j] = -INFINITY;
        }
}

/* What a thread keeps of the query of its running line: its maximum and sum so far, and what a larger maximum
 * does to both. */
struct attention_flash_softening {
    float top, sum, shrink;
};

/* The largest of each own line's numbers over the threads across: of the thread's running line, which is its
 * place across. Halves of the lines change sides, until a thread has one. */
template <int LINES>
GPU_INLINE float attention_flash_largest(float (&high)[LINES]) {
#pragma unroll
    for (int bit = LINES / 2; bit; bit /= 2) {
        bool upper = attention_across() & bit;
#pragma unroll
        for (int i = 0; i < bit; i++) {
            float given = upper ? high[i] : high[i + bit], kept = upper ? high[i + bit] : high[i];
            high[i] = fmaxf(kept, __shfl_xor_sync(0xffffffffu, given, attention_across_bit(bit)));
        }
    }
#pragma unroll
    for (int bit = LINES; bit < ATTENTION_ACROSS; bit *= 2)
        high[0] = fmaxf(high[0], __shfl_xor_sync(0xffffffffu, high[0], attention_across_bit(bit)));
    return high[0];
}

/* What the thread of a running line has, for all of the thread's own lines. */
template <int LINES>
GPU_INLINE void attention_flash_spread(float x, float (&to)[LINES]) {
#pragma unroll
    for (int i = 0; i < LINES; i++)
        to[i] = __shfl_sync(0xffffffffu, x, attention_lane_at(attention_down(), i));
}

/* Scores to exponentials; what was summed up before shrinks with the maximum. */
template <int HALVES>
GPU_INLINE void attention_flash_soften(float (&x)[attention_shape<HALVES>::LINES][SCORES],
                                       attention_flash_softening &soft, attention_sums<HALVES> &mixed) {
    enum { LINES = attention_shape<HALVES>::LINES };
    float high[LINES];
#pragma unroll
    for (int i = 0; i < LINES; i++) {
        high[i] = x[i][0];
#pragma unroll
        for (int j = 1; j < SCORES; j++) high[i] = fmaxf(high[i], x[i][j]);
    }
    float now = fmaxf(soft.top, attention_flash_largest(high)), reached = attention_reached(now);
    soft.shrink = vector_exp(soft.top - reached);
    soft.top = now, soft.sum *= soft.shrink;
    float tops[LINES], shrinks[LINES];
    attention_flash_spread(reached, tops);
    attention_flash_spread(soft.shrink, shrinks);
#pragma unroll
    for (int i = 0; i < LINES; i++) {
#pragma unroll
        for (int j = 0; j < SCORES; j++) x[i][j] = vector_exp_bounded(x[i][j] - tops[i]);
#pragma unroll
        for (int h = 0; h < HALVES; h++)
#pragma unroll
            for (int j = 0; j < 8; j++) mixed.of[h][i][j] *= shrinks[i];
    }
}

/* With dropout the sum is that of all, and the values' of what is kept. */
template <int HALVES>
GPU_INLINE void attention_flash_drop(const attention_job &a, const attention_tile &at, int from, float *pairs,
                                     float *sum) {
    typedef attention_shape<HALVES> shape;
    int own = attention_warp_line<HALVES>(), count = at.keys - from;
    for (int s = 0; s < count && s < ATTENTION_STEP; s++)
        *sum += pairs[attention_pair_at(attention_running_line<HALVES>(), s)];
    __syncwarp();
    attention_drop(a, at, { own, shape::WARP, from, ATTENTION_STEP },
                   [&](int t, int s, float keep) { pairs[attention_pair_at(t - own, s - from)] *= keep; });
    __syncwarp();
}

/* What a block has in shared memory and a thread in registers. */
template <int HALVES>
struct attention_flash_block {
    float *own, *other, *pairs; /* pairs: the warp's */
    attention_flash_softening soft;
    attention_sums<HALVES> mixed;
};

/* The step of the tile whose exponentials begin at FROM: times the values, and into the sums. */
template <int TYPE, int HALVES, int FROM>
GPU_INLINE void attention_flash_mix(const attention_job &a, const attention_tile &at,
                                    const attention_lines &values,
                                    const float (&x)[attention_shape<HALVES>::LINES][SCORES],
                                    attention_flash_block<HALVES> &block) {
    enum { LINE = FROM * ATTENTION_ACROSS, COUNT = ATTENTION_TILE / HALVES };
    int count = at.keys - LINE < ATTENTION_STEP ? at.keys - LINE : (int)ATTENTION_STEP;
    if (count <= 0) return;
    if (HALVES > 1 || FROM == 0)
        attention_load_halves<TYPE, HALVES, COUNT>(block.other,
                                                   attention_from(values, HALVES > 1 ? (int)LINE : 0));
    else
        __syncwarp();
    attention_put<HALVES, FROM>(x, block.pairs);
    __syncwarp();
    float after = block.soft.sum, *others = block.other + (HALVES > 1 ? 0 : LINE * ATTENTION_CHUNK);
    if (a.dropout > 0) attention_flash_drop<HALVES>(a, at, LINE, block.pairs, &block.soft.sum);
    attention_add<HALVES, COUNT>(block.mixed, { block.pairs, others, count, values.size, &after });
    if (!(a.dropout > 0)) block.soft.sum = after;
}

template <int TYPE, int HALVES>
__global__ void __launch_bounds__(attention_shape<HALVES>::THREADS, attention_shape<HALVES>::BLOCKS)
    attention_flash_kernel(attention_job a, attention_cuda_place y, float *lse) {
    enum { LINES = attention_shape<HALVES>::LINES };
    GPU_SHARED(float, shared);
    attention_flash_block<HALVES> block;
    block.own = shared, block.other = shared + ATTENTION_LOADS;
    block.pairs = attention_warp_pairs<HALVES>(shared + 2 * ATTENTION_LOADS);
    block.soft = { -INFINITY, 0.0f, 1.0f };
    attention_clear(block.mixed);
    int part;
    attention_tile at = attention_queries_here(a, &part);
    bool resident = false;
    for (int64_t from = 0; attention_sight_next(&a.sight, &at, from); from = at.s + ATTENTION_TILE) {
        float x[LINES][SCORES];
        attention_products_of<TYPE, HALVES>(x, attention_at_queries(a, at, a.q, a.scale), block.own, resident,
                                            attention_at_keys(a, at, a.k), block.other);
        resident = true;
        attention_flash_scores<HALVES>(a, at, x, block.pairs);
        attention_flash_soften<HALVES>(x, block.soft, block.mixed);
        attention_lines values = attention_part(attention_at_keys(a, at, a.v), part);
        attention_flash_mix<TYPE, HALVES, 0>(a, at, values, x, block);
        attention_flash_mix<TYPE, HALVES, SCORES / 2>(a, at, values, x, block);
    }
    int t = attention_warp_line<HALVES>() + attention_running_line<HALVES>();
    if (t < at.queries && part == 0 && attention_across() < LINES)
        lse[attention_row_of(a, at) + t] = attention_flash_lse(block.soft.top, block.soft.sum);
    float shares[LINES];
    attention_flash_spread(attention_share(block.soft.sum), shares);
    attention_store<TYPE, HALVES>(block.mixed, attention_part(attention_at_queries(a, at, y), part), shares);
}

struct attention_flash_launch {
    template <int TYPE, int HALVES>
    static void run(const attention_job &a, const attention_cuda_place &y, float *lse) {
        int64_t blocks = attention_tiles(a.queries) * a.batch * a.heads * a.parts;
        if (blocks > 0)
            GPU_LAUNCH((attention_flash_kernel<TYPE, HALVES>), (unsigned)blocks,
                       attention_shape<HALVES>::THREADS,
                       (2 * ATTENTION_LOADS + ATTENTION_PAIRS) * sizeof(float), a, y, lse);
    }
};

static void run(const op_call *c) {
    attention_view v = attention_view_of(c, 3);
    attention_cuda_place y = attention_cuda_place_of(attention_view_rows(&v, &c->out[0]), v.n.size);
    attention_cuda_run<attention_flash_launch>(attention_job_of(v), y, (float *)c->out[1].data);
}

/* ---- the gradient ---- */

static void run_backward(const op_call *c) {
    attention_view v = attention_view_of(c, 6);
    attention_slope_job g = attention_slope_job_of(c, v);
    g.y = attention_cuda_place_of(attention_view_rows(&v, op_in(c, 3)), v.n.size);
    g.lse = (const float *)op_in(c, 4)->data;
    g.dy = attention_cuda_place_of(attention_view_rows(&v, op_in(c, 5)), v.n.size);
    attention_cuda_run<attention_slope_launch<false>>(g.of, g);
}

static uint64_t backward_scratch(const op_call *c, int) {
    return attention_slope_scratch(attention_view_of(c, 6));
}

CUDA_KERNELS(attention_flash_cuda, { "attention_flash_cuda_tiled", cuda_accepts, NULL, run });
CUDA_KERNELS(attention_flash_backward_cuda,
             { "attention_flash_backward_cuda_tiled", cuda_accepts, backward_scratch, run_backward });
