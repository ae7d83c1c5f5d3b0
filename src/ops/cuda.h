/* What kernels for GPUs share: numbers as they are stored, and loops over elements. Kernels compute in f32,
 * as the CPU's fast ones do, and read and write f32, f16 and bf16.
 *
 * What bounds a loop over elements: memory, of which a multiprocessor gets 10 to 18 bytes in a cycle (8.0 to
 * 9.0 with HBM3e), while it makes 128 operations in f32. So an element that is read and written in f32 has
 * time for 60 to 100 operations. Few ops need as many. */
#pragma once

#include "device/cuda/gpu.h"

extern "C" {
#include "ir/op.h"
}
#include "base/half.h"

/* The floats of an argument. Its type is known when the kernel runs, and is the same for all threads of a
 * launch. `data` is NULL where the argument is absent. */
struct cuda_span {
    void *data;
    int32_t type;

    __device__ __forceinline__ float get(int64_t i) const {
        if (type == DTYPE_F32) return ((const float *)data)[i];
        uint16_t bits = ((const uint16_t *)data)[i];
        return type == DTYPE_BF16 ? half_from_bf16(bits) : half_from_f16(bits);
    }
    __device__ __forceinline__ void set(int64_t i, float x) const {
        if (type == DTYPE_F32)
            ((float *)data)[i] = x;
        else
            ((uint16_t *)data)[i] = type == DTYPE_BF16 ? half_to_bf16(x) : half_to_f16(x);
    }
    /* Four neighbours in one access, of 16 or 8 bytes, where they are aligned so. */
    __device__ __forceinline__ void get4(int64_t i, float x[4]) const {
        if (type == DTYPE_F32) {
            gpu_get4((const float *)data + i, x);
            return;
        }
        uint64_t bits = *GPU_WIDE(uint64_t, (uint16_t *)data + i);
#pragma unroll
        for (int k = 0; k < 4; k++) {
            uint16_t one = (uint16_t)(bits >> 16 * k);
            x[k] = type == DTYPE_BF16 ? half_from_bf16(one) : half_from_f16(one);
        }
    }
    __device__ __forceinline__ void set4(int64_t i, const float x[4]) const {
        if (type == DTYPE_F32) {
            gpu_set4((float *)data + i, x);
            return;
        }
        uint64_t bits = 0;
#pragma unroll
        for (int k = 0; k < 4; k++)
            bits |= (uint64_t)(type == DTYPE_BF16 ? half_to_bf16(x[k]) : half_to_f16(x[k])) << 16 * k;
        *GPU_WIDE(uint64_t, (uint16_t *)data + i) = bits;
    }
    /* Numbers i, i + step and so on, as many as there are below `end`, else 0. The type is asked for once, so
     * that all of them are on their way at a time. */
    template <int N>
    __device__ __forceinline__ void get_some(int64_t i, int64_t step, int64_t end, float (&x)[N]) const {
        if (type == DTYPE_F32) {
#pragma unroll
            for (int k = 0; k < N; k++)
                x[k] = i + k * step < end ? ((const float *)data)[i + k * step] : 0.0f;
            return;
        }
        uint16_t bits[N];
#pragma unroll
        for (int k = 0; k < N; k++)
            bits[k] = i + k * step < end ? ((const uint16_t *)data)[i + k * step] : (uint16_t)0;
#pragma unroll
        for (int k = 0; k < N; k++)
            x[k] = type == DTYPE_BF16 ? half_from_bf16(bits[k]) : half_from_f16(bits[k]);
    }
    /* What get would read where x was set. */
    __device__ __forceinline__ float stored(float x) const {
        if (type == DTYPE_F32) return x;
        return type == DTYPE_BF16 ? half_from_bf16(half_to_bf16(x)) : half_from_f16(half_to_f16(x));
    }
};

/* Whether four neighbours from a multiple of four on are aligned. */
static inline bool cuda_fours(const cuda_span &x) {
    return (uintptr_t)x.data % (4 * dtype_bytes((dtype)x.type)) == 0;
}

