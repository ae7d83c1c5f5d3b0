/* The twin of scale_cpu.c's fast kernels. */
#include "ops/cuda.h"

extern "C" {
#include "ops/scale/scale.h"
}

struct scale_one {
    cuda_span x, by, y; /* by.data may be NULL */
    float factor;
    __device__ __forceinline__ void operator()(int64_t i) const {
        float f = factor * cuda_number(by, 1);
        y.set(i, f * x.get(i));
    }
};

static void run(const op_call *c) {
    scale_one f = { cuda_in(c, 0), cuda_in(c, 1), cuda_out(c, 0),
                    ((const scale_attributes *)c->attributes)->factor };
    cuda_each(shape_elements(&c->out[0].shape), f);
}

CUDA_KERNELS(scale_cuda, { "scale_cuda_map", cuda_accepts, NULL, run });
