#include "exec/exec.h"

#include <string.h>

#include "base/memory.h"
#include "base/threads.h"
#include "comm/comm.h"
#include "exec/exec_internal.h"
#include "exec/joined.h"
#include "schedule/sweep.h"

/* ---- addresses ---- */

static void *arena_address(const exec *e, const bound_program *b, tensor_id t) {
    return (char *)e->pool.data + b->plan->offset[t];
}

static void *separate_address(const exec *e, const bound_program *b, tensor_id t) {
    int64_t inside;
    const graph *g = &b->plan->program.graph;
    tensor_id owner = graph_storage(g, t, &inside);
    char *block = NULL;
    if (role_persistent(graph_tensor(g, owner)->role)) {
        const plan_persistent *p = plan_find(e->plan, graph_name(g, owner));
        block = e->persistent[p - e->plan->persistent];
    } else if (b->plan->live.of_tensor[t] != LIVE_NONE) {
        block = b->blocks[b->plan->live.of_tensor[t]];
    }
    return block ? block + inside : NULL;
}

void *exec_address(const exec *e, const bound_program *b, tensor_id t) {
    const graph *g = &b->plan->program.graph;
    if (graph_tensor(g, graph_storage(g, t, NULL))->away) return NULL;
    return e->modes & EXEC_SEPARATE ? separate_address(e, b, t) : arena_address(e, b, t);
}

static void *scratch_address(const exec *e, const bound_program *b, uint32_t step) {
    if (!b->plan->program.steps[step].scratch_bytes) return NULL;
    if (!(e->modes & EXEC_SEPARATE)) return (char *)e->pool.data + b->plan->scratch[step];
    for (uint32_t i = b->plan->live.count; i-- > 0;)
        if (!b->plan->live.storages[i].owner && b->plan->live.storages[i].first == step) return b->blocks[i];
    return NULL;
}

/* ---- binding ---- */

/* The element at which this rank's share begins, where the tensor is one of several ranks' shares. */
static int64_t share_begins(const graph *g, tensor_id t) {
    const tensor *x = graph_tensor(g, graph_storage(g, t, NULL));
    return graph_is_share(x) ? exec_place_in(g->group) * shape_elements(&x->shape) : 0;
}

/* Of a node on shares: the element of the whole that its weight's, its first operand's or its result's share
 * begins at. They are of one tensor, or of scales beside it, which come later. */
static int64_t first_of(const graph *g, const node *n) {
    for (uint32_t i = 0; i < n->in_count; i++) {
        int64_t first = node_in(g, n, i) ? share_begins(g, node_in(g, n, i)) : 0;
        if (first) return first;
    }
    return n->out_count ? share_begins(g, node_out(g, n, 0)) : 0;
}

static status bind_program(exec *e, bound_program *b) {
    const program *p = &b->plan->program;
    size_t sides = 0;
    for (uint32_t s = 0; s < p->count; s++) {
        const node *n = graph_node(&p->graph, p->steps[s].node);
        sides += (size_t)n->in_count + n->out_count;
    }
    b->calls = memory_new(p->count, sizeof *b->calls);
    b->args = memory_new(sides, sizeof *b->args);
    b->together = memory_new(p->count, sizeof *b->together);
    if (!b->calls || !b->args || !b->together) return status_set(STATUS_FAILED, "no memory to bind a plan");
    TRY(sweep_find(p, b->together));
    op_arg *args = b->args;
    for (uint32_t s = 0; s < p->count; s++) {
        const node *n = graph_node(&p->graph, p->steps[s].node);
        op_call *call = &b->calls[s];
        lower_call(&p->graph, n, e->plan->device, args, call);
        for (uint32_t i = 0; i < n->in_count; i++)
            if (node_in(&p->graph, n, i)) args[i].data = exec_address(e, b, node_in(&p->graph, n, i));
        for (uint32_t i = 0; i < n->out_count; i++)
            args[n->in_count + i].data = exec_address(e, b, node_out(&p->graph, n, i));
        call->first = first_of(&p->graph, n);
        call->scratch_bytes = p->steps[s].scratch_bytes;
        call->scratch = scratch_address(e, b, s);
        TRY(op_prepare(n->op, call));
        args += (size_t)n->in_count + n->out_count;
    }
    return e->modes & EXEC_OBSERVE ? observe_open(&b->seen, p) : STATUS_OK;
}

