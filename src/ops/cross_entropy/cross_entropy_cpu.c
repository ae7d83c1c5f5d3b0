#include <math.h>
#include <string.h>

#include "ops/cross_entropy/cross_entropy.h"
#include "ops/cross_entropy/cross_entropy_halves.h"
#include "ops/cross_entropy/cross_entropy_math.h"
#include "ops/fast.h"
#include "ops/reference.h"
#include "ops/widened.h"

/* The loss from the rows' lse: tile sums in double, one tile after the other into the loss. */
static void sum_tiles(const op_call *c) {
    const op_arg *logits = op_in(c, 0), *accumulator = op_in(c, 3);
    const int32_t *labels = c->in[1].data;
    int64_t rows = shape_elements(&c->in[1].shape), classes = shape_last(&logits->shape);
    double scale = reference_get(op_in(c, 2), 0);
    reference_set(&c->out[0], 0, accumulator->data ? reference_get(accumulator, 0) : 0);
    for (int64_t tile = 0; tile < rows; tile += THREADS_ROW_TILE) {
        double sum = 0;
        for (int64_t r = tile; r < rows && r < tile + THREADS_ROW_TILE; r++)
            if (cross_entropy_is_counted(labels[r], classes))
                sum += reference_get(&c->out[1], r) - reference_get(logits, r * classes + labels[r]);
        reference_set(&c->out[0], 0, reference_get(&c->out[0], 0) + scale * sum);
    }
}

static void cross_entropy_reference(const op_call *c) {
    const op_arg *logits = op_in(c, 0);
    int64_t rows = shape_elements(&c->in[1].shape), classes = shape_last(&logits->shape);
    for (int64_t r = 0; r < rows; r++) {
        double largest = reference_get(logits, r * classes), sum = 0;
        for (int64_t j = 1; j < classes; j++) largest = fmax(largest, reference_get(logits, r * classes + j));
        for (int64_t j = 0; j < classes; j++) sum += exp(reference_get(logits, r * classes + j) - largest);
        reference_set(&c->out[1], r, largest + log(sum));
    }
    sum_tiles(c);
}

/* Blocks of a row fit in the first-level cache: one pass finds a block's maximum, a second one adds to the
 * sum of exponentials, which is kept relative to the largest value so far. The second pass of a block is at
 * once the first one of the next, so the row is read from memory once and evenly. */
enum { BLOCK = CROSS_ENTROPY_BLOCK, AHEAD = 1024 };

VECTOR_INLINE float block_maximum(const float *x, int64_t n) {
    float high[VECTOR_STEP], largest = x[0];
    for (int j = 0; j < VECTOR_STEP; j++) high[j] = largest;
    int64_t i = 0;
    for (; i + VECTOR_STEP <= n; i += VECTOR_STEP) {
        for (int j = 0; j < VECTOR_STEP; j++) high[j] = x[i + j] > high[j] ? x[i + j] : high[j];
    }
    for (; i < n; i++) largest = x[i] > largest ? x[i] : largest;
    for (int j = 0; j < VECTOR_STEP; j++) largest = high[j] > largest ? high[j] : largest;
    return largest;
}

/* A function of its own: within the loop over a row its lanes were measured to take half as long again. */
VECTOR_CLONES static float block_sum(const float *x, int64_t n, float largest) {
    float lane[VECTOR_LANES];
    vector_lanes_clear(lane);
    VECTOR_OVER_LANES(n, i, j, (void)0, lane[j] += cross_entropy_exponential(x[i + j], largest););
    return vector_lanes_sum(lane);
}

