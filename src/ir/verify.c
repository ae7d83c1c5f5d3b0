#include "ir/verify.h"

#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "ir/op.h"

/* A must-alias write puts the next version of a value over the last one. A tensor holds what its bytes were
 * when its producer had run; so it is stale as soon as a later node writes over any of them, through whatever
 * view or part of the same storage. A write is named by its result; those of one storage form a list, latest
 * first. */
typedef struct {
    int64_t begin, end; /* bytes of the storage */
    tensor_id before;   /* the write before this one to the same storage; 0: none */
} overwrite;

typedef struct {
    const graph *g;
    tensor_id *latest; /* by owner of a storage: its last write; 0: none */
    overwrite *writes; /* by result */
} verifier;

/* Where t lies: the owner of its storage and its bytes in there. */
static tensor_id place(const graph *g, tensor_id t, int64_t *begin, int64_t *end) {
    tensor_id owner = graph_storage(g, t, begin);
    *end = *begin + (int64_t)graph_tensor_bytes(g, t);
    return owner;
}

/* The node that has written over t since it was made; 0: t is still what it was, as most are for ever. */
static node_id overwritten(const verifier *v, tensor_id t) {
    int64_t begin;
    node_id made = graph_tensor(v->g, t)->producer;
    tensor_id w = v->latest[graph_storage(v->g, t, &begin)];
    if (!w || graph_tensor(v->g, w)->producer <= made) return 0;
    int64_t end = begin + (int64_t)graph_tensor_bytes(v->g, t);
    for (; w && graph_tensor(v->g, w)->producer > made; w = v->writes[w].before)
        if (v->writes[w].begin < end && begin < v->writes[w].end) return graph_tensor(v->g, w)->producer;
    return 0;
}

static status check_inputs(const verifier *v, node_id id) {
    const node *n = graph_node(v->g, id);
    for (uint32_t i = 0; i < n->in_count; i++) {
        tensor_id t = node_in(v->g, n, i);
        if (!t) continue;
        if (graph_tensor(v->g, t)->producer >= id)
            return status_set(STATUS_FAILED, "verify: node %u (%s) reads tensor %u before it exists", id,
                              n->op->name, t);
        node_id writer = overwritten(v, t);
        if (writer)
            return status_set(STATUS_FAILED,
                              "verify: node %u (%s) reads tensor %u ('%s') after node %u wrote over it", id,
                              n->op->name, t, graph_name(v->g, t), writer);
    }
    return STATUS_OK;
}

/* Does node n read what it writes over by another input as well? */
static bool reads_twice(const graph *g, const node *n, uint32_t in, const overwrite *w, tensor_id owner) {
    for (uint32_t i = 0; i < n->in_count; i++) {
        int64_t begin, end;
        tensor_id t = i == in ? 0 : node_in(g, n, i);
        if (t && place(g, t, &begin, &end) == owner && w->begin < end && begin < w->end) return true;
    }
    return false;
}

static status note_writes(verifier *v, node_id id) {
    const node *n = graph_node(v->g, id);
    for (uint32_t a = 0; a < n->op->alias_count; a++) {
        const op_alias *alias = &n->op->aliases[a];
        tensor_id from = node_in(v->g, n, alias->in);
        if (!alias->must || !from || alias->out >= n->out_count) continue;
        overwrite *w = &v->writes[node_out(v->g, n, alias->out)];
        tensor_id owner = place(v->g, from, &w->begin, &w->end);
        if (reads_twice(v->g, n, alias->in, w, owner))
            return status_set(STATUS_FAILED,
                              "verify: node %u (%s) reads tensor %u ('%s') while it writes over it", id,
                              n->op->name, from, graph_name(v->g, from));
        w->before = v->latest[owner];
        v->latest[owner] = node_out(v->g, n, alias->out);
    }
    return STATUS_OK;
}

/* The host reads kept values when all nodes have run. */
static status check_kept(const verifier *v) {
    for (tensor_id t = 1; t < v->g->tensors.count; t++) {
        node_id writer = graph_tensor(v->g, t)->flags & TENSOR_KEEP ? overwritten(v, t) : 0;
        if (writer)
            return status_set(STATUS_FAILED,
                              "verify: tensor %u ('%s') is kept for the host, but node %u writes over it", t,
                              graph_name(v->g, t), writer);
    }
    return STATUS_OK;
}

/* ---- names ---- */

/* Persistent sources are shared between programs by name: each needs one, and its own. `table` is an open
 * hash table of tensors, at most half full. */
static status check_names(const graph *g, tensor_id *table, uint32_t slots) {
    for (tensor_id t = 1; t < g->tensors.count; t++) {
        const tensor *x = graph_tensor(g, t);
        if (x->producer || !role_persistent(x->role)) continue;
        const char *name = graph_name(g, t);
        if (!*name) return status_set(STATUS_FAILED, "verify: persistent tensor %u has no name", t);
        uint32_t slot = hash_name(name) & (slots - 1);
        for (; table[slot]; slot = (slot + 1) & (slots - 1))
            if (strcmp(graph_name(g, table[slot]), name) == 0)
                return status_set(STATUS_FAILED, "verify: tensors %u and %u are both called '%s'",
                                  table[slot], t, name);
        table[slot] = t;
    }
    return STATUS_OK;
}

/* ---- all of it ---- */

static status check_nodes(verifier *v) {
    for (node_id id = 1; id < v->g->nodes.count; id++) {
        TRY(check_inputs(v, id));
        TRY(note_writes(v, id));
    }
    return check_kept(v);
}

status verify_graph(const graph *g) {
    TRY(graph_status(g));
    uint32_t slots = 16;
    while (slots < 2 * g->tensors.count) slots *= 2;
    verifier v = { .g = g,
                   .latest = memory_new(g->tensors.count, sizeof *v.latest),
                   .writes = memory_new(g->tensors.count, sizeof *v.writes) };
    tensor_id *table = memory_new(slots, sizeof *table);
    status result = STATUS_OK;
    if (!v.latest || !v.writes || !table) result = status_set(STATUS_FAILED, "no memory to verify a graph");
    if (result == STATUS_OK) result = check_names(g, table, slots);
    if (result == STATUS_OK) result = check_nodes(&v);
    memory_free(v.latest);
    memory_free(v.writes);
    memory_free(table);
    return result;
}
