/* Updates of optimizers, a block of threads to a block of STATE_BLOCK elements, with state in f32, in floats
 * of 16 bits and in codes of 8 (ops/state.h). All that the host doesn't know is read here: the numbers of the
 * step, which one thread works out for all, and whether there is a step at all; where not, everything stays
 * as it is.
 *
 * What bounds them: memory. AdamW in f32 reads 16 bytes of an element and writes 12; with codes of 8 bits and
 * weights of 16 bits it is 10, for some 100 operations, so there arithmetic is near.
 *
 * An update U has
 *   attributes, step       types
 *   step_of(a, lr, t, scale)
 *   update(step, w, g, state)    one element; `state` are STATE_MOST numbers, all but the first ones unused
 */
#pragma once

#include "ops/cuda_rows.h"
#include "ops/cuda_sweep.h"
#include "ops/state_math.h"

struct cuda_state {
    cuda_span in, out; /* in.data NULL: there is no such state */
    const float *scales;
    float *scales_out;
    bool coded, positive, drifts;

    __device__ __forceinline__ float get(int64_t i, float scale) const {
        if (coded) return scale * state_decoded(((const uint8_t *)in.data)[i], positive);
        return in.get(i);
    }
};

template <class U>
struct cuda_update {
    cuda_span w, g, w_out, lr, scale;
    cuda_state state[STATE_MOST];
    const int32_t *t, *ok, *key; /* each may be NULL */
    typename U::attributes values;
    uint32_t stream;  /* of the weight's random bits; those of states follow */
    int64_t n, first; /* elements; the first one's place among those of the whole weight */
};

/* A block of Philox has the bits of eight neighbours, and where blocks of elements begin within one, a part
 * of another is wanted. */
enum { CUDA_UPDATE_EACH = STATE_BLOCK / GPU_BLOCK, CUDA_UPDATE_DRAWS = STATE_BLOCK / 8 + 1 };

/* Then, for each state whose new numbers are stored once all of them are there, STATE_BLOCK of these. */
template <class U>
struct cuda_update_shared {
    typename U::step step;
    bool skipped;
    float largest[CUDA_ROWS];
    uint32_t words[CUDA_UPDATE_DRAWS * 4];
};

/* Random bits for the elements from `first` on, which cuda_update_bits gives out. */
GPU_INLINE void cuda_update_draw(const int32_t *key, uint32_t stream, int64_t first, uint32_t *words) {
    uint64_t seed = (uint64_t)(uint32_t)key[1] << 32 | (uint32_t)key[0];
    __syncthreads();
    for (int b = (int)threadIdx.x; b < CUDA_UPDATE_DRAWS; b += GPU_BLOCK) {
        uint64_t block = (uint64_t)(first / 8 + b);
        philox_block counter = { { (uint32_t)block, (uint32_t)(block >> 32), (uint32_t)key[2], stream } };
        philox_block drawn = philox_draw(seed, counter);
        for (int w = 0; w < 4; w++) words[4 * b + w] = drawn.word[w];
    }
    __syncthreads();
}

GPU_INLINE uint32_t cuda_update_bits(const uint32_t *words, int64_t first, int i) {
    int at = (int)(first % 8) + i;
    return words[at / 2] >> at % 2 * 16 & 0xffffu;
}

/* The largest absolute value of the block, in all threads. */
GPU_INLINE float cuda_update_largest(float mine, float *largest) {
    mine = cuda_warp_largest(mine);
    __syncthreads();
    if (cuda_lane() == 0) largest[threadIdx.x / GPU_WARP] = mine;
    __syncthreads();
    for (int warp = 0; warp < CUDA_ROWS; warp++) mine = largest[warp] > mine ? largest[warp] : mine;
    return mine;
}

/* State `which` of the block from `first` on, n of them: as codes, or rounded with random bits. */
template <class U>
GPU_INLINE void cuda_update_store(const cuda_update<U> &u, int which, int64_t first, int n, const float *x,
                                  cuda_update_shared<U> *s) {
    const cuda_state &to = u.state[which];
    float inverse = 0;
    int64_t place = u.first + first;
    bool drawn = u.key && (to.drifts || !to.coded);
    if (to.coded) {
        float largest = 0;
        for (int i = (int)threadIdx.x; i < n; i += GPU_BLOCK)
            largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
        float scale = state_scale(cuda_update_largest(largest, s->largest));
        inverse = state_inverse(scale);
        if (threadIdx.x == 0) to.scales_out[first / STATE_BLOCK] = scale;
    }
    if (drawn) cuda_update_draw(u.key, u.stream + 1 + (uint32_t)which, place, s->words);
    for (int i = (int)threadIdx.x; i < n; i += GPU_BLOCK) {
        uint32_t bits = drawn ? cuda_update_bits(s->words, place, i) : 0;
        if (!to.coded) {
            ((uint16_t *)to.out.data)[first + i] = half_to_bf16_stochastic(x[i], bits);
            continue;
        }
        uint8_t code = to.positive ? state_coded_positive(x[i], inverse) : state_coded_signed(x[i], inverse);
        if (drawn) code = state_drawn(x[i] * inverse, code, (uint16_t)bits, to.positive);
        ((uint8_t *)to.out.data)[first + i] = code;
    }
}

