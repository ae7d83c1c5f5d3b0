#include "ops/pass_on/pass_on.h"

tensor_id pass_on_apply(graph *g, tensor_id x, int64_t ranks, pass_on_step step) {
    return pass_on_groups_apply(g, x, ranks, 0, step);
}

tensor_id pass_on_groups_apply(graph *g, tensor_id x, int64_t groups, int64_t group, pass_on_step step) {
    return pass_on_piece_apply(g, x, &(pass_on_attributes){ .ranks = groups, .step = step, .group = group });
}

tensor_id pass_on_piece_apply(graph *g, tensor_id x, const pass_on_attributes *a) {
    return graph_add(g, &op_pass_on, &x, 1, a);
}

static status infer(const graph *g, const node *n, tensor *out) {
    const pass_on_attributes *a = node_attributes(g, n);
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    if (a->ranks < 1 || a->step < PASS_FROM_BEFORE || a->step > PASS_COLLECT)
        return status_set(STATUS_INVALID, "%lld ranks have no step %lld of passing on", (long long)a->ranks,
                          (long long)a->step);
    if (a->first < 0 || a->some < 0 || a->first + a->some > shape_elements(&x->shape) ||
        (a->some && a->step > PASS_TO_NEXT))
        return status_set(STATUS_INVALID, "there is no such piece to pass on");
    out[0] = (tensor){ .shape = x->shape, .dtype = x->dtype };
    return STATUS_OK;
}

/* Costs are bytes that each rank sends to each of the others: of a step in which all send to one other rank
 * they are a part of the tensor, and a smaller one where one rank alone sends, whose way out is its own. The
 * halves of a step count once. Groups are taken to be on hosts of their own, each with a way out that no
 * other one shares: then it counts what the busiest of them sends. */
static op_cost cost(const graph *g, const node *n) {
    const pass_on_attributes *a = node_attributes(g, n);
    const tensor *y = graph_tensor(g, node_out(g, n, 0));
    int64_t elements = a->some ? a->some : shape_elements(&y->shape);
    double bytes = (double)elements * (double)dtype_bytes(y->dtype), ranks = (double)a->ranks,
           others = ranks > 1 ? ranks - 1 : 1, of_one = a->group ? 1 : ranks;
    const double sent[] = { [PASS_FROM_BEFORE] = bytes / others,     [PASS_TO_NEXT] = 0,
                            [PASS_AROUND] = bytes / others / of_one, [PASS_FROM_LAST] = bytes / of_one,
                            [PASS_SPREAD] = bytes / ranks / of_one,  [PASS_COLLECT] = bytes / ranks };
    static const op_way ways[] = {
        [PASS_FROM_BEFORE] = WAY_FROM_BEFORE, [PASS_TO_NEXT] = WAY_TO_NEXT,  [PASS_AROUND] = WAY_AROUND,
        [PASS_FROM_LAST] = WAY_FROM_LAST,     [PASS_SPREAD] = WAY_FROM_LAST, [PASS_COLLECT] = WAY_FROM_LAST
    };
    bool all_send = a->step == PASS_COLLECT && !a->group; /* as in any other movement */
    return (op_cost){ .sent = sent[a->step],
                      .ranks = all_send ? 0 : a->ranks,
                      .apart = a->group,
                      .way = all_send ? WAY_ALL : ways[a->step] };
}

static const op_input inputs[] = { { "x", 0, 1, 4, false } };
static const op_alias aliases[] = { { .out = 0, .in = 0, .must = true } };

static const op_case cases[] = { { "from before",
                                   { { DTYPE_F32, { { 7, 33 }, 2 }, -1, 1 } },
                                   &(pass_on_attributes){ 1, PASS_FROM_BEFORE, 0, 0, 0 },
                                   0,
                                   true },
                                 { "to next",
                                   { { DTYPE_F32, { { 231 }, 1 }, -1, 1 } },
                                   &(pass_on_attributes){ 1, PASS_TO_NEXT, 0, 0, 0 },
                                   0,
                                   true },
                                 { "a piece from before",
                                   { { DTYPE_F32, { { 231 }, 1 }, -1, 1 } },
                                   &(pass_on_attributes){ 1, PASS_FROM_BEFORE, 1, 17, 200 },
                                   0,
                                   true },
                                 { "around",
                                   { { DTYPE_BF16, { { 231 }, 1 }, -1, 1 } },
                                   &(pass_on_attributes){ 1, PASS_AROUND, 0, 0, 0 },
                                   0,
                                   true },
                                 { "of a group",
                                   { { DTYPE_F32, { { 231 }, 1 }, -1, 1 } },
                                   &(pass_on_attributes){ 1, PASS_FROM_BEFORE, 1, 0, 0 },
                                   0,
                                   true },
                                 { "from last",
                                   { { DTYPE_F32, { { 1 }, 1 }, -1, 1 } },
                                   &(pass_on_attributes){ 1, PASS_FROM_LAST, 0, 0, 0 },
                                   0,
                                   true },
                                 { "spread",
                                   { { DTYPE_F32, { { 231 }, 1 }, -1, 1 } },
                                   &(pass_on_attributes){ 1, PASS_SPREAD, 1, 0, 0 },
                                   0,
                                   true },
                                 { "collect",
                                   { { DTYPE_F32, { { 231 }, 1 }, -1, 1 } },
                                   &(pass_on_attributes){ 1, PASS_COLLECT, 1, 0, 0 },
                                   0,
                                   true },
                                 { 0 } };

const op_def op_pass_on = { .name = "pass_on",
                            .inputs = inputs,
                            .in_count = 1,
                            .aliases = aliases,
                            .alias_count = 1,
                            .out_count = 1,
                            .attribute_bytes = sizeof(pass_on_attributes),
                            .traits = OP_COLLECTIVE,
                            .infer = infer,
                            .cost = cost,
                            .cpu = pass_on_cpu,
                            .cuda = OP_CUDA(pass_on_cuda),
                            .cases = cases };
