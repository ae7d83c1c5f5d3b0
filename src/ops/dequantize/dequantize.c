#include "ops/dequantize/dequantize.h"

tensor_id dequantize_apply(graph *g, tensor_id codes, tensor_id scales, bool columns) {
    return graph_add(g, &op_dequantize, (tensor_id[]){ codes, scales }, 2,
                     &(dequantize_attributes){ .columns = columns });
}

static status infer(const graph *g, const node *n, tensor *out) {
    const dequantize_attributes *a = node_attributes(g, n);
    const shape *x = graph_shape(g, node_in(g, n, 0));
    if (shape_elements(graph_shape(g, node_in(g, n, 1))) != (a->columns ? shape_last(x) : shape_rows(x)))
        return status_set(STATUS_INVALID, "there must be one scale for each %s",
                          a->columns ? "column" : "row");
    out[0] = (tensor){ .shape = *x, .dtype = DTYPE_F32 };
    return STATUS_OK;
}

static op_cost cost(const graph *g, const node *n) { return op_cost_elementwise(g, n, 1); }

static const op_input inputs[] = { { "codes", 1u << DTYPE_I8, 2, 4, false },
                                   { "scales", 1u << DTYPE_F32, 1, 1, false } };

static const op_case cases[] = {
    { "rows",
      { { DTYPE_I8, { { 7, 300 }, 2 }, -127, 128 }, { DTYPE_F32, { { 7 }, 1 }, 0, 1 } },
      &(dequantize_attributes){ 0 },
      1e-7,
      true },
    { "columns",
      { { DTYPE_I8, { { 300, 7 }, 2 }, -127, 128 }, { DTYPE_F32, { { 7 }, 1 }, 0, 1 } },
      &(dequantize_attributes){ 1 },
      1e-7,
      true },
    { 0 }
};

const op_def op_dequantize = { .name = "dequantize",
                               .inputs = inputs,
                               .in_count = 2,
                               .out_count = 1,
                               .attribute_bytes = sizeof(dequantize_attributes),
                               .infer = infer,
                               .cost = cost,
                               .cpu = dequantize_cpu,
                               .cuda = OP_CUDA(dequantize_cuda),
                               .cases = cases };
