#include "ops/matmul_fp8/matmul_fp8.h"

#include "base/least.h"
#include "ops/add/add.h"
#include "ops/encode_fp8/encode_fp8.h"
#include "ops/matmul/matmul_kernel.h"
#include "ops/sum_rows/sum_rows.h"

tensor_id matmul_fp8_apply(graph *g, const matmul_fp8_inputs *in) {
    tensor_id b_scales = in->ta ? in->b + 1 : 0;
    tensor_id inputs[MATMUL_FP8_INPUTS] = { in->a,    in->b,        in->a + 1,      b_scales,
                                            in->bias, in->residual, in->accumulator };
    return graph_add(g, &op_matmul_fp8, inputs, MATMUL_FP8_INPUTS,
                     &(matmul_fp8_attributes){ .ta = in->ta,
                                               .tb = in->tb,
                                               .type = (int32_t)in->type,
                                               .a_form = (int32_t)in->a_form,
                                               .b_form = (int32_t)in->b_form });
}

bool matmul_fp8_sizes_of(const shape *a, const shape *b, const matmul_fp8_attributes *t,
                         matmul_fp8_sizes *s) {
    *s = (matmul_fp8_sizes){ .rows = t->ta ? shape_last(a) : shape_rows(a),
                             .columns = t->tb ? shape_rows(b) : shape_last(b),
                             .depth = t->ta ? shape_rows(a) : shape_last(a) };
    return s->depth == (t->tb ? shape_last(b) : shape_rows(b));
}

matmul_fp8_coded matmul_fp8_coded_of(const op_arg *b) {
    enum { LINE = 64 };
    uint64_t codes = (uint64_t)(divide_up(shape_elements(&b->shape), LINE) * LINE);
    int64_t squares = fp8_blocks(shape_rows(&b->shape)) * fp8_blocks(shape_last(&b->shape));
    if (b->dtype == DTYPE_U8) return (matmul_fp8_coded){ 0, 0 };
    return (matmul_fp8_coded){ codes, codes + (uint64_t)(divide_up(squares, LINE) * LINE) };
}

/* ---- shapes ---- */

static status check_scales(const graph *g, const node *n, uint32_t codes, uint32_t scales) {
    shape should = encode_fp8_scales(graph_shape(g, node_in(g, n, codes)));
    char have[SHAPE_TEXT_BYTES], want[SHAPE_TEXT_BYTES];
    if (shape_equal(graph_shape(g, node_in(g, n, scales)), &should)) return STATUS_OK;
    return status_set(STATUS_INVALID, "'%s' is %s, not %s", n->op->inputs[scales].name,
                      shape_text(graph_shape(g, node_in(g, n, scales)), have), shape_text(&should, want));
}

static status check_form(const graph *g, const node *n) {
    const matmul_fp8_attributes *t = node_attributes(g, n);
    bool coded = graph_tensor(g, node_in(g, n, MATMUL_FP8_B))->dtype == DTYPE_U8;
    if (t->ta && t->tb) return status_set(STATUS_INVALID, "of the two operands one may be transposed");
    if (coded != (t->ta != 0)) return status_set(STATUS_INVALID, "sums over rows have two operands in codes");
    if (coded != (node_in(g, n, MATMUL_FP8_B_SCALES) != 0))
        return status_set(STATUS_INVALID, "codes and their scales go together");
    if (!dtype_is_float((dtype)t->type) || t->type == DTYPE_F64)
        return status_set(STATUS_INVALID, "a product of codes is floats, not %s", dtype_name((dtype)t->type));
    if (node_in(g, n, MATMUL_FP8_ACCUMULATOR) && !t->ta)
        return status_set(STATUS_INVALID, "only a sum over rows has an accumulator");
    if (t->ta && (node_in(g, n, MATMUL_FP8_BIAS) || node_in(g, n, MATMUL_FP8_RESIDUAL)))
        return status_set(STATUS_INVALID, "a sum over rows has neither bias nor residual");
    TRY(check_scales(g, n, MATMUL_FP8_A, MATMUL_FP8_A_SCALES));
    return coded ? check_scales(g, n, MATMUL_FP8_B, MATMUL_FP8_B_SCALES) : STATUS_OK;
}

