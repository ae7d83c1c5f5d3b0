#include <string.h>

#include "ops/dropout/dropout.h"
#include "ops/dropout/dropout_math.h"
#include "ops/fast.h"
#include "ops/reference.h"
#include "ops/widened.h"

static philox_key key_of(const op_call *c) {
    philox_key key;
    memcpy(&key, c->in[1].data, sizeof key);
    return key;
}

static void dropout_reference(const op_call *c) {
    const dropout_attributes *a = c->attributes;
    const op_arg *x = op_in(c, 0);
    philox_key key = key_of(c);
    int64_t samples = x->shape.dim[0], size = shape_elements(&x->shape) / samples;
    double factor = 1 / (1 - (double)a->p);
    for (int64_t b = 0; b < samples; b++)
        for (int64_t e = 0; e < size; e++) {
            uint32_t word = philox_word(&key, (uint32_t)a->stream, (uint32_t)b, (uint64_t)e);
            bool kept = philox_uniform(word) >= a->p;
            reference_set(&c->out[0], b * size + e, kept ? factor * reference_get(x, b * size + e) : 0);
        }
}

enum { DRAWN = PHILOX_MANY_WORDS };

typedef struct {
    uint64_t seed;
    uint32_t sample, step, stream; /* of the counter */
} draw;

/* Elements first .. last-1 of one sample, which begin at x and y; first is a multiple of 4. */
VECTOR_CLONES static void drop_range(const draw *d, const dropout_attributes *a, const float *x, float *y,
                                     int64_t first, int64_t last) {
    uint32_t word[DRAWN];
    float factor = dropout_factor(a->p), p = a->p;
    for (int64_t i = first; i < last; i += DRAWN) {
        philox_draw_many(d->seed, &(philox_block){ { (uint32_t)(i / 4), d->sample, d->step, d->stream } },
                         word);
        int64_t n = last - i < DRAWN ? last - i : DRAWN;
#pragma GCC ivdep
        for (int64_t j = 0; j < n; j++)
            y[i - first + j] = dropout_value(word[j], p, factor, x[i - first + j]);
    }
}

/* The elements that begin at `place` of x and y. */
static void drop_typed(const op_call *c, const draw *d, int64_t place, int64_t first, int64_t last) {
    const op_arg *x = &c->in[0], *y = &c->out[0];
    float part[FAST_PART];
    if (!dtype_is_half(x->dtype)) {
        drop_range(d, c->attributes, (const float *)x->data + place, (float *)y->data + place, first, last);
        return;
    }
    for (int64_t i = first; i < last; i += FAST_PART, place += FAST_PART) {
        int64_t n = last - i < FAST_PART ? last - i : FAST_PART;
        half_widen(x->dtype, (const uint16_t *)x->data + place, n, part);
        drop_range(d, c->attributes, part, part, i, i + n);
        half_narrow(y->dtype, part, n, (uint16_t *)y->data + place);
    }
}

static int64_t pieces_of(int64_t size) { return (size + FAST_PIECE - 1) / FAST_PIECE; }

static void dropout_pieces(const op_call *c, int64_t first, int64_t last) {
    const dropout_attributes *a = c->attributes;
    philox_key key = key_of(c);
    int64_t size = shape_elements(&c->in[0].shape) / c->in[0].shape.dim[0];
    for (int64_t piece = first; piece < last; piece++) {
        int64_t b = piece / pieces_of(size), begin = piece % pieces_of(size) * FAST_PIECE;
        int64_t end = begin + FAST_PIECE < size ? begin + FAST_PIECE : size;
        draw d = { .seed = (uint64_t)key.seed_high << 32 | key.seed_low,
                   .sample = key.first_sample + (uint32_t)b,
                   .step = key.step,
                   .stream = (uint32_t)a->stream };
        drop_typed(c, &d, b * size + begin, begin, end);
    }
}

static void dropout_fast(const op_call *c) {
    int64_t samples = c->in[0].shape.dim[0], size = shape_elements(&c->in[0].shape) / samples;
    fast_for(c, samples * pieces_of(size), fast_rows(size), dropout_pieces);
}

static bool accepts(const op_call *c) { return fast_accepts(c) || widened_accepts(c); }

const op_kernel dropout_cpu[] = { { "dropout_cpu_vector", accepts, NULL, dropout_fast },
                                  { "dropout_reference", NULL, NULL, dropout_reference },
                                  { 0 } };
