#include "passes/linear.h"

#include <string.h>

#include "base/memory.h"
#include "ir/op.h"
#include "ops/matmul/matmul.h"
#include "passes/pass.h"

status linear_open(const graph *g, linear_products *l) {
    *l = (linear_products){ .g = g, .otherwise = memory_new(g->tensors.count, sizeof *l->otherwise) };
    if (!l->otherwise) return status_set(STATUS_FAILED, "no memory to look at products");
    for (node_id id = 1; id < g->nodes.count; id++) {
        const node *n = graph_node(g, id);
        if (n->op == &op_matmul || n->op->traits & OP_ELEMENTWISE) continue;
        for (uint32_t i = 0; i < n->in_count; i++) l->otherwise[node_in(g, n, i)] = true;
    }
    return STATUS_OK;
}

void linear_close(linear_products *l) { memory_free(l->otherwise); }

/* The parameter that a value is, or is a narrower copy of; 0: none. */
static tensor_id parameter_of(const graph *g, tensor_id t) {
    while (graph_tensor(g, t)->producer) {
        const node *n = graph_node(g, graph_tensor(g, t)->producer);
        if (n->in_count != 1 || !(n->op->traits & OP_ELEMENTWISE)) return 0;
        t = node_in(g, n, 0);
    }
    return graph_tensor(g, t)->role == ROLE_PARAMETER ? t : 0;
}

tensor_id linear_weight(const linear_products *l, node_id id) {
    const graph *g = l->g;
    const node *n = graph_node(g, id);
    float deviation;
    if (n->op != &op_matmul) return 0;
    const matmul_attributes *t = node_attributes(g, n);
    tensor_id w = parameter_of(g, node_in(g, n, MATMUL_B));
    if (!w || t->ta || l->otherwise[w] || parameter_of(g, node_in(g, n, MATMUL_A))) return 0;
    if (graph_tensor(g, w)->flags & TENSOR_BARE) return 0;
    return pass_of_parameter(graph_name(g, w), graph_shape(g, w), &deviation) ? 0 : w;
}

bool linear_by_rows(const linear_products *l, node_id id) {
    const matmul_attributes *t = node_attributes(l->g, graph_node(l->g, id));
    return t->tb != 0;
}

bool linear_any(const linear_products *l) {
    for (node_id id = 1; id < l->g->nodes.count; id++)
        if (linear_weight(l, id)) return true;
    return false;
}

bool linear_reads_by_rows(const graph *g, const char *weight) {
    for (node_id id = 1; id < g->nodes.count; id++) {
        const node *n = graph_node(g, id);
        if (n->op != &op_matmul) continue;
        tensor_id w = parameter_of(g, node_in(g, n, MATMUL_B));
        const matmul_attributes *t = node_attributes(g, n);
        if (w && strcmp(graph_name(g, w), weight) == 0) return t->tb != 0;
    }
    return false;
}
