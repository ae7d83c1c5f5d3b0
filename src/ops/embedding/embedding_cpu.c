#include <string.h>

#include "ops/embedding/embedding.h"
#include "ops/fast.h"
#include "ops/reference.h"

/* Row of the table for an id; ids outside of it read row 0. */
static int64_t row_of(int32_t id, int64_t rows) { return id >= 0 && id < rows ? id : 0; }

static void embedding_reference(const op_call *c) {
    const op_arg *ids = op_in(c, 0), *table = op_in(c, 1);
    int64_t rows = table->shape.dim[0], width = table->shape.dim[1];
    for (int64_t i = 0, n = shape_elements(&ids->shape); i < n; i++)
        for (int64_t j = 0; j < width; j++)
            reference_set(&c->out[0], i * width + j,
                          reference_get(table, row_of(((const int32_t *)ids->data)[i], rows) * width + j));
}

static void embedding_piece(const op_call *c, int64_t first, int64_t last) {
    const int32_t *ids = c->in[0].data;
    const float *table = c->in[1].data; /* (V,C) */
    float *y = c->out[0].data;
    int64_t rows = c->in[1].shape.dim[0], width = c->in[1].shape.dim[1];
    for (int64_t i = first; i < last; i++)
        memcpy(y + i * width, table + row_of(ids[i], rows) * width, (size_t)width * sizeof *y);
}

static void embedding_fast(const op_call *c) {
    fast_for(c, shape_elements(&c->in[0].shape), fast_rows(c->in[1].shape.dim[1]), embedding_piece);
}

const op_kernel embedding_cpu[] = { { "embedding_cpu_copy", fast_accepts, NULL, embedding_fast },
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
    const float *accumulator = op_in(c, 2)->data;
    float *dtable = c->out[0].data;
    if (accumulator)
        memcpy(dtable + first, accumulator + first, (size_t)(last - first) * sizeof *dtable);
    else
        memset(dtable + first, 0, (size_t)(last - first) * sizeof *dtable);
}

/* Threads share the columns: each goes through all rows in their order, so every element is summed in the
 * same order by whoever computes it. */
enum { COLUMNS = 128 };

VECTOR_CLONES static void columns_piece(const op_call *c, int64_t first, int64_t last) {
    const int32_t *ids = c->in[0].data;
    const float *dy = c->in[1].data; /* (N,C) */
    float *dtable = c->out[0].data;  /* (V,C) */
    int64_t n = shape_elements(&c->in[0].shape), rows = c->out[0].shape.dim[0],
            width = c->out[0].shape.dim[1];
    for (int64_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= rows) continue;
        const float *from = dy + i * width;
        float *to = dtable + ids[i] * width;
        for (int64_t j = first; j < last; j++) to[j] += from[j];
    }
}

static void embedding_backward_fast(const op_call *c) {
    if (op_in(c, 2)->data != c->out[0].data) fast_for_elements(c, begin_piece);
    fast_for(c, c->out[0].shape.dim[1], COLUMNS, columns_piece);
}

const op_kernel embedding_backward_cpu[] = {
    { "embedding_backward_cpu_columns", fast_accepts, NULL, embedding_backward_fast },
    { "embedding_backward_reference", NULL, NULL, embedding_backward_reference },
    { 0 }
};
