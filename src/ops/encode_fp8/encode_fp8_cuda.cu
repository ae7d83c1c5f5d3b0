/* Twin of encode_fp8_cpu.c: a warp to a block. */
#include "ops/cuda_codes.h"

extern "C" {
#include "ops/encode_fp8/encode_fp8.h"
}

struct encode_fp8_block {
    cuda_span x;
    uint8_t *codes, *scales;
    int64_t width, in_row; /* blocks */
    fp8_form form;
    __device__ __forceinline__ void operator()(int64_t k) const {
        cuda_cell at = cuda_split(k, in_row);
        int64_t begin = at.column * FP8_TILE, first = at.row * width + begin;
        int64_t n = width - begin < FP8_TILE ? width - begin : (int64_t)FP8_TILE;
        uint8_t scale = fp8_scale(form, cuda_codes_largest(x, first, n));
        float inverse = fp8_inverse(scale);
        for (int64_t i = first + cuda_lane(); i < first + n; i += GPU_WARP)
            codes[i] = fp8_encode(form, x.get(i) * inverse);
        if (cuda_lane() == 0) scales[k] = scale;
    }
};

static void run(const op_call *c) {
    const shape *x = &c->in[0].shape;
    fp8_form form = (fp8_form)((const encode_fp8_attributes *)c->attributes)->form;
    encode_fp8_block f = { cuda_in(c, 0), (uint8_t *)c->out[0].data, (uint8_t *)c->out[1].data,
                           shape_last(x), fp8_blocks(shape_last(x)), form };
    cuda_rows(shape_rows(x) * f.in_row, f);
}

CUDA_KERNELS(encode_fp8_cuda, { "encode_fp8_cuda_blocks", cuda_accepts, NULL, run });
