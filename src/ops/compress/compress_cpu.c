#include <math.h>

#include "base/half.h"
#include "ops/codes.h"
#include "ops/compress/compress.h"
#include "ops/fast.h"
#include "ops/reference.h"

/* ---- plainly ---- */

/* The blocks of a tensor, one after the other. */
typedef struct {
    int64_t first, count; /* elements */
} block;

static block block_at(const shape *s, int64_t index) {
    int64_t width = shape_last(s), in_row = (width + COMPRESS_BLOCK - 1) / COMPRESS_BLOCK;
    int64_t at = index % in_row * COMPRESS_BLOCK, left = width - at;
    return (block){ index / in_row * width + at, left < COMPRESS_BLOCK ? left : COMPRESS_BLOCK };
}

static void compress_reference(const op_call *c) {
    const op_arg *x = op_in(c, 0), *codes = &c->out[0], *scales = &c->out[1];
    for (int64_t k = 0, blocks = compress_blocks(&x->shape); k < blocks; k++) {
        block b = block_at(&x->shape, k);
        double largest = 0;
        for (int64_t i = 0; i < b.count; i++) largest = fmax(largest, fabs(reference_get(x, b.first + i)));
        double scale = (double)codes_scale(codes_size((float)largest));
        reference_set(scales, k, scale);
        for (int64_t i = 0; i < b.count; i++)
            reference_set(codes, b.first + i,
                          scale > 0 ? nearbyint(reference_get(x, b.first + i) / scale) : 0);
    }
}

static void decompress_reference(const op_call *c) {
    const op_arg *codes = op_in(c, 0), *scales = op_in(c, 1);
    for (int64_t k = 0, blocks = compress_blocks(&codes->shape); k < blocks; k++) {
        block b = block_at(&codes->shape, k);
        double scale = reference_get(scales, k);
        for (int64_t i = 0; i < b.count; i++)
            reference_set(&c->out[0], b.first + i, scale * reference_get(codes, b.first + i));
    }
}

/* ---- a block at a time ---- */

VECTOR_CLONES static void decode(const int8_t *codes, float scale, int64_t n, float *y) {
    for (int64_t i = 0; i < n; i++) y[i] = scale * (float)codes[i];
}

/* Blocks per piece of work: enough to be worth a thread's while, few enough for all of them. */
enum { BLOCKS = 32 };

static void compress_piece(const op_call *c, int64_t first, int64_t last) {
    const op_arg *x = &c->in[0];
    float own[COMPRESS_BLOCK];
    for (int64_t k = first; k < last; k++) {
        block b = block_at(&x->shape, k);
        const float *from = own;
        if (dtype_is_half(x->dtype))
            half_widen(x->dtype, (const uint16_t *)x->data + b.first, b.count, own);
        else
            from = (const float *)x->data + b.first;
        float scale = codes_scale(codes_largest(from, b.count));
        ((float *)c->out[1].data)[k] = scale;
        codes_encode(from, codes_inverse(scale), NULL, b.count, (int8_t *)c->out[0].data + b.first);
    }
}

static void compress_fast(const op_call *c) {
    fast_for(c, shape_elements(&c->out[1].shape), BLOCKS, compress_piece);
}

static void decompress_piece(const op_call *c, int64_t first, int64_t last) {
    const op_arg *codes = &c->in[0], *y = &c->out[0];
    float own[COMPRESS_BLOCK];
    for (int64_t k = first; k < last; k++) {
        block b = block_at(&codes->shape, k);
        bool half = dtype_is_half(y->dtype);
        decode((const int8_t *)codes->data + b.first, ((const float *)c->in[1].data)[k], b.count,
               half ? own : (float *)y->data + b.first);
        if (half) half_narrow(y->dtype, own, b.count, (uint16_t *)y->data + b.first);
    }
}

static void decompress_fast(const op_call *c) {
    fast_for(c, shape_elements(&c->in[1].shape), BLOCKS, decompress_piece);
}

static bool accepts(const op_call *c) {
    return dtype_wide(c->in[0].dtype) == DTYPE_F32 || dtype_wide(c->out[0].dtype) == DTYPE_F32;
}

const op_kernel compress_cpu[] = { { "compress_cpu_blocks", accepts, NULL, compress_fast },
                                   { "compress_reference", NULL, NULL, compress_reference },
                                   { 0 } };
const op_kernel decompress_cpu[] = { { "decompress_cpu_blocks", accepts, NULL, decompress_fast },
                                     { "decompress_reference", NULL, NULL, decompress_reference },
                                     { 0 } };
