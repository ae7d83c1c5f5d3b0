#include <string.h>

#include "ops/cache_write/cache_write_math.h"
#include "ops/codes.h"
#include "ops/fast.h"
#include "ops/reference.h"

/* One row of x and where it goes. */
typedef struct {
    const op_arg *x, *cache, *scales; /* scales->data NULL: none */
    const cache_write_attributes *a;
    int64_t block, at; /* block < 0: nowhere */
    int64_t first;     /* element of x */
} written_row;

static written_row row_of(const op_call *c, int64_t row) {
    static const op_arg none = { 0 };
    const op_arg *x = op_in(c, 1);
    written_row w = {
        .x = x, .cache = &c->out[0], .scales = c->out_count > 1 ? &c->out[1] : &none, .a = c->attributes
    };
    int64_t slot = ((const int32_t *)op_in(c, 2)->data)[row];
    bool within = slot >= 0 && slot < w.cache->shape.dim[0] * CACHE_BLOCK;
    w.block = within ? slot / CACHE_BLOCK : -1, w.at = slot % CACHE_BLOCK;
    w.first = row * shape_last(&x->shape) + w.a->column;
    return w;
}

/* What the call leaves as it is. */
static void keep_rest(const op_call *c) {
    for (uint32_t o = 0; o < c->out_count; o++) {
        const op_arg *in = op_in(c, o ? 3 : 0), *out = &c->out[o];
        if (out->data != in->data)
            memcpy(out->data, in->data, (size_t)shape_elements(&out->shape) * dtype_bytes(out->dtype));
    }
}

/* ---- reference ---- */

static void write_reference(const written_row *w, int64_t h) {
    const cache_write_attributes *a = w->a;
    int64_t from = w->first + h * a->size;
    int32_t largest = 0;
    for (int64_t d = 0; d < a->size; d++) {
        int32_t size = codes_size((float)reference_get(w->x, from + d));
        largest = size > largest ? size : largest;
    }
    float scale = codes_scale(largest);
    if (w->scales->data)
        reference_set(w->scales, cache_scale_place(a->heads, w->block, h, w->at), (double)scale);
    for (int64_t d = 0; d < a->size; d++) {
        double x = reference_get(w->x, from + d);
        if (w->scales->data) x = codes_nearest((float)x, codes_inverse(scale));
        reference_set(w->cache, cache_place(a, w->block, h, w->at, d), x);
    }
}

static void cache_write_reference(const op_call *c) {
    keep_rest(c);
    for (int64_t row = 0; row < op_in(c, 2)->shape.dim[0]; row++) {
        written_row w = row_of(c, row);
        for (int64_t h = 0; w.block >= 0 && h < w.a->heads; h++) write_reference(&w, h);
    }
}

/* ---- rows over threads ---- */

/* n numbers to places `apart` items from each other. */
static void spread(const void *from, size_t item, int64_t n, int64_t apart, void *to) {
    if (apart == 1) {
        memcpy(to, from, (size_t)n * item);
        return;
    }
    for (int64_t d = 0; d < n; d++)
        if (item == 4)
            ((uint32_t *)to)[d * apart] = ((const uint32_t *)from)[d];
        else if (item == 2)
            ((uint16_t *)to)[d * apart] = ((const uint16_t *)from)[d];
        else
            ((uint8_t *)to)[d * apart] = ((const uint8_t *)from)[d];
}

static void write_head(const written_row *w, int64_t h) {
    const cache_write_attributes *a = w->a;
    float room[CACHE_MOST_SIZE], stored[CACHE_MOST_SIZE]; /* of any type */
    const float *x = fast_floats(w->x, w->first + h * a->size, a->size, room);
    op_arg as = { .data = stored, .dtype = w->cache->dtype };
    if (w->scales->data) {
        float scale = codes_scale(codes_largest(x, a->size));
        ((float *)w->scales->data)[cache_scale_place(a->heads, w->block, h, w->at)] = scale;
        codes_encode(x, codes_inverse(scale), NULL, a->size, as.data);
    } else {
        fast_floats_store(&as, 0, a->size, x);
    }
    size_t item = dtype_bytes(as.dtype);
    int64_t to = cache_place(a, w->block, h, w->at, 0);
    spread(stored, item, a->size, a->keys ? CACHE_BLOCK : 1, (char *)w->cache->data + (size_t)to * item);
}

static void write_rows(const op_call *c, int64_t first, int64_t last) {
    for (int64_t row = first; row < last; row++) {
        written_row w = row_of(c, row);
        for (int64_t h = 0; w.block >= 0 && h < w.a->heads; h++) write_head(&w, h);
    }
}

static void cache_write_rows(const op_call *c) {
    const cache_write_attributes *a = c->attributes;
    keep_rest(c);
    fast_for(c, op_in(c, 2)->shape.dim[0], fast_rows((int64_t)a->heads * a->size), write_rows);
}

const op_kernel cache_write_cpu[] = { { "cache_write_cpu_rows", fast_accepts_halves, NULL, cache_write_rows },
                                      { "cache_write_reference", NULL, NULL, cache_write_reference },
                                      { 0 } };
