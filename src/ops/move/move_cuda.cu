/* The twin of move_cpu.c, within one memory. */
#include "ops/cuda.h"

extern "C" {
#include "ops/move/move.h"
}

struct move_one {
    cuda_plain x, y;
    __device__ __forceinline__ void operator()(int64_t i) const { y.set(i, x.get(i)); }
};

static void run(const op_call *c) {
    move_one f = { cuda_plain_of(op_in(c, MOVE_X)), cuda_plain_of(&c->out[0]) };
    cuda_each(shape_elements(&c->out[0].shape), f);
}

CUDA_KERNELS(move_cuda, { "move_cuda_copy", cuda_accepts, NULL, run });
