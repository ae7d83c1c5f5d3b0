#include "ops/class_token/class_token.h"

#include "ops/add/add.h"

tensor_id class_token_apply(graph *g, tensor_id x, tensor_id token) {
    return graph_add(g, &op_class_token, (tensor_id[]){ x, token }, 2, NULL);
}

static status infer(const graph *g, const node *n, tensor *out) {
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    shape token = SHAPE(x->shape.dim[2]);
    TRY(op_check_input(g, n, 1, &token, x->dtype));
    out[0] =
        (tensor){ .shape = SHAPE(x->shape.dim[0], x->shape.dim[1] + 1, x->shape.dim[2]), .dtype = x->dtype };
    return STATUS_OK;
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    (void)id;
    tensor_id d = graph_add(g, &op_class_token_backward, (tensor_id[]){ dout[0], din[1] }, 2, NULL);
    if (want[1]) din[1] = d;
    if (want[0] && d) din[0] = add_gather(g, din[0], d + 1);
}

static op_cost cost(const graph *g, const node *n) { return op_cost_elementwise(g, n, 0); }

static const op_input inputs[] = { { "x", DTYPE_MASK_FLOAT, 3, 3, false },
                                   { "token", DTYPE_MASK_FLOAT, 1, 1, false } };
static const op_case cases[] = { { "usual",
                                   { { DTYPE_F32, { { 3, 4, 5 }, 3 }, -1, 1 },
                                     { DTYPE_F32, { { 5 }, 1 }, -1, 1 } },
                                   NULL,
                                   0,
                                   false },
                                 { 0 } };

const op_def op_class_token = { .name = "class_token",
                                .paper = "arXiv:2010.11929",
                                .inputs = inputs,
                                .in_count = 2,
                                .out_count = 1,
                                .infer = infer,
                                .grad = grad,
                                .cost = cost,
                                .cpu = class_token_cpu,
                                .cuda = OP_CUDA(class_token_cuda),
                                .cases = cases };

/* ---- the gradient ---- */

static status infer_backward(const graph *g, const node *n, tensor *out) {
    const tensor *dy = graph_tensor(g, node_in(g, n, 0));
    shape token = SHAPE(dy->shape.dim[2]);
    TRY(op_check_input(g, n, 1, &token, dy->dtype));
    if (dy->shape.dim[1] < 2) return status_set(STATUS_INVALID, "there is no token beside the class token");
    out[0] = (tensor){ .shape = token, .dtype = dy->dtype };
    out[1] = (tensor){ .shape = SHAPE(dy->shape.dim[0], dy->shape.dim[1] - 1, dy->shape.dim[2]),
                       .dtype = dy->dtype };
    return STATUS_OK;
}

static const op_input backward_inputs[] = { { "dy", DTYPE_MASK_FLOAT, 3, 3, false },
                                            { "accumulator", DTYPE_MASK_FLOAT, 1, 1, true } };
static const op_alias backward_aliases[] = { { .out = 0, .in = 1, .must = true } };
static const op_case backward_cases[] = {
    { "plain", { { DTYPE_F32, { { 3, 5, 5 }, 3 }, -1, 1 } }, NULL, 0, true },
    { "accumulator",
      { { DTYPE_F32, { { 3, 5, 5 }, 3 }, -1, 1 }, { DTYPE_F32, { { 5 }, 1 }, -1, 1 } },
      NULL,
      0,
      true },
    { 0 }
};

const op_def op_class_token_backward = { .name = "class_token_backward",
                                         .paper = "arXiv:2010.11929",
                                         .inputs = backward_inputs,
                                         .in_count = 2,
                                         .aliases = backward_aliases,
                                         .alias_count = 1,
                                         .out_count = 2,
                                         .infer = infer_backward,
                                         .cost = cost,
                                         .cpu = class_token_backward_cpu,
                                         .cuda = OP_CUDA(class_token_backward_cuda),
                                         .cases = backward_cases };
