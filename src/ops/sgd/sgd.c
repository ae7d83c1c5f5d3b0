#include "ops/sgd/sgd.h"

tensor_id sgd_apply(graph *g, sgd_inputs in, const sgd_attributes *attributes) {
    tensor_id ids[] = { in.w, in.g, in.buffer, in.lr, in.scale, in.ok };
    return graph_add(g, &op_sgd, ids, 6, attributes);
}

static uint8_t outputs(const graph *g, const node *n) { return node_in(g, n, 2) ? 2 : 1; }

static status infer(const graph *g, const node *n, tensor *out) {
    const tensor *w = graph_tensor(g, node_in(g, n, 0));
    char is[SHAPE_TEXT_BYTES], should[SHAPE_TEXT_BYTES];
    for (uint32_t i = 1; i < 6; i++) {
        if (!node_in(g, n, i)) continue;
        const tensor *x = graph_tensor(g, node_in(g, n, i));
        if (i < 3 && (!shape_equal(&x->shape, &w->shape) || x->dtype != w->dtype))
            return status_set(STATUS_INVALID, "'%s' is %s, its weight is %s", n->op->inputs[i].name,
                              shape_text(&x->shape, is), shape_text(&w->shape, should));
        if (i >= 3 && shape_elements(&x->shape) != 1)
            return status_set(STATUS_INVALID, "'%s' must be one element", n->op->inputs[i].name);
    }
    out[0] = (tensor){ .shape = w->shape, .dtype = w->dtype };
    if (n->out_count > 1) out[1] = out[0];
    return STATUS_OK;
}

static op_cost cost(const graph *g, const node *n) { return op_cost_elementwise(g, n, 4); }

static const op_input inputs[] = {
    { "w", DTYPE_MASK_FLOAT, 1, 4, false },     { "g", DTYPE_MASK_FLOAT, 1, 4, false },
    { "buffer", DTYPE_MASK_FLOAT, 1, 4, true }, { "lr", DTYPE_MASK_FLOAT, 1, 1, false },
    { "scale", DTYPE_MASK_FLOAT, 1, 1, true },  { "ok", DTYPE_MASK_INT, 1, 1, true }
};
static const op_alias aliases[] = { { .out = 0, .in = 0, .must = true },
                                    { .out = 1, .in = 2, .must = true } };

#define ONE(low, high)                                                                                       \
    { DTYPE_F32, { { 1 }, 1 }, low, high }
#define INTEGER(value)                                                                                       \
    { DTYPE_I32, { { 1 }, 1 }, value, (value) + 1 }
#define ARRAY(low, high)                                                                                     \
    { DTYPE_F32, { { 3, 67, 101 }, 3 }, low, high }
static const op_case cases[] = {
    { "everything",
      { ARRAY(-1, 1), ARRAY(-1, 1), ARRAY(-1, 1), ONE(0.1, 0.2), ONE(0.1, 2), INTEGER(1) },
      &(sgd_attributes){ 0.9f, 0.1f },
      1e-6,
      true },
    { "plain",
      { ARRAY(-1, 1), ARRAY(-1, 1), { DTYPE_NONE }, ONE(0.1, 0.2) },
      &(sgd_attributes){ 0, 0 },
      1e-6,
      true },
    { "skipped",
      { ARRAY(-1, 1), ARRAY(-1, 1), ARRAY(-1, 1), ONE(0.1, 0.2), { DTYPE_NONE }, INTEGER(0) },
      &(sgd_attributes){ 0.9f, 0.1f },
      0,
      true },
    { "plain, skipped",
      { ONE(-1, 1), ONE(-1, 1), { DTYPE_NONE }, ONE(0.1, 0.2), { DTYPE_NONE }, INTEGER(0) },
      &(sgd_attributes){ 0, 0 },
      0,
      true },
    { 0 }
};

const op_def op_sgd = { .name = "sgd",
                        .paper = "Sutskever et al., ICML 2013",
                        .inputs = inputs,
                        .in_count = 6,
                        .aliases = aliases,
                        .alias_count = 2,
                        .out_count = 2,
                        .attribute_bytes = sizeof(sgd_attributes),
                        .outputs = outputs,
                        .infer = infer,
                        .cost = cost,
                        .cpu = sgd_cpu,
                        .cases = cases };
