#include "ops/matmul_gelu/matmul_gelu.h"

#include "ops/gelu/gelu.h"
#include "ops/matmul/matmul_kernel.h"

static status infer_product(const graph *g, const node *n, tensor *out) {
    const matmul_gelu_attributes *t = node_attributes(g, n);
    const tensor *a = graph_tensor(g, node_in(g, n, MATMUL_A)), *b = graph_tensor(g, node_in(g, n, MATMUL_B));
    matmul_sizes s;
    bool alike = dtype_wide((dtype)a->dtype) == dtype_wide((dtype)b->dtype);
    if (!matmul_sizes_of(&a->shape, &b->shape, &t->product, &s) || !alike)
        return status_set(STATUS_INVALID, "these two matrices cannot be multiplied");
    out[0] = (tensor){ .shape = a->shape, .dtype = t->product.type ? (uint8_t)t->product.type : a->dtype };
    if (t->product.ta) out[0].shape = SHAPE(s.rows, s.columns);
    out[0].shape.dim[out[0].shape.rank - 1] = s.columns;
    return STATUS_OK;
}

static status infer(const graph *g, const node *n, tensor *out) {
    TRY(infer_product(g, n, out));
    tensor_id bias = node_in(g, n, MATMUL_GELU_BIAS);
    if (bias && shape_elements(graph_shape(g, bias)) != shape_last(&out[0].shape))
        return status_set(STATUS_INVALID, "the bias does not go with the result");
    return STATUS_OK;
}

static status infer_backward(const graph *g, const node *n, tensor *out) {
    TRY(infer_product(g, n, out));
    const tensor *x = graph_tensor(g, node_in(g, n, MATMUL_GELU_X));
    if (!shape_equal(&x->shape, &out[0].shape) || x->dtype != out[0].dtype)
        return status_set(STATUS_INVALID, "x does not have the shape and type of the result");
    return STATUS_OK;
}

static op_cost cost_with(const graph *g, const node *n, bool slope) {
    const matmul_gelu_attributes *t = node_attributes(g, n);
    matmul_sizes s;
    matmul_sizes_of(graph_shape(g, node_in(g, n, MATMUL_A)), graph_shape(g, node_in(g, n, MATMUL_B)),
                    &t->product, &s);
    op_cost c = matmul_cost(g, n, &s);
    c.functions = gelu_flops(t->tanh != 0, slope) * (double)s.rows * (double)s.columns;
    return c;
}

static op_cost cost(const graph *g, const node *n) { return cost_with(g, n, false); }
static op_cost cost_backward(const graph *g, const node *n) { return cost_with(g, n, true); }

static const op_input inputs[] = { { "a", DTYPE_MASK_FLOAT, 2, 4, false },
                                   { "b", DTYPE_MASK_FLOAT, 2, 4, false },
                                   { "bias", DTYPE_MASK_FLOAT, 1, 1, true } };
static const op_input backward_inputs[] = { { "a", DTYPE_MASK_FLOAT, 2, 4, false },
                                            { "b", DTYPE_MASK_FLOAT, 2, 4, false },
                                            { "x", DTYPE_MASK_FLOAT, 2, 4, false } };

#define MATRIX(...)                                                                                          \
    { DTYPE_F32, SHAPE_OF(__VA_ARGS__), -1, 1 }
#define SHAPE_OF(...)                                                                                        \
    { { __VA_ARGS__ }, (uint32_t)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)) }
#define HALF(type, ...)                                                                                      \
    { type, SHAPE_OF(__VA_ARGS__), -1, 1 }
#define FORM(ta, tb, tanh)                                                                                   \
    &(matmul_gelu_attributes) { { ta, tb, 0 }, tanh }

static const op_case cases[] = {
    { "tanh, bias", { MATRIX(2, 30, 70), MATRIX(70, 50), MATRIX(50) }, FORM(0, 0, 1), 0, true },
    { "erf, b transposed", { MATRIX(33, 300), MATRIX(35, 300) }, FORM(0, 1, 0), 0, true },
    { "one row", { MATRIX(1, 600), MATRIX(600, 130), MATRIX(130) }, FORM(0, 0, 1), 0, true },
    { "tiles", { MATRIX(300, 520), MATRIX(520, 200) }, FORM(0, 0, 1), 0, true },
    { "halves",
      { HALF(DTYPE_BF16, 40, 300), HALF(DTYPE_BF16, 300, 70), HALF(DTYPE_BF16, 70) },
      FORM(0, 0, 1),
      0.02,
      true },
    { "bias in bf16", { MATRIX(40, 300), MATRIX(300, 70), HALF(DTYPE_BF16, 70) }, FORM(0, 0, 1), 0, true },
    { "f16, erf", { HALF(DTYPE_F16, 2, 600), HALF(DTYPE_F16, 130, 600) }, FORM(0, 1, 0), 0.002, true },
    { 0 }
};

static const op_case backward_cases[] = {
    { "tanh", { MATRIX(2, 30, 50), MATRIX(70, 50), MATRIX(2, 30, 70) }, FORM(0, 1, 1), 0, true },
    { "erf, a transposed", { MATRIX(300, 19), MATRIX(300, 21), MATRIX(19, 21) }, FORM(1, 0, 0), 0, true },
    { "one row", { MATRIX(1, 600), MATRIX(600, 130), MATRIX(1, 130) }, FORM(0, 0, 1), 0, true },
    { "tiles", { MATRIX(300, 520), MATRIX(520, 200), MATRIX(300, 200) }, FORM(0, 0, 1), 0, true },
    { "halves",
      { HALF(DTYPE_BF16, 40, 300), HALF(DTYPE_BF16, 70, 300), HALF(DTYPE_BF16, 40, 70) },
      FORM(0, 1, 1),
      0.02,
      true },
    { "f16, erf",
      { HALF(DTYPE_F16, 300, 19), HALF(DTYPE_F16, 300, 21), HALF(DTYPE_F16, 19, 21) },
      FORM(1, 0, 0),
      0.002,
      true },
    { 0 }
};

const op_def op_matmul_gelu = { .name = "matmul_gelu",
                                .pairs = true,
                                .paper = "arXiv:1606.08415",
                                .inputs = inputs,
                                .in_count = 3,
                                .out_count = 1,
                                .attribute_bytes = sizeof(matmul_gelu_attributes),
                                .infer = infer,
                                .cost = cost,
                                .cpu = matmul_gelu_cpu,
                                .cuda = OP_CUDA(matmul_gelu_cuda),
                                .tensor = OP_CUDA(matmul_gelu_tensor),
                                .confirm = { .tensor = { CONFIRM_GROUPS, CONFIRM_TMEM, CONFIRM_PRODUCTS } },
                                .cases = cases };

const op_def op_matmul_gelu_backward = { .name = "matmul_gelu_backward",
                                         .pairs = true,
                                         .paper = "arXiv:1606.08415",
                                         .inputs = backward_inputs,
                                         .in_count = 3,
                                         .out_count = 1,
                                         .attribute_bytes = sizeof(matmul_gelu_attributes),
                                         .infer = infer_backward,
                                         .cost = cost_backward,
                                         .cpu = matmul_gelu_backward_cpu,
                                         .cuda = OP_CUDA(matmul_gelu_backward_cuda),
                                         .tensor = OP_CUDA(matmul_gelu_backward_tensor),
                                         .confirm = { .tensor = { CONFIRM_GROUPS, CONFIRM_TMEM,
                                                                  CONFIRM_PRODUCTS } },
                                         .cases = backward_cases };
