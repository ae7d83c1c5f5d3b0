#include "passes/linear.h"

#include <string.h>

#include "base/memory.h"
#include "ir/op.h"
#include "ops/embedding/embedding.h"
#include "ops/matmul/matmul.h"
#include "passes/pass.h"

enum { TABLE = 1 /* of op_embedding's inputs */ };

/* Does node n read its input i as rows of a table? */
static bool reads_rows(const graph *g, const node *n, uint32_t i) {
    if (n->op == &op_embedding) return i == TABLE;
    if (n->op != &op_matmul || i != MATMUL_B) return false;
    const matmul_attributes *t = node_attributes(g, n);
    return t->tb && !t->ta;
}

static void find_tables(linear_products *l) {
    const graph *g = l->g;
    for (node_id id = 1; id < g->nodes.count; id++) {
        const node *n = graph_node(g, id);
        if (n->op != &op_embedding) continue;
        const tensor *x = graph_tensor(g, node_in(g, n, TABLE));
        l->table[node_in(g, n, TABLE)] =
            !x->producer && x->role == ROLE_PARAMETER && !(x->flags & TENSOR_BARE);
    }
    for (node_id id = 1; id < g->nodes.count; id++) {
        const node *n = graph_node(g, id);
        for (uint32_t i = 0; i < n->in_count; i++)
            if (!reads_rows(g, n, i)) l->table[node_in(g, n, i)] = false;
    }
}

status linear_open(const graph *g, linear_products *l) {
    *l = (linear_products){ .g = g,
                            .otherwise = memory_new(g->tensors.count, sizeof *l->otherwise),
                            .table = memory_new(g->tensors.count, sizeof *l->table) };
    if (!l->otherwise || !l->table) {
        linear_close(l);
        return status_set(STATUS_FAILED, "no memory to look at products");
    }
    for (node_id id = 1; id < g->nodes.count; id++) {
        const node *n = graph_node(g, id);
        if (n->op == &op_matmul || n->op->traits & OP_ELEMENTWISE) continue;
        for (uint32_t i = 0; i < n->in_count; i++) l->otherwise[node_in(g, n, i)] = true;
    }
    find_tables(l);
    return STATUS_OK;
}

void linear_close(linear_products *l) {
    memory_free(l->otherwise);
    memory_free(l->table);
    *l = (linear_products){ 0 };
}

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

tensor_id linear_table(const linear_products *l, node_id id) {
    const node *n = graph_node(l->g, id);
    uint32_t i = n->op == &op_embedding ? TABLE : MATMUL_B;
    if (n->op != &op_embedding && n->op != &op_matmul) return 0;
    tensor_id t = node_in(l->g, n, i);
    return l->table[t] ? t : 0;
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
