/* The optimizer's step inside backward: each weight is updated as soon as its gradient exists and nobody
 * still reads the weight, so gradients die one after the other instead of waiting for each other.
 *
 * With clipping by the global norm every update needs every gradient first. Then "twice" runs backward two
 * times: the first takes the norm and lets each gradient go, the second updates. Dearer by one backward,
 * and still bit for bit the same run. Where gradients are summed over micro-batches it does not apply.
 * Paper: Lv et al., "Full parameter fine-tuning for large language models with limited resources" (LOMO),
 * arXiv:2306.09782. */
#include <string.h>

#include "base/memory.h"
#include "ir/op.h"
#include "ir/rewrite.h"
#include "ops/clip_factor/clip_factor.h"
#include "passes/pass.h"

enum { SETTING_TWICE = 0 };

static status parse(const char *text, pass_setting *out) {
    bool twice = strcmp(text, "twice") == 0;
    if (!twice && strcmp(text, "on") != 0)
        return status_set(STATUS_INVALID, "--update-early: '%s' is neither auto, off, on nor twice", text);
    *out = (pass_setting){ .value = { twice }, .class = PASS_EXACT, .gradients = true };
    strcpy(out->text, twice ? "twice" : "on");
    return STATUS_OK;
}

/* Do updates wait for a norm of all gradients: for clipping, or to see whether they are finite? */
static bool waits(const graph *g, const pass_context *c) {
    bool found = c->clipping;
    for (node_id id = 1; id < g->nodes.count && !found; id++)
        found = graph_node(g, id)->op == &op_clip_factor;
    return found;
}

static uint32_t settings(const graph *g, const pass_context *c, pass_setting *out, uint32_t room,
                         pass_without *without) {
    if (!room || !c->training || c->micro_batch < c->batch) return 0;
    bool twice = waits(g, c);
    (void)without; /* it costs no time, but may cost the bytes that storages are rounded up by */
    return parse(twice ? "twice" : "on", &out[0]) == STATUS_OK;
}

static status check(const graph *g, const pass_setting *s, const pass_context *c) {
    if (c->chained)
        return status_set(STATUS_INVALID,
                          "--update-early cannot be combined with several ranks: gradients of all ranks must "
                          "be complete before they are used; leave it out");
    if (c->unit < c->batch)
        return status_set(STATUS_INVALID,
                          "--update-early cannot be combined with --unit %lld: gradients of all units must "
                          "be complete before they are used; leave one of the two out",
                          (long long)c->unit);
    if (c->micro_batch < c->batch)
        return status_set(
            STATUS_INVALID,
            "--update-early cannot be combined with gradient accumulation: gradients must "
            "be complete before they are used; pin --micro-batch %lld or leave one of the two to auto",
            (long long)c->batch);
    if (c->clipping && !s->value[SETTING_TWICE])
        return status_set(STATUS_INVALID,
                          "--update-early on cannot clip by the norm of all gradients; use --update-early "
                          "twice or --clip off");
    if (waits(g, c) && !s->value[SETTING_TWICE])
        return status_set(
            STATUS_INVALID,
            "--update-early on: gradients of f16 are scaled, and whether all are finite must be known "
            "before the first update; use --update-early twice, or another type than f16");
    return STATUS_OK;
}

/* ---- when is an update due? ---- */

typedef struct {
    rewrite *r;
    node_id *due;  /* by update node: after which other node it can run; 0: at once */
    node_id *next; /* update nodes due after the same node, as lists through */
    node_id *head; /* by node */
    bool *updates; /* by update node: part of an update proper; the others (norms, the factor) look at
                      gradients */
} calendar;

static node_id later(node_id a, node_id b) { return a > b ? a : b; }

/* The last node before the updates that reads each tensor (views count as their storage's reader). */
static void last_readers(const graph *g, node_id *last) {
    for (node_id id = 1; id < g->nodes.count; id++) {
        const node *n = graph_node(g, id);
        for (uint32_t i = 0; i < n->in_count && n->phase != PHASE_UPDATE; i++)
            if (node_in(g, n, i)) last[graph_storage(g, node_in(g, n, i), NULL)] = id;
    }
}

