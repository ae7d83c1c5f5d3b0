/* Tiles of attention on GPUs, for both ops: every sum has the order of the CPU's (attention_tile.h), so the
 * bits are the same.
 *
 * A block of threads owns up to 64 lines (queries, or keys) of one head and walks over the lines of the other
 * side. A warp has 16 of the block's own lines; four threads of a warp lie down its lines and eight across
 * the other side's, so a thread has LINES of the own and every eighth of the others. It has their pairs in
 * registers, and from the first tile to the last what it makes of its lines, eight numbers of every 64. What
 * becomes of the pairs passes through shared memory, to the threads of the same warp only. Lines of both
 * sides come to shared memory 64 numbers at a time, so a block takes at most 48 KiB whatever the size of a
 * head; of heads above 128 it makes a part, and other blocks make the others. */
#pragma once

#include "ops/cuda_rows.h"

extern "C" {
#include "ops/attention/attention_view.h"
}
#include "ops/attention/attention_math.h"
#include "ops/softcap/softcap_math.h"

enum {
    ATTENTION_CHUNK = 64, /* numbers of a line that are in shared memory at a time */
    ATTENTION_STEP = 32,  /* lines of the other side whose pairs are in shared memory at a time */
    ATTENTION_DOWN = 4,   /* threads of a warp along its own lines */
    ATTENTION_ACROSS = 8, /* and along the other side's */
    ATTENTION_EACH = ATTENTION_STEP / ATTENTION_ACROSS, /* lines of a thread in a step */
    ATTENTION_LOADS = ATTENTION_TILE * ATTENTION_CHUNK, /* floats of a chunk of 64 lines */
    ATTENTION_PAIRS = ATTENTION_TILE * ATTENTION_STEP,  /* floats of a step's pairs */
    ATTENTION_WIDEST = 2 * ATTENTION_CHUNK              /* numbers of a line that a block makes */
};

/* The shape of a block whose threads make `HALVES` chunks of a line. Eight lines of a thread would read less
 * shared memory for each sum, but the gradient of keys then wants more registers than there are. */
template <int HALVES>
struct attention_shape {
    enum {
        LINES = 4,                     /* own ones of a thread */
        WARP = ATTENTION_DOWN * LINES, /* of a warp */
        THREADS = ATTENTION_TILE / WARP * GPU_WARP,
        BLOCKS = HALVES == 1 ? 3 : 2 /* of a multiprocessor that has room for them */
    };
};

/* ---- the call ---- */

/* Row r, head h of an operand: element first + r * stride + h * D. */
struct attention_cuda_place {
    void *data;
    int64_t first, stride;
    bool fours; /* four neighbours of a head lie where they can be read at once */
};
static inline attention_cuda_place attention_cuda_place_of(const attention_place &p, int64_t size) {
    cuda_span span = cuda_span_of(p.arg);
    return { p.arg->data, p.first, p.stride,
             p.first % 4 == 0 && p.stride % 4 == 0 && size % 4 == 0 && cuda_fours(span) };
}

struct attention_job {
    attention_cuda_place q, k, v;
    attention_sight sight;
    cuda_span bias;        /* (H,T,S); data may be NULL */
    const philox_key *key; /* likewise */
    int64_t batch, heads, kv_heads, queries, keys;
    int32_t size, parts; /* of a head's numbers, ATTENTION_WIDEST each */
    int32_t type;
    float scale, dropout, cap;
    uint32_t stream;
};

static inline attention_job attention_job_of(const attention_view &v) {
    attention_job a = {};
    a.q = attention_cuda_place_of(v.q, v.n.size), a.k = attention_cuda_place_of(v.k, v.n.size),
    a.v = attention_cuda_place_of(v.v, v.n.size);
    a.sight = v.sight, a.key = v.key;
    if (v.bias) a.bias = cuda_span_of(v.bias);
    a.batch = v.n.batch, a.heads = v.n.heads, a.kv_heads = v.n.kv_heads;
    a.queries = v.n.queries, a.keys = v.n.keys;
    a.size = (int32_t)v.n.size, a.parts = (int32_t)gpu_blocks(v.n.size, ATTENTION_WIDEST);
    a.type = v.q.arg->dtype;
    a.scale = (float)v.scale, a.dropout = v.dropout, a.cap = v.cap, a.stream = v.stream;
    return a;
}

