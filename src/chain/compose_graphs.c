#include "chain/compose_graphs.h"

#include <string.h>

#include "autodiff/autodiff.h"
#include "autodiff/units.h"
#include "base/memory.h"
#include "ir/rewrite.h"

pass_context compose_context(const compose_run *r, const compose_choice *c) {
    return (pass_context){ .training = r->training,
                           .batch = r->batch,
                           .unit = compose_unit(r),
                           .micro_batch = c->micro_batch,
                           .ranks = r->ranks,
                           .of_host = r->of_host,
                           .chained = compose_chained(r),
                           .tokens = r->context,
                           .layers = r->layers ? r->model->layers : 0,
                           .least_rows = compose_least_rows(r),
                           .threads = r->lower.threads,
                           .clipping = r->optimizer.clip > 0,
                           .away = r->folder || compose_apart(r),
                           .narrow_weights = optimizer_takes_narrow(r->optimizer.kind),
                           .device = lower_device(&r->lower) };
}

/* ---- passes ---- */

/* A graph on its way through the passes. */
typedef struct {
    const graph *now; /* what the next pass reads: at first a graph of somebody else, then `own` */
    graph own;
} growth;

typedef status rewriter(const graph *in, const pass_setting *s, const pass_context *c, graph *out);

static status rewrite_by(rewriter *run, const pass_setting *s, const pass_context *context, growth *w) {
    graph next;
    TRY(graph_open(&next));
    status result = run(w->now, s, context, &next);
    next.parent = graph_size_larger(graph_size_of(w->now), w->now->parent);
    graph_close(&w->own);
    w->own = next;
    w->now = &w->own;
    return result;
}

/* Is pass number i one of this stage that the choice applies? */
static bool takes_part(const compose_choice *c, const pass_context *context, pass_stage stage, int i) {
    return pass_table[i]->stage == stage && c->settings[i].text[0] &&
           (context->training || !pass_table[i]->training_only);
}

status compose_forward(const compose_choice *c, const pass_context *context, graph *g) {
    growth w = { .now = &w.own, .own = *g };
    status result = STATUS_OK;
    for (int i = 0; pass_table[i] && result == STATUS_OK; i++)
        if (takes_part(c, context, PASS_FORWARD, i))
            result = rewrite_by(pass_table[i]->run, &c->settings[i], context, &w);
    *g = w.own;
    return result;
}

/* The third stage: pass.schedule of the passes that have one, after all passes have run. */
static status schedule_passes(const compose_choice *c, const pass_context *context, growth *w) {
    for (int i = 0; pass_table[i]; i++)
        if (pass_table[i]->schedule && takes_part(c, context, pass_table[i]->stage, i))
            TRY(rewrite_by(pass_table[i]->schedule, &c->settings[i], context, w));
    return STATUS_OK;
}

static status differentiate(const compose_run *r, graph *g, tensor_id loss) {
    uint32_t tensors = g->tensors.count;
    tensor_id *gradient = memory_new(tensors, sizeof *gradient);
    if (!gradient) return status_set(STATUS_FAILED, "no memory to build a graph");
    bool units = compose_units(r);
    status result = autodiff_run(g, &(autodiff_seed){ .of = loss }, 1, NULL, gradient);
    if (result == STATUS_OK && units) result = units_append(g, &loss, gradient, tensors);
    if (result == STATUS_OK) result = optimizer_append(g, &r->optimizer, loss, gradient, tensors);
    if (result == STATUS_OK && units) result = units_clear(g, gradient, tensors);
    memory_free(gradient);
    return result;
}

static status settle_units(graph *g) {
    graph settled;
    TRY(graph_open(&settled));
    status result = units_settle(g, &settled);
    settled.parent = graph_size_larger(graph_size_of(g), g->parent);
    graph_close(g);
    *g = settled;
    return result;
}

