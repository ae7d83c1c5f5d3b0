/* What is computed from now on begins when the movement is over. */
#include "ops/cuda.h"

extern "C" {
#include "comm/comm.h"
#include "ops/arrive/arrive.h"
}

struct arrive_one {
    cuda_plain x, y;
    __device__ __forceinline__ void operator()(int64_t i) const { y.set(i, x.get(i)); }
};

/* It arrived where it stays; only tests call it elsewhere. */
static void run(const op_call *c) {
    comm_wait_apart(c->in[0].data);
    if (c->out[0].data == c->in[0].data) return;
    arrive_one f = { cuda_words_of(&c->in[0]), cuda_words_of(&c->out[0]) };
    cuda_each(shape_elements(&c->in[0].shape) * cuda_words_each(&c->in[0]), f);
}

CUDA_KERNELS(arrive_cuda, { "arrive_cuda_wait", NULL, NULL, run });