static bool changes_state(const graph *g, const node *n) {
    for (uint32_t i = 0; i < n->out_count; i++)
        if (role_persistent(graph_tensor(g, graph_storage(g, node_out(g, n, i), NULL))->role)) return true;
    return false;
}

/* Does this node only make of a weight what its update reads? */
static bool widens(const graph *g, const node *n) {
    const tensor *x = graph_tensor(g, n->in_count ? node_in(g, n, 0) : 0);
    return !x->producer && x->role == ROLE_PARAMETER && !changes_state(g, n);
}

static void mark_updates(const graph *g, bool *updates) {
    for (node_id id = 1; id < g->nodes.count; id++) {
        const node *n = graph_node(g, id);
        if (n->phase != PHASE_UPDATE) continue;
        updates[id] = changes_state(g, n) || widens(g, n);
        for (uint32_t i = 0; i < n->in_count; i++)
            updates[id] |= node_in(g, n, i) && updates[graph_tensor(g, node_in(g, n, i))->producer];
    }
}

static node_id due_after(const calendar *k, const node *n, const node_id *last) {
    const graph *g = k->r->in;
    node_id due = 0;
    for (uint32_t i = 0; i < n->in_count; i++) {
        tensor_id t = node_in(g, n, i);
        node_id maker = t ? graph_tensor(g, t)->producer : 0;
        if (maker) due = later(due, graph_node(g, maker)->phase == PHASE_UPDATE ? k->due[maker] : maker);
    }
    for (uint32_t a = 0; a < n->op->alias_count; a++) {
        tensor_id over = n->op->aliases[a].must ? node_in(g, n, n->op->aliases[a].in) : 0;
        if (over) due = later(due, last[graph_storage(g, over, NULL)]);
    }
    return due;
}

/* A weight that is widened for its update waits with that. */
static void wait_for_reader(calendar *k, node_id id) {
    const graph *g = k->r->in;
    for (node_id other = id + 1; other < g->nodes.count; other++)
        for (uint32_t i = 0; i < graph_node(g, other)->in_count; i++) {
            tensor_id t = node_in(g, graph_node(g, other), i);
            if (!t || graph_tensor(g, t)->producer != id) continue;
            k->due[id] = k->due[other];
            return;
        }
}

/* Who is due when. */
static void fill_in(calendar *k) {
    const graph *g = k->r->in;
    memset(k->head, 0, g->nodes.count * sizeof *k->head);
    for (node_id id = g->nodes.count; id-- > 1;) { /* backwards, so that each list is in order */
        if (graph_node(g, id)->phase != PHASE_UPDATE) continue;
        if (widens(g, graph_node(g, id))) wait_for_reader(k, id);
        k->next[id] = k->head[k->due[id]];
        k->head[k->due[id]] = id;
    }
}

static status calendar_open(calendar *k, rewrite *r) {
    uint32_t nodes = r->in->nodes.count;
    *k = (calendar){ .r = r,
                     .due = memory_new(nodes, sizeof(node_id)),
                     .next = memory_new(nodes, sizeof(node_id)),
                     .head = memory_new(nodes, sizeof(node_id)),
                     .updates = memory_new(nodes, sizeof(bool)) };
    node_id *last = memory_new(r->in->tensors.count, sizeof *last);
    if (!k->due || !k->next || !k->head || !k->updates || !last) {
        memory_free(last);
        return status_set(STATUS_FAILED, "no memory to rewrite a graph");
    }
    last_readers(r->in, last);
    mark_updates(r->in, k->updates);
    for (node_id id = 1; id < nodes; id++)
        if (graph_node(r->in, id)->phase == PHASE_UPDATE)
            k->due[id] = due_after(k, graph_node(r->in, id), last);
    fill_in(k);
    memory_free(last);
    return STATUS_OK;
}

static void calendar_close(calendar *k) {
    memory_free(k->due);
    memory_free(k->next);
    memory_free(k->head);
    memory_free(k->updates);
}

/* ---- one backward ---- */

static void run_once(calendar *k) {
    rewrite *r = k->r;
    for (node_id id = 0; id < r->in->nodes.count && !r->out->failed; id++) {
        if (id && graph_node(r->in, id)->phase != PHASE_UPDATE) rewrite_node(r, id);
        for (node_id due = k->head[id]; due; due = k->next[due]) rewrite_node(r, due);
    }
}

/* ---- two backwards ---- */

