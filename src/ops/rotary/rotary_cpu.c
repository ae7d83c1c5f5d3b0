#include <math.h>
#include <string.h>

#include "ops/fast.h"
#include "ops/reference.h"
#include "ops/rotary/rotary.h"
#include "ops/rotary/rotary_math.h"

/* ---- the angles: few enough for double, once in a program ---- */

typedef struct {
    const rotary_angles_attributes *a;
    rotary_places places;
    int64_t half; /* pairs */
    double gain, speed[ROTARY_MOST_TURNED / 2];
    int64_t length; /* of the call that the speeds are for */
} turns;

/* Only long stretches ask how long a call is. */
static void turns_for(turns *w, int64_t length) {
    if (w->a->stretch != ROTARY_LONG) length = 0;
    if (w->length == length) return;
    w->length = length;
    for (int64_t i = 0; i < w->half; i++) w->speed[i] = rotary_speed_of(w->a, i, length);
}

static void turns_of(const op_call *c, turns *w) {
    const rotary_angles_attributes *a = c->attributes;
    const op_arg *offset = op_in(c, 0);
    w->a = a, w->half = a->turned / 2, w->gain = a->gain > 0 ? a->gain : 1;
    w->places =
        (rotary_places){ offset->data, offset->data ? offset->shape.dim[0] : 1, c->out[0].shape.dim[0] };
    w->length = INT64_MIN;
}

static void rotary_angles_reference(const op_call *c) {
    turns w;
    turns_of(c, &w);
    for (int64_t t = 0; t < c->out[0].shape.dim[0]; t++) {
        turns_for(&w, rotary_length(&w.places, t));
        for (int64_t i = 0; i < w.half; i++) {
            double angle = (double)rotary_place(&w.places, t) * w.speed[i];
            reference_set(&c->out[0], 2 * t * w.half + i, w.gain * cos(angle));
            reference_set(&c->out[0], (2 * t + 1) * w.half + i, w.gain * sin(angle));
        }
    }
}

static void angles_rows(const op_call *c, int64_t first, int64_t last) {
    turns w;
    turns_of(c, &w);
    for (int64_t t = first; t < last; t++) {
        turns_for(&w, rotary_length(&w.places, t));
        for (int64_t i = 0; i < w.half; i++) {
            wide_turn turn = wide_turn_of((double)rotary_place(&w.places, t) * w.speed[i]);
            reference_set(&c->out[0], 2 * t * w.half + i, w.gain * turn.cosine);
            reference_set(&c->out[0], (2 * t + 1) * w.half + i, w.gain * turn.sine);
        }
    }
}

static void rotary_angles_rows(const op_call *c) { fast_for(c, c->out[0].shape.dim[0], 16, angles_rows); }

const op_kernel rotary_angles_cpu[] = { { "rotary_angles_cpu_rows", NULL, NULL, rotary_angles_rows },
                                        { "rotary_angles_reference", NULL, NULL, rotary_angles_reference },
                                        { 0 } };

/* ---- the turn ---- */

static void rotary_reference(const op_call *c) {
    const rotary_attributes *a = c->attributes;
    const op_arg *x = op_in(c, 0), *angles = op_in(c, 1); /* (B,T,W), (T,R) */
    int64_t width = x->shape.dim[2], half = a->turned / 2;
    rotary_layout at_pair = rotary_layout_of(a);
    for (int64_t r = 0, rows = shape_rows(&x->shape); r < rows; r++)
        for (int64_t j = 0; j < width; j++) {
            int64_t i = j % a->size, at = r * width + j, turn = r % x->shape.dim[1] * a->turned;
            if (j >= (int64_t)a->heads * a->size || i >= a->turned) {
                reference_set(&c->out[0], at, reference_get(x, at));
                continue;
            }
            int64_t pair = i / at_pair.step, other = at + at_pair.apart;
            if (pair >= half || i % at_pair.step) continue; /* came with its partner */
            double cosine = reference_get(angles, turn + pair),
                   sine = reference_get(angles, turn + half + pair);
            double left = reference_get(x, at), right = reference_get(x, other);
            if (a->back) sine = -sine;
            reference_set(&c->out[0], at, left * cosine - right * sine);
            reference_set(&c->out[0], other, right * cosine + left * sine);
        }
}

