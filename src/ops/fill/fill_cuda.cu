/* The twin of fill_cpu.c. */
#include "ops/cuda.h"

extern "C" {
#include "ops/fill/fill.h"
}

struct fill_one {
    cuda_plain y;
    uint32_t bits;
    __device__ __forceinline__ void operator()(int64_t i) const { y.set(i, bits); }
};

static void run(const op_call *c) {
    double value = (double)((const fill_attributes *)c->attributes)->value;
    fill_one f = { cuda_plain_of(&c->out[0]), cuda_bits_of(value, c->out[0].dtype) };
    cuda_each(shape_elements(&c->out[0].shape), f);
}

CUDA_KERNELS(fill_cuda, { "fill_cuda_map", cuda_accepts, NULL, run });
