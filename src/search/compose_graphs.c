#include "search/compose_graphs.h"

#include <string.h>

#include "autodiff/autodiff.h"
#include "base/memory.h"
#include "ir/rewrite.h"

pass_context compose_context(const compose_run *r, const compose_choice *c) {
    return (pass_context){ .training = r->training,
                           .batch = r->batch,
                           .micro_batch = c->micro_batch,
                           .tokens = r->context,
                           .threads = r->lower.threads,
                           .clipping = r->optimizer.clip > 0,
                           .folder = r->folder != NULL,
                           .narrow_weights = optimizer_takes_narrow(r->optimizer.kind) };
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

/* Runs pass.finish of the passes that have one, after all passes have run. */
static status finish_passes(const compose_choice *c, const pass_context *context, growth *w) {
    for (int i = 0; pass_table[i]; i++)
        if (pass_table[i]->finish && takes_part(c, context, pass_table[i]->stage, i))
            TRY(rewrite_by(pass_table[i]->finish, &c->settings[i], context, w));
    return STATUS_OK;
}

static status differentiate(const compose_run *r, graph *g, tensor_id loss) {
    uint32_t tensors = g->tensors.count;
    tensor_id *gradient = memory_new(tensors, sizeof *gradient);
    if (!gradient) return status_set(STATUS_FAILED, "no memory to build a graph");
    status result = autodiff_run(g, &(autodiff_seed){ .of = loss }, 1, NULL, gradient);
    if (result == STATUS_OK) result = optimizer_append(g, &r->optimizer, loss, gradient, tensors);
    memory_free(gradient);
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

static pass_context context_of(const compose_run *r, const compose_choice *c, const compose_flavour *f) {
    pass_context context = compose_context(r, c);
    context.training = f->mode == MODEL_TRAIN;
    return context;
}

/* Forward graph, forward passes and, for training, backward and update nodes; before `until` (PASS_FORWARD:
 * the model's graph as it is). *g is open also after a failure. */
static status build_stem(const compose_run *r, const compose_choice *c, const compose_flavour *f,
                         pass_stage until, graph *g) {
    pass_context context = context_of(r, c, f);
    model_ports ports = { 0 };
    TRY(graph_open(g));
    r->model->build(r->model, g, &(model_run){ .mode = f->mode, .batch = f->batch, .context = r->context },
                    &ports);
    status result = graph_status(g);
    if (until == PASS_FORWARD) return result;
    if (result == STATUS_OK) result = compose_forward(c, &context, g);
    if (result == STATUS_OK && context.training) result = differentiate(r, g, find_loss(g));
    return result;
}

status compose_graph(const compose_run *r, const compose_choice *c, pass_stage stage, graph *g) {
    compose_flavour f = { .mode = r->training ? MODEL_TRAIN : MODEL_EVALUATE,
                          .batch = r->training ? c->micro_batch : compose_split_of(r, c).eval_batch };
    return build_stem(r, c, &f, stage, g);
}

bool compose_flavour_of(const compose_run *r, const compose_choice *c, program_kind k, compose_flavour *f) {
    compose_split s = compose_split_of(r, c);
    switch (k) {
    case PROGRAM_STEP: *f = (compose_flavour){ MODEL_TRAIN, s.last, false }; return r->training;
    case PROGRAM_ACCUMULATE:
        *f = (compose_flavour){ MODEL_TRAIN, c->micro_batch, true };
        return r->training && s.accumulate > 0;
    case PROGRAM_EVALUATE:
        *f = (compose_flavour){ MODEL_EVALUATE, s.eval_batch, false };
        return s.eval_calls > 0;
    case PROGRAM_EVALUATE_REST:
        *f = (compose_flavour){ MODEL_EVALUATE, s.eval_rest, false };
        return s.eval_rest > 0;
    default: return false;
    }
}

/* Which program's graph program k grows from. `accumulate` shares that of `step` where both take as many
 * samples: they differ only in what the last pass makes of them. */
static program_kind root_of(const compose_run *r, const compose_choice *c, program_kind k) {
    return k == PROGRAM_ACCUMULATE && compose_split_of(r, c).last == c->micro_batch ? PROGRAM_STEP : k;
}

const graph *compose_root(const compose_run *r, const compose_choice *c, const compose_stem *s,
                          program_kind k) {
    return &s->graphs[root_of(r, c, k)];
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
    compose_flavour f;
    for (int k = 0; k < COMPOSE_PARTS && s->made == STATUS_OK; k++) {
        if (!compose_flavour_of(r, c, (program_kind)k, &f) ||
            root_of(r, c, (program_kind)k) != (program_kind)k)
            continue;
        compose_limit(&all, used);
        s->made = build_stem(r, c, &f, PASS_STEP, &s->graphs[k]);
        used += plan_growing_bytes(&s->graphs[k]);
    }
    graph_limit(&all);
    return s->made;
}

void compose_stem_close(compose_stem *s) {
    for (int k = 0; k < PROGRAM_COUNT; k++) graph_close(&s->graphs[k]);
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

status compose_grow(const compose_run *r, const compose_choice *c, program_kind k, compose_trunk *t,
                    graph *g) {
    compose_flavour f;
    *g = (graph){ 0 };
    if (!compose_flavour_of(r, c, k, &f))
        return status_set(STATUS_FAILED, "compose: there is no such program");
    pass_context context = context_of(r, c, &f);
    const graph *root = compose_root(r, c, t->stem, k);
    compose_trunk apart = { 0 };
    if (!context.training) t = &apart; /* few passes take part: the trunk stays with the training programs */
    trim(t, root, c);
    growth w = { .now = t->count ? &t->kept[t->count - 1].graph : root };
    status result = apply_steps(c, &context, f.accumulating, t, &w);
    if (result == STATUS_OK) result = finish_passes(c, &context, &w);
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
