/* Twin of take_share_cpu.c. */
#include "ops/cuda.h"

extern "C" {
#include "ops/take_share/take_share.h"
}

struct take_share_one {
    cuda_span x, y;
    int64_t first, n;
    __device__ __forceinline__ void operator()(int64_t i) const {
        y.set(i, first + i < n ? x.get(first + i) : 0.0f);
    }
};

static void run(const op_call *c) {
    take_share_one f = { cuda_in(c, 0), cuda_out(c, 0), c->first, shape_elements(&c->in[0].shape) };
    cuda_each(shape_elements(&c->out[0].shape), f);
}

CUDA_KERNELS(take_share_cuda, { "take_share_cuda_map", cuda_accepts, NULL, run });