/* Calls L::run<type, halves> with the rest. */
template <class L, class... R>
static void attention_cuda_run(const attention_job &a, const R &...rest) {
    bool wide = a.size > ATTENTION_CHUNK;
    if (a.type == DTYPE_F32)
        wide ? L::template run<DTYPE_F32, 2>(a, rest...) : L::template run<DTYPE_F32, 1>(a, rest...);
    else if (a.type == DTYPE_BF16)
        wide ? L::template run<DTYPE_BF16, 2>(a, rest...) : L::template run<DTYPE_BF16, 1>(a, rest...);
    else
        wide ? L::template run<DTYPE_F16, 2>(a, rest...) : L::template run<DTYPE_F16, 1>(a, rest...);
}

static inline unsigned attention_tiles(int64_t length) { return gpu_blocks(length, ATTENTION_TILE); }

GPU_INLINE int attention_within(int64_t x) {
    return x < 0 ? 0 : x > ATTENTION_TILE ? (int)ATTENTION_TILE : (int)x;
}

/* The block's queries and its part of a head's numbers; late ones first, for where attention is causal they
 * have the most to do. */
GPU_INLINE attention_tile attention_queries_here(const attention_job &a, int *part) {
    int64_t tiles = (a.queries + ATTENTION_TILE - 1) / ATTENTION_TILE, i = blockIdx.x / a.parts;
    int64_t heads = a.batch * a.heads;
    attention_tile at;
    *part = (int)(blockIdx.x % (unsigned)a.parts);
    at.h = i % heads % a.heads, at.b = i % heads / a.heads, at.g = at.h / (a.heads / a.kv_heads);
    at.t = (tiles - 1 - i / heads) * ATTENTION_TILE, at.s = 0, at.keys = 0;
    at.queries = attention_within(a.queries - at.t);
    return at;
}

/* The tile's first query in a (B,H,T) array. */
GPU_INLINE int64_t attention_row_of(const attention_job &a, const attention_tile &at) {
    return (at.b * a.heads + at.h) * a.queries + at.t;
}

/* ---- threads of a warp ----
 * Accesses of 16 bytes go by half a warp, and are fewer where threads one or two apart read the same. So the
 * bits of a lane go in turn to both directions. */

GPU_INLINE int attention_down() { return (int)((threadIdx.x & 1) | (threadIdx.x >> 1 & 2)); }
GPU_INLINE int attention_across() { return (int)((threadIdx.x >> 1 & 1) | (threadIdx.x >> 2 & 6)); }
GPU_INLINE int attention_lane_at(int down, int across) {
    return (down & 1) | (across & 1) << 1 | (down & 2) << 1 | (across & 6) << 2;
}
/* What __shfl_xor_sync takes to reach the thread whose place across differs in this bit. */
GPU_INLINE int attention_across_bit(int bit) { return bit == 1 ? 2 : bit << 2; }

/* The first own line of the warp, and of the thread; its others are ATTENTION_DOWN apart. */
template <int HALVES>
GPU_INLINE int attention_warp_line() {
    return (int)threadIdx.x / GPU_WARP * attention_shape<HALVES>::WARP;
}
template <int HALVES>
GPU_INLINE int attention_line() {
    return attention_warp_line<HALVES>() + attention_down();
}

/* ---- lines ---- */

/* Neighbouring lines of a head: its queries or keys in a tile. */
struct attention_lines {
    void *data;
    int64_t first, stride;
    int count, size;
    float factor; /* of every number that products of pairs read */
    bool fours;
};

GPU_INLINE attention_lines attention_at_queries(const attention_job &a, const attention_tile &at,
                                                const attention_cuda_place &p, float factor = 1.0f) {
    int64_t first = p.first + (at.b * a.queries + at.t) * p.stride + at.h * a.size;
    return { p.data, first, p.stride, at.queries, a.size, factor, p.fours };
}
GPU_INLINE attention_lines attention_at_keys(const attention_job &a, const attention_tile &at,
                                             const attention_cuda_place &p) {
    int64_t first = p.first + (at.b * a.keys + at.s) * p.stride + at.g * a.size;
    return { p.data, first, p.stride, at.keys, a.size, 1.0f, p.fours };
}

/* The numbers of a line from here on that the block makes. */
GPU_INLINE attention_lines attention_part(attention_lines x, int part) {
    x.first += part * ATTENTION_WIDEST, x.size -= part * ATTENTION_WIDEST;
    return x;
}

