#include "ir/op.h"
#include "ir/update.h"

#include <string.h>

status op_check_input(const graph *g, const node *n, uint32_t i, const shape *expected, uint8_t type) {
    tensor_id t = node_in(g, n, i);
    char is[SHAPE_TEXT_BYTES], should[SHAPE_TEXT_BYTES];
    if (!t || (shape_equal(graph_shape(g, t), expected) && graph_tensor(g, t)->dtype == type))
        return STATUS_OK;
    return status_set(STATUS_INVALID, "input '%s' is %s %s, must be %s %s", n->op->inputs[i].name,
                      dtype_name(graph_tensor(g, t)->dtype), shape_text(graph_shape(g, t), is),
                      dtype_name(type), shape_text(expected, should));
}

static bool is_half(const graph *g, tensor_id t) {
    return t && dtype_is_half((dtype)graph_tensor(g, t)->dtype);
}

op_cost op_cost_elementwise(const graph *g, const node *n, double flops) {
    op_cost cost = { 0 };
    for (uint32_t i = 0; i < n->in_count; i++)
        if (node_in(g, n, i)) cost.bytes_read += (double)graph_tensor_bytes(g, node_in(g, n, i));
    if (is_half(g, node_in(g, n, 0)) || is_half(g, node_out(g, n, 0))) cost.kind = WORK_ARITHMETIC_HALF;
    for (uint32_t i = 0; i < n->out_count; i++) {
        tensor_id t = node_out(g, n, i);
        cost.bytes_written += (double)graph_tensor_bytes(g, t);
        cost.flops += flops * (double)shape_elements(graph_shape(g, t));
    }
    return cost;
}

op_cost op_cost_functions(const graph *g, const node *n, double flops) {
    op_cost cost = op_cost_elementwise(g, n, flops);
    cost.kind = cost.kind == WORK_ARITHMETIC_HALF ? WORK_FUNCTIONS_HALF : WORK_FUNCTIONS;
    return cost;
}

work_kind op_products_kind(const graph *g, const node *n) {
    for (uint32_t i = 0; i < 2; i++)
        if (graph_tensor(g, node_in(g, n, i))->dtype != DTYPE_BF16) return WORK_PRODUCTS;
    return WORK_PRODUCTS_HALF;
}

uint32_t op_state_count(const op_def *op) { return op->update ? op->update->state_count : 0; }

bool op_in_pieces(const op_def *op) { return op_state_count(op) || (op->traits & OP_ELEMENTWISE) != 0; }

const op_def *op_find(const char *name) {
    for (const op_def *const *op = op_table; *op; op++)
        if (strcmp((*op)->name, name) == 0) return *op;
    return NULL;
}

static op_range both(op_range a, op_range b) {
    if (!a.below || !b.below) return a.below ? a : b;
    return (op_range){ .below = a.below < b.below ? a.below : b.below, .ignores = a.ignores && b.ignores };
}

op_range op_range_of(const graph *g, tensor_id t) {
    op_range all = { 0 };
    for (node_id id = 1; id < g->nodes.count; id++) {
        const node *n = graph_node(g, id);
        for (uint32_t i = 0; n->op->range && i < n->in_count; i++) {
            tensor_id x = node_in(g, n, i);
            if (x && graph_storage(g, x, NULL) == t) all = both(all, n->op->range(g, n, i));
        }
    }
    return all;
}
