/* The twin of cache_append_cpu.c. */
#include "ops/cuda.h"

extern "C" {
#include "ops/cache_append/cache_append.h"
}

struct cache_kept {
    cuda_plain cache, out;
    __device__ __forceinline__ void operator()(int64_t i) const { out.set(i, cache.get(i)); }
};

struct cache_appended {
    cuda_plain x, out;
    const int32_t *offset;
    int64_t width, column, all; /* columns of the cache; the first of x; all of x */
    int64_t times, places;      /* rows of a sample: of x, of the cache */

    __device__ __forceinline__ void operator()(int64_t i) const {
        cuda_cell at = cuda_split(i, width), row = cuda_split(at.row, times); /* sample, time */
        int64_t place = *offset + row.column;
        if (place < 0 || place >= places) return;
        out.set((row.row * places + place) * width + at.column, x.get(at.row * all + column + at.column));
    }
};

static void run(const op_call *c) {
    const cache_append_attributes *a = (const cache_append_attributes *)c->attributes;
    const op_arg *cache = op_in(c, 0), *x = op_in(c, 1), *out = &c->out[0];
    cache_kept keep = { cuda_plain_of(cache), cuda_plain_of(out) };
    if (out->data != cache->data) cuda_each(shape_elements(&out->shape), keep);
    cache_appended f = { cuda_plain_of(x), cuda_plain_of(out), (const int32_t *)op_in(c, 2)->data,
                         a->width,         a->column,          x->shape.dim[2],
                         x->shape.dim[1],  cache->shape.dim[1] };
    cuda_each(shape_rows(&x->shape) * a->width, f);
}

CUDA_KERNELS(cache_append_cuda, { "cache_append_cuda_copy", cuda_accepts, NULL, run });
