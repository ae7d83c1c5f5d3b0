/* Codes are widened to bf16 as parts of them are packed (matmul_gather); all else is the product of bf16. */
#include "base/least.h"
#include "ops/codes.h"
#include "ops/fast.h"
#include "ops/matmul/matmul_kernel.h"
#include "ops/matmul_fp8/matmul_fp8.h"
#include "ops/reference.h"

/* A matrix of codes as it lies. */
typedef struct {
    const uint8_t *codes, *scales;
    int64_t width, blocks; /* of a row: numbers, scales */
    int64_t rows_each;     /* rows that share their scales */
    fp8_form form;
} coded;

static uint8_t scale_at(const coded *m, int64_t row, int64_t column) {
    return m->scales[row / m->rows_each * m->blocks + column / FP8_TILE];
}

/* ---- packing ---- */

/* n numbers of a row from this column on. */
static void widen_run(const coded *m, int64_t row, int64_t column, int64_t n, uint16_t *to) {
    for (int64_t some; n > 0; n -= some, column += some, to += some) {
        some = least(n, FP8_TILE - column % FP8_TILE);
        fp8_decode_bf16(m->form, m->codes + row * m->width + column, scale_at(m, row, column), some, to);
    }
}

static void lines_to_rows(const void *of, const matmul_part *part, uint16_t *rows) {
    for (int64_t i = 0; i < part->lines; i++)
        widen_run(of, part->line + i, part->depth, part->depths, rows + i * MATMUL_DEPTH);
}

static void across_to_rows(const void *of, const matmul_part *part, uint16_t *rows) {
    for (int64_t d = 0; d < part->depths; d++)
        widen_run(of, part->depth + d, part->line, part->lines, rows + d * MATMUL_MAX_COLUMNS);
}

/* Into panels of f32, by way of rows. */
static void to_panels(const void *of, const matmul_part *part, int64_t width, bool across, float *packed) {
    uint16_t rows[MATMUL_GATHERED];
    matmul_operand at = { .data = rows,
                          .stride = across ? MATMUL_MAX_COLUMNS : MATMUL_DEPTH,
                          .across = across,
                          .type = DTYPE_BF16 };
    matmul_part panel = *part;
    for (int64_t left = part->lines; left > 0; left -= width) {
        panel.lines = least(left, width);
        (across ? across_to_rows : lines_to_rows)(of, &panel, rows);
        matmul_kernel_chosen()->pack_b(&at, panel.lines, part->depths, width, packed);
        panel.line += width;
        packed += part->depths * width;
    }
}

static void lines_to_panels(const void *of, const matmul_part *part, int64_t width, float *packed) {
    to_panels(of, part, width, false, packed);
}

static void across_to_panels(const void *of, const matmul_part *part, int64_t width, float *packed) {
    to_panels(of, part, width, true, packed);
}

static const matmul_gather lines = { lines_to_panels, lines_to_rows };
static const matmul_gather across = { across_to_panels, across_to_rows };

/* ---- weights ---- */

typedef struct {
    const op_arg *w;
    int64_t rows, width, blocks;
    fp8_form form;
    uint8_t *codes, *scales;
} rounding;

/* A square of it. */
static void round_square(void *context, int64_t square, int thread) {
    const rounding *r = context;
    int64_t first = square / r->blocks * FP8_TILE, last = least(r->rows, first + FP8_TILE);
    int64_t column = square % r->blocks * FP8_TILE, n = least(FP8_TILE, r->width - column);
    float room[FP8_TILE];
    int32_t largest = 0;
    (void)thread;
    for (int64_t row = first; row < last; row++) {
        int32_t size = codes_largest(fast_floats(r->w, row * r->width + column, n, room), n);
        largest = size > largest ? size : largest;
    }
    uint8_t scale = r->scales[square] = fp8_scale(r->form, largest);
    for (int64_t row = first; row < last; row++) {
        int64_t at = row * r->width + column;
        fp8_encode_run(r->form, fast_floats(r->w, at, n, room), scale, n, r->codes + at);
    }
}

/* A weight in codes, which are in scratch then; what has codes as it is. */
static coded coded_of_b(const op_call *c) {
    const matmul_fp8_attributes *t = c->attributes;
    const op_arg *b = op_in(c, MATMUL_FP8_B);
    matmul_fp8_coded place = matmul_fp8_coded_of(b);
    int64_t width = shape_last(&b->shape), blocks = fp8_blocks(width);
    fp8_form form = (fp8_form)t->b_form;
    if (!place.all) return (coded){ b->data, op_in(c, MATMUL_FP8_B_SCALES)->data, width, blocks, 1, form };
    rounding r = { .w = b,
                   .rows = shape_rows(&b->shape),
                   .width = width,
                   .blocks = blocks,
                   .form = form,
                   .codes = c->scratch,
                   .scales = (uint8_t *)c->scratch + place.scales };
    threads_for(fp8_blocks(r.rows) * blocks, round_square, &r);
    return (coded){ r.codes, r.scales, width, blocks, FP8_TILE, form };
}

