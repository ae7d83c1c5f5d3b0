#include "ops/add/add.h"

#include "ops/cast/cast.h"

tensor_id add_apply(graph *g, tensor_id a, tensor_id b) {
    return graph_add(g, &op_add, (tensor_id[]){ a, b }, 2, NULL);
}

tensor_id add_gather(graph *g, tensor_id gathered, tensor_id d) {
    return gathered ? add_apply(g, gathered, d) : d;
}

static status infer(const graph *g, const node *n, tensor *out) {
    const tensor *a = graph_tensor(g, node_in(g, n, 0)), *b = graph_tensor(g, node_in(g, n, 1));
    char left[SHAPE_TEXT_BYTES], right[SHAPE_TEXT_BYTES];
    bool alike = dtype_wide((dtype)a->dtype) == dtype_wide((dtype)b->dtype);
    if (!shape_equal(&a->shape, &b->shape) || !alike)
        return status_set(STATUS_INVALID, "%s %s and %s %s cannot be added", dtype_name(a->dtype),
                          shape_text(&a->shape, left), dtype_name(b->dtype), shape_text(&b->shape, right));
    out[0] = (tensor){ .shape = a->shape, .dtype = a->dtype };
    return STATUS_OK;
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    for (uint32_t i = 0; i < 2; i++) {
        if (!want[i]) continue;
        dtype should = graph_gradient_dtype(g, node_in(g, graph_node(g, id), i));
        din[i] = add_gather(g, din[i], cast_to(g, dout[0], should));
    }
}

static op_cost cost(const graph *g, const node *n) { return op_cost_elementwise(g, n, 1); }

static const op_input inputs[] = { { "a", DTYPE_MASK_FLOAT, 1, 4, false },
                                   { "b", DTYPE_MASK_FLOAT, 1, 4, false } };
static const op_alias aliases[] = { { .out = 0, .in = 0, .must = false },
                                    { .out = 0, .in = 1, .must = false } };

static const op_case cases[] = {
    { "matrix",
      { { DTYPE_F32, { { 7, 33 }, 2 }, -1, 1 }, { DTYPE_F32, { { 7, 33 }, 2 }, -1, 1 } },
      NULL,
      0,
      false },
    { "one element",
      { { DTYPE_F32, { { 1 }, 1 }, -1, 1 }, { DTYPE_F32, { { 1 }, 1 }, -1, 1 } },
      NULL,
      0,
      false },
    { "several pieces",
      { { DTYPE_F32, { { 3, 20011 }, 2 }, -1, 1 }, { DTYPE_F32, { { 3, 20011 }, 2 }, -1, 1 } },
      NULL,
      0,
      false },
    { "narrow to wide",
      { { DTYPE_F32, { { 3, 5011 }, 2 }, -1, 1 }, { DTYPE_BF16, { { 3, 5011 }, 2 }, -1, 1 } },
      NULL,
      0,
      true },
    { "wide to narrow",
      { { DTYPE_F16, { { 3, 5011 }, 2 }, -1, 1 }, { DTYPE_F32, { { 3, 5011 }, 2 }, -1, 1 } },
      NULL,
      0,
      true },
    { 0 }
};

const op_def op_add = { .name = "add",
                        .inputs = inputs,
                        .in_count = 2,
                        .aliases = aliases,
                        .alias_count = 2,
                        .out_count = 1,
                        .traits = OP_ELEMENTWISE,
                        .infer = infer,
                        .grad = grad,
                        .cost = cost,
                        .cpu = add_cpu,
                        .cuda = OP_CUDA(add_cuda),
                        .cases = cases };
