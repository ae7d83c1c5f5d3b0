#include "ops/matmul_coded/matmul_coded.h"

#include "ops/add/add.h"
#include "ops/matmul/matmul_kernel.h"
#include "ops/nf4.h"
#include "ops/sum_rows/sum_rows.h"

tensor_id matmul_coded_apply(graph *g, const matmul_coded_inputs *in) {
    tensor_id inputs[] = { in->x, in->codes, in->scales, in->bias, in->residual };
    return graph_add(g, &op_matmul_coded, inputs, MATMUL_CODED_INPUTS,
                     &(matmul_coded_attributes){ .tb = in->tb, .type = (int32_t)in->type, .rows = in->rows });
}

/* ---- codes ---- */

shape matmul_coded_shape(dtype codes, const shape *s) {
    return SHAPE(shape_rows(s), shape_last(s) * (codes == DTYPE_U8 ? 2 : 1));
}

int64_t matmul_coded_scales(dtype codes, const shape *matrix, bool rows) {
    int64_t blocks = codes == DTYPE_U8 ? nf4_blocks(shape_last(matrix)) : 1;
    return codes == DTYPE_U8 || rows ? shape_rows(matrix) * blocks : shape_last(matrix);
}

bool matmul_coded_can(dtype codes, const shape *matrix) {
    return matrix->rank == 2 && (codes == DTYPE_I8 || shape_last(matrix) % 2 == 0);
}

shape matmul_coded_codes(dtype codes, const shape *matrix) {
    return SHAPE(shape_rows(matrix), shape_last(matrix) / (codes == DTYPE_U8 ? 2 : 1));
}

/* ---- shapes ---- */

static status infer(const graph *g, const node *n, tensor *out) {
    const matmul_coded_attributes *t = node_attributes(g, n);
    const tensor *x = graph_tensor(g, node_in(g, n, MATMUL_CODED_X)),
                 *codes = graph_tensor(g, node_in(g, n, MATMUL_CODED_CODES));
    tensor_id bias = node_in(g, n, MATMUL_CODED_BIAS), residual = node_in(g, n, MATMUL_CODED_RESIDUAL);
    shape w = matmul_coded_shape((dtype)codes->dtype, &codes->shape);
    char left[SHAPE_TEXT_BYTES], right[SHAPE_TEXT_BYTES];
    if (shape_last(&x->shape) != w.dim[t->tb ? 1 : 0])
        return status_set(STATUS_INVALID, "%s and %s%s cannot be multiplied", shape_text(&x->shape, left),
                          shape_text(&w, right), t->tb ? "^T" : "");
    if (shape_elements(graph_shape(g, node_in(g, n, MATMUL_CODED_SCALES))) !=
        matmul_coded_scales((dtype)codes->dtype, &w, t->rows != 0))
        return status_set(STATUS_INVALID, "these are not the scales of a matrix %s", shape_text(&w, right));
    out[0] = (tensor){ .shape = x->shape, .dtype = t->type ? (uint8_t)t->type : x->dtype };
    out[0].shape.dim[out[0].shape.rank - 1] = w.dim[t->tb ? 0 : 1];
    if (bias && shape_elements(graph_shape(g, bias)) != shape_last(&out[0].shape))
        return status_set(STATUS_INVALID, "the bias %s does not go with the result %s",
                          shape_text(graph_shape(g, bias), left), shape_text(&out[0].shape, right));
    if (residual && (!shape_equal(graph_shape(g, residual), &out[0].shape) ||
                     graph_tensor(g, residual)->dtype != out[0].dtype))
        return status_set(STATUS_INVALID, "%s cannot be added to the result %s",
                          shape_text(graph_shape(g, residual), left), shape_text(&out[0].shape, right));
    return STATUS_OK;
}

/* ---- gradient ---- */

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    node n = *graph_node(g, id);
    matmul_coded_attributes t = *(const matmul_coded_attributes *)node_attributes(g, &n);
    tensor_id x = node_in(g, &n, MATMUL_CODED_X);
    if (want[MATMUL_CODED_BIAS]) din[MATMUL_CODED_BIAS] = sum_rows_apply(g, dout[0], din[MATMUL_CODED_BIAS]);
    if (want[MATMUL_CODED_X])
        din[MATMUL_CODED_X] =
            matmul_coded_apply(g, &(matmul_coded_inputs){ .x = dout[0],
                                                          .codes = node_in(g, &n, MATMUL_CODED_CODES),
                                                          .scales = node_in(g, &n, MATMUL_CODED_SCALES),
                                                          .residual = din[MATMUL_CODED_X],
                                                          .tb = t.tb == 0,
                                                          .rows = t.rows != 0,
                                                          .type = graph_gradient_dtype(g, x) });
    if (want[MATMUL_CODED_RESIDUAL])
        din[MATMUL_CODED_RESIDUAL] = add_gather(g, din[MATMUL_CODED_RESIDUAL], dout[0]);
}

/* The codes are widened once for each tile of rows; for few rows in registers, a look-up and a product each.
 */
static op_cost cost(const graph *g, const node *n) {
    const tensor *codes = graph_tensor(g, node_in(g, n, MATMUL_CODED_CODES));
    const shape *y = graph_shape(g, node_out(g, n, 0));
    shape w = matmul_coded_shape((dtype)codes->dtype, &codes->shape);
    matmul_sizes s = { .rows = shape_rows(y),
                       .columns = shape_last(y),
                       .depth = shape_last(graph_shape(g, node_in(g, n, MATMUL_CODED_X))) };
    op_cost c = matmul_cost(g, n, &s);
    if (s.rows > MATMUL_STREAM_ROWS)
        c.bytes_moved += (double)sizeof(float) * (double)shape_elements(&w);
    else
        c.work = c.flops + 2.0 * (double)shape_elements(&w);
    return c;
}

