#include "ops/adamw/adamw.h"

#include <stddef.h>

#include "ops/state.h"

tensor_id adamw_apply(graph *g, adamw_inputs in, const adamw_attributes *attributes) {
    tensor_id ids[] = {
        in.w, in.g, in.m, in.v, in.lr, in.t, in.scale, in.ok, in.m_scales, in.v_scales, in.key
    };
    return graph_add(g, &op_adamw, ids, 11, attributes);
}

static uint8_t outputs(const graph *g, const node *n) { return node_in(g, n, 8) ? 5 : 3; }

static status infer(const graph *g, const node *n, tensor *out) {
    TRY(state_infer_weight(g, n, 4, 7, out));
    if (!node_in(g, n, 8) != !node_in(g, n, 9))
        return status_set(STATUS_INVALID, "'m' and 'v' must be codes both");
    TRY(state_infer(g, n, &adamw_states[0], out));
    return state_infer(g, n, &adamw_states[1], out);
}

static op_cost cost(const graph *g, const node *n) { return state_cost(g, n, 5); }

static const op_input inputs[] = {
    { "w", DTYPE_MASK_FLOAT, 1, 4, false },      { "g", DTYPE_MASK_FLOAT, 1, 4, false },
    { "m", STATE_DTYPES, 1, 4, false },          { "v", STATE_DTYPES, 1, 4, false },
    { "lr", DTYPE_MASK_FLOAT, 1, 1, false },     { "t", DTYPE_MASK_INT, 1, 1, false },
    { "scale", DTYPE_MASK_FLOAT, 1, 1, true },   { "ok", DTYPE_MASK_INT, 1, 1, true },
    { "m_scales", 1u << DTYPE_F32, 1, 1, true }, { "v_scales", 1u << DTYPE_F32, 1, 1, true },
    { "key", DTYPE_MASK_INT, 1, 1, true }
};
static const op_alias aliases[] = { { .out = 0, .in = 0, .must = true },
                                    { .out = 1, .in = 2, .must = true },
                                    { .out = 2, .in = 3, .must = true },
                                    { .out = 3, .in = 8, .must = true },
                                    { .out = 4, .in = 9, .must = true } };
const op_state adamw_states[2] = { { .in = 2, .out = 1, .scales = 8, .scales_out = 3 },
                                   { .in = 3, .out = 2, .scales = 9, .scales_out = 4, .positive = true } };

#define TYPICAL                                                                                              \
    &(adamw_attributes) { 0.9f, 0.95f, 1e-8f, 0.1f, 7 }
#define ONE(low, high)                                                                                       \
    { DTYPE_F32, { { 1 }, 1 }, low, high }
#define INTEGER(value)                                                                                       \
    { DTYPE_I32, { { 1 }, 1 }, value, (value) + 1 }
#define ARRAY(low, high)                                                                                     \
    { DTYPE_F32, { { 3, 67, 101 }, 3 }, low, high }
