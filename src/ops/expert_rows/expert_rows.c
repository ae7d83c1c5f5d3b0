#include "ops/expert_rows/expert_rows.h"

#include "ops/add/add.h"
#include "ops/reshape/reshape.h"

tensor_id expert_rows_apply(graph *g, tensor_id x, tensor_id places) {
    return graph_add(g, &op_expert_rows, (tensor_id[]){ x, places }, 2, NULL);
}

tensor_id expert_sum_apply(graph *g, tensor_id x, tensor_id places, tensor_id weights) {
    return graph_add(g, &op_expert_sum, (tensor_id[]){ x, places, weights }, 3, NULL);
}

/* ---- to the places ---- */

static status infer_rows(const graph *g, const node *n, tensor *out) {
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    const shape *places = graph_shape(g, node_in(g, n, 1));
    if (places->dim[0] != shape_rows(&x->shape))
        return status_set(STATUS_INVALID, "places of %lld rows are given for %lld", (long long)places->dim[0],
                          (long long)shape_rows(&x->shape));
    out[0] = (tensor){ .shape = SHAPE(shape_elements(places), shape_last(&x->shape)), .dtype = x->dtype };
    return STATUS_OK;
}

static void grad_rows(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const node *n = graph_node(g, id);
    shape x = *graph_shape(g, node_in(g, n, 0));
    tensor_id places = node_in(g, n, 1);
    if (want[0]) din[0] = add_gather(g, din[0], reshape_apply(g, expert_sum_apply(g, dout[0], places, 0), x));
}

static op_cost cost_rows(const graph *g, const node *n) {
    op_cost c = op_cost_elementwise(g, n, 0);
    c.bytes_read += c.bytes_written - (double)graph_tensor_bytes(g, node_in(g, n, 0));
    return c;
}

static const op_input inputs[] = { { "x", DTYPE_MASK_FLOAT, 1, 4, false },
                                   { "places", DTYPE_MASK_INT, 2, 2, false } };

/* The harness draws places at random: some coincide and some stay empty, which a router's never do, so
 * finite differences of these mean nothing; tests/ops/test_mixture.c has a whole mixture. */
static const op_case cases[] = {
    { "outside",
      { { DTYPE_F32, { { 2, 9, 5 }, 3 }, -1, 1 }, { DTYPE_I32, { { 18, 2 }, 2 }, -3, 40 } },
      NULL,
      0,
      true },
    { "one place",
      { { DTYPE_F32, { { 1, 7 }, 2 }, -1, 1 }, { DTYPE_I32, { { 1, 1 }, 2 }, 0, 1 } },
      NULL,
      0,
      false },
    { 0 }
};

const op_def op_expert_rows = { .name = "expert_rows",
                                .paper = "arXiv:2211.15841",
                                .inputs = inputs,
                                .in_count = 2,
                                .out_count = 1,
                                .traits = OP_HALF,
                                .infer = infer_rows,
                                .grad = grad_rows,
                                .cost = cost_rows,
                                .cpu = expert_rows_cpu,
                                .cuda = OP_CUDA(expert_rows_cuda),
                                .cases = cases };

/* ---- from the places ---- */

static status check_sum(const graph *g, const node *n) {
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    const shape *places = graph_shape(g, node_in(g, n, 1));
    if (shape_elements(places) != x->shape.dim[0])
        return status_set(STATUS_INVALID, "%lld places are given for %lld rows",
                          (long long)shape_elements(places), (long long)x->shape.dim[0]);
    tensor_id weights = node_in(g, n, 2);
    if (weights && dtype_wide((dtype)graph_tensor(g, weights)->dtype) != dtype_wide((dtype)x->dtype))
        return status_set(STATUS_INVALID, "weights are %s, rows %s",
                          dtype_name(graph_tensor(g, weights)->dtype), dtype_name(x->dtype));
    return op_check_input(g, n, 2, places, weights ? graph_tensor(g, weights)->dtype : 0);
}

static status infer_sum(const graph *g, const node *n, tensor *out) {
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    TRY(check_sum(g, n));
    out[0] = (tensor){ .shape = SHAPE(graph_shape(g, node_in(g, n, 1))->dim[0], x->shape.dim[1]),
                       .dtype = x->dtype };
    return STATUS_OK;
}

static void grad_sum(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const node *n = graph_node(g, id);
    tensor_id in[] = { node_in(g, n, 0), node_in(g, n, 1), node_in(g, n, 2), dout[0] };
    if (!in[2]) {
        if (want[0]) din[0] = add_gather(g, din[0], expert_rows_apply(g, dout[0], in[1]));
        return;
    }
    tensor_id d = graph_add(g, &op_expert_sum_backward, in, 4, NULL);
    if (want[0] && d) din[0] = add_gather(g, din[0], d);
    if (want[2] && d) din[2] = add_gather(g, din[2], d + 1);
}