/* ---- definition ---- */

static const op_input inputs[] = { { "x", DTYPE_MASK_FLOAT, 2, 4, false },
                                   { "codes", DTYPE_MASK_BYTE, 2, 2, false },
                                   { "scales", DTYPE_MASK_WIDE, 1, 1, false },
                                   { "bias", DTYPE_MASK_FLOAT, 1, 1, true },
                                   { "residual", DTYPE_MASK_FLOAT, 2, 4, true } };
static const op_alias aliases[] = { { .out = 0, .in = MATMUL_CODED_RESIDUAL, .must = false } };

#define X(...)                                                                                               \
    {                                                                                                        \
        DTYPE_F32, { { __VA_ARGS__ }, (uint32_t)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)) },    \
            -1, 1                                                                                            \
    }
#define CODES(rows, bytes)                                                                                   \
    { DTYPE_U8, { { rows, bytes }, 2 }, 0, 256 }
#define BYTES(rows, columns)                                                                                 \
    { DTYPE_I8, { { rows, columns }, 2 }, -127, 128 }
#define SCALES(count)                                                                                        \
    { DTYPE_F32, { { count }, 1 }, 0.1, 1 }
#define HALF(type, rows, columns)                                                                            \
    { type, { { rows, columns }, 2 }, -1, 1 }
#define PLAIN                                                                                                \
    &(matmul_coded_attributes) { 0, 0, 0 }
#define TURNED                                                                                               \
    &(matmul_coded_attributes) { 1, 0, 0 }
#define BY_ROWS                                                                                              \
    &(matmul_coded_attributes) { 0, 0, 1 }
#define TURNED_BY_ROWS                                                                                       \
    &(matmul_coded_attributes) { 1, 0, 1 }

static const op_case cases[] = {
    { "4 bits", { X(5, 6), CODES(6, 5), SCALES(6) }, PLAIN, 0, false },
    { "4 bits, turned", { X(2, 3, 10), CODES(6, 5), SCALES(6) }, TURNED, 0, false },
    { "4 bits, bias, residual", { X(3, 6), CODES(6, 35), SCALES(12), X(70), X(3, 70) }, PLAIN, 0, false },
    { "8 bits", { X(2, 3, 6), BYTES(6, 5), SCALES(5), X(5) }, PLAIN, 0, false },
    { "8 bits, turned, residual",
      { X(4, 5), BYTES(6, 5), SCALES(5), { DTYPE_NONE }, X(4, 6) },
      TURNED,
      0,
      false },
    { "8 bits by rows", { X(2, 3, 6), BYTES(6, 5), SCALES(6) }, BY_ROWS, 0, false },
    { "8 bits by rows, turned", { X(4, 5), BYTES(6, 5), SCALES(6), X(6) }, TURNED_BY_ROWS, 0, false },
    { "4 bits, many", { X(70, 300), CODES(300, 101), SCALES(1200), X(202) }, PLAIN, 0, true },
    { "4 bits, many, turned", { X(70, 602), CODES(130, 301), SCALES(1300) }, TURNED, 0, true },
    { "8 bits, many", { X(70, 300), BYTES(300, 101), SCALES(101), X(101) }, PLAIN, 0, true },
    { "8 bits, many, turned", { X(70, 601), BYTES(130, 601), SCALES(601) }, TURNED, 0, true },
    { "8 bits by rows, many", { X(70, 300), BYTES(300, 101), SCALES(300) }, BY_ROWS, 0, true },
    { "8 bits by rows, many, turned", { X(70, 601), BYTES(130, 601), SCALES(130) }, TURNED_BY_ROWS, 0, true },
    { "4 bits, one row", { X(1, 300), CODES(300, 101), SCALES(1200), X(202) }, PLAIN, 0, true },
    { "8 bits, few rows, deep", { X(3, 1100), BYTES(20, 1100), SCALES(20) }, TURNED_BY_ROWS, 0, true },
    { "4 bits by halves",
      { HALF(DTYPE_BF16, 70, 300), CODES(300, 101), SCALES(1200), X(202), HALF(DTYPE_BF16, 70, 202) },
      PLAIN,
      0,
      true },
    { "4 bits, halves to f32",
      { HALF(DTYPE_F16, 70, 202), CODES(300, 101), SCALES(1200) },
      &(matmul_coded_attributes){ 1, DTYPE_F32, 0 },
      0,
      true },
    { 0 }
};

const op_def op_matmul_coded = { .name = "matmul_coded",
                                 .paper = "arXiv:2305.14314",
                                 .inputs = inputs,
                                 .in_count = MATMUL_CODED_INPUTS,
                                 .aliases = aliases,
                                 .alias_count = 1,
                                 .out_count = 1,
                                 .attribute_bytes = sizeof(matmul_coded_attributes),
                                 .traits = OP_PRODUCT,
                                 .constants = 1u << MATMUL_CODED_SCALES,
                                 .infer = infer,
                                 .grad = grad,
                                 .cost = cost,
                                 .cpu = matmul_coded_cpu,
                                 .cuda = OP_CUDA(matmul_coded_cuda),
                                 .cases = cases };
