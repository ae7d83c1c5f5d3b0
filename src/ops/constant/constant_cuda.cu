/* One number, which the host knows: it travels with the launch, as the bits that are to stand there. */
#include "ops/cuda.h"

extern "C" {
#include "ops/constant/constant.h"
}

struct constant_bits {
    cuda_plain y;
    uint32_t bits;
    __device__ __forceinline__ void operator()() const { y.set(0, bits); }
};

static void run(const op_call *c) {
    double value = ((const constant_attributes *)c->attributes)->value;
    constant_bits f = { cuda_plain_of(&c->out[0]), cuda_bits_of(value, c->out[0].dtype) };
    cuda_once(f);
}

CUDA_KERNELS(constant_cuda, { "constant_cuda_bits", cuda_accepts, NULL, run });
