#include "ops/lion/lion.h"

#include <stddef.h>

#include "ops/state.h"

tensor_id lion_apply(graph *g, lion_inputs in, const lion_attributes *attributes) {
    tensor_id ids[] = { in.w, in.g, in.m, in.lr, in.scale, in.ok, in.scales, in.key };
    return graph_add(g, &op_lion, ids, 8, attributes);
}

static uint8_t outputs(const graph *g, const node *n) { return node_in(g, n, 6) ? 3 : 2; }

static status infer(const graph *g, const node *n, tensor *out) {
    TRY(state_infer_weight(g, n, 3, 5, out));
    return state_infer(g, n, &lion_states[0], out);
}

static op_cost cost(const graph *g, const node *n) { return state_cost(g, n, 5); }

static const op_input inputs[] = {
    { "w", DTYPE_MASK_FLOAT, 1, 4, false },    { "g", DTYPE_MASK_FLOAT, 1, 4, false },
    { "m", STATE_DTYPES, 1, 4, false },        { "lr", DTYPE_MASK_FLOAT, 1, 1, false },
    { "scale", DTYPE_MASK_FLOAT, 1, 1, true }, { "ok", DTYPE_MASK_INT, 1, 1, true },
    { "scales", 1u << DTYPE_F32, 1, 1, true }, { "key", DTYPE_MASK_INT, 1, 1, true }
};
static const op_alias aliases[] = { { .out = 0, .in = 0, .must = true },
                                    { .out = 1, .in = 2, .must = true },
                                    { .out = 2, .in = 6, .must = true } };
const op_state lion_states[1] = { { .in = 2, .out = 1, .scales = 6, .scales_out = 2, .drifts = true } };

#define TYPICAL                                                                                              \
    &(lion_attributes) { 0.9f, 0.99f, 0.1f, 7 }
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
      &(lion_attributes){ 0.9f, 0.99f, 0, 7 },
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
    { "all of 16 bits, stochastic",
      { STATE_CASE_ARRAY(DTYPE_BF16, -1, 1),
        STATE_CASE_ARRAY(DTYPE_BF16, -1, 1),
        STATE_CASE_ARRAY(DTYPE_BF16, -1, 1),
        ONE(1e-7, 2e-7),
        ONE(0.1, 2),
        INTEGER(1),
        { DTYPE_NONE },
        { DTYPE_I32, { { 4 }, 1 }, -2147483648.0, 2147483647.0 } },
      &(lion_attributes){ 0.9f, 0.99f, 0.1f, 7 },
      0,
      true },
    { "weight of 16 bits, codes",
      { STATE_CASE_ARRAY(DTYPE_BF16, -1, 1),
        STATE_CASE_ARRAY(DTYPE_F32, -1, 1),
        STATE_CASE_ARRAY(DTYPE_U8, 0, 256),
        ONE(1e-7, 2e-7),
        { DTYPE_NONE },
        { DTYPE_NONE },
        STATE_CASE_SCALES(0.5, 2),
        { DTYPE_I32, { { 4 }, 1 }, -2147483648.0, 2147483647.0 } },
      &(lion_attributes){ 0.9f, 0.99f, 0.1f, 7 },
      1e-6,
      true },
    { 0 }
};

static const op_update update = { lion_states, 1, 7, offsetof(lion_attributes, stream) };

const op_def op_lion = { .name = "lion",
                         .paper = "arXiv:2302.06675",
                         .inputs = inputs,
                         .in_count = 8,
                         .aliases = aliases,
                         .alias_count = 3,
                         .out_count = 3,
                         .attribute_bytes = sizeof(lion_attributes),
                         .outputs = outputs,
                         .infer = infer,
                         .cost = cost,
                         .update = &update,
                         .cpu = lion_cpu,
                         .cuda = OP_CUDA(lion_cuda),
                         .cases = cases };
