/* Attention over tiles on tensor cores (mma.sync, capability 8.0 and later), for numbers of 16 bits and heads
 * of up to 128 of them: the products of both directions multiply them as they are, sums are f32.
 *
 * A block owns 64 lines (queries, or keys) of one head and walks over the other side's, 64 at a time. A warp
 * has SIXTEENS * 16 of the own ones; their pairs with STEP of the others lie in registers as mma leaves them,
 * and what becomes of them is rounded to 16 bits and multiplied again from there: pairs touch no memory.
 *
 * Order of summation, the same for every shape of a block: an inner product by one mma for sixteen depths
 * after another; sums over the other side start from 0 with every step, go by one mma for sixteen lines after
 * another, and are added in f32 to what was before. Tiles begin at multiples of 64 whatever a query sees. So
 * a row has the same bits alone and among others, and in every batch; within an mma the order is the
 * hardware's, so bits are not the CPU's. No sum has two owners, and there are no atomics.
 *
 * Papers: Dao, "FlashAttention-2", arXiv:2307.08691 (probabilities stay in registers; each warp has lines of
 * its own). */
#pragma once

#include "device/cuda/mma.h"
#include "ops/attention/attention_gradient_cuda.h"

extern "C" {
#include "base/instructions.h"
#include "ops/attention_flash/attention_flash.h"
}

enum { ATTENTION_TENSOR_WIDEST = 128 };

/* For heads of up to SIZE numbers, a multiple of 64. BLOCKS fit a multiprocessor by their registers. */
template <int SIZE_, int SIXTEENS_, int STEP_, int STAGES_, int BLOCKS_>
struct attention_tensor_shape {
    enum {
        SIZE = SIZE_,
        EIGHTS = SIZE / 8,
        SIXTEENS = SIXTEENS_,
        STEP = STEP_,
        STAGES = STAGES_, /* of the other side's lines */
        BLOCKS = BLOCKS_,
        OWN = 16 * SIXTEENS, /* lines of a warp */
        WARPS = ATTENTION_TILE / OWN,
        THREADS = WARPS * GPU_WARP,
        LINES = ATTENTION_TILE * SIZE, /* numbers of 64 lines */
        STRIDE = STEP + 4,             /* places from one line of a strip to the next */
        STRIP = OWN * STRIDE           /* places of a warp's pairs, where they are special */
    };
    static_assert(SIZE % 64 == 0 && STEP % 16 == 0 && ATTENTION_TILE % OWN == 0, "whole fragments");

    /* Of eight numbers of a line: eight lines, and eight neighbours, lie in different banks. */
    GPU_MEMBER int place(int line, int eight) { return line * SIZE + ((eight ^ (line & 7)) << 3); }
    GPU_MEMBER int warp() { return (int)threadIdx.x / GPU_WARP; }
    /* The first line of pairs i, and of pair k of them; the first of the others that a thread has. */
    GPU_MEMBER int own(int i, int k) { return warp() * OWN + i * 16 + cuda_lane() / 4 + k / 2 * 8; }
    GPU_MEMBER int other(int j, int k) { return j * 8 + cuda_lane() % 4 * 2 + k % 2; }
};

template <class S>
using attention_tensor_pairs = float[S::SIXTEENS][S::STEP / 8][4];
template <class S>
using attention_tensor_packed = uint32_t[S::SIXTEENS][S::STEP / 16][4];
template <class S>
using attention_tensor_sums = float[S::SIXTEENS][S::EIGHTS][4];

/* ---- lines ---- */

/* 64 lines into a buffer, zeros beyond their ends up to the next sixteen numbers. `eights`: they lie where
 * they can be copied beside the kernel, in a group of copies that the caller ends. */
template <class S>
GPU_INLINE void attention_tensor_fill(uint16_t *to, const attention_lines &x, bool eights) {
    const uint16_t *from = (const uint16_t *)x.data + x.first;
    int wide = (x.size + 15) / 16 * 2;
#pragma unroll 4
    for (int i = (int)threadIdx.x; i < ATTENTION_TILE * S::EIGHTS; i += S::THREADS) {
        int line = i / S::EIGHTS, eight = i % S::EIGHTS;
        int left = line < x.count ? x.size - 8 * eight : 0;
        int inside = left < 0 ? 0 : left < 8 ? left : 8;
        if (eight >= wide) continue;
        const uint16_t *at = from + line * x.stride + 8 * eight;
        if (eights) {
            gpu_copy16(to + S::place(line, eight), at, 2 * inside);
        } else {
            uint32_t words[4];
            gpu_bytes_words(gpu_bytes_read(at, 2 * inside), 2 * inside, words);
            gpu_set16(to + S::place(line, eight), words);
        }
    }
}

