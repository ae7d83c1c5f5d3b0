/* Twins of columns_cpu.c. */
#include "ops/cuda.h"

extern "C" {
#include "ops/columns/columns.h"
}

struct columns_one {
    cuda_plain x, y;
    int64_t from, to; /* columns of x and y */
    columns_attributes a;
    __device__ __forceinline__ void operator()(int64_t i) const {
        cuda_cell at = cuda_split(i, to), run = cuda_split(at.column, a.width);
        y.set(i, x.get(at.row * from + a.start + run.row * a.stride + run.column));
    }
};

static void run(const op_call *c) {
    columns_one f = { cuda_plain_of(&c->in[0]), cuda_plain_of(&c->out[0]), shape_last(&c->in[0].shape),
                      shape_last(&c->out[0].shape), *(const columns_attributes *)c->attributes };
    cuda_each(shape_elements(&c->out[0].shape), f);
}

struct columns_slope {
    cuda_span dy, accumulator, dx; /* accumulator.data may be NULL */
    int64_t from, to;              /* columns of dy and dx */
    columns_attributes a;

    __device__ __forceinline__ void operator()(int64_t i) const {
        cuda_cell at = cuda_split(i, to), run = { 0, at.column - a.start };
        float sum = accumulator.data ? accumulator.get(i) : 0;
        if (run.column >= 0 && a.count > 1) run = cuda_split(run.column, a.stride);
        if (run.column >= 0 && run.column < a.width && run.row < a.count)
            sum += dy.get(at.row * from + run.row * a.width + run.column);
        dx.set(i, sum);
    }
};

static void run_backward(const op_call *c) {
    columns_slope f = { cuda_in(c, 0),
                        cuda_in(c, 1),
                        cuda_out(c, 0),
                        shape_last(&c->in[0].shape),
                        shape_last(&c->out[0].shape),
                        ((const columns_backward_attributes *)c->attributes)->of };
    cuda_each(shape_elements(&c->out[0].shape), f);
}

CUDA_KERNELS(columns_cuda, { "columns_cuda_copy", cuda_accepts, NULL, run });
CUDA_KERNELS(columns_backward_cuda, { "columns_backward_cuda_map", cuda_accepts, NULL, run_backward });