static status infer(const graph *g, const node *n, tensor *out) {
    const matmul_fp8_attributes *t = node_attributes(g, n);
    const shape *a = graph_shape(g, node_in(g, n, MATMUL_FP8_A)),
                *b = graph_shape(g, node_in(g, n, MATMUL_FP8_B));
    tensor_id bias = node_in(g, n, MATMUL_FP8_BIAS);
    matmul_fp8_sizes s;
    char left[SHAPE_TEXT_BYTES], right[SHAPE_TEXT_BYTES];
    if (!matmul_fp8_sizes_of(a, b, t, &s))
        return status_set(STATUS_INVALID, "%s%s and %s%s cannot be multiplied", shape_text(a, left),
                          t->ta ? "^T" : "", shape_text(b, right), t->tb ? "^T" : "");
    TRY(check_form(g, n));
    out[0] = (tensor){ .shape = *a, .dtype = (uint8_t)t->type };
    if (t->ta) out[0].shape = SHAPE(s.rows, s.columns);
    out[0].shape.dim[out[0].shape.rank - 1] = s.columns;
    if (bias && shape_elements(graph_shape(g, bias)) != s.columns)
        return status_set(STATUS_INVALID, "the bias %s does not go with the result %s",
                          shape_text(graph_shape(g, bias), left), shape_text(&out[0].shape, right));
    for (uint32_t i = MATMUL_FP8_RESIDUAL; i <= MATMUL_FP8_ACCUMULATOR; i++)
        TRY(op_check_input(g, n, i, &out[0].shape, out[0].dtype));
    return STATUS_OK;
}

/* ---- gradient ---- */

/* The gradient of a weight: x and dy, summed over their rows. */
static tensor_id gradient_of_weight(graph *g, const node *n, tensor_id dy, tensor_id gathered) {
    const matmul_fp8_attributes *t = node_attributes(g, n);
    tensor_id x = node_in(g, n, MATMUL_FP8_A), w = node_in(g, n, MATMUL_FP8_B);
    fp8_form x_form = (fp8_form)t->a_form;
    return matmul_fp8_apply(g, &(matmul_fp8_inputs){ .a = t->tb ? dy : x,
                                                     .b = t->tb ? x : dy,
                                                     .accumulator = gathered,
                                                     .ta = true,
                                                     .type = graph_gradient_dtype(g, w),
                                                     .a_form = t->tb ? FP8_E5M2 : x_form,
                                                     .b_form = t->tb ? x_form : FP8_E5M2 });
}

/* dy times the weight the other way round. */
static tensor_id gradient_of_data(graph *g, const node *n, tensor_id dy, tensor_id gathered) {
    const matmul_fp8_attributes *t = node_attributes(g, n);
    return matmul_fp8_apply(
        g, &(matmul_fp8_inputs){ .a = dy,
                                 .b = node_in(g, n, MATMUL_FP8_B),
                                 .residual = gathered,
                                 .tb = !t->tb,
                                 .type = graph_gradient_dtype(g, node_in(g, n, MATMUL_FP8_A)),
                                 .a_form = FP8_E5M2,
                                 .b_form = (fp8_form)t->b_form });
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    node n = *graph_node(g, id);
    if (((const matmul_fp8_attributes *)node_attributes(g, &n))->ta) {
        graph_fail(g, "a sum over rows on codes has no gradient");
        return;
    }
    tensor_id dy = want[MATMUL_FP8_A] || want[MATMUL_FP8_B] ? encode_fp8_apply(g, dout[0], FP8_E5M2) : 0;
    if (want[MATMUL_FP8_B]) din[MATMUL_FP8_B] = gradient_of_weight(g, &n, dy, din[MATMUL_FP8_B]);
    if (want[MATMUL_FP8_BIAS]) din[MATMUL_FP8_BIAS] = sum_rows_apply(g, dout[0], din[MATMUL_FP8_BIAS]);
    if (want[MATMUL_FP8_A]) din[MATMUL_FP8_A] = gradient_of_data(g, &n, dy, din[MATMUL_FP8_A]);
    if (want[MATMUL_FP8_RESIDUAL])
        din[MATMUL_FP8_RESIDUAL] = add_gather(g, din[MATMUL_FP8_RESIDUAL], dout[0]);
}

