/* Twins of silu_cpu.c's fast kernels. */
#include "ops/cuda.h"

extern "C" {
#include "ops/silu/silu.h"
}
#include "ops/silu/silu_math.h"

struct silu_of_x {
    GPU_MEMBER float of(float x) { return silu_value_f32(x); }
};
struct silu_slope_of_x {
    GPU_MEMBER float of(float x, float dy) { return dy * silu_slope_f32(x); }
};

CUDA_KERNELS(silu_cuda, { "silu_cuda_map", cuda_accepts, NULL, cuda_map<silu_of_x> });
CUDA_KERNELS(silu_backward_cuda,
             { "silu_backward_cuda_map", cuda_accepts, NULL, cuda_map2<silu_slope_of_x> });
