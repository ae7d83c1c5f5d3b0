#include "ops/exchange/exchange.h"

tensor_id exchange_apply(graph *g, tensor_id x, int64_t ranks, int64_t share) {
    return graph_add(g, &op_exchange, &x, 1, &(exchange_attributes){ ranks, share });
}

static status infer(const graph *g, const node *n, tensor *out) {
    const exchange_attributes *a = node_attributes(g, n);
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    if (a->ranks < 1 || a->share < 1 || a->share > INT64_MAX / a->ranks ||
        a->ranks * a->share < shape_elements(&x->shape))
        return status_set(STATUS_INVALID, "%lld shares of %lld elements have no room for %lld",
                          (long long)a->ranks, (long long)a->share, (long long)shape_elements(&x->shape));
    out[0] = (tensor){ .shape = SHAPE(a->ranks, a->share), .dtype = x->dtype };
    return STATUS_OK;
}

static op_cost cost(const graph *g, const node *n) {
    double bytes = (double)graph_tensor_bytes(g, node_out(g, n, 0));
    return (op_cost){ .bytes_read = bytes, .bytes_written = bytes };
}

static const op_input inputs[] = { { "x", DTYPE_MASK_FLOAT, 1, 4, false } };

static const op_case cases[] = {
    { "alone", { { DTYPE_F32, { { 7, 33 }, 2 }, -1, 1 } }, &(exchange_attributes){ 1, 231 }, 0, true },
    { "with room", { { DTYPE_F32, { { 5000 }, 1 }, -1, 1 } }, &(exchange_attributes){ 1, 8192 }, 0, true },
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
                             .cases = cases };