/* The warp's sums of its own lines, times `factor(i, k)`, rounded: through its lines of a buffer, which
 * nobody else reads any more. */
template <class T, class S, class F>
GPU_INLINE void attention_tensor_store(const attention_tensor_sums<S> &sum, uint16_t *buffer,
                                       const attention_lines &to, bool eights, const F &factor) {
#pragma unroll
    for (int i = 0; i < S::SIXTEENS; i++)
#pragma unroll
        for (int n = 0; n < S::EIGHTS; n++)
#pragma unroll
            for (int k = 0; k < 4; k += 2)
                *GPU_WIDE(uint32_t, buffer + S::place(S::own(i, k), n) + cuda_lane() % 4 * 2) =
                    gpu_pack(T(), sum[i][n][k] * factor(i, k), sum[i][n][k + 1] * factor(i, k));
    __syncwarp();
    uint16_t *data = (uint16_t *)to.data + to.first;
#pragma unroll 1
    for (int i = cuda_lane(); i < S::OWN * S::EIGHTS; i += GPU_WARP) {
        int line = S::warp() * S::OWN + i / S::EIGHTS, eight = i % S::EIGHTS, left = to.size - 8 * eight;
        if (line >= to.count || left <= 0) continue;
        uint32_t words[4];
        gpu_get16(buffer + S::place(line, eight), words);
        uint16_t *at = data + line * to.stride + 8 * eight;
        if (eights)
            gpu_set16(at, words);
        else
#pragma unroll
            for (int k = 0; k < 8; k++)
                if (k < left) at[k] = (uint16_t)(words[k / 2] >> 16 * (k % 2));
    }
    __syncwarp();
}

/* ---- products ---- */

/* Sixteen depths of the warp's own lines. */
template <class S>
GPU_INLINE void attention_tensor_own(uint32_t (&a)[S::SIXTEENS][4], const uint16_t *lines, int depth) {
    int lane = cuda_lane();
#pragma unroll
    for (int i = 0; i < S::SIXTEENS; i++)
        gpu_ldmatrix(a[i], lines + S::place(S::warp() * S::OWN + i * 16 + lane % 16, depth / 8 + lane / 16));
}

/* x = the inner products of own lines and STEP others, from `line` of theirs on; own(a, depth) has sixteen
 * depths of the own ones. */
template <class T, class S, class A>
GPU_INLINE void attention_tensor_inner(attention_tensor_pairs<S> &x, const A &own, const uint16_t *others,
                                       int line, int size) {
    int lane = cuda_lane();
#pragma unroll
    for (int i = 0; i < S::SIXTEENS; i++)
#pragma unroll
        for (int j = 0; j < S::STEP / 8; j++)
#pragma unroll
            for (int k = 0; k < 4; k++) x[i][j][k] = 0.0f;
#pragma unroll
    for (int depth = 0; depth < S::SIZE; depth += 16) {
        if (depth >= size) break;
        uint32_t a[S::SIXTEENS][4];
        own(a, depth);
#pragma unroll
        for (int j = 0; j < S::STEP / 8; j += 2) {
            uint32_t four[4];
            gpu_ldmatrix(
                four, others + S::place(line + j * 8 + lane % 8 + lane / 16 * 8, depth / 8 + lane / 8 % 2));
            uint32_t low[2] = { four[0], four[1] }, high[2] = { four[2], four[3] };
#pragma unroll
            for (int i = 0; i < S::SIXTEENS; i++)
                gpu_mma(T(), x[i][j], a[i], low), gpu_mma(T(), x[i][j + 1], a[i], high);
        }
    }
}

/* Pairs as mma leaves them are what it multiplies by, but for their type. */
template <class T, class S>
GPU_INLINE void attention_tensor_pack(const attention_tensor_pairs<S> &x, attention_tensor_packed<S> &p) {
#pragma unroll
    for (int i = 0; i < S::SIXTEENS; i++)
#pragma unroll
        for (int j = 0; j < S::STEP / 8; j++) {
            p[i][j / 2][j % 2 * 2] = gpu_pack(T(), x[i][j][0], x[i][j][1]);
            p[i][j / 2][j % 2 * 2 + 1] = gpu_pack(T(), x[i][j][2], x[i][j][3]);
        }
}

