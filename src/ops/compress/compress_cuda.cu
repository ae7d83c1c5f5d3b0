/* Twins of compress_cpu.c: a warp to a block. */
#include "ops/cuda_codes.h"

extern "C" {
#include "ops/compress/compress.h"
}

struct compress_block_of_row {
    cuda_span x;
    int8_t *codes;
    float *scales;
    int64_t width, in_row; /* blocks */
    __device__ __forceinline__ void operator()(int64_t k) const {
        cuda_cell at = cuda_split(k, in_row);
        int64_t begin = at.column * COMPRESS_BLOCK, first = at.row * width + begin;
        int64_t n = width - begin < COMPRESS_BLOCK ? width - begin : (int64_t)COMPRESS_BLOCK;
        float scale = codes_scale(cuda_codes_largest(x, first, n)), inverse = codes_inverse(scale);
        for (int64_t i = first + cuda_lane(); i < first + n; i += GPU_WARP)
            codes[i] = (int8_t)codes_nearest(x.get(i), inverse);
        if (cuda_lane() == 0) scales[k] = scale;
    }
};

static int64_t blocks_in_row(const shape *s) { return (shape_last(s) + COMPRESS_BLOCK - 1) / COMPRESS_BLOCK; }

static void run(const op_call *c) {
    const shape *x = &c->in[0].shape;
    compress_block_of_row f = { cuda_in(c, 0), (int8_t *)c->out[0].data, (float *)c->out[1].data,
                                shape_last(x), blocks_in_row(x) };
    cuda_rows(shape_rows(x) * f.in_row, f);
}

struct compress_widen_one {
    const int8_t *codes;
    const float *scales;
    cuda_span y;
    int64_t width, in_row;
    __device__ __forceinline__ void operator()(int64_t i) const {
        cuda_cell at = cuda_split(i, width);
        y.set(i, scales[at.row * in_row + at.column / COMPRESS_BLOCK] * (float)codes[i]);
    }
};

static void run_back(const op_call *c) {
    const shape *y = &c->out[0].shape;
    compress_widen_one f = { (const int8_t *)c->in[0].data, (const float *)c->in[1].data, cuda_out(c, 0),
                             shape_last(y), blocks_in_row(y) };
    cuda_each(shape_elements(y), f);
}

CUDA_KERNELS(compress_cuda, { "compress_cuda_blocks", cuda_accepts, NULL, run });
CUDA_KERNELS(decompress_cuda, { "decompress_cuda_map", cuda_accepts, NULL, run_back });
