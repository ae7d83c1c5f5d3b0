/* Measures memory from the calls of kernels: which buffers they were handed, when each was first written and
 * last read. It knows the graph (what shares storage by definition, what is a parameter) and the addresses
 * (what shares storage by the plan's choice). It does not read the plan's lifetimes, sizes, categories and
 * peaks of tensors, so a wrong one shows up as a difference.
 *
 * The category of a value is seen in who made it and who read it: a gradient of a parameter is made by
 * backward and read by updates; an activation is made by forward and read in a later phase. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/units.h"
#include "exec/exec_internal.h"
#include "exec/joined.h"

static const uint32_t NEVER = UINT32_MAX;

enum { ALIGN = 64 }; /* buffers in the pool begin at multiples of so many bytes */

/* What was seen of a buffer. */
enum {
    MADE_FORWARD = 1,
    MADE_BACKWARD = 2,
    READ_AFTER_FORWARD = 4,
    READ_BY_UPDATE = 8,
    COPIES_GRADIENT = 16
};

status observe_open(observation *o, const program *p) {
    uint32_t n = p->graph.tensors.count;
    *o = (observation){ .home = memory_new(n, sizeof(tensor_id)),
                        .first = memory_new(n, sizeof(uint32_t)),
                        .last = memory_new(n, sizeof(uint32_t)),
                        .seen = memory_new(n, sizeof(uint8_t)) };
    if (!o->home || !o->first || !o->last || !o->seen)
        return status_set(STATUS_FAILED, "no memory to observe a run");
    memset(o->first, 0xff, n * sizeof *o->first);
    return STATUS_OK;
}

void observe_close(observation *o) {
    memory_free(o->home);
    memory_free(o->first);
    memory_free(o->last);
    memory_free(o->seen);
    *o = (observation){ 0 };
}

static tensor_id home_of(const observation *o, tensor_id owner) {
    while (o->home[owner]) owner = o->home[owner];
    return owner;
}

static void used(observation *o, tensor_id buffer, uint32_t step) {
    if (o->first[buffer] == NEVER) o->first[buffer] = step;
    o->last[buffer] = step;
}

/* A result has the address of an input, though the graph does not say so: it has taken over that buffer. */
static void take_over(observation *o, const graph *g, const node *n, uint32_t output, const op_call *call) {
    tensor_id owner = graph_storage(g, node_out(g, n, output), NULL);
    if (role_persistent(graph_tensor(g, owner)->role) || o->home[owner]) return;
    for (uint32_t i = 0; i < n->in_count; i++) {
        tensor_id t = node_in(g, n, i);
        if (!t || call->in[i].data != call->out[output].data) continue;
        tensor_id home = home_of(o, graph_storage(g, t, NULL));
        if (home != owner) o->home[owner] = home;
        return;
    }
}

/* A loss on its way to the host is read after backward as well: what waits for its arrival in place, and what
 * adds it up into a result, is no update. */
static bool reads_for_update(const graph *g, const node *n, tensor_id owner) {
    if (n->phase < PHASE_REDUCE) return false;
    if (n->out_count != 1) return true;
    tensor_id to = graph_storage(g, node_out(g, n, 0), NULL);
    bool waits = to == owner && n->op->traits & OP_COLLECTIVE;
    return !waits && graph_tensor(g, to)->role != ROLE_RESULT;
}

