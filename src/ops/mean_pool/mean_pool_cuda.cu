/* Twins of mean_pool_cpu.c's fast kernels. */
#include "ops/cuda.h"

extern "C" {
#include "ops/mean_pool/mean_pool.h"
}
#include "ops/mean_pool/mean_pool_math.h"

struct mean_pool_images {
    cuda_span x, y; /* or their gradients */
    mean_pool_attributes a;
    int64_t height, width, channels;   /* of x */
    int64_t height_after, width_after; /* of y */
};

struct mean_pool_one : mean_pool_images {
    __device__ __forceinline__ void operator()(int64_t i) const {
        cuda_cell at = cuda_split(i, channels), row = cuda_split(at.row, width_after);
        cuda_cell sample = cuda_split(row.row, height_after);
        mean_pool_span rows = mean_pool_window(a, sample.column, height);
        mean_pool_span columns = mean_pool_window(a, row.column, width);
        float sum = 0;
        for (int64_t r = rows.begin; r < rows.end; r++)
            for (int64_t s = columns.begin; s < columns.end; s++)
                sum += x.get(((sample.row * height + r) * width + s) * channels + at.column);
        y.set(i, sum / (float)(mean_pool_span_size(rows) * mean_pool_span_size(columns)));
    }
};

struct mean_pool_slope : mean_pool_images {
    __device__ __forceinline__ void operator()(int64_t p) const {
        cuda_cell at = cuda_split(p, channels), row = cuda_split(at.row, width);
        cuda_cell sample = cuda_split(row.row, height);
        mean_pool_span is = mean_pool_windows(a, sample.column, height_after);
        mean_pool_span js = mean_pool_windows(a, row.column, width_after);
        float sum = 0;
        for (int64_t i = is.begin; i < is.end; i++)
            for (int64_t j = js.begin; j < js.end; j++) {
                float dy = y.get(((sample.row * height_after + i) * width_after + j) * channels + at.column);
                sum += dy / (float)(mean_pool_span_size(mean_pool_window(a, i, height)) *
                                    mean_pool_span_size(mean_pool_window(a, j, width)));
            }
        x.set(p, sum);
    }
};

static mean_pool_images images_of(const op_arg *x, const op_arg *y, mean_pool_attributes a) {
    return { cuda_span_of(x), cuda_span_of(y), a, x->shape.dim[1], x->shape.dim[2], x->shape.dim[3],
             y->shape.dim[1], y->shape.dim[2] };
}

static void run(const op_call *c) {
    mean_pool_one f;
    (mean_pool_images &)f = images_of(&c->in[0], &c->out[0], *(const mean_pool_attributes *)c->attributes);
    cuda_each_long(shape_elements(&c->out[0].shape), f);
}

static void run_backward(const op_call *c) {
    mean_pool_slope f;
    (mean_pool_images &)f =
        images_of(&c->out[0], &c->in[0], ((const mean_pool_backward_attributes *)c->attributes)->of);
    cuda_each_long(shape_elements(&c->out[0].shape), f);
}

CUDA_KERNELS(mean_pool_cuda, { "mean_pool_cuda_map", cuda_accepts, NULL, run });
CUDA_KERNELS(mean_pool_backward_cuda, { "mean_pool_backward_cuda_map", cuda_accepts, NULL, run_backward });
