#include "ops/scale/scale.h"

#include "ops/add/add.h"

tensor_id scale_apply(graph *g, tensor_id x, tensor_id factor_input, float factor) {
    return graph_add(g, &op_scale, (tensor_id[]){ x, factor_input }, factor_input ? 2 : 1,
                     &(scale_attributes){ .factor = factor });
}

static status infer(const graph *g, const node *n, tensor *out) {
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    tensor_id factor = node_in(g, n, 1);
    dtype wide = dtype_wide((dtype)x->dtype);
    if (factor && (shape_elements(graph_shape(g, factor)) != 1 || graph_tensor(g, factor)->dtype != wide))
        return status_set(STATUS_INVALID, "the factor must be one element of type %s", dtype_name(wide));
    out[0] = (tensor){ .shape = x->shape, .dtype = x->dtype };
    return STATUS_OK;
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const node *n = graph_node(g, id);
    const scale_attributes *a = node_attributes(g, n);
    if (want[0]) din[0] = add_gather(g, din[0], scale_apply(g, dout[0], node_in(g, n, 1), a->factor));
}

static op_cost cost(const graph *g, const node *n) { return op_cost_elementwise(g, n, 1); }

static const op_input inputs[] = { { "x", DTYPE_MASK_FLOAT, 1, 4, false },
                                   { "factor", DTYPE_MASK_FLOAT, 1, 1, true } };
static const op_alias aliases[] = { { .out = 0, .in = 0, .must = false } };

static const op_case cases[] = {
    { "attribute", { { DTYPE_F32, { { 3, 5, 7 }, 3 }, -4, 4 } }, &(scale_attributes){ 0.25f }, 0, false },
    { "input",
      { { DTYPE_F32, { { 40000 }, 1 }, -4, 4 }, { DTYPE_F32, { { 1 }, 1 }, 1, 2 } },
      &(scale_attributes){ -3 },
      0,
      false },
    { "half",
      { { DTYPE_BF16, { { 40000 }, 1 }, -4, 4 }, { DTYPE_F32, { { 1 }, 1 }, 1, 2 } },
      &(scale_attributes){ -3 },
      0,
      true },
    { 0 }
};

const op_def op_scale = { .name = "scale",
                          .inputs = inputs,
                          .in_count = 2,
                          .aliases = aliases,
                          .alias_count = 1,
                          .out_count = 1,
                          .attribute_bytes = sizeof(scale_attributes),
                          .traits = OP_ELEMENTWISE | OP_HALF,
                          .constants = 1u << 1,
                          .infer = infer,
                          .grad = grad,
                          .cost = cost,
                          .cpu = scale_cpu,
                          .cuda = OP_CUDA(scale_cuda),
                          .cases = cases };