/* Outputs that don't live in their inputs get what these hold. */
GPU_INLINE void cuda_update_keep(const void *from, void *to, int64_t i, int bytes) {
    if (from == to) return;
    if (bytes == 1)
        ((uint8_t *)to)[i] = ((const uint8_t *)from)[i];
    else if (bytes == 2)
        ((uint16_t *)to)[i] = ((const uint16_t *)from)[i];
    else
        ((uint32_t *)to)[i] = ((const uint32_t *)from)[i];
}

template <class U>
GPU_INLINE void cuda_update_skip(const cuda_update<U> &u, int64_t first, int n) {
    for (int i = (int)threadIdx.x; i < n; i += GPU_BLOCK)
        cuda_update_keep(u.w.data, u.w_out.data, first + i, u.w.type == DTYPE_F32 ? 4 : 2);
    for (int k = 0; k < STATE_MOST; k++) {
        const cuda_state &s = u.state[k];
        if (!s.in.data) continue;
        for (int i = (int)threadIdx.x; i < n; i += GPU_BLOCK)
            cuda_update_keep(s.in.data, s.out.data, first + i, s.coded ? 1 : s.in.type == DTYPE_F32 ? 4 : 2);
        if (s.coded && threadIdx.x == 0) cuda_update_keep(s.scales, s.scales_out, first / STATE_BLOCK, 4);
    }
}

template <class U>
static __host__ __device__ __forceinline__ bool cuda_update_waits(const cuda_update<U> &u, int which) {
    const cuda_state &s = u.state[which];
    return s.in.data && (s.coded || (u.key && s.in.type == DTYPE_BF16));
}

/* A thread's elements, GPU_BLOCK apart: all are on their way while one thread works out the step. Codes are
 * read later, one by one. */
struct cuda_update_own {
    float w[CUDA_UPDATE_EACH], g[CUDA_UPDATE_EACH], state[STATE_MOST][CUDA_UPDATE_EACH];
};
template <class U>
GPU_INLINE void cuda_update_read(const cuda_update<U> &u, int64_t first, int n, cuda_update_own &own) {
    u.w.get_some(first + threadIdx.x, GPU_BLOCK, first + n, own.w);
    u.g.get_some(first + threadIdx.x, GPU_BLOCK, first + n, own.g);
#pragma unroll
    for (int k = 0; k < STATE_MOST; k++) {
#pragma unroll
        for (int e = 0; e < CUDA_UPDATE_EACH; e++) own.state[k][e] = 0;
        if (u.state[k].in.data && !u.state[k].coded)
            u.state[k].in.get_some(first + threadIdx.x, GPU_BLOCK, first + n, own.state[k]);
    }
}

