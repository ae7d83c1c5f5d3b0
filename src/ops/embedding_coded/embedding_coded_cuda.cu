/* The twin of embedding_coded_cpu.c. A number for each thread: bound by the bytes of y and of the rows. */
#include "ops/cuda.h"

extern "C" {
#include "ops/embedding_coded/embedding_coded.h"
}
#include "ops/embedding/embedding_math.h"

struct embedding_coded_one {
    const int32_t *ids;
    const int8_t *codes;
    const float *scales;
    cuda_span y;
    int64_t rows, width;
    __device__ __forceinline__ void operator()(int64_t i) const {
        cuda_cell at = cuda_split(i, width);
        int64_t row = embedding_row(ids[at.row], rows);
        y.set(i, scales[row] * (float)codes[row * width + at.column]);
    }
};

static void run(const op_call *c) {
    const op_arg *codes = op_in(c, 1);
    embedding_coded_one f = { (const int32_t *)c->in[0].data,
                              (const int8_t *)codes->data,
                              (const float *)c->in[2].data,
                              cuda_out(c, 0),
                              codes->shape.dim[0],
                              codes->shape.dim[1] };
    cuda_each(shape_elements(&c->out[0].shape), f);
}

CUDA_KERNELS(embedding_coded_cuda, { "embedding_coded_cuda_map", cuda_accepts, NULL, run });
