#include "ops/matmul_int4/matmul_int4.h"

tensor_id matmul_int4_apply(graph *g, const matmul_int4_inputs *in) {
    tensor_id inputs[MATMUL_INT4_INPUTS] = { in->a, in->codes, in->scales, in->bias, in->residual };
    return graph_add(g, &op_matmul_int4, inputs, MATMUL_INT4_INPUTS,
                     &(matmul_int4_attributes){ .type = (int32_t)in->type });
}

/* ---- shapes ---- */

static status check_extras(const graph *g, const node *n, const tensor *y) {
    tensor_id bias = node_in(g, n, MATMUL_INT4_BIAS), residual = node_in(g, n, MATMUL_INT4_RESIDUAL);
    char have[SHAPE_TEXT_BYTES], want[SHAPE_TEXT_BYTES];
    if (bias && shape_elements(graph_shape(g, bias)) != shape_last(&y->shape))
        return status_set(STATUS_INVALID, "%lld biases do not go with %lld outputs",
                          (long long)shape_elements(graph_shape(g, bias)), (long long)shape_last(&y->shape));
    if (!residual) return STATUS_OK;
    const tensor *r = graph_tensor(g, residual);
    if (shape_equal(&r->shape, &y->shape) && r->dtype == y->dtype) return STATUS_OK;
    return status_set(STATUS_INVALID, "'residual', %s %s, does not go with the result %s",
                      dtype_name((dtype)r->dtype), shape_text(&r->shape, have), shape_text(&y->shape, want));
}

static status infer(const graph *g, const node *n, tensor *out) {
    const matmul_int4_attributes *t = node_attributes(g, n);
    const tensor *a = graph_tensor(g, node_in(g, n, MATMUL_INT4_A));
    const shape *codes = graph_shape(g, node_in(g, n, MATMUL_INT4_CODES)),
                *scales = graph_shape(g, node_in(g, n, MATMUL_INT4_SCALES));
    int64_t depth = shape_last(&a->shape), outputs = codes->dim[0];
    shape as = codes4_shape(outputs, depth), with = codes4_scales_shape(outputs, depth);
    char left[SHAPE_TEXT_BYTES], right[SHAPE_TEXT_BYTES];
    if (!codes4_can(depth))
        return status_set(STATUS_INVALID, "sums over %lld numbers are no whole groups of %d",
                          (long long)depth, CODES4_GROUP);
    if (!shape_equal(codes, &as) || !shape_equal(scales, &with))
        return status_set(STATUS_INVALID, "%s and codes of 4 bits %s cannot be multiplied",
                          shape_text(&a->shape, left), shape_text(codes, right));
    out[0] = (tensor){ .shape = a->shape, .dtype = t->type ? (uint8_t)t->type : a->dtype };
    out[0].shape.dim[out[0].shape.rank - 1] = outputs;
    return check_extras(g, n, &out[0]);
}

/* Bytes that a number of a costs on its way to a code: looked at twice, written once. */
enum { QUANTIZED = 9 };

/* Codes are read as they lie, whatever the rows. Each two groups of 32 have sums and scales of their own, so
 * processors do half as much in a second as of products whose codes are packed. */
enum { OF_GROUPS = 2 };

static op_cost cost(const graph *g, const node *n) {
    const shape *y = graph_shape(g, node_out(g, n, 0));
    double a_elements = (double)shape_elements(graph_shape(g, node_in(g, n, MATMUL_INT4_A)));
    op_cost c = op_cost_elementwise(g, n, 0);
    c.kind = WORK_CODES, c.reads = true;
    c.flops = 2.0 * a_elements * (double)shape_last(y);
    c.work = OF_GROUPS * c.flops;
    c.bytes_moved = QUANTIZED * a_elements;
    return c;
}

/* ---- definition ---- */

enum { OPERAND = DTYPE_MASK_HALF | 1u << DTYPE_F32 };
static const op_input inputs[] = { { "a", OPERAND, 2, 4, false },
                                   { "codes", 1u << DTYPE_U8, 2, 2, false },
                                   { "scales", 1u << DTYPE_F16, 1, 1, false },
                                   { "bias", OPERAND, 1, 1, true },
                                   { "residual", OPERAND, 2, 4, true } };
static const op_alias aliases[] = { { .out = 0, .in = MATMUL_INT4_RESIDUAL, .must = false } };

#define FLOATS(type, ...)                                                                                    \
    { type, { { __VA_ARGS__ }, (uint32_t)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)) }, -1, 1 }
#define MATRIX(...) FLOATS(DTYPE_F32, __VA_ARGS__)
#define CODES(outputs, depth)                                                                                \
    { DTYPE_U8, { { outputs, (depth) / 2 }, 2 }, 0, 256 }, {                                                 \
        DTYPE_F16, { { (outputs) * (depth) / CODES4_GROUP }, 1 }, -0.02, 0.02                                \
    }
#define AS(t)                                                                                                \
    &(matmul_int4_attributes) { .type = t }

static const op_case cases[] = {
    { "one of all", { MATRIX(1, 32), CODES(1, 32) }, AS(0), 0, true },
    { "one row", { MATRIX(1, 96), CODES(35, 96), MATRIX(35) }, AS(0), 0, true },
    { "some rows, bias, residual",
      { MATRIX(2, 3, 288), CODES(70, 288), MATRIX(70), MATRIX(2, 3, 70) },
      AS(0),
      0,
      true },
    { "eight rows, whole panels", { MATRIX(8, 544), CODES(64, 544) }, AS(0), 0, true },
    { "more rows than at once", { MATRIX(27, 256), CODES(49, 256), MATRIX(49) }, AS(0), 0, true },
    { "more than a wave",
      { MATRIX(300, 64), CODES(40, 64), { DTYPE_NONE }, MATRIX(300, 40) },
      AS(0),
      0,
      true },
    { "wide", { MATRIX(2, 64), CODES(1100, 64) }, AS(0), 0, true },
    { "halves",
      { FLOATS(DTYPE_BF16, 5, 320), CODES(33, 320), FLOATS(DTYPE_F16, 33), FLOATS(DTYPE_BF16, 5, 33) },
      AS(0),
      0,
      true },
    { "halves to f32", { FLOATS(DTYPE_F16, 12, 64), CODES(50, 64) }, AS(DTYPE_F32), 0, true },
    { 0 }
};

const op_def op_matmul_int4 = { .name = "matmul_int4",
                                .paper = "arXiv:2212.09720",
                                .inputs = inputs,
                                .in_count = MATMUL_INT4_INPUTS,
                                .aliases = aliases,
                                .alias_count = 1,
                                .out_count = 1,
                                .attribute_bytes = sizeof(matmul_int4_attributes),
                                .traits = OP_PRODUCT,
                                .constants = 1u << MATMUL_INT4_SCALES,
                                .infer = infer,
                                .cost = cost,
                                .cpu = matmul_int4_cpu,
                                .cuda = OP_CUDA(matmul_int4_cuda),
                                .cases = cases };
