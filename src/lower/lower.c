#include "lower/lower.h"

#include <string.h>

#include "base/memory.h"
#include "ir/verify.h"
#include "lower/launched.h"
#include "lower/pieces.h"
#include "lower/predict.h"

static op_arg argument(const graph *g, tensor_id t) {
    if (!t) return (op_arg){ 0 };
    const tensor *x = graph_tensor(g, t);
    return (op_arg){ .shape = x->shape, .dtype = x->dtype };
}

void lower_call(const graph *g, const node *n, const device *d, op_arg *args, op_call *call) {
    for (uint32_t i = 0; i < n->in_count; i++) args[i] = argument(g, node_in(g, n, i));
    for (uint32_t i = 0; i < n->out_count; i++) args[n->in_count + i] = argument(g, node_out(g, n, i));
    *call = (op_call){ .in = args,
                       .out = args + n->in_count,
                       .in_count = n->in_count,
                       .out_count = n->out_count,
                       .capability = d->capability,
                       .attributes = node_attributes(g, n) };
}

static const op_kernel *kernels_of(const op_def *op, device_kind kind) {
    switch (kind) {
    case DEVICE_CPU: return op->cpu;
    case DEVICE_CUDA: return op->cuda;
    }
    return NULL;
}

const device *lower_device(const lower_options *o) { return o->device ? o->device : device_default(); }

/* The first that takes the call; NULL: none does. */
static const op_kernel *first_of(const op_kernel *k, const op_call *call) {
    while (k && k->name && k->accepts && !k->accepts(call)) k++;
    return k && k->name ? k : NULL;
}

static const op_kernel *pick(const op_call *call, const op_def *op, const lower_options *o) {
    if (o->reference) {
        const op_kernel *k = op->cpu;
        while (k[0].name && k[1].name) k++;
        return k;
    }
    const device *d = lower_device(o);
    const op_kernel *k = d->kind == DEVICE_CUDA ? first_of(op->tensor, call) : NULL;
    if (!k) k = first_of(kernels_of(op, d->kind), call);
    return k || !d->host ? k : first_of(op->cpu, call);
}

/* Of which list is the kernel? */
static bool is_of(const op_kernel *k, const op_kernel *list) {
    while (list && list->name && list != k) list++;
    return k && list == k;
}

bool lower_capturable(const program *p) {
    piece first = { 0 };
    bool only = !pieces_next(p, &first);
    for (uint32_t s = 0; only && s < p->count; s++)
        only = !p->steps[s].by_host && !(graph_node(&p->graph, p->steps[s].node)->op->traits & OP_COLLECTIVE);
    return only;
}

uint64_t lower_starts(const program *p) {
    uint64_t starts = 0;
    for (uint32_t s = 0; s < p->count; s++) starts += p->steps[s].starts;
    return starts;
}

op_cost lower_cost(const graph *g, const lower_step *step) {
    const node *n = graph_node(g, step->node);
    op_cost cost = n->op->cost(g, n);
    cost.half = cost.kind == WORK_PRODUCTS_HALF || cost.kind == WORK_ATTENTION_HALF;
    bool as_they_are = is_of(step->kernel, n->op->tensor), widened = is_of(step->kernel, n->op->cuda);
    if (as_they_are && cost.kind == WORK_PRODUCTS) cost.kind = WORK_PRODUCTS_HALF, cost.half = true;
    if (widened && cost.kind == WORK_PRODUCTS_HALF && !cost.by_library) cost.kind = WORK_PRODUCTS;
    if (widened && cost.kind == WORK_ATTENTION_HALF && !cost.by_library) cost.kind = WORK_ATTENTION;
    return cost;
}

static status lower_node(const lower_options *o, const graph *g, node_id id, lower_step *step) {
    enum { FEW = 64 };
    const node *n = graph_node(g, id);
    uint32_t sides = (uint32_t)n->in_count + n->out_count;
    op_arg few[FEW], *args = sides <= FEW ? few : memory_new(sides, sizeof *args);
    if (!args) return status_set(STATUS_FAILED, "no memory to lower a graph");
    op_call call;
    lower_call(g, n, lower_device(o), args, &call);
    const op_kernel *k = pick(&call, n->op, o);
    status result = STATUS_OK;
    const device *d = lower_device(o);
    bool by_host = k && !is_of(k, kernels_of(n->op, d->kind)) && !is_of(k, n->op->tensor);
    if (!k || (by_host && !d->host)) {
        result = status_set(STATUS_INVALID, "no kernel of %s takes these inputs on the device %s",
                            n->op->name, d->name);
    } else {
        *step = (lower_step){ .node = id,
                              .by_host = by_host,
                              .kernel = k,
                              .scratch_bytes = k->scratch ? k->scratch(&call, o->threads) : 0 };
    }
    if (args != few) memory_free(args);
    return result;
}

/* ---- equal calls ---- */

/* Layers repeat, so most calls have had an equal one before: of the same op and attributes, with arguments of
 * the same shapes and types. Kernel, scratch and cost depend on nothing else. Of the calls that fall into one
 * place of the table it knows the last. */
