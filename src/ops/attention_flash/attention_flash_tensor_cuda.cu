/* Attention forward on tensor cores. A block's queries stay in registers. Keys and values have a buffer each:
 * the next tile's keys come while this one's pairs are softened, its values while they are multiplied.
 *
 * What bounds it, reckoned for a tile of 64 x 64 pairs of heads of 64 from what a multiprocessor of 9.0 has
 * in a cycle (bench/results/gpu_attention.md): multiplying, shared memory and exponentials alike, each 256
 * cycles. */
#include "ops/attention_flash/attention_tensor_cuda.h"

#include "ops/attention_flash/attention_flash_math.h"

struct attention_tensor_forward {
    attention_job of;
    attention_cuda_place y;
    float *lse;
    bool eights; /* all operands' lines */
};

/* A query's maximum and the thread's part of its sum so far, and what a larger maximum does to both; by i and
 * k / 2 of its pairs. */
template <class S>
struct attention_tensor_softening {
    float top[S::SIXTEENS][2], sum[S::SIXTEENS][2], shrink[S::SIXTEENS][2];
};

/* Scores to exponentials. The four threads of a line tell each other their largest. */
template <class S>
GPU_INLINE void attention_tensor_soften(attention_tensor_pairs<S> &x, attention_tensor_softening<S> &soft) {
#pragma unroll
    for (int i = 0; i < S::SIXTEENS; i++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float now = soft.top[i][h];
#pragma unroll
            for (int j = 0; j < S::STEP / 8; j++) now = fmaxf(now, fmaxf(x[i][j][2 * h], x[i][j][2 * h + 1]));
            now = fmaxf(now, __shfl_xor_sync(0xffffffffu, now, 1));
            now = fmaxf(now, __shfl_xor_sync(0xffffffffu, now, 2));
            float reached = attention_reached(now);
            soft.shrink[i][h] = gpu_exp2(soft.top[i][h] - reached);
            soft.top[i][h] = now, soft.sum[i][h] *= soft.shrink[i][h];
#pragma unroll
            for (int j = 0; j < S::STEP / 8; j++)
#pragma unroll
                for (int k = 2 * h; k < 2 * h + 2; k++) {
                    x[i][j][k] = gpu_exp2(x[i][j][k] - reached);
                    soft.sum[i][h] += x[i][j][k];
                }
        }
}

