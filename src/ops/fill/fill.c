#include "ops/fill/fill.h"

tensor_id fill_apply(graph *g, tensor_id x, float value) {
    return graph_add(g, &op_fill, &x, 1, &(fill_attributes){ .value = value });
}

static status infer(const graph *g, const node *n, tensor *out) {
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    out[0] = (tensor){ .shape = x->shape, .dtype = x->dtype };
    return STATUS_OK;
}

static op_cost cost(const graph *g, const node *n) {
    return (op_cost){ .bytes_written = (double)graph_tensor_bytes(g, node_out(g, n, 0)) };
}

static const op_input inputs[] = { { "x", 0, 1, 4, false } };
static const op_alias aliases[] = { { .out = 0, .in = 0, .must = true } };

static const op_case cases[] = {
    { "zero", { { DTYPE_F32, { { 3, 50, 200 }, 3 }, -1, 1 } }, &(fill_attributes){ 0 }, 0, true },
    { "integers", { { DTYPE_I32, { { 7 }, 1 }, 0, 9 } }, &(fill_attributes){ 3 }, 0, true },
    { "one element", { { DTYPE_F32, { { 1 }, 1 }, -1, 1 } }, &(fill_attributes){ -2.5f }, 0, true },
    { 0 }
};

const op_def op_fill = { .name = "fill",
                         .inputs = inputs,
                         .in_count = 1,
                         .aliases = aliases,
                         .alias_count = 1,
                         .out_count = 1,
                         .attribute_bytes = sizeof(fill_attributes),
                         .traits = OP_ELEMENTWISE,
                         .places = 1u << 0,
                         .infer = infer,
                         .cost = cost,
                         .cpu = fill_cpu,
                         .cuda = OP_CUDA(fill_cuda),
                         .cases = cases };