status exec_open(const plan *p, unsigned modes, exec **out) {
    *out = NULL;
    if (threads_count() > p->threads)
        return status_set(STATUS_INVALID, "the plan has scratch for %d threads, not for %d", p->threads,
                          threads_count());
    exec *e = *out = memory_new(1, sizeof *e);
    if (!e) return status_set(STATUS_FAILED, "no memory to bind a plan");
    e->plan = p, e->modes = modes;
    e->programs = memory_new(p->program_count, sizeof *e->programs);
    status result = e->programs ? STATUS_OK : status_set(STATUS_FAILED, "no memory to bind a plan");
    for (uint32_t k = 0; result == STATUS_OK && k < p->program_count; k++)
        e->programs[k].plan = &p->programs[k];
    if (result == STATUS_OK) result = exec_pools_open(e);
    for (uint32_t k = 0; result == STATUS_OK && k < p->program_count; k++)
        result = bind_program(e, &e->programs[k]);
    char *slots = result == STATUS_OK ? exec_persistent(e, PLAN_SLOTS) : NULL;
    if (slots) result = transfer_open(p, slots, e->host.data, exec_persistent(e, PLAN_RING), &e->transfer);
    if (result == STATUS_OK) result = capture_open(e);
    if (p->device->apart) e->begun = joined_beside(p->device);
    if (result == STATUS_OK) result = meeting_open(e);
    if (result != STATUS_OK) {
        exec_close(e);
        *out = NULL;
    }
    return result;
}

void exec_close(exec *e) {
    if (!e) return;
    transfer_close(e->transfer);
    meeting_close(e);
    uint32_t count = e->programs ? e->plan->program_count : 0;
    if (e->programs) exec_pools_close(e);
    for (uint32_t k = 0; k < count; k++) {
        memory_free(e->programs[k].calls);
        memory_free(e->programs[k].args);
        memory_free(e->programs[k].together);
        observe_close(&e->programs[k].seen);
    }
    memory_free(e->programs);
    memory_free(e);
}

/* ---- running ---- */

void exec_begin_program(exec *e, const bound_program *b) {
    if (e->transfer) transfer_begin(e->transfer, b->plan);
}

void exec_call(const device *d, const lower_step *step, const op_call *call) {
    if (step->by_host) d->host(d, true);
    step->kernel->run(call);
    if (step->by_host) d->host(d, false);
}

void exec_step(exec *e, const bound_program *b, uint32_t step) {
    if (e->transfer && pieces_step(&b->plan->program, step))
        transfer_run(e->transfer, step, &b->calls[step]);
    else
        exec_call(e->plan->device, &b->plan->program.steps[step], &b->calls[step]);
}

static void run_calls(exec *e, bound_program *b) {
    exec_begin_program(e, b);
    if (e->timed.moments ? timing_run(e, b) : capture_run(e, b)) return;
    const program *p = &b->plan->program;
    bool observe = e->modes & EXEC_OBSERVE && !b->seen.done, poison = (e->modes & EXEC_POISON) != 0;
    for (uint32_t s = 0, some; s < p->count; s += some) {
        if (poison) debug_poison_before(e, b, s);
        some = exec_sweep(e, b, s);
        for (uint32_t k = s; observe && k < s + some; k++) observe_call(&b->seen, p, k, &b->calls[k]);
        if (poison) debug_poison_after(e, b, s);
    }
    if (observe && e->seen == STATUS_OK) e->seen = observe_finish(&b->seen, p, b->together);
}

void exec_run(exec *e, uint32_t which) {
    const device *d = e->plan->device;
    if (!e->in_step) d->begin(d);
    run_calls(e, &e->programs[which]);
    if (!e->in_step) joined_end(d);
}

/* Does the step move between ranks what each run makes anew? */
static bool moves_anew(const bound_program *b, uint32_t step) {
    const graph *g = &b->plan->program.graph;
    const node *n = graph_node(g, b->plan->program.steps[step].node);
    tensor_id owner = graph_storage(g, node_out(g, n, 0), NULL);
    return n->op->traits & OP_COLLECTIVE && !role_persistent(graph_tensor(g, owner)->role);
}

void exec_rehearse(exec *e) {
    const device *d = e->plan->device;
    if (!d->apart || comm_world().world < 2) return;
    d->begin(d);
    for (uint32_t k = 0; k < e->plan->program_count; k++) {
        const bound_program *b = &e->programs[k];
        for (uint32_t s = 0; s < b->plan->program.count; s++)
            if (moves_anew(b, s)) exec_call(d, &b->plan->program.steps[s], &b->calls[s]);
    }
    joined_end(d);
    e->begun = joined_beside(d);
}

status exec_failed(const exec *e) {
    TRY(comm_failed());
    if (e->seen != STATUS_OK) return status_set(e->seen, "no memory to measure a program");
    TRY(joined_failed(e->plan->device));
    return e->transfer ? transfer_failed(e->transfer) : STATUS_OK;
}
