#include "ops/fast.h"
#include "ops/max_pool/max_pool.h"
#include "ops/reference.h"

/* The place of the largest number in the window of (i,j). */
static int64_t find(const op_arg *x, const max_pool_attributes *a, int64_t sample, int64_t i, int64_t j,
                    int64_t channel) {
    int64_t height = x->shape.dim[1], width = x->shape.dim[2], channels = x->shape.dim[3], best = -1;
    for (int64_t u = 0; u < a->size; u++)
        for (int64_t v = 0; v < a->size; v++) {
            int64_t row = i * a->stride + u - a->padding, column = j * a->stride + v - a->padding;
            if (row < 0 || column < 0 || row >= height || column >= width) continue;
            int64_t place = row * width + column, base = sample * height * width;
            if (best < 0 || reference_get(x, (base + place) * channels + channel) >
                                reference_get(x, (base + best) * channels + channel))
                best = place;
        }
    return best;
}

static void max_pool_reference(const op_call *c) {
    const op_arg *x = op_in(c, 0);
    const shape *y = &c->out[0].shape;
    int64_t image = x->shape.dim[1] * x->shape.dim[2], channels = y->dim[3];
    for (int64_t at = 0, n = shape_elements(y); at < n; at++) {
        int64_t channel = at % channels, j = at / channels % y->dim[2],
                i = at / channels / y->dim[2] % y->dim[1];
        int64_t sample = at / channels / y->dim[2] / y->dim[1];
        int64_t place = find(x, c->attributes, sample, i, j, channel);
        reference_set(&c->out[0], at, reference_get(x, (sample * image + place) * channels + channel));
        reference_set(&c->out[1], at, (double)place);
    }
}

static void max_pool_backward_reference(const op_call *c) {
    const op_arg *places = op_in(c, 0), *dy = op_in(c, 1), *dx = &c->out[0];
    const shape *y = &places->shape;
    int64_t image = dx->shape.dim[1] * dx->shape.dim[2], channels = y->dim[3];
    for (int64_t i = 0, n = shape_elements(&dx->shape); i < n; i++) reference_set(dx, i, 0);
    for (int64_t at = 0, n = shape_elements(y); at < n; at++) {
        int64_t place = ((const int32_t *)places->data)[at], sample = at / (channels * y->dim[1] * y->dim[2]);
        if (place < 0 || place >= image) continue;
        int64_t to = (sample * image + place) * channels + at % channels;
        reference_set(dx, to, reference_get(dx, to) + reference_get(dy, at));
    }
}

/* ---- some channels at a time ---- */

enum { PART = 64 };

static int64_t part_of(int64_t channels, int64_t first) {
    return channels - first < PART ? channels - first : PART;
}

/* Of equals the first stays. */
VECTOR_CLONES static void take_larger(const float *x, int32_t place, int64_t n, float *most,
                                      int32_t *places) {
    for (int64_t j = 0; j < n; j++) {
        bool larger = x[j] > most[j];
        most[j] = larger ? x[j] : most[j];
        places[j] = larger ? place : places[j];
    }
}

/* Where a window is in its image. */
typedef struct {
    int64_t sample, top, left;
} window;

static void pool_part(const op_call *c, const window *w, int64_t channel, int64_t n, float *most,
                      int32_t *places) {
    const max_pool_attributes *a = c->attributes;
    const op_arg *x = op_in(c, 0);
    int64_t height = x->shape.dim[1], width = x->shape.dim[2], channels = x->shape.dim[3];
    float room[PART];
    bool any = false;
    for (int64_t j = 0; j < n; j++) most[j] = 0, places[j] = -1;
    for (int64_t i = w->top; i < w->top + a->size; i++)
        for (int64_t j = w->left; j < w->left + a->size; j++) {
            if (i < 0 || j < 0 || i >= height || j >= width) continue;
            int64_t place = i * width + j;
            const float *here =
                fast_floats(x, (w->sample * height * width + place) * channels + channel, n, room);
            for (int64_t k = 0; !any && k < n; k++) most[k] = here[k], places[k] = (int32_t)place;
            if (any) take_larger(here, (int32_t)place, n, most, places);
            any = true;
        }
}