void observe_call(observation *o, const program *p, uint32_t step, const op_call *call) {
    const graph *g = &p->graph;
    const node *n = graph_node(g, p->steps[step].node);
    for (uint32_t i = 0; i < n->in_count; i++) {
        if (!node_in(g, n, i)) continue;
        tensor_id owner = graph_storage(g, node_in(g, n, i), NULL);
        used(o, home_of(o, owner), step);
        if (n->phase != PHASE_FORWARD) o->seen[owner] |= READ_AFTER_FORWARD;
        if (reads_for_update(g, n, owner)) o->seen[owner] |= READ_BY_UPDATE;
    }
    for (uint32_t i = 0; i < n->out_count; i++) {
        tensor_id owner = graph_storage(g, node_out(g, n, i), NULL);
        bool made = (o->seen[owner] & (MADE_FORWARD | MADE_BACKWARD)) != 0;
        if (!made && n->phase == PHASE_FORWARD) o->seen[owner] |= MADE_FORWARD;
        if (!made && (n->phase == PHASE_BACKWARD || n->phase == PHASE_REDUCE))
            o->seen[owner] |= MADE_BACKWARD;
        take_over(o, g, n, i, call);
        used(o, home_of(o, owner), step);
    }
}

/* ---- what it was for ---- */

static bool in_memory(const graph *g, tensor_id owner) { return !graph_tensor(g, owner)->away; }

static bool is_gradient(const observation *o, const graph *g, tensor_id owner) {
    uint8_t seen = o->seen[owner];
    role r = (role)graph_tensor(g, owner)->role;
    return r == ROLE_GRADIENT || (r == ROLE_ACTIVATION && (seen & COPIES_GRADIENT ||
                                                           (seen & MADE_BACKWARD && seen & READ_BY_UPDATE)));
}

/* A call that copies between a file and memory: if one side of it is a gradient, so is the other. True: one
 * side was newly found to be. */
static bool follow_copy(observation *o, const graph *g, const node *n) {
    tensor_id in = node_in(g, n, 0), from, to;
    if (n->phase == PHASE_UPDATE || !in || n->in_count != 1) return false;
    from = graph_storage(g, in, NULL), to = graph_storage(g, node_out(g, n, 0), NULL);
    if (in_memory(g, from) == in_memory(g, to)) return false;
    if (is_gradient(o, g, from) == is_gradient(o, g, to)) return false;
    tensor_id other = is_gradient(o, g, from) ? to : from;
    if (graph_tensor(g, other)->role != ROLE_ACTIVATION) return false;
    o->seen[other] |= COPIES_GRADIENT;
    return true;
}

static void follow_copies(observation *o, const program *p) {
    for (bool more = true; more;) {
        more = false;
        for (uint32_t s = 0; s < p->count; s++)
            more |= follow_copy(o, &p->graph, graph_node(&p->graph, p->steps[s].node));
    }
}

category observe_category(const observation *o, const graph *g, tensor_id owner) {
    uint8_t seen = o->seen[owner];
    switch ((role)graph_tensor(g, owner)->role) {
    case ROLE_INPUT:
    case ROLE_RESULT: return CATEGORY_INPUTS;
    case ROLE_PARAMETER: return CATEGORY_WEIGHTS;
    case ROLE_STATE:
        return graph_tensor(g, owner)->flags & TENSOR_OF_MODEL ? CATEGORY_WEIGHTS : CATEGORY_OPTIMIZER;
    case ROLE_CACHE: return CATEGORY_CACHE;
    case ROLE_GRADIENT: return CATEGORY_GRADIENTS;
    case ROLE_ACTIVATION: break;
    }
    if (is_gradient(o, g, owner)) return CATEGORY_GRADIENTS;
    return seen & MADE_FORWARD && seen & READ_AFTER_FORWARD ? CATEGORY_ACTIVATIONS : CATEGORY_TEMPORARIES;
}

bool observe_seen(const observation *o, tensor_id owner) { return o->first[owner] != NEVER; }

/* Had t a buffer of its own in the arena? */
static bool counts(const observation *o, const graph *g, tensor_id t) {
    return observe_seen(o, t) && !role_persistent(graph_tensor(g, t)->role) && in_memory(g, t);
}

