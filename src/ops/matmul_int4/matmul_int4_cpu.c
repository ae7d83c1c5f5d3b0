/* Rows become codes of 8 bits, a wave of them at a time; threads then share the panels of outputs, each of
 * which is read once for a wave, where it lies. */
#include <assert.h>

#include "base/least.h"
#include "base/threads.h"
#include "ops/fast.h"
#include "ops/matmul_int4/matmul_int4_kernel.h"
#include "ops/reference.h"

enum {
    WAVE = 256,   /* rows whose codes are there at a time */
    USUAL = 512,  /* outputs of a piece at most, */
    SUMS = 16384, /* and floats that it sums up in */
    FEW = 4       /* rows that one thread encodes by itself */
};

typedef struct {
    const op_call *call;
    const matmul_int4_kernel *kernel;
    int64_t rows, outputs, depth, groups; /* rows: of all */
    int64_t first, wave;                  /* rows at hand */
    int64_t columns;                      /* outputs of a piece */
    float *scales, *wide; /* by row and group; by thread, where a is of 16 bits, a row as f32 */
    int32_t *starts;
    float *sums; /* by thread */
    int8_t *codes;
} job;

static int64_t align(int64_t n) { return (n + 63) & ~(int64_t)63; }

static job job_of(const op_call *c) {
    const op_arg *a = op_in(c, MATMUL_INT4_A);
    job j = { .call = c,
              .rows = shape_rows(&a->shape),
              .outputs = op_in(c, MATMUL_INT4_CODES)->shape.dim[0],
              .depth = shape_last(&a->shape) };
    j.groups = codes4_groups(j.depth), j.wave = least(j.rows, WAVE);
    return j;
}

static_assert(SUMS >= WAVE * CODES4_PANEL, "a panel of all rows");
static int64_t sums_of(const job *j) { return least(SUMS, j->wave * USUAL); }

/* Places of what scratch holds; returns its bytes. */
static uint64_t lay_out(job *j, char *scratch, int threads) {
    bool half = dtype_is_half(op_in(j->call, MATMUL_INT4_A)->dtype);
    int64_t of_groups = align(j->wave * j->groups * 4), of_codes = align(j->wave * j->depth),
            of_wide = half ? align(j->depth * 4) * threads : 0, of_sums = align(sums_of(j) * 4) * threads;
    if (scratch) {
        j->scales = (float *)(void *)scratch;
        j->starts = (int32_t *)(void *)(scratch + of_groups);
        j->codes = (int8_t *)(scratch + 2 * of_groups);
        j->wide = (float *)(void *)(scratch + 2 * of_groups + of_codes);
        j->sums = (float *)(void *)(scratch + 2 * of_groups + of_codes + of_wide);
    }
    return (uint64_t)(2 * of_groups + of_codes + of_wide + of_sums);
}

/* ---- rows ---- */

static void encode(void *context, int64_t row, int thread) {
    const job *j = context;
    float *room = j->wide + thread * (align(j->depth * 4) / 4);
    const float *x = fast_floats(op_in(j->call, MATMUL_INT4_A), (j->first + row) * j->depth, j->depth, room);
    codes4_encode_row(x, j->depth, j->codes + row * j->depth, j->scales + row * j->groups,
                      j->starts + row * j->groups);
}

static void encode_wave(job *j) {
    if (j->wave > FEW)
        threads_for(j->wave, encode, j);
    else
        for (int64_t row = 0; row < j->wave; row++) encode(j, row, 0);
}

/* ---- outputs ---- */

VECTOR_CLONES static void add(const float *x, int64_t n, float *restrict y) {
    for (int64_t i = 0; i < n; i++) y[i] = x[i] + y[i];
}

static void end_row(const job *j, int64_t row, int64_t first, int64_t n, float *x) {
    const op_arg *bias = op_in(j->call, MATMUL_INT4_BIAS), *residual = op_in(j->call, MATMUL_INT4_RESIDUAL);
    for (int64_t at = 0; at < n; at += FAST_PART) {
        float room[FAST_PART];
        int64_t part = least(FAST_PART, n - at), place = row * j->outputs + first + at;
        if (bias->data) add(fast_floats(bias, first + at, part, room), part, x + at);
        if (residual->data) add(fast_floats(residual, place, part, room), part, x + at);
        fast_floats_store(&j->call->out[0], place, part, x + at);
    }
}

/* The panels that begin with this output, one or two whole ones, and all rows of the wave. */
static void multiply_panels(const job *j, int64_t output, int64_t panels, float *sum, int64_t stride) {
    codes4_place at = codes4_at(j->outputs, j->groups, output, 0);
    matmul_int4_block b = { .panels = panels,
                            .lanes = at.lanes,
                            .groups = j->groups,
                            .codes = (const uint8_t *)op_in(j->call, MATMUL_INT4_CODES)->data + at.code,
                            .scales = (const uint16_t *)op_in(j->call, MATMUL_INT4_SCALES)->data + at.scale,
                            .stride = stride };
    const matmul_int4_kernel *k = at.lanes == CODES4_PANEL ? j->kernel : &matmul_int4_kernel_portable;
    for (int64_t row = 0; row < j->wave; row += MATMUL_INT4_ROWS) {
        b.rows = least(MATMUL_INT4_ROWS, j->wave - row);
        b.a = j->codes + row * j->depth;
        b.scales_a = j->scales + row * j->groups, b.starts = j->starts + row * j->groups;
        b.sum = sum + row * stride;
        k->block(&b);
    }
}

