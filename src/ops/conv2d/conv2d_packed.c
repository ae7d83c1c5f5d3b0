#include "ops/conv2d/conv2d_packed.h"

#include "base/half.h"
#include "base/least.h"
#include "base/threads.h"
#include "base/units.h"
#include "ops/conv2d/conv2d_windows.h"

enum { ALIGNED = 64 };

static int64_t taps_of(const conv2d_sizes *n) { return n->kernel_height * n->kernel_width; }
static int64_t groups_of(const conv2d_sizes *n) { return n->all_outputs / n->outputs; }
static int64_t group_weights(const conv2d_sizes *n) { return n->outputs * n->channels * taps_of(n); }
static bool is_pointwise(const conv2d_sizes *n) {
    return taps_of(n) == 1 && n->stride == 1 && n->padding == 0;
}
static void *place_in(const op_arg *x, int64_t element) {
    return x->data ? (char *)x->data + element * matmul_bytes((dtype)x->dtype) : NULL;
}

/* ---- weights turned ---- */

/* Between w as it lies (output, channel, tap) and with the channels last. */
typedef struct {
    const op_arg *w;
    void *turned;
    conv2d_sizes n;
} turning;

VECTOR_INLINE void turn_f32(const float *from, int64_t channels, int64_t taps, float *to, int64_t stride) {
    for (int64_t t = 0; t < taps; t++)
        for (int64_t c = 0; c < channels; c++) to[t * stride + c] = from[c * taps + t];
}
VECTOR_INLINE void turn_half(const uint16_t *from, int64_t channels, int64_t taps, uint16_t *to,
                             int64_t stride) {
    for (int64_t t = 0; t < taps; t++)
        for (int64_t c = 0; c < channels; c++) to[t * stride + c] = from[c * taps + t];
}

/* (output, tap, channel) */
static void turn_output(void *context, int64_t output, int thread) {
    (void)thread;
    const turning *j = context;
    int64_t channels = j->n.channels, taps = taps_of(&j->n), first = output * channels * taps;
    const void *from = place_in(j->w, first);
    if (dtype_is_half((dtype)j->w->dtype))
        turn_half(from, channels, taps, (uint16_t *)j->turned + first, channels);
    else
        turn_f32(from, channels, taps, (float *)j->turned + first, channels);
}

/* Taps in the order of the phases (conv2d_phase), so that those of a phase are one matrix. */
static int64_t tap_place(const conv2d_sizes *n, int64_t u, int64_t v) {
    int64_t s = n->stride, down = u % s, right = v % s, place = 0;
    for (int64_t k = 0; k < down; k++) place += (n->kernel_height - k + s - 1) / s * n->kernel_width;
    int64_t rows = (n->kernel_height - down + s - 1) / s;
    for (int64_t k = 0; k < right; k++) place += (n->kernel_width - k + s - 1) / s * rows;
    return place + u / s * ((n->kernel_width - right + s - 1) / s) + v / s;
}

/* (group, tap, output of the group, channel) */
static void turn_tap(void *context, int64_t piece, int thread) {
    (void)thread;
    const turning *j = context;
    const conv2d_sizes *n = &j->n;
    int64_t taps = taps_of(n), tap = piece % taps, group = piece / taps;
    int64_t from = group * group_weights(n) + tap,
            to = group * group_weights(n) +
                 tap_place(n, tap / n->kernel_width, tap % n->kernel_width) * n->outputs * n->channels;
    if (dtype_is_half((dtype)j->w->dtype))
        for (int64_t i = 0; i < n->outputs * n->channels; i++)
            ((uint16_t *)j->turned)[to + i] = ((const uint16_t *)j->w->data)[from + i * taps];
    else
        for (int64_t i = 0; i < n->outputs * n->channels; i++)
            ((float *)j->turned)[to + i] = ((const float *)j->w->data)[from + i * taps];
}

VECTOR_INLINE void widen_turned(const uint16_t *from, const conv2d_sizes *n, const dtype type, float *to) {
    int64_t taps = taps_of(n);
    for (int64_t c = 0; c < n->channels; c++)
        for (int64_t t = 0; t < taps; t++, from++)
            to[t * n->channels + c] = type == DTYPE_BF16 ? half_from_bf16(*from) : half_from_f16(*from);
}

