/* The twin of increment.c's kernel. */
#include "ops/cuda.h"

extern "C" {
#include "ops/increment/increment.h"
}

struct increment_once {
    const int32_t *t, *ok; /* ok may be NULL */
    int32_t *y;
    __device__ __forceinline__ void operator()() const { *y = *t + (!ok || *ok != 0 ? 1 : 0); }
};

static void run(const op_call *c) {
    increment_once f = { (const int32_t *)c->in[0].data, (const int32_t *)op_in(c, 1)->data,
                         (int32_t *)c->out[0].data };
    cuda_once(f);
}

CUDA_KERNELS(increment_cuda, { "increment_cuda_once", NULL, NULL, run });
