#include "ops/gather_ranks/gather_ranks.h"

tensor_id gather_ranks_apply(graph *g, tensor_id share, shape whole) {
    gather_ranks_attributes a = { .rank = whole.rank };
    for (uint32_t i = 0; i < whole.rank; i++) a.dim[i] = whole.dim[i];
    return graph_add(g, &op_gather_ranks, &share, 1, &a);
}

static status infer(const graph *g, const node *n, tensor *out) {
    const gather_ranks_attributes *a = node_attributes(g, n);
    const tensor *share = graph_tensor(g, node_in(g, n, 0));
    out[0] = (tensor){ .shape = { .rank = (uint8_t)a->rank }, .dtype = share->dtype };
    for (uint32_t i = 0; i < out[0].shape.rank; i++) out[0].shape.dim[i] = a->dim[i];
    return STATUS_OK;
}

static op_cost cost(const graph *g, const node *n) {
    double bytes = (double)graph_tensor_bytes(g, node_out(g, n, 0));
    return (op_cost){ .bytes_read = bytes, .bytes_written = bytes };
}

static const op_input inputs[] = { { "share", DTYPE_MASK_FLOAT, 1, 4, false } };

static const op_case cases[] = { { "alone",
                                   { { DTYPE_F32, { { 231 }, 1 }, -1, 1 } },
                                   &(gather_ranks_attributes){ { 7, 33 }, 2 },
                                   0,
                                   true },
                                 { "less than the share",
                                   { { DTYPE_F32, { { 8192 }, 1 }, -1, 1 } },
                                   &(gather_ranks_attributes){ { 5000 }, 1 },
                                   0,
                                   true },
                                 { 0 } };

const op_def op_gather_ranks = { .name = "gather_ranks",
                                 .inputs = inputs,
                                 .in_count = 1,
                                 .out_count = 1,
                                 .attribute_bytes = sizeof(gather_ranks_attributes),
                                 .traits = OP_COLLECTIVE,
                                 .infer = infer,
                                 .cost = cost,
                                 .cpu = gather_ranks_cpu,
                                 .cases = cases };
