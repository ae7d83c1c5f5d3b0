/* The twin of embedding_coded_cpu.c. A number for each thread: bound by the bytes of y and of the rows. */
#include "ops/cuda.h"

extern "C" {
#include "ops/codes4.h"
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

struct embedding_coded_narrow {
    const int32_t *ids;
    const uint8_t *codes;
    const uint16_t *scales;
    cuda_span y;
    int64_t rows, width;
    __device__ __forceinline__ void operator()(int64_t i) const {
        cuda_cell at = cuda_split(i, width);
        codes4_place p =
            codes4_at(rows, width / CODES4_GROUP, embedding_row(ids[at.row], rows), at.column / CODES4_GROUP);
        y.set(i, half_from_f16(scales[p.scale]) *
                     (float)codes4_code(codes, &p, (int)(at.column % CODES4_GROUP)));
    }
};

static void run_narrow(const op_call *c) {
    embedding_coded_narrow f = { (const int32_t *)c->in[0].data,  (const uint8_t *)c->in[1].data,
                                 (const uint16_t *)c->in[2].data, cuda_out(c, 0),
                                 c->in[1].shape.dim[0],           shape_last(&c->out[0].shape) };
    cuda_each(shape_elements(&c->out[0].shape), f);
}

static void run(const op_call *c) {
    const op_arg *codes = op_in(c, 1);
    if (codes->dtype == DTYPE_U8) {
        run_narrow(c);
        return;
    }
    embedding_coded_one f = { (const int32_t *)c->in[0].data,
                              (const int8_t *)codes->data,
                              (const float *)c->in[2].data,
                              cuda_out(c, 0),
                              codes->shape.dim[0],
                              codes->shape.dim[1] };
    cuda_each(shape_elements(&c->out[0].shape), f);
}

CUDA_KERNELS(embedding_coded_cuda, { "embedding_coded_cuda_map", cuda_accepts, NULL, run });