/* block_sum of one block and block_maximum of the next, both whole. */
VECTOR_INLINE float block_sum_and_maximum(const float *x, float largest, float *next) {
    float lane[VECTOR_LANES], high[VECTOR_STEP];
    vector_lanes_clear(lane);
    for (int j = 0; j < VECTOR_STEP; j++) high[j] = x[BLOCK];
    for (int64_t i = 0; i < BLOCK; i += VECTOR_LANES)
        for (int k = 0; k < VECTOR_LANES; k += VECTOR_STEP) {
            vector_fetch(x + BLOCK + i + k + AHEAD);
            vector_fetch(x + BLOCK + i + k + AHEAD + VECTOR_LINE);
            for (int j = 0; j < VECTOR_STEP; j++)
                lane[k + j] += cross_entropy_exponential(x[i + k + j], largest);
            for (int j = 0; j < VECTOR_STEP; j++)
                high[j] = x[BLOCK + i + k + j] > high[j] ? x[BLOCK + i + k + j] : high[j];
        }
    *next = high[0];
    for (int j = 1; j < VECTOR_STEP; j++) *next = high[j] > *next ? high[j] : *next;
    return vector_lanes_sum(lane);
}

VECTOR_INLINE float row_lse(const float *x, int64_t classes) {
    int64_t begin = 0, n = classes < BLOCK ? classes : BLOCK;
    float largest = x[0], sum = 0, higher = block_maximum(x, n);
    for (;;) {
        if (higher > largest) {
            sum *= cross_entropy_shrink(largest, higher);
            largest = higher;
        }
        if (begin + 2 * BLOCK <= classes) {
            sum += block_sum_and_maximum(x + begin, largest, &higher);
            begin += BLOCK;
            continue;
        }
        sum += block_sum(x + begin, n, largest);
        begin += n;
        if (begin == classes) return cross_entropy_lse(largest, sum);
        n = classes - begin;
        higher = block_maximum(x + begin, n);
    }
}

VECTOR_CLONES static void lse_rows(const op_call *c, int64_t first, int64_t last) {
    int64_t classes = shape_last(&c->in[0].shape);
    float *lse = c->out[1].data;
    for (int64_t r = first; r < last; r++)
        lse[r] = row_lse((const float *)c->in[0].data + r * classes, classes);
}

static void for_rows(const op_call *c, fast_body body) {
    fast_for(c, shape_elements(&c->in[1].shape), fast_rows(shape_last(&c->in[0].shape)), body);
}

static void cross_entropy_fast(const op_call *c) {
    for_rows(c, lse_rows);
    sum_tiles(c);
}

/* Its scratch is that of the kernel that other processors take, so that plans are the same. */
static void cross_entropy_halves(const op_call *c) {
    for_rows(c, cross_entropy_halves_lse);
    sum_tiles(c);
}

/* Rows of logits; the numbers and the loss are nobody's. */
static widened by_rows(const op_call *c, uint32_t whole_in, uint32_t whole_out) {
    return (widened){ .rows = shape_elements(&c->in[1].shape), .whole_in = whole_in, .whole_out = whole_out };
}

static uint64_t cross_entropy_widened_scratch(const op_call *c, int threads) {
    widened how = by_rows(c, 1u << 2 | 1u << 3, 1);
    return widened_scratch(c, &how, threads);
}

static void cross_entropy_widened(const op_call *c) {
    widened how = by_rows(c, 1u << 2 | 1u << 3, 1);
    widened_run(c, &how, lse_rows);
    sum_tiles(c);
}

const op_kernel cross_entropy_cpu[] = {
    { "cross_entropy_cpu_online", fast_accepts, NULL, cross_entropy_fast },
    { "cross_entropy_cpu_halves", cross_entropy_accepts_halves, cross_entropy_widened_scratch,
      cross_entropy_halves },
    { "cross_entropy_cpu_widened", widened_accepts, cross_entropy_widened_scratch, cross_entropy_widened },
    { "cross_entropy_reference", NULL, NULL, cross_entropy_reference },
    { 0 }
};

/* ---- the gradient ---- */

