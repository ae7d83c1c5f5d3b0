#include "ops/gather_ranks/gather_ranks.h"

tensor_id gather_ranks_apply(graph *g, tensor_id share, tensor_id place, shape whole) {
    return gather_group_apply(g, share, place, whole, 0);
}

tensor_id gather_group_apply(graph *g, tensor_id share, tensor_id place, shape whole, int64_t group) {
    gather_ranks_attributes a = { .rank = whole.rank, .group = group };
    for (uint32_t i = 0; i < whole.rank; i++) a.dim[i] = whole.dim[i];
    return graph_add(g, &op_gather_ranks, (tensor_id[]){ share, place }, place ? 2 : 1, &a);
}

static status infer(const graph *g, const node *n, tensor *out) {
    const gather_ranks_attributes *a = node_attributes(g, n);
    const tensor *share = graph_tensor(g, node_in(g, n, 0));
    out[0] = (tensor){ .shape = { .rank = (uint8_t)a->rank }, .dtype = share->dtype };
    for (uint32_t i = 0; i < out[0].shape.rank; i++) out[0].shape.dim[i] = a->dim[i];
    if (node_in(g, n, 1)) return op_check_input(g, n, 1, &out[0].shape, out[0].dtype);
    return STATUS_OK;
}

static op_cost cost(const graph *g, const node *n) {
    const gather_ranks_attributes *a = node_attributes(g, n);
    return (op_cost){ .sent = (double)graph_tensor_bytes(g, node_in(g, n, 0)), .ranks = a->group };
}

static const op_input inputs[] = { { "share", 0, 1, 4, false }, { "place", 0, 1, 4, true } };
static const op_alias aliases[] = { { .out = 0, .in = 1, .must = true } };

static const op_case cases[] = { { "alone",
                                   { { DTYPE_F32, { { 231 }, 1 }, -1, 1 } },
                                   &(gather_ranks_attributes){ { 7, 33 }, 2, 0 },
                                   0,
                                   true },
                                 { "a group of one",
                                   { { DTYPE_F32, { { 231 }, 1 }, -1, 1 } },
                                   &(gather_ranks_attributes){ { 7, 33 }, 2, 1 },
                                   0,
                                   true },
                                 { "less than the share",
                                   { { DTYPE_F32, { { 8192 }, 1 }, -1, 1 } },
                                   &(gather_ranks_attributes){ { 5000 }, 1, 0 },
                                   0,
                                   true },
                                 { "in a place",
                                   { { DTYPE_F32, { { 8192 }, 1 }, -1, 1 },
                                     { DTYPE_F32, { { 50, 100 }, 2 }, -1, 1 } },
                                   &(gather_ranks_attributes){ { 50, 100 }, 2, 0 },
                                   0,
                                   true },
                                 { 0 } };

const op_def op_gather_ranks = { .name = "gather_ranks",
                                 .inputs = inputs,
                                 .in_count = 2,
                                 .aliases = aliases,
                                 .alias_count = 1,
                                 .out_count = 1,
                                 .places = 1u << 1,
                                 .attribute_bytes = sizeof(gather_ranks_attributes),
                                 .traits = OP_COLLECTIVE,
                                 .infer = infer,
                                 .cost = cost,
                                 .cpu = gather_ranks_cpu,
                                 .cuda = OP_CUDA(gather_ranks_cuda),
                                 .cases = cases };