/* Forward passes give tensors new ids. The loss is found again as what the last writer of a result makes. */
static tensor_id find_loss(const graph *g) {
    for (node_id id = g->nodes.count; id-- > 1;) {
        const node *n = graph_node(g, id);
        for (uint32_t i = 0; i < n->out_count; i++)
            if (graph_tensor(g, graph_storage(g, node_out(g, n, i), NULL))->role == ROLE_RESULT)
                return node_out(g, n, i);
    }
    return 0;
}

/* ---- stems ---- */

static pass_context context_of(const compose_run *r, const compose_choice *c, model_mode mode) {
    pass_context context = compose_context(r, c);
    context.training = mode == MODEL_TRAIN;
    return context;
}

/* Forward graph, forward passes and, for training, backward and update nodes; before `until` (PASS_FORWARD:
 * the model's graph as it is). *g is open also after a failure. */
static status build_stem(const compose_run *r, const compose_choice *c, model_mode mode, int64_t batch,
                         pass_stage until, graph *g) {
    pass_context context = context_of(r, c, mode);
    model_ports ports = { 0 };
    TRY(graph_open(g));
    r->model->build(r->model, g,
                    &(model_run){ .mode = mode, .batch = batch, .context = r->context, .layers = r->layers },
                    &ports);
    status result = graph_status(g);
    if (until == PASS_FORWARD) return result;
    if (result == STATUS_OK) result = compose_forward(c, &context, g);
    if (result == STATUS_OK && context.training) result = differentiate(r, g, find_loss(g));
    if (result == STATUS_OK && context.training && compose_units(r)) result = settle_units(g);
    return result;
}

status compose_graph(const compose_run *r, const compose_choice *c, pass_stage stage, graph *g) {
    return r->training ? build_stem(r, c, MODEL_TRAIN, c->micro_batch, stage, g)
                       : build_stem(r, c, MODEL_EVALUATE, compose_split_of(r, c).eval_batch, stage, g);
}

/* The last micro-batch updates the weights; those before it only add to the gradients, and the last one of a
 * unit hands its sums on. Validation samples that don't fill a call have a program of their own. */
uint32_t compose_programs(const compose_run *r, const compose_choice *c,
                          compose_program out[COMPOSE_PROGRAMS]) {
    compose_split s = compose_split_of(r, c);
    int64_t micro = c->micro_batch, unit = compose_unit(r), adding = s.accumulate - s.ends;
    const compose_program all[COMPOSE_PROGRAMS] = {
        { { "step", TASK_TRAIN, s.last, compose_here(r) - s.last, r->training, 0 },
          MODEL_TRAIN,
          false,
          true },
        { { "unit", TASK_TRAIN, micro, unit - micro, r->training ? s.ends : 0, unit },
          MODEL_TRAIN,
          false,
          false },
        { { "accumulate", TASK_TRAIN, micro, 0, r->training ? adding : 0, 0 }, MODEL_TRAIN, true, false },
        { { "evaluate", TASK_EVALUATE, s.eval_batch, 0, s.eval_calls, 0 }, MODEL_EVALUATE, false, false },
        { { "evaluate_rest", TASK_EVALUATE, s.eval_rest, s.eval_calls * s.eval_batch, s.eval_rest > 0, 0 },
          MODEL_EVALUATE,
          false,
          false },
    };
    uint32_t count = 0;
    for (uint32_t k = 0; k < COMPOSE_PROGRAMS; k++)
        if (all[k].shape.calls > 0) out[count++] = all[k];
    return count;
}

uint32_t compose_most_called(const compose_program *list, uint32_t count) {
    uint32_t most = 0;
    for (uint32_t k = 1; k < count; k++)
        if (list[k].shape.task == list[0].shape.task && list[k].shape.calls > list[most].shape.calls)
            most = k;
    return most;
}

/* Which program's graph program k grows from: the first that takes as many samples in the same mode. Such
 * programs differ only in what the last pass makes of them. */
