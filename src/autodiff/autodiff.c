#include "autodiff/autodiff.h"

#include "base/memory.h"
#include "ir/op.h"
#include "ops/add/add.h"
#include "ops/constant/constant.h"
#include "ops/scale/scale.h"

typedef struct {
    graph *g;
    tensor_id *gradient; /* by forward tensor */
    bool *needs;         /* by forward tensor: a gradient has to reach it */
    tensor_id *home;     /* by forward tensor: where its gradient lay when it was noted; 0: nowhere */
    array held;          /* by tensor: of how many forward tensors, still to be taken from, it is the home */
    tensor_id tensors;   /* of the forward graph */
    node_id nodes;
} autodiff;

/* A value needs a gradient when it is wanted itself or made from one that does, by a differentiable op. */
static void mark_needs(autodiff *a, const bool *wanted) {
    const graph *g = a->g;
    for (tensor_id t = 1; t < a->tensors; t++) {
        const tensor *x = graph_tensor(g, t);
        if (!x->producer)
            a->needs[t] =
                (wanted && wanted[t]) || (x->role == ROLE_PARAMETER && (x->flags & TENSOR_TRAINABLE));
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

/* Where t lies: the owner of its storage, and its bytes in there. */
static tensor_id place(const graph *g, tensor_id t, int64_t *begin, int64_t *end) {
    tensor_id owner = graph_storage(g, t, begin);
    *end = *begin + (int64_t)graph_tensor_bytes(g, t);
    return owner;
}

static bool overlap(const graph *g, tensor_id a, tensor_id b) {
    int64_t a_begin, a_end, b_begin, b_end;
    return place(g, a, &a_begin, &a_end) == place(g, b, &b_begin, &b_end) && a_begin < b_end &&
           b_begin < a_end;
}

/* ---- who shares a gradient ---- */

static uint32_t *held(const autodiff *a, tensor_id owner) { return (uint32_t *)a->held.data + owner; }

static void release(autodiff *a, tensor_id t) {
    if (a->home[t]) --*held(a, a->home[t]);
    a->home[t] = 0;
}

/* Notes where the gradient of forward tensor t lies now. */
static void settle(autodiff *a, tensor_id t) {
    uint32_t first, count = a->g->tensors.count;
    release(a, t);
    if (!a->gradient[t] || a->g->failed) return;
    if (count > a->held.count && array_add(&a->held, count - a->held.count, &first) != STATUS_OK) {
        graph_fail(a->g, "the graph is too large to differentiate");
        return;
    }
    a->home[t] = graph_storage(a->g, a->gradient[t], NULL);
    ++*held(a, a->home[t]);
}

/* Does nobody else's gradient lie where t's does? Homes are noted by the storage's owner of that time, and
 * only what is gathered changes owners later; so counts tell unless there has been a gather. */
static bool alone(const autodiff *a, tensor_id t, tensor_id owner) {
    const node *maker = graph_node(a->g, graph_tensor(a->g, owner)->producer);
    return a->home[t] == owner && *held(a, owner) == 1 && !(maker->op->traits & OP_GATHER);
}

/* An op may hand its dout on as the gradient of several inputs (an addition does). Is the gradient gathered
 * for t also that of a value that node `id` or an earlier one still has to take it from? A seed belongs to
 * the caller. Such a gradient must not be accumulated into. */
static bool shared(const autodiff *a, tensor_id t, node_id id) {
    const graph *g = a->g;
    tensor_id owner = graph_storage(g, a->gradient[t], NULL);
    if (!graph_tensor(g, owner)->producer) return true;
    if (alone(a, t, owner)) return false;
    for (tensor_id other = 1; other < a->tensors; other++)
        if (other != t && a->gradient[other] && graph_tensor(g, other)->producer <= id &&
            overlap(g, a->gradient[other], a->gradient[t]))
            return true;
    return false;
}

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
    bool want[MAX_SIDES] = { false }, anew[MAX_SIDES] = { false }, flows = false, wanted = false;
    if (!n.op->grad || n.in_count > MAX_SIDES || n.out_count > MAX_SIDES) return;
    for (uint32_t i = 0; i < n.out_count; i++) flows |= (dout[i] = a->gradient[node_out(g, &n, i)]) != 0;
    for (uint32_t i = 0; i < n.in_count; i++) {
        tensor_id t = node_in(g, &n, i);
        want[i] = t && a->needs[t];
        wanted |= want[i];
    }
    if (!flows || !wanted) return;
    for (uint32_t i = 0; i < n.in_count; i++) {
        if (!want[i]) continue;
        /* what cannot be accumulated into, or is accumulated into at an earlier place, begins anew here */
        tensor_id t = node_in(g, &n, i), gathered = a->gradient[t];
        anew[i] = earlier_place(g, &n, i) < i || (gathered && shared(a, t, id));
        din[i] = anew[i] ? 0 : gathered;
    }
    g->site = n.site;
    n.op->grad(g, id, dout, want, din);
    for (uint32_t i = 0; i < n.in_count; i++) {
        tensor_id *sum = want[i] ? &a->gradient[node_in(g, &n, i)] : NULL;
        if (sum && !anew[i]) *sum = din[i];
        if (sum && anew[i] && din[i]) *sum = add_gather(g, *sum, din[i]);
        if (sum) settle(a, node_in(g, &n, i));
    }
}

/* Node `id` has taken what its results' gradients had to give. */
static void finish(autodiff *a, node_id id) {
    const node *n = graph_node(a->g, id);
    for (uint32_t i = 0; i < n->out_count; i++) release(a, node_out(a->g, n, i));
}

/* Which storages backward nodes read, other than to add to them. */
static bool *find_reads(const autodiff *a) {
    const graph *g = a->g;
    bool *read = memory_new(g->tensors.count, sizeof *read);
    for (node_id id = a->nodes; read && id < g->nodes.count; id++) {
        const node *n = graph_node(g, id);
        if (n->op->traits & OP_VIEW) continue;
        for (uint32_t i = 0; i < n->in_count; i++) {
            bool adds = false;
            for (uint32_t k = 0; k < n->op->alias_count; k++)
                adds |= n->op->aliases[k].must && n->op->aliases[k].in == i;
            if (!adds && node_in(g, n, i)) read[graph_storage(g, node_in(g, n, i), NULL)] = true;
        }
    }
    return read;
}

/* Passes may put something in front of a parameter's gradient (the sum over micro-batches) or let it die
 * early: so where one is also the gradient of something else, or a seed, it becomes a copy. */
static void separate_gradients(autodiff *a) {
    bool *taken = find_reads(a);
    if (!taken) graph_fail(a->g, "no memory to differentiate a graph");
    a->g->site = SITE_NONE;
    for (tensor_id p = 1; p < a->tensors && !a->g->failed; p++) {
        const tensor *x = graph_tensor(a->g, p);
        if (x->producer || x->role != ROLE_PARAMETER || !a->gradient[p]) continue;
        tensor_id owner = graph_storage(a->g, a->gradient[p], NULL);
        if (taken[owner] || !graph_tensor(a->g, owner)->producer)
            a->gradient[p] = scale_apply(a->g, a->gradient[p], 0, 1);
        taken[owner] = true;
    }
    memory_free(taken);
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

static status autodiff_open(autodiff *a) {
    a->needs = memory_new(a->tensors, sizeof *a->needs);
    a->home = memory_new(a->tensors, sizeof *a->home);
    if (!a->needs || !a->home) return status_set(STATUS_FAILED, "no memory to differentiate a graph");
    return array_open(&a->held, sizeof(uint32_t), a->g->tensors.capacity);
}

static void autodiff_close(autodiff *a) {
    memory_free(a->needs);
    memory_free(a->home);
    array_close(&a->held);
}

static void run(autodiff *a, const autodiff_seed *seeds, uint32_t count, const bool *wanted) {
    graph *g = a->g;
    for (tensor_id t = 0; t < a->tensors; t++) a->gradient[t] = 0;
    mark_needs(a, wanted);
    g->phase = PHASE_BACKWARD;
    g->site = SITE_NONE;
    for (uint32_t i = 0; i < count; i++) {
        a->gradient[seeds[i].of] = seeds[i].gradient
                                       ? seeds[i].gradient
                                       : constant_apply(g, graph_tensor(g, seeds[i].of)->dtype, 1.0);
        settle(a, seeds[i].of);
    }
    for (node_id id = a->nodes; id-- > 1 && !g->failed;) {
        differentiate(a, id);
        finish(a, id);
    }
    if (!g->failed) separate_gradients(a);
    if (!g->failed) flag_gradients(a);
}

status autodiff_run(graph *g, const autodiff_seed *seeds, uint32_t count, const bool *wanted,
                    tensor_id *gradient) {
    TRY(graph_status(g));
    autodiff a = { .g = g, .gradient = gradient, .tensors = g->tensors.count, .nodes = g->nodes.count };
    status result = autodiff_open(&a);
    if (result == STATUS_OK) run(&a, seeds, count, wanted);
    autodiff_close(&a);
    return result == STATUS_OK ? graph_status(g) : result;
}
