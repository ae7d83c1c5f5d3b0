/* Twin of sum_rows_cpu.c's fast kernel. */
#include "ops/cuda_tiles.h"

extern "C" {
#include "ops/sum_rows/sum_rows.h"
}

struct sum_rows_columns {
    cuda_span x;
    int64_t width;
};
GPU_INLINE void cuda_tiles_add(const sum_rows_columns &f, int64_t first, int64_t last, int64_t column,
                               float (&sum)[1]) {
    enum { SOME = 16 };
    for (int64_t row = first; row < last; row += SOME) {
        float x[SOME];
        f.x.get_some(row * f.width + column, f.width, last * f.width, x);
#pragma unroll
        for (int k = 0; k < SOME; k++)
            if (row + k < last) sum[0] += x[k];
    }
}

static uint64_t scratch(const op_call *c, int) {
    const shape *x = &c->in[0].shape;
    return cuda_tiles_scratch(shape_rows(x), shape_last(x), 1);
}

static void run(const op_call *c) {
    const shape *x = &c->in[0].shape;
    sum_rows_columns f = { cuda_in(c, 0), shape_last(x) };
    cuda_tiles_sum to[] = { { (const float *)op_in(c, 1)->data, (float *)c->out[0].data } };
    cuda_tiles(c, f, shape_rows(x), shape_last(x), to);
}

CUDA_KERNELS(sum_rows_cuda, { "sum_rows_cuda_tiles", cuda_accepts, scratch, run });
