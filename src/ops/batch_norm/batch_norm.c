#include "ops/batch_norm/batch_norm.h"

#include "ops/add/add.h"

tensor_id batch_norm_apply(graph *g, tensor_id x, tensor_id gamma, tensor_id beta, float eps) {
    return graph_add(g, &op_batch_norm, (tensor_id[]){ x, gamma, beta }, 3, &(batch_norm_attributes){ eps });
}

tensor_id batch_norm_fixed_apply(graph *g, const tensor_id in[5], float eps) {
    return graph_add(g, &op_batch_norm_fixed, in, 5, &(batch_norm_attributes){ eps });
}

/* Inputs first .. last are a number for each channel. */
static status check_channels(const graph *g, const node *n, uint32_t first, uint32_t last) {
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    shape channels = SHAPE(shape_last(&x->shape));
    for (uint32_t i = first; i <= last; i++)
        TRY(op_check_input(g, n, i, &channels, (uint8_t)dtype_wide((dtype)x->dtype)));
    return STATUS_OK;
}

/* `again`: further passes over x, and of the gradient over dy as well. */
static op_cost passes_over(const graph *g, const node *n, double flops, double again) {
    op_cost c = op_cost_elementwise(g, n, 0);
    c.flops = flops * (double)shape_elements(graph_shape(g, node_in(g, n, 0)));
    c.bytes_again = again * (double)graph_tensor_bytes(g, node_in(g, n, 0));
    return c;
}

static status infer(const graph *g, const node *n, tensor *out) {
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    TRY(check_channels(g, n, 1, 2));
    out[0] = (tensor){ .shape = x->shape, .dtype = x->dtype };
    out[1] = out[2] =
        (tensor){ .shape = SHAPE(shape_last(&x->shape)), .dtype = (uint8_t)dtype_wide((dtype)x->dtype) };
    return STATUS_OK;
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const node *n = graph_node(g, id);
    if (!dout[0]) return;
    tensor_id in[] = {
        node_in(g, n, 0), node_in(g, n, 1), node_out(g, n, 1), node_out(g, n, 2), dout[0], din[1], din[2]
    };
    tensor_id d = graph_add(g, &op_batch_norm_backward, in, 7, NULL);
    if (!d) return;
    if (want[0]) din[0] = add_gather(g, din[0], d);
    for (uint32_t i = 1; i < 3; i++)
        if (want[i]) din[i] = d + i;
}

/* Means, squares, results: each reads x. */
static op_cost cost(const graph *g, const node *n) { return passes_over(g, n, 8, 2); }

#define VALUES(...)                                                                                          \
    { DTYPE_F32, { __VA_ARGS__ }, -2, 3 }
#define CHANNELS(n)                                                                                          \
    { DTYPE_F32, { { n }, 1 }, -1, 1 }
#define POSITIVE(n)                                                                                          \
    { DTYPE_F32, { { n }, 1 }, 0.5, 2 }
static const batch_norm_attributes usual = { 1e-5f };

static const op_input inputs[] = { { "x", DTYPE_MASK_FLOAT, 2, 4, false },
                                   { "gamma", DTYPE_MASK_FLOAT, 1, 1, false },
                                   { "beta", DTYPE_MASK_FLOAT, 1, 1, false } };

static const op_case cases[] = {
    { "images", { VALUES({ 3, 4, 5, 7 }, 4), CHANNELS(7), CHANNELS(7) }, &usual, 0, false },
    { "rows", { VALUES({ 300, 5 }, 2), CHANNELS(5), CHANNELS(5) }, &usual, 0, false },
    { 0 }
};

const op_def op_batch_norm = { .name = "batch_norm",
                               .paper = "arXiv:1502.03167",
                               .inputs = inputs,
                               .in_count = 3,
                               .out_count = 3,
                               .attribute_bytes = sizeof(batch_norm_attributes),
                               .traits = OP_COUPLES_SAMPLES | OP_WANTS_SAMPLES | OP_HALF,
                               .infer = infer,
                               .grad = grad,
                               .cost = cost,
                               .cpu = batch_norm_cpu,
                               .cuda = OP_CUDA(batch_norm_cuda),
                               .cases = cases };

/* ---- the gradient ---- */

static status infer_backward(const graph *g, const node *n, tensor *out) {
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    TRY(check_channels(g, n, 1, 3));
    TRY(op_check_input(g, n, 4, &x->shape, x->dtype));
    TRY(check_channels(g, n, 5, 6));
    out[0] = (tensor){ .shape = x->shape, .dtype = x->dtype };
    out[1] = out[2] =
        (tensor){ .shape = SHAPE(shape_last(&x->shape)), .dtype = (uint8_t)dtype_wide((dtype)x->dtype) };
    return STATUS_OK;
}

static op_cost cost_backward(const graph *g, const node *n) { return passes_over(g, n, 14, 2); }

static const op_input backward_inputs[] = { { "x", DTYPE_MASK_FLOAT, 2, 4, false },
                                            { "gamma", DTYPE_MASK_FLOAT, 1, 1, false },
                                            { "mean", DTYPE_MASK_FLOAT, 1, 1, false },
                                            { "rstd", DTYPE_MASK_FLOAT, 1, 1, false },
                                            { "dy", DTYPE_MASK_FLOAT, 2, 4, false },
                                            { "accumulator_dgamma", DTYPE_MASK_FLOAT, 1, 1, true },
                                            { "accumulator_dbeta", DTYPE_MASK_FLOAT, 1, 1, true } };
