/* Twins of quick_gelu_cpu.c's fast kernels. */
#include "ops/cuda.h"

extern "C" {
#include "ops/quick_gelu/quick_gelu.h"
}
#include "ops/quick_gelu/quick_gelu_math.h"

struct quick_gelu_of_x {
    GPU_MEMBER float of(float x) { return quick_gelu_value_f32(x); }
};
struct quick_gelu_slope_of_x {
    GPU_MEMBER float of(float x, float dy) { return dy * quick_gelu_slope_f32(x); }
};

CUDA_KERNELS(quick_gelu_cuda, { "quick_gelu_cuda_map", cuda_accepts, NULL, cuda_map<quick_gelu_of_x> });
CUDA_KERNELS(quick_gelu_backward_cuda,
             { "quick_gelu_backward_cuda_map", cuda_accepts, NULL, cuda_map2<quick_gelu_slope_of_x> });
