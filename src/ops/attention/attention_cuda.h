/* Tiles of attention on GPUs, for both ops: every sum has the order of the CPU's (attention_tile.h), so the
 * bits are the same.
 *
 * A block of threads owns up to 64 lines (queries, or keys) of one head and walks over tiles of the other
 * side, 64 lines of it at a time. In a tile the other side's lines are `rows` and its own are `columns`: a
 * thread has 4 x 4 pairs of them in registers. What comes of the pairs goes to shared memory, (row, column),
 * and multiplies the rows' numbers into sums of 4 columns' lines and 4 or 8 of their numbers, in registers
 * from the first tile to the last. Lines come to shared memory 16 depths, or 16 lines, at a time, so a block
 * takes as much of it whatever the size of a head; of heads above 128 it makes a part, and other blocks make
 * the others. */
#pragma once

#include "ops/cuda_rows.h"

extern "C" {
#include "ops/attention/attention_view.h"
}
#include "ops/attention/attention_math.h"
#include "ops/softcap/softcap_math.h"

enum {
    ATTENTION_EACH = 4,  /* rows and columns of a thread */
    ATTENTION_SOME = 16, /* depths or lines that are in shared memory at a time */
    ATTENTION_LINE =
        ATTENTION_TILE + 4, /* distance of lines there: neighbours of either kind on other banks */
    ATTENTION_PAIRS = ATTENTION_TILE * ATTENTION_LINE, /* floats of a tile */
    ATTENTION_LOADS = 2 * ATTENTION_SOME * ATTENTION_LINE,
    ATTENTION_WIDEST = 2 * ATTENTION_TILE /* numbers of a line that a block makes */
};
static_assert(ATTENTION_TILE * ATTENTION_TILE == GPU_BLOCK * ATTENTION_EACH * ATTENTION_EACH,
              "a tile's pairs");
static_assert(ATTENTION_SOME * ATTENTION_WIDEST <= ATTENTION_LOADS, "room for lines");

typedef float attention_pairs[ATTENTION_EACH][ATTENTION_EACH];

/* ---- the call ---- */

/* Row r, head h of an operand: element first + r * stride + h * D. */
struct attention_cuda_place {
    void *data;
    int64_t first, stride;
};
static inline attention_cuda_place attention_cuda_place_of(const attention_place &p) {
    return { p.arg->data, p.first, p.stride };
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
    a.q = attention_cuda_place_of(v.q), a.k = attention_cuda_place_of(v.k),
    a.v = attention_cuda_place_of(v.v);
    a.sight = v.sight, a.key = v.key;
    if (v.bias) a.bias = cuda_span_of(v.bias);
    a.batch = v.n.batch, a.heads = v.n.heads, a.kv_heads = v.n.kv_heads;
    a.queries = v.n.queries, a.keys = v.n.keys;
    a.size = (int32_t)v.n.size, a.parts = (int32_t)gpu_blocks(v.n.size, ATTENTION_WIDEST);
    a.type = v.q.arg->dtype;
    a.scale = (float)v.scale, a.dropout = v.dropout, a.cap = v.cap, a.stream = v.stream;
    return a;
}

/* Calls L::run<type, halves> with the rest: `halves` of 64 numbers of a line in a thread's registers. */
template <class L, class... R>
static void attention_cuda_run(const attention_job &a, const R &...rest) {
    bool wide = a.size > ATTENTION_TILE;
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
    attention_tile at;
    *part = (int)(blockIdx.x % (unsigned)a.parts);
    at.h = i / tiles % a.heads, at.b = i / tiles / a.heads, at.g = at.h / (a.heads / a.kv_heads);
    at.t = (tiles - 1 - i % tiles) * ATTENTION_TILE, at.s = 0, at.keys = 0;
    at.queries = attention_within(a.queries - at.t);
    return at;
}

/* The tile's first query in a (B,H,T) array. */
GPU_INLINE int64_t attention_row_of(const attention_job &a, const attention_tile &at) {
    return (at.b * a.heads + at.h) * a.queries + at.t;
}

/* ---- lines ---- */

template <int TYPE>
GPU_INLINE float attention_get(const void *data, int64_t i) {
    if (TYPE == DTYPE_F32) return ((const float *)data)[i];
    uint16_t bits = ((const uint16_t *)data)[i];
    return TYPE == DTYPE_BF16 ? half_from_bf16(bits) : half_from_f16(bits);
}
template <int TYPE>
GPU_INLINE void attention_set(void *data, int64_t i, float x) {
    if (TYPE == DTYPE_F32)
        ((float *)data)[i] = x;
    else
        ((uint16_t *)data)[i] = TYPE == DTYPE_BF16 ? half_to_bf16(x) : half_to_f16(x);
}

/* Neighbouring lines of a head: its queries or keys in a tile. */
struct attention_lines {
    void *data;
    int64_t first, stride;
    int count, size;
    float factor; /* of every number that products of pairs read */
};

