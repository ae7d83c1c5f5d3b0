#include "ops/quantize/quantize.h"

tensor_id quantize_apply(graph *g, const quantize_inputs *in, const quantize_attributes *attributes) {
    tensor_id inputs[] = { in->x, in->key, in->ok, in->codes, in->scales };
    return graph_add(g, &op_quantize, inputs, 5, attributes);
}

static status infer(const graph *g, const node *n, tensor *out) {
    const quantize_attributes *a = node_attributes(g, n);
    const shape *x = graph_shape(g, node_in(g, n, 0));
    tensor_id codes = node_in(g, n, 3), scales = node_in(g, n, 4);
    out[0] = (tensor){ .shape = *x, .dtype = DTYPE_I8 };
    out[1] = (tensor){ .shape = SHAPE(a->columns ? shape_last(x) : shape_rows(x)), .dtype = DTYPE_F32 };
    for (uint32_t i = 1; i <= 2; i++)
        if (node_in(g, n, i) && shape_elements(graph_shape(g, node_in(g, n, i))) != (i == 1 ? 4 : 1))
            return status_set(STATUS_INVALID, "'%s' must have %d", n->op->inputs[i].name, i == 1 ? 4 : 1);
    if (!codes != !scales) return status_set(STATUS_INVALID, "codes and their scales go together");
    if (node_in(g, n, 2) && !codes)
        return status_set(STATUS_INVALID, "what is not to change where 'ok' is 0 must be given");
    if (codes && !shape_equal(graph_shape(g, codes), x))
        return status_set(STATUS_INVALID, "the codes have another shape than 'x'");
    if (scales && !shape_equal(graph_shape(g, scales), &out[1].shape))
        return status_set(STATUS_INVALID, "there must be one scale for each %s",
                          a->columns ? "column" : "row");
    return STATUS_OK;
}

static op_cost cost(const graph *g, const node *n) {
    op_cost c = op_cost_elementwise(g, n, 0);
    double elements = (double)shape_elements(graph_shape(g, node_in(g, n, 0)));
    c.flops = 6 * elements;
    if (node_in(g, n, 1)) c.draws = elements / 2; /* two to a word */
    return c;
}

static const op_input inputs[] = { { "x", 1u << DTYPE_F32, 2, 4, false },
                                   { "key", DTYPE_MASK_INT, 1, 1, true },
                                   { "ok", DTYPE_MASK_INT, 1, 1, true },
                                   { "codes", 1u << DTYPE_I8, 2, 4, true },
                                   { "scales", 1u << DTYPE_F32, 1, 1, true } };
static const op_alias aliases[] = { { .out = 0, .in = 3, .must = true },
                                    { .out = 1, .in = 4, .must = true } };

#define MATRIX(rows, columns, low, high)                                                                     \
    { DTYPE_F32, { { rows, columns }, 2 }, low, high }
#define CODES(rows, columns)                                                                                 \
    { DTYPE_I8, { { rows, columns }, 2 }, -127, 128 }
#define SCALES(n)                                                                                            \
    { DTYPE_F32, { { n }, 1 }, 0, 1 }
#define KEY                                                                                                  \
    { DTYPE_I32, { { 4 }, 1 }, -2147483648.0, 2147483647.0 }
#define INTEGER(value)                                                                                       \
    { DTYPE_I32, { { 1 }, 1 }, value, (value) + 1 }
#define NONE                                                                                                 \
    { DTYPE_NONE }
static const op_case cases[] = {
    { "rows", { MATRIX(70, 300, -1, 1) }, &(quantize_attributes){ 0, 0 }, 0, true },
    { "columns", { MATRIX(300, 70, -1, 1) }, &(quantize_attributes){ 1, 0 }, 0, true },
    { "rows, stochastic", { MATRIX(70, 300, -3, 1), KEY }, &(quantize_attributes){ 0, 7 }, 0, true },
    { "columns, stochastic", { MATRIX(300, 515, -1, 3), KEY }, &(quantize_attributes){ 1, 7 }, 0, true },
    { "columns, in place",
      { MATRIX(300, 515, -1, 3), KEY, INTEGER(1), CODES(300, 515), SCALES(515) },
      &(quantize_attributes){ 1, 7 },
      0,
      true },
    { "skipped",
      { MATRIX(30, 51, -1, 3), KEY, INTEGER(0), CODES(30, 51), SCALES(51) },
      &(quantize_attributes){ 1, 7 },
      0,
      true },
    { "more dimensions",
      { { DTYPE_F32, { { 2, 3, 5, 7 }, 4 }, -1, 1 } },
      &(quantize_attributes){ 0, 0 },
      0,
      true },
    { "nothing but zeros", { MATRIX(3, 5, 0, 0) }, &(quantize_attributes){ 0, 0 }, 0, true },
    { "hardly more", { MATRIX(3, 5, -1e-37, 1e-37) }, &(quantize_attributes){ 1, 0 }, 0, true },
    { 0 }
};

const op_def op_quantize = { .name = "quantize",
                             .inputs = inputs,
                             .in_count = 5,
                             .aliases = aliases,
                             .alias_count = 2,
                             .out_count = 2,
                             .attribute_bytes = sizeof(quantize_attributes),
                             .infer = infer,
                             .cost = cost,
                             .cpu = quantize_cpu,
                             .cuda = OP_CUDA(quantize_cuda),
                             .cases = cases };
