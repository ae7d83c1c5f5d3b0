#include <string.h>

#include "ops/matmul_int8/matmul_int8.h"
#include "ops/matmul_int8/matmul_int8_kernel.h"
#include "ops/reference.h"

typedef struct {
    matmul_int8_problem problem;
    half_random random[2]; /* of a and b */
} product;

/* Rows of the batch that belong to one sample. */
static int64_t sample_rows(const matmul_int8_attributes *t, const op_arg *x) {
    return t->sample_rows ? t->sample_rows : shape_rows(&x->shape) / x->shape.dim[0];
}

static product product_of(const op_call *c) {
    const matmul_int8_attributes *t = c->attributes;
    const op_arg *a = op_in(c, MATMUL_INT8_A), *b = op_in(c, MATMUL_INT8_B), *key = op_in(c, MATMUL_INT8_KEY);
    const float *scales = op_in(c, MATMUL_INT8_SCALES)->data;
    matmul_int8_sizes s;
    matmul_int8_sizes_of(&a->shape, &b->shape, t, &s);
    product q = { .problem = { .rows = s.rows,
                               .columns = s.columns,
                               .depth = s.depth,
                               .tile = t->ta ? THREADS_ROW_TILE : s.depth,
                               .a = { .data = a->data,
                                      .stride = shape_last(&a->shape),
                                      .across = t->ta != 0,
                                      .type = a->dtype,
                                      .fixed = op_in(c, MATMUL_INT8_FIXED)->data,
                                      .fold = t->folded ? scales : NULL,
                                      .first = t->first,
                                      .sample_rows = sample_rows(t, a) },
                               .b = { .data = b->data,
                                      .stride = shape_last(&b->shape),
                                      .across = t->tb == 0,
                                      .type = b->dtype,
                                      .scales = t->folded ? NULL : scales,
                                      .first = t->first,
                                      .sample_rows = sample_rows(t, b) },
                               .bias = op_in(c, MATMUL_INT8_BIAS)->data,
                               .bias_type = op_in(c, MATMUL_INT8_BIAS)->dtype,
                               .residual = op_in(c, MATMUL_INT8_RESIDUAL)->data,
                               .accumulator = op_in(c, MATMUL_INT8_ACCUMULATOR)->data,
                               .y = c->out[0].data,
                               .type = c->out[0].dtype } };
    if (q.problem.tile > s.depth) q.problem.tile = s.depth;
    for (uint32_t i = 0; i < 2 && key->data; i++) {
        q.random[i] = (half_random){ .stream = (uint32_t)t->stream + i };
        memcpy(&q.random[i].key, key->data, sizeof q.random[i].key);
    }
    return q;
}

static uint64_t packed_scratch(const op_call *c, int threads) {
    product q = product_of(c);
    return matmul_int8_packed_scratch(&q.problem, threads);
}

static void packed_run(const op_call *c) {
    product q = product_of(c);
    bool drawn = op_in(c, MATMUL_INT8_KEY)->data && q.problem.a.across;
    q.problem.a.random = drawn ? &q.random[0] : NULL;
    q.problem.b.random = drawn ? &q.random[1] : NULL;
    matmul_int8_packed_run(&q.problem, c->scratch);
}

static bool stream_accepts(const op_call *c) {
    const matmul_int8_attributes *t = c->attributes;
    product q = product_of(c);
    if (t->ta || t->folded || q.problem.rows > MATMUL_INT8_STREAM_ROWS) return false;
    return op_in(c, MATMUL_INT8_B)->dtype == DTYPE_I8;
}

static uint64_t stream_scratch(const op_call *c, int threads) {
    product q = product_of(c);
    return matmul_int8_stream_scratch(&q.problem, threads);
}

static void stream_run(const op_call *c) {
    product q = product_of(c);
    matmul_int8_stream_run(&q.problem, c->scratch);
}

/* ---- reference: codes of whole operands in scratch, one line after the other ---- */

typedef struct {
    const matmul_int8_operand *o;
    int64_t lines, depth, tile;
    int8_t *codes; /* [line][depth] */
    float *scales; /* [line][tile] */
} coded;

static int64_t tiles_of(const matmul_int8_problem *p) { return (p->depth + p->tile - 1) / p->tile; }

static int64_t coded_bytes(const matmul_int8_problem *p, int64_t lines) {
    return (lines * p->depth + 63) / 64 * 64 + (lines * tiles_of(p) * 4 + 63) / 64 * 64;
}

static coded coded_at(const matmul_int8_problem *p, const matmul_int8_operand *o, int64_t lines, char *at) {
    return (coded){ o,       lines,        p->depth,
                    p->tile, (int8_t *)at, (float *)(void *)(at + (lines * p->depth + 63) / 64 * 64) };
}