static inline cuda_span cuda_span_of(const op_arg *x) { return { x->data, (int32_t)x->dtype }; }
static inline cuda_span cuda_in(const op_call *c, uint32_t i) { return cuda_span_of(op_in(c, i)); }
static inline cuda_span cuda_out(const op_call *c, uint32_t o) { return cuda_span_of(&c->out[o]); }

/* An optional input of one element, read where it is. */
GPU_INLINE float cuda_number(const cuda_span &x, float absent) { return x.data ? x.get(0) : absent; }

/* No float of 64 bits: only references compute in those. */
static inline bool cuda_accepts(const op_call *c) {
    for (uint32_t i = 0; i < c->in_count; i++)
        if (c->in[i].dtype == DTYPE_F64) return false;
    for (uint32_t o = 0; o < c->out_count; o++)
        if (c->out[o].dtype == DTYPE_F64) return false;
    return true;
}

/* An argument whose numbers are moved as they are, of 1, 2 or 4 bytes each. */
struct cuda_plain {
    void *data;
    uint32_t bytes;

    __device__ __forceinline__ uint32_t get(int64_t i) const {
        return bytes == 4   ? ((const uint32_t *)data)[i]
               : bytes == 2 ? ((const uint16_t *)data)[i]
                            : ((const uint8_t *)data)[i];
    }
    __device__ __forceinline__ void set(int64_t i, uint32_t bits) const {
        if (bytes == 4)
            ((uint32_t *)data)[i] = bits;
        else if (bytes == 2)
            ((uint16_t *)data)[i] = (uint16_t)bits;
        else
            ((uint8_t *)data)[i] = (uint8_t)bits;
    }
};

static inline cuda_plain cuda_plain_of(const op_arg *x) { return { x->data, dtype_bytes(x->dtype) }; }

/* The same of any type: a number of 8 bytes is two of 4. */
static inline int64_t cuda_words_each(const op_arg *x) { return dtype_bytes(x->dtype) == 8 ? 2 : 1; }
static inline cuda_plain cuda_words_of(const op_arg *x) {
    return { x->data, dtype_bytes(x->dtype) / (uint32_t)cuda_words_each(x) };
}

/* The bits of a number that the host knows. */
static inline uint32_t cuda_bits_of(double value, dtype type) {
    switch (type) {
    case DTYPE_F32: return half_bits((float)value);
    case DTYPE_F16: return half_to_f16((float)value);
    case DTYPE_BF16: return half_to_bf16((float)value);
    case DTYPE_U8: return (uint8_t)value;
    default: return (uint32_t)(int32_t)value;
    }
}

/* i = row * width + column, none below 0. A GPU divides by software: in 32 bits, where they do, it has much
 * less to do than in 64. */
struct cuda_cell {
    int64_t row, column;
};
GPU_INLINE cuda_cell cuda_split(int64_t i, int64_t width) {
    if ((i | width) >> 32) return { i / width, i % width };
    uint32_t row = (uint32_t)i / (uint32_t)width;
    return { (int64_t)row, (int64_t)((uint32_t)i - row * (uint32_t)width) };
}

/* The list of kernels that the op's header declares, for its field `cuda`. */
#define CUDA_KERNELS(list, ...)                                                                              \
    extern "C" {                                                                                             \
    const op_kernel list[] = { __VA_ARGS__, {} };                                                            \
    }

/* ---- elements ---- */

/* Elements of a thread, GPU_BLOCK apart: neighbours read neighbours, and some reads are under way at once. */
enum { CUDA_EACH = 4 };

template <class F>
__global__ void __launch_bounds__(GPU_BLOCK) cuda_each_kernel(F f, int64_t n) {
    int64_t first = (int64_t)blockIdx.x * (GPU_BLOCK * CUDA_EACH) + threadIdx.x;
#pragma unroll
    for (int k = 0; k < CUDA_EACH; k++)
        if (first + k * GPU_BLOCK < n) f(first + k * GPU_BLOCK);
}

