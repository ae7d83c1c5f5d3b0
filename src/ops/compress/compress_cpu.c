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

/* ---- a row at a time ---- */

VECTOR_INLINE void compress_block(const float *restrict x, int64_t n, int8_t *restrict codes, float *scale) {
    int32_t largest = 0;
    for (int64_t i = 0; i < n; i++) {
        int32_t size = codes_size(x[i]);
        largest = size > largest ? size : largest;
    }
    float inverse = codes_inverse(*scale = codes_scale(largest));
    for (int64_t i = 0; i < n; i++) codes[i] = (int8_t)codes_nearest(x[i], inverse);
}

VECTOR_CLONES static void compress_row(const float *x, int64_t n, int8_t *codes, float *scales) {
    for (; n >= COMPRESS_BLOCK; n -= COMPRESS_BLOCK, x += COMPRESS_BLOCK, codes += COMPRESS_BLOCK)
        compress_block(x, COMPRESS_BLOCK, codes, scales++);
    if (n) compress_block(x, n, codes, scales);
}

VECTOR_INLINE void decode(const int8_t *restrict codes, float scale, int64_t n, float *restrict y) {
    for (int64_t i = 0; i < n; i++) y[i] = scale * (float)codes[i];
}

VECTOR_CLONES static void decompress_row(const int8_t *codes, const float *scales, int64_t n, float *y) {
    for (; n >= COMPRESS_BLOCK; n -= COMPRESS_BLOCK, codes += COMPRESS_BLOCK, y += COMPRESS_BLOCK)
        decode(codes, *scales++, COMPRESS_BLOCK, y);
    if (n) decode(codes, *scales, n, y);
}

/* Of 16 bits so many blocks are wide at a time. */
enum { WIDE = 8 * COMPRESS_BLOCK };

static void compress_piece(const op_call *c, int64_t first, int64_t last) {
    const op_arg *x = &c->in[0];
    int64_t width = shape_last(&x->shape), in_row = (width + COMPRESS_BLOCK - 1) / COMPRESS_BLOCK;
    bool half = dtype_is_half(x->dtype);
    float own[WIDE];
    for (int64_t row = first; row < last; row++) {
        int8_t *codes = (int8_t *)c->out[0].data + row * width;
        float *scales = (float *)c->out[1].data + row * in_row;
        if (!half) compress_row((const float *)x->data + row * width, width, codes, scales);
        for (int64_t at = 0; half && at < width; at += WIDE) {
            int64_t n = width - at < WIDE ? width - at : WIDE;
            half_widen(x->dtype, (const uint16_t *)x->data + row * width + at, n, own);
            compress_row(own, n, codes + at, scales + at / COMPRESS_BLOCK);
        }
    }
}

static void decompress_piece(const op_call *c, int64_t first, int64_t last) {
    const op_arg *y = &c->out[0];
    int64_t width = shape_last(&y->shape), in_row = (width + COMPRESS_BLOCK - 1) / COMPRESS_BLOCK;
    bool half = dtype_is_half(y->dtype);
    float own[WIDE];
    for (int64_t row = first; row < last; row++) {
        const int8_t *codes = (const int8_t *)c->in[0].data + row * width;
        const float *scales = (const float *)c->in[1].data + row * in_row;
        if (!half) decompress_row(codes, scales, width, (float *)y->data + row * width);
        for (int64_t at = 0; half && at < width; at += WIDE) {
            int64_t n = width - at < WIDE ? width - at : WIDE;
            decompress_row(codes + at, scales + at / COMPRESS_BLOCK, n, own);
            half_narrow(y->dtype, own, n, (uint16_t *)y->data + row * width + at);
        }
    }
}

static void compress_fast(const op_call *c) {
    const shape *s = &c->in[0].shape;
    fast_for(c, shape_rows(s), fast_rows(shape_last(s)), compress_piece);
}

static void decompress_fast(const op_call *c) {
    const shape *s = &c->in[0].shape;
    fast_for(c, shape_rows(s), fast_rows(shape_last(s)), decompress_piece);
}

static bool accepts(const op_call *c) {
    return dtype_wide(c->in[0].dtype) == DTYPE_F32 || dtype_wide(c->out[0].dtype) == DTYPE_F32;
}

const op_kernel compress_cpu[] = { { "compress_cpu_rows", accepts, NULL, compress_fast },
                                   { "compress_reference", NULL, NULL, compress_reference },
                                   { 0 } };
const op_kernel decompress_cpu[] = { { "decompress_cpu_rows", accepts, NULL, decompress_fast },
                                     { "decompress_reference", NULL, NULL, decompress_reference },
                                     { 0 } };