/* Of one call, or of as many as go into a launch. */
template <class U, int MOST>
__global__ void __launch_bounds__(GPU_BLOCK, 2) cuda_update_kernel(cuda_sweep<cuda_update<U>, MOST> all) {
    GPU_SHARED(cuda_update_shared<U>, s);
    const int call = all.find(blockIdx.x);
    const cuda_update<U> &u = all.of[call];
    int64_t first = (int64_t)(blockIdx.x - all.begin[call]) * STATE_BLOCK;
    int n = u.n - first < STATE_BLOCK ? (int)(u.n - first) : STATE_BLOCK;
    cuda_update_own own;
    cuda_update_read(u, first, n, own);
    if (threadIdx.x == 0) {
        s->skipped = u.ok && *u.ok == 0;
        s->step = U::step_of(&u.values, u.lr.get(0), u.t ? *u.t : 0, cuda_number(u.scale, 1));
    }
    __syncthreads();
    if (s->skipped) {
        cuda_update_skip(u, first, n);
        return;
    }
    typename U::step step = s->step;
    bool rounds = u.key && u.w.type == DTYPE_BF16;
    float *wait[STATE_MOST], *room = (float *)(s + 1);
#pragma unroll
    for (int k = 0; k < STATE_MOST; k++) {
        wait[k] = cuda_update_waits(u, k) ? room : NULL;
        room += wait[k] ? STATE_BLOCK : 0;
    }
    if (rounds) cuda_update_draw(u.key, u.stream, u.first + first, s->words);
#pragma unroll
    for (int e = 0; e < CUDA_UPDATE_EACH; e++) {
        int i = (int)threadIdx.x + e * GPU_BLOCK;
        if (i >= n) continue;
        float w = own.w[e], state[STATE_MOST];
#pragma unroll
        for (int k = 0; k < STATE_MOST; k++) {
            state[k] = own.state[k][e];
            if (u.state[k].coded)
                state[k] = u.state[k].get(first + i, u.state[k].scales[first / STATE_BLOCK]);
        }
        U::update(&step, &w, own.g[e], state);
        if (rounds)
            ((uint16_t *)u.w_out.data)[first + i] =
                half_to_bf16_stochastic(w, cuda_update_bits(s->words, u.first + first, i));
        else
            u.w_out.set(first + i, w);
#pragma unroll
        for (int k = 0; k < STATE_MOST; k++)
            if (wait[k])
                wait[k][i] = state[k];
            else if (u.state[k].in.data)
                u.state[k].out.set(first + i, state[k]);
    }
#pragma unroll
    for (int k = 0; k < STATE_MOST; k++)
        if (wait[k]) cuda_update_store(u, k, first, n, wait[k], s);
}

/* ---- from the call ---- */

/* Where the op has what: inputs, 0 (which is the weight's) for one that it does not have. */
struct cuda_update_inputs {
    uint8_t lr, t, scale, ok;
};

static inline cuda_state cuda_state_of(const op_call *c, const op_state *s) {
    cuda_state x = {};
    x.in = cuda_in(c, s->in);
    if (!x.in.data) return x;
    x.out = cuda_out(c, s->out);
    x.coded = x.in.type == DTYPE_U8, x.positive = s->positive, x.drifts = s->drifts;
    if (x.coded) x.scales = (const float *)op_in(c, s->scales)->data;
    if (x.coded) x.scales_out = (float *)c->out[s->scales_out].data;
    return x;
}

template <class U>
static cuda_update<U> cuda_update_of(const op_call *c, const op_update *of, cuda_update_inputs at) {
    cuda_update<U> u = {};
    u.w = cuda_in(c, 0), u.g = cuda_in(c, 1), u.w_out = cuda_out(c, 0);
    u.lr = cuda_in(c, at.lr), u.scale = cuda_in(c, at.scale);
    u.t = at.t ? (const int32_t *)op_in(c, at.t)->data : NULL;
    u.ok = (const int32_t *)op_in(c, at.ok)->data;
    u.key = (const int32_t *)op_in(c, of->rounding_key)->data;
    u.values = *(const typename U::attributes *)c->attributes;
    memcpy(&u.stream, (const char *)c->attributes + of->rounding_stream, sizeof u.stream);
    u.n = shape_elements(&c->out[0].shape), u.first = c->first;
    for (int k = 0; k < of->state_count; k++) u.state[k] = cuda_state_of(c, &of->states[k]);
    return u;
}

/* Shared memory of the call that takes most. */
template <class U, int MOST>
static void cuda_update_launch(const cuda_sweep<cuda_update<U>, MOST> &all) {
    size_t most = 0;
    for (uint32_t i = 0; i < all.count; i++) {
        size_t shared = sizeof(cuda_update_shared<U>);
        for (int k = 0; k < STATE_MOST; k++)
            if (cuda_update_waits(all.of[i], k)) shared += STATE_BLOCK * sizeof(float);
        most = shared > most ? shared : most;
    }
    if (all.blocks) GPU_LAUNCH((cuda_update_kernel<U, MOST>), all.blocks, GPU_BLOCK, most, all);
}

template <class U>
static void cuda_update_run(const op_call *c, const op_update *of, cuda_update_inputs at) {
    cuda_sweep<cuda_update<U>, 1> one;
    one.count = one.blocks = 0;
    one.add(cuda_update_of<U>(c, of, at), gpu_blocks(shape_elements(&c->out[0].shape), STATE_BLOCK));
    cuda_update_launch(one);
}

template <class U>
static void cuda_update_sweep(const op_call *calls, uint32_t count, const op_update *of,
                              cuda_update_inputs at) {
    cuda_sweep_calls<cuda_update<U>>(
        calls, count, [&](const op_call *c) { return cuda_update_of<U>(c, of, at); },
        [](const cuda_update<U> &u) { return gpu_blocks(u.n, STATE_BLOCK); },
        [](const cuda_sweep<cuda_update<U>> &all) { cuda_update_launch(all); });
}