static uint32_t root_of(const compose_program *list, uint32_t k) {
    uint32_t root = 0;
    while (list[root].mode != list[k].mode || list[root].shape.batch != list[k].shape.batch) root++;
    return root;
}

const graph *compose_root(const compose_stem *s, const compose_program *list, uint32_t k) {
    return &s->graphs[root_of(list, k)];
}

static bool same_up_to(const compose_choice *a, const compose_choice *b, pass_stage last) {
    bool same = a->micro_batch == b->micro_batch;
    for (int i = 0; pass_table[i] && same; i++)
        same = pass_table[i]->stage > last || strcmp(a->settings[i].text, b->settings[i].text) == 0;
    return same;
}

bool compose_same_stem(const compose_choice *a, const compose_choice *b) {
    return same_up_to(a, b, PASS_FORWARD);
}

bool compose_same(const compose_choice *a, const compose_choice *b) { return same_up_to(a, b, PASS_STEP); }

void compose_limit(const graph_room *all, uint64_t used) {
    graph_room rest = *all;
    if (rest.bytes) rest.bytes = rest.bytes > used ? rest.bytes - used : 1;
    graph_limit(&rest);
}

status compose_stem_open(const compose_run *r, const compose_choice *c, compose_stem *s) {
    *s = (compose_stem){ .made = STATUS_OK };
    graph_room all = graph_limit_now();
    uint64_t used = 0;
    compose_program list[COMPOSE_PROGRAMS];
    uint32_t count = compose_programs(r, c, list);
    for (uint32_t k = 0; k < count && s->made == STATUS_OK; k++) {
        if (root_of(list, k) != k) continue;
        compose_limit(&all, used);
        s->made = build_stem(r, c, list[k].mode, list[k].shape.batch, PASS_STEP, &s->graphs[k]);
        used += plan_growing_bytes(&s->graphs[k]);
    }
    graph_limit(&all);
    return s->made;
}

void compose_stem_close(compose_stem *s) {
    for (int k = 0; k < COMPOSE_PROGRAMS; k++) graph_close(&s->graphs[k]);
}

/* ---- what persists ---- */

uint64_t compose_persistent_bytes(const graph *g, uint32_t without) {
    uint64_t bytes = 0;
    for (tensor_id t = 1; t < g->tensors.count; t++) {
        const tensor *x = graph_tensor(g, t);
        if (!x->producer && role_persistent(x->role) && !x->away && !(without >> x->role & 1))
            bytes += graph_tensor_bytes(g, t);
    }
    return bytes;
}

uint32_t compose_roles_freed(const compose_choice *c) {
    uint32_t roles = 0;
    for (int i = 0; pass_table[i]; i++)
        if (pass_table[i]->stage == PASS_STEP && c->settings[i].text[0])
            roles |= pass_frees(pass_table[i], &c->settings[i]);
    return roles;
}

/* ---- trunks ---- */

void compose_trunk_close(compose_trunk *t) {
    while (t->count) graph_close(&t->kept[--t->count].graph);
    *t = (compose_trunk){ .most = t->most };
}

/* Frees the kept graphs that the choice cannot go on from. It can go on from one that was made from the same
 * root with the same settings of all passes up to that graph's. */
static void trim(compose_trunk *t, const graph *root, const compose_choice *c) {
    uint32_t common = 0;
    int i = 0;
    for (; root == t->root && common < t->count; common++) {
        int last = t->kept[common].pass;
        while (i <= last && (pass_table[i]->stage != PASS_STEP ||
                             strcmp(c->settings[i].text, t->choice.settings[i].text) == 0))
            i++;
        if (i <= last) break;
    }
    while (t->count > common) graph_close(&t->kept[--t->count].graph);
    t->root = root, t->choice = *c;
}

/* Keeps the graph that pass number i has made; where the trunk is full, the oldest is freed. */
static void keep(compose_trunk *t, int i, growth *w) {
    if (t->count == t->most) {
        graph_close(&t->kept[0].graph);
        memmove(&t->kept[0], &t->kept[1], --t->count * sizeof *t->kept);
    }
    t->kept[t->count].graph = w->own, t->kept[t->count].pass = i;
    *w = (growth){ .now = &t->kept[t->count++].graph };
}

