/* Twins of sigmoid_cpu.c's fast kernels. */
#include "ops/cuda.h"

extern "C" {
#include "ops/sigmoid/sigmoid.h"
}
#include "ops/sigmoid/sigmoid_math.h"

struct sigmoid_of_x {
    GPU_MEMBER float of(float x) { return sigmoid_value_f32(x); }
};
struct sigmoid_slope_of_y {
    GPU_MEMBER float of(float y, float dy) { return dy * sigmoid_slope_f32(y); }
};

CUDA_KERNELS(sigmoid_cuda, { "sigmoid_cuda_map", cuda_accepts, NULL, cuda_map<sigmoid_of_x> });
CUDA_KERNELS(sigmoid_backward_cuda,
             { "sigmoid_backward_cuda_map", cuda_accepts, NULL, cuda_map2<sigmoid_slope_of_y> });
