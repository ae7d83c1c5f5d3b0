#include "ops/exchange/exchange.h"

tensor_id exchange_apply(graph *g, tensor_id x, int64_t ranks, int64_t share) {
    return exchange_piece_apply(g, x, &(exchange_attributes){ .ranks = ranks, .share = share });
}

tensor_id exchange_piece_apply(graph *g, tensor_id x, const exchange_attributes *a) {
    return graph_add(g, &op_exchange, &x, 1, a);
}

static status infer(const graph *g, const node *n, tensor *out) {
    const exchange_attributes *a = node_attributes(g, n);
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    if (a->ranks < 1 || a->share < 1 || a->share > INT64_MAX / a->ranks ||
        a->ranks * a->share < shape_elements(&x->shape))
        return status_set(STATUS_INVALID, "%lld shares of %lld elements have no room for %lld",
                          (long long)a->ranks, (long long)a->share, (long long)shape_elements(&x->shape));
    if (a->first < 0 || a->some < 0 || a->first > a->share - a->some)
        return status_set(STATUS_INVALID, "a share of %lld elements has no %lld from %lld on",
                          (long long)a->share, (long long)a->some, (long long)a->first);
    out[0] = (tensor){ .shape = SHAPE(a->ranks, a->some ? a->some : a->share), .dtype = x->dtype };
    return STATUS_OK;
}

static op_cost cost(const graph *g, const node *n) {
    const exchange_attributes *a = node_attributes(g, n);
    return (op_cost){ .sent = (double)graph_tensor_bytes(g, node_out(g, n, 0)) / (double)a->ranks,
                      .ranks = a->ranks };
}

static const op_input inputs[] = { { "x", DTYPE_MASK_FLOAT, 1, 4, false } };

static const op_case cases[] = {
    { "alone", { { DTYPE_F32, { { 7, 33 }, 2 }, -1, 1 } }, &(exchange_attributes){ 1, 231, 0, 0 }, 0, true },
    { "with room",
      { { DTYPE_F32, { { 5000 }, 1 }, -1, 1 } },
      &(exchange_attributes){ 1, 8192, 0, 0 },
      0,
      true },
    { "a piece",
      { { DTYPE_F32, { { 7, 33 }, 2 }, -1, 1 } },
      &(exchange_attributes){ 1, 256, 32, 64 },
      0,
      true },
    { "a piece with room",
      { { DTYPE_F32, { { 5000 }, 1 }, -1, 1 } },
      &(exchange_attributes){ 1, 8192, 4096, 4096 },
      0,
      true },
    { 0 }
};

const op_def op_exchange = { .name = "exchange",
                             .inputs = inputs,
                             .in_count = 1,
                             .out_count = 1,
                             .attribute_bytes = sizeof(exchange_attributes),
                             .traits = OP_COLLECTIVE,
                             .infer = infer,
                             .cost = cost,
                             .cpu = exchange_cpu,
                             .cuda = OP_CUDA(exchange_cuda),
                             .cases = cases };
