#include "ops/zeros/zeros.h"

tensor_id zeros_apply(graph *g, shape s) {
    zeros_attributes a = { .rank = s.rank };
    for (uint32_t i = 0; i < s.rank; i++) a.dim[i] = s.dim[i];
    return graph_add(g, &op_zeros, NULL, 0, &a);
}

static status infer(const graph *g, const node *n, tensor *out) {
    const zeros_attributes *a = node_attributes(g, n);
    out[0] = (tensor){ .shape = { .rank = (uint8_t)a->rank }, .dtype = DTYPE_F32 };
    for (uint32_t i = 0; i < out[0].shape.rank; i++) out[0].shape.dim[i] = a->dim[i];
    return STATUS_OK;
}

static op_cost cost(const graph *g, const node *n) {
    return (op_cost){ .bytes_written = (double)graph_tensor_bytes(g, node_out(g, n, 0)) };
}

static const op_case cases[] = {
    { "one element", { { 0 } }, &(zeros_attributes){ { 1 }, 1 }, 0, true },
    { "several pieces", { { 0 } }, &(zeros_attributes){ { 3, 50, 200 }, 3 }, 0, true },
    { 0 }
};

const op_def op_zeros = { .name = "zeros",
                          .out_count = 1,
                          .attribute_bytes = sizeof(zeros_attributes),
                          .traits = OP_SOURCE,
                          .infer = infer,
                          .cost = cost,
                          .cpu = zeros_cpu,
                          .cuda = OP_CUDA(zeros_cuda),
                          .cases = cases };
