#include "ops/column_scale/column_scale.h"

#include "ops/add/add.h"

tensor_id column_scale_apply(graph *g, tensor_id x, tensor_id gamma) {
    return graph_add(g, &op_column_scale, (tensor_id[]){ x, gamma }, 2, NULL);
}

static status infer(const graph *g, const node *n, tensor *out) {
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    shape columns = SHAPE(shape_last(&x->shape));
    TRY(op_check_input(g, n, 1, &columns, (uint8_t)dtype_wide((dtype)x->dtype)));
    out[0] = (tensor){ .shape = x->shape, .dtype = x->dtype };
    return STATUS_OK;
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const node *n = graph_node(g, id);
    tensor_id in[] = { node_in(g, n, 0), node_in(g, n, 1), dout[0], din[1] };
    tensor_id d = graph_add(g, &op_column_scale_backward, in, 4, NULL);
    if (want[1]) din[1] = d;
    if (want[0] && d) din[0] = add_gather(g, din[0], d + 1);
}

static op_cost cost(const graph *g, const node *n) { return op_cost_elementwise(g, n, 1); }

#define VALUES                                                                                               \
    { DTYPE_F32, { { 3, 4, 5 }, 3 }, -1, 1 }
#define COLUMNS                                                                                              \
    { DTYPE_F32, { { 5 }, 1 }, -1, 1 }
static const op_input inputs[] = { { "x", DTYPE_MASK_FLOAT, 1, 4, false },
                                   { "gamma", DTYPE_MASK_FLOAT, 1, 1, false } };
static const op_alias aliases[] = { { .out = 0, .in = 0, .must = false } };
static const op_case cases[] = { { "usual", { VALUES, COLUMNS }, NULL, 0, false }, { 0 } };

const op_def op_column_scale = { .name = "column_scale",
                                 .paper = "arXiv:2103.17239",
                                 .inputs = inputs,
                                 .in_count = 2,
                                 .aliases = aliases,
                                 .alias_count = 1,
                                 .out_count = 1,
                                 .infer = infer,
                                 .grad = grad,
                                 .cost = cost,
                                 .cpu = column_scale_cpu,
                                 .cuda = OP_CUDA(column_scale_cuda),
                                 .cases = cases };

/* ---- the gradient ---- */

static status infer_backward(const graph *g, const node *n, tensor *out) {
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    shape columns = SHAPE(shape_last(&x->shape));
    uint8_t wide = (uint8_t)dtype_wide((dtype)x->dtype);
    TRY(op_check_input(g, n, 1, &columns, wide));
    TRY(op_check_input(g, n, 2, &x->shape, x->dtype));
    TRY(op_check_input(g, n, 3, &columns, wide));
    out[0] = (tensor){ .shape = columns, .dtype = wide };
    out[1] = (tensor){ .shape = x->shape, .dtype = x->dtype };
    return STATUS_OK;
}

static op_cost cost_backward(const graph *g, const node *n) { return op_cost_elementwise(g, n, 3); }

static const op_input backward_inputs[] = { { "x", DTYPE_MASK_FLOAT, 1, 4, false },
                                            { "gamma", DTYPE_MASK_FLOAT, 1, 1, false },
                                            { "dy", DTYPE_MASK_FLOAT, 1, 4, false },
                                            { "accumulator", DTYPE_MASK_FLOAT, 1, 1, true } };
static const op_alias backward_aliases[] = { { .out = 0, .in = 3, .must = true },
                                             { .out = 1, .in = 0, .must = false },
                                             { .out = 1, .in = 2, .must = false } };
static const op_case backward_cases[] = {
    { "plain", { VALUES, COLUMNS, VALUES }, NULL, 0, true },
    { "accumulator", { VALUES, COLUMNS, VALUES, COLUMNS }, NULL, 0, true },
    { "many rows",
      { { DTYPE_F32, { { 7, 100, 67 }, 3 }, -1, 1 },
        { DTYPE_F32, { { 67 }, 1 }, -1, 1 },
        { DTYPE_F32, { { 7, 100, 67 }, 3 }, -1, 1 },
        { DTYPE_F32, { { 67 }, 1 }, -1, 1 } },
      NULL,
      0,
      true },
    { 0 }
};

const op_def op_column_scale_backward = { .name = "column_scale_backward",
                                          .paper = "arXiv:2103.17239",
                                          .inputs = backward_inputs,
                                          .in_count = 4,
                                          .aliases = backward_aliases,
                                          .alias_count = 3,
                                          .out_count = 2,
                                          .infer = infer_backward,
                                          .cost = cost_backward,
                                          .cpu = column_scale_backward_cpu,
                                          .cuda = OP_CUDA(column_scale_backward_cuda),
                                          .cases = backward_cases };
