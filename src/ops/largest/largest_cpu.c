#include "ops/codes.h"
#include "ops/fast.h"
#include "ops/largest/largest.h"
#include "ops/reference.h"

static int64_t pieces_of(const op_call *c) {
    return (shape_elements(&c->in[0].shape) + FAST_PIECE - 1) / FAST_PIECE;
}

/* Each piece's goes to its place in the scratch, as bits (codes_size). */
static void look_over(const op_call *c, int64_t first, int64_t last) {
    enum { PART = 512 };
    const op_arg *x = &c->in[0];
    float wide[PART];
    int32_t *found = (int32_t *)c->scratch + first / FAST_PIECE;
    *found = 0;
    for (int64_t i = first; i < last; i += PART) {
        int64_t n = last - i < PART ? last - i : PART;
        const float *from = x->dtype == DTYPE_F32 ? (const float *)x->data + i : wide;
        if (x->dtype != DTYPE_F32) half_widen(x->dtype, (const uint16_t *)x->data + i, n, wide);
        int32_t size = codes_largest(from, n);
        *found = size > *found ? size : *found;
    }
}

static uint64_t scratch(const op_call *c, int threads) {
    (void)threads;
    return (uint64_t)pieces_of(c) * sizeof(int32_t);
}

static void largest_fast(const op_call *c) {
    const int32_t *found = c->scratch;
    int32_t largest = codes_size(*(const float *)c->in[1].data);
    fast_for(c, shape_elements(&c->in[0].shape), FAST_PIECE, look_over);
    for (int64_t i = 0, n = pieces_of(c); i < n; i++) largest = found[i] > largest ? found[i] : largest;
    *(float *)c->out[0].data = half_float((uint32_t)largest);
}

static void largest_reference(const op_call *c) {
    int32_t largest = codes_size((float)reference_get(&c->in[1], 0));
    for (int64_t i = 0, n = shape_elements(&c->in[0].shape); i < n; i++) {
        int32_t size = codes_size((float)reference_get(&c->in[0], i));
        largest = size > largest ? size : largest;
    }
    reference_set(&c->out[0], 0, (double)half_float((uint32_t)largest));
}

const op_kernel largest_cpu[] = { { "largest_cpu_pieces", NULL, scratch, largest_fast },
                                  { "largest_reference", NULL, NULL, largest_reference },
                                  { 0 } };
