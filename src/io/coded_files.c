#include "io/coded_files.h"

#include "base/half.h"
#include "base/memory.h"
#include "ops/matmul_coded/matmul_coded.h"
#include "ops/nf4.h"

bool coded_files_has(const model_weight *w) { return w->type == DTYPE_I8 || w->type == DTYPE_U8; }

shape coded_files_shape(const model_weight *w) { return matmul_coded_shape(w->type, &w->shape); }

static status read_rows(const safetensors *s, const safetensors_entry *e, const model_weight *w,
                        float *scales, float *row, uint16_t *narrow) {
    shape matrix = coded_files_shape(w);
    int64_t columns = shape_last(&matrix);
    dtype from = safetensors_dtype(e->dtype);
    uint64_t bytes = (uint64_t)columns * dtype_bytes(from);
    for (int64_t r = 0; r < shape_rows(&matrix); r++) {
        TRY(safetensors_read_part(s, e, (uint64_t)r * bytes, from == DTYPE_F32 ? (void *)row : (void *)narrow,
                                  bytes));
        if (from != DTYPE_F32) half_widen(from, narrow, columns, row);
        nf4_encode_row(row, columns, (uint8_t *)w->data + r * columns / 2, scales + r * nf4_blocks(columns));
    }
    return STATUS_OK;
}

status coded_files_read(const safetensors *s, const safetensors_entry *e, const model_weight *w,
                        float *scales) {
    shape matrix = coded_files_shape(w);
    float *row = memory_new((size_t)shape_last(&matrix), sizeof *row);
    uint16_t *narrow = memory_new((size_t)shape_last(&matrix), sizeof *narrow);
    status result = row && narrow ? read_rows(s, e, w, scales, row, narrow)
                                  : status_set(STATUS_FAILED, "no memory to read '%s'", w->name);
    memory_free(row);
    memory_free(narrow);
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