/* sum[own] = sum[own] * shrink(i, k) + pairs[own][other] * others[other], of STEP others from `line` on. */
template <class T, class S, class F>
GPU_INLINE void attention_tensor_add(attention_tensor_sums<S> &sum, const attention_tensor_packed<S> &pairs,
                                     const uint16_t *others, int line, int size, const F &shrink) {
    int lane = cuda_lane();
#pragma unroll
    for (int n = 0; n < S::EIGHTS; n += 2) {
        if (n * 8 >= size) break;
        float step[S::SIXTEENS][2][4];
#pragma unroll
        for (int i = 0; i < S::SIXTEENS; i++)
#pragma unroll
            for (int k = 0; k < 8; k++) step[i][k / 4][k % 4] = 0.0f;
#pragma unroll
        for (int s = 0; s < S::STEP / 16; s++) {
            uint32_t four[4];
            gpu_ldmatrix_across(four, others + S::place(line + s * 16 + lane % 16, n + lane / 16));
            uint32_t low[2] = { four[0], four[1] }, high[2] = { four[2], four[3] };
#pragma unroll
            for (int i = 0; i < S::SIXTEENS; i++)
                gpu_mma(T(), step[i][0], pairs[i][s], low), gpu_mma(T(), step[i][1], pairs[i][s], high);
        }
#pragma unroll
        for (int i = 0; i < S::SIXTEENS; i++)
#pragma unroll
            for (int k = 0; k < 8; k++) {
                float &to = sum[i][n + k / 4][k % 4];
                to = fmaf(to, shrink(i, k % 4), step[i][k / 4][k % 4]);
            }
    }
}

template <class S>
GPU_INLINE void attention_tensor_clear(attention_tensor_sums<S> &sum) {
#pragma unroll
    for (int i = 0; i < S::SIXTEENS; i++)
#pragma unroll
        for (int n = 0; n < S::EIGHTS; n++)
#pragma unroll
            for (int k = 0; k < 4; k++) sum[i][n][k] = 0.0f;
}

/* ---- pairs ---- */

/* f(i, j, k) for each pair of a thread. */
template <class S, class F>
GPU_INLINE void attention_tensor_each(const F &f) {
#pragma unroll
    for (int i = 0; i < S::SIXTEENS; i++)
#pragma unroll
        for (int j = 0; j < S::STEP / 8; j++)
#pragma unroll
            for (int k = 0; k < 4; k++) f(i, j, k);
}

/* Is more to be known of a pair than its place? */
static inline bool attention_tensor_is_special(const attention_job &a) {
    return a.cap > 0 || a.bias.data || a.sight.segments || a.dropout > 0;
}

/* Where a warp's special pairs pass through memory, each by its own thread, so that loops over them are not
 * unrolled; and, a byte each, what dropout keeps of them. Of eight neighbours of a line the even ones stand
 * before the odd ones: a warp's threads have four of them in eight lines at a time, which are in different
 * banks as floats, and one word of each line as bytes. */
template <class S>
struct attention_tensor_room {
    float *strip;
    uint8_t *kept;

    __device__ __forceinline__ static attention_tensor_room of(void *shared) {
        return { (float *)shared + S::warp() * S::STRIP,
                 (uint8_t *)((float *)shared + S::WARPS * S::STRIP) + S::warp() * S::STRIP };
    }
    /* Of the warp's own lines and of the step's others. */
    GPU_MEMBER int place(int own, int other) {
        return own * S::STRIDE + (other & ~7) + (other & 1) * 4 + (other & 7) / 2;
    }
    GPU_MEMBER int place_of(int i, int j, int k) {
        return place(S::own(i, k) - S::warp() * S::OWN, S::other(j, k));
    }
    __device__ __forceinline__ float &at(int i, int j, int k) const { return strip[place_of(i, j, k)]; }
    /* Does dropout keep it? Only pairs that see each other were asked. */
    __device__ __forceinline__ bool keeps(int i, int j, int k) const { return kept[place_of(i, j, k)] != 0; }
};

template <class S>
constexpr int attention_tensor_room_bytes = S::WARPS *S::STRIP *(4 + 1);

