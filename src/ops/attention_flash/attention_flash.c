#include "ops/attention_flash/attention_flash.h"

tensor_id attention_flash_apply(graph *g, const attention_inputs *in,
                                const attention_attributes *attributes) {
    tensor_id ids[] = { in->q, in->k, in->v, in->lengths, in->segments, in->offset, in->key };
    return graph_add(g, &op_attention_flash, ids, 7, attributes);
}

static status infer(const graph *g, const node *n, tensor *out) {
    attention_sizes z;
    TRY(attention_check(g, n, 3, &z));
    uint8_t type = graph_tensor(g, node_in(g, n, 0))->dtype;
    out[0] = (tensor){ .shape = SHAPE(z.batch, z.queries, z.heads * z.size), .dtype = type };
    out[1] =
        (tensor){ .shape = SHAPE(z.batch, z.heads, z.queries), .dtype = (uint8_t)dtype_wide((dtype)type) };
    return STATUS_OK;
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const node *n = graph_node(g, id);
    if (dout[1]) {
        graph_fail(g, "attention_flash: the logarithm of its sums has no gradient of its own");
        return;
    }
    if (!dout[0] || !(want[0] || want[1] || want[2])) return;
    tensor_id in[] = { node_in(g, n, 0),  node_in(g, n, 1), node_in(g, n, 2), node_out(g, n, 0),
                       node_out(g, n, 1), dout[0],          node_in(g, n, 3), node_in(g, n, 4),
                       node_in(g, n, 5),  node_in(g, n, 6) };
    tensor_id first = graph_add(g, &op_attention_flash_backward, in, 10, node_attributes(g, n));
    attention_gradient_gather(g, first, in[1] ? 3 : 1, want, din);
}

static status infer_backward(const graph *g, const node *n, tensor *out) {
    attention_sizes z;
    TRY(attention_check(g, n, 6, &z));
    uint8_t type = graph_tensor(g, node_in(g, n, 0))->dtype;
    shape rows = SHAPE(z.batch, z.queries, z.heads * z.size);
    if (!shape_equal(graph_shape(g, node_in(g, n, 3)), &rows) ||
        !shape_equal(graph_shape(g, node_in(g, n, 5)), &rows))
        return status_set(STATUS_INVALID, "the result and its gradient must be (B,T,H*D)");
    if (!shape_equal(graph_shape(g, node_in(g, n, 4)), &SHAPE(z.batch, z.heads, z.queries)))
        return status_set(STATUS_INVALID, "the logarithms of the sums must be (B,H,T)");
    for (uint32_t i = 3; i < 6; i++)
        if (graph_tensor(g, node_in(g, n, i))->dtype != (i == 4 ? (uint8_t)dtype_wide((dtype)type) : type))
            return status_set(STATUS_INVALID,
                              "queries, result and gradient must be of one type, and sums not of 16 bits");
    attention_gradient_shapes(g, n, out);
    return STATUS_OK;
}

static op_cost cost(const graph *g, const node *n) { return attention_cost(g, n, 3, 2); }
static op_cost cost_backward(const graph *g, const node *n) { return attention_cost(g, n, 6, 5); }

static const op_input inputs[] = {
    { "q", DTYPE_MASK_FLOAT, 3, 3, false },     { "k", DTYPE_MASK_FLOAT, 3, 3, true },
    { "v", DTYPE_MASK_FLOAT, 3, 3, true },      { "lengths", DTYPE_MASK_INT, 1, 1, true },
    { "segments", DTYPE_MASK_INT, 2, 2, true }, { "offset", DTYPE_MASK_INT, 1, 1, true },
    { "key", DTYPE_MASK_INT, 1, 1, true }
};

#define REAL(...)                                                                                            \
    { DTYPE_F32, { { __VA_ARGS__ }, 3 }, -1, 1 }
#define HALF(type, ...)                                                                                      \
    { type, { { __VA_ARGS__ }, 3 }, -1, 1 }
#define LSE(...)                                                                                             \
    { DTYPE_F32, { { __VA_ARGS__ }, 3 }, 2, 4 }
#define NONE                                                                                                 \
    { DTYPE_NONE, { { 0 }, 0 }, 0, 0 }
