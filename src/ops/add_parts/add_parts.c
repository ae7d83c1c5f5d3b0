#include "ops/add_parts/add_parts.h"

static tensor_id apply(graph *g, tensor_id sum, tensor_id parts, const shape *s, int64_t first) {
    add_parts_attributes a = { .rank = s->rank, .first = first };
    for (uint32_t i = 0; i < s->rank; i++) a.dim[i] = s->dim[i];
    return graph_add(g, &op_add_parts, (tensor_id[]){ sum, parts }, 2, &a);
}

tensor_id add_parts_apply(graph *g, tensor_id sum, tensor_id parts, shape s) {
    return apply(g, sum, parts, &s, 0);
}

tensor_id add_piece_apply(graph *g, tensor_id sum, tensor_id parts, int64_t first) {
    shape s = sum ? *graph_shape(g, sum) : (shape){ 0 };
    return apply(g, sum, parts, &s, first);
}

static status infer(const graph *g, const node *n, tensor *out) {
    const add_parts_attributes *a = node_attributes(g, n);
    const tensor *parts = graph_tensor(g, node_in(g, n, 1));
    char left[SHAPE_TEXT_BYTES], right[SHAPE_TEXT_BYTES];
    out[0] = (tensor){ .shape = { .rank = (uint8_t)a->rank }, .dtype = parts->dtype };
    for (uint32_t i = 0; i < out[0].shape.rank; i++) out[0].shape.dim[i] = a->dim[i];
    int64_t most = shape_elements(&out[0].shape), each = shape_last(&parts->shape);
    bool fits = a->first >= 0 && each <= most && a->first <= most - each;
    if (!fits || (each < most && !node_in(g, n, 0)))
        return status_set(STATUS_INVALID, "%s are no parts of %s", shape_text(&parts->shape, right),
                          shape_text(&out[0].shape, left));
    return node_in(g, n, 0) ? op_check_input(g, n, 0, &out[0].shape, out[0].dtype) : STATUS_OK;
}

static op_cost cost(const graph *g, const node *n) {
    const shape *s = graph_shape(g, node_in(g, n, 1));
    double parts = (double)graph_tensor_bytes(g, node_in(g, n, 1)), sum = parts / (double)s->dim[0];
    return (op_cost){ .flops = (double)shape_elements(graph_shape(g, node_in(g, n, 1))),
                      .bytes_read = (node_in(g, n, 0) ? sum : 0) + parts,
                      .bytes_written = sum };
}

static const op_input inputs[] = { { "sum", DTYPE_MASK_WIDE, 1, 4, true },
                                   { "parts", DTYPE_MASK_WIDE, 2, 2, false } };
static const op_alias aliases[] = { { .out = 0, .in = 0, .must = true } };

static const op_case cases[] = {
    { "three",
      { { DTYPE_F32, { { 7, 33 }, 2 }, -1, 1 }, { DTYPE_F32, { { 3, 231 }, 2 }, -1, 1 } },
      &(add_parts_attributes){ { 7, 33 }, 2, 0 },
      0,
      true },
    { "one element",
      { { DTYPE_F32, { { 1 }, 1 }, -1, 1 }, { DTYPE_F32, { { 5, 1 }, 2 }, -1, 1 } },
      &(add_parts_attributes){ { 1 }, 1, 0 },
      0,
      true },
    { "several pieces",
      { { DTYPE_F32, { { 60011 }, 1 }, -1, 1 }, { DTYPE_F32, { { 2, 60011 }, 2 }, -1, 1 } },
      &(add_parts_attributes){ { 60011 }, 1, 0 },
      0,
      true },
    { "a piece",
      { { DTYPE_F32, { { 7, 33 }, 2 }, -1, 1 }, { DTYPE_F32, { { 3, 40 }, 2 }, -1, 1 } },
      &(add_parts_attributes){ { 7, 33 }, 2, 100 },
      0,
      true },
    { "the last piece",
      { { DTYPE_F32, { { 60011 }, 1 }, -1, 1 }, { DTYPE_F32, { { 2, 50000 }, 2 }, -1, 1 } },
      &(add_parts_attributes){ { 60011 }, 1, 10011 },
      0,
      true },
    { "without a sum",
      { { DTYPE_NONE, { { 0 }, 0 }, 0, 0 }, { DTYPE_F32, { { 3, 60011 }, 2 }, -1, 1 } },
      &(add_parts_attributes){ { 60011 }, 1, 0 },
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
                              .attribute_bytes = sizeof(add_parts_attributes),
                              .infer = infer,
                              .cost = cost,
                              .cpu = add_parts_cpu,
                              .cuda = OP_CUDA(add_parts_cuda),
                              .cases = cases };