VECTOR_INLINE void narrow_turned(const float *from, const conv2d_sizes *n, const dtype type, uint16_t *to) {
    int64_t taps = taps_of(n);
    for (int64_t c = 0; c < n->channels; c++)
        for (int64_t t = 0; t < taps; t++, to++) {
            float x = from[t * n->channels + c];
            *to = type == DTYPE_BF16 ? half_to_bf16(x) : half_to_f16(x);
        }
}

/* Gradients of weights are summed as (output, tap, channel) in f32, and begin as what there was. */
static void begin_output(void *context, int64_t output, int thread) {
    (void)thread;
    const turning *j = context;
    int64_t taps = taps_of(&j->n), first = output * j->n.channels * taps;
    const void *from = place_in(j->w, first);
    float *to = (float *)j->turned + first;
    switch (j->w->dtype) {
    case DTYPE_BF16: widen_turned(from, &j->n, DTYPE_BF16, to); break;
    case DTYPE_F16: widen_turned(from, &j->n, DTYPE_F16, to); break;
    default: turn_f32(from, j->n.channels, taps, to, j->n.channels);
    }
}

static void end_output(void *context, int64_t output, int thread) {
    (void)thread;
    const turning *j = context;
    int64_t taps = taps_of(&j->n), first = output * j->n.channels * taps;
    const float *from = (const float *)j->turned + first;
    void *to = place_in(j->w, first);
    switch (j->w->dtype) {
    case DTYPE_BF16: narrow_turned(from, &j->n, DTYPE_BF16, to); break;
    case DTYPE_F16: narrow_turned(from, &j->n, DTYPE_F16, to); break;
    default: turn_f32(from, taps, j->n.channels, to, taps);
    }
}

/* ---- y ---- */

static conv2d_sizes sizes_of_y(const op_call *c) {
    return conv2d_sizes_of(&c->in[0].shape, &c->in[1].shape, &c->out[0].shape, c->attributes);
}

/* Of the turned weights, which the scratch begins with. */
static uint64_t turned_bytes(const conv2d_sizes *n, int64_t bytes) {
    if (taps_of(n) == 1) return 0;
    return units_align((uint64_t)(groups_of(n) * group_weights(n) * bytes), ALIGNED);
}

static matmul_problem product_of_y(const op_call *c, const conv2d_windows *see, const conv2d_sizes *n) {
    const op_arg *x = op_in(c, 0), *w = op_in(c, 1), *y = &c->out[0];
    int64_t depth = n->channels * taps_of(n);
    matmul_problem p = { .rows = shape_rows(&y->shape),
                         .columns = n->outputs,
                         .depth = depth,
                         .a = { .data = see, .type = (dtype)x->dtype, .gather = &conv2d_windows_lines },
                         .b = { .stride = depth, .type = (dtype)w->dtype },
                         .y = place_in(y, n->group * n->outputs),
                         .stride = n->all_outputs,
                         .type = (dtype)y->dtype,
                         .bias = place_in(op_in(c, 2), n->group * n->outputs),
                         .bias_type = (dtype)op_in(c, 2)->dtype };
    if (is_pointwise(n))
        p.a = (matmul_operand){ .data = place_in(x, n->group * n->channels),
                                .stride = n->all_channels,
                                .type = (dtype)x->dtype };
    return p;
}

uint64_t conv2d_packed_scratch(const op_call *c, int threads) {
    conv2d_sizes n = sizes_of_y(c);
    matmul_problem p = product_of_y(c, NULL, &n);
    return turned_bytes(&n, matmul_bytes(p.b.type)) + matmul_packed_scratch(&p, false, threads);
}