#define LENGTHS(b, s)                                                                                        \
    { DTYPE_I32, { { b }, 1 }, 0, (s) + 1 }
#define SEGMENTS(b, t)                                                                                       \
    { DTYPE_I32, { { b, t }, 2 }, 0, 3 }
#define OFFSET(o)                                                                                            \
    { DTYPE_I32, { { 1 }, 1 }, o, (o) + 1 }
#define KEY                                                                                                  \
    { DTYPE_I32, { { 4 }, 1 }, -2147483648.0, 2147483647.0 }

static const attention_attributes plain = { .heads = 3 }, causal = { .heads = 2, .causal = 1 };
static const attention_attributes dropped = { .heads = 2, .causal = 1, .dropout = 0.3f, .stream = 7 };
static const attention_attributes grouped = { .heads = 4, .kv_heads = 2, .causal = 1, .scale = 0.4f };
static const attention_attributes grouped_dropped = {
    .heads = 4, .kv_heads = 1, .dropout = 0.5f, .stream = 3
};
static const attention_attributes window = { .heads = 1, .causal = 1, .window = 5 };
static const attention_attributes band = { .heads = 2, .window = 9 };
static const attention_attributes one = { .heads = 1 };

static const op_case cases[] = {
    { "packed", { REAL(2, 5, 36) }, &plain, 0, false },
    { "packed_causal", { REAL(1, 70, 24) }, &causal, 0, false },
    { "packed_long", { REAL(1, 300, 18) }, &causal, 0, true },
    { "packed_wide", { REAL(1, 65, 402) }, &causal, 0, true },
    { "packed_lengths", { REAL(3, 7, 36), NONE, NONE, LENGTHS(3, 7) }, &plain, 0, false },
    { "packed_segments", { REAL(2, 9, 24), NONE, NONE, NONE, SEGMENTS(2, 9) }, &causal, 0, false },
    { "packed_dropout", { REAL(2, 6, 24), NONE, NONE, NONE, NONE, NONE, KEY }, &dropped, 0, false },
    { "all", { REAL(2, 67, 24), NONE, NONE, LENGTHS(2, 67), SEGMENTS(2, 67), NONE, KEY }, &dropped, 0, true },
    { "cross", { REAL(2, 5, 12), REAL(2, 7, 12), REAL(2, 7, 12) }, &plain, 0, false },
    { "cross_long", { REAL(1, 66, 12), REAL(1, 131, 12), REAL(1, 131, 12) }, &plain, 0, true },
    { "grouped", { REAL(2, 6, 20), REAL(2, 6, 10), REAL(2, 6, 10) }, &grouped, 0, false },
    { "grouped_dropout",
      { REAL(1, 3, 8), REAL(1, 5, 2), REAL(1, 5, 2), NONE, NONE, NONE, KEY },
      &grouped_dropped,
      0,
      false },
    { "grouped_packed", { REAL(1, 6, 40) }, &grouped, 0, false },
    { "offset",
      { REAL(1, 3, 20), REAL(1, 9, 10), REAL(1, 9, 10), NONE, NONE, OFFSET(4) },
      &grouped,
      0,
      false },
    { "step",
      { REAL(2, 1, 20), REAL(2, 80, 10), REAL(2, 80, 10), NONE, NONE, OFFSET(70) },
      &grouped,
      0,
      false },
    { "blind",
      { REAL(1, 3, 20), REAL(1, 4, 10), REAL(1, 4, 10), NONE, NONE, OFFSET(-2) },
      &grouped,
      0,
      false },
    { "window", { REAL(1, 12, 9) }, &window, 0, false },
    { "window_long", { REAL(1, 150, 9) }, &window, 0, true },
    { "band", { REAL(1, 90, 12) }, &band, 0, true },
    { "one", { REAL(1, 1, 3) }, &one, 0, false },
    { 0 }
};

const op_def op_attention_flash = { .name = "attention_flash",
                                    .paper = "arXiv:2205.14135",
                                    .inputs = inputs,
                                    .in_count = 7,
                                    .out_count = 2,
                                    .attribute_bytes = sizeof(attention_attributes),
                                    .traits = OP_RANDOM | OP_PRODUCT,
                                    .infer = infer,
                                    .grad = grad,
                                    .cost = cost,
                                    .cpu = attention_flash_cpu,
                                    .cases = cases };

