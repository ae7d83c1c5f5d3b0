#include "ops/lion/lion.h"

#include "ops/state.h"

tensor_id lion_apply(graph *g, lion_inputs in, const lion_attributes *attributes) {
    tensor_id ids[] = { in.w, in.g, in.m, in.lr, in.scale, in.ok, in.scales };
    return graph_add(g, &op_lion, ids, 7, attributes);
}

static uint8_t outputs(const graph *g, const node *n) { return node_in(g, n, 6) ? 3 : 2; }

static status infer(const graph *g, const node *n, tensor *out) {
    const tensor *w = graph_tensor(g, node_in(g, n, 0)), *d = graph_tensor(g, node_in(g, n, 1));
    char is[SHAPE_TEXT_BYTES], should[SHAPE_TEXT_BYTES];
    if (!shape_equal(&d->shape, &w->shape) || d->dtype != w->dtype)
        return status_set(STATUS_INVALID, "'g' is %s, its weight is %s", shape_text(&d->shape, is),
                          shape_text(&w->shape, should));
    for (uint32_t i = 3; i < 6; i++)
        if (node_in(g, n, i) && shape_elements(graph_shape(g, node_in(g, n, i))) != 1)
            return status_set(STATUS_INVALID, "'%s' must be one element", n->op->inputs[i].name);
    out[0] = (tensor){ .shape = w->shape, .dtype = w->dtype };
    return state_infer(g, n, &lion_states[0], out);
}

static op_cost cost(const graph *g, const node *n) { return state_cost(g, n, 5); }

static const op_input inputs[] = {
    { "w", DTYPE_MASK_FLOAT, 1, 4, false },    { "g", DTYPE_MASK_FLOAT, 1, 4, false },
    { "m", STATE_DTYPES, 1, 4, false },        { "lr", DTYPE_MASK_FLOAT, 1, 1, false },
    { "scale", DTYPE_MASK_FLOAT, 1, 1, true }, { "ok", DTYPE_MASK_INT, 1, 1, true },
    { "scales", 1u << DTYPE_F32, 1, 1, true }
};
static const op_alias aliases[] = { { .out = 0, .in = 0, .must = true },
                                    { .out = 1, .in = 2, .must = true },
                                    { .out = 2, .in = 6, .must = true } };
const op_state lion_states[1] = { { .in = 2, .out = 1, .scales = 6, .scales_out = 2 } };

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
    { "codes",
      { STATE_CASE_ARRAY(DTYPE_F32, -1, 1), STATE_CASE_ARRAY(DTYPE_F32, -1, 1),
        STATE_CASE_ARRAY(DTYPE_U8, 0, 256), ONE(1e-7, 2e-7), ONE(0.1, 2), INTEGER(1),
        STATE_CASE_SCALES(0.5, 2) },
      TYPICAL,
      1e-6,
      true },
    { "codes of one block, skipped",
      { STATE_CASE_ONE(DTYPE_F32, -1, 1),
        STATE_CASE_ONE(DTYPE_F32, -1, 1),
        STATE_CASE_ONE(DTYPE_U8, 0, 256),
        ONE(0.1, 0.2),
        { DTYPE_NONE },
        INTEGER(0),
        ONE(0.5, 1) },
      TYPICAL,
      0,
      true },
    { "16 bits",
      { ARRAY(-1, 1), ARRAY(-1, 1), STATE_CASE_ARRAY(DTYPE_BF16, -1, 1), ONE(1e-7, 2e-7) },
      TYPICAL,
      1e-6,
      true },
    { 0 }
};

const op_def op_lion = { .name = "lion",
                         .paper = "arXiv:2302.06675",
                         .inputs = inputs,
                         .in_count = 7,
                         .aliases = aliases,
                         .alias_count = 3,
                         .out_count = 3,
                         .attribute_bytes = sizeof(lion_attributes),
                         .outputs = outputs,
                         .infer = infer,
                         .cost = cost,
                         .states = lion_states,
                         .state_count = 1,
                         .cpu = lion_cpu,
                         .cases = cases };
