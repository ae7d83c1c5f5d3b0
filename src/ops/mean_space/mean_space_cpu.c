#include "ops/fast.h"
#include "ops/mean_space/mean_space.h"
#include "ops/reference.h"

static void mean_space_reference(const op_call *c) {
    const op_arg *x = op_in(c, 0);
    int64_t places = x->shape.dim[1] * x->shape.dim[2], channels = x->shape.dim[3];
    for (int64_t i = 0, n = x->shape.dim[0] * channels; i < n; i++) {
        double sum = 0;
        for (int64_t p = 0; p < places; p++)
            sum += reference_get(x, (i / channels * places + p) * channels + i % channels);
        reference_set(&c->out[0], i, sum / (double)places);
    }
}

static void mean_space_backward_reference(const op_call *c) {
    const shape *dx = &c->out[0].shape;
    int64_t places = dx->dim[1] * dx->dim[2], channels = dx->dim[3];
    for (int64_t i = 0, n = shape_elements(dx); i < n; i++)
        reference_set(&c->out[0], i,
                      reference_get(op_in(c, 0), i / (places * channels) * channels + i % channels) /
                          (double)places);
}

/* ---- some channels of a sample at a time ---- */

enum { PART = 64 };

static int64_t part_of(int64_t channels, int64_t first) {
    return channels - first < PART ? channels - first : PART;
}

VECTOR_CLONES static void add_part(const float *x, int64_t n, double *sum) {
    for (int64_t j = 0; j < n; j++) sum[j] += (double)x[j];
}

static void mean_part(void *context, int64_t piece, int thread) {
    (void)thread;
    const op_call *c = context;
    const op_arg *x = op_in(c, 0);
    int64_t places = x->shape.dim[1] * x->shape.dim[2], channels = x->shape.dim[3];
    int64_t parts = (channels + PART - 1) / PART, first = piece % parts * PART, sample = piece / parts;
    int64_t n = part_of(channels, first);
    double sum[PART] = { 0 };
    float room[PART];
    for (int64_t p = 0; p < places; p++)
        add_part(fast_floats(x, (sample * places + p) * channels + first, n, room), n, sum);
    for (int64_t j = 0; j < n; j++) room[j] = (float)(sum[j] / (double)places);
    fast_floats_store(&c->out[0], sample * channels + first, n, room);
}

static void mean_space_parts(const op_call *c) {
    const shape *x = &op_in(c, 0)->shape;
    threads_for(x->dim[0] * ((x->dim[3] + PART - 1) / PART), mean_part, (void *)(uintptr_t)c);
}

/* Rows of places: each gets its sample's slopes. */
static void slope_rows(const op_call *c, int64_t first, int64_t last) {
    const shape *dx = &c->out[0].shape;
    int64_t places = dx->dim[1] * dx->dim[2], channels = dx->dim[3];
    float room[PART], slope[PART];
    for (int64_t at = 0; at < channels; at += PART) {
        int64_t n = part_of(channels, at);
        for (int64_t row = first; row < last; row++) {
            if (row == first || row % places == 0) {
                const float *dy = fast_floats(op_in(c, 0), row / places * channels + at, n, room);
                for (int64_t j = 0; j < n; j++) slope[j] = dy[j] / (float)places;
            }
            fast_floats_store(&c->out[0], row * channels + at, n, slope);
        }
    }
}

static void mean_space_backward_rows(const op_call *c) {
    const shape *dx = &c->out[0].shape;
    fast_for(c, shape_rows(dx), fast_rows(dx->dim[3]), slope_rows);
}

const op_kernel mean_space_cpu[] = { { "mean_space_cpu_parts", fast_accepts_halves, NULL, mean_space_parts },
                                     { "mean_space_reference", NULL, NULL, mean_space_reference },
                                     { 0 } };
const op_kernel mean_space_backward_cpu[] = {
    { "mean_space_backward_cpu_rows", fast_accepts_halves, NULL, mean_space_backward_rows },
    { "mean_space_backward_reference", NULL, NULL, mean_space_backward_reference },
    { 0 }
};
