#include "ops/matmul/matmul.h"
#include "ops/matmul/matmul_kernel.h"

#include "ops/add/add.h"
#include "ops/cast/cast.h"
#include "ops/reshape/reshape.h"
#include "ops/sum_rows/sum_rows.h"

tensor_id matmul_apply(graph *g, const matmul_inputs *in) {
    tensor_id inputs[] = { in->a, in->b, in->bias, in->residual, in->accumulator };
    return graph_add(g, &op_matmul, inputs, 5,
                     &(matmul_attributes){ .ta = in->ta, .tb = in->tb, .type = (int32_t)in->type });
}

bool matmul_sizes_of(const shape *a, const shape *b, const matmul_attributes *t, matmul_sizes *s) {
    *s = (matmul_sizes){ .rows = t->ta ? shape_last(a) : shape_rows(a),
                         .columns = t->tb ? shape_rows(b) : shape_last(b),
                         .depth = t->ta ? shape_rows(a) : shape_last(a),
                         .across = t->ta != 0 };
    return s->depth == (t->tb ? shape_last(b) : shape_rows(b));
}

/* ---- shapes ---- */

/* Residual and accumulator have y's type, since y may share their memory. a, b and bias may be of any type
 * that is computed in the same wide type. */
static status check_extras(const graph *g, const node *n, const tensor *y) {
    tensor_id bias = node_in(g, n, MATMUL_BIAS), residual = node_in(g, n, MATMUL_RESIDUAL);
    tensor_id accumulator = node_in(g, n, MATMUL_ACCUMULATOR);
    char have[SHAPE_TEXT_BYTES], want[SHAPE_TEXT_BYTES];
    for (uint32_t i = MATMUL_A; i <= MATMUL_ACCUMULATOR; i++) {
        tensor_id t = node_in(g, n, i);
        dtype is = t ? (dtype)graph_tensor(g, t)->dtype : DTYPE_NONE, must = (dtype)y->dtype;
        if (t && (i < MATMUL_RESIDUAL ? dtype_wide(is) != dtype_wide(must) : is != must))
            return status_set(STATUS_INVALID, "'%s' is %s, not %s", n->op->inputs[i].name,
                              dtype_name(graph_tensor(g, t)->dtype), dtype_name(y->dtype));
    }
    if (accumulator && (bias || residual))
        return status_set(STATUS_INVALID, "an accumulator leaves no room for a bias or a residual");
    if (bias && shape_elements(graph_shape(g, bias)) != shape_last(&y->shape))
        return status_set(STATUS_INVALID, "the bias %s does not go with the result %s",
                          shape_text(graph_shape(g, bias), have), shape_text(&y->shape, want));
    for (int i = 0; i < 2; i++) {
        tensor_id t = i ? accumulator : residual;
        if (t && !shape_equal(graph_shape(g, t), &y->shape))
            return status_set(STATUS_INVALID, "%s cannot be added to the result %s",
                              shape_text(graph_shape(g, t), have), shape_text(&y->shape, want));
    }
    return STATUS_OK;
}

static status infer(const graph *g, const node *n, tensor *out) {
    const matmul_attributes *t = node_attributes(g, n);
    const tensor *a = graph_tensor(g, node_in(g, n, MATMUL_A)), *b = graph_tensor(g, node_in(g, n, MATMUL_B));
    matmul_sizes s;
    char left[SHAPE_TEXT_BYTES], right[SHAPE_TEXT_BYTES];
    if (!matmul_sizes_of(&a->shape, &b->shape, t, &s))
        return status_set(STATUS_INVALID, "%s%s and %s%s cannot be multiplied", shape_text(&a->shape, left),
                          t->ta ? "^T" : "", shape_text(&b->shape, right), t->tb ? "^T" : "");
    out[0] = (tensor){ .shape = a->shape, .dtype = t->type ? (uint8_t)t->type : a->dtype };
    if (t->ta) out[0].shape = SHAPE(s.rows, s.columns);
    out[0].shape.dim[out[0].shape.rank - 1] = s.columns;
    return check_extras(g, n, &out[0]);
}

