#include "ir/verify.h"

#include <string.h>

#include "base/memory.h"
#include "ir/op.h"

/* Versions of a storage: a must-alias write makes the next version of the bytes of its input. Reading a
 * tensor is right only while no later write covers it. `written[root]` holds the last writing node and the
 * range and result of the write; ranges matter because parts of one storage are written one by one. */
typedef struct {
    node_id writer;
    tensor_id result;
} last_write;

static status check_order(const graph *g, node_id id) {
    const node *n = graph_node(g, id);
    for (uint32_t i = 0; i < n->in_count; i++) {
        tensor_id t = node_in(g, n, i);
        if (t && graph_tensor(g, t)->producer >= id)
            return status_set(STATUS_FAILED, "verify: node %u (%s) reads tensor %u before it exists", id, n->op->name, t);
    }
    return STATUS_OK;
}

/* A tensor is stale when some must-alias write has gone over the very tensor it is, or one it is a view of. */
static status check_stale(const graph *g, node_id id, const last_write *over) {
    const node *n = graph_node(g, id);
    for (uint32_t i = 0; i < n->in_count; i++)
        for (tensor_id t = node_in(g, n, i); t; t = graph_tensor(g, t)->base) {
            if (over[t].writer && over[t].writer < id) {
                /* t was written over; fine only if what we read is that result or newer, i.e. we came from it */
                tensor_id walk = node_in(g, n, i);
                while (walk && walk != over[t].result) walk = graph_tensor(g, walk)->base;
                if (!walk)
                    return status_set(STATUS_FAILED, "verify: node %u (%s) reads tensor %u ('%s') after node %u wrote over it",
                                      id, n->op->name, t, graph_name(g, t), over[t].writer);
            }
        }
    return STATUS_OK;
}

static void note_writes(const graph *g, node_id id, last_write *over) {
    const node *n = graph_node(g, id);
    for (uint32_t a = 0; a < n->op->alias_count; a++) {
        const op_alias *alias = &n->op->aliases[a];
        tensor_id from = node_in(g, n, alias->in);
        if (alias->must && from && alias->out < n->out_count)
            over[from] = (last_write){ id, node_out(g, n, alias->out) };
    }
}

static status check_names(const graph *g) {
    for (tensor_id t = 1; t < g->tensors.count; t++) {
        const tensor *x = graph_tensor(g, t);
        if (!x->producer && role_persistent(x->role) && !x->name)
            return status_set(STATUS_FAILED, "verify: persistent tensor %u has no name", t);
    }
    return STATUS_OK;
}

status verify_graph(const graph *g) {
    TRY(graph_status(g));
    last_write *over = memory_new(g->tensors.count, sizeof *over);
    if (!over) return status_set(STATUS_FAILED, "no memory to verify a graph");
    status result = check_names(g);
    for (node_id id = 1; id < g->nodes.count && result == STATUS_OK; id++) {
        TRY_OR(done, check_order(g, id));
        TRY_OR(done, check_stale(g, id, over));
        note_writes(g, id, over);
    }
done:
    memory_free(over);
    return result;
}
