/* The twin of dequantize_cpu.c. */
#include "ops/cuda.h"

extern "C" {
#include "ops/dequantize/dequantize.h"
}

struct dequantize_one {
    const int8_t *codes;
    const float *scales;
    float *y;
    int64_t columns;
    bool by_columns;
    __device__ __forceinline__ void operator()(int64_t i) const {
        cuda_cell at = cuda_split(i, columns);
        y[i] = scales[by_columns ? at.column : at.row] * (float)codes[i];
    }
};

static void run(const op_call *c) {
    const shape *y = &c->out[0].shape;
    dequantize_one f = { (const int8_t *)c->in[0].data, (const float *)c->in[1].data, (float *)c->out[0].data,
                         shape_last(y), ((const dequantize_attributes *)c->attributes)->columns != 0 };
    cuda_each(shape_elements(y), f);
}

CUDA_KERNELS(dequantize_cuda, { "dequantize_cuda_map", cuda_accepts, NULL, run });