/* Rows of y. */
static void pool_rows(const op_call *c, int64_t first, int64_t last) {
    const max_pool_attributes *a = c->attributes;
    const shape *y = &c->out[0].shape;
    float most[PART];
    for (; first < last; first++) {
        int64_t j = first % y->dim[2], i = first / y->dim[2] % y->dim[1];
        window w = { first / y->dim[2] / y->dim[1], i * a->stride - a->padding, j * a->stride - a->padding };
        for (int64_t channel = 0; channel < y->dim[3]; channel += PART) {
            int64_t n = part_of(y->dim[3], channel), at = first * y->dim[3] + channel;
            pool_part(c, &w, channel, n, most, (int32_t *)c->out[1].data + at);
            fast_floats_store(&c->out[0], at, n, most);
        }
    }
}

static void max_pool_parts(const op_call *c) {
    fast_for(c, shape_rows(&c->out[0].shape), fast_rows(c->out[0].shape.dim[3]), pool_rows);
}

VECTOR_INLINE void add_slope(const op_arg *dx, int64_t at, const op_arg *dy, int64_t from, const dtype type) {
    uint16_t *half = (uint16_t *)dx->data + at;
    const uint16_t *slope = (const uint16_t *)dy->data + from;
    if (type == DTYPE_BF16)
        *half = half_to_bf16(half_from_bf16(*half) + half_from_bf16(*slope));
    else if (type == DTYPE_F16)
        *half = half_to_f16(half_from_f16(*half) + half_from_f16(*slope));
    else
        ((float *)dx->data)[at] += ((const float *)dy->data)[from];
}

/* Windows may overlap: what meets is added in the order of y. */
VECTOR_INLINE void slopes_of(const op_call *c, int64_t sample, int64_t channel, const dtype type) {
    const op_arg *dy = op_in(c, 1), *dx = &c->out[0];
    const int32_t *places = op_in(c, 0)->data;
    const shape *y = &op_in(c, 0)->shape;
    int64_t image = dx->shape.dim[1] * dx->shape.dim[2], count = y->dim[1] * y->dim[2], channels = y->dim[3];
    int64_t n = part_of(channels, channel);
    for (int64_t p = 0; p < count; p++)
        for (int64_t j = 0; j < n; j++) {
            int64_t from = (sample * count + p) * channels + channel + j, place = places[from];
            if (place >= 0 && place < image)
                add_slope(dx, (sample * image + place) * channels + channel + j, dy, from, type);
        }
}

static void slope_part(void *context, int64_t piece, int thread) {
    (void)thread;
    const op_call *c = context;
    const op_arg *dx = &c->out[0];
    int64_t channels = dx->shape.dim[3], image = dx->shape.dim[1] * dx->shape.dim[2];
    int64_t parts = (channels + PART - 1) / PART, channel = piece % parts * PART, sample = piece / parts;
    size_t bytes = dtype_bytes(dx->dtype);
    for (int64_t p = 0; p < image; p++)
        memset((char *)dx->data + (size_t)((sample * image + p) * channels + channel) * bytes, 0,
               (size_t)part_of(channels, channel) * bytes);
    switch (dx->dtype) {
    case DTYPE_BF16: slopes_of(c, sample, channel, DTYPE_BF16); break;
    case DTYPE_F16: slopes_of(c, sample, channel, DTYPE_F16); break;
    default: slopes_of(c, sample, channel, DTYPE_F32);
    }
}

static void max_pool_backward_parts(const op_call *c) {
    const shape *dx = &c->out[0].shape;
    threads_for(dx->dim[0] * ((dx->dim[3] + PART - 1) / PART), slope_part, (void *)(uintptr_t)c);
}

const op_kernel max_pool_cpu[] = { { "max_pool_cpu_parts", fast_accepts_halves, NULL, max_pool_parts },
                                   { "max_pool_reference", NULL, NULL, max_pool_reference },
                                   { 0 } };
const op_kernel max_pool_backward_cpu[] = {
    { "max_pool_backward_cpu_parts", fast_accepts_halves, NULL, max_pool_backward_parts },
    { "max_pool_backward_reference", NULL, NULL, max_pool_backward_reference },
    { 0 }
};
