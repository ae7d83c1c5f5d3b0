/* Twins of tanh_cpu.c's fast kernels. */
#include "ops/cuda.h"

extern "C" {
#include "ops/tanh/tanh.h"
}
#include "ops/tanh/tanh_math.h"

struct tanh_of_x {
    GPU_MEMBER float of(float x) { return tanh_value_f32(x); }
};
struct tanh_slope_of_y {
    GPU_MEMBER float of(float y, float dy) { return dy * tanh_slope_f32(y); }
};

CUDA_KERNELS(tanh_cuda, { "tanh_cuda_map", cuda_accepts, NULL, cuda_map<tanh_of_x> });
CUDA_KERNELS(tanh_backward_cuda,
             { "tanh_backward_cuda_map", cuda_accepts, NULL, cuda_map2<tanh_slope_of_y> });
