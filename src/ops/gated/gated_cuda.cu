/* Twins of gated_cpu.c's fast kernels. */
#include "ops/cuda.h"

extern "C" {
#include "ops/gated/gated.h"
}
#include "ops/gated/gated_math.h"

template <gated_function FUNCTION>
struct gated_product {
    GPU_MEMBER float of(float gate, float up) { return gated_value_f32(FUNCTION, gate) * up; }
};

static gated_function function_of(const op_call *c) {
    return (gated_function)((const gated_attributes *)c->attributes)->function;
}

static void run(const op_call *c) {
    switch (function_of(c)) {
    case GATED_SILU: cuda_map2<gated_product<GATED_SILU>>(c); break;
    case GATED_GELU_TANH: cuda_map2<gated_product<GATED_GELU_TANH>>(c); break;
    case GATED_GELU_ERF: cuda_map2<gated_product<GATED_GELU_ERF>>(c); break;
    }
}

/* Results may live where operands do, so all are read before any is written. */
template <gated_function FUNCTION>
struct gated_slopes {
    cuda_span gate, up, dy, dgate, dup;
    __device__ __forceinline__ void operator()(int64_t i) const {
        float x = gate.get(i), d = dy.get(i), of_gate = d * up.get(i) * gated_slope_f32(FUNCTION, x);
        dup.set(i, d * gated_value_f32(FUNCTION, x));
        dgate.set(i, of_gate);
    }
};

template <gated_function FUNCTION>
static void slopes(const op_call *c) {
    gated_slopes<FUNCTION> f = { cuda_in(c, 0), cuda_in(c, 1), cuda_in(c, 2), cuda_out(c, 0),
                                 cuda_out(c, 1) };
    cuda_each(shape_elements(&c->out[0].shape), f);
}

static void run_backward(const op_call *c) {
    switch (function_of(c)) {
    case GATED_SILU: slopes<GATED_SILU>(c); break;
    case GATED_GELU_TANH: slopes<GATED_GELU_TANH>(c); break;
    case GATED_GELU_ERF: slopes<GATED_GELU_ERF>(c); break;
    }
}

CUDA_KERNELS(gated_cuda, { "gated_cuda_map", cuda_accepts, NULL, run });
CUDA_KERNELS(gated_backward_cuda, { "gated_backward_cuda_map", cuda_accepts, NULL, run_backward });
