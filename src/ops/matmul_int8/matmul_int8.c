#include "ops/matmul_int8/matmul_int8.h"

#include "base/threads.h"
#include "ops/add/add.h"
#include "ops/matmul_int8/matmul_int8_kernel.h"
#include "ops/reshape/reshape.h"
#include "ops/sum_rows/sum_rows.h"

tensor_id matmul_int8_apply(graph *g, const matmul_int8_inputs *in) {
    tensor_id inputs[MATMUL_INT8_INPUTS] = { in->a,        in->b,           in->scales, in->bias,
                                             in->residual, in->accumulator, in->key,    in->fixed };
    return graph_add(g, &op_matmul_int8, inputs, MATMUL_INT8_INPUTS,
                     &(matmul_int8_attributes){ .ta = in->ta,
                                                .tb = in->tb,
                                                .type = (int32_t)in->type,
                                                .folded = in->folded,
                                                .stream = in->stream });
}

bool matmul_int8_sizes_of(const shape *a, const shape *b, const matmul_int8_attributes *t,
                          matmul_int8_sizes *s) {
    *s = (matmul_int8_sizes){ .rows = t->ta ? shape_last(a) : shape_rows(a),
                              .columns = t->tb ? shape_rows(b) : shape_last(b),
                              .depth = t->ta ? shape_rows(a) : shape_last(a) };
    return s->depth == (t->tb ? shape_last(b) : shape_rows(b));
}

/* ---- shapes ---- */

static status check_form(const graph *g, const node *n, const matmul_int8_sizes *s) {
    const matmul_int8_attributes *t = node_attributes(g, n);
    const tensor *b = graph_tensor(g, node_in(g, n, MATMUL_INT8_B));
    tensor_id scales = node_in(g, n, MATMUL_INT8_SCALES);
    if (t->ta && t->tb) return status_set(STATUS_INVALID, "of the two operands one may be transposed");
    if ((b->dtype == DTYPE_I8) != (scales != 0))
        return status_set(STATUS_INVALID, "'b' is %s %s scales", dtype_name((dtype)b->dtype),
                          scales ? "with" : "without");
    if (t->ta && (scales || node_in(g, n, MATMUL_INT8_FIXED)))
        return status_set(STATUS_INVALID, "sums over rows are of floats with scales of their own");
    if (scales && shape_elements(graph_shape(g, scales)) != (t->folded ? s->depth : s->columns))
        return status_set(STATUS_INVALID, "%lld scales do not go with %lld x %lld codes",
                          (long long)shape_elements(graph_shape(g, scales)), (long long)s->depth,
                          (long long)s->columns);
    if (!t->ta && s->depth > MATMUL_INT8_LONGEST)
        return status_set(STATUS_INVALID,
                          "a sum of %lld products of codes may not fit into 32 bits, only of %d",
                          (long long)s->depth, MATMUL_INT8_LONGEST);
    return STATUS_OK;
}

static status check_extras(const graph *g, const node *n, const tensor *y) {
    static const struct {
        uint32_t input;
        int64_t elements; /* 0: those of a row of y; -1: as y */
    } extras[] = { { MATMUL_INT8_BIAS, 0 },
                   { MATMUL_INT8_RESIDUAL, -1 },
                   { MATMUL_INT8_ACCUMULATOR, -1 },
                   { MATMUL_INT8_KEY, 4 },
                   { MATMUL_INT8_FIXED, 1 } };
    const matmul_int8_attributes *a = node_attributes(g, n);
    char have[SHAPE_TEXT_BYTES], want[SHAPE_TEXT_BYTES];
    for (uint32_t k = 0; k < sizeof extras / sizeof *extras; k++) {
        tensor_id t = node_in(g, n, extras[k].input);
        if (!t) continue;
        const tensor *x = graph_tensor(g, t);
        int64_t should = extras[k].elements ? extras[k].elements : shape_last(&y->shape);
        if (should < 0 ? !shape_equal(&x->shape, &y->shape) || x->dtype != y->dtype
                       : shape_elements(&x->shape) != should)
            return status_set(STATUS_INVALID, "'%s', %s %s, does not go with the result %s",
                              n->op->inputs[extras[k].input].name, dtype_name((dtype)x->dtype),
                              shape_text(&x->shape, have), shape_text(&y->shape, want));
    }
    if (node_in(g, n, MATMUL_INT8_ACCUMULATOR) && !a->ta)
        return status_set(STATUS_INVALID, "only a sum over rows has an accumulator");
    if (a->ta && (node_in(g, n, MATMUL_INT8_BIAS) || node_in(g, n, MATMUL_INT8_RESIDUAL)))
        return status_set(STATUS_INVALID, "a sum over rows has neither bias nor residual");
    return STATUS_OK;
}