/* The lines from here on. */
GPU_INLINE attention_lines attention_from(attention_lines x, int line) {
    x.first += line * x.stride, x.count -= line;
    return x;
}

/* Four numbers of a line, from number 4 quad of a chunk on, stand at attention_at(line, quad) of the chunk:
 * neither threads that have neighbouring lines nor those that have neighbouring numbers share banks. */
GPU_INLINE int attention_at(int line, int quad) {
    return line * ATTENTION_CHUNK + ((quad ^ (line & 7)) << 2);
}

template <int TYPE>
GPU_INLINE void attention_get_each(const attention_lines &x, int line, int d, float to[4]) {
    cuda_span span = { x.data, TYPE };
#pragma unroll
    for (int k = 0; k < 4; k++)
        to[k] = line < x.count && d + k < x.size ? span.get(x.first + line * x.stride + d + k) : 0.0f;
}
template <int TYPE>
GPU_INLINE void attention_get_four(const attention_lines &x, int line, int d, float to[4]) {
    cuda_span span = { x.data, TYPE };
    to[0] = to[1] = to[2] = to[3] = 0.0f;
    if (line < x.count && d < x.size) span.get4(x.first + line * x.stride + d, to);
}

/* Numbers `depth` .. of COUNT lines, zeros beyond their ends up to the next 32. */
template <int TYPE, int COUNT, int HALVES>
GPU_INLINE void attention_load(float *to, const attention_lines &x, int depth) {
    enum {
        QUADS = ATTENTION_CHUNK / 4,
        LINES = attention_shape<HALVES>::THREADS / QUADS, /* that all threads load together */
        AT_ONCE = 4 / HALVES                              /* as many as there are registers for */
    };
    int quad = (int)threadIdx.x % QUADS, first = (int)threadIdx.x / QUADS, d = depth + 4 * quad;
    if (d >= ((x.size + 31) & ~31)) return;
    if (x.fours) {
#pragma unroll AT_ONCE
        for (int i = 0; i < COUNT / LINES; i++) {
            int line = first + i * LINES;
            float four[4];
            attention_get_four<TYPE>(x, line, d, four);
#pragma unroll
            for (int k = 0; k < 4; k++) four[k] *= x.factor;
            gpu_set4(to + attention_at(line, quad), four);
        }
        return;
    }
#pragma unroll 1
    for (int i = 0; i < COUNT / LINES; i++) {
        int line = first + i * LINES;
        float four[4];
        attention_get_each<TYPE>(x, line, d, four);
#pragma unroll
        for (int k = 0; k < 4; k++) four[k] *= x.factor;
        gpu_set4(to + attention_at(line, quad), four);
    }
}

/* sum[i][j] += the inner products of the thread's own lines and the others, over so many quads of a chunk,
 * depth after depth. */
template <int HALVES, int OTHERS>
GPU_INLINE void attention_inner(float (&sum)[attention_shape<HALVES>::LINES][OTHERS], const float *own,
                                const float *other, int quads) {
    enum { LINES = attention_shape<HALVES>::LINES };
    int down = attention_down(), across = attention_across();
    own += attention_line<HALVES>() * ATTENTION_CHUNK, other += across * ATTENTION_CHUNK;
#pragma unroll 1
    for (int c = 0; c < quads; c++) {
        const float *even = own + ((c ^ down) << 2), *odd = own + ((c ^ down ^ ATTENTION_DOWN) << 2);
        const float *there = other + ((c ^ across) << 2);
        float y[OTHERS][4];
#pragma unroll
        for (int j = 0; j < OTHERS; j++) gpu_get4(there + j * ATTENTION_ACROSS * ATTENTION_CHUNK, y[j]);
#pragma unroll
        for (int i = 0; i < LINES; i++) {
            float x[4];
            gpu_get4((i % 2 ? odd : even) + i * ATTENTION_DOWN * ATTENTION_CHUNK, x);
#pragma unroll
            for (int k = 0; k < 4; k++)
#pragma unroll
                for (int j = 0; j < OTHERS; j++) sum[i][j] = fmaf(x[k], y[j][k], sum[i][j]);
        }
    }
}

GPU_INLINE int attention_quads(const attention_lines &x, int depth) {
    int here = x.size - depth;
    return here < ATTENTION_CHUNK ? (here + 3) / 4 : ATTENTION_CHUNK / 4;
}

/* sum = the inner products of own lines and others. `resident`: own lines of one chunk are in `own` already.
 * All threads have read what stands in both when it begins to write there; they may still read when it
 * returns. */
