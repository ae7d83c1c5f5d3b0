#include "ops/route/route.h"

#include "ops/add/add.h"

tensor_id route_apply(graph *g, tensor_id logits, const route_attributes *a) {
    return graph_add(g, &op_route, &logits, 1, a);
}

static status check(const route_attributes *a, int64_t experts) {
    if (a->chosen < 1 || a->chosen > experts || a->chosen > ROUTE_MOST_CHOSEN || experts > ROUTE_MOST_EXPERTS)
        return status_set(STATUS_INVALID,
                          "%d of %lld experts cannot be chosen; of at most %d it is 1 to %d of them",
                          a->chosen, (long long)experts, ROUTE_MOST_EXPERTS, ROUTE_MOST_CHOSEN);
    return STATUS_OK;
}

static uint8_t weights_type(const route_attributes *a, const tensor *x) {
    return a->wide ? (uint8_t)dtype_wide((dtype)x->dtype) : x->dtype;
}

static status infer(const graph *g, const node *n, tensor *out) {
    const route_attributes *a = node_attributes(g, n);
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    TRY(check(a, shape_last(&x->shape)));
    shape chosen = SHAPE(shape_rows(&x->shape), a->chosen);
    out[0] = (tensor){ .shape = chosen, .dtype = weights_type(a, x) };
    out[1] = (tensor){ .shape = chosen, .dtype = DTYPE_I32 };
    out[2] = (tensor){ .shape = SHAPE(shape_last(&x->shape)), .dtype = DTYPE_I32 };
    return STATUS_OK;
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const node *n = graph_node(g, id);
    tensor_id in[] = { node_in(g, n, 0), node_out(g, n, 1), node_out(g, n, 2), dout[0] };
    if (want[0] && dout[0])
        din[0] = add_gather(g, din[0], graph_add(g, &op_route_backward, in, 4, node_attributes(g, n)));
}

/* A softmax, and the choice: k times over all experts. */
static op_cost cost(const graph *g, const node *n) {
    const route_attributes *a = node_attributes(g, n);
    op_cost c = op_cost_elementwise(g, n, 0);
    c.flops = (25.0 + a->chosen) * (double)shape_elements(graph_shape(g, node_in(g, n, 0)));
    c.kind = WORK_FUNCTIONS;
    return c;
}

static const op_input inputs[] = { { "logits", DTYPE_MASK_FLOAT, 1, 4, false } };

static const route_attributes two = { .chosen = 2, .normalised = 1 }, four = { .chosen = 4 },
                              forty = { .chosen = 40, .normalised = 1 };

static const op_case cases[] = {
    { "two of eight", { { DTYPE_F32, { { 2, 33, 8 }, 3 }, -3, 3 } }, &two, 0, false },
    { "four of sixty, not normalised", { { DTYPE_F32, { { 40, 60 }, 2 }, -3, 3 } }, &four, 0, false },
    { "all", { { DTYPE_F32, { { 7, 4 }, 2 }, -1, 1 } }, &four, 0, false },
    { "four of many", { { DTYPE_F32, { { 150, 300 }, 2 }, -3, 3 } }, &four, 0, true },
    { "forty of many", { { DTYPE_F32, { { 9, 70 }, 2 }, -3, 3 } }, &forty, 0, true },
    { 0 }
};

const op_def op_route = { .name = "route",
                          .paper = "arXiv:1701.06538, arXiv:2401.04088",
                          .inputs = inputs,
                          .in_count = 1,
                          .out_count = 3,
                          .attribute_bytes = sizeof(route_attributes),
                          .infer = infer,
                          .grad = grad,
                          .cost = cost,
                          .cpu = route_cpu,
                          .cuda = OP_CUDA(route_cuda),
                          .cases = cases };

/* ---- the gradient ---- */

static status infer_backward(const graph *g, const node *n, tensor *out) {
    const route_attributes *a = node_attributes(g, n);
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    TRY(check(a, shape_last(&x->shape)));
    shape chosen = SHAPE(shape_rows(&x->shape), a->chosen), experts = SHAPE(shape_last(&x->shape));
    TRY(op_check_input(g, n, 1, &chosen, DTYPE_I32));
    TRY(op_check_input(g, n, 2, &experts, DTYPE_I32));
    TRY(op_check_input(g, n, 3, &chosen, weights_type(a, x)));
    out[0] = (tensor){ .shape = x->shape, .dtype = x->dtype };
    return STATUS_OK;
}

static op_cost cost_backward(const graph *g, const node *n) { return op_cost_functions(g, n, 28); }

static const op_input backward_inputs[] = { { "logits", DTYPE_MASK_FLOAT, 1, 4, false },
                                            { "places", DTYPE_MASK_INT, 2, 2, false },
                                            { "ends", DTYPE_MASK_INT, 1, 1, false },
                                            { "dweights", DTYPE_MASK_FLOAT, 2, 2, false } };
static const op_alias backward_aliases[] = { { .out = 0, .in = 0, .must = false } };

static const op_case backward_cases[] = { { "two of eight",
                                            { { DTYPE_F32, { { 33, 8 }, 2 }, -3, 3 },
                                              { DTYPE_I32, { { 33, 2 }, 2 }, 0, 66 },
                                              { DTYPE_I32, { { 8 }, 1 }, 0, 66 },
                                              { DTYPE_F32, { { 33, 2 }, 2 }, -1, 1 } },
                                            &two,
                                            0,
                                            true },
                                          { "forty of many",
                                            { { DTYPE_F32, { { 9, 70 }, 2 }, -3, 3 },
                                              { DTYPE_I32, { { 9, 40 }, 2 }, 0, 360 },
                                              { DTYPE_I32, { { 70 }, 1 }, 0, 360 },
                                              { DTYPE_F32, { { 9, 40 }, 2 }, -1, 1 } },
                                            &forty,
                                            0,
                                            true },
                                          { 0 } };

const op_def op_route_backward = { .name = "route_backward",
                                   .paper = "arXiv:1701.06538, arXiv:2401.04088",
                                   .inputs = backward_inputs,
                                   .in_count = 4,
                                   .aliases = backward_aliases,
                                   .alias_count = 1,
                                   .out_count = 1,
                                   .attribute_bytes = sizeof(route_attributes),
                                   .infer = infer_backward,
                                   .cost = cost_backward,
                                   .cpu = route_backward_cpu,
                                   .cuda = OP_CUDA(route_backward_cuda),
                                   .cases = backward_cases };