static const op_case cases[] = {
    { "everything",
      { ARRAY(-1, 1), ARRAY(-1, 1), ARRAY(-1, 1), ARRAY(0, 1), ONE(1e-3, 2e-3), INTEGER(3), ONE(0.1, 2),
        INTEGER(1) },
      TYPICAL,
      1e-6,
      true },
    { "first step, no clipping",
      { ARRAY(-1, 1), ARRAY(-1, 1), ARRAY(0, 0), ARRAY(0, 0), ONE(1e-3, 2e-3), INTEGER(1) },
      &(adamw_attributes){ 0.9f, 0.999f, 1e-8f, 0, 7 },
      1e-6,
      true },
    { "late step",
      { ONE(-1, 1), ONE(-1, 1), ONE(-1, 1), ONE(0, 1), ONE(1e-3, 2e-3), INTEGER(2000000000) },
      TYPICAL,
      1e-6,
      true },
    { "skipped",
      { ARRAY(-1, 1),
        ARRAY(-1, 1),
        ARRAY(-1, 1),
        ARRAY(0, 1),
        ONE(1e-3, 2e-3),
        INTEGER(3),
        { DTYPE_NONE },
        INTEGER(0) },
      TYPICAL,
      0,
      true },
    { "codes",
      { STATE_CASE_ARRAY(DTYPE_F32, -1, 1), STATE_CASE_ARRAY(DTYPE_F32, -1, 1),
        STATE_CASE_ARRAY(DTYPE_U8, 0, 256), STATE_CASE_ARRAY(DTYPE_U8, 1, 256), ONE(1e-3, 2e-3), INTEGER(3),
        ONE(0.1, 2), INTEGER(1), STATE_CASE_SCALES(0.5, 2), STATE_CASE_SCALES(0.5, 2) },
      TYPICAL,
      1e-6,
      true },
    { "codes, first step",
      { STATE_CASE_ARRAY(DTYPE_F32, -1, 1),
        STATE_CASE_ARRAY(DTYPE_F32, -1e-4, 1e-4),
        STATE_CASE_ARRAY(DTYPE_U8, 0, 1),
        STATE_CASE_ARRAY(DTYPE_U8, 0, 1),
        ONE(1e-3, 2e-3),
        INTEGER(1),
        { DTYPE_NONE },
        { DTYPE_NONE },
        STATE_CASE_SCALES(0, 0),
        STATE_CASE_SCALES(0, 0) },
      TYPICAL,
      1e-6,
      true },
    { "codes of one block, skipped",
      { STATE_CASE_ONE(DTYPE_F32, -1, 1),
        STATE_CASE_ONE(DTYPE_F32, -1, 1),
        STATE_CASE_ONE(DTYPE_U8, 0, 256),
        STATE_CASE_ONE(DTYPE_U8, 0, 256),
        ONE(0.1, 0.2),
        INTEGER(3),
        { DTYPE_NONE },
        INTEGER(0),
        ONE(0.5, 1),
        ONE(0.5, 1) },
      TYPICAL,
      0,
      true },
    { "16 bits",
      { ARRAY(-1, 1), ARRAY(-1, 1), STATE_CASE_ARRAY(DTYPE_BF16, -1, 1), STATE_CASE_ARRAY(DTYPE_BF16, 0, 1),
        ONE(1e-3, 2e-3), INTEGER(3) },
      TYPICAL,
      1e-6,
      true },
    { "all of 16 bits, stochastic",
      { STATE_CASE_ARRAY(DTYPE_BF16, -1, 1),
        STATE_CASE_ARRAY(DTYPE_BF16, -1, 1),
        STATE_CASE_ARRAY(DTYPE_BF16, -1, 1),
        STATE_CASE_ARRAY(DTYPE_BF16, 0.1, 1),
        ONE(1e-3, 2e-3),
        INTEGER(3),
        ONE(0.1, 2),
        INTEGER(1),
        { DTYPE_NONE },
        { DTYPE_NONE },
        { DTYPE_I32, { { 4 }, 1 }, -2147483648.0, 2147483647.0 } },
      &(adamw_attributes){ 0.9f, 0.95f, 1e-8f, 0.1f, 7 },
      0,
      true },
    { "weight of 16 bits, codes",
      { STATE_CASE_ARRAY(DTYPE_BF16, -1, 1),
        STATE_CASE_ARRAY(DTYPE_F32, -1, 1),
        STATE_CASE_ARRAY(DTYPE_U8, 0, 256),
        STATE_CASE_ARRAY(DTYPE_U8, 1, 256),
        ONE(1e-3, 2e-3),
        INTEGER(3),
        { DTYPE_NONE },
        { DTYPE_NONE },
        STATE_CASE_SCALES(0.5, 2),
        STATE_CASE_SCALES(0.5, 2),
        { DTYPE_I32, { { 4 }, 1 }, -2147483648.0, 2147483647.0 } },
      &(adamw_attributes){ 0.9f, 0.95f, 1e-8f, 0.1f, 7 },
      1e-6,
      true },
    { "all of 16 bits, nearest",
      { STATE_CASE_ARRAY(DTYPE_BF16, -1, 1), STATE_CASE_ARRAY(DTYPE_BF16, -1, 1),
        STATE_CASE_ARRAY(DTYPE_BF16, -1, 1), STATE_CASE_ARRAY(DTYPE_BF16, 0.1, 1), ONE(1e-3, 2e-3),
        INTEGER(3) },
      &(adamw_attributes){ 0.9f, 0.95f, 1e-8f, 0.1f, 7 },
      0,
      true },
    { 0 }
};

static const op_update update = { adamw_states, 2, 10, offsetof(adamw_attributes, stream) };

const op_def op_adamw = { .name = "adamw",
                          .paper = "arXiv:1711.05101",
                          .inputs = inputs,
                          .in_count = 11,
                          .aliases = aliases,
                          .alias_count = 5,
                          .out_count = 5,
                          .attribute_bytes = sizeof(adamw_attributes),
                          .outputs = outputs,
                          .infer = infer,
                          .cost = cost,
                          .update = &update,
                          .cpu = adamw_cpu,
                          .cuda = OP_CUDA(adamw_cuda),
                          .cases = cases };