void conv2d_packed_run(const op_call *c) {
    conv2d_sizes n = sizes_of_y(c);
    const op_arg *w = op_in(c, 1);
    turning turn = { w, c->scratch, n };
    uint64_t turned = turned_bytes(&n, matmul_bytes((dtype)w->dtype));
    if (turned) threads_for(n.all_outputs, turn_output, &turn);
    for (n.group = 0; n.group < groups_of(&n); n.group++) {
        conv2d_windows see = conv2d_windows_of_y(&n, op_in(c, 0));
        matmul_problem p = product_of_y(c, &see, &n);
        p.b.data = (const char *)(turned ? c->scratch : w->data) +
                   n.group * group_weights(&n) * matmul_bytes(p.b.type);
        matmul_packed_run(&p, (char *)c->scratch + turned);
    }
}

/* ---- dx ---- */

static conv2d_sizes sizes_of_dx(const op_call *c) {
    const conv2d_backward_attributes *a = c->attributes;
    return conv2d_sizes_of(&c->out[0].shape, &c->in[1].shape, &c->in[0].shape, &a->of);
}

typedef struct {
    conv2d_phase phase;
    matmul_apart apart;
    matmul_problem p;
} phase_product;

static void product_of_dx(const op_call *c, const conv2d_sizes *n, int64_t kind, phase_product *f) {
    const op_arg *dy = op_in(c, 0), *w = op_in(c, 1), *dx = &c->out[0];
    f->phase = conv2d_phase_of(n, dy, kind / n->stride, kind % n->stride);
    f->apart = (matmul_apart){ &f->phase, conv2d_phase_place, conv2d_phase_depths };
    const conv2d_windows *see = &f->phase.see;
    f->p = (matmul_problem){ .rows = c->in[0].shape.dim[0] * see->rows * see->columns,
                             .columns = n->channels,
                             .depth = see->tap_rows * see->tap_columns * n->outputs,
                             .a = { .data = see, .type = (dtype)dy->dtype, .gather = &conv2d_windows_lines },
                             .b = { .stride = n->channels, .across = true, .type = (dtype)w->dtype },
                             .y = dx->data,
                             .stride = n->all_channels * n->stride,
                             .apart = &f->apart,
                             .type = (dtype)dx->dtype };
    if (n->stride > 1) return;
    f->p.apart = NULL, f->p.y = place_in(dx, n->group * n->channels);
    if (is_pointwise(n))
        f->p.a = (matmul_operand){ .data = place_in(dy, n->group * n->outputs),
                                   .stride = n->all_outputs,
                                   .type = (dtype)dy->dtype };
}

uint64_t conv2d_data_packed_scratch(const op_call *c, int threads) {
    conv2d_sizes n = sizes_of_dx(c);
    uint64_t most_bytes = 0;
    for (int64_t kind = 0; kind < n.stride * n.stride; kind++) {
        phase_product f;
        product_of_dx(c, &n, kind, &f);
        uint64_t bytes = f.p.rows ? matmul_packed_scratch(&f.p, false, threads) : 0;
        if (bytes > most_bytes) most_bytes = bytes;
    }
    return turned_bytes(&n, matmul_bytes((dtype)op_in(c, 1)->dtype)) + most_bytes;
}

void conv2d_data_packed_run(const op_call *c) {
    conv2d_sizes n = sizes_of_dx(c);
    const op_arg *w = op_in(c, 1);
    turning turn = { w, c->scratch, n };
    int64_t bytes = matmul_bytes((dtype)w->dtype);
    uint64_t turned = turned_bytes(&n, bytes);
    if (turned) threads_for(groups_of(&n) * taps_of(&n), turn_tap, &turn);
    for (n.group = 0; n.group < groups_of(&n); n.group++)
        for (int64_t kind = 0; kind < n.stride * n.stride; kind++) {
            phase_product f;
            product_of_dx(c, &n, kind, &f);
            int64_t at = n.group * group_weights(&n);
            if (f.p.depth) at += tap_place(&n, f.phase.u, f.phase.v) * n.outputs * n.channels;
            f.p.b.data = (const char *)(turned ? c->scratch : w->data) + at * bytes;
            if (f.p.rows) matmul_packed_run(&f.p, (char *)c->scratch + turned);
        }
}

/* ---- dw ---- */