/* A node of the first backward. It must not add to results (the loss) that the second will add to as well. */
static void rewrite_without_results(rewrite *r, node_id id) {
    enum { MOST = 64 };
    const node *n = graph_node(r->in, id);
    tensor_id inputs[MOST];
    if (n->in_count > MOST) {
        graph_fail(r->out, "--update-early twice: %s has too many inputs", n->op->name);
        return;
    }
    for (uint32_t i = 0; i < n->in_count; i++) {
        tensor_id t = node_in(r->in, n, i);
        inputs[i] = t ? r->map[t] : 0;
        if (inputs[i] && graph_tensor(r->out, graph_storage(r->out, inputs[i], NULL))->role == ROLE_RESULT)
            inputs[i] = 0;
    }
    rewrite_node_inputs(r, id, inputs, n->in_count);
}

/* Forward, then the first backward with the norms; r->map afterwards knows forward values and the factor. */
static void run_norms(calendar *k, tensor_id *forward) {
    rewrite *r = k->r;
    const graph *in = r->in;
    for (node_id id = 1; id < in->nodes.count && !r->out->failed; id++)
        if (graph_node(in, id)->phase == PHASE_FORWARD) rewrite_node(r, id);
    memcpy(forward, r->map, in->tensors.count * sizeof *forward);
    for (node_id id = 0; id < in->nodes.count && !r->out->failed; id++) {
        if (id && graph_node(in, id)->phase == PHASE_BACKWARD) rewrite_without_results(r, id);
        for (node_id due = k->head[id]; due; due = k->next[due]) {
            const node *n = graph_node(in, due);
            if (k->updates[due]) continue;
            rewrite_node(r, due);
            for (uint32_t i = 0; i < n->out_count; i++)
                forward[node_out(in, n, i)] = r->map[node_out(in, n, i)];
        }
    }
}

/* When updates no longer wait for the norm: due by their own gradient alone. */
static void run_updates(calendar *k, tensor_id *forward) {
    rewrite *r = k->r;
    const graph *in = r->in;
    memcpy(r->map, forward, in->tensors.count * sizeof *forward);
    for (node_id id = 0; id < in->nodes.count && !r->out->failed; id++) {
        if (id && graph_node(in, id)->phase == PHASE_BACKWARD) rewrite_node(r, id);
        for (node_id due = k->head[id]; due; due = k->next[due])
            if (k->updates[due]) rewrite_node(r, due);
    }
}

static void run_twice(calendar *k) {
    rewrite *r = k->r;
    const graph *in = r->in;
    tensor_id *forward = memory_new(in->tensors.count, sizeof *forward);
    node_id *last = memory_new(in->tensors.count, sizeof *last);
    if (!forward || !last) {
        graph_no_memory(r->out);
    } else {
        run_norms(k, forward);
        /* the norm exists now: it is no reason to wait any more */
        last_readers(in, last);
        for (node_id id = 1; id < in->nodes.count; id++) {
            const node *n = graph_node(in, id);
            if (n->phase == PHASE_UPDATE) k->due[id] = k->updates[id] ? due_after(k, n, last) : 0;
        }
        fill_in(k);
        run_updates(k, forward);
    }
    memory_free(forward);
    memory_free(last);
}

static status run(const graph *in, const pass_setting *s, const pass_context *c, graph *out) {
    bool twice = s->value[SETTING_TWICE] && waits(in, c); /* else the first backward would be for nobody */
    rewrite r;
    TRY(rewrite_open(&r, in, out));
    calendar k;
    status result = calendar_open(&k, &r);
    if (result == STATUS_OK) {
        if (twice)
            run_twice(&k);
        else
            run_once(&k);
    }
    calendar_close(&k);
    status closed = rewrite_close(&r);
    return result != STATUS_OK ? result : closed;
}

const pass pass_update_early = { .name = "update_early",
                                 .help = "update each weight as soon as its gradient exists",
                                 .values = "auto, off, on, or twice (with clipping: backward runs two times)",
                                 .paper = "arXiv:2306.09782",
                                 .class = PASS_EXACT,
                                 .stage = PASS_STEP,
                                 .of_state = true,
                                 .training_only = true,
                                 .parse = parse,
                                 .settings = settings,
                                 .check = check,
                                 .run = run };