/* ---- gradient ---- */

static tensor_id as_matrix(graph *g, tensor_id t) {
    const shape *s = graph_shape(g, t);
    return t && s->rank > 2 ? reshape_apply(g, t, SHAPE(shape_rows(s), shape_last(s))) : t;
}

/* Adds the product that is the gradient of `of`. The product includes the gradient so far: `in_place` as the
 * accumulator, whose storage it takes, as the gradients of b do, which are sums over rows; else as the
 * residual. Where the product's leading dimensions differ from those of `of`, both become matrices. */
static tensor_id gradient_of(graph *g, tensor_id of, tensor_id so_far, bool in_place, matmul_inputs in) {
    if (g->failed) return 0;
    shape is = *graph_shape(g, in.a), should = *graph_shape(g, of);
    is.dim[is.rank - 1] = shape_last(&should);
    bool as_matrices = should.rank > 2 && (in.ta || !shape_equal(&is, &should));
    if (!in.ta && (as_matrices || should.rank == 2)) in.a = as_matrix(g, in.a);
    if (as_matrices) so_far = as_matrix(g, so_far);
    in.accumulator = in_place ? so_far : 0;
    in.residual = in_place ? 0 : so_far;
    in.type = graph_gradient_dtype(g, of);
    tensor_id d = matmul_apply(g, &in);
    return as_matrices ? reshape_apply(g, d, should) : d;
}

static tensor_id gradient_of_b(graph *g, const node *n, tensor_id dy, tensor_id gathered) {
    const matmul_attributes *t = node_attributes(g, n);
    tensor_id a = node_in(g, n, MATMUL_A), b = node_in(g, n, MATMUL_B);
    matmul_inputs in = { .a = a, .b = dy, .ta = t->ta == 0 };
    if (t->tb) in = (matmul_inputs){ .a = dy, .b = a, .ta = true, .tb = t->ta != 0 };
    return gradient_of(g, b, gathered, true, in);
}

static tensor_id gradient_of_a(graph *g, const node *n, tensor_id dy, tensor_id gathered) {
    const matmul_attributes *t = node_attributes(g, n);
    tensor_id b = node_in(g, n, MATMUL_B), a = node_in(g, n, MATMUL_A);
    matmul_inputs in = { .a = dy, .b = b, .tb = t->tb == 0 };
    if (t->ta) in = (matmul_inputs){ .a = b, .b = dy, .ta = t->tb != 0, .tb = true };
    return gradient_of(g, a, gathered, graph_tensor(g, a)->role == ROLE_PARAMETER, in);
}

/* What flows back, as the gradients' products read it: in the type of a and b where both have the same one of
 * 16 bits. A result that waits in f32 for an addition would else have its gradients, two products of three,
 * at the speed of f32. */
static tensor_id as_factors(graph *g, const node *n, tensor_id dy) {
    dtype a = (dtype)graph_tensor(g, node_in(g, n, MATMUL_A))->dtype;
    dtype b = (dtype)graph_tensor(g, node_in(g, n, MATMUL_B))->dtype;
    return a == b && dtype_is_half(a) ? cast_to(g, dy, a) : dy;
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    node n = *graph_node(g, id);
    tensor_id dy = want[MATMUL_A] || want[MATMUL_B] ? as_factors(g, &n, dout[0]) : 0;
    if (want[MATMUL_B]) din[MATMUL_B] = gradient_of_b(g, &n, dy, din[MATMUL_B]);
    if (want[MATMUL_BIAS]) din[MATMUL_BIAS] = sum_rows_apply(g, dout[0], din[MATMUL_BIAS]);
    if (want[MATMUL_A]) din[MATMUL_A] = gradient_of_a(g, &n, dy, din[MATMUL_A]);
    for (int i = MATMUL_RESIDUAL; i <= MATMUL_ACCUMULATOR; i++)
        if (want[i]) din[i] = add_gather(g, din[i], dout[0]);
}