GPU_INLINE attention_lines attention_at_queries(const attention_job &a, const attention_tile &at,
                                                const attention_cuda_place &p, float factor = 1.0f) {
    int64_t first = p.first + (at.b * a.queries + at.t) * p.stride + at.h * a.size;
    return { p.data, first, p.stride, at.queries, a.size, factor };
}
GPU_INLINE attention_lines attention_at_keys(const attention_job &a, const attention_tile &at,
                                             const attention_cuda_place &p) {
    int64_t first = p.first + (at.b * a.keys + at.s) * p.stride + at.g * a.size;
    return { p.data, first, p.stride, at.keys, a.size, 1.0f };
}

/* The numbers of a line from here on that the block makes. */
GPU_INLINE attention_lines attention_part(attention_lines x, int part) {
    x.first += part * ATTENTION_WIDEST, x.size -= part * ATTENTION_WIDEST;
    return x;
}

/* The first row and column of the thread's pairs. */
GPU_INLINE int attention_row() { return (int)threadIdx.x / 16 * ATTENTION_EACH; }
GPU_INLINE int attention_column() { return (int)threadIdx.x % 16 * ATTENTION_EACH; }

/* to (depth, line) */
template <int TYPE>
GPU_INLINE void attention_load(float *to, const attention_lines &x, int depth) {
#pragma unroll
    for (int i = (int)threadIdx.x; i < ATTENTION_TILE * ATTENTION_SOME; i += GPU_BLOCK) {
        int line = i / ATTENTION_SOME, d = i % ATTENTION_SOME;
        bool inside = line < x.count && depth + d < x.size;
        to[d * ATTENTION_LINE + line] =
            inside ? attention_get<TYPE>(x.data, x.first + line * x.stride + depth + d) * x.factor : 0.0f;
    }
}

/* sum = the inner products of rows and columns, depth after depth. All threads have read what they need when
 * it returns. */
template <int TYPE>
GPU_INLINE void attention_inner(attention_pairs sum, const attention_lines &rows,
                                const attention_lines &columns, float *loads) {
    float *of_rows = loads, *of_columns = loads + ATTENTION_SOME * ATTENTION_LINE;
    int r = attention_row(), k = attention_column();
#pragma unroll
    for (int i = 0; i < ATTENTION_EACH; i++)
#pragma unroll
        for (int j = 0; j < ATTENTION_EACH; j++) sum[i][j] = 0;
    for (int depth = 0; depth < rows.size; depth += ATTENTION_SOME) {
        attention_load<TYPE>(of_rows, rows, depth);
        attention_load<TYPE>(of_columns, columns, depth);
        __syncthreads();
        int here = rows.size - depth < ATTENTION_SOME ? rows.size - depth : ATTENTION_SOME;
        if (r >= rows.count || k >= columns.count) here = 0;
        for (int d = 0; d < here; d++) {
            const float *x = of_rows + d * ATTENTION_LINE + r, *y = of_columns + d * ATTENTION_LINE + k;
#pragma unroll
            for (int i = 0; i < ATTENTION_EACH; i++)
#pragma unroll
                for (int j = 0; j < ATTENTION_EACH; j++) sum[i][j] = fmaf(x[i], y[j], sum[i][j]);
        }
        __syncthreads();
    }
}

/* Sums of a thread: of column attention_row() + i of the tile, number attention_column() + j of each half. */
template <int HALVES>
struct attention_sums {
    float of[HALVES][ATTENTION_EACH][ATTENTION_EACH];
};

template <int HALVES>
GPU_INLINE void attention_clear(attention_sums<HALVES> &sum) {
#pragma unroll
    for (int h = 0; h < HALVES; h++)
#pragma unroll
        for (int i = 0; i < ATTENTION_EACH; i++)
#pragma unroll
            for (int j = 0; j < ATTENTION_EACH; j++) sum.of[h][i][j] = 0;
}

/* sum[column] += pairs[row][column] * rows[row], row after row, for all columns of threads that have one of
 * them: what pairs hold beyond is 0 where the sums go on to other tiles. Pairs that were written before are
 * seen, and all threads have read what they need when it returns. */