static int last_pass(const compose_choice *c, const pass_context *context) {
    int last = -1;
    for (int i = 0; pass_table[i]; i++)
        if (takes_part(c, context, PASS_STEP, i)) last = i;
    return last;
}

/* Runs the step passes that come after the trunk's last graph. The trunk keeps what they make, but for two:
 * the last pass, whose graph no other choice goes on from, and passes that are by_program, whose graph serves
 * one program only. */
static status apply_steps(const compose_choice *c, pass_context *context, bool accumulating, compose_trunk *t,
                          growth *w) {
    int last = last_pass(c, context);
    for (int i = t->count ? t->kept[t->count - 1].pass + 1 : 0; i <= last; i++) {
        if (!takes_part(c, context, PASS_STEP, i)) continue;
        context->accumulating = accumulating && pass_table[i]->by_program;
        TRY(rewrite_by(pass_table[i]->run, &c->settings[i], context, w));
        if (i < last && !pass_table[i]->by_program && t->most) keep(t, i, w);
    }
    return STATUS_OK;
}

/* Is a node that reduces of use without updates: do its outputs last, or does somebody read them? */
static bool is_of_use(const graph *g, const node *n, const bool *read) {
    for (uint32_t i = 0; i < n->out_count; i++) {
        tensor_id t = node_out(g, n, i);
        if (read[t] || role_persistent(graph_tensor(g, graph_storage(g, t, NULL))->role)) return true;
    }
    return false;
}

/* The program without its updates: that of a unit which others follow. */
static status drop_updates(const graph *in, const pass_setting *s, const pass_context *c, graph *out) {
    (void)s, (void)c;
    rewrite r;
    TRY(rewrite_open(&r, in, out));
    bool *stays = memory_new(in->nodes.count, sizeof *stays),
         *read = memory_new(in->tensors.count, sizeof *read);
    if (!stays || !read) graph_no_memory(out);
    for (node_id id = in->nodes.count; !out->failed && id-- > 1;) {
        const node *n = graph_node(in, id);
        stays[id] = n->phase < PHASE_REDUCE || (n->phase == PHASE_REDUCE && is_of_use(in, n, read));
        for (uint32_t i = 0; i < n->in_count && stays[id]; i++) read[node_in(in, n, i)] = true;
    }
    for (node_id id = 1; id < in->nodes.count && !out->failed; id++)
        if (stays[id]) rewrite_node(&r, id);
    memory_free(stays);
    memory_free(read);
    return rewrite_close(&r);
}

status compose_grow(const compose_run *r, const compose_choice *c, const compose_program *list, uint32_t k,
                    compose_trunk *t, graph *g) {
    *g = (graph){ 0 };
    pass_context context = context_of(r, c, list[k].mode);
    const graph *root = compose_root(t->stem, list, k);
    compose_trunk apart = { 0 };
    if (!context.training) t = &apart; /* few passes take part: the trunk stays with the training programs */
    trim(t, root, c);
    growth w = { .now = t->count ? &t->kept[t->count - 1].graph : root };
    status result = apply_steps(c, &context, list[k].accumulating, t, &w);
    bool hands_on = context.training && !list[k].updates && !list[k].accumulating;
    if (result == STATUS_OK && hands_on) result = rewrite_by(drop_updates, NULL, &context, &w);
    if (result == STATUS_OK) result = schedule_passes(c, &context, &w);
    if (result == STATUS_OK && w.now != &w.own) { /* no pass has run: *g must become a graph of its own */
        if (t->count)
            w.own = t->kept[--t->count].graph;
        else
            result = rewrite_nothing(root, &w.own);
        w.own.parent = root->parent;
    }
    *g = w.own;
    compose_trunk_close(&apart);
    return result;
}
