#include "ops/take_share/take_share.h"

tensor_id take_share_apply(graph *g, tensor_id x, int64_t share) {
    tensor_id y = graph_add(g, &op_take_share, &x, 1, &(take_share_attributes){ share });
    if (y) graph_tensor(g, y)->global = *graph_shape(g, x);
    return y;
}

static status infer(const graph *g, const node *n, tensor *out) {
    const take_share_attributes *a = node_attributes(g, n);
    if (a->share < 1) return status_set(STATUS_INVALID, "a share of %lld elements", (long long)a->share);
    out[0] = (tensor){ .shape = SHAPE(a->share), .dtype = graph_tensor(g, node_in(g, n, 0))->dtype };
    return STATUS_OK;
}

static op_cost cost(const graph *g, const node *n) {
    double bytes = (double)graph_tensor_bytes(g, node_out(g, n, 0));
    return (op_cost){ .bytes_read = bytes, .bytes_written = bytes };
}

static const op_input inputs[] = { { "x", DTYPE_MASK_FLOAT, 1, 4, false } };

static const op_case cases[] = {
    { "a part", { { DTYPE_F32, { { 70, 130 }, 2 }, -1, 1 } }, &(take_share_attributes){ 4096 }, 0, true },
    { "more than all",
      { { DTYPE_F32, { { 31, 130 }, 2 }, -1, 1 } },
      &(take_share_attributes){ 4096 },
      0,
      true },
    { "halves", { { DTYPE_BF16, { { 5000 }, 1 }, -1, 1 } }, &(take_share_attributes){ 8192 }, 0, true },
    { 0 }
};

const op_def op_take_share = { .name = "take_share",
                               .inputs = inputs,
                               .in_count = 1,
                               .out_count = 1,
                               .attribute_bytes = sizeof(take_share_attributes),
                               .infer = infer,
                               .cost = cost,
                               .cpu = take_share_cpu,
                               .cuda = OP_CUDA(take_share_cuda),
                               .cases = cases };
