/* Twins of gelu_cpu.c's fast kernels. */
#include "ops/cuda.h"

extern "C" {
#include "ops/gelu/gelu.h"
}
#include "ops/gelu/gelu_math.h"

struct gelu_by_tanh {
    GPU_MEMBER float of(float x) { return gelu_tanh_f32(x); }
};
struct gelu_by_erf {
    GPU_MEMBER float of(float x) { return gelu_erf_f32(x); }
};
struct gelu_slope_by_tanh {
    GPU_MEMBER float of(float x, float dy) { return dy * gelu_tanh_slope_f32(x); }
};
struct gelu_slope_by_erf {
    GPU_MEMBER float of(float x, float dy) { return dy * gelu_erf_slope_f32(x); }
};

static bool is_tanh(const op_call *c) { return ((const gelu_attributes *)c->attributes)->tanh != 0; }

static void run(const op_call *c) { is_tanh(c) ? cuda_map<gelu_by_tanh>(c) : cuda_map<gelu_by_erf>(c); }

static void run_backward(const op_call *c) {
    is_tanh(c) ? cuda_map2<gelu_slope_by_tanh>(c) : cuda_map2<gelu_slope_by_erf>(c);
}

CUDA_KERNELS(gelu_cuda, { "gelu_cuda_map", cuda_accepts, NULL, run });
CUDA_KERNELS(gelu_backward_cuda, { "gelu_backward_cuda_map", cuda_accepts, NULL, run_backward });
