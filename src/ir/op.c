#include "ir/op.h"

#include <string.h>

op_cost op_cost_elementwise(const graph *g, const node *n, double flops) {
    op_cost cost = { 0 };
    for (uint32_t i = 0; i < n->in_count; i++)
        if (node_in(g, n, i)) cost.bytes_read += (double)graph_tensor_bytes(g, node_in(g, n, i));
    for (uint32_t i = 0; i < n->out_count; i++) {
        tensor_id t = node_out(g, n, i);
        cost.bytes_written += (double)graph_tensor_bytes(g, t);
        cost.flops += flops * (double)shape_elements(graph_shape(g, t));
    }
    return cost;
}

op_cost op_cost_functions(const graph *g, const node *n, double flops) {
    op_cost cost = op_cost_elementwise(g, n, flops);
    cost.kind = WORK_FUNCTIONS;
    return cost;
}

const op_def *op_find(const char *name) {
    for (const op_def *const *op = op_table; *op; op++)
        if (strcmp((*op)->name, name) == 0) return *op;
    return NULL;
}