static float number_at(const coded *k, int64_t line, int64_t d) {
    int64_t place = k->o->across ? d * k->o->stride + line : line * k->o->stride + d;
    op_arg x = { .data = (void *)(uintptr_t)k->o->data, .dtype = k->o->type };
    float value = (float)reference_get(&x, place);
    return k->o->fold ? value * k->o->fold[d] : value;
}

static int32_t code_at(const coded *k, int64_t line, int64_t d, float inverse) {
    uint8_t bytes[CODES_DRAWN];
    if (!k->o->random) return codes_nearest(number_at(k, line, d), inverse);
    int64_t row = k->o->first + d;
    codes_draw draw = { .random = *k->o->random, .sample = (uint32_t)(row / k->o->sample_rows) };
    codes_draw_bytes(&draw, row % k->o->sample_rows * codes_draws(k->o->stride) + line / CODES_DRAWN, bytes);
    return codes_stochastic_coarse(number_at(k, line, d), inverse, bytes[line % CODES_DRAWN]);
}

static void code_tile(const coded *k, int64_t line, int64_t from, int64_t to) {
    float *scale = &k->scales[line * ((k->depth + k->tile - 1) / k->tile) + from / k->tile];
    int8_t *codes = k->codes + line * k->depth;
    if (k->o->type == DTYPE_I8) {
        *scale = k->o->scales ? k->o->scales[line] : 1;
        for (int64_t d = from; d < to; d++) codes[d] = (int8_t)number_at(k, line, d);
        return;
    }
    int32_t largest = 0;
    for (int64_t d = from; d < to; d++) {
        int32_t size = codes_size(number_at(k, line, d));
        largest = size > largest ? size : largest;
    }
    *scale = matmul_int8_scale(k->o, largest);
    for (int64_t d = from; d < to; d++) codes[d] = (int8_t)code_at(k, line, d, codes_inverse(*scale));
}

static void code_all(const coded *k) {
    for (int64_t line = 0; line < k->lines; line++)
        for (int64_t from = 0; from < k->depth; from += k->tile)
            code_tile(k, line, from, from + k->tile < k->depth ? from + k->tile : k->depth);
}

static double sum_at(const coded *a, const coded *b, int64_t row, int64_t column) {
    double sum = 0;
    int64_t tiles = (a->depth + a->tile - 1) / a->tile;
    for (int64_t t = 0; t < tiles; t++) {
        int64_t of_tile = 0;
        for (int64_t d = t * a->tile; d < a->depth && d < (t + 1) * a->tile; d++)
            of_tile += a->codes[row * a->depth + d] * b->codes[column * b->depth + d];
        sum += (double)of_tile * (double)a->scales[row * tiles + t] * (double)b->scales[column * tiles + t];
    }
    return sum;
}

static uint64_t reference_scratch(const op_call *c, int threads) {
    product q = product_of(c);
    (void)threads;
    return (uint64_t)(coded_bytes(&q.problem, q.problem.rows) + coded_bytes(&q.problem, q.problem.columns));
}

static void matmul_int8_reference(const op_call *c) {
    product q = product_of(c);
    matmul_int8_problem *p = &q.problem;
    bool drawn = op_in(c, MATMUL_INT8_KEY)->data && p->a.across;
    p->a.random = drawn ? &q.random[0] : NULL;
    p->b.random = drawn ? &q.random[1] : NULL;
    coded a = coded_at(p, &p->a, p->rows, c->scratch);
    coded b = coded_at(p, &p->b, p->columns, (char *)c->scratch + coded_bytes(p, p->rows));
    code_all(&a);
    code_all(&b);
    for (int64_t row = 0; row < p->rows; row++)
        for (int64_t column = 0; column < p->columns; column++) {
            int64_t at = row * p->columns + column;
            double value = sum_at(&a, &b, row, column);
            if (p->accumulator) value += reference_get(op_in(c, MATMUL_INT8_ACCUMULATOR), at);
            if (p->bias) value += reference_get(op_in(c, MATMUL_INT8_BIAS), column);
            if (p->residual) value += reference_get(op_in(c, MATMUL_INT8_RESIDUAL), at);
            reference_set(&c->out[0], at, value);
        }
}

const op_kernel matmul_int8_cpu[] = { { "matmul_int8_stream", stream_accepts, stream_scratch, stream_run },
                                      { "matmul_int8_packed", NULL, packed_scratch, packed_run },
                                      { "matmul_int8_reference", NULL, reference_scratch,
                                        matmul_int8_reference },
                                      { 0 } };
