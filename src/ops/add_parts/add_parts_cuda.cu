/* The twin of add_parts_cpu.c. */
#include "ops/cuda.h"

extern "C" {
#include "ops/add_parts/add_parts.h"
}

struct add_parts_one {
    cuda_span sum, parts, y;
    int64_t n, ranks;
    __device__ __forceinline__ void operator()(int64_t i) const {
        float x = sum.get(i);
        for (int64_t r = 0; r < ranks; r++) x = x + parts.get(r * n + i);
        y.set(i, x);
    }
};

static void run(const op_call *c) {
    int64_t n = shape_elements(&c->out[0].shape);
    add_parts_one f = { cuda_in(c, 0), cuda_in(c, 1), cuda_out(c, 0), n, c->in[1].shape.dim[0] };
    cuda_each(n, f);
}

CUDA_KERNELS(add_parts_cuda, { "add_parts_cuda_map", cuda_accepts, NULL, run });
