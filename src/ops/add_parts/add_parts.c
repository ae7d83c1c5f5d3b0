#include "ops/add_parts/add_parts.h"

tensor_id add_parts_apply(graph *g, tensor_id sum, tensor_id parts) {
    return graph_add(g, &op_add_parts, (tensor_id[]){ sum, parts }, 2, NULL);
}

static status infer(const graph *g, const node *n, tensor *out) {
    const tensor *sum = graph_tensor(g, node_in(g, n, 0)), *parts = graph_tensor(g, node_in(g, n, 1));
    char left[SHAPE_TEXT_BYTES], right[SHAPE_TEXT_BYTES];
    if (shape_last(&parts->shape) != shape_elements(&sum->shape) || parts->dtype != sum->dtype)
        return status_set(STATUS_INVALID, "%s are no parts of %s", shape_text(&parts->shape, right),
                          shape_text(&sum->shape, left));
    out[0] = (tensor){ .shape = sum->shape, .dtype = sum->dtype };
    return STATUS_OK;
}

static op_cost cost(const graph *g, const node *n) {
    double sum = (double)graph_tensor_bytes(g, node_in(g, n, 0)),
           parts = (double)graph_tensor_bytes(g, node_in(g, n, 1));
    return (op_cost){ .flops = (double)shape_elements(graph_shape(g, node_in(g, n, 1))),
                      .bytes_read = sum + parts,
                      .bytes_written = sum };
}

static const op_input inputs[] = { { "sum", DTYPE_MASK_WIDE, 1, 4, false },
                                   { "parts", DTYPE_MASK_WIDE, 2, 2, false } };
static const op_alias aliases[] = { { .out = 0, .in = 0, .must = true } };

static const op_case cases[] = {
    { "three",
      { { DTYPE_F32, { { 7, 33 }, 2 }, -1, 1 }, { DTYPE_F32, { { 3, 231 }, 2 }, -1, 1 } },
      NULL,
      0,
      true },
    { "one element",
      { { DTYPE_F32, { { 1 }, 1 }, -1, 1 }, { DTYPE_F32, { { 5, 1 }, 2 }, -1, 1 } },
      NULL,
      0,
      true },
    { "several pieces",
      { { DTYPE_F32, { { 60011 }, 1 }, -1, 1 }, { DTYPE_F32, { { 2, 60011 }, 2 }, -1, 1 } },
      NULL,
      0,
      true },
    { 0 }
};

const op_def op_add_parts = { .name = "add_parts",
                              .inputs = inputs,
                              .in_count = 2,
                              .aliases = aliases,
                              .alias_count = 1,
                              .out_count = 1,
                              .infer = infer,
                              .cost = cost,
                              .cpu = add_parts_cpu,
                              .cuda = OP_CUDA(add_parts_cuda),
                              .cases = cases };