template <int TYPE, int HALVES, int OTHERS>
GPU_INLINE void attention_products_of(float (&sum)[attention_shape<HALVES>::LINES][OTHERS],
                                      const attention_lines &x, float *own, bool resident,
                                      const attention_lines &y, float *other) {
    typedef attention_shape<HALVES> shape;
#pragma unroll
    for (int i = 0; i < shape::LINES; i++)
#pragma unroll
        for (int j = 0; j < OTHERS; j++) sum[i][j] = 0;
    for (int depth = 0; depth < (HALVES == 1 ? 1 : x.size); depth += ATTENTION_CHUNK) {
        __syncthreads();
        if (HALVES > 1 || !resident) attention_load<TYPE, ATTENTION_TILE, HALVES>(own, x, depth);
        attention_load<TYPE, OTHERS * ATTENTION_ACROSS, HALVES>(other, y, depth);
        __syncthreads();
        attention_inner<HALVES, OTHERS>(sum, own, other, attention_quads(x, depth));
    }
}

/* Sums of a thread: of its own line i, numbers 4 across .. and 32 + 4 across .. of each chunk. */
template <int HALVES>
struct attention_sums {
    float of[HALVES][attention_shape<HALVES>::LINES][8];
};

template <int HALVES>
GPU_INLINE void attention_clear(attention_sums<HALVES> &sum) {
#pragma unroll
    for (int h = 0; h < HALVES; h++)
#pragma unroll
        for (int i = 0; i < attention_shape<HALVES>::LINES; i++)
#pragma unroll
            for (int j = 0; j < 8; j++) sum.of[h][i][j] = 0;
}

/* Where four pairs of a warp's line stand, from pair 4 quad of the step on. */
GPU_INLINE int attention_pairs_at(int line, int quad) {
    return line * ATTENTION_STEP + ((quad ^ 2 * (line & 3)) << 2);
}
GPU_INLINE int attention_pair_at(int line, int other) {
    return attention_pairs_at(line, other / 4) + other % 4;
}
template <int HALVES>
GPU_INLINE float *attention_warp_pairs(float *pairs) {
    return pairs + attention_warp_line<HALVES>() * ATTENTION_STEP;
}

/* The thread's pairs of a step, from pair FROM of x on. */
template <int HALVES, int FROM, int OTHERS>
GPU_INLINE void attention_put(const float (&x)[attention_shape<HALVES>::LINES][OTHERS], float *pairs) {
#pragma unroll
    for (int i = 0; i < attention_shape<HALVES>::LINES; i++)
#pragma unroll
        for (int j = 0; j < ATTENTION_EACH; j++)
            pairs[attention_pair_at(attention_down() + i * ATTENTION_DOWN,
                                    attention_across() + j * ATTENTION_ACROSS)] = x[i][FROM + j];
}

/* What attention_put has put there. */
template <int HALVES, int FROM, int OTHERS>
GPU_INLINE void attention_take(float (&x)[attention_shape<HALVES>::LINES][OTHERS], const float *pairs) {
#pragma unroll
    for (int i = 0; i < attention_shape<HALVES>::LINES; i++)
#pragma unroll
        for (int j = 0; j < ATTENTION_EACH; j++)
            x[i][FROM + j] = pairs[attention_pair_at(attention_down() + i * ATTENTION_DOWN,
                                                     attention_across() + j * ATTENTION_ACROSS)];
}

/* f(own line, other line, pair) for what attention_put has put there, few at a time: for what is rare
 * and takes many registers. */
template <int HALVES, int AT_ONCE, class F>
GPU_INLINE void attention_each_put(float *pairs, const F &f) {
#pragma unroll AT_ONCE
    for (int n = 0; n < attention_shape<HALVES>::LINES * ATTENTION_EACH; n++) {
        int own = attention_down() + n / ATTENTION_EACH * ATTENTION_DOWN;
        int other = attention_across() + n % ATTENTION_EACH * ATTENTION_ACROSS;
        f(attention_warp_line<HALVES>() + own, other, pairs[attention_pair_at(own, other)]);
    }
}

/* Numbers 4 quad .. of the step's lines: HALVES chunks, COUNT lines each. All threads have read what stands
 * there when it begins to write, and what it wrote is seen when it returns. */
