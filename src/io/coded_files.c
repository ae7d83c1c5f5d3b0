#include "io/coded_files.h"

#include "base/half.h"
#include "base/memory.h"
#include "ops/matmul_coded/matmul_coded.h"
#include "ops/nf4.h"

bool coded_files_has(const model_weight *w) { return w->type == DTYPE_I8 || w->type == DTYPE_U8; }

shape coded_files_shape(const model_weight *w) { return matmul_coded_shape(w->type, &w->shape); }

/* One row on its way from numbers to codes. */
typedef struct {
    float *row, *scales;
    uint16_t *narrow; /* as the file has it */
    uint8_t *codes;
} row_buffers;

static status read_rows(const safetensors *s, const safetensors_entry *e, const model_weight *w,
                        const model_weight *scales, const row_buffers *b) {
    shape matrix = coded_files_shape(w);
    int64_t columns = shape_last(&matrix), blocks = nf4_blocks(columns);
    dtype from = safetensors_dtype(e->dtype);
    uint64_t bytes = (uint64_t)columns * dtype_bytes(from), coded = (uint64_t)columns / 2;
    for (int64_t r = 0; r < shape_rows(&matrix); r++) {
        void *into = from == DTYPE_F32 ? (void *)b->row : (void *)b->narrow;
        TRY(safetensors_read_part(s, e, (uint64_t)r * bytes, into, bytes));
        if (from != DTYPE_F32) half_widen(from, b->narrow, columns, b->row);
        nf4_encode_row(b->row, columns, b->codes, b->scales);
        TRY(weight_put_bytes(w, (uint64_t)r * coded, b->codes, coded));
        TRY(weight_put(scales, r * blocks, b->scales, blocks));
    }
    return STATUS_OK;
}

status coded_files_read(const safetensors *s, const safetensors_entry *e, const model_weight *w,
                        const model_weight *scales) {
    shape matrix = coded_files_shape(w);
    size_t columns = (size_t)shape_last(&matrix);
    row_buffers b = { .row = memory_new(columns, sizeof *b.row),
                      .scales = memory_new((size_t)nf4_blocks((int64_t)columns), sizeof *b.scales),
                      .narrow = memory_new(columns, sizeof *b.narrow),
                      .codes = memory_new(columns / 2, 1) };
    status result = b.row && b.scales && b.narrow && b.codes
                        ? read_rows(s, e, w, scales, &b)
                        : status_set(STATUS_FAILED, "no memory to read '%s'", w->name);
    memory_free(b.row);
    memory_free(b.scales);
    memory_free(b.narrow);
    memory_free(b.codes);
    return result;
}

void coded_files_widen(const model_weight *w, const float *scales, float *x) {
    shape matrix = coded_files_shape(w);
    int64_t columns = shape_last(&matrix);
    for (int64_t r = 0; r < shape_rows(&matrix); r++) {
        const int8_t *bytes = (const int8_t *)w->data + r * columns;
        float *row = x + r * columns;
        if (w->type == DTYPE_U8)
            nf4_decode((const uint8_t *)w->data + r * columns / 2, scales + r * nf4_blocks(columns), 0,
                       columns, row);
        else
            for (int64_t c = 0; c < columns; c++) row[c] = (float)bytes[c] * scales[w->by_rows ? r : c];
    }
}
