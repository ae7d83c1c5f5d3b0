#include "ops/softmax/softmax.h"

#include "ops/add/add.h"

tensor_id softmax_apply(graph *g, tensor_id x) { return graph_add(g, &op_softmax, &x, 1, NULL); }

static status infer(const graph *g, const node *n, tensor *out) {
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    out[0] = (tensor){ .shape = x->shape, .dtype = x->dtype };
    return STATUS_OK;
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    if (!want[0]) return;
    tensor_id in[] = { node_out(g, graph_node(g, id), 0), dout[0] };
    din[0] = add_gather(g, din[0], graph_add(g, &op_softmax_backward, in, 2, NULL));
}

static op_cost cost(const graph *g, const node *n) { return op_cost_functions(g, n, 20); }

static const op_input inputs[] = { { "x", DTYPE_MASK_FLOAT, 1, 4, false } };
static const op_alias aliases[] = { { .out = 0, .in = 0, .must = false } };

static const op_case cases[] = { { "rows", { { DTYPE_F32, { { 3, 5, 37 }, 3 }, -4, 4 } }, NULL, 0, false },
                                 { "tiles", { { DTYPE_F32, { { 300, 16 }, 2 }, -1, 1 } }, NULL, 0, false },
                                 { "far", { { DTYPE_F32, { { 4, 100 }, 2 }, -200, 200 } }, NULL, 0, true },
                                 { "vector", { { DTYPE_F32, { { 130 }, 1 }, -4, 4 } }, NULL, 0, false },
                                 { "one", { { DTYPE_F32, { { 1 }, 1 }, -4, 4 } }, NULL, 0, false },
                                 { "kept", { { DTYPE_F32, { { 7, 4096 }, 2 }, -4, 4 } }, NULL, 0, true },
                                 { "wider", { { DTYPE_F32, { { 3, 4200 }, 2 }, -4, 4 } }, NULL, 0, true },
                                 { 0 } };

const op_def op_softmax = { .name = "softmax",
                            .paper = "Bridle 1990",
                            .inputs = inputs,
                            .in_count = 1,
                            .aliases = aliases,
                            .alias_count = 1,
                            .out_count = 1,
                            .traits = OP_HALF,
                            .infer = infer,
                            .grad = grad,
                            .cost = cost,
                            .cpu = softmax_cpu,
                            .cuda = OP_CUDA(softmax_cuda),
                            .cases = cases };

static status infer_backward(const graph *g, const node *n, tensor *out) {
    const tensor *y = graph_tensor(g, node_in(g, n, 0)), *dy = graph_tensor(g, node_in(g, n, 1));
    char left[SHAPE_TEXT_BYTES], right[SHAPE_TEXT_BYTES];
    if (!shape_equal(&y->shape, &dy->shape) || y->dtype != dy->dtype)
        return status_set(STATUS_INVALID, "the result is %s %s and its gradient %s %s", dtype_name(y->dtype),
                          shape_text(&y->shape, left), dtype_name(dy->dtype), shape_text(&dy->shape, right));
    out[0] = (tensor){ .shape = dy->shape, .dtype = dy->dtype };
    return STATUS_OK;
}

static op_cost cost_backward(const graph *g, const node *n) { return op_cost_functions(g, n, 4); }

static const op_input backward_inputs[] = { { "y", DTYPE_MASK_FLOAT, 1, 4, false },
                                            { "dy", DTYPE_MASK_FLOAT, 1, 4, false } };
static const op_alias backward_aliases[] = { { .out = 0, .in = 1, .must = false },
                                             { .out = 0, .in = 0, .must = false } };

static const op_case backward_cases[] = {
    { "rows",
      { { DTYPE_F32, { { 3, 37 }, 2 }, 0, 0.1 }, { DTYPE_F32, { { 3, 37 }, 2 }, -1, 1 } },
      NULL,
      0,
      true },
    { "tiles",
      { { DTYPE_F32, { { 300, 16 }, 2 }, 0, 0.1 }, { DTYPE_F32, { { 300, 16 }, 2 }, -1, 1 } },
      NULL,
      0,
      true },
    { "kept",
      { { DTYPE_F32, { { 5, 4096 }, 2 }, 0, 0.1 }, { DTYPE_F32, { { 5, 4096 }, 2 }, -1, 1 } },
      NULL,
      0,
      true },
    { "wider",
      { { DTYPE_F32, { { 3, 4200 }, 2 }, 0, 0.1 }, { DTYPE_F32, { { 3, 4200 }, 2 }, -1, 1 } },
      NULL,
      0,
      true },
    { "one", { { DTYPE_F32, { { 1 }, 1 }, 1, 1 }, { DTYPE_F32, { { 1 }, 1 }, -1, 1 } }, NULL, 0, true },
    { 0 }
};

const op_def op_softmax_backward = { .name = "softmax_backward",
                                     .paper = "Bridle 1990",
                                     .inputs = backward_inputs,
                                     .in_count = 2,
                                     .aliases = backward_aliases,
                                     .alias_count = 2,
                                     .out_count = 1,
                                     .infer = infer_backward,
                                     .cost = cost_backward,
                                     .cpu = softmax_backward_cpu,
                                     .cuda = OP_CUDA(softmax_backward_cuda),
                                     .cases = backward_cases };