static const op_alias backward_aliases[] = { { .out = 0, .in = 0, .must = false },
                                             { .out = 0, .in = 4, .must = false },
                                             { .out = 1, .in = 5, .must = true },
                                             { .out = 2, .in = 6, .must = true } };

static const op_case backward_cases[] = { { "plain",
                                            { VALUES({ 3, 4, 5, 7 }, 4), CHANNELS(7), CHANNELS(7),
                                              POSITIVE(7), VALUES({ 3, 4, 5, 7 }, 4) },
                                            NULL,
                                            0,
                                            true },
                                          { "accumulators",
                                            { VALUES({ 300, 5 }, 2), CHANNELS(5), CHANNELS(5), POSITIVE(5),
                                              VALUES({ 300, 5 }, 2), CHANNELS(5), CHANNELS(5) },
                                            NULL,
                                            0,
                                            true },
                                          { 0 } };

const op_def op_batch_norm_backward = { .name = "batch_norm_backward",
                                        .paper = "arXiv:1502.03167",
                                        .inputs = backward_inputs,
                                        .in_count = 7,
                                        .aliases = backward_aliases,
                                        .alias_count = 4,
                                        .out_count = 3,
                                        .traits = OP_COUPLES_SAMPLES | OP_WANTS_SAMPLES,
                                        .infer = infer_backward,
                                        .cost = cost_backward,
                                        .cpu = batch_norm_backward_cpu,
                                        .cuda = OP_CUDA(batch_norm_backward_cuda),
                                        .cases = backward_cases };

/* ---- averages that run along ---- */

static status infer_running(const graph *g, const node *n, tensor *out) {
    const tensor *mean = graph_tensor(g, node_in(g, n, 0));
    for (uint32_t i = 1; i < 4; i++) TRY(op_check_input(g, n, i, &mean->shape, mean->dtype));
    if (((const batch_norm_running_attributes *)node_attributes(g, n))->rows < 1)
        return status_set(STATUS_INVALID, "a batch of no rows has no mean");
    out[0] = out[1] = (tensor){ .shape = mean->shape, .dtype = mean->dtype };
    return STATUS_OK;
}

static op_cost cost_running(const graph *g, const node *n) { return op_cost_elementwise(g, n, 4); }

static const op_input running_inputs[] = { { "running_mean", DTYPE_MASK_WIDE, 1, 1, false },
                                           { "running_variance", DTYPE_MASK_WIDE, 1, 1, false },
                                           { "mean", DTYPE_MASK_WIDE, 1, 1, false },
                                           { "rstd", DTYPE_MASK_WIDE, 1, 1, false } };
static const op_alias running_aliases[] = { { .out = 0, .in = 0, .must = true },
                                            { .out = 1, .in = 1, .must = true } };

static const batch_norm_running_attributes tenth = { .rows = 60, .eps = 1e-5f, .momentum = 0.1f };
static const op_case running_cases[] = {
    { "a tenth", { CHANNELS(7), POSITIVE(7), CHANNELS(7), POSITIVE(7) }, &tenth, 0, true }, { 0 }
};

const op_def op_batch_norm_running = { .name = "batch_norm_running",
                                       .paper = "arXiv:1502.03167",
                                       .inputs = running_inputs,
                                       .in_count = 4,
                                       .aliases = running_aliases,
                                       .alias_count = 2,
                                       .out_count = 2,
                                       .attribute_bytes = sizeof(batch_norm_running_attributes),
                                       .infer = infer_running,
                                       .cost = cost_running,
                                       .cpu = batch_norm_running_cpu,
                                       .cuda = OP_CUDA(batch_norm_running_cuda),
                                       .cases = running_cases };

/* ---- with them ---- */

static status infer_fixed(const graph *g, const node *n, tensor *out) {
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    TRY(check_channels(g, n, 1, 4));
    out[0] = (tensor){ .shape = x->shape, .dtype = x->dtype };
    return STATUS_OK;
}

static op_cost cost_fixed(const graph *g, const node *n) { return op_cost_elementwise(g, n, 4); }

static const op_input fixed_inputs[] = { { "x", DTYPE_MASK_FLOAT, 2, 4, false },
                                         { "gamma", DTYPE_MASK_FLOAT, 1, 1, false },
                                         { "beta", DTYPE_MASK_FLOAT, 1, 1, false },
                                         { "mean", DTYPE_MASK_FLOAT, 1, 1, false },
                                         { "variance", DTYPE_MASK_FLOAT, 1, 1, false } };
static const op_alias fixed_aliases[] = { { .out = 0, .in = 0, .must = false } };

static const op_case fixed_cases[] = { { "images",
                                         { VALUES({ 3, 4, 5, 7 }, 4), CHANNELS(7), CHANNELS(7), CHANNELS(7),
                                           POSITIVE(7) },
                                         &usual,
                                         0,
                                         true },
                                       { 0 } };

const op_def op_batch_norm_fixed = { .name = "batch_norm_fixed",
                                     .paper = "arXiv:1502.03167",
                                     .inputs = fixed_inputs,
                                     .in_count = 5,
                                     .aliases = fixed_aliases,
                                     .alias_count = 1,
                                     .out_count = 1,
                                     .attribute_bytes = sizeof(batch_norm_attributes),
                                     .traits = OP_HALF,
                                     .infer = infer_fixed,
                                     .cost = cost_fixed,
                                     .cpu = batch_norm_fixed_cpu,
                                     .cuda = OP_CUDA(batch_norm_fixed_cuda),
                                     .cases = fixed_cases };
