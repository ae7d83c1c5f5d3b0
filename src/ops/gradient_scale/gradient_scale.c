#include "ops/gradient_scale/gradient_scale.h"

#include "ops/add/add.h"
#include "ops/scale/scale.h"

tensor_id gradient_scale_now_apply(graph *g, tensor_id state) {
    return graph_add(g, &op_gradient_scale_now, &state, 1, NULL);
}

tensor_id gradient_scale_apply(graph *g, tensor_id x, tensor_id scale, int32_t interval) {
    return graph_add(g, &op_gradient_scale, (tensor_id[]){ x, scale }, 2,
                     &(gradient_scale_attributes){ interval });
}

tensor_id gradient_scale_update_apply(graph *g, tensor_id state, tensor_id good, tensor_id ok,
                                      int32_t interval) {
    return graph_add(g, &op_gradient_scale_update, (tensor_id[]){ state, good, ok }, 3,
                     &(gradient_scale_attributes){ interval });
}

static status check_numbers(const graph *g, const node *n, uint32_t first) {
    for (uint32_t i = first; i < n->in_count; i++)
        if (shape_elements(graph_shape(g, node_in(g, n, i))) != 1)
            return status_set(STATUS_INVALID, "'%s' must be one element", n->op->inputs[i].name);
    return STATUS_OK;
}

static op_cost cost(const graph *g, const node *n) { return op_cost_elementwise(g, n, 1); }

#define NUMBER(low, high)                                                                                    \
    { DTYPE_F32, { { 1 }, 1 }, low, high }
#define INTEGER(value)                                                                                       \
    { DTYPE_I32, { { 1 }, 1 }, value, (value) + 1 }

#define INTERVAL                                                                                             \
    &(gradient_scale_attributes) { 5 }

/* ---- its value ---- */

static status infer_now(const graph *g, const node *n, tensor *out) {
    out[0] = (tensor){ .shape = SHAPE(1), .dtype = graph_tensor(g, node_in(g, n, 0))->dtype };
    return check_numbers(g, n, 0);
}

static const op_input now_inputs[] = { { "state", DTYPE_MASK_WIDE, 1, 1, false } };
static const op_case now_cases[] = { { "later", { NUMBER(1024, 1025) }, NULL, 0, true },
                                     { "at first", { NUMBER(0, 0) }, NULL, 0, true },
                                     { 0 } };

const op_def op_gradient_scale_now = { .name = "gradient_scale_now",
                                       .paper = "arXiv:1710.03740",
                                       .inputs = now_inputs,
                                       .in_count = 1,
                                       .out_count = 1,
                                       .infer = infer_now,
                                       .cost = cost,
                                       .cpu = gradient_scale_now_cpu,
                                       .cuda = OP_CUDA(gradient_scale_now_cuda),
                                       .cases = now_cases };

/* ---- what is scaled ---- */

static status infer(const graph *g, const node *n, tensor *out) {
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    out[0] = (tensor){ .shape = x->shape, .dtype = x->dtype, .base = node_in(g, n, 0) };
    return check_numbers(g, n, 1);
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    tensor_id scale = node_in(g, graph_node(g, id), 1);
    if (want[0]) din[0] = add_gather(g, din[0], scale_apply(g, dout[0], scale, 1));
}

static const op_input inputs[] = { { "x", DTYPE_MASK_FLOAT, 1, 4, false },
                                   { "scale", DTYPE_MASK_FLOAT, 1, 1, false } };
static const op_case cases[] = { { "loss", { NUMBER(1, 2), NUMBER(1024, 1025) }, INTERVAL, 0, true }, { 0 } };

const op_def op_gradient_scale = { .name = "gradient_scale",
                                   .paper = "arXiv:1710.03740",
                                   .inputs = inputs,
                                   .in_count = 2,
                                   .out_count = 1,
                                   .traits = OP_VIEW | OP_SCALES_BACK,
                                   .attribute_bytes = sizeof(gradient_scale_attributes),
                                   .constants = 1u << 1,
                                   .infer = infer,
                                   .grad = grad,
                                   .cost = cost,
                                   .cases = cases };

/* ---- how it goes on ---- */

static status infer_update(const graph *g, const node *n, tensor *out) {
    out[0] = (tensor){ .shape = SHAPE(1), .dtype = graph_tensor(g, node_in(g, n, 0))->dtype };
    out[1] = (tensor){ .shape = SHAPE(1), .dtype = DTYPE_I32 };
    return check_numbers(g, n, 0);
}

static const op_input update_inputs[] = { { "state", DTYPE_MASK_WIDE, 1, 1, false },
                                          { "good", DTYPE_MASK_INT, 1, 1, false },
                                          { "ok", DTYPE_MASK_INT, 1, 1, false } };
static const op_alias update_aliases[] = { { .out = 0, .in = 0, .must = true },
                                           { .out = 1, .in = 1, .must = true } };
static const op_case update_cases[] = {
    { "good", { NUMBER(1024, 1024), INTEGER(2), INTEGER(1) }, INTERVAL, 0, true },
    { "grows", { NUMBER(1024, 1024), INTEGER(4), INTEGER(1) }, INTERVAL, 0, true },
    { "skipped", { NUMBER(0, 0), INTEGER(4), INTEGER(0) }, INTERVAL, 0, true },
    { "the smallest", { NUMBER(1, 1), INTEGER(4), INTEGER(0) }, INTERVAL, 0, true },
    { "the largest", { NUMBER(16777216, 16777216), INTEGER(4), INTEGER(1) }, INTERVAL, 0, true },
    { 0 }
};

const op_def op_gradient_scale_update = { .name = "gradient_scale_update",
                                          .paper = "arXiv:1710.03740",
                                          .inputs = update_inputs,
                                          .in_count = 3,
                                          .aliases = update_aliases,
                                          .alias_count = 2,
                                          .out_count = 2,
                                          .attribute_bytes = sizeof(gradient_scale_attributes),
                                          .infer = infer_update,
                                          .cost = cost,
                                          .cpu = gradient_scale_update_cpu,
                                          .cuda = OP_CUDA(gradient_scale_update_cuda),
                                          .cases = update_cases };
