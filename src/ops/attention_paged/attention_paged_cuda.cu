/* The twin of attention_paged_cpu.c: a warp to a query. Nothing is kept of the scores, which are computed
 * again for the sum and for the values: so the memory it takes does not grow with the texts. */
#include "ops/cuda_rows.h"

extern "C" {
#include "ops/attention_paged/attention_paged.h"
}
#include "ops/attention_paged/attention_paged_math.h"

/* A cache of floats or codes. */
struct attention_paged_cache {
    cuda_span floats;
    const int8_t *codes; /* NULL: they are floats */
    const float *scales;
    cache_write_attributes lie;

    __device__ __forceinline__ float get(int64_t block, int64_t h, int64_t at, int64_t d) const {
        int64_t i = cache_place(&lie, block, h, at, d);
        return codes ? (float)codes[i] : floats.get(i);
    }
    __device__ __forceinline__ float scale(int64_t block, int64_t h, int64_t at) const {
        return codes ? scales[cache_scale_place(lie.heads, block, h, at)] : 1.0f;
    }
};

struct attention_paged_queries {
    cuda_span q, y;
    attention_paged_cache keys, values;
    paged_sight sight;
    int64_t width;
    float factor;
    attention_paged_attributes a;

    __device__ __forceinline__ float score(int64_t row, int64_t h, int64_t p) const {
        int64_t block = paged_block(&sight, row, p / CACHE_BLOCK * CACHE_BLOCK),
                g = h / (a.heads / a.kv_heads);
        float sum = 0;
        for (int64_t d = 0; d < a.size; d++)
            sum = vector_fused(q.get(row * width + h * a.size + d) * factor,
                               keys.get(block, g, p % CACHE_BLOCK, d), sum);
        return paged_capped(sum * keys.scale(block, g, p % CACHE_BLOCK), a.cap);
    }

    /* Number d of the sum of values, each times its weight. Position by position, a warp's worth of weights
     * at a time; `here`: this thread has such a number. */
    __device__ __forceinline__ float value(int64_t row, int64_t h, paged_span seen, float top, int64_t d,
                                           bool here) const {
        int64_t g = h / (a.heads / a.kv_heads);
        float sum = 0;
        for (int64_t from = seen.first; from <= seen.last; from += GPU_WARP) {
            int64_t own = from + cuda_lane();
            float weight = own <= seen.last ? vector_exp(score(row, h, own) - top) : 0.0f;
            for (int k = 0; k < GPU_WARP && from + k <= seen.last; k++) {
                float p = __shfl_sync(0xffffffffu, weight, k);
                int64_t at = (from + k) % CACHE_BLOCK, block = paged_block(&sight, row, from + k - at);
                if (here)
                    sum = vector_fused(p * values.scale(block, g, at), values.get(block, g, at, d), sum);
            }
        }
        return sum;
    }

    __device__ __forceinline__ void operator()(int64_t i) const {
        cuda_cell at = cuda_split(i, a.heads); /* row, head */
        paged_span seen = paged_seen(&sight, at.row);
        int64_t to = i * a.size;
        if (seen.last < 0) {
            for (int64_t d = cuda_lane(); d < a.size; d += GPU_WARP) y.set(to + d, 0);
            return;
        }
        float top = -INFINITY;
        for (int64_t p = seen.first + cuda_lane(); p <= seen.last; p += GPU_WARP) {
            float one = score(at.row, at.column, p);
            top = one > top ? one : top;
        }
        top = cuda_warp_largest(top);
        int64_t base = paged_base(seen.first);
        float share =
            1.0f / cuda_row_sum(seen.last - base + 1, [&](int64_t k) {
                return base + k < seen.first ? 0.0f : vector_exp(score(at.row, at.column, base + k) - top);
            });
        for (int64_t first = 0; first < a.size; first += GPU_WARP) {
            int64_t d = first + cuda_lane();
            float sum = value(at.row, at.column, seen, top, d, d < a.size);
            if (d < a.size) y.set(to + d, sum * share);
        }
    }
};

static attention_paged_cache cache_of(const op_call *c, uint32_t cache, uint32_t scales, bool keys) {
    const attention_paged_attributes *a = (const attention_paged_attributes *)c->attributes;
    const op_arg *x = op_in(c, cache);
    bool codes = x->dtype == DTYPE_I8;
    cache_write_attributes lie = { 0, a->kv_heads, a->size, keys };
    return { cuda_span_of(x), codes ? (const int8_t *)x->data : NULL, (const float *)op_in(c, scales)->data,
             lie };
}

static void run(const op_call *c) {
    const attention_paged_attributes *a = (const attention_paged_attributes *)c->attributes;
    const op_arg *table = op_in(c, 3);
    paged_sight sight = { (const int32_t *)table->data,
                          (const int32_t *)op_in(c, 4)->data,
                          (const int32_t *)op_in(c, 5)->data,
                          table->shape.dim[0],
                          table->shape.dim[1],
                          op_in(c, 1)->shape.dim[0],
                          a->window };
    float factor = a->scale > 0 ? a->scale : (float)(1 / sqrt((double)a->size));
    attention_paged_queries f = { cuda_in(c, 0),
                                  cuda_out(c, 0),
                                  cache_of(c, 1, 6, true),
                                  cache_of(c, 2, 7, false),
                                  sight,
                                  shape_last(&op_in(c, 0)->shape),
                                  factor,
                                  *a };
    cuda_rows(op_in(c, 4)->shape.dim[0] * a->heads, f);
}

CUDA_KERNELS(attention_paged_cuda, { "attention_paged_cuda_warps", cuda_accepts, NULL, run });
