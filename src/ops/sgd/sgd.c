#include "ops/sgd/sgd.h"

#include <stddef.h>

#include "ops/state.h"

tensor_id sgd_apply(graph *g, sgd_inputs in, const sgd_attributes *attributes) {
    tensor_id ids[] = { in.w, in.g, in.buffer, in.lr, in.scale, in.ok, in.scales, in.key };
    return graph_add(g, &op_sgd, ids, 8, attributes);
}

static uint8_t outputs(const graph *g, const node *n) {
    return (uint8_t)(1 + (node_in(g, n, 2) != 0) + (node_in(g, n, 6) != 0));
}

static status infer(const graph *g, const node *n, tensor *out) {
    TRY(state_infer_weight(g, n, 3, 5, out));
    if (!node_in(g, n, 2) && node_in(g, n, 6)) return status_set(STATUS_INVALID, "scales of no buffer");
    return node_in(g, n, 2) ? state_infer(g, n, &sgd_states[0], out) : STATUS_OK;
}

static op_cost cost(const graph *g, const node *n) { return state_cost(g, n, 4); }

static const op_input inputs[] = {
    { "w", DTYPE_MASK_FLOAT, 1, 4, false },    { "g", DTYPE_MASK_FLOAT, 1, 4, false },
    { "buffer", STATE_DTYPES, 1, 4, true },    { "lr", DTYPE_MASK_FLOAT, 1, 1, false },
    { "scale", DTYPE_MASK_FLOAT, 1, 1, true }, { "ok", DTYPE_MASK_INT, 1, 1, true },
    { "scales", 1u << DTYPE_F32, 1, 1, true }, { "key", DTYPE_MASK_INT, 1, 1, true }
};
static const op_alias aliases[] = { { .out = 0, .in = 0, .must = true },
                                    { .out = 1, .in = 2, .must = true },
                                    { .out = 2, .in = 6, .must = true } };
const op_state sgd_states[1] = { { .in = 2, .out = 1, .scales = 6, .scales_out = 2 } };

#define ONE(low, high)                                                                                       \
    { DTYPE_F32, { { 1 }, 1 }, low, high }
#define INTEGER(value)                                                                                       \
    { DTYPE_I32, { { 1 }, 1 }, value, (value) + 1 }
#define ARRAY(low, high)                                                                                     \
    { DTYPE_F32, { { 3, 67, 101 }, 3 }, low, high }
static const op_case cases[] = {
    { "everything",
      { ARRAY(-1, 1), ARRAY(-1, 1), ARRAY(-1, 1), ONE(0.1, 0.2), ONE(0.1, 2), INTEGER(1) },
      &(sgd_attributes){ 0.9f, 0.1f, 7 },
      1e-6,
      true },
    { "plain",
      { ARRAY(-1, 1), ARRAY(-1, 1), { DTYPE_NONE }, ONE(0.1, 0.2) },
      &(sgd_attributes){ 0, 0, 7 },
      1e-6,
      true },
    { "skipped",
      { ARRAY(-1, 1), ARRAY(-1, 1), ARRAY(-1, 1), ONE(0.1, 0.2), { DTYPE_NONE }, INTEGER(0) },
      &(sgd_attributes){ 0.9f, 0.1f, 7 },
      0,
      true },
    { "plain, skipped",
      { ONE(-1, 1), ONE(-1, 1), { DTYPE_NONE }, ONE(0.1, 0.2), { DTYPE_NONE }, INTEGER(0) },
      &(sgd_attributes){ 0, 0, 7 },
      0,
      true },
    { "codes",
      { STATE_CASE_ARRAY(DTYPE_F32, -1, 1), STATE_CASE_ARRAY(DTYPE_F32, -1, 1),
        STATE_CASE_ARRAY(DTYPE_U8, 0, 256), ONE(0.1, 0.2), ONE(0.1, 2), INTEGER(1),
        STATE_CASE_SCALES(0.5, 2) },
      &(sgd_attributes){ 0.9f, 0.1f, 7 },
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
      &(sgd_attributes){ 0.9f, 0.1f, 7 },
      0,
      true },
    { "16 bits",
      { ARRAY(-1, 1), ARRAY(-1, 1), STATE_CASE_ARRAY(DTYPE_BF16, -1, 1), ONE(0.1, 0.2) },
      &(sgd_attributes){ 0.9f, 0.1f, 7 },
      1e-6,
      true },
    { "all of 16 bits, stochastic",
      { STATE_CASE_ARRAY(DTYPE_BF16, -1, 1),
        STATE_CASE_ARRAY(DTYPE_BF16, -1, 1),
        STATE_CASE_ARRAY(DTYPE_BF16, -1, 1),
        ONE(0.1, 0.2),
        ONE(0.1, 2),
        INTEGER(1),
        { DTYPE_NONE },
        { DTYPE_I32, { { 4 }, 1 }, -2147483648.0, 2147483647.0 } },
      &(sgd_attributes){ 0.9f, 0.1f, 7 },
      0,
      true },
    { "weight of 16 bits, codes",
      { STATE_CASE_ARRAY(DTYPE_BF16, -1, 1),
        STATE_CASE_ARRAY(DTYPE_F32, -1, 1),
        STATE_CASE_ARRAY(DTYPE_U8, 0, 256),
        ONE(0.1, 0.2),
        { DTYPE_NONE },
        { DTYPE_NONE },
        STATE_CASE_SCALES(0.5, 2),
        { DTYPE_I32, { { 4 }, 1 }, -2147483648.0, 2147483647.0 } },
      &(sgd_attributes){ 0.9f, 0.1f, 7 },
      1e-6,
      true },
    { 0 }
};

static const op_update update = { sgd_states, 1, 7, offsetof(sgd_attributes, stream) };

const op_def op_sgd = { .name = "sgd",
                        .paper = "Sutskever et al., ICML 2013",
                        .inputs = inputs,
                        .in_count = 8,
                        .aliases = aliases,
                        .alias_count = 3,
                        .out_count = 3,
                        .attribute_bytes = sizeof(sgd_attributes),
                        .outputs = outputs,
                        .infer = infer,
                        .cost = cost,
                        .update = &update,
                        .cpu = sgd_cpu,
                        .cuda = OP_CUDA(sgd_cuda),
                        .cases = cases };
