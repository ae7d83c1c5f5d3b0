#include "autodiff/units.h"

#include <stdio.h>

#include "base/memory.h"
#include "ir/rewrite.h"
#include "ops/add_into/add_into.h"
#include "ops/fill/fill.h"

static bool updated(const graph *g, tensor_id t, const tensor_id *gradient) {
    const tensor *x = graph_tensor(g, t);
    return !x->producer && x->role == ROLE_PARAMETER && gradient[t];
}

static tensor_id sum_of(graph *g, tensor_id parameter) {
    char name[96];
    snprintf(name, sizeof name, "units.%s", graph_name(g, parameter));
    return graph_add_source(g, &(graph_source){ .name = name,
                                                .shape = *graph_shape(g, parameter),
                                                .dtype = DTYPE_F32,
                                                .role = ROLE_GRADIENT,
                                                .flags = TENSOR_GRADIENT });
}

status units_append(graph *g, tensor_id *loss, tensor_id *gradient, uint32_t tensors) {
    graph_source whole = { .name = UNITS_LOSS, .shape = SHAPE(1), .dtype = DTYPE_F32, .role = ROLE_RESULT };
    g->phase = PHASE_REDUCE;
    g->site = SITE_NONE;
    tensor_id of_unit = *loss;
    *loss = add_into_apply(g, graph_add_source(g, &whole), of_unit);
    fill_apply(g, of_unit, 0);
    for (tensor_id t = 1; t < tensors; t++) {
        if (!updated(g, t, gradient)) continue;
        gradient[t] = add_into_apply(g, sum_of(g, t), gradient[t]);
        if (gradient[t]) graph_tensor(g, gradient[t])->flags |= TENSOR_GRADIENT;
    }
    return graph_status(g);
}

status units_clear(graph *g, const tensor_id *gradient, uint32_t tensors) {
    g->phase = PHASE_UPDATE;
    g->site = SITE_NONE;
    for (tensor_id t = 1; t < tensors; t++)
        if (updated(g, t, gradient)) fill_apply(g, gradient[t], 0);
    return graph_status(g);
}

/* ---- where they stand ---- */

typedef struct {
    node_id *due;         /* by node that reduces: the other one that it stands behind; 0: it stays */
    node_id *head, *next; /* those that stand behind a node, as lists */
} places;

static void find_places(const graph *g, places *p) {
    for (node_id id = 1; id < g->nodes.count; id++) {
        const node *n = graph_node(g, id);
        for (uint32_t i = 0; i < n->in_count && n->phase == PHASE_REDUCE; i++) {
            node_id maker = node_in(g, n, i) ? graph_tensor(g, node_in(g, n, i))->producer : 0;
            node_id after = maker && graph_node(g, maker)->phase == PHASE_REDUCE ? p->due[maker] : maker;
            if (after > p->due[id]) p->due[id] = after;
        }
    }
    for (node_id id = g->nodes.count; id-- > 1;) { /* backwards, so that each list is in order */
        if (!p->due[id]) continue;
        p->next[id] = p->head[p->due[id]];
        p->head[p->due[id]] = id;
    }
}

status units_settle(const graph *in, graph *out) {
    rewrite r;
    uint32_t nodes = in->nodes.count;
    places p = { memory_new(nodes, sizeof(node_id)), memory_new(nodes, sizeof(node_id)),
                 memory_new(nodes, sizeof(node_id)) };
    status result = rewrite_open(&r, in, out);
    if (!p.due || !p.head || !p.next) graph_no_memory(out);
    if (!out->failed) find_places(in, &p);
    for (node_id id = 1; id < nodes && !out->failed; id++) {
        if (p.due[id]) continue;
        rewrite_node(&r, id);
        for (node_id then = p.head[id]; then; then = p.next[then]) rewrite_node(&r, then);
    }
    memory_free(p.due);
    memory_free(p.head);
    memory_free(p.next);
    status closed = rewrite_close(&r);
    return result != STATUS_OK ? result : closed;
}
