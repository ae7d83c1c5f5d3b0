#include <string.h>

#include "ops/fast.h"
#include "ops/join/join.h"
#include "ops/reference.h"

static void join_reference(const op_call *c) {
    int64_t rows = shape_rows(&c->out[0].shape), to = shape_last(&c->out[0].shape), start = 0;
    for (uint32_t i = 0; i < c->in_count; i++) {
        int64_t width = shape_last(&c->in[i].shape);
        for (int64_t k = 0; k < rows * width; k++)
            reference_set(&c->out[0], k / width * to + start + k % width, reference_get(&c->in[i], k));
        start += width;
    }
}

/* Bytes are moved as they are, so this serves every type. */
static void copy_rows(const op_call *c, int64_t first, int64_t last) {
    size_t item = dtype_bytes(c->out[0].dtype);
    char *y = (char *)c->out[0].data + (size_t)(first * shape_last(&c->out[0].shape)) * item;
    for (int64_t r = first; r < last; r++)
        for (uint32_t i = 0; i < c->in_count; i++) {
            size_t bytes = (size_t)shape_last(&c->in[i].shape) * item;
            memcpy(y, (const char *)c->in[i].data + (size_t)r * bytes, bytes);
            y += bytes;
        }
}

static void join_copy(const op_call *c) {
    fast_for(c, shape_rows(&c->out[0].shape), fast_rows(shape_last(&c->out[0].shape)), copy_rows);
}

const op_kernel join_cpu[] = { { "join_cpu_copy", NULL, NULL, join_copy },
                               { "join_reference", NULL, NULL, join_reference },
                               { 0 } };