/* The sum of a line's four threads, in each of them. */
GPU_INLINE float attention_tensor_line_sum(float x) {
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

/* What a block has in shared memory and a thread in registers. */
template <class S>
struct attention_tensor_block {
    uint16_t *keys, *values;
    attention_tensor_room<S> room;
    uint32_t q[S::SIZE / 16][S::SIXTEENS][4];
    attention_tensor_softening<S> soft;
    attention_tensor_sums<S> mixed;
};

/* Queries, which pass through the values' buffer, and the first tile's keys, which are under way when it
 * returns. Does a query see any? */
template <class S>
GPU_INLINE bool attention_tensor_begin(const attention_tensor_forward &f, attention_tile &at,
                                       attention_tensor_block<S> &block) {
    const attention_job &a = f.of;
    attention_tensor_fill<S>(block.values, attention_at_queries(a, at, a.q), f.eights);
    gpu_copies_commit();
    bool here = attention_sight_next(&a.sight, &at, 0);
    if (here) attention_tensor_fill<S>(block.keys, attention_at_keys(a, at, a.k), f.eights);
    gpu_copies_commit();
    gpu_copies_wait<1>();
    __syncthreads();
#pragma unroll
    for (int depth = 0; depth < S::SIZE; depth += 16)
        attention_tensor_own<S>(block.q[depth / 16], block.values, depth);
    __syncthreads();
    attention_tensor_clear<S>(block.mixed);
#pragma unroll
    for (int i = 0; i < S::SIXTEENS; i++)
#pragma unroll
        for (int h = 0; h < 2; h++) block.soft.top[i][h] = -INFINITY, block.soft.sum[i][h] = 0.0f;
    return here;
}

/* A tile, whose keys are under way; then `at` is the next one and its keys are. Is there one? */
template <class T, class S, bool SPECIAL>
GPU_INLINE bool attention_tensor_tile(const attention_tensor_forward &f, attention_tile &at,
                                      attention_tensor_block<S> &block) {
    const attention_job &a = f.of;
    attention_tensor_fill<S>(block.values, attention_at_keys(a, at, a.v), f.eights);
    gpu_copies_commit();
    gpu_copies_wait<1>();
    __syncthreads(); /* keys are here */
    attention_tensor_pairs<S> x;
    attention_tensor_inner<T, S>(
        x,
        [&](uint32_t(&own)[S::SIXTEENS][4], int depth) {
#pragma unroll
            for (int i = 0; i < S::SIXTEENS; i++)
#pragma unroll
                for (int k = 0; k < 4; k++) own[i][k] = block.q[depth / 16][i][k];
        },
        block.keys, 0, a.size);
    __syncthreads(); /* and are read */
    attention_tile next = at;
    bool more = attention_sight_next(&a.sight, &next, at.s + ATTENTION_TILE);
    if (more) attention_tensor_fill<S>(block.keys, attention_at_keys(a, next, a.k), f.eights);
    gpu_copies_commit();
    attention_tensor_scores<S, false, SPECIAL>(a, { at, 0 }, x, block.room);
    attention_tensor_soften<S>(x, block.soft);
    if (SPECIAL && a.dropout > 0) { /* the sum is that of all, and the values' of what is kept */
        attention_tensor_draw<S, false>(a, { at, 0 }, block.room);
        attention_tensor_keep<S>(a, block.room, x);
    }
    attention_tensor_packed<S> pairs;
    attention_tensor_pack<T, S>(x, pairs);
    gpu_copies_wait<1>();
    __syncthreads(); /* values are here */
    attention_tensor_add<T, S>(block.mixed, pairs, block.values, 0, a.size,
                               [&](int i, int k) { return block.soft.shrink[i][k / 2]; });
    __syncthreads(); /* and are read */
    at = next;
    return more;
}

template <class T, class S, bool SPECIAL>
__global__ void __launch_bounds__(S::THREADS, S::BLOCKS)
    attention_flash_tensor_kernel(attention_tensor_forward f) {
#if GPU_HAS_MMA
    GPU_SHARED(uint16_t, shared);
    attention_tensor_block<S> block;
    block.keys = shared, block.values = shared + S::LINES;
    block.room = attention_tensor_room<S>::of(shared + 2 * S::LINES);
    int part;
    attention_tile at = attention_queries_here(f.of, &part);
    bool here = attention_tensor_begin<S>(f, at, block);
    while (here) here = attention_tensor_tile<T, S, SPECIAL>(f, at, block);
    gpu_copies_wait<0>();
#pragma unroll
    for (int i = 0; i < S::SIXTEENS; i++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float sum = attention_tensor_line_sum(block.soft.sum[i][h]);
            int t = S::own(i, 2 * h);
            if (t < at.queries && cuda_lane() % 4 == 0)
                f.lse[attention_row_of(f.of, at) + t] =
                    attention_flash_lse(block.soft.top[i][h] * ATTENTION_LN_2, sum);
            block.soft.shrink[i][h] = attention_share(sum);
        }
    attention_tensor_store<T, S>(block.mixed, block.values, attention_at_queries(f.of, at, f.y), f.eights,
                                 [&](int i, int k) { return block.soft.shrink[i][k / 2]; });
#endif
}

/* Heads of up to 64 numbers: a warp has 32 queries, so that a product reads half as much of shared memory as
 * by sixteen. And of up to 128, for which registers have no room for that. */
typedef attention_tensor_shape<64, 2, 64, 1, 4> attention_tensor_narrow;
typedef attention_tensor_shape<128, 1, 64, 1, 2> attention_tensor_wide;

template <class T, class S, bool SPECIAL>
static void launch(const attention_tensor_forward &f) {
    enum { SHARED = 2 * S::LINES * 2 + (SPECIAL ? attention_tensor_room_bytes<S> : 0) };
    int64_t blocks = attention_tiles(f.of.queries) * f.of.batch * f.of.heads;
    if (blocks <= 0) return;
    GPU_SHARED_MOST((attention_flash_tensor_kernel<T, S, SPECIAL>), SHARED);
    GPU_LAUNCH((attention_flash_tensor_kernel<T, S, SPECIAL>), (unsigned)blocks, S::THREADS, SHARED, f);
}

template <class T, bool SPECIAL>
static void choose(const attention_tensor_forward &f) {
    if (f.of.size > attention_tensor_narrow::SIZE)
        launch<T, attention_tensor_wide, SPECIAL>(f);
    else
        launch<T, attention_tensor_narrow, SPECIAL>(f);
}

static void run(const op_call *c) {
    attention_view v = attention_view_of(c, 3);
    attention_tensor_forward f = {};
    f.of = attention_job_of(v);
    f.y = attention_cuda_place_of(attention_view_rows(&v, &c->out[0]), v.n.size);
    f.lse = (float *)c->out[1].data;
    f.eights = true;
    const attention_cuda_place places[] = { f.of.q, f.of.k, f.of.v, f.y };
    for (const attention_cuda_place &p : places) f.eights &= attention_tensor_eights(p, v.n.size);
    bool special = attention_tensor_is_special(f.of);
    if (f.of.type == DTYPE_BF16)
        special ? choose<gpu_bf16, true>(f) : choose<gpu_bf16, false>(f);
    else
        special ? choose<gpu_f16, true>(f) : choose<gpu_f16, false>(f);
}

static bool accepts(const op_call *c) { return attention_tensor_accepts(c, 3); }

CUDA_KERNELS(attention_flash_tensor, { "attention_flash_cuda_tensor", accepts, NULL, run });
