/* The twin of zeros_cpu.c. */
#include "ops/cuda.h"

extern "C" {
#include "ops/zeros/zeros.h"
}

struct zeros_one {
    cuda_plain y;
    __device__ __forceinline__ void operator()(int64_t i) const { y.set(i, 0); }
};

static void run(const op_call *c) {
    zeros_one f = { cuda_plain_of(&c->out[0]) };
    cuda_each(shape_elements(&c->out[0].shape), f);
}

CUDA_KERNELS(zeros_cuda, { "zeros_cuda_map", cuda_accepts, NULL, run });