static conv2d_sizes sizes_of_dw(const op_call *c) {
    const conv2d_backward_attributes *a = c->attributes;
    return conv2d_sizes_of(&c->in[0].shape, &c->out[0].shape, &c->in[1].shape, &a->of);
}

static matmul_problem product_of_dw(const op_call *c, const conv2d_windows *see, const conv2d_sizes *n) {
    const op_arg *x = op_in(c, 0), *dy = op_in(c, 1), *dw = &c->out[0];
    int64_t columns = n->channels * taps_of(n), first = n->group * group_weights(n);
    matmul_problem p = {
        .rows = n->outputs,
        .columns = columns,
        .depth = shape_rows(&dy->shape),
        .a = { .data = place_in(dy, n->group * n->outputs),
               .stride = n->all_outputs,
               .across = true,
               .type = (dtype)dy->dtype },
        .b = { .data = see, .across = true, .type = (dtype)x->dtype, .gather = &conv2d_windows_across },
        .y = place_in(dw, first),
        .type = (dtype)dw->dtype,
        .accumulator = place_in(op_in(c, 2), first)
    };
    if (is_pointwise(n))
        p.b = (matmul_operand){ .data = place_in(x, n->group * n->channels),
                                .stride = n->all_channels,
                                .across = true,
                                .type = (dtype)x->dtype };
    if (taps_of(n) == 1) return p;
    p.y = (float *)c->scratch + first, p.type = DTYPE_F32;
    p.accumulator = op_in(c, 2)->data ? p.y : NULL;
    return p;
}

uint64_t conv2d_weights_packed_scratch(const op_call *c, int threads) {
    conv2d_sizes n = sizes_of_dw(c);
    matmul_problem p = product_of_dw(c, NULL, &n);
    return turned_bytes(&n, sizeof(float)) + matmul_packed_scratch(&p, false, threads);
}

void conv2d_weights_packed_run(const op_call *c) {
    conv2d_sizes n = sizes_of_dw(c);
    uint64_t turned = turned_bytes(&n, sizeof(float));
    turning begin = { op_in(c, 2), c->scratch, n }, end = { &c->out[0], c->scratch, n };
    if (turned && begin.w->data) threads_for(n.all_outputs, begin_output, &begin);
    for (n.group = 0; n.group < groups_of(&n); n.group++) {
        conv2d_windows see = conv2d_windows_of_y(&n, op_in(c, 0));
        matmul_problem p = product_of_dw(c, &see, &n);
        matmul_packed_run(&p, (char *)c->scratch + turned);
    }
    if (turned) threads_for(n.all_outputs, end_output, &end);
}

/* ---- costs ---- */

static double turned_once(const shape *w) {
    return w->dim[2] * w->dim[3] > 1 ? 2 * (double)sizeof(float) * (double)shape_elements(w) : 0;
}

/* Groups are alike. A gathered operand is not read where it lies, however few rows there are. */
static double moved_by(int64_t groups, int64_t rows, int64_t columns, int64_t depth) {
    matmul_problem p = {
        .rows = rows, .columns = columns, .depth = depth, .a = { .gather = &conv2d_windows_lines }
    };
    return (double)groups * matmul_packed_moved(&p);
}

double conv2d_moved(const conv2d_attributes *a, const shape *y, const shape *w) {
    return turned_once(w) +
           moved_by(a->groups, shape_rows(y), w->dim[0] / a->groups, w->dim[1] * w->dim[2] * w->dim[3]);
}

/* A kind of place sees its share of the taps. */
double conv2d_data_moved(const conv2d_attributes *a, const shape *dx, const shape *w) {
    int64_t kinds = (int64_t)a->stride * a->stride, taps = divide_up(w->dim[2] * w->dim[3], kinds);
    return turned_once(w) + (double)kinds * moved_by(a->groups, divide_up(shape_rows(dx), kinds), w->dim[1],
                                                     taps * (w->dim[0] / a->groups));
}

double conv2d_weights_moved(const conv2d_attributes *a, const shape *dy, const shape *w) {
    return turned_once(w) +
           moved_by(a->groups, w->dim[0] / a->groups, w->dim[1] * w->dim[2] * w->dim[3], shape_rows(dy));
}