template <int TYPE, int HALVES, int COUNT>
GPU_INLINE void attention_load_halves(float *to, const attention_lines &x) {
    __syncthreads();
#pragma unroll
    for (int h = 0; h < HALVES; h++)
        attention_load<TYPE, COUNT, HALVES>(to + h * COUNT * ATTENTION_CHUNK, x, h * ATTENTION_CHUNK);
    __syncthreads();
}

/* The line of the warp's pairs whose sum over the others the thread makes. */
template <int HALVES>
GPU_INLINE int attention_running_line() {
    return attention_down() + attention_across() % attention_shape<HALVES>::LINES * ATTENTION_DOWN;
}

/* What a step adds: pairs of the warp's lines with `count` others, and the numbers of these, as far as
 * `size`. `running`: the sum of one line's pairs, in the same order; may be NULL. */
struct attention_addends {
    const float *pairs, *others;
    int count, size;
    float *running;
};

/* Up to four lines from line s of the step on. WHOLE: there are four, with all of a block's numbers. */
template <int HALVES, int COUNT, bool WHOLE>
GPU_INLINE void attention_add_four(attention_sums<HALVES> &sum, const attention_addends &of, int s) {
    enum { LINES = attention_shape<HALVES>::LINES };
    float x[LINES][4], own[4];
#pragma unroll
    for (int i = 0; i < LINES; i++)
        gpu_get4(of.pairs + attention_pairs_at(attention_down() + i * ATTENTION_DOWN, s / 4), x[i]);
    if (of.running) gpu_get4(of.pairs + attention_pairs_at(attention_running_line<HALVES>(), s / 4), own);
#pragma unroll
    for (int k = 0; k < 4; k++) {
        if (!WHOLE && s + k >= of.count) continue;
#pragma unroll
        for (int h = 0; h < 2 * HALVES; h++) {
            if (!WHOLE && h * 32 >= of.size) continue;
            float y[4];
            int at = h / 2 * COUNT * ATTENTION_CHUNK + attention_at(s + k, attention_across() + h % 2 * 8);
            gpu_get4(of.others + at, y);
#pragma unroll
            for (int i = 0; i < LINES; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    float &to = sum.of[h / 2][i][h % 2 * 4 + j];
                    to = fmaf(x[i][k], y[j], to);
                }
        }
        if (of.running) *of.running += own[k];
    }
}

/* sum[own] += pairs[own][other] * others[other], one other after the other. */
template <int HALVES, int COUNT>
GPU_INLINE void attention_add(attention_sums<HALVES> &sum, const attention_addends &of) {
    int s = 0;
    if (of.size >= HALVES * ATTENTION_CHUNK)
#pragma unroll 1
        for (; s + 4 <= of.count; s += 4) attention_add_four<HALVES, COUNT, true>(sum, of, s);
#pragma unroll 1
    for (; s < of.count; s += 4) attention_add_four<HALVES, COUNT, false>(sum, of, s);
}

/* Four neighbours, of which the first `count` are there: in one access where they can be. */
template <int TYPE>
GPU_INLINE void attention_set4(void *data, int64_t i, const float x[4], int count, bool fours) {
    cuda_span span = { data, TYPE };
    if (count >= 4 && fours) {
        span.set4(i, x);
        return;
    }
#pragma unroll
    for (int k = 0; k < 4; k++)
        if (k < count) span.set(i + k, x[k]);
}

/* to[line] = sum[line] * factor[line of the thread] */
template <int TYPE, int HALVES>
GPU_INLINE void attention_store(const attention_sums<HALVES> &sum, const attention_lines &to,
                                const float (&factor)[attention_shape<HALVES>::LINES]) {
#pragma unroll
    for (int i = 0; i < attention_shape<HALVES>::LINES; i++) {
        int line = attention_line<HALVES>() + i * ATTENTION_DOWN;
        if (line >= to.count) continue;
#pragma unroll
        for (int h = 0; h < HALVES; h++)
#pragma unroll
            for (int w = 0; w < 2; w++) {
                float x[4];
                int d = h * ATTENTION_CHUNK + w * 32 + 4 * attention_across();
#pragma unroll
                for (int j = 0; j < 4; j++) x[j] = sum.of[h][i][4 * w + j] * factor[i];
                attention_set4<TYPE>(to.data, to.first + line * to.stride + d, x, to.size - d, to.fours);
            }
    }
}
template <int TYPE, int HALVES>
GPU_INLINE void attention_store(const attention_sums<HALVES> &sum, const attention_lines &to) {
    float one[attention_shape<HALVES>::LINES];
#pragma unroll
    for (int i = 0; i < attention_shape<HALVES>::LINES; i++) one[i] = 1.0f;
    attention_store<TYPE, HALVES>(sum, to, one);
}

