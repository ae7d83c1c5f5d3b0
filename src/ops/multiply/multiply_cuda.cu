/* The twin of multiply_cpu.c's fast kernels. */
#include "ops/cuda.h"

extern "C" {
#include "ops/multiply/multiply.h"
}

struct multiply_of_two {
    GPU_MEMBER float of(float a, float b) { return a * b; }
};

CUDA_KERNELS(multiply_cuda, { "multiply_cuda_map", cuda_accepts, NULL, cuda_map2<multiply_of_two> });