static coded coded_of_a(const op_call *c) {
    const matmul_fp8_attributes *t = c->attributes;
    const op_arg *a = op_in(c, MATMUL_FP8_A);
    int64_t width = shape_last(&a->shape);
    return (coded){ a->data, op_in(c, MATMUL_FP8_A_SCALES)->data,
                    width,   fp8_blocks(width),
                    1,       (fp8_form)t->a_form };
}

/* ---- packed ---- */

static matmul_operand operand_of(const coded *m, bool is_across) {
    return (matmul_operand){
        .data = m, .across = is_across, .type = DTYPE_BF16, .gather = is_across ? &across : &lines
    };
}

/* `a` and `b` NULL: for its sizes alone. */
static matmul_problem problem_of(const op_call *c, const coded *a, const coded *b) {
    const matmul_fp8_attributes *t = c->attributes;
    matmul_fp8_sizes s;
    matmul_fp8_sizes_of(&op_in(c, MATMUL_FP8_A)->shape, &op_in(c, MATMUL_FP8_B)->shape, t, &s);
    return (matmul_problem){ .rows = s.rows,
                             .columns = s.columns,
                             .depth = s.depth,
                             .a = operand_of(a, t->ta != 0),
                             .b = operand_of(b, t->tb == 0),
                             .bias = op_in(c, MATMUL_FP8_BIAS)->data,
                             .bias_type = op_in(c, MATMUL_FP8_BIAS)->dtype,
                             .residual = op_in(c, MATMUL_FP8_RESIDUAL)->data,
                             .accumulator = op_in(c, MATMUL_FP8_ACCUMULATOR)->data,
                             .y = c->out[0].data,
                             .type = c->out[0].dtype };
}

static uint64_t packed_scratch(const op_call *c, int threads) {
    matmul_problem p = problem_of(c, NULL, NULL);
    return matmul_fp8_coded_of(op_in(c, MATMUL_FP8_B)).all +
           matmul_packed_scratch(&p, op_in(c, MATMUL_FP8_RESIDUAL)->dtype != DTYPE_NONE, threads);
}

static void packed_run(const op_call *c) {
    coded a = coded_of_a(c), b = coded_of_b(c);
    matmul_problem p = problem_of(c, &a, &b);
    matmul_packed_run(&p, (char *)c->scratch + matmul_fp8_coded_of(op_in(c, MATMUL_FP8_B)).all);
}

/* ---- reference ---- */

static uint64_t reference_scratch(const op_call *c, int threads) {
    (void)threads;
    return matmul_fp8_coded_of(op_in(c, MATMUL_FP8_B)).all;
}

static double number_at(const coded *m, int64_t row, int64_t column) {
    return (double)fp8_decode(m->form, m->codes[row * m->width + column]) *
           (double)fp8_scale_value(scale_at(m, row, column));
}

static void matmul_fp8_reference(const op_call *c) {
    const matmul_fp8_attributes *t = c->attributes;
    coded a = coded_of_a(c), b = coded_of_b(c);
    matmul_problem p = problem_of(c, &a, &b);
    for (int64_t row = 0; row < p.rows; row++)
        for (int64_t column = 0; column < p.columns; column++) {
            int64_t at = row * p.columns + column;
            double value = 0;
            for (int64_t k = 0; k < p.depth; k++)
                value += (t->ta ? number_at(&a, k, row) : number_at(&a, row, k)) *
                         (t->tb ? number_at(&b, column, k) : number_at(&b, k, column));
            if (p.accumulator) value += reference_get(op_in(c, MATMUL_FP8_ACCUMULATOR), at);
            if (p.bias) value += reference_get(op_in(c, MATMUL_FP8_BIAS), column);
            if (p.residual) value += reference_get(op_in(c, MATMUL_FP8_RESIDUAL), at);
            reference_set(&c->out[0], at, value);
        }
}

const op_kernel matmul_fp8_cpu[] = { { "matmul_fp8_packed", NULL, packed_scratch, packed_run },
                                     { "matmul_fp8_reference", NULL, reference_scratch,
                                       matmul_fp8_reference },
                                     { 0 } };
