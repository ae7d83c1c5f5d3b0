/* Twins of column_scale_cpu.c's fast kernels. */
#include "ops/cuda_tiles.h"

extern "C" {
#include "ops/column_scale/column_scale.h"
}

struct column_scale_one {
    cuda_span x, gamma, y;
    int64_t width;
    __device__ __forceinline__ void operator()(int64_t i) const {
        y.set(i, x.get(i) * gamma.get(cuda_split(i, width).column));
    }
};

static void run(const op_call *c) {
    const shape *x = &c->in[0].shape;
    column_scale_one f = { cuda_in(c, 0), cuda_in(c, 1), cuda_out(c, 0), shape_last(x) };
    cuda_each(shape_elements(x), f);
}

/* Of a row, what dgamma adds up. */
struct column_scale_sums {
    cuda_span x, dy;
    int64_t width;
    __device__ __forceinline__ void add(int64_t row, int64_t column, float sum[1]) const {
        sum[0] += x.get(row * width + column) * dy.get(row * width + column);
    }
};

static void run_backward(const op_call *c) {
    const shape *x = &c->in[0].shape;
    int64_t rows = shape_rows(x), width = shape_last(x);
    column_scale_sums sums = { cuda_in(c, 0), cuda_in(c, 2), width };
    cuda_tiles_sum to[] = { { (const float *)op_in(c, 3)->data, (float *)c->out[0].data } };
    cuda_tiles(c, sums, rows, width, to); /* before dx, which may live in x or dy */
    column_scale_one f = { cuda_in(c, 2), cuda_in(c, 1), cuda_out(c, 1), width };
    cuda_each(rows * width, f);
}

static uint64_t backward_scratch(const op_call *c, int) {
    return cuda_tiles_scratch(shape_rows(&c->in[0].shape), shape_last(&c->in[0].shape), 1);
}

CUDA_KERNELS(column_scale_cuda, { "column_scale_cuda_map", cuda_accepts, NULL, run });
CUDA_KERNELS(column_scale_backward_cuda,
             { "column_scale_backward_cuda_tiles", cuda_accepts, backward_scratch, run_backward });