/* f(i) for i = 0 .. n-1, in any order. f is copied to the device: what it holds are numbers and addresses. */
template <class F>
static void cuda_each(int64_t n, const F &f) {
    if (n > 0) GPU_LAUNCH_APART((cuda_each_kernel<F>), gpu_blocks(n, GPU_BLOCK * CUDA_EACH), GPU_BLOCK, f, n);
}

/* The same where f is long, with loops of its own: one element to a thread, and as many registers as f wants.
 * Left to itself, ptxas chooses how many there are and then spills. */
template <class F>
__global__ void __launch_bounds__(GPU_BLOCK, 2) cuda_each_long_kernel(F f, int64_t n) {
    int64_t i = (int64_t)blockIdx.x * GPU_BLOCK + threadIdx.x;
    if (i < n) f(i);
}
template <class F>
static void cuda_each_long(int64_t n, const F &f) {
    if (n > 0) GPU_LAUNCH_APART((cuda_each_long_kernel<F>), gpu_blocks(n, GPU_BLOCK), GPU_BLOCK, f, n);
}

/* f() by one thread: for kernels of single numbers. */
template <class F>
__global__ void cuda_once_kernel(F f) {
    f();
}
template <class F>
static void cuda_once(const F &f) {
    GPU_LAUNCH_APART((cuda_once_kernel<F>), 1, 1, f);
}

/* ---- maps ----
 * A thread has four neighbours; where operands are not aligned to that, it has them GPU_BLOCK apart. */

template <class F>
__global__ void __launch_bounds__(GPU_BLOCK) cuda_fours_kernel(F f, int64_t n) {
    int64_t first = ((int64_t)blockIdx.x * GPU_BLOCK + threadIdx.x) * 4;
    if (first + 4 <= n) {
        f.four(first);
        return;
    }
    for (int64_t i = first; i < n; i++) f(i);
}
template <class F>
static void cuda_map_run(int64_t n, const F &f) {
    if (!f.aligned())
        cuda_each(n, f);
    else if (n > 0)
        GPU_LAUNCH_APART((cuda_fours_kernel<F>), gpu_blocks(n, GPU_BLOCK * 4), GPU_BLOCK, f, n);
}

/* y[i] = F::of(x[i]). */
template <class F>
struct cuda_map_one {
    cuda_span x, y;
    __device__ __forceinline__ void operator()(int64_t i) const { y.set(i, F::of(x.get(i))); }
    __device__ __forceinline__ void four(int64_t i) const {
        float v[4];
        x.get4(i, v);
#pragma unroll
        for (int k = 0; k < 4; k++) v[k] = F::of(v[k]);
        y.set4(i, v);
    }
    bool aligned() const { return cuda_fours(x) && cuda_fours(y); }
};
template <class F>
static void cuda_map(const op_call *c) {
    cuda_map_one<F> f = { cuda_in(c, 0), cuda_out(c, 0) };
    cuda_map_run(shape_elements(&c->out[0].shape), f);
}

/* y[i] = F::of(a[i], b[i]). */
template <class F>
struct cuda_map_two {
    cuda_span a, b, y;
    __device__ __forceinline__ void operator()(int64_t i) const { y.set(i, F::of(a.get(i), b.get(i))); }
    __device__ __forceinline__ void four(int64_t i) const {
        float v[4], w[4];
        a.get4(i, v), b.get4(i, w);
#pragma unroll
        for (int k = 0; k < 4; k++) v[k] = F::of(v[k], w[k]);
        y.set4(i, v);
    }
    bool aligned() const { return cuda_fours(a) && cuda_fours(b) && cuda_fours(y); }
};
template <class F>
static void cuda_map2(const op_call *c) {
    cuda_map_two<F> f = { cuda_in(c, 0), cuda_in(c, 1), cuda_out(c, 0) };
    cuda_map_run(shape_elements(&c->out[0].shape), f);
}