static const op_input backward_inputs[] = {
    { "q", DTYPE_MASK_FLOAT, 3, 3, false },    { "k", DTYPE_MASK_FLOAT, 3, 3, true },
    { "v", DTYPE_MASK_FLOAT, 3, 3, true },     { "y", DTYPE_MASK_FLOAT, 3, 3, false },
    { "lse", DTYPE_MASK_FLOAT, 3, 3, false },  { "dy", DTYPE_MASK_FLOAT, 3, 3, false },
    { "lengths", DTYPE_MASK_INT, 1, 1, true }, { "segments", DTYPE_MASK_INT, 2, 2, true },
    { "offset", DTYPE_MASK_INT, 1, 1, true },  { "key", DTYPE_MASK_INT, 1, 1, true }
};

static const op_case backward_cases[] = {
    { "packed",
      { REAL(2, 5, 36), NONE, NONE, REAL(2, 5, 12), LSE(2, 3, 5), REAL(2, 5, 12) },
      &plain,
      0,
      true },
    { "packed_causal",
      { REAL(1, 70, 24), NONE, NONE, REAL(1, 70, 8), LSE(1, 2, 70), REAL(1, 70, 8) },
      &causal,
      0,
      true },
    { "packed_long",
      { REAL(1, 300, 18), NONE, NONE, REAL(1, 300, 6), LSE(1, 2, 300), REAL(1, 300, 6) },
      &causal,
      0,
      true },
    { "all",
      { REAL(2, 67, 24), NONE, NONE, REAL(2, 67, 8), LSE(2, 2, 67), REAL(2, 67, 8), LENGTHS(2, 67),
        SEGMENTS(2, 67), NONE, KEY },
      &dropped,
      0,
      true },
    { "cross",
      { REAL(2, 5, 12), REAL(2, 7, 12), REAL(2, 7, 12), REAL(2, 5, 12), LSE(2, 3, 5), REAL(2, 5, 12) },
      &plain,
      0,
      true },
    { "grouped",
      { REAL(2, 6, 20), REAL(2, 6, 10), REAL(2, 6, 10), REAL(2, 6, 20), LSE(2, 4, 6), REAL(2, 6, 20) },
      &grouped,
      0,
      true },
    { "offset",
      { REAL(1, 3, 20), REAL(1, 80, 10), REAL(1, 80, 10), REAL(1, 3, 20), LSE(1, 4, 3), REAL(1, 3, 20), NONE,
        NONE, OFFSET(64) },
      &grouped,
      0,
      true },
    { "window",
      { REAL(1, 150, 9), NONE, NONE, REAL(1, 150, 3), LSE(1, 1, 150), REAL(1, 150, 3) },
      &window,
      0,
      true },
    { "one", { REAL(1, 1, 3), NONE, NONE, REAL(1, 1, 1), LSE(1, 1, 1), REAL(1, 1, 1) }, &one, 0, true },
    { "halves",
      { HALF(DTYPE_BF16, 1, 150, 24), NONE, NONE, HALF(DTYPE_BF16, 1, 150, 8), LSE(1, 2, 150),
        HALF(DTYPE_BF16, 1, 150, 8), NONE, NONE, NONE, KEY },
      &dropped,
      0,
      true },
    { "halves, grouped",
      { HALF(DTYPE_F16, 2, 6, 20), HALF(DTYPE_F16, 2, 6, 10), HALF(DTYPE_F16, 2, 6, 10),
        HALF(DTYPE_F16, 2, 6, 20), LSE(2, 4, 6), HALF(DTYPE_F16, 2, 6, 20) },
      &grouped,
      0,
      true },
    { 0 }
};

const op_def op_attention_flash_backward = { .name = "attention_flash_backward",
                                             .paper = "arXiv:2205.14135",
                                             .inputs = backward_inputs,
                                             .in_count = 10,
                                             .outputs = attention_gradient_outputs,
                                             .attribute_bytes = sizeof(attention_attributes),
                                             .traits = OP_RANDOM,
                                             .infer = infer_backward,
                                             .cost = cost_backward,
                                             .cpu = attention_flash_backward_cpu,
                                             .cases = backward_cases };
