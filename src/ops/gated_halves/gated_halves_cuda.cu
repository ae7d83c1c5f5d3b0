/* Twins of gated_halves_cpu.c's fast kernels. */
#include "ops/cuda.h"

extern "C" {
#include "ops/gated_halves/gated_halves.h"
}
#include "ops/gated/gated_math.h"

/* Where the gate of element i of y lies; its partner is `width` further. */
GPU_INLINE int64_t gated_halves_at(int64_t i, int64_t width) { return i + cuda_split(i, width).row * width; }

template <gated_function FUNCTION>
struct gated_halves_product {
    cuda_span x, y;
    int64_t width;
    __device__ __forceinline__ void operator()(int64_t i) const {
        int64_t at = gated_halves_at(i, width);
        y.set(i, gated_value_f32(FUNCTION, x.get(at)) * x.get(at + width));
    }
};

/* dx may live in x: a thread has both sides of its pair, and reads before it writes. */
template <gated_function FUNCTION>
struct gated_halves_slopes {
    cuda_span x, dy, dx;
    int64_t width;
    __device__ __forceinline__ void operator()(int64_t i) const {
        int64_t at = gated_halves_at(i, width);
        float gate = x.get(at), d = dy.get(i),
              of_gate = d * x.get(at + width) * gated_slope_f32(FUNCTION, gate);
        dx.set(at + width, d * gated_value_f32(FUNCTION, gate));
        dx.set(at, of_gate);
    }
};

static gated_function function_of(const op_call *c) {
    return (gated_function)((const gated_attributes *)c->attributes)->function;
}

template <gated_function FUNCTION>
static void products(const op_call *c) {
    const shape *y = &c->out[0].shape;
    gated_halves_product<FUNCTION> f = { cuda_in(c, 0), cuda_out(c, 0), shape_last(y) };
    cuda_each(shape_elements(y), f);
}

template <gated_function FUNCTION>
static void slopes(const op_call *c) {
    const shape *dy = &c->in[1].shape;
    gated_halves_slopes<FUNCTION> f = { cuda_in(c, 0), cuda_in(c, 1), cuda_out(c, 0), shape_last(dy) };
    cuda_each(shape_elements(dy), f);
}

static void run(const op_call *c) {
    switch (function_of(c)) {
    case GATED_SILU: products<GATED_SILU>(c); break;
    case GATED_GELU_TANH: products<GATED_GELU_TANH>(c); break;
    case GATED_GELU_ERF: products<GATED_GELU_ERF>(c); break;
    }
}

static void run_backward(const op_call *c) {
    switch (function_of(c)) {
    case GATED_SILU: slopes<GATED_SILU>(c); break;
    case GATED_GELU_TANH: slopes<GATED_GELU_TANH>(c); break;
    case GATED_GELU_ERF: slopes<GATED_GELU_ERF>(c); break;
    }
}

CUDA_KERNELS(gated_halves_cuda, { "gated_halves_cuda_map", cuda_accepts, NULL, run });
CUDA_KERNELS(gated_halves_backward_cuda,
             { "gated_halves_backward_cuda_map", cuda_accepts, NULL, run_backward });
