#include "schedule/sweep.h"

#include "base/memory.h"
#include "lower/launched.h"
#include "lower/predict.h"
#include "ops/sweeps.h"

/* By owner of a storage: steps counted from 1; 0: none. */
typedef struct {
    const program *p;
    uint16_t *together;
    uint32_t *last;           /* that reads or writes it */
    uint32_t *read, *written; /* the latest so far that did */
    uint32_t begins;          /* the sweep that is looked at: its first step, counted from 1 */
    bool died;                /* something of which a step of it was the last user */
} sweeper;

enum { MOST = UINT16_MAX };

static const node *node_of(const sweeper *k, uint32_t step) {
    return graph_node(&k->p->graph, k->p->steps[step].node);
}

/* The owner of what input i stands for; 0: it is absent. */
static tensor_id owner_in(const sweeper *k, const node *n, uint32_t i) {
    tensor_id t = node_in(&k->p->graph, n, i);
    return t ? graph_storage(&k->p->graph, t, NULL) : 0;
}
static tensor_id owner_out(const sweeper *k, const node *n, uint32_t i) {
    return graph_storage(&k->p->graph, node_out(&k->p->graph, n, i), NULL);
}

static bool in_arena(const sweeper *k, tensor_id owner) {
    const tensor *x = graph_tensor(&k->p->graph, owner);
    return !role_persistent(x->role) && !(x->flags & TENSOR_KEEP);
}

static void find_last(sweeper *k) {
    for (uint32_t step = 0; step < k->p->count; step++) {
        const node *n = node_of(k, step);
        for (uint32_t i = 0; i < n->in_count; i++) k->last[owner_in(k, n, i)] = step + 1;
        for (uint32_t i = 0; i < n->out_count; i++) k->last[owner_out(k, n, i)] = step + 1;
    }
}

/* Was it touched in this sweep? */
static bool here(const sweeper *k, uint32_t step) { return step && step >= k->begins; }

/* Has the step memory of its own, which could be that of what has died? */
static bool is_born(const sweeper *k, const node *n, const lower_step *step) {
    bool born = step->scratch_bytes > 0;
    for (uint32_t i = 0; i < n->out_count; i++) {
        tensor_id owner = owner_out(k, n, i);
        born |= in_arena(k, owner) && !k->read[owner] && !k->written[owner];
    }
    return born;
}

/* A result may take over the memory of an input, whoever else reads that. */
static bool takes_over(const sweeper *k, const node *n) {
    bool found = false;
    for (uint32_t a = 0; a < n->op->alias_count; a++) {
        const op_alias *alias = &n->op->aliases[a];
        tensor_id owner = owner_in(k, n, alias->in);
        found |= !alias->must && owner && here(k, k->read[owner]);
    }
    return found;
}

static bool joins(const sweeper *k, uint32_t step) {
    const lower_step *steps = k->p->steps, *now = &steps[step];
    const node *n = node_of(k, step);
    if (!step || !op_sweep_of(now->kernel) || now->by_host || now->kernel != now[-1].kernel) return false;
    if (step + 1 - k->begins >= MOST || (k->died && is_born(k, n, now)) || takes_over(k, n)) return false;
    for (uint32_t i = 0; i < n->in_count; i++)
        if (here(k, k->written[owner_in(k, n, i)])) return false;
    for (uint32_t i = 0; i < n->out_count; i++) {
        tensor_id owner = owner_out(k, n, i);
        if (here(k, k->read[owner]) || here(k, k->written[owner])) return false;
    }
    return true;
}

static void touch(sweeper *k, uint32_t step) {
    const node *n = node_of(k, step);
    for (uint32_t i = 0; i < n->in_count; i++) {
        tensor_id owner = owner_in(k, n, i);
        if (!owner) continue;
        k->read[owner] = step + 1;
        k->died |= in_arena(k, owner) && k->last[owner] == step + 1;
    }
    for (uint32_t i = 0; i < n->out_count; i++) {
        tensor_id owner = owner_out(k, n, i);
        k->written[owner] = step + 1;
        k->died |= in_arena(k, owner) && k->last[owner] == step + 1;
    }
}

/* One sweep has ended before this step, with which the next begins. */
static void begin(sweeper *k, uint32_t step) {
    for (uint32_t s = k->begins; s <= step && s; s++) k->together[s - 1] = (uint16_t)(step - s + 1);
    k->begins = step + 1, k->died = false;
}

static bool can_sweep(const program *p) {
    bool any = false;
    for (uint32_t s = 1; s < p->count && !any; s++)
        any = p->steps[s].kernel == p->steps[s - 1].kernel && op_sweep_of(p->steps[s].kernel);
    return any && !p->has_away;
}

status sweep_find(const program *p, uint16_t *together) {
    for (uint32_t step = 0; step < p->count; step++) together[step] = 1;
    if (!can_sweep(p)) return STATUS_OK;
    uint32_t tensors = p->graph.tensors.count;
    sweeper k = { .p = p, .together = together, .last = memory_new(3 * (size_t)tensors, sizeof *k.last) };
    if (!k.last) return status_set(STATUS_FAILED, "no memory to look for sweeps");
    k.read = k.last + tensors, k.written = k.read + tensors;
    find_last(&k);
    for (uint32_t step = 0; step < p->count; step++) {
        if (!joins(&k, step)) begin(&k, step);
        touch(&k, step);
    }
    begin(&k, p->count);
    memory_free(k.last);
    return STATUS_OK;
}

/* ---- what they start ---- */

static bool any_joins(const program *p) {
    for (uint32_t s = 0; s < p->count; s++)
        if (op_sweep_of(p->steps[s].kernel)) return true;
    return false;
}

static status count_starts(program *p, const device *d, const uint16_t *together) {
    for (uint32_t s = 0; s < p->count; s += together[s]) {
        launches l = launched_on(d);
        if (!op_sweep_of(p->steps[s].kernel)) continue;
        TRY(launched_tell(&p->graph, &p->steps[s], together[s], d, &l));
        for (uint32_t k = 0; k < together[s]; k++) p->steps[s + k].starts = 0;
        p->steps[s].starts = l.count < UINT16_MAX ? (uint16_t)l.count : UINT16_MAX;
    }
    return STATUS_OK;
}

status sweep_predict(program *p, const lower_options *o) {
    const double start = predict_start(p, &o->rates);
    if (p->has_away || o->unwaited || !any_joins(p)) return STATUS_OK;
    uint16_t *together = memory_room(p->count, sizeof *together);
    if (!together) return status_set(STATUS_FAILED, "no memory to look for sweeps");
    status result = sweep_find(p, together);
    if (result == STATUS_OK) result = count_starts(p, lower_device(o), together);
    for (uint32_t s = 0; s < p->count && result == STATUS_OK; s++) {
        if (!op_sweep_of(p->steps[s].kernel)) continue;
        double seconds = start * p->steps[s].starts;
        p->steps[s].seconds += seconds, p->seconds += seconds, p->computing += seconds;
    }
    memory_free(together);
    return result;
}
