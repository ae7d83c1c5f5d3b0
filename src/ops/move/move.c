#include "ops/move/move.h"

tensor_id move_apply(graph *g, tensor_id x, bool away) {
    tensor_id y = graph_add(g, &op_move, &x, 1, NULL);
    if (y) graph_tensor(g, y)->away = away;
    return y;
}

tensor_id move_into(graph *g, tensor_id x, tensor_id place) {
    tensor_id inputs[] = { x, place };
    tensor_id y = graph_add(g, &op_move, inputs, 2, NULL);
    if (y) graph_tensor(g, y)->away = graph_tensor(g, graph_storage(g, place, NULL))->away;
    return y;
}

static status infer(const graph *g, const node *n, tensor *out) {
    const tensor *x = graph_tensor(g, node_in(g, n, MOVE_X));
    tensor_id place = node_in(g, n, MOVE_PLACE);
    out[0] = (tensor){ .shape = x->shape, .dtype = x->dtype };
    if (place &&
        (!shape_equal(graph_shape(g, place), &x->shape) || graph_tensor(g, place)->dtype != x->dtype))
        return status_set(STATUS_INVALID, "what is moved does not fit into its place");
    return STATUS_OK;
}

static op_cost cost(const graph *g, const node *n) {
    double bytes = (double)graph_tensor_bytes(g, node_out(g, n, 0));
    return (op_cost){ .bytes_read = bytes, .bytes_written = bytes };
}

static const op_input inputs[] = { { "x", 0, 1, 4, false }, { "place", 0, 1, 4, true } };
static const op_alias aliases[] = { { .out = 0, .in = MOVE_PLACE, .must = true } };

#define FLOATS                                                                                               \
    { DTYPE_F32, { { 3, 67, 101 }, 3 }, -4, 4 }
static const op_case cases[] = { { "floats", { FLOATS }, NULL, 0, true },
                                 { "half", { { DTYPE_BF16, { { 40001 }, 1 }, -4, 4 } }, NULL, 0, true },
                                 { "over another", { FLOATS, FLOATS }, NULL, 0, true },
                                 { 0 } };

const op_def op_move = { .name = "move",
                         .inputs = inputs,
                         .in_count = 2,
                         .aliases = aliases,
                         .alias_count = 1,
                         .out_count = 1,
                         .traits = OP_ELEMENTWISE,
                         .places = 1u << MOVE_PLACE,
                         .infer = infer,
                         .cost = cost,
                         .cpu = move_cpu,
                         .cuda = OP_CUDA(move_cuda),
                         .cases = cases };
