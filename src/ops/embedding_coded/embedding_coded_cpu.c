#include "ops/codes4.h"
#include "ops/embedding/embedding_math.h"
#include "ops/embedding_coded/embedding_coded.h"
#include "ops/fast.h"
#include "ops/reference.h"

static double number(const op_call *c, int64_t row, int64_t column) {
    const op_arg *codes = op_in(c, 1), *scales = op_in(c, 2);
    int64_t width = shape_last(&c->out[0].shape);
    if (codes->dtype == DTYPE_I8)
        return reference_get(scales, row) * reference_get(codes, row * width + column);
    codes4_place at = codes4_at(codes->shape.dim[0], codes4_groups(width), row, column / CODES4_GROUP);
    return reference_get(scales, at.scale) * codes4_code(codes->data, &at, (int)(column % CODES4_GROUP));
}

static void embedding_coded_reference(const op_call *c) {
    const op_arg *ids = op_in(c, 0), *codes = op_in(c, 1);
    int64_t rows = codes->shape.dim[0], width = shape_last(&c->out[0].shape);
    for (int64_t i = 0, n = shape_elements(&ids->shape); i < n; i++) {
        int64_t row = embedding_row(((const int32_t *)ids->data)[i], rows);
        for (int64_t j = 0; j < width; j++) reference_set(&c->out[0], i * width + j, number(c, row, j));
    }
}

VECTOR_INLINE void decode_rows(const op_call *c, int64_t first, int64_t last, const dtype from,
                               const dtype to) {
    const int32_t *ids = c->in[0].data;
    const float *scales = c->in[2].data;
    int64_t rows = c->in[1].shape.dim[0], width = c->in[1].shape.dim[1];
    (void)from;
    for (int64_t i = first; i < last; i++) {
        int64_t row = embedding_row(ids[i], rows);
        const int8_t *codes = (const int8_t *)c->in[1].data + row * width;
        void *y = (char *)c->out[0].data + i * width * fast_bytes(to);
        float scale = scales[row];
#pragma GCC ivdep
        for (int64_t j = 0; j < width; j++) fast_put(y, j, scale * (float)codes[j], to);
    }
}

FAST_TYPED(rows_f32, decode_rows, DTYPE_I8, DTYPE_F32)
FAST_TYPED(rows_bf16, decode_rows, DTYPE_I8, DTYPE_BF16)

/* Of 4 bits, a group at a time. */
static void rows_of_4_bits(const op_call *c, int64_t first, int64_t last) {
    const int32_t *ids = c->in[0].data;
    int64_t rows = c->in[1].shape.dim[0], groups = codes4_groups(shape_last(&c->out[0].shape));
    for (int64_t i = first; i < last; i++)
        for (int64_t g = 0; g < groups; g++) {
            float x[CODES4_GROUP];
            codes4_place at = codes4_at(rows, groups, embedding_row(ids[i], rows), g);
            codes4_decode(c->in[1].data, c->in[2].data, &at, x);
            fast_floats_store(&c->out[0], (i * groups + g) * CODES4_GROUP, CODES4_GROUP, x);
        }
}

static bool accepts(const op_call *c) {
    return c->out[0].dtype == DTYPE_F32 || c->out[0].dtype == DTYPE_BF16;
}

static void embedding_coded_fast(const op_call *c) {
    bool narrow = c->in[1].dtype == DTYPE_U8;
    fast_for(c, shape_elements(&c->in[0].shape), fast_rows(shape_last(&c->out[0].shape)),
             narrow                         ? rows_of_4_bits
             : c->out[0].dtype == DTYPE_F32 ? rows_f32
                                            : rows_bf16);
}

const op_kernel embedding_coded_cpu[] = { { "embedding_coded_cpu_rows", accepts, NULL, embedding_coded_fast },
                                          { "embedding_coded_reference", NULL, NULL,
                                            embedding_coded_reference },
                                          { 0 } };
