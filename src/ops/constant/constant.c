#include "ops/constant/constant.h"

tensor_id constant_apply(graph *g, dtype type, double value) {
    return graph_add(g, &op_constant, NULL, 0,
                     &(constant_attributes){ .value = value, .dtype = (int32_t)type });
}

static status infer(const graph *g, const node *n, tensor *out) {
    const constant_attributes *a = node_attributes(g, n);
    out[0] = (tensor){ .shape = SHAPE(1), .dtype = (uint8_t)a->dtype };
    return STATUS_OK;
}

static op_cost cost(const graph *g, const node *n) { return op_cost_elementwise(g, n, 0); }

static const op_case cases[] = { { "one", { { 0 } }, &(constant_attributes){ 1, DTYPE_F32 }, 0, true },
                                 { 0 } };

const op_def op_constant = { .name = "constant",
                             .out_count = 1,
                             .attribute_bytes = sizeof(constant_attributes),
                             .traits = OP_SOURCE,
                             .infer = infer,
                             .cost = cost,
                             .cpu = constant_cpu,
                             .cuda = OP_CUDA(constant_cuda),
                             .cases = cases };