static void stretch(observation *o, const program *p) {
    const graph *g = &p->graph;
    for (tensor_id t = 1; t < g->tensors.count; t++) {
        const tensor *x = graph_tensor(g, t);
        tensor_id buffer = home_of(o, graph_storage(g, t, NULL));
        if (o->first[buffer] == NEVER) continue;
        if (x->role == ROLE_INPUT && !x->producer) o->first[buffer] = 0; /* the host wrote it before */
        if (x->flags & TENSOR_KEEP) o->last[buffer] = p->count - 1;      /* the host reads it after */
    }
}

/* Finds the step at which most bytes were alive. `change`: room for the changes of that sum, by step. */
static void find_most(observation *o, const program *p, const uint16_t *together, int64_t *change) {
    const graph *g = &p->graph;
    int64_t alive = 0, most = 0;
    for (tensor_id t = 1; t < g->tensors.count; t++) {
        if (!counts(o, g, t)) continue;
        int64_t bytes = (int64_t)units_align(graph_tensor_bytes(g, t), ALIGN);
        change[o->first[t]] += bytes, change[o->last[t] + 1] -= bytes;
    }
    for (uint32_t s = 0; s < p->count; s++) {
        int64_t bytes = (int64_t)units_align(p->steps[s].scratch_bytes, ALIGN);
        change[s] += bytes, change[s + together[s]] -= bytes;
    }
    for (uint32_t s = 0; s < p->count; s++) {
        alive += change[s];
        if (alive > most) most = alive, o->most_step = s;
    }
    o->most_bytes = (uint64_t)most;
}

status observe_finish(observation *o, const program *p, const uint16_t *together) {
    const graph *g = &p->graph;
    int64_t *change = memory_new((size_t)p->count + 1, sizeof *change);
    if (!change) return status_set(STATUS_FAILED, "no memory to measure a program");
    stretch(o, p);
    follow_copies(o, p);
    find_most(o, p, together, change);
    memory_free(change);
    for (tensor_id t = 1; t < g->tensors.count; t++)
        if (counts(o, g, t) && o->first[t] <= o->most_step && o->most_step <= o->last[t])
            o->by_category[observe_category(o, g, t)] += units_align(graph_tensor_bytes(g, t), ALIGN);
    for (uint32_t s = 0; s <= o->most_step; s++)
        if (o->most_step < s + together[s])
            o->by_category[CATEGORY_SCRATCH] += units_align(p->steps[s].scratch_bytes, ALIGN);
    o->done = true;
    return STATUS_OK;
}

/* ---- what is persistent ---- */

/* Adds the persistent tensors of one program that are not in `found` yet. */
static void add_shared(const exec *e, const bound_program *b, bool *found, exec_measured *m) {
    const graph *g = &b->plan->program.graph;
    for (tensor_id t = 1; t < g->tensors.count; t++) {
        const tensor *x = graph_tensor(g, t);
        if (x->base || !role_persistent(x->role) || !in_memory(g, t)) continue;
        const plan_persistent *p = plan_find(e->plan, graph_name(g, t));
        if (!p || found[p - e->plan->persistent]) continue;
        found[p - e->plan->persistent] = true;
        m->by_category[observe_category(&b->seen, g, t)] += units_align(graph_tensor_bytes(g, t), ALIGN);
    }
}

/* Adds each persistent tensor once, whichever programs share it. The run's own buffers are in no graph and no
 * call: they count with their planned size, slots that state passes through as scratch, the loader's as
 * inputs. */
static status add_persistent(const exec *e, exec_measured *m) {
    bool *found = memory_new(e->plan->persistent_count + 1u, sizeof *found);
    if (!found) return status_set(STATUS_FAILED, "no memory to measure a run");
    for (uint32_t k = 0; k < e->plan->program_count; k++)
        if (e->programs[k].seen.seen) add_shared(e, &e->programs[k], found, m);
    for (uint32_t i = 0; i < e->plan->persistent_count; i++) {
        const plan_persistent *p = &e->plan->persistent[i];
        bool passing = strcmp(p->name, PLAN_SLOTS) == 0;
        if (!p->shape.rank && p->pool == POOL_MEMORY)
            m->by_category[passing ? CATEGORY_SCRATCH : CATEGORY_INPUTS] += units_align(p->bytes, ALIGN);
    }
    memory_free(found);
    return STATUS_OK;
}

