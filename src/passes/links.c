#include "passes/links.h"

#include "ir/op.h"
#include "ir/row_sum.h"

/* The parameter that lives where t does, or that t was made of to be updated; 0: none. */
static tensor_id parameter_of(const graph *g, tensor_id t) {
    tensor_id owner = graph_storage(g, t, NULL);
    const node *maker = graph_node(g, graph_tensor(g, owner)->producer);
    if (graph_tensor(g, owner)->producer && maker->phase == PHASE_UPDATE) owner = node_in(g, maker, 0);
    return graph_tensor(g, owner)->role == ROLE_PARAMETER ? owner : 0;
}

static bool is_made_gradient(const graph *g, tensor_id t) {
    return t && graph_tensor(g, t)->producer && graph_tensor(g, t)->flags & TENSOR_GRADIENT;
}

/* The gradient as it was before the sums of units: what they are made of. What is added stands behind what it
 * is added to. */
static tensor_id before_units(const graph *g, tensor_id gradient) {
    for (tensor_id t = gradient;;) {
        node_id maker = graph_tensor(g, t)->producer;
        const node *n = graph_node(g, maker);
        if (!maker || n->phase < PHASE_REDUCE) return t;
        uint32_t i = n->in_count;
        while (i && !is_made_gradient(g, node_in(g, n, i - 1))) i--;
        if (!i) return gradient;
        t = node_in(g, n, i - 1);
    }
}

bool links_update(const graph *g, const node *n, links_updated *u) {
    *u = (links_updated){ 0 };
    if (n->phase != PHASE_UPDATE) return false;
    for (uint32_t a = 0; a < n->op->alias_count; a++) {
        tensor_id t = n->op->aliases[a].must ? node_in(g, n, n->op->aliases[a].in) : 0;
        if (t && parameter_of(g, t)) u->parameter = parameter_of(g, t);
    }
    for (uint32_t i = 0; u->parameter && i < n->in_count; i++) {
        tensor_id t = node_in(g, n, i);
        if (t && graph_tensor(g, t)->flags & TENSOR_GRADIENT) u->gradient = before_units(g, t);
    }
    return u->gradient != 0;
}

uint32_t links_find(const graph *g, tensor_id gradient, node_id links[LINKS_MOST]) {
    uint32_t count = 0;
    for (tensor_id t = gradient; t; t = graph_tensor(g, t)->base) {
        if (!graph_tensor(g, t)->producer) return 0;
        if (count < LINKS_MOST) links[count] = graph_tensor(g, t)->producer;
        count++;
    }
    return count <= LINKS_MOST ? count : 0;
}

uint32_t links_accumulator(const graph *g, const node *n, tensor_id t) {
    for (uint32_t a = 0; a < n->op->alias_count; a++) {
        const op_alias *alias = &n->op->aliases[a];
        if (alias->must && alias->out < n->out_count && node_out(g, n, alias->out) == t) return alias->in;
    }
    return UINT32_MAX;
}

bool links_of_one_kind(const graph *g, const node *a, const node *b) {
    const op_def *x = a->op, *y = b->op;
    if (x != y) return false;
    return !x->row_sum || node_in(g, a, x->row_sum->ids) == node_in(g, b, y->row_sum->ids);
}
