#include "autodiff/autodiff.h"

#include "base/memory.h"
#include "ir/op.h"
#include "ops/add/add.h"
#include "ops/constant/constant.h"

typedef struct {
    graph *g;
    tensor_id *gradient; /* by forward tensor */
    bool *needs;         /* by forward tensor: a gradient has to reach it */
    tensor_id tensors;   /* of the forward graph */
    node_id nodes;
} autodiff;

/* A value needs a gradient when it is wanted itself or made from one that does, by a differentiable op. */
static void mark_needs(autodiff *a, const bool *wanted) {
    const graph *g = a->g;
    for (tensor_id t = 1; t < a->tensors; t++) {
        const tensor *x = graph_tensor(g, t);
        if (!x->producer)
            a->needs[t] = (wanted && wanted[t]) || (x->role == ROLE_PARAMETER && (x->flags & TENSOR_TRAINABLE));
    }
    for (node_id id = 1; id < a->nodes; id++) {
        const node *n = graph_node(g, id);
        bool any = false;
        for (uint32_t i = 0; i < n->in_count; i++) any |= node_in(g, n, i) && a->needs[node_in(g, n, i)];
        for (uint32_t i = 0; i < n->out_count; i++) {
            tensor_id t = node_out(g, n, i);
            a->needs[t] = any && n->op->grad && dtype_is_float(graph_tensor(g, t)->dtype);
        }
    }
}

enum { MAX_SIDES = 64 };

/* The first input that is the same tensor as input i. */
static uint32_t earlier_place(const graph *g, const node *n, uint32_t i) {
    uint32_t k = 0;
    while (node_in(g, n, k) != node_in(g, n, i)) k++;
    return k;
}

static void differentiate(autodiff *a, node_id id) {
    graph *g = a->g;
    node n = *graph_node(g, id);
    tensor_id dout[MAX_SIDES] = { 0 }, din[MAX_SIDES] = { 0 };
    bool want[MAX_SIDES] = { false }, flows = false, wanted = false;
    if (!n.op->grad || n.in_count > MAX_SIDES || n.out_count > MAX_SIDES) return;
    for (uint32_t i = 0; i < n.out_count; i++) flows |= (dout[i] = a->gradient[node_out(g, &n, i)]) != 0;
    for (uint32_t i = 0; i < n.in_count; i++) {
        tensor_id t = node_in(g, &n, i);
        if (!t || !a->needs[t]) continue;
        want[i] = wanted = true;
        din[i] = a->gradient[t];
    }
    if (!flows || !wanted) return;
    for (uint32_t i = 0; i < n.in_count; i++) /* a value that is read twice begins anew at its second place */
        if (want[i] && earlier_place(g, &n, i) < i) din[i] = 0;
    g->site = n.site;
    n.op->grad(g, id, dout, want, din);
    for (uint32_t i = 0; i < n.in_count; i++) {
        if (!want[i]) continue;
        tensor_id *sum = &a->gradient[node_in(g, &n, i)];
        *sum = earlier_place(g, &n, i) < i && din[i] ? add_gather(g, *sum, din[i]) : din[i];
    }
}

/* All links of the chain that makes up a parameter's gradient share its storage; flag them all. */
static void flag_gradients(const autodiff *a) {
    for (tensor_id p = 1; p < a->tensors; p++) {
        const tensor *x = graph_tensor(a->g, p);
        if (x->producer || x->role != ROLE_PARAMETER) continue;
        for (tensor_id t = a->gradient[p]; t; t = graph_tensor(a->g, t)->base)
            graph_tensor(a->g, t)->flags |= TENSOR_GRADIENT;
    }
}

status autodiff_run(graph *g, const autodiff_seed *seeds, uint32_t count, const bool *wanted, tensor_id *gradient) {
    TRY(graph_status(g));
    autodiff a = { .g = g, .gradient = gradient, .tensors = g->tensors.count, .nodes = g->nodes.count };
    a.needs = memory_new(a.tensors, sizeof *a.needs);
    if (!a.needs) return status_set(STATUS_FAILED, "no memory to differentiate a graph");
    for (tensor_id t = 0; t < a.tensors; t++) gradient[t] = 0;
    mark_needs(&a, wanted);
    g->phase = PHASE_BACKWARD;
    g->site = SITE_NONE;
    for (uint32_t i = 0; i < count; i++)
        gradient[seeds[i].of] =
            seeds[i].gradient ? seeds[i].gradient : constant_apply(g, graph_tensor(g, seeds[i].of)->dtype, 1.0);
    for (node_id id = a.nodes; id-- > 1 && !g->failed;) differentiate(&a, id);
    if (!g->failed) flag_gradients(&a);
    memory_free(a.needs);
    return graph_status(g);
}
