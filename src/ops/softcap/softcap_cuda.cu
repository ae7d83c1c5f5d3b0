/* Twins of softcap_cpu.c's fast kernels. */
#include "ops/cuda.h"

extern "C" {
#include "ops/softcap/softcap.h"
}
#include "ops/softcap/softcap_math.h"

struct softcap_one {
    cuda_span x, y;
    float cap;
    __device__ __forceinline__ void operator()(int64_t i) const {
        y.set(i, softcap_value_f32(x.get(i), cap));
    }
};

struct softcap_slope_one {
    cuda_span y, dy, dx;
    float cap;
    __device__ __forceinline__ void operator()(int64_t i) const {
        dx.set(i, dy.get(i) * softcap_slope_f32(y.get(i), cap));
    }
};

static float cap_of(const op_call *c) { return ((const softcap_attributes *)c->attributes)->cap; }

static void run(const op_call *c) {
    softcap_one f = { cuda_in(c, 0), cuda_out(c, 0), cap_of(c) };
    cuda_each(shape_elements(&c->out[0].shape), f);
}

static void run_backward(const op_call *c) {
    softcap_slope_one f = { cuda_in(c, 0), cuda_in(c, 1), cuda_out(c, 0), cap_of(c) };
    cuda_each(shape_elements(&c->out[0].shape), f);
}

CUDA_KERNELS(softcap_cuda, { "softcap_cuda_map", cuda_accepts, NULL, run });
CUDA_KERNELS(softcap_backward_cuda, { "softcap_backward_cuda_map", cuda_accepts, NULL, run_backward });
