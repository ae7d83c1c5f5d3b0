/* The twin of join_cpu.c: parts are copied one after the other. */
#include "ops/cuda.h"

extern "C" {
#include "ops/join/join.h"
}

struct join_one {
    cuda_plain x, y;
    int64_t width, to, start; /* columns of x and y, and where those of x begin */
    __device__ __forceinline__ void operator()(int64_t i) const {
        cuda_cell at = cuda_split(i, width);
        y.set(at.row * to + start + at.column, x.get(i));
    }
};

static void run(const op_call *c) {
    int64_t start = 0;
    for (uint32_t i = 0; i < c->in_count; i++) {
        join_one f = { cuda_plain_of(&c->in[i]), cuda_plain_of(&c->out[0]), shape_last(&c->in[i].shape),
                       shape_last(&c->out[0].shape), start };
        cuda_each(shape_elements(&c->in[i].shape), f);
        start += f.width;
    }
}

CUDA_KERNELS(join_cuda, { "join_cuda_copy", cuda_accepts, NULL, run });
