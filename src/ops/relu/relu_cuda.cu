/* Twins of relu_cpu.c. */
#include "ops/cuda.h"

extern "C" {
#include "ops/relu/relu.h"
}

struct relu_of_x {
    GPU_MEMBER float of(float x) { return x < 0 ? 0 : x; }
};
struct relu_slope_of_y {
    GPU_MEMBER float of(float y, float dy) { return y > 0 ? dy : 0; }
};

CUDA_KERNELS(relu_cuda, { "relu_cuda_map", cuda_accepts, NULL, cuda_map<relu_of_x> });
CUDA_KERNELS(relu_backward_cuda,
             { "relu_backward_cuda_map", cuda_accepts, NULL, cuda_map2<relu_slope_of_y> });
