#include "passes/waiting.h"

#include "base/memory.h"
#include "ir/op.h"

/* ---- who waits ---- */

static void note_read(const graph *g, node_id id, tensor_id t, waiting_time *times) {
    waiting_time *x = &times[graph_storage(g, t, NULL)];
    if (graph_node(g, id)->phase == PHASE_FORWARD)
        x->last = id;
    else if (!x->next)
        x->next = id;
}

static bool may_wait(const graph *g, tensor_id t) {
    const tensor *x = graph_tensor(g, t);
    const node *maker = x->producer ? graph_node(g, x->producer) : NULL;
    return maker && maker->phase == PHASE_FORWARD && x->role == ROLE_ACTIVATION && !x->base &&
           !(maker->op->traits & OP_GATHER) && !(x->flags & TENSOR_KEEP);
}

waiting_time *waiting_find(const graph *g, waiting_takes *takes) {
    waiting_time *times = memory_new(g->tensors.count, sizeof *times);
    for (node_id id = 1; times && id < g->nodes.count; id++) {
        const node *n = graph_node(g, id);
        if (n->phase == PHASE_FORWARD)
            for (uint32_t i = 0; i < n->out_count; i++) note_read(g, id, node_out(g, n, i), times);
        for (uint32_t i = 0; i < n->in_count; i++)
            if (node_in(g, n, i)) note_read(g, id, node_in(g, n, i), times);
    }
    for (tensor_id t = 1; times && t < g->tensors.count; t++)
        if (!times[t].last || !times[t].next || !may_wait(g, t) || !takes(g, t, &times[t]))
            times[t] = (waiting_time){ 0 };
    return times;
}

bool waiting_any(const graph *g, waiting_takes *takes) {
    waiting_time *times = waiting_find(g, takes);
    bool any = false;
    for (tensor_id t = 1; times && t < g->tensors.count; t++) any |= times[t].last != 0;
    memory_free(times);
    return any;
}

/* ---- copying ---- */

typedef struct {
    rewrite *r;
    const waiting_time *times;
    const waiting_way *way;
    tensor_id *held;  /* by tensor: what is held of it; 0: nothing (yet) */
    tensor_id *again; /* by tensor: what later phases read in its place; 0: not (yet) anything else */
} copier;

/* After node id of forward, what is not read there any more. */
static void leave_after(copier *k, node_id id) {
    const graph *in = k->r->in;
    const node *n = graph_node(in, id);
    for (uint32_t i = 0; i < (uint32_t)n->in_count + n->out_count; i++) {
        tensor_id t = i < n->in_count ? node_in(in, n, i) : node_out(in, n, i - n->in_count);
        tensor_id owner = t ? graph_storage(in, t, NULL) : 0;
        if (owner && k->times[owner].last == id && !k->held[owner])
            k->held[owner] = k->way->leave(k->r, owner);
    }
}

/* What a node of a later phase reads instead of t: what is fetched, or a view of it, made once. */
static tensor_id fetched(copier *k, tensor_id t) {
    const graph *in = k->r->in;
    node_id id = graph_tensor(in, t)->producer;
    if (k->again[t]) return k->again[t];
    if (k->held[t]) return k->again[t] = k->way->fetch(k->r, t, k->held[t]);
    const node *n = graph_node(in, id);
    if (!id || n->phase != PHASE_FORWARD || !(n->op->traits & OP_VIEW)) return k->r->map[t];
    if (fetched(k, node_in(in, n, 0)) == k->r->map[node_in(in, n, 0)]) return k->r->map[t];
    for (uint32_t i = 0; i < n->in_count; i++)
        if (node_in(in, n, i)) k->again[node_in(in, n, i)] = fetched(k, node_in(in, n, i));
    rewrite_node_as(k->r, id, k->again, k->again, PHASE_BACKWARD);
    return k->again[t];
}

static void copy_later(copier *k, node_id id) {
    const graph *in = k->r->in;
    const node *n = graph_node(in, id);
    k->r->out->site = n->site;
    k->r->out->phase = (phase)n->phase;
    for (uint32_t i = 0; i < n->in_count; i++)
        if (node_in(in, n, i)) k->again[node_in(in, n, i)] = fetched(k, node_in(in, n, i));
    rewrite_node_as(k->r, id, k->again, k->r->map, (phase)n->phase);
    for (uint32_t i = 0; i < n->out_count; i++) k->again[node_out(in, n, i)] = k->r->map[node_out(in, n, i)];
}

void waiting_rewrite(rewrite *r, const waiting_time *times, const waiting_way *way) {
    const graph *in = r->in;
    copier k = { .r = r,
                 .times = times,
                 .way = way,
                 .held = memory_new(in->tensors.count, sizeof(tensor_id)),
                 .again = memory_new(in->tensors.count, sizeof(tensor_id)) };
    if (!k.held || !k.again) graph_no_memory(r->out);
    for (node_id id = 1; id < in->nodes.count && !r->out->failed; id++) {
        if (graph_node(in, id)->phase == PHASE_FORWARD) {
            rewrite_node(r, id);
            leave_after(&k, id);
        } else {
            copy_later(&k, id);
        }
    }
    memory_free(k.held);
    memory_free(k.again);
}
