#include "ops/attention_flash/attention_flash.h"

#include "ops/attention/attention_cases.h"

tensor_id attention_flash_apply(graph *g, const attention_inputs *in,
                                const attention_attributes *attributes) {
    tensor_id ids[] = { in->q, in->k, in->v, in->lengths, in->segments, in->offset, in->key, in->bias };
    return graph_add(g, &op_attention_flash, ids, 8, attributes);
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
    if (!dout[0] || !(want[0] || want[1] || want[2] || want[ATTENTION_BIAS])) return;
    tensor_id in[] = { node_in(g, n, 0),  node_in(g, n, 1), node_in(g, n, 2), node_out(g, n, 0),
                       node_out(g, n, 1), dout[0],          node_in(g, n, 3), node_in(g, n, 4),
                       node_in(g, n, 5),  node_in(g, n, 6), node_in(g, n, 7) };
    tensor_id first = graph_add(g, &op_attention_flash_backward, in, 11, node_attributes(g, n));
    attention_gradient_gather(g, graph_node(g, id), first, want, din);
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

static op_cost by_tiles(const graph *g, const node *n, op_cost c) {
    enum { TILE = 64 };
    const attention_attributes *a = node_attributes(g, n);
    const shape *q = graph_shape(g, node_in(g, n, 0)); /* (B,T,...) */
    c.tiles = (double)q->dim[0] * (double)a->heads * (double)((q->dim[1] + TILE - 1) / TILE);
    return c;
}

static op_cost cost(const graph *g, const node *n) { return by_tiles(g, n, attention_cost(g, n, 3, 2)); }

static op_cost cost_backward(const graph *g, const node *n) {
    op_cost c = by_tiles(g, n, attention_cost(g, n, 6, 5));
    c.backward = true;
    return c;
}

const op_def op_attention_flash = { .name = "attention_flash",
                                    .paper = "arXiv:2205.14135",
                                    .inputs = attention_inputs_of_forward,
                                    .in_count = ATTENTION_INPUTS,
                                    .out_count = 2,
                                    .attribute_bytes = sizeof(attention_attributes),
                                    .traits = OP_RANDOM | OP_PRODUCT | OP_PAIRS,
                                    .infer = infer,
                                    .grad = grad,
                                    .cost = cost,
                                    .cpu = attention_flash_cpu,
                                    .cuda = OP_CUDA(attention_flash_cuda),
                                    .tensor = OP_CUDA(attention_flash_tensor),
                                    .confirm = { .tensor = { CONFIRM_ATTENTION } },
                                    .cases = attention_cases_of_forward };

#define LSE(...)                                                                                             \
    { DTYPE_F32, { { __VA_ARGS__ }, 3 }, 2, 4 }

const op_input attention_flash_backward_inputs[ATTENTION_FLASH_BACKWARD_INPUTS] = {
    { "q", DTYPE_MASK_FLOAT, 3, 3, false },    { "k", DTYPE_MASK_FLOAT, 3, 3, true },
    { "v", DTYPE_MASK_FLOAT, 3, 3, true },     { "y", DTYPE_MASK_FLOAT, 3, 3, false },
    { "lse", DTYPE_MASK_FLOAT, 3, 3, false },  { "dy", DTYPE_MASK_FLOAT, 3, 3, false },
    { "lengths", DTYPE_MASK_INT, 1, 1, true }, { "segments", DTYPE_MASK_INT, 2, 2, true },
    { "offset", DTYPE_MASK_INT, 1, 1, true },  { "key", DTYPE_MASK_INT, 1, 1, true },
    { "bias", DTYPE_MASK_FLOAT, 3, 3, true }
};

static const op_case backward_cases[] = {
    { "capped",
      { ATTENTION_REAL(2, 70, 24), ATTENTION_NONE, ATTENTION_NONE, ATTENTION_REAL(2, 70, 8), LSE(2, 2, 70),
        ATTENTION_REAL(2, 70, 8) },
      &attention_case_capped,
      0,
      true },
    { "packed",
      { ATTENTION_REAL(2, 5, 36), ATTENTION_NONE, ATTENTION_NONE, ATTENTION_REAL(2, 5, 12), LSE(2, 3, 5),
        ATTENTION_REAL(2, 5, 12) },
      &attention_case_plain,
      0,
      true },
    { "packed_causal",
      { ATTENTION_REAL(1, 70, 24), ATTENTION_NONE, ATTENTION_NONE, ATTENTION_REAL(1, 70, 8), LSE(1, 2, 70),
        ATTENTION_REAL(1, 70, 8) },
      &attention_case_causal,
      0,
      true },
    { "packed_long",
      { ATTENTION_REAL(1, 300, 18), ATTENTION_NONE, ATTENTION_NONE, ATTENTION_REAL(1, 300, 6), LSE(1, 2, 300),
        ATTENTION_REAL(1, 300, 6) },
      &attention_case_causal,
      0,
      true },
    { "packed_widest",
      { ATTENTION_REAL(1, 66, 810), ATTENTION_NONE, ATTENTION_NONE, ATTENTION_REAL(1, 66, 270), LSE(1, 2, 66),
        ATTENTION_REAL(1, 66, 270) },
      &attention_case_causal,
      0,
      true },
    { "all",
      { ATTENTION_REAL(2, 67, 24), ATTENTION_NONE, ATTENTION_NONE, ATTENTION_REAL(2, 67, 8), LSE(2, 2, 67),
        ATTENTION_REAL(2, 67, 8), ATTENTION_LENGTHS(2, 67), ATTENTION_SEGMENTS(2, 67), ATTENTION_NONE,
        ATTENTION_KEY },
      &attention_case_dropped,
      0,
      true },
    { "cross",
      { ATTENTION_REAL(2, 5, 12), ATTENTION_REAL(2, 7, 12), ATTENTION_REAL(2, 7, 12),
        ATTENTION_REAL(2, 5, 12), LSE(2, 3, 5), ATTENTION_REAL(2, 5, 12) },
      &attention_case_plain,
      0,
      true },
    { "grouped",
      { ATTENTION_REAL(2, 6, 20), ATTENTION_REAL(2, 6, 10), ATTENTION_REAL(2, 6, 10),
        ATTENTION_REAL(2, 6, 20), LSE(2, 4, 6), ATTENTION_REAL(2, 6, 20) },
      &attention_case_grouped,
      0,
      true },
    { "offset",
      { ATTENTION_REAL(1, 3, 20), ATTENTION_REAL(1, 80, 10), ATTENTION_REAL(1, 80, 10),
        ATTENTION_REAL(1, 3, 20), LSE(1, 4, 3), ATTENTION_REAL(1, 3, 20), ATTENTION_NONE, ATTENTION_NONE,
        ATTENTION_OFFSET(64) },
      &attention_case_grouped,
      0,
      true },
    { "window",
      { ATTENTION_REAL(1, 150, 9), ATTENTION_NONE, ATTENTION_NONE, ATTENTION_REAL(1, 150, 3), LSE(1, 1, 150),
        ATTENTION_REAL(1, 150, 3) },
      &attention_case_window,
      0,
      true },
    { "one",
      { ATTENTION_REAL(1, 1, 3), ATTENTION_NONE, ATTENTION_NONE, ATTENTION_REAL(1, 1, 1), LSE(1, 1, 1),
        ATTENTION_REAL(1, 1, 1) },
      &attention_case_one,
      0,
      true },
    { "halves",
      { ATTENTION_HALF(DTYPE_BF16, 1, 150, 24), ATTENTION_NONE, ATTENTION_NONE,
        ATTENTION_HALF(DTYPE_BF16, 1, 150, 8), LSE(1, 2, 150), ATTENTION_HALF(DTYPE_BF16, 1, 150, 8),
        ATTENTION_NONE, ATTENTION_NONE, ATTENTION_NONE, ATTENTION_KEY },
      &attention_case_dropped,
      0,
      true },
    { "halves, eights",
      { ATTENTION_HALF(DTYPE_BF16, 1, 200, 96), ATTENTION_NONE, ATTENTION_NONE,
        ATTENTION_HALF(DTYPE_BF16, 1, 200, 32), LSE(1, 2, 200), ATTENTION_HALF(DTYPE_BF16, 1, 200, 32) },
      &attention_case_causal,
      0,
      true },
    { "halves, grouped",
      { ATTENTION_HALF(DTYPE_F16, 2, 6, 20), ATTENTION_HALF(DTYPE_F16, 2, 6, 10),
        ATTENTION_HALF(DTYPE_F16, 2, 6, 10), ATTENTION_HALF(DTYPE_F16, 2, 6, 20), LSE(2, 4, 6),
        ATTENTION_HALF(DTYPE_F16, 2, 6, 20) },
      &attention_case_grouped,
      0,
      true },
    { "bias",
      { ATTENTION_REAL(2, 6, 20), ATTENTION_REAL(2, 7, 10), ATTENTION_REAL(2, 7, 10),
        ATTENTION_REAL(2, 6, 20), LSE(2, 4, 6), ATTENTION_REAL(2, 6, 20), ATTENTION_LENGTHS(2, 7),
        ATTENTION_NONE, ATTENTION_NONE, ATTENTION_NONE, ATTENTION_REAL(4, 6, 7) },
      &attention_case_grouped,
      0,
      true },
    { 0 }
};

const op_def op_attention_flash_backward = { .name = "attention_flash_backward",
                                             .paper = "arXiv:2205.14135",
                                             .inputs = attention_flash_backward_inputs,
                                             .in_count = ATTENTION_FLASH_BACKWARD_INPUTS,
                                             .outputs = attention_gradient_outputs,
                                             .attribute_bytes = sizeof(attention_attributes),
                                             .traits = OP_RANDOM | OP_PAIRS,
                                             .infer = infer_backward,
                                             .cost = cost_backward,
                                             .cpu = attention_flash_backward_cpu,
                                             .cuda = OP_CUDA(attention_flash_backward_cuda),
                                             .tensor = OP_CUDA(attention_flash_backward_tensor),
                                             .confirm = { .tensor = { CONFIRM_ATTENTION } },
                                             .cases = backward_cases };