static void run_piece(void *context, int64_t piece, int thread) {
    const job *j = context;
    int64_t first = piece * j->columns, n = least(j->columns, j->outputs - first);
    float *sums = j->sums + thread * (align(sums_of(j) * 4) / 4);
    for (int64_t at = 0, panels; at < n; at += panels * CODES4_PANEL) {
        panels = n - at < 2 * CODES4_PANEL ? 1 : 2;
        multiply_panels(j, first + at, panels, sums + at, n);
    }
    for (int64_t row = 0; row < j->wave; row++) end_row(j, j->first + row, first, n, sums + row * n);
}

/* Outputs of a piece: even shares of the threads, and some of them where there is much. */
static int64_t columns_of(const job *j, int threads) {
    int64_t panels = divide_up(j->outputs, CODES4_PANEL);
    int64_t widest = most(1, least(USUAL, sums_of(j) / j->wave) / CODES4_PANEL);
    int64_t pieces = divide_up(panels, widest);
    while (pieces % threads != 0 && pieces < 6 * threads) pieces++;
    return divide_up(panels, pieces) * CODES4_PANEL;
}

static uint64_t stream_scratch(const op_call *c, int threads) {
    job j = job_of(c);
    return lay_out(&j, NULL, threads);
}

static void stream_run(const op_call *c) {
    job j = job_of(c);
    if (j.rows == 0) return;
    lay_out(&j, c->scratch, threads_count());
    j.kernel = matmul_int4_kernel_chosen();
    j.columns = columns_of(&j, threads_count());
    for (; j.first < j.rows; j.first += WAVE) {
        j.wave = least(WAVE, j.rows - j.first);
        encode_wave(&j);
        threads_for(divide_up(j.outputs, j.columns), run_piece, &j);
    }
}

/* ---- reference ---- */

static uint64_t reference_scratch(const op_call *c, int threads) {
    (void)threads;
    return (uint64_t)op_in(c, MATMUL_INT4_CODES)->shape.dim[0] * sizeof(double);
}

static double sum_of(const uint8_t *codes, const codes4_place *p, const int8_t *a) {
    int32_t sum = 0;
    for (int d = 0; d < CODES4_GROUP; d++) sum += a[d] * codes4_code(codes, p, d);
    return sum;
}

static void reference_group(const op_call *c, int64_t row, int64_t g, double *sums) {
    const op_arg *a = op_in(c, MATMUL_INT4_A), *scales = op_in(c, MATMUL_INT4_SCALES);
    int64_t depth = shape_last(&a->shape), outputs = op_in(c, MATMUL_INT4_CODES)->shape.dim[0];
    float x[CODES4_GROUP], scale;
    int8_t codes[CODES4_GROUP];
    int32_t start;
    for (int d = 0; d < CODES4_GROUP; d++) x[d] = (float)reference_get(a, row * depth + g * CODES4_GROUP + d);
    codes4_encode_row(x, CODES4_GROUP, codes, &scale, &start);
    for (int64_t o = 0; o < outputs; o++) {
        codes4_place p = codes4_at(outputs, codes4_groups(depth), o, g);
        double by = (double)scale * reference_get(scales, p.scale);
        sums[o] += sum_of(op_in(c, MATMUL_INT4_CODES)->data, &p, codes) * by;
    }
}

static void matmul_int4_reference(const op_call *c) {
    const op_arg *a = op_in(c, MATMUL_INT4_A), *bias = op_in(c, MATMUL_INT4_BIAS),
                 *residual = op_in(c, MATMUL_INT4_RESIDUAL);
    int64_t outputs = op_in(c, MATMUL_INT4_CODES)->shape.dim[0];
    double *sums = c->scratch;
    for (int64_t row = 0; row < shape_rows(&a->shape); row++) {
        for (int64_t o = 0; o < outputs; o++) sums[o] = 0;
        for (int64_t g = 0; g < codes4_groups(shape_last(&a->shape)); g++) reference_group(c, row, g, sums);
        for (int64_t o = 0; o < outputs; o++) {
            double y = sums[o];
            if (bias->data) y += reference_get(bias, o);
            if (residual->data) y += reference_get(residual, row * outputs + o);
            reference_set(&c->out[0], row * outputs + o, y);
        }
    }
}

const op_kernel matmul_int4_cpu[] = { { "matmul_int4_stream", NULL, stream_scratch, stream_run },
                                      { "matmul_int4_reference", NULL, reference_scratch,
                                        matmul_int4_reference },
                                      { 0 } };
