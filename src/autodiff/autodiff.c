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
    tensor_id *home;     /* by forward tensor: the storage of its gradient, when that was noted; 0: none */
    array held;          /* by storage: the gradients in it that a node has still to read */
    tensor_id tensors;   /* of the forward graph */
    node_id nodes;
    uint32_t sides;        /* inputs or outputs of the node that has most */
    tensor_id *din, *dout; /* gradients of the node in hand: by input, by output */
    bool *want, *anew;     /* by input of that node. All four have room for `sides` */
} autodiff;

/* A value needs a gradient when it is wanted itself or made from one that does, by a differentiable op. It is
 * a float, or codes that say what their gradient is. */
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
            const tensor *x = graph_tensor(g, t);
            a->needs[t] = any && n->op->grad && (dtype_is_float(x->dtype) || x->gradient);
        }
    }
}

/* The storage of t, by its owner, and the bytes of it that are t's. */
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
        graph_no_memory(a->g);
        return;
    }
    a->home[t] = graph_storage(a->g, a->gradient[t], NULL);
    ++*held(a, a->home[t]);
}

/* Is t the only forward tensor whose gradient is in this storage? The counts in `held` tell, unless the
 * storage is that of a gather: then parts that were counted under owners of their own have moved into it
 * since. */
static bool alone(const autodiff *a, tensor_id t, tensor_id owner) {
    const node *maker = graph_node(a->g, graph_tensor(a->g, owner)->producer);
    return a->home[t] == owner && *held(a, owner) == 1 && !(maker->op->traits & OP_GATHER);
}

/* Is the gradient gathered for t also the gradient of another value, made by node `id` or an earlier one?
 * That is so after an addition, which hands its output's gradient on to both inputs. Then the next
 * contribution must not accumulate into it: the other value still needs it as it is. Nor into a seed, which
 * belongs to the caller. */
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
    tensor_id *dout = a->dout, *din = a->din;
    bool *want = a->want, *anew = a->anew, flows = false, wanted = false;
    if (!n.op->grad) return;
    for (uint32_t i = 0; i < a->sides; i++) din[i] = dout[i] = 0, want[i] = anew[i] = false;
    for (uint32_t i = 0; i < n.out_count; i++) flows |= (dout[i] = a->gradient[node_out(g, &n, i)]) != 0;
    for (uint32_t i = 0; i < n.in_count; i++) {
        tensor_id t = node_in(g, &n, i);
        want[i] = t && a->needs[t];
        wanted |= want[i];
    }
    if (!flows || !wanted) return;
    for (uint32_t i = 0; i < n.in_count; i++) {
        if (!want[i]) continue;
        /* begin anew where the gathered gradient is shared, or an earlier input is the same tensor */
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

/* Node `id` is differentiated: nobody will read the gradients of its results any more. */
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

/* Copies a parameter's gradient where it is also the gradient of something else, or a seed: passes may put a
 * stored sum in front of it (micro-batches), or let it die early. */
static void separate_gradients(autodiff *a) {
    bool *taken = find_reads(a);
    if (!taken) graph_no_memory(a->g);
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

/* The most inputs or outputs of any node, or of its op's rules: an op's gradient may look at optional ones
 * that this node was not given. */
static uint32_t most_sides(const graph *g, node_id nodes) {
    uint32_t most = 1;
    for (node_id id = 1; id < nodes; id++) {
        const node *n = graph_node(g, id);
        const uint32_t sides[] = { n->in_count, n->out_count, n->op->in_count, n->op->out_count };
        for (size_t i = 0; i < sizeof sides / sizeof *sides; i++)
            if (most < sides[i]) most = sides[i];
    }
    return most;
}

static status autodiff_open(autodiff *a) {
    a->sides = most_sides(a->g, a->nodes);
    a->needs = memory_new(a->tensors, sizeof *a->needs);
    a->home = memory_new(a->tensors, sizeof *a->home);
    a->din = memory_new(a->sides, sizeof *a->din);
    a->dout = memory_new(a->sides, sizeof *a->dout);
    a->want = memory_new(a->sides, sizeof *a->want);
    a->anew = memory_new(a->sides, sizeof *a->anew);
    if (!a->needs || !a->home || !a->din || !a->dout || !a->want || !a->anew)
        return status_set(STATUS_FAILED, "no memory to differentiate a graph");
    return array_open(&a->held, sizeof(uint32_t), a->g->tensors.capacity);
}

static void autodiff_close(autodiff *a) {
    memory_free(a->needs);
    memory_free(a->home);
    memory_free(a->din);
    memory_free(a->dout);
    memory_free(a->want);
    memory_free(a->anew);
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