/* y may be x. The layout is a constant where that makes vectors. */
VECTOR_INLINE void turn_pairs(const rotary_attributes *a, const void *x, const float *angles, void *y,
                              const dtype type, const rotary_layout l) {
    int64_t half = a->turned / 2;
    const float *cosine = angles, *sine = angles + half, sign = a->back ? -1.0f : 1.0f;
#pragma GCC ivdep
    for (int64_t i = 0; i < half; i++) {
        int64_t at = i * l.step, other = at + l.apart;
        float left = fast_get(x, at, type), right = fast_get(x, other, type), s = sign * sine[i];
        fast_put(y, at, left * cosine[i] - right * s, type);
        fast_put(y, other, right * cosine[i] + left * s, type);
    }
}

VECTOR_INLINE void turn(const rotary_attributes *a, const void *x, const float *angles, void *y,
                        const dtype type) {
    if (a->neighbours)
        turn_pairs(a, x, angles, y, type, (rotary_layout){ 2, 1 });
    else
        turn_pairs(a, x, angles, y, type, (rotary_layout){ 1, a->turned / 2 });
}

VECTOR_INLINE void turn_rows(const op_call *c, int64_t first, int64_t last, const dtype type) {
    const rotary_attributes *a = c->attributes;
    int64_t width = c->in[0].shape.dim[2], times = c->in[0].shape.dim[1];
    int64_t item = type == DTYPE_F32 ? 4 : 2;
    for (int64_t r = first; r < last; r++) {
        const char *x = (const char *)c->in[0].data + r * width * item;
        const float *angles = (const float *)c->in[1].data + r % times * a->turned;
        char *y = (char *)c->out[0].data + r * width * item;
        if (x != y && (a->turned < a->size || (int64_t)a->heads * a->size < width))
            memcpy(y, x, (size_t)(width * item));
        for (int64_t h = 0; h < a->heads * (int64_t)a->size; h += a->size)
            turn(a, x + h * item, angles, y + h * item, type);
    }
}

VECTOR_CLONES static void rotary_f32(const op_call *c, int64_t first, int64_t last) {
    turn_rows(c, first, last, DTYPE_F32);
}
VECTOR_CLONES static void rotary_bf16(const op_call *c, int64_t first, int64_t last) {
    turn_rows(c, first, last, DTYPE_BF16);
}
VECTOR_CLONES static void turn_heads(const rotary_attributes *a, const float *angles, int64_t heads,
                                     float *x) {
    for (int64_t h = 0; h < heads * a->size; h += a->size) turn(a, x + h, angles, x + h, DTYPE_F32);
}

_Static_assert((int)FAST_PART >= (int)ROTARY_MOST_TURNED, "room for what turns of a head");

/* Some heads at a time by way of f32, as the instructions that convert f16 are in half_widen. */
static void rotary_f16(const op_call *c, int64_t first, int64_t last) {
    const rotary_attributes *a = c->attributes;
    int64_t width = c->in[0].shape.dim[2], times = c->in[0].shape.dim[1], some = FAST_PART / a->size;
    float part[FAST_PART];
    for (int64_t r = first; r < last; r++) {
        const uint16_t *x = (const uint16_t *)c->in[0].data + r * width;
        const float *angles = (const float *)c->in[1].data + r % times * a->turned;
        uint16_t *y = (uint16_t *)c->out[0].data + r * width;
        if (x != y) memcpy(y, x, (size_t)width * sizeof *y);
        for (int64_t h = 0, heads; h < a->heads; h += heads) {
            heads = some < 1 ? 1 : some < a->heads - h ? some : a->heads - h;
            int64_t n = some < 1 ? a->turned : heads * a->size;
            half_widen(DTYPE_F16, y + h * a->size, n, part);
            turn_heads(a, angles, heads, part);
            half_narrow(DTYPE_F16, part, n, y + h * a->size);
        }
    }
}

static void rotary_fast(const op_call *c) {
    fast_for(c, shape_rows(&c->in[0].shape), fast_rows(c->in[0].shape.dim[2]),
             c->in[0].dtype == DTYPE_F32    ? rotary_f32
             : c->in[0].dtype == DTYPE_BF16 ? rotary_bf16
                                            : rotary_f16);
}

/* Angles are f32 whatever x is. */
static bool accepts(const op_call *c) { return fast_accepts_halves(c) && c->in[1].dtype == DTYPE_F32; }

const op_kernel rotary_cpu[] = { { "rotary_cpu_vector", accepts, NULL, rotary_fast },
                                 { "rotary_reference", NULL, NULL, rotary_reference },
                                 { 0 } };