static status infer(const graph *g, const node *n, tensor *out) {
    const matmul_int8_attributes *t = node_attributes(g, n);
    const tensor *a = graph_tensor(g, node_in(g, n, MATMUL_INT8_A)),
                 *b = graph_tensor(g, node_in(g, n, MATMUL_INT8_B));
    matmul_int8_sizes s;
    char left[SHAPE_TEXT_BYTES], right[SHAPE_TEXT_BYTES];
    if (!matmul_int8_sizes_of(&a->shape, &b->shape, t, &s))
        return status_set(STATUS_INVALID, "%s%s and %s%s cannot be multiplied", shape_text(&a->shape, left),
                          t->ta ? "^T" : "", shape_text(&b->shape, right), t->tb ? "^T" : "");
    TRY(check_form(g, n, &s));
    out[0] = (tensor){ .shape = a->shape, .dtype = t->type ? (uint8_t)t->type : a->dtype };
    if (t->ta) out[0].shape = SHAPE(s.rows, s.columns);
    out[0].shape.dim[out[0].shape.rank - 1] = s.columns;
    return check_extras(g, n, &out[0]);
}

/* ---- gradient ---- */

/* The gradient of a weight: the other two, summed over their rows. */
static tensor_id gradient_of_weight(graph *g, const node *n, tensor_id dy, tensor_id gathered) {
    const matmul_int8_attributes *t = node_attributes(g, n);
    tensor_id x = node_in(g, n, MATMUL_INT8_A), w = node_in(g, n, MATMUL_INT8_B);
    return matmul_int8_apply(g, &(matmul_int8_inputs){ .a = t->tb ? dy : x,
                                                       .b = t->tb ? x : dy,
                                                       .accumulator = gathered,
                                                       .key = node_in(g, n, MATMUL_INT8_KEY),
                                                       .ta = true,
                                                       .type = graph_gradient_dtype(g, w),
                                                       .stream = t->stream });
}

/* dy times the weight the other way round, whose scales run along the sum now. */
static tensor_id gradient_of_data(graph *g, const node *n, tensor_id dy, tensor_id gathered) {
    const matmul_int8_attributes *t = node_attributes(g, n);
    tensor_id x = node_in(g, n, MATMUL_INT8_A);
    return matmul_int8_apply(g, &(matmul_int8_inputs){ .a = dy,
                                                       .b = node_in(g, n, MATMUL_INT8_B),
                                                       .scales = node_in(g, n, MATMUL_INT8_SCALES),
                                                       .residual = gathered,
                                                       .tb = !t->tb,
                                                       .folded = !t->folded,
                                                       .type = graph_gradient_dtype(g, x) });
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    node n = *graph_node(g, id);
    if (((const matmul_int8_attributes *)node_attributes(g, &n))->ta) {
        graph_fail(g, "a sum over rows on codes has no gradient");
        return;
    }
    if (want[MATMUL_INT8_B]) din[MATMUL_INT8_B] = gradient_of_weight(g, &n, dout[0], din[MATMUL_INT8_B]);
    if (want[MATMUL_INT8_BIAS]) din[MATMUL_INT8_BIAS] = sum_rows_apply(g, dout[0], din[MATMUL_INT8_BIAS]);
    if (want[MATMUL_INT8_A]) din[MATMUL_INT8_A] = gradient_of_data(g, &n, dout[0], din[MATMUL_INT8_A]);
    if (want[MATMUL_INT8_RESIDUAL])
        din[MATMUL_INT8_RESIDUAL] = add_gather(g, din[MATMUL_INT8_RESIDUAL], dout[0]);
}

