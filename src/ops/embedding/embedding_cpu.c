#include <string.h>

#include "ops/embedding/embedding.h"
#include "ops/embedding/embedding_math.h"
#include "ops/fast.h"
#include "ops/reference.h"
#include "ops/widened.h"

static void embedding_reference(const op_call *c) {
    const op_arg *ids = op_in(c, 0), *table = op_in(c, 1);
    int64_t rows = table->shape.dim[0], width = table->shape.dim[1];
    for (int64_t i = 0, n = shape_elements(&ids->shape); i < n; i++)
        for (int64_t j = 0; j < width; j++)
            reference_set(
                &c->out[0], i * width + j,
                reference_get(table, embedding_row(((const int32_t *)ids->data)[i], rows) * width + j));
}

static void embedding_piece(const op_call *c, int64_t first, int64_t last) {
    const int32_t *ids = c->in[0].data;
    const char *table = c->in[1].data; /* (V,C) */
    char *y = c->out[0].data;
    int64_t rows = c->in[1].shape.dim[0], bytes = c->in[1].shape.dim[1] * dtype_bytes(c->in[1].dtype);
    for (int64_t i = first; i < last; i++)
        memcpy(y + i * bytes, table + embedding_row(ids[i], rows) * bytes, (size_t)bytes);
}

static void embedding_fast(const op_call *c) {
    fast_for(c, shape_elements(&c->in[0].shape), fast_rows(c->in[1].shape.dim[1]), embedding_piece);
}

const op_kernel embedding_cpu[] = { { "embedding_cpu_copy", NULL, NULL, embedding_fast },
                                    { "embedding_reference", NULL, NULL, embedding_reference },
                                    { 0 } };

/* ---- the gradient ---- */

static void embedding_backward_reference(const op_call *c) {
    const op_arg *ids = op_in(c, 0), *dy = op_in(c, 1), *accumulator = op_in(c, 2), *dtable = &c->out[0];
    int64_t rows = dtable->shape.dim[0], width = dtable->shape.dim[1];
    for (int64_t i = 0; i < rows * width; i++)
        reference_set(dtable, i, accumulator->data ? reference_get(accumulator, i) : 0);
    for (int64_t i = 0, n = shape_elements(&ids->shape); i < n; i++) {
        int32_t id = ((const int32_t *)ids->data)[i];
        if (id < 0 || id >= rows) continue;
        for (int64_t j = 0; j < width; j++)
            reference_set(dtable, id * width + j,
                          reference_get(dtable, id * width + j) + reference_get(dy, i * width + j));
    }
}

static void begin_piece(const op_call *c, int64_t first, int64_t last) {
    const char *accumulator = op_in(c, 2)->data;
    char *dtable = c->out[0].data;
    int64_t item = dtype_bytes(c->out[0].dtype), from = first * item;
    if (accumulator)
        memcpy(dtable + from, accumulator + from, (size_t)((last - first) * item));
    else
        memset(dtable + from, 0, (size_t)((last - first) * item));
}

/* Threads share the columns: each goes through all rows in their order, so every element is summed in the
 * same order by whoever computes it. */
enum { COLUMNS = 128 };

VECTOR_INLINE void add_columns(const op_call *c, int64_t first, int64_t last, const dtype from,
                               const dtype to) {
    const int32_t *ids = c->in[0].data;
    int64_t n = shape_elements(&c->in[0].shape), rows = c->out[0].shape.dim[0],
            width = c->out[0].shape.dim[1];
    for (int64_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= rows) continue;
        const void *dy = fast_at(c->in[1].data, i * width, from);                /* (C) */
        void *dtable = (char *)c->out[0].data + ids[i] * width * fast_bytes(to); /* (C) */
#pragma GCC ivdep
        for (int64_t j = first; j < last; j++)
            fast_put(dtable, j, fast_get(dtable, j, to) + fast_get(dy, j, from), to);
    }
}

FAST_TYPED(columns_piece, add_columns, DTYPE_F32, DTYPE_F32)
FAST_TYPED(columns_bf16_piece, add_columns, DTYPE_BF16, DTYPE_BF16)
FAST_TYPED(columns_of_bf16_piece, add_columns, DTYPE_BF16, DTYPE_F32)

static void add_rows_by(const op_call *c, fast_body body) {
    if (op_in(c, 2)->data != c->out[0].data) fast_for_elements(c, begin_piece);
    fast_for(c, c->out[0].shape.dim[1], COLUMNS, body);
}

static void embedding_backward_fast(const op_call *c) { add_rows_by(c, columns_piece); }

/* Rows of bf16, and a table of bf16 or f32. */
static bool backward_accepts_bf16(const op_call *c) {
    dtype to = c->out[0].dtype;
    return c->in[1].dtype == DTYPE_BF16 && (to == DTYPE_BF16 || to == DTYPE_F32);
}

static void embedding_backward_bf16(const op_call *c) {
    add_rows_by(c, c->out[0].dtype == DTYPE_F32 ? columns_of_bf16_piece : columns_bf16_piece);
}

/* The same with 16 bits on either side: a row's piece is widened, added to, and narrowed again. */
static float *decode_by_row(const op_arg *x, int64_t first, int64_t n, float row[COLUMNS]) {
    if (!dtype_is_half(x->dtype)) return (float *)x->data + first;
    half_widen(x->dtype, (const uint16_t *)x->data + first, n, row);
    return row;
}

VECTOR_CLONES static void add_row(const float *x, int64_t n, float *y) {
    for (int64_t j = 0; j < n; j++) y[j] += x[j];
}

static void narrow_columns_piece(const op_call *c, int64_t first, int64_t last) {
    const int32_t *ids = c->in[0].data;
    const op_arg *dy = &c->in[1], *dtable = &c->out[0];
    int64_t rows = dtable->shape.dim[0], width = dtable->shape.dim[1], n = last - first;
    for (int64_t i = 0, count = shape_elements(&c->in[0].shape); i < count; i++) {
        float from[COLUMNS], sum[COLUMNS];
        if (ids[i] < 0 || ids[i] >= rows) continue;
        int64_t place = ids[i] * width + first;
        float *to = decode_by_row(dtable, place, n, sum);
        add_row(decode_by_row(dy, i * width + first, n, from), n, to);
        if (to == sum) half_narrow(dtable->dtype, sum, n, (uint16_t *)dtable->data + place);
    }
}

static void embedding_backward_narrow(const op_call *c) { add_rows_by(c, narrow_columns_piece); }

const op_kernel embedding_backward_cpu[] = {
    { "embedding_backward_cpu_columns", fast_accepts, NULL, embedding_backward_fast },
    { "embedding_backward_cpu_bf16", backward_accepts_bf16, NULL, embedding_backward_bf16 },
    { "embedding_backward_cpu_narrow", widened_accepts, NULL, embedding_backward_narrow },
    { "embedding_backward_reference", NULL, NULL, embedding_backward_reference },
    { 0 }
};