op_cost matmul_cost(const graph *g, const node *n, const matmul_sizes *s) {
    enum { TILE = 64, FEW = 8 /* rows that no kernel makes by tiles */ };
    op_cost c = op_cost_elementwise(g, n, 0);
    c.kind = op_products_kind(g, n);
    c.reads = s->rows <= MATMUL_STREAM_ROWS && !s->across;
    c.flops = 2.0 * (double)s->rows * (double)s->columns * (double)s->depth;
    if (s->rows > FEW)
        c.tiles = (double)((s->rows + TILE - 1) / TILE) * (double)((s->columns + TILE - 1) / TILE);
    c.bytes_moved = matmul_packed_moved(
        &(matmul_problem){ .rows = s->rows,
                           .columns = s->columns,
                           .depth = s->depth,
                           .a.across = s->across,
                           .b.type = (dtype)graph_tensor(g, node_in(g, n, MATMUL_B))->dtype });
    return c;
}

static op_cost cost(const graph *g, const node *n) {
    matmul_sizes s;
    matmul_sizes_of(graph_shape(g, node_in(g, n, MATMUL_A)), graph_shape(g, node_in(g, n, MATMUL_B)),
                    node_attributes(g, n), &s);
    return matmul_cost(g, n, &s);
}

/* ---- definition ---- */

static const op_input inputs[] = { { "a", DTYPE_MASK_FLOAT, 2, 4, false },
                                   { "b", DTYPE_MASK_FLOAT, 2, 4, false },
                                   { "bias", DTYPE_MASK_FLOAT, 1, 1, true },
                                   { "residual", DTYPE_MASK_FLOAT, 2, 4, true },
                                   { "accumulator", DTYPE_MASK_FLOAT, 2, 4, true } };

static const op_alias aliases[] = { { .out = 0, .in = MATMUL_RESIDUAL, .must = false },
                                    { .out = 0, .in = MATMUL_ACCUMULATOR, .must = true } };

#define MATRIX(...)                                                                                          \
    { DTYPE_F32, SHAPE_OF(__VA_ARGS__), -1, 1 }
#define SHAPE_OF(...)                                                                                        \
    { { __VA_ARGS__ }, (uint32_t)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)) }
#define HALF(type, ...)                                                                                      \
    { type, SHAPE_OF(__VA_ARGS__), -1, 1 }
#define PLAIN                                                                                                \
    &(matmul_attributes) { 0, 0, 0 }