/* Bytes that a number of a weight costs until it is a code: it is looked at twice, and its code written. */
enum { ROUNDED = 10 };

/* Codes are widened to bf16, and multiplied as fast as that is. */
static op_cost cost(const graph *g, const node *n) {
    const matmul_fp8_attributes *t = node_attributes(g, n);
    const tensor *b = graph_tensor(g, node_in(g, n, MATMUL_FP8_B));
    matmul_fp8_sizes s;
    matmul_fp8_sizes_of(graph_shape(g, node_in(g, n, MATMUL_FP8_A)), &b->shape, t, &s);
    op_cost c = op_cost_elementwise(g, n, 0);
    c.kind = WORK_PRODUCTS_HALF;
    c.flops = 2.0 * (double)s.rows * (double)s.columns * (double)s.depth;
    c.bytes_moved = matmul_packed_moved(&(matmul_problem){ .rows = s.rows,
                                                           .columns = s.columns,
                                                           .depth = s.depth,
                                                           .a.across = true, /* not read where it lies */
                                                           .b.type = DTYPE_BF16 });
    if (b->dtype != DTYPE_U8) c.bytes_moved += ROUNDED * (double)shape_elements(&b->shape);
    return c;
}

/* ---- definition ---- */

enum { NUMBERS = DTYPE_MASK_HALF | 1u << DTYPE_F32, CODES = 1u << DTYPE_U8 };
static const op_input inputs[] = {
    { "a", CODES, 2, 4, false },           { "b", NUMBERS | CODES, 2, 4, false },
    { "a_scales", CODES, 2, 4, false },    { "b_scales", CODES, 2, 4, true },
    { "bias", NUMBERS, 1, 1, true },       { "residual", NUMBERS, 2, 4, true },
    { "accumulator", NUMBERS, 2, 4, true }
};

static const op_alias aliases[] = { { .out = 0, .in = MATMUL_FP8_RESIDUAL, .must = false },
                                    { .out = 0, .in = MATMUL_FP8_ACCUMULATOR, .must = true } };

#define SHAPE_OF(...)                                                                                        \
    { { __VA_ARGS__ }, (uint32_t)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)) }
#define FLOATS(type, ...)                                                                                    \
    { type, SHAPE_OF(__VA_ARGS__), -1, 1 }
#define MATRIX(...) FLOATS(DTYPE_F32, __VA_ARGS__)
#define PLUS(...) /* codes of e4m3 above 0, and below it */                                                  \
    { DTYPE_U8, SHAPE_OF(__VA_ARGS__), 0, 0x7f }
#define MINUS(...)                                                                                           \
    { DTYPE_U8, SHAPE_OF(__VA_ARGS__), 0x80, 0xff }
#define PLUS_E5M2(...)                                                                                       \
    { DTYPE_U8, SHAPE_OF(__VA_ARGS__), 0, 0x7c }
#define SCALES(...)                                                                                          \
    { DTYPE_U8, SHAPE_OF(__VA_ARGS__), 120, 128 }
#define NONE                                                                                                 \
    { DTYPE_NONE }