/* Bytes that a number costs on its way into a panel: it is looked at twice, and written twice as a code. */
enum { QUANTIZED = 10 };

enum { OF_FEW = 2 }; /* of few rows instructions do half as much in a second as of packed codes */

static op_cost cost(const graph *g, const node *n) {
    const matmul_int8_attributes *t = node_attributes(g, n);
    const tensor *b = graph_tensor(g, node_in(g, n, MATMUL_INT8_B));
    matmul_int8_sizes s;
    matmul_int8_sizes_of(graph_shape(g, node_in(g, n, MATMUL_INT8_A)), &b->shape, t, &s);
    op_cost c = op_cost_elementwise(g, n, 0);
    double a_elements = (double)s.rows * (double)s.depth, b_elements = (double)s.columns * (double)s.depth;
    bool stored = b->dtype == DTYPE_I8;
    bool streamed = stored && !t->ta && !t->folded && s.rows <= MATMUL_INT8_STREAM_ROWS;
    c.kind = WORK_CODES, c.reads = streamed;
    c.flops = 2.0 * (double)s.rows * b_elements;
    if (streamed) c.work = OF_FEW * c.flops;
    c.bytes_moved =
        QUANTIZED * (a_elements + (stored ? 0 : b_elements)) + (stored && !streamed ? 2 * b_elements : 0);
    if (t->ta && node_in(g, n, MATMUL_INT8_KEY)) c.draws = (a_elements + b_elements) / 4;
    return c;
}

/* ---- definition ---- */

enum { OPERAND = DTYPE_MASK_HALF | 1u << DTYPE_F32 };
static const op_input inputs[] = { { "a", OPERAND, 2, 4, false },
                                   { "b", OPERAND | 1u << DTYPE_I8, 2, 4, false },
                                   { "scales", 1u << DTYPE_F32, 1, 1, true },
                                   { "bias", OPERAND, 1, 1, true },
                                   { "residual", OPERAND, 2, 4, true },
                                   { "accumulator", OPERAND, 2, 4, true },
                                   { "key", DTYPE_MASK_INT, 1, 1, true },
                                   { "fixed", 1u << DTYPE_F32, 1, 1, true } };

static const op_alias aliases[] = { { .out = 0, .in = MATMUL_INT8_RESIDUAL, .must = false },
                                    { .out = 0, .in = MATMUL_INT8_ACCUMULATOR, .must = true } };

#define FLOATS(type, ...)                                                                                    \
    { type, SHAPE_OF(__VA_ARGS__), -1, 1 }
#define SHAPE_OF(...)                                                                                        \
    { { __VA_ARGS__ }, (uint32_t)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)) }
#define MATRIX(...) FLOATS(DTYPE_F32, __VA_ARGS__)
#define CODES(...)                                                                                           \
    { DTYPE_I8, SHAPE_OF(__VA_ARGS__), -127, 128 }
#define SCALES(n)                                                                                            \
    { DTYPE_F32, { { n }, 1 }, 0.001, 0.01 }
#define KEY                                                                                                  \
    { DTYPE_I32, { { 4 }, 1 }, -2147483648.0, 2147483647.0 }
#define NONE                                                                                                 \
    { DTYPE_NONE }
#define FORM(...)                                                                                            \
    &(matmul_int8_attributes) { __VA_ARGS__ }