/* ---- pairs ---- */

/* Which pairs of a tile see each other: keys below `keys`, and queries t with from <= t - s < to. */
struct attention_sighted {
    int from, to, keys;
    bool all;                /* every pair of a whole tile */
    const int32_t *segments; /* of the tile's sample; NULL: none */
    int64_t query, key;      /* where the tile begins among them */
};

/* As far as a tile can tell them apart. */
GPU_INLINE int attention_clamped(int64_t x) {
    enum { FAR = 2 * ATTENTION_TILE };
    return x < -FAR ? -FAR : x > FAR ? (int)FAR : (int)x;
}

GPU_INLINE attention_sighted attention_sight_of(const attention_job &a, const attention_tile &at) {
    int64_t from, to, far = 2 * ATTENTION_TILE,
                      left = (a.sight.lengths ? a.sight.lengths[at.b] : a.keys) - at.s;
    attention_sight_queries(&a.sight, at.t, far, at.s, &from, &to);
    if (!a.sight.causal && !a.sight.window) from = -far;
    attention_sighted by = {
        attention_clamped(from), attention_clamped(to), attention_within(left), false, NULL, at.t, at.s
    };
    if (a.sight.segments) by.segments = a.sight.segments + at.b * a.queries;
    if (at.keys < by.keys) by.keys = at.keys;
    by.all = !by.segments && at.queries == ATTENTION_TILE && by.keys == ATTENTION_TILE &&
             by.from <= 1 - ATTENTION_TILE && by.to >= ATTENTION_TILE;
    return by;
}

GPU_INLINE bool attention_is_placed(const attention_sighted &by, int t, int s) {
    return s < by.keys && t - s >= by.from && t - s < by.to;
}
GPU_INLINE bool attention_is_parted(const attention_sighted &by, int t, int s) {
    return by.segments[by.query + t] != by.segments[by.key + s];
}
GPU_INLINE bool attention_sees(const attention_sighted &by, int t, int s) {
    return attention_is_placed(by, t, s) && !(by.segments && attention_is_parted(by, t, s));
}

/* Is more to be known of a pair than its place? Its score is capped, or has a bias, or there are segments. */
GPU_INLINE bool attention_is_special(const attention_job &a) {
    return a.cap > 0 || a.bias.data || a.sight.segments;
}

/* What becomes of an inner product: capped, or with its bias; minus infinity where the query does not see the
 * key. */
GPU_INLINE float attention_score(const attention_job &a, const attention_tile &at,
                                 const attention_sighted &by, int t, int s, float x) {
    if (t >= at.queries || !attention_sees(by, t, s)) return -INFINITY;
    if (a.cap > 0) return softcap_value_f32(x, a.cap);
    return a.bias.data ? x + a.bias.get((at.h * a.queries + at.t + t) * a.keys + at.s + s) : x;
}

/* What dropout multiplies pairs with, four keys to a draw, by a warp: each(t, s, factor) for `queries`
 * queries from t on and `keys` keys from s on, as far as the tile has them. */
struct attention_span {
    int t, queries, s, keys;
};
template <class F>
GPU_INLINE void attention_drop(const attention_job &a, const attention_tile &at, const attention_span &of,
                               const F &each) {
    philox_key key = *a.key;
    uint64_t seed = (uint64_t)key.seed_high << 32 | key.seed_low;
    int draws = (of.keys + 3 + 3) / 4; /* the first key may be the fourth of its draw */
#pragma unroll 1
    for (int i = cuda_lane(); i < of.queries * draws; i += GPU_WARP) {
        int t = of.t + i % of.queries, j = i / of.queries;
        if (t >= at.queries) continue;
        uint64_t element = attention_pair(&a.sight, at.h, at.t + t, at.s + of.s);
        int s = 4 * j - (int)(element & 3);
        philox_block drawn = philox_draw(seed, { { (uint32_t)(element >> 2) + (uint32_t)j,
                                                   key.first_sample + (uint32_t)at.b, key.step, a.stream } });
#pragma unroll
        for (int w = 0; w < 4; w++)
            if (s + w >= 0 && s + w < of.keys && of.s + s + w < at.keys)
                each(t, of.s + s + w, attention_keeps(drawn.word[w], a.dropout));
    }
}