static op_cost cost_sum(const graph *g, const node *n) {
    op_cost c = op_cost_elementwise(g, n, 0);
    c.flops = 2 * (double)shape_elements(graph_shape(g, node_in(g, n, 0)));
    return c;
}

static const op_input sum_inputs[] = { { "x", DTYPE_MASK_FLOAT, 2, 2, false },
                                       { "places", DTYPE_MASK_INT, 2, 2, false },
                                       { "weights", DTYPE_MASK_FLOAT, 2, 2, true } };

static const op_case sum_cases[] = { { "weighted",
                                       { { DTYPE_F32, { { 36, 5 }, 2 }, -1, 1 },
                                         { DTYPE_I32, { { 18, 2 }, 2 }, 0, 36 },
                                         { DTYPE_F32, { { 18, 2 }, 2 }, 0, 1 } },
                                       NULL,
                                       0,
                                       true },
                                     { "outside",
                                       { { DTYPE_F32, { { 36, 5 }, 2 }, -1, 1 },
                                         { DTYPE_I32, { { 9, 4 }, 2 }, -3, 40 } },
                                       NULL,
                                       0,
                                       true },
                                     { "one place",
                                       { { DTYPE_F32, { { 1, 7 }, 2 }, -1, 1 },
                                         { DTYPE_I32, { { 1, 1 }, 2 }, 0, 1 },
                                         { DTYPE_F32, { { 1, 1 }, 2 }, 0, 1 } },
                                       NULL,
                                       0,
                                       false },
                                     { 0 } };

const op_def op_expert_sum = { .name = "expert_sum",
                               .paper = "arXiv:2211.15841",
                               .inputs = sum_inputs,
                               .in_count = 3,
                               .out_count = 1,
                               .infer = infer_sum,
                               .grad = grad_sum,
                               .cost = cost_sum,
                               .cpu = expert_sum_cpu,
                               .cuda = OP_CUDA(expert_sum_cuda),
                               .cases = sum_cases };

/* ---- the gradient of a weighted sum ---- */

static status infer_backward(const graph *g, const node *n, tensor *out) {
    const tensor *x = graph_tensor(g, node_in(g, n, 0)), *w = graph_tensor(g, node_in(g, n, 2));
    TRY(check_sum(g, n));
    shape dy = SHAPE(w->shape.dim[0], x->shape.dim[1]);
    TRY(op_check_input(g, n, 3, &dy, x->dtype));
    out[0] = (tensor){ .shape = x->shape, .dtype = x->dtype };
    out[1] = (tensor){ .shape = w->shape, .dtype = w->dtype };
    return STATUS_OK;
}

static op_cost cost_backward(const graph *g, const node *n) {
    op_cost c = op_cost_elementwise(g, n, 0);
    c.flops = 3 * (double)shape_elements(graph_shape(g, node_in(g, n, 0)));
    return c;
}

static const op_input backward_inputs[] = { { "x", DTYPE_MASK_FLOAT, 2, 2, false },
                                            { "places", DTYPE_MASK_INT, 2, 2, false },
                                            { "weights", DTYPE_MASK_FLOAT, 2, 2, false },
                                            { "dy", DTYPE_MASK_FLOAT, 2, 2, false } };

static const op_case backward_cases[] = { { "outside",
                                            { { DTYPE_F32, { { 36, 5 }, 2 }, -1, 1 },
                                              { DTYPE_I32, { { 18, 2 }, 2 }, -3, 40 },
                                              { DTYPE_F32, { { 18, 2 }, 2 }, 0, 1 },
                                              { DTYPE_F32, { { 18, 5 }, 2 }, -1, 1 } },
                                            NULL,
                                            0,
                                            true },
                                          { "wide, shared places",
                                            { { DTYPE_F32, { { 10, 300 }, 2 }, -1, 1 },
                                              { DTYPE_I32, { { 5, 2 }, 2 }, 0, 3 },
                                              { DTYPE_F32, { { 5, 2 }, 2 }, 0, 1 },
                                              { DTYPE_F32, { { 5, 300 }, 2 }, -1, 1 } },
                                            NULL,
                                            0,
                                            true },
                                          { 0 } };

const op_def op_expert_sum_backward = { .name = "expert_sum_backward",
                                        .paper = "arXiv:2211.15841",
                                        .inputs = backward_inputs,
                                        .in_count = 4,
                                        .out_count = 2,
                                        .infer = infer_backward,
                                        .cost = cost_backward,
                                        .cpu = expert_sum_backward_cpu,
                                        .cuda = OP_CUDA(expert_sum_backward_cuda),
                                        .cases = backward_cases };
