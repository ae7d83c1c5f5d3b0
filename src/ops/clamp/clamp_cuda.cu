/* Twins of clamp_cpu.c's fast kernels. */
#include "ops/cuda.h"

extern "C" {
#include "ops/clamp/clamp.h"
}
#include "ops/clamp/clamp_math.h"

struct clamp_one {
    cuda_span x, y;
    float bound;
    __device__ __forceinline__ void operator()(int64_t i) const {
        y.set(i, clamp_value_f32(x.get(i), bound));
    }
};

struct clamp_slope_one {
    cuda_span x, dy, dx;
    float bound;
    __device__ __forceinline__ void operator()(int64_t i) const {
        dx.set(i, clamp_slope_f32(x.get(i), dy.get(i), bound));
    }
};

static float bound_of(const op_call *c) { return ((const clamp_attributes *)c->attributes)->bound; }

static void run(const op_call *c) {
    clamp_one f = { cuda_in(c, 0), cuda_out(c, 0), bound_of(c) };
    cuda_each(shape_elements(&c->out[0].shape), f);
}

static void run_backward(const op_call *c) {
    clamp_slope_one f = { cuda_in(c, 0), cuda_in(c, 1), cuda_out(c, 0), bound_of(c) };
    cuda_each(shape_elements(&c->out[0].shape), f);
}

CUDA_KERNELS(clamp_cuda, { "clamp_cuda_map", cuda_accepts, NULL, run });
CUDA_KERNELS(clamp_backward_cuda, { "clamp_backward_cuda_map", cuda_accepts, NULL, run_backward });
