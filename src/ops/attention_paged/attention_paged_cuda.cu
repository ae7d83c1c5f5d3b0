/* The twin of attention_paged_cpu.c: a warp to a query, which goes over it segment by segment. Only the
 * weights of one segment are kept, in shared memory: so the memory it takes does not grow with the texts. */
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

struct attention_paged_unbiased {
    enum { MOST = 4 }; /* numbers of a thread: heads of up to 128 are gone over once */
    __device__ __forceinline__ float add(int64_t, int64_t, paged_span, float *, float top) const {
        return top;
    }
};

/* Added in a loop of its own: in that of the scores it would spill registers. */
struct attention_paged_biased {
    enum { MOST = 2 };
    const float *bias;
    const int32_t *place;
    int64_t distances, here;

    /* To the scores that this thread has written; returns their maximum. */
    __device__ __forceinline__ float add(int64_t row, int64_t h, paged_span part, float *weights,
                                         float) const {
        int64_t base = part.first / PAGED_SEGMENT * PAGED_SEGMENT;
        float top = -INFINITY;
        for (int64_t p = part.first + cuda_lane(); p <= part.last; p += GPU_WARP) {
            float one =
                weights[p - base] + bias[h * distances + paged_distance(p, place[row], here, distances)];
            weights[p - base] = one;
            top = one > top ? one : top;
        }
        return top;
    }
};

template <class BIAS>
struct attention_paged_queries {
    enum { MOST = BIAS::MOST };
    cuda_span q, y;
    attention_paged_cache keys, values;
    paged_sight sight;
    int64_t width;
    float factor;
    attention_paged_attributes a;
    BIAS bias;

    __device__ __forceinline__ float score(int64_t row, int64_t h, int64_t p) const {
        int64_t block = paged_block(&sight, row, p / CACHE_BLOCK * CACHE_BLOCK),
                g = h / (a.heads / a.kv_heads);
        float sum = 0;
        for (int64_t d = 0; d < a.size; d++)
            sum = vector_fused(q.get(row * width + h * a.size + d) * factor,
                               keys.get(block, g, p % CACHE_BLOCK, d), sum);
        return paged_capped(sum * keys.scale(block, g, p % CACHE_BLOCK), a.cap);
    }

    /* The scores of a part become weights, which all threads may read; returns their maximum and sum. Place 0
     * of `weights` is the first position of the segment. */
    __device__ __forceinline__ paged_joint weigh(int64_t row, int64_t h, paged_span part,
                                                 float *weights) const {
        int64_t base = part.first / PAGED_SEGMENT * PAGED_SEGMENT;
        float top = -INFINITY;
        __syncwarp(); /* all have read what the part before left */
        for (int64_t p = part.first + cuda_lane(); p <= part.last; p += GPU_WARP) {
            float one = score(row, h, p);
            weights[p - base] = one;
            top = one > top ? one : top;
        }
        top = cuda_warp_largest(bias.add(row, h, part, weights, top));
        __syncwarp();
        for (int64_t p = part.first + cuda_lane(); p <= part.last; p += GPU_WARP)
            weights[p - base] = vector_exp(weights[p - base] - top);
        __syncwarp();
        float total = cuda_row_sum(part.last - base + 1,
                                   [&](int64_t k) { return base + k < part.first ? 0.0f : weights[k]; });
        return { top, total, 0, 0 };
    }

    /* Number d of the sum of a part's values, each times its weight. */
    __device__ __forceinline__ float value(int64_t row, int64_t h, paged_span part, const float *weights,
                                           int64_t d) const {
        int64_t g = h / (a.heads / a.kv_heads), base = part.first / PAGED_SEGMENT * PAGED_SEGMENT;
        float sum = 0;
        for (int64_t p = part.first; p <= part.last; p++) {
            int64_t at = p % CACHE_BLOCK, block = paged_block(&sight, row, p - at);
            sum = vector_fused(weights[p - base] * values.scale(block, g, at), values.get(block, g, at, d),
                               sum);
        }
        return sum;
    }

    /* The sum over all segments of some numbers of a query: MOST of each thread from d on. */
    __device__ __forceinline__ void attend(int64_t row, int64_t h, paged_span seen, int64_t first,
                                           float *weights) const {
        float top = -INFINITY, total = 0, sum[MOST];
        for (int k = 0; k < MOST; k++) sum[k] = 0;
        for (int64_t s = seen.first / PAGED_SEGMENT; s <= seen.last / PAGED_SEGMENT; s++) {
            paged_span part = paged_part(seen, s);
            paged_joint own = weigh(row, h, part, weights), j = paged_joined(top, total, own.top, own.total);
            top = j.top, total = j.total;
#pragma unroll
            for (int k = 0; k < MOST; k++) {
                int64_t d = first + k * GPU_WARP;
                if (d < a.size)
                    sum[k] = vector_fused(value(row, h, part, weights, d), j.more, sum[k] * j.before);
            }
        }
        float share = 1.0f / total;
        for (int k = 0; k < MOST; k++) {
            int64_t d = first + k * GPU_WARP;
            if (d < a.size) y.set((row * a.heads + h) * a.size + d, sum[k] * share);
        }
    }

    __device__ __forceinline__ void operator()(int64_t i, float *weights) const {
        cuda_cell at = cuda_split(i, a.heads); /* row, head */
        paged_span seen = paged_seen(&sight, at.row);
        if (seen.last < 0) {
            for (int64_t d = cuda_lane(); d < a.size; d += GPU_WARP) y.set(i * a.size + d, 0);
            return;
        }
        for (int64_t d = 0; d < a.size; d += MOST * GPU_WARP)
            attend(at.row, at.column, seen, d + cuda_lane(), weights);
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

template <class BIAS>
static attention_paged_queries<BIAS> queries_of(const op_call *c, const BIAS &bias) {
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
    return { cuda_in(c, 0),
             cuda_out(c, 0),
             cache_of(c, 1, 6, true),
             cache_of(c, 2, 7, false),
             sight,
             shape_last(&op_in(c, 0)->shape),
             factor,
             *a,
             bias };
}

static void run(const op_call *c) {
    const attention_paged_attributes *a = (const attention_paged_attributes *)c->attributes;
    const op_arg *bias = op_in(c, 8);
    int64_t queries = op_in(c, 4)->shape.dim[0] * a->heads;
    attention_paged_biased with = { (const float *)bias->data, (const int32_t *)op_in(c, 9)->data,
                                    shape_last(&bias->shape), a->here };
    if (bias->data)
        cuda_rows_kept(queries, PAGED_SEGMENT, queries_of(c, with));
    else
        cuda_rows_kept(queries, PAGED_SEGMENT, queries_of(c, attention_paged_unbiased{}));
}

CUDA_KERNELS(attention_paged_cuda, { "attention_paged_cuda_warps", cuda_accepts, NULL, run });
