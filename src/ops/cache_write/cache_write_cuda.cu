/* The twin of cache_write_cpu.c. */
#include "ops/cuda.h"

extern "C" {
#include "ops/cache_write/cache_write.h"
}
#include "ops/cache_write/cache_write_math.h"
#include "ops/codes.h"

struct cache_rest {
    cuda_plain in, out;
    __device__ __forceinline__ void operator()(int64_t i) const { out.set(i, in.get(i)); }
};

/* A head of a row. */
struct cache_written {
    cuda_span x;
    const int32_t *slot;
    void *cache;
    int32_t type;
    float *scales; /* NULL: none */
    int64_t blocks, all;
    cache_write_attributes a;

    __device__ __forceinline__ void operator()(int64_t i) const {
        cuda_cell at = cuda_split(i, a.heads); /* row, head */
        int64_t to = slot[at.row], from = at.row * all + a.column + at.column * a.size;
        if (to < 0 || to >= blocks * CACHE_BLOCK) return;
        int64_t block = to / CACHE_BLOCK, place = to % CACHE_BLOCK;
        if (scales)
            codes(from, block, at.column, place);
        else
            floats(from, block, at.column, place);
    }
    __device__ __forceinline__ void floats(int64_t from, int64_t block, int64_t h, int64_t place) const {
        cuda_span y = { cache, type };
        for (int64_t d = 0; d < a.size; d++) y.set(cache_place(&a, block, h, place, d), x.get(from + d));
    }
    __device__ __forceinline__ void codes(int64_t from, int64_t block, int64_t h, int64_t place) const {
        int32_t largest = 0;
        for (int64_t d = 0; d < a.size; d++) {
            int32_t size = codes_size(x.get(from + d));
            largest = size > largest ? size : largest;
        }
        float scale = codes_scale(largest), inverse = codes_inverse(scale);
        scales[cache_scale_place(a.heads, block, h, place)] = scale;
        for (int64_t d = 0; d < a.size; d++)
            ((int8_t *)cache)[cache_place(&a, block, h, place, d)] =
                (int8_t)codes_nearest(x.get(from + d), inverse);
    }
};

static void run(const op_call *c) {
    const cache_write_attributes *a = (const cache_write_attributes *)c->attributes;
    const op_arg *x = op_in(c, 1), *cache = &c->out[0];
    for (uint32_t o = 0; o < c->out_count; o++) {
        cache_rest rest = { cuda_plain_of(op_in(c, o ? 3 : 0)), cuda_plain_of(&c->out[o]) };
        if (rest.in.data != rest.out.data) cuda_each(shape_elements(&c->out[o].shape), rest);
    }
    cache_written f = { cuda_span_of(x),
                        (const int32_t *)op_in(c, 2)->data,
                        cache->data,
                        (int32_t)cache->dtype,
                        c->out_count > 1 ? (float *)c->out[1].data : NULL,
                        cache->shape.dim[0],
                        shape_last(&x->shape),
                        *a };
    cuda_each_long(shape_rows(&x->shape) * a->heads, f);
}

CUDA_KERNELS(cache_write_cuda, { "cache_write_cuda_heads", cuda_accepts, NULL, run });