static const op_case cases[] = {
    { "stored, (in, out)", { MATRIX(5, 7), CODES(7, 9), SCALES(9) }, FORM(0), 0, true },
    { "stored, (out, in)", { MATRIX(2, 17, 300), CODES(35, 300), SCALES(35) }, FORM(.tb = 1), 0, true },
    { "bias, residual",
      { MATRIX(33, 40), CODES(40, 70), SCALES(70), MATRIX(70), MATRIX(33, 70) },
      FORM(0),
      0,
      true },
    { "one row", { MATRIX(1, 301), CODES(301, 70), SCALES(70), MATRIX(70) }, FORM(0), 0, true },
    { "some rows, (out, in)",
      { MATRIX(4, 301), CODES(270, 301), SCALES(270), NONE, MATRIX(4, 270) },
      FORM(.tb = 1),
      0,
      true },
    { "folded", { MATRIX(33, 70), CODES(40, 70), SCALES(70) }, FORM(.tb = 1, .folded = 1), 0, true },
    { "folded, the other way", { MATRIX(3, 6), CODES(6, 70), SCALES(6) }, FORM(.folded = 1), 0, true },
    { "both floats", { MATRIX(33, 300), MATRIX(300, 70) }, FORM(0), 0, true },
    { "both floats, b transposed", { MATRIX(33, 301), MATRIX(70, 301) }, FORM(.tb = 1), 0, true },
    { "over rows", { MATRIX(2, 150, 19), MATRIX(2, 150, 21) }, FORM(.ta = 1), 0, true },
    { "over rows, added, stochastic",
      { MATRIX(3, 230, 300), MATRIX(3, 230, 45), NONE, NONE, NONE, MATRIX(300, 45), KEY },
      FORM(.ta = 1, .stream = 4),
      0,
      true },
    { "over some rows of a whole",
      { MATRIX(300, 19), MATRIX(300, 45), NONE, NONE, NONE, MATRIX(19, 45), KEY },
      FORM(.ta = 1, .stream = 4, .first = 256, .sample_rows = 37),
      0,
      true },
    { "over many rows of halves",
      { FLOATS(DTYPE_BF16, 5, 301, 19), FLOATS(DTYPE_F16, 5, 301, 35), NONE, NONE, NONE,
        FLOATS(DTYPE_BF16, 19, 35), KEY },
      FORM(.ta = 1, .stream = 4),
      0,
      true },
    { "halves",
      { FLOATS(DTYPE_F16, 33, 300), FLOATS(DTYPE_BF16, 300, 70), NONE, FLOATS(DTYPE_F16, 70),
        FLOATS(DTYPE_F16, 33, 70) },
      FORM(0),
      0,
      true },
    { "halves to f32",
      { FLOATS(DTYPE_BF16, 33, 300), CODES(300, 70), SCALES(70) },
      FORM(.type = DTYPE_F32),
      0,
      true },
    { "a scale found before",
      { MATRIX(33, 40),
        CODES(40, 70),
        SCALES(70),
        NONE,
        NONE,
        NONE,
        NONE,
        { DTYPE_F32, { { 1 }, 1 }, 0.005, 0.006 } },
      FORM(0),
      0,
      true },
    { "one row", { MATRIX(1, 600), CODES(600, 130), SCALES(130), MATRIX(130) }, FORM(0), 0, true },
    { "one element", { MATRIX(1, 1), CODES(1, 1), SCALES(1) }, FORM(0), 0, true },
    { "tiles", { MATRIX(1100, 52), CODES(52, 200), SCALES(200) }, FORM(0), 0, true },
    { 0 }
};

const op_def op_matmul_int8 = { .name = "matmul_int8",
                                .inputs = inputs,
                                .in_count = MATMUL_INT8_INPUTS,
                                .aliases = aliases,
                                .alias_count = 2,
                                .out_count = 1,
                                .attribute_bytes = sizeof(matmul_int8_attributes),
                                .traits = OP_PRODUCT,
                                .constants = 1u << MATMUL_INT8_SCALES | 1u << MATMUL_INT8_FIXED,
                                .infer = infer,
                                .grad = grad,
                                .cost = cost,
                                .cpu = matmul_int8_cpu,
                                .cuda = OP_CUDA(matmul_int8_cuda),
                                .confirm = { .cuda = CONFIRM_CODES },
                                .cases = cases };
