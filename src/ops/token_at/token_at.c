#include "ops/token_at/token_at.h"

tensor_id token_at_apply(graph *g, tensor_id x, tensor_id place) {
    return graph_add(g, &op_token_at, (tensor_id[]){ x, place }, 2, NULL);
}

static status check_place(const graph *g, const node *n, uint32_t i, int64_t samples) {
    shape place = SHAPE(samples);
    return op_check_input(g, n, i, &place, DTYPE_I32);
}

static status infer(const graph *g, const node *n, tensor *out) {
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    TRY(check_place(g, n, 1, x->shape.dim[0]));
    out[0] = (tensor){ .shape = SHAPE(x->shape.dim[0], x->shape.dim[2]), .dtype = x->dtype };
    return STATUS_OK;
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const node *n = graph_node(g, id);
    token_at_backward_attributes back = { graph_shape(g, node_in(g, n, 0))->dim[1] };
    if (want[0])
        din[0] =
            graph_add(g, &op_token_at_backward, (tensor_id[]){ node_in(g, n, 1), dout[0], din[0] }, 3, &back);
}

static op_cost cost(const graph *g, const node *n) {
    double bytes = (double)graph_tensor_bytes(g, node_out(g, n, 0));
    return (op_cost){ .bytes_read = bytes, .bytes_written = bytes };
}

static op_range range(const graph *g, const node *n, uint32_t input) {
    return input == 1 ? (op_range){ .below = graph_shape(g, node_in(g, n, 0))->dim[1] } : (op_range){ 0 };
}

static const op_input inputs[] = { { "x", DTYPE_MASK_FLOAT, 3, 3, false },
                                   { "place", DTYPE_MASK_INT, 1, 1, false } };

static const op_case cases[] = {
    { "usual",
      { { DTYPE_F32, { { 3, 5, 7 }, 3 }, -1, 1 }, { DTYPE_I32, { { 3 }, 1 }, 0, 5 } },
      NULL,
      0,
      false },
    { "many",
      { { DTYPE_F32, { { 40, 30, 300 }, 3 }, -1, 1 }, { DTYPE_I32, { { 40 }, 1 }, 0, 30 } },
      NULL,
      0,
      false },
    { "places out of range",
      { { DTYPE_F32, { { 60, 4, 5 }, 3 }, -1, 1 }, { DTYPE_I32, { { 60 }, 1 }, -4, 9 } },
      NULL,
      0,
      true },
    { "halves",
      { { DTYPE_BF16, { { 9, 5, 70 }, 3 }, -1, 1 }, { DTYPE_I32, { { 9 }, 1 }, 0, 5 } },
      NULL,
      0,
      true },
    { 0 }
};

const op_def op_token_at = { .name = "token_at",
                             .inputs = inputs,
                             .in_count = 2,
                             .out_count = 1,
                             .traits = OP_HALF,
                             .infer = infer,
                             .grad = grad,
                             .cost = cost,
                             .range = range,
                             .cpu = token_at_cpu,
                             .cuda = OP_CUDA(token_at_cuda),
                             .cases = cases };

/* ---- the gradient ---- */

static status infer_backward(const graph *g, const node *n, tensor *out) {
    const token_at_backward_attributes *a = node_attributes(g, n);
    const tensor *dy = graph_tensor(g, node_in(g, n, 1));
    shape whole = SHAPE(dy->shape.dim[0], a->tokens, dy->shape.dim[1]);
    if (a->tokens < 1) return status_set(STATUS_INVALID, "a sample of %lld tokens", (long long)a->tokens);
    TRY(check_place(g, n, 0, dy->shape.dim[0]));
    TRY(op_check_input(g, n, 2, &whole, dy->dtype));
    out[0] = (tensor){ .shape = whole, .dtype = dy->dtype };
    return STATUS_OK;
}

static op_cost cost_backward(const graph *g, const node *n) {
    op_cost cost = op_cost_elementwise(g, n, 0);
    cost.flops = (double)shape_elements(graph_shape(g, node_in(g, n, 1)));
    return cost;
}

static const op_input backward_inputs[] = { { "place", DTYPE_MASK_INT, 1, 1, false },
                                            { "dy", DTYPE_MASK_FLOAT, 2, 2, false },
                                            { "accumulator", DTYPE_MASK_FLOAT, 3, 3, true } };
static const op_alias backward_aliases[] = { { .out = 0, .in = 2, .must = false } };

static const op_case backward_cases[] = {
    { "alone",
      { { DTYPE_I32, { { 40 }, 1 }, -1, 6 }, { DTYPE_F32, { { 40, 300 }, 2 }, -1, 1 } },
      &(token_at_backward_attributes){ 5 },
      1e-7,
      true },
    { "added",
      { { DTYPE_I32, { { 4 }, 1 }, 0, 5 },
        { DTYPE_F32, { { 4, 30 }, 2 }, -1, 1 },
        { DTYPE_F32, { { 4, 5, 30 }, 3 }, -1, 1 } },
      &(token_at_backward_attributes){ 5 },
      1e-7,
      true },
    { "halves",
      { { DTYPE_I32, { { 4 }, 1 }, 0, 5 }, { DTYPE_BF16, { { 4, 30 }, 2 }, -1, 1 } },
      &(token_at_backward_attributes){ 5 },
      0,
      true },
    { "halves, added",
      { { DTYPE_I32, { { 4 }, 1 }, 0, 5 },
        { DTYPE_F16, { { 4, 30 }, 2 }, -1, 1 },
        { DTYPE_F16, { { 4, 5, 30 }, 3 }, -1, 1 } },
      &(token_at_backward_attributes){ 5 },
      0,
      true },
    { 0 }
};

const op_def op_token_at_backward = { .name = "token_at_backward",
                                      .inputs = backward_inputs,
                                      .in_count = 3,
                                      .aliases = backward_aliases,
                                      .alias_count = 1,
                                      .out_count = 1,
                                      .attribute_bytes = sizeof(token_at_backward_attributes),
                                      .infer = infer_backward,
                                      .cost = cost_backward,
                                      .cpu = token_at_backward_cpu,
                                      .cuda = OP_CUDA(token_at_backward_cuda),
                                      .cases = backward_cases };
