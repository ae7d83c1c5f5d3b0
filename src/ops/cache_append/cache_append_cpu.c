#include <string.h>

#include "ops/cache_append/cache_append.h"
#include "ops/reference.h"

static int64_t offset_of(const op_call *c) { return *(const int32_t *)op_in(c, 2)->data; }

static void cache_append_reference(const op_call *c) {
    const cache_append_attributes *a = c->attributes;
    const op_arg *cache = op_in(c, 0), *x = op_in(c, 1), *out = &c->out[0];
    int64_t S = cache->shape.dim[1], T = x->shape.dim[1], W = x->shape.dim[2], offset = offset_of(c);
    for (int64_t i = 0; i < shape_elements(&out->shape); i++) reference_set(out, i, reference_get(cache, i));
    for (int64_t b = 0; b < x->shape.dim[0]; b++)
        for (int64_t t = 0; t < T; t++) {
            int64_t s = offset + t;
            for (int64_t i = 0; i < a->width && s >= 0 && s < S; i++)
                reference_set(out, (b * S + s) * a->width + i,
                              reference_get(x, (b * T + t) * W + a->column + i));
        }
}

/* Bytes are moved as they are, so this serves every type. Rows are few and it is memory that is waited for.
 */
static void cache_append_copy(const op_call *c) {
    const cache_append_attributes *a = c->attributes;
    const op_arg *cache = op_in(c, 0), *x = op_in(c, 1), *out = &c->out[0];
    size_t item = dtype_bytes(x->dtype), row = (size_t)a->width * item;
    int64_t S = cache->shape.dim[1], T = x->shape.dim[1], W = x->shape.dim[2], offset = offset_of(c);
    int64_t first = offset < 0 ? -offset : 0, last = S - offset < T ? S - offset : T;
    if (out->data != cache->data) memcpy(out->data, cache->data, (size_t)shape_elements(&out->shape) * item);
    for (int64_t b = 0; b < x->shape.dim[0]; b++)
        for (int64_t t = first; t < last; t++)
            memcpy((char *)out->data + (size_t)(b * S + offset + t) * row,
                   (const char *)x->data + ((size_t)((b * T + t) * W + a->column)) * item, row);
}

const op_kernel cache_append_cpu[] = { { "cache_append_cpu_copy", NULL, NULL, cache_append_copy },
                                       { "cache_append_reference", NULL, NULL, cache_append_reference },
                                       { 0 } };