enum { PLACES = 512 };

typedef struct {
    program *p;
    op_cost *costs;        /* by step */
    uint32_t last[PLACES]; /* a step, counted from 1; 0: none */
    uint32_t next;         /* the step after the one that the last call was equal to */
} lowering;

static uint32_t place_of(const graph *g, const node *n) {
    const uint64_t odd = 0x9e3779b97f4a7c15u;
    uint64_t h = (uintptr_t)n->op;
    uint32_t words[4] = { 0 }, bytes = n->op->attribute_bytes;
    memcpy(words, node_attributes(g, n), bytes < sizeof words ? bytes : sizeof words);
    for (uint32_t i = 0; i < 4; i++) h = (h ^ words[i]) * odd;
    for (uint32_t i = 0; i < n->in_count && i < 4; i++) {
        const shape *s = graph_shape(g, node_in(g, n, i));
        h = (h ^ (uint64_t)s->dim[0] ^ (uint64_t)s->dim[1] << 16 ^ (uint64_t)s->dim[2] << 32) * odd;
    }
    return (uint32_t)(h >> 32) % PLACES;
}

static bool same_argument(const graph *g, tensor_id a, tensor_id b) {
    if (!a || !b) return a == b;
    const tensor *x = graph_tensor(g, a), *y = graph_tensor(g, b);
    return x->dtype == y->dtype && shape_equal(&x->shape, &y->shape);
}

static bool same_call(const graph *g, const node *a, const node *b) {
    if (a->op != b->op || a->in_count != b->in_count || a->out_count != b->out_count) return false;
    if (memcmp(node_attributes(g, a), node_attributes(g, b), a->op->attribute_bytes) != 0) return false;
    for (uint32_t i = 0; i < a->in_count; i++)
        if (!same_argument(g, node_in(g, a, i), node_in(g, b, i))) return false;
    for (uint32_t i = 0; i < a->out_count; i++)
        if (!same_argument(g, node_out(g, a, i), node_out(g, b, i))) return false;
    return true;
}

/* An earlier step whose call is that of n, counted from 1; 0: none is known. What comes after equal calls is
 * mostly equal as well; else the table is asked, which knows the new one from then on. */
static uint32_t find_equal(lowering *l, const node *n) {
    const graph *g = &l->p->graph;
    const lower_step *steps = l->p->steps;
    if (l->next < l->p->count && same_call(g, n, graph_node(g, steps[l->next].node))) return l->next + 1;
    uint32_t *last = &l->last[place_of(g, n)], found = *last;
    *last = l->p->count + 1;
    return found && same_call(g, n, graph_node(g, steps[found - 1].node)) ? found : 0;
}

static status add_step(lowering *l, const lower_options *o, node_id id) {
    const graph *g = &l->p->graph;
    const node *n = graph_node(g, id);
    uint32_t now = l->p->count, equal = find_equal(l, n);
    lower_step *step = &l->p->steps[now];
    if (equal) {
        *step = l->p->steps[equal - 1];
        step->node = id;
        l->costs[now] = l->costs[equal - 1];
    } else {
        TRY(lower_node(o, g, id, step));
        l->costs[now] = lower_cost(g, step);
        TRY(launched_cost(g, step, lower_device(o), !l->p->has_away, &l->costs[now]));
    }
    l->next = equal;
    l->p->count++;
    return STATUS_OK;
}

/* ---- all of it ---- */

static status add_steps(program *p, const lower_options *o, op_cost *costs) {
    lowering l = { .p = p, .costs = costs };
    const graph *g = &p->graph;
    for (tensor_id t = 1; t < g->tensors.count && !p->has_away; t++) p->has_away = graph_tensor(g, t)->away;
    for (node_id id = 1; id < g->nodes.count && p->has_away; id++) TRY(pieces_check(g, graph_node(g, id)));
    for (node_id id = 1; id < g->nodes.count; id++)
        if (!(graph_node(g, id)->op->traits & (OP_VIEW | OP_GATHER))) TRY(add_step(&l, o, id));
    const bool apart = lower_device(o)->apart;
    if (o->unwaited) return predict_unwaited(p, costs, apart, &o->rates);
    return predict_program(p, costs, apart, &o->rates);
}

status lower_program(graph *g, const lower_options *o, program *p) {
    *p = (program){ .shape = p->shape, .graph = *g };
    *g = (graph){ 0 };
    op_cost *costs = NULL;
    status result = o->unverified ? graph_status(&p->graph) : verify_graph(&p->graph);
    if (result == STATUS_OK) {
        p->steps = memory_new(p->graph.nodes.count, sizeof *p->steps);
        costs = memory_room(p->graph.nodes.count, sizeof *costs);
        result = p->steps && costs ? add_steps(p, o, costs)
                                   : status_set(STATUS_FAILED, "no memory to lower a graph");
    }
    memory_free(costs);
    if (result != STATUS_OK) lower_close(p);
    return result;
}

void lower_close(program *p) {
    memory_free(p->steps);
    graph_close(&p->graph);
    *p = (program){ 0 };
}