status exec_measure(const exec *e, exec_measured *out) {
    exec_measured m = { 0 };
    for (uint32_t k = 0; k < e->plan->program_count; k++) {
        const observation *o = &e->programs[k].seen;
        if (!o->done || o->most_bytes <= m.arena_live_bytes) continue;
        m.arena_live_bytes = o->most_bytes;
        m.program = k;
        m.step = o->most_step;
        memcpy(m.by_category, o->by_category, sizeof m.by_category);
    }
    TRY(add_persistent(e, &m));
    m.by_category[CATEGORY_GAPS] = e->plan->pools[POOL_MEMORY].arena_bytes - m.arena_live_bytes;
    m.pools[POOL_MEMORY] = e->pool.bytes;
    m.pools[POOL_FILE] = transfer_file_bytes(e->transfer);
    m.pools[POOL_HOST] = e->host.bytes;
    const device *d = e->plan->device;
    if (d->apart) {
        m.beside = joined_beside(d);
        uint64_t now = device_parts_sum(&m.beside), begun = device_parts_sum(&e->begun);
        m.moved_bytes = now > begun ? now - begun : begun - now;
    }
    *out = m;
    return STATUS_OK;
}

/* ---- beside the pool ---- */

uint64_t exec_resident_peak(const exec *e) {
    const device *d = e ? e->plan->device : device_default();
    return device_resident_peak() - (d->resident ? d->resident(d) : 0);
}

static status check_reserve_apart(const exec *e) {
    const device *d = e->plan->device;
    device_parts parts = joined_beside(d);
    uint64_t beside = device_parts_sum(&parts), reserve = e->plan->pools[POOL_MEMORY].runtime_bytes;
    char ranks[64] = "", captured[64] = "";
    if (beside <= reserve) return STATUS_OK;
    if (parts.captured)
        snprintf(captured, sizeof captured, ", captured programs %llu", (unsigned long long)parts.captured);
    if (parts.ranks)
        snprintf(ranks, sizeof ranks, ", transport between ranks %llu", (unsigned long long)parts.ranks);
    return status_set(
        STATUS_NO_FIT,
        "the program itself holds %llu bytes of %s's memory before it begins (context %llu, code "
        "%llu, handles %llu%s%s), more than the %llu bytes reserved for it%s",
        (unsigned long long)beside, d->name, (unsigned long long)parts.context,
        (unsigned long long)parts.code, (unsigned long long)parts.handles, captured, ranks,
        (unsigned long long)reserve,
        parts.ranks > e->plan->beside.ranks ? "; --transport-memory says how much ranks may take" : "");
}

status exec_check_reserve(const exec *e, uint64_t *bytes) {
    const device *d = e->plan->device;
    if (d->apart) TRY(check_reserve_apart(e));
    uint64_t resident = device_resident(), pool = exec_pool_bytes(e), reserve = plan_runtime_bytes(e->plan);
    if (d->resident) pool += d->resident(d);
    *bytes = resident > pool ? resident - pool : 0;
    if (*bytes <= reserve) return STATUS_OK;
    if (e->plan->runtime.ranks)
        return status_set(
            STATUS_NO_FIT,
            "the program itself holds %llu bytes before it begins, more than the %llu bytes reserved for it, "
            "of which %llu are for the transport between ranks; choose one that takes less, such as MPI's "
            "tcp",
            (unsigned long long)*bytes, (unsigned long long)reserve,
            (unsigned long long)e->plan->runtime.ranks);
    return status_set(
        STATUS_NO_FIT,
        "the program itself holds %llu bytes before it begins, more than the %llu bytes reserved for it; use "
        "fewer --threads or a larger --memory",
        (unsigned long long)*bytes, (unsigned long long)reserve);
}
