/* The twin of transpose_cpu.c. */
#include "ops/cuda.h"

extern "C" {
#include "ops/transpose/transpose.h"
#include "ops/transpose/transpose_math.h"
}

struct transpose_one {
    cuda_plain x, y;
    transpose_sizes s;
    __device__ __forceinline__ void operator()(int64_t i) const {
        cuda_cell run = cuda_split(i, s.inner), row = cuda_split(run.row, s.first);
        cuda_cell between = cuda_split(row.row, s.between), second = cuda_split(between.row, s.second);
        int64_t place = (second.row * s.first + row.column) * s.between + between.column;
        y.set(i, x.get((place * s.second + second.column) * s.inner + run.column));
    }
};

static void run(const op_call *c) {
    transpose_one f = { cuda_plain_of(&c->in[0]), cuda_plain_of(&c->out[0]),
                        transpose_sizes_of(&c->in[0].shape, (const transpose_attributes *)c->attributes) };
    cuda_each(shape_elements(&c->out[0].shape), f);
}

CUDA_KERNELS(transpose_cuda, { "transpose_cuda_copy", cuda_accepts, NULL, run });
