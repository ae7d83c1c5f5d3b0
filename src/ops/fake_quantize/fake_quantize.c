#include "ops/fake_quantize/fake_quantize.h"

#include "ops/add/add.h"
#include "ops/cast/cast.h"

tensor_id fake_quantize_apply(graph *g, tensor_id x, bool columns) {
    return graph_add(g, &op_fake_quantize, &x, 1, &(fake_quantize_attributes){ .columns = columns });
}

static status infer(const graph *g, const node *n, tensor *out) {
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    out[0] = (tensor){ .shape = x->shape, .dtype = x->dtype };
    return STATUS_OK;
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const node *n = graph_node(g, id);
    dtype should = graph_gradient_dtype(g, node_in(g, n, 0));
    if (want[0]) din[0] = add_gather(g, din[0], cast_to(g, dout[0], should));
}

static op_cost cost(const graph *g, const node *n) { return op_cost_elementwise(g, n, 8); }

static const op_input inputs[] = { { "x", DTYPE_MASK_FLOAT, 2, 4, false } };
static const op_alias aliases[] = { { .out = 0, .in = 0, .must = false } };

#define MATRIX(rows, columns, low, high)                                                                     \
    { DTYPE_F32, { { rows, columns }, 2 }, low, high }
#define ROWS                                                                                                 \
    &(fake_quantize_attributes) { 0 }
#define COLUMNS                                                                                              \
    &(fake_quantize_attributes) { 1 }
static const op_case cases[] = {
    { "rows", { MATRIX(70, 300, -1, 1) }, ROWS, 1e-7, true },
    { "columns", { MATRIX(300, 70, -3, 1) }, COLUMNS, 1e-7, true },
    { "wide", { MATRIX(3, 20001, -3, 1) }, ROWS, 1e-7, true },
    { "wide, columns", { MATRIX(3, 2001, -3, 1) }, COLUMNS, 1e-7, true },
    { "one row", { MATRIX(1, 19, -3, 1) }, COLUMNS, 1e-7, true },
    { "more dimensions", { { DTYPE_F32, { { 2, 3, 5, 7 }, 4 }, -1, 1 } }, ROWS, 1e-7, true },
    { "nothing but zeros", { MATRIX(3, 5, 0, 0) }, ROWS, 1e-7, true },
    { 0 }
};

const op_def op_fake_quantize = { .name = "fake_quantize",
                                  .paper = "arXiv:1712.05877",
                                  .inputs = inputs,
                                  .in_count = 1,
                                  .aliases = aliases,
                                  .alias_count = 1,
                                  .out_count = 1,
                                  .attribute_bytes = sizeof(fake_quantize_attributes),
                                  .traits = OP_HALF,
                                  .infer = infer,
                                  .grad = grad,
                                  .cost = cost,
                                  .cpu = fake_quantize_cpu,
                                  .cuda = OP_CUDA(fake_quantize_cuda),
                                  .cases = cases };
