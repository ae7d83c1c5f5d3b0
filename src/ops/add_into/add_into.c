#include "ops/add_into/add_into.h"

#include "ops/add/add.h"

tensor_id add_into_apply(graph *g, tensor_id sum, tensor_id x) {
    return graph_add(g, &op_add_into, (tensor_id[]){ sum, x }, 2, NULL);
}

static status infer(const graph *g, const node *n, tensor *out) {
    const tensor *sum = graph_tensor(g, node_in(g, n, 0)), *x = graph_tensor(g, node_in(g, n, 1));
    char left[SHAPE_TEXT_BYTES], right[SHAPE_TEXT_BYTES];
    if (!shape_equal(&sum->shape, &x->shape))
        return status_set(STATUS_INVALID, "%s cannot be added into %s", shape_text(&x->shape, right),
                          shape_text(&sum->shape, left));
    out[0] = (tensor){ .shape = sum->shape, .dtype = sum->dtype };
    return STATUS_OK;
}

static op_cost cost(const graph *g, const node *n) { return op_cost_elementwise(g, n, 1); }

static const op_input inputs[] = { { "sum", DTYPE_MASK_WIDE, 1, 4, false },
                                   { "x", DTYPE_MASK_FLOAT, 1, 4, false } };
static const op_alias aliases[] = { { .out = 0, .in = 0, .must = true } };

static const op_case cases[] = {
    { "matrix",
      { { DTYPE_F32, { { 7, 33 }, 2 }, -1, 1 }, { DTYPE_F32, { { 7, 33 }, 2 }, -1, 1 } },
      NULL,
      0,
      true },
    { "one element",
      { { DTYPE_F32, { { 1 }, 1 }, -1, 1 }, { DTYPE_F32, { { 1 }, 1 }, -1, 1 } },
      NULL,
      0,
      true },
    { "several pieces, narrow",
      { { DTYPE_F32, { { 3, 20011 }, 2 }, -1, 1 }, { DTYPE_BF16, { { 3, 20011 }, 2 }, -1, 1 } },
      NULL,
      0,
      true },
    { 0 }
};

/* The kernels are those of add, whose result may live in either operand. */
const op_def op_add_into = { .name = "add_into",
                             .inputs = inputs,
                             .in_count = 2,
                             .aliases = aliases,
                             .alias_count = 1,
                             .out_count = 1,
                             .traits = OP_ELEMENTWISE,
                             .infer = infer,
                             .cost = cost,
                             .cpu = add_cpu,
                             .cuda = OP_CUDA(add_cuda),
                             .cases = cases };
