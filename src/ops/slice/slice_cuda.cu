/* The twin of slice_cpu.c. */
#include "ops/cuda.h"

extern "C" {
#include "ops/slice/slice.h"
}

struct slice_slope {
    cuda_span dy, accumulator, dx; /* accumulator.data may be NULL */
    int64_t start, count;          /* of dy in dx, elements */
    __device__ __forceinline__ void operator()(int64_t i) const {
        float sum = accumulator.data ? accumulator.get(i) : 0;
        if (i >= start && i - start < count) sum += dy.get(i - start);
        dx.set(i, sum);
    }
};

static void run_backward(const op_call *c) {
    const slice_backward_attributes *a = (const slice_backward_attributes *)c->attributes;
    int64_t all = shape_elements(&c->out[0].shape);
    slice_slope f = { cuda_in(c, 0), cuda_in(c, 1), cuda_out(c, 0), all / a->rows * a->start,
                      shape_elements(&c->in[0].shape) };
    cuda_each(all, f);
}

CUDA_KERNELS(slice_backward_cuda, { "slice_backward_cuda_map", cuda_accepts, NULL, run_backward });
