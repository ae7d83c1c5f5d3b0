/* Debug runs: poison, so that reading dead or unborn memory shows as NaN, and the search for the first fault.
 */
#include <stdio.h>

#include "base/finite.h"
#include "exec/exec_internal.h"
#include "exec/joined.h"

static void *storage_address(const exec *e, const bound_program *b, uint32_t i) {
    const live_storage *s = &b->plan->live.storages[i];
    if (s->owner) return exec_address(e, b, s->owner);
    return b->calls[s->first].scratch;
}

/* Inputs were written by the host; kept results are read by it. */
static bool host_writes(const graph *g, tensor_id t) { return t && graph_tensor(g, t)->role == ROLE_INPUT; }

static void poison(const exec *e, const bound_program *b, uint32_t i) {
    const device *d = e->plan->device;
    d->fill(d, storage_address(e, b, i), 0xff, b->plan->live.storages[i].bytes);
}

void debug_poison_before(const exec *e, const bound_program *b, uint32_t step) {
    const live_set *live = &b->plan->live;
    for (uint32_t i = 0; i < live->count; i++)
        if (live->storages[i].first == step && !host_writes(&b->plan->program.graph, live->storages[i].owner))
            poison(e, b, i);
}

void debug_poison_after(const exec *e, const bound_program *b, uint32_t step) {
    const live_set *live = &b->plan->live;
    if (step + 1 == b->plan->program.count) return; /* what is alive at the end may be read by the host */
    for (uint32_t i = 0; i < live->count; i++)
        if (live->storages[i].last == step) poison(e, b, i);
}

/* What a device apart has made passes through the staging buffer. */
static bool all_finite(const exec *e, const op_arg *x) {
    const device *d = e->plan->device;
    uint64_t each = dtype_bytes(x->dtype), left = (uint64_t)shape_elements(&x->shape) * each;
    if (!x->data) return true;
    if (!d->apart) return finite_find(x->dtype, x->data, shape_elements(&x->shape)) < 0;
    void *staging = exec_buffer(e, PLAN_STAGING);
    for (const char *at = x->data; left;) {
        uint64_t now = left < e->plan->staging_bytes ? left : e->plan->staging_bytes / each * each;
        d->get(d, staging, at, now);
        if (finite_find(x->dtype, staging, (int64_t)(now / each)) >= 0) return false;
        at += now, left -= now;
    }
    return true;
}

/* Is all that a step has made finite? Else `fault` is of it. What moves between ranks others have made, who
 * find it there; and it may still be on its way. */
static bool step_is_finite(const exec *e, const bound_program *b, uint32_t s, exec_fault *fault) {
    const graph *g = &b->plan->program.graph;
    const node *n = graph_node(g, b->plan->program.steps[s].node);
    if (n->op->traits & OP_COLLECTIVE) return true;
    for (uint32_t i = 0; i < n->out_count; i++) {
        if (all_finite(e, &b->calls[s].out[i])) continue;
        *fault = (exec_fault){ .site = n->site, .phase = (phase)n->phase, .step = s };
        snprintf(fault->op, sizeof fault->op, "%s", n->op->name);
        snprintf(fault->tensor, sizeof fault->tensor, "%s",
                 graph_name(g, graph_storage(g, node_out(g, n, i), NULL)));
        return false;
    }
    return true;
}

bool exec_find_fault(exec *e, uint32_t which, exec_fault *fault) {
    bound_program *b = &e->programs[which];
    const device *d = e->plan->device;
    bool found = false;
    d->begin(d);
    exec_begin_program(e, b);
    joined_end(d);
    for (uint32_t s = 0; s < b->plan->program.count; s++) {
        d->begin(d);
        exec_step(e, b, s);
        joined_end(d);
        if (!found) found = !step_is_finite(e, b, s, fault);
    }
    return found;
}