static const op_case cases[] = {
    { "plain", { MATRIX(5, 7), MATRIX(7, 9) }, PLAIN, 0, false },
    { "rank 3, bias", { MATRIX(2, 3, 8), MATRIX(8, 5), MATRIX(5) }, PLAIN, 0, false },
    { "bias, residual", { MATRIX(33, 40), MATRIX(40, 70), MATRIX(70), MATRIX(33, 70) }, PLAIN, 0, false },
    { "accumulator", { MATRIX(6, 5), MATRIX(5, 4), { 0 }, { 0 }, MATRIX(6, 4) }, PLAIN, 0, false },
    { "b transposed", { MATRIX(17, 300), MATRIX(35, 300) }, &(matmul_attributes){ 0, 1, 0 }, 0, false },
    { "a transposed", { MATRIX(2, 150, 19), MATRIX(300, 21) }, &(matmul_attributes){ 1, 0, 0 }, 0, false },
    { "ranks, plain", { MATRIX(2, 3, 6), MATRIX(2, 3, 5) }, PLAIN, 0, false },
    { "ranks, b transposed", { MATRIX(3, 6), MATRIX(2, 2, 6) }, &(matmul_attributes){ 0, 1, 0 }, 0, false },
    { "ranks, a transposed",
      { MATRIX(12, 4), MATRIX(2, 3, 2, 5) },
      &(matmul_attributes){ 1, 0, 0 },
      0,
      false },
    { "ranks, a transposed, alike",
      { MATRIX(2, 6, 4), MATRIX(2, 6, 5) },
      &(matmul_attributes){ 1, 0, 0 },
      0,
      false },
    { "ranks, both transposed",
      { MATRIX(2, 3, 4), MATRIX(5, 2, 6) },
      &(matmul_attributes){ 1, 1, 0 },
      0,
      false },
    { "a transposed, matrix", { MATRIX(30, 19), MATRIX(30, 21) }, &(matmul_attributes){ 1, 0, 0 }, 0, false },
    { "both transposed", { MATRIX(11, 4), MATRIX(6, 11) }, &(matmul_attributes){ 1, 1, 0 }, 0, false },
    { "one element", { MATRIX(1, 1), MATRIX(1, 1) }, PLAIN, 0, false },
    { "one row", { MATRIX(1, 600), MATRIX(600, 130), MATRIX(130) }, PLAIN, 0, false },
    { "halves to f32, added",
      { HALF(DTYPE_BF16, 700, 19), HALF(DTYPE_BF16, 700, 45), { 0 }, { 0 }, MATRIX(19, 45) },
      &(matmul_attributes){ 1, 0, DTYPE_F32 },
      0,
      true },
    { "f16 to f32",
      { HALF(DTYPE_F16, 40, 300), HALF(DTYPE_F16, 64, 300) },
      &(matmul_attributes){ 0, 1, DTYPE_F32 },
      0,
      true },
    { "one row of halves", { HALF(DTYPE_BF16, 1, 600), MATRIX(600, 130), MATRIX(130) }, PLAIN, 0, true },
    { "deep, residual of halves",
      { HALF(DTYPE_F16, 33, 600), HALF(DTYPE_F16, 600, 70), MATRIX(70), HALF(DTYPE_F16, 33, 70) },
      PLAIN,
      0,
      true },
    { "half of a wide",
      { MATRIX(33, 300), HALF(DTYPE_BF16, 300, 40) },
      &(matmul_attributes){ 0, 0, DTYPE_BF16 },
      0,
      true },
    { "tiles", { MATRIX(300, 520), MATRIX(520, 200) }, PLAIN, 0, true },
    { "tiles, a transposed, added",
      { MATRIX(268, 132), MATRIX(268, 72), { 0 }, { 0 }, MATRIX(132, 72) },
      &(matmul_attributes){ 1, 0, 0 },
      0,
      true },
    { "tiles, b transposed",
      { MATRIX(132, 268), MATRIX(72, 268) },
      &(matmul_attributes){ 0, 1, 0 },
      0,
      true },
    { "few rows, deep", { MATRIX(7, 1100), MATRIX(1100, 36), MATRIX(36) }, PLAIN, 0, true },
    { "few rows, deep, b transposed",
      { MATRIX(8, 1100), MATRIX(20, 1100), { 0 }, MATRIX(8, 20) },
      &(matmul_attributes){ 0, 1, 0 },
      0,
      true },
    { "odd tiles", { MATRIX(133, 267), MATRIX(267, 75) }, PLAIN, 0, true },
    { "odd tiles, both transposed",
      { MATRIX(267, 133), MATRIX(75, 267), MATRIX(75), MATRIX(133, 75) },
      &(matmul_attributes){ 1, 1, 0 },
      0,
      true },
    { 0 }
};

const op_def op_matmul = { .name = "matmul",
                           .pairs = true,
                           .inputs = inputs,
                           .in_count = 5,
                           .aliases = aliases,
                           .alias_count = 2,
                           .out_count = 1,
                           .attribute_bytes = sizeof(matmul_attributes),
                           .traits = OP_PRODUCT,
                           .infer = infer,
                           .grad = grad,
                           .cost = cost,
                           .cpu = matmul_cpu,
                           .cuda = OP_CUDA(matmul_cuda),
                           .tensor = OP_CUDA(matmul_tensor),
                           .confirm = { .tensor = { CONFIRM_GROUPS, CONFIRM_TMEM, CONFIRM_PRODUCTS } },
                           .cases = cases };