template <int TYPE, int HALVES>
GPU_INLINE void attention_add(attention_sums<HALVES> &sum, const float *pairs, int columns,
                              const attention_lines &rows, float *loads) {
    enum { WIDTH = HALVES * ATTENTION_TILE };
    int r = attention_row(), k = attention_column();
    for (int row = 0; row < rows.count; row += ATTENTION_SOME) {
#pragma unroll
        for (int i = (int)threadIdx.x; i < ATTENTION_SOME * WIDTH; i += GPU_BLOCK) {
            int line = row + i / WIDTH, d = i % WIDTH;
            bool inside = line < rows.count && d < rows.size;
            loads[i] = inside ? attention_get<TYPE>(rows.data, rows.first + line * rows.stride + d) : 0.0f;
        }
        __syncthreads();
        int here = rows.count - row < ATTENTION_SOME ? rows.count - row : ATTENTION_SOME;
        if (k >= rows.size) here = 0;
        if (r >= columns) here = 0;
        for (int q = 0; q < here; q++) {
            const float *x = pairs + (row + q) * ATTENTION_LINE + r, *y = loads + q * WIDTH + k;
#pragma unroll
            for (int h = 0; h < HALVES; h++)
#pragma unroll
                for (int i = 0; i < ATTENTION_EACH; i++)
#pragma unroll
                    for (int j = 0; j < ATTENTION_EACH; j++)
                        sum.of[h][i][j] = fmaf(x[i], y[h * ATTENTION_TILE + j], sum.of[h][i][j]);
        }
        __syncthreads();
    }
}

/* Four neighbours, of which the first `count` are there: in one access where they can be. */
template <int TYPE>
GPU_INLINE void attention_set4(void *data, int64_t i, const float x[4], int count) {
    if (count >= 4 && i % 4 == 0 && (uintptr_t)data % (TYPE == DTYPE_F32 ? 16 : 8) == 0) {
        cuda_span span = { data, TYPE };
        span.set4(i, x);
        return;
    }
#pragma unroll
    for (int k = 0; k < 4; k++)
        if (k < count) attention_set<TYPE>(data, i + k, x[k]);
}

/* to[column] = sum[column] * factor[column]; NULL: 1. */
template <int TYPE, int HALVES>
GPU_INLINE void attention_store(const attention_sums<HALVES> &sum, const attention_lines &to,
                                const float *factor) {
    int r = attention_row(), k = attention_column();
#pragma unroll
    for (int i = 0; i < ATTENTION_EACH; i++) {
        if (r + i >= to.count) continue;
        float by = factor ? factor[r + i] : 1.0f;
#pragma unroll
        for (int h = 0; h < HALVES; h++) {
            float x[ATTENTION_EACH];
            int d = h * ATTENTION_TILE + k;
#pragma unroll
            for (int j = 0; j < ATTENTION_EACH; j++) x[j] = sum.of[h][i][j] * by;
            attention_set4<TYPE>(to.data, to.first + (r + i) * to.stride + d, x, to.size - d);
        }
    }
}

/* ---- pairs ---- */

/* The keys [low, high) that a query of the tile sees, by their places in it, and how its segment is called.
 */
struct attention_seen {
    int low, high;
    int32_t segment;
};

GPU_INLINE attention_seen attention_seen_by(const attention_job &a, const attention_tile &at, int t) {
    int64_t first, last;
    attention_sight_keys(&a.sight, at.b, at.t + t, 1, &first, &last);
    const int32_t *segments = a.sight.segments;
    return { attention_within(first - at.s), attention_within(last - at.s),
             segments ? segments[at.b * a.queries + at.t + t] : 0 };
}

GPU_INLINE bool attention_sees(const attention_job &a, const attention_tile &at, const attention_seen &by,
                               int s) {
    if (s < by.low || s >= by.high) return false;
    return !a.sight.segments || a.sight.segments[at.b * a.queries + at.s + s] == by.segment;
}

/* What becomes of an inner product: capped, or with its bias. */
GPU_INLINE float attention_score(const attention_job &a, const attention_tile &at, int t, int s, float x) {
    if (a.cap > 0) return softcap_value_f32(x, a.cap);
    return a.bias.data ? x + a.bias.get((at.h * a.queries + at.t + t) * a.keys + at.s + s) : x;
}

/* What dropout multiplies the tile's pairs with, four keys to a draw: each(t, s, factor). */
template <class F>
GPU_INLINE void attention_drop(const attention_job &a, const attention_tile &at, const F &each) {
    philox_key key = *a.key;
    uint64_t seed = (uint64_t)key.seed_high << 32 | key.seed_low;
    int draws = (at.keys + 3 + 3) / 4; /* the first key may be the fourth of its draw */
    for (int i = (int)threadIdx.x; i < ATTENTION_TILE * draws; i += GPU_BLOCK) {
        int t = i % ATTENTION_TILE, j = i / ATTENTION_TILE;
        if (t >= at.queries) continue;
        uint64_t element = attention_pair(&a.sight, at.h, at.t + t, at.s);
        int s = 4 * j - (int)(element & 3);
        philox_block drawn = philox_draw(seed, { { (uint32_t)(element >> 2) + (uint32_t)j,
                                                   key.first_sample + (uint32_t)at.b, key.step, a.stream } });
#pragma unroll
        for (int w = 0; w < 4; w++)
            if (s + w >= 0 && s + w < at.keys) each(t, s + w, attention_keeps(drawn.word[w], a.dropout));
    }
}