#define FORM(to, ...)                                                                                        \
    &(matmul_fp8_attributes) { .type = DTYPE_##to, __VA_ARGS__ }

static const op_case cases[] = {
    { "weight, (in, out)", { PLUS(5, 7), MATRIX(7, 9), SCALES(5, 1) }, FORM(F32, .tb = 0), 0, true },
    { "weight, (out, in)",
      { MINUS(2, 17, 300), MATRIX(35, 300), SCALES(2, 17, 3) },
      FORM(F32, .tb = 1),
      0,
      true },
    { "bias, residual",
      { PLUS(33, 140), MATRIX(140, 270), SCALES(33, 2), NONE, MATRIX(270), MATRIX(33, 270) },
      FORM(F32, .tb = 0),
      0,
      true },
    { "one row",
      { PLUS(1, 601), MATRIX(601, 130), SCALES(1, 5), NONE, MATRIX(130) },
      FORM(F32, .tb = 0),
      0,
      true },
    { "back",
      { PLUS_E5M2(40, 300), MATRIX(70, 300), SCALES(40, 3) },
      FORM(F32, .tb = 1, .a_form = FP8_E5M2),
      0,
      true },
    { "halves",
      { PLUS(33, 300), FLOATS(DTYPE_BF16, 300, 70), SCALES(33, 3), NONE, FLOATS(DTYPE_F16, 70),
        FLOATS(DTYPE_BF16, 33, 70) },
      FORM(BF16, .tb = 0),
      0,
      true },
    { "over rows",
      { PLUS(2, 150, 190), PLUS_E5M2(2, 150, 21), SCALES(2, 150, 2), SCALES(2, 150, 1) },
      FORM(F32, .ta = 1, .b_form = FP8_E5M2),
      0,
      true },
    { "over rows, added",
      { PLUS_E5M2(3, 230, 300), MINUS(3, 230, 45), SCALES(3, 230, 3), SCALES(3, 230, 1), NONE, NONE,
        MATRIX(300, 45) },
      FORM(F32, .ta = 1, .a_form = FP8_E5M2),
      0,
      true },
    { "over rows to halves",
      { PLUS(700, 19), PLUS_E5M2(700, 135), SCALES(700, 1), SCALES(700, 2) },
      FORM(BF16, .ta = 1, .b_form = FP8_E5M2),
      0,
      true },
    { "one element", { PLUS(1, 1), MATRIX(1, 1), SCALES(1, 1) }, FORM(F32, .tb = 0), 0, true },
    { "tiles", { MINUS(1100, 52), MATRIX(52, 200), SCALES(1100, 1) }, FORM(F32, .tb = 0), 0, true },
    { "sixteens, (in, out)",
      { PLUS(70, 1168), MATRIX(1168, 66), SCALES(70, 10) },
      FORM(F32, .tb = 0),
      0,
      true },
    { "sixteens, few, (in, out)",
      { PLUS(20, 304), MATRIX(304, 40), SCALES(20, 3) },
      FORM(F32, .tb = 0),
      0,
      true },
    { "sixteens, (out, in)",
      { PLUS_E5M2(70, 304), MATRIX(150, 304), SCALES(70, 3) },
      FORM(F32, .tb = 1, .a_form = FP8_E5M2),
      0,
      true },
    { "sixteens, few, (out, in)",
      { MINUS(20, 1168), MATRIX(40, 1168), SCALES(20, 10) },
      FORM(F32, .tb = 1),
      0,
      true },
    { "over rows, pairs",
      { PLUS(2, 150, 190), PLUS_E5M2(2, 150, 70), SCALES(2, 150, 2), SCALES(2, 150, 1) },
      FORM(F32, .ta = 1, .b_form = FP8_E5M2),
      0,
      true },
    { "over rows, few",
      { PLUS(300, 20), PLUS_E5M2(300, 40), SCALES(300, 1), SCALES(300, 1) },
      FORM(F32, .ta = 1, .b_form = FP8_E5M2),
      0,
      true },
    { 0 }
};

const op_def op_matmul_fp8 = { .name = "matmul_fp8",
                               .paper = "arXiv:2412.19437",
                               .inputs = inputs,
                               .in_count = MATMUL_FP8_INPUTS,
                               .aliases = aliases,
                               .alias_count = 2,
                               .out_count = 1,
                               .attribute_bytes = sizeof(matmul_fp8_attributes),
                               .traits = OP_PRODUCT | OP_WIDENED_PAIRS,
                               .infer = infer,
                               .grad = grad,
                               .cost = cost,
                               .cpu = matmul_fp8_cpu,
                               .cuda = OP_CUDA(matmul_fp8_cuda),
                               .tensor = OP_CUDA(matmul_fp8_tensor),
                               .confirm = { .tensor = { CONFIRM_GROUPS_FLOATS, CONFIRM_TMEM_FLOATS,
                                                        CONFIRM_FLOATS } },
                               .cases = cases };
