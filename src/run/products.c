#include "run/products.h"

#include "base/instructions.h"
#include "ir/graph.h"
#include "ops/matmul/matmul_kernel.h"

static bool has_pairs(const graph *g) {
    for (node_id id = 1; id < g->nodes.count; id++) {
        const node *n = graph_node(g, id);
        const tensor_id *in = graph_edges(g) + n->in;
        if (n->op->pairs && matmul_in_pairs(graph_tensor(g, in[0])->dtype, graph_tensor(g, in[1])->dtype))
            return true;
    }
    return false;
}

const char *products_kind(const decision *d) {
    bool found = false;
    for (uint32_t i = 0; i < d->plan.program_count && !found; i++)
        found = has_pairs(&d->plan.programs[i].program.graph);
    if (!found) return "";
    return d->plan.device && d->plan.device->kind != DEVICE_CPU ? PRODUCTS_WIDENED : instructions_kind();
}
