#include "ops/lion/lion.h"

tensor_id lion_apply(graph *g, lion_inputs in, const lion_attributes *attributes) {
    tensor_id ids[] = { in.w, in.g, in.m, in.lr, in.scale, in.ok };
    return graph_add(g, &op_lion, ids, 6, attributes);
}

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
    out[0] = out[1] = (tensor){ .shape = w->shape, .dtype = w->dtype };
    return STATUS_OK;
}

static op_cost cost(const graph *g, const node *n) { return op_cost_elementwise(g, n, 5); }

static const op_input inputs[] = {
    { "w", DTYPE_MASK_FLOAT, 1, 4, false },    { "g", DTYPE_MASK_FLOAT, 1, 4, false },
    { "m", DTYPE_MASK_FLOAT, 1, 4, false },    { "lr", DTYPE_MASK_FLOAT, 1, 1, false },
    { "scale", DTYPE_MASK_FLOAT, 1, 1, true }, { "ok", DTYPE_MASK_INT, 1, 1, true }
};
static const op_alias aliases[] = { { .out = 0, .in = 0, .must = true },
                                    { .out = 1, .in = 2, .must = true } };

#define TYPICAL                                                                                              \
    &(lion_attributes) { 0.9f, 0.99f, 0.1f }
#define ONE(low, high)                                                                                       \
    { DTYPE_F32, { { 1 }, 1 }, low, high }
#define INTEGER(value)                                                                                       \
    { DTYPE_I32, { { 1 }, 1 }, value, (value) + 1 }
#define ARRAY(low, high)                                                                                     \
    { DTYPE_F32, { { 3, 67, 101 }, 3 }, low, high }
/* Where the mean is all but 0, f32 and double may disagree on its sign; steps are small beside weights, so
 * that the tolerance is one of m. */
static const op_case cases[] = {
    { "everything",
      { ARRAY(-1, 1), ARRAY(-1, 1), ARRAY(-1, 1), ONE(1e-7, 2e-7), ONE(0.1, 2), INTEGER(1) },
      TYPICAL,
      1e-6,
      true },
    { "large steps, no clipping",
      { ARRAY(-1, 1), ARRAY(0.1, 1), ARRAY(0.1, 1), ONE(0.1, 0.2) },
      &(lion_attributes){ 0.9f, 0.99f, 0 },
      1e-6,
      true },
    { "nothing flows back", { ARRAY(-1, 1), ARRAY(0, 0), ARRAY(0, 0), ONE(0.1, 0.2) }, TYPICAL, 1e-6, true },
    { "skipped",
      { ARRAY(-1, 1), ARRAY(-1, 1), ARRAY(-1, 1), ONE(0.1, 0.2), { DTYPE_NONE }, INTEGER(0) },
      TYPICAL,
      0,
      true },
    { 0 }
};

const op_def op_lion = { .name = "lion",
                         .paper = "arXiv:2302.06675",
                         .inputs = inputs,
                         .in_count = 6,
                         .aliases = aliases,
                         .alias_count = 2,
                         .out_count = 2,
                         .attribute_bytes = sizeof(lion_attributes),
                         .infer = infer,
                         .cost = cost,
                         .cpu = lion_cpu,
                         .cases = cases };