/* Where a step is: the tile, and the first of its other lines. */
struct attention_tensor_step {
    attention_tile at;
    int line;
};

/* Scores are counted in powers of 2, as ex2 takes them. */
static const float ATTENTION_LOG2_E = 1.44269504f, ATTENTION_LN_2 = 0.693147181f;

/* Inner products, scaled, to scores: minus infinity where a query does not see a key. Those of special pairs
 * are left in the room as well, as powers of e. */
template <class S, bool OWN_KEYS, bool SPECIAL>
GPU_INLINE void attention_tensor_scores(const attention_job &a, const attention_tensor_step &step,
                                        attention_tensor_pairs<S> &x, const attention_tensor_room<S> &room) {
    attention_sighted by = attention_sight_of(a, step.at);
    if (SPECIAL) {
        enum { OF_SIXTEEN = S::STEP / 8 * 4 };
        attention_tensor_each<S>([&](int i, int j, int k) { room.at(i, j, k) = x[i][j][k] * a.scale; });
#pragma unroll 1
        for (int n = 0; n < S::SIXTEENS * OF_SIXTEEN; n++) {
            int i = n / OF_SIXTEEN, j = n % OF_SIXTEEN / 4, k = n % 4;
            int own = S::own(i, k), other = step.line + S::other(j, k);
            float &pair = room.at(i, j, k);
            pair = attention_score(a, step.at, by, OWN_KEYS ? other : own, OWN_KEYS ? own : other, pair);
        }
        attention_tensor_each<S>(
            [&](int i, int j, int k) { x[i][j][k] = room.at(i, j, k) * ATTENTION_LOG2_E; });
        return;
    }
    float scale = a.scale * ATTENTION_LOG2_E;
    attention_tensor_each<S>([&](int i, int j, int k) { x[i][j][k] *= scale; });
    if (by.all) return;
    attention_tensor_each<S>([&](int i, int j, int k) {
        int own = S::own(i, k), other = step.line + S::other(j, k);
        int t = OWN_KEYS ? other : own, s = OWN_KEYS ? own : other;
        if (t >= step.at.queries || !attention_is_placed(by, t, s)) x[i][j][k] = -INFINITY;
    });
}

/* Draws what dropout keeps of the step's pairs, for attention_tensor_room::keeps. */
template <class S, bool OWN_KEYS>
GPU_INLINE void attention_tensor_draw(const attention_job &a, const attention_tensor_step &step,
                                      const attention_tensor_room<S> &room) {
    int own = S::warp() * S::OWN;
    __syncwarp();
    if (OWN_KEYS)
        attention_drop(a, step.at, { step.line, S::STEP, own, S::OWN }, [&](int t, int s, float keep) {
            room.kept[room.place(s - own, t - step.line)] = keep > 0;
        });
    else
        attention_drop(a, step.at, { own, S::OWN, step.line, S::STEP }, [&](int t, int s, float keep) {
            room.kept[room.place(t - own, s - step.line)] = keep > 0;
        });
    __syncwarp();
}

/* x times what dropout has for the pairs that were drawn. */
template <class S>
GPU_INLINE void attention_tensor_keep(const attention_job &a, const attention_tensor_room<S> &room,
                                      attention_tensor_pairs<S> &x) {
    float more = 1.0f / (1.0f - a.dropout);
    attention_tensor_each<S>(
        [&](int i, int j, int k) { x[i][j][k] = room.keeps(i, j, k) ? x[i][j][k] * more : 0.0f; });
}

/* ---- the call ---- */

/* Do eight neighbours of a head lie where they can be copied at once? */
static inline bool attention_tensor_eights(const attention_cuda_place &p, int64_t size) {
    return (uintptr_t)p.data % 16 == 0 && p.first % 8 == 0 && p.stride % 8 == 0 && size % 8 == 0;
}

/* All of q, k and v, and y where there is one, are of one type (infer). */
static inline bool attention_tensor_accepts(const op_call *c, uint32_t side) {
    dtype type = c->in[0].dtype;
    return c->capability >= GPU_MMA_LEAST && instructions_tensor(CONFIRM_ATTENTION, c->capability) &&
           (type == DTYPE_BF16 || type == DTYPE_F16) && cuda_accepts(c) &&
           attention_view_of(c, side).n.size <= ATTENTION_TENSOR_WIDEST;
}