static void cross_entropy_backward_reference(const op_call *c) {
    const op_arg *logits = op_in(c, 0), *lse = op_in(c, 3), *dlogits = &c->out[0];
    const int32_t *labels = c->in[1].data;
    int64_t rows = shape_elements(&c->in[1].shape), classes = shape_last(&logits->shape);
    double factor = reference_get(op_in(c, 2), 0) * reference_get(op_in(c, 4), 0);
    for (int64_t i = 0; i < rows * classes; i++) {
        int64_t r = i / classes;
        double probability = exp(reference_get(logits, i) - reference_get(lse, r));
        double target = labels[r] == i % classes ? 1 : 0;
        reference_set(dlogits, i,
                      cross_entropy_is_counted(labels[r], classes) ? factor * (probability - target) : 0);
    }
}

VECTOR_INLINE void backward_typed(const op_call *c, int64_t first, int64_t last, const dtype from,
                                  const dtype to) {
    const int32_t *labels = c->in[1].data;
    const float *lse = c->in[3].data;
    int64_t classes = shape_last(&c->in[0].shape);
    float factor = *(const float *)c->in[2].data * *(const float *)c->in[4].data;
    for (int64_t r = first; r < last; r++) {
        const void *x = fast_at(c->in[0].data, r * classes, from);
        void *dx = (char *)c->out[0].data + r * classes * fast_bytes(to);
        if (!cross_entropy_is_counted(labels[r], classes)) {
            memset(dx, 0, (size_t)(classes * fast_bytes(to)));
            continue;
        }
        float chosen = fast_get(x, labels[r], from); /* before dx takes the place of x */
#pragma GCC ivdep
        for (int64_t j = 0; j < classes; j++)
            fast_put(dx, j, cross_entropy_slope(factor, fast_get(x, j, from), lse[r]), to);
        fast_put(dx, labels[r], cross_entropy_slope_chosen(factor, chosen, lse[r]), to);
    }
}

FAST_TYPED(backward_rows, backward_typed, DTYPE_F32, DTYPE_F32)
FAST_TYPED(backward_bf16_rows, backward_typed, DTYPE_BF16, DTYPE_BF16)

static bool backward_accepts_bf16(const op_call *c) { return fast_is_of(c, DTYPE_BF16, DTYPE_BF16); }

static void cross_entropy_backward_bf16(const op_call *c) { for_rows(c, backward_bf16_rows); }
static void cross_entropy_backward_fast(const op_call *c) { for_rows(c, backward_rows); }
static void cross_entropy_backward_halves(const op_call *c) { for_rows(c, cross_entropy_halves_slopes); }

static uint64_t cross_entropy_backward_widened_scratch(const op_call *c, int threads) {
    widened how = by_rows(c, 1u << 2 | 1u << 4, 0);
    return widened_scratch(c, &how, threads);
}

static uint64_t cross_entropy_backward_halves_scratch(const op_call *c, int threads) {
    return backward_accepts_bf16(c) ? 0 : cross_entropy_backward_widened_scratch(c, threads);
}

static void cross_entropy_backward_widened(const op_call *c) {
    widened how = by_rows(c, 1u << 2 | 1u << 4, 0);
    widened_run(c, &how, backward_rows);
}

const op_kernel cross_entropy_backward_cpu[] = {
    { "cross_entropy_backward_cpu_rows", fast_accepts, NULL, cross_entropy_backward_fast },
    { "cross_entropy_backward_cpu_halves", cross_entropy_accepts_halves,
      cross_entropy_backward_halves_scratch, cross_entropy_backward_halves },
    { "cross_entropy_backward_cpu_bf16", backward_accepts_bf16, NULL, cross_entropy_backward_bf16 },
    { "cross_entropy_backward_cpu_widened", widened_accepts, cross_entropy_backward_widened_scratch,
      cross_entropy_backward_widened },
    { "cross_entropy_backward_reference", NULL, NULL, cross_entropy_backward_reference },
    { 0 }
};
