#include "search/compose.h"

#include <string.h>

#include "autodiff/autodiff.h"
#include "base/memory.h"
#include "ir/rewrite.h"
#include "schedule/schedule.h"

pass_context compose_context(const compose_run *r, const compose_choice *c) {
    return (pass_context){ .training = r->training,
                           .batch = r->batch,
                           .micro_batch = c->micro_batch,
                           .tokens = r->context,
                           .clipping = r->optimizer.clip > 0,
                           .folder = r->folder != NULL,
                           .narrow_weights = optimizer_takes_narrow(r->optimizer.kind) };
}

compose_split compose_split_of(const compose_run *r, const compose_choice *c) {
    compose_split s = { .eval_batch = r->eval_batch ? r->eval_batch : c->micro_batch };
    s.accumulate = (r->batch - 1) / c->micro_batch;
    s.last = r->batch - s.accumulate * c->micro_batch;
    if (s.eval_batch > r->eval_samples) s.eval_batch = r->eval_samples;
    if (s.eval_batch > 0)
        s.eval_calls = r->eval_samples / s.eval_batch, s.eval_rest = r->eval_samples % s.eval_batch;
    return s;
}

/* ---- passes ---- */

/* A graph on its way through passes; it begins as one that belongs to somebody else. */
typedef struct {
    const graph *now; /* the stem, or `own` */
    graph own;
} growth;

static status rewrite_by(status (*run)(const graph *, const pass_setting *, const pass_context *, graph *),
                         const pass_setting *s, const pass_context *context, growth *w) {
    graph next;
    TRY(graph_open(&next));
    status result = run(w->now, s, context, &next);
    graph_close(&w->own);
    w->own = next;
    w->now = &w->own;
    return result;
}

/* Applies the chosen settings of one stage. */
static status apply_passes(const compose_choice *c, const pass_context *context, pass_stage stage,
                           growth *w) {
    for (int i = 0; pass_table[i]; i++) {
        if (pass_table[i]->stage != stage || !c->settings[i].text[0]) continue;
        if (pass_table[i]->training_only && !context->training) continue;
        TRY(rewrite_by(pass_table[i]->run, &c->settings[i], context, w));
    }
    return STATUS_OK;
}

/* What passes have still to do when all of them have run. */
static status finish_passes(const compose_choice *c, const pass_context *context, growth *w) {
    for (int i = 0; pass_table[i]; i++) {
        if (!pass_table[i]->finish || !c->settings[i].text[0]) continue;
        if (pass_table[i]->training_only && !context->training) continue;
        TRY(rewrite_by(pass_table[i]->finish, &c->settings[i], context, w));
    }
    return STATUS_OK;
}

/* Applies the forward passes to *g. */
static status apply_forward(const compose_choice *c, const pass_context *context, graph *g) {
    growth w = { .now = &w.own, .own = *g };
    status result = apply_passes(c, context, PASS_FORWARD, &w);
    *g = w.own;
    return result;
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

/* The loss is found again after forward passes: the result of the name "loss" is written once. */
static tensor_id find_loss(const graph *g) {
    for (node_id id = g->nodes.count; id-- > 1;) {
        const node *n = graph_node(g, id);
        for (uint32_t i = 0; i < n->out_count; i++)
            if (graph_tensor(g, graph_storage(g, node_out(g, n, i), NULL))->role == ROLE_RESULT)
                return node_out(g, n, i);
    }
    return 0;
}

typedef struct {
    model_mode mode;
    int64_t batch;
    bool accumulating;
} flavour;

static pass_context context_of(const compose_run *r, const compose_choice *c, const flavour *f) {
    pass_context context = compose_context(r, c);
    context.accumulating = f->accumulating;
    context.training = f->mode == MODEL_TRAIN;
    return context;
}

/* Forward graph, forward passes and, for training, backward and update nodes; before `until` (PASS_FORWARD:
 * the model's graph as it is). *g is open also after a failure. */
static status build_stem(const compose_run *r, const compose_choice *c, const flavour *f, pass_stage until,
                         graph *g) {
    pass_context context = context_of(r, c, f);
    model_ports ports = { 0 };
    TRY(graph_open(g));
    r->model->build(r->model, g, &(model_run){ .mode = f->mode, .batch = f->batch, .context = r->context },
                    &ports);
    status result = graph_status(g);
    if (until == PASS_FORWARD) return result;
    if (result == STATUS_OK) result = apply_forward(c, &context, g);
    if (result == STATUS_OK && context.training) result = differentiate(r, g, find_loss(g));
    return result;
}

/* The step passes on a stem, which stays as it is. */
static status grow(const compose_run *r, const compose_choice *c, const flavour *f, const graph *stem,
                   graph *g) {
    pass_context context = context_of(r, c, f);
    growth w = { .now = stem };
    status result = apply_passes(c, &context, PASS_STEP, &w);
    if (result == STATUS_OK) result = finish_passes(c, &context, &w);
    if (result == STATUS_OK && w.now == stem) result = rewrite_nothing(stem, &w.own);
    *g = w.own;
    return result;
}

status compose_graph(const compose_run *r, const compose_choice *c, pass_stage stage, graph *g) {
    flavour f = { .mode = r->training ? MODEL_TRAIN : MODEL_EVALUATE,
                  .batch = r->training ? c->micro_batch : compose_split_of(r, c).eval_batch };
    return build_stem(r, c, &f, stage, g);
}

/* ---- programs ---- */

/* The programs of a run that are built once for a shape. */
enum { PARTS = PROGRAM_EVALUATE_REST + 1 };

/* False: this run has no such program. */
static bool flavour_of(const compose_run *r, const compose_choice *c, program_kind k, flavour *f) {
    compose_split s = compose_split_of(r, c);
    switch (k) {
    case PROGRAM_STEP: *f = (flavour){ MODEL_TRAIN, s.last, false }; return r->training;
    case PROGRAM_ACCUMULATE:
        *f = (flavour){ MODEL_TRAIN, c->micro_batch, true };
        return r->training && s.accumulate > 0;
    case PROGRAM_EVALUATE: *f = (flavour){ MODEL_EVALUATE, s.eval_batch, false }; return s.eval_calls > 0;
    case PROGRAM_EVALUATE_REST: *f = (flavour){ MODEL_EVALUATE, s.eval_rest, false }; return s.eval_rest > 0;
    default: return false;
    }
}

bool compose_same_stem(const compose_choice *a, const compose_choice *b) {
    bool same = a->micro_batch == b->micro_batch;
    for (int i = 0; pass_table[i] && same; i++)
        same = pass_table[i]->stage != PASS_FORWARD || strcmp(a->settings[i].text, b->settings[i].text) == 0;
    return same;
}

status compose_stem_open(const compose_run *r, const compose_choice *c, compose_stem *s) {
    *s = (compose_stem){ .made = STATUS_OK };
    flavour f;
    for (int k = 0; k < PARTS && s->made == STATUS_OK; k++)
        if (flavour_of(r, c, (program_kind)k, &f)) s->made = build_stem(r, c, &f, PASS_STEP, &s->graphs[k]);
    return s->made;
}

void compose_stem_close(compose_stem *s) {
    for (int k = 0; k < PROGRAM_COUNT; k++) graph_close(&s->graphs[k]);
}

/* What persistent tensors take of memory, whatever else there is. */
static uint64_t persistent_bytes(const graph *g) {
    uint64_t bytes = 0;
    for (tensor_id t = 1; t < g->tensors.count; t++) {
        const tensor *x = graph_tensor(g, t);
        if (!x->producer && role_persistent(x->role) && x->pool == POOL_MEMORY)
            bytes += graph_tensor_bytes(g, t);
    }
    return bytes;
}

/* All programs of the choice, unless the first of them shows that they take more than `limit`: then
 * *too_much says how much that is at least, and there are none. */
static status make_programs(const compose_run *r, const compose_choice *c, const compose_stem *stem,
                            uint64_t limit, program programs[PROGRAM_COUNT], uint64_t *too_much) {
    status result = STATUS_OK;
    flavour f;
    graph g;
    *too_much = 0;
    TRY(stem->made);
    for (int k = 0; k < PARTS; k++) {
        if (!flavour_of(r, c, (program_kind)k, &f)) continue;
        result = grow(r, c, &f, &stem->graphs[k], &g);
        uint64_t least = result == STATUS_OK && limit < UINT64_MAX ? persistent_bytes(&g) : 0;
        if (least > limit) *too_much = least;
        if (result != STATUS_OK || least > limit) {
            graph_close(&g);
            goto none;
        }
        TRY_OR(none, lower_program(&g, &r->lower, &programs[k]));
        TRY_OR(none, schedule_program(&programs[k]));
    }
    return STATUS_OK;
none:
    for (int k = 0; k < PARTS; k++) lower_close(&programs[k]);
    return result;
}

/* ---- whole runs ---- */

status compose_plan_on(const compose_run *r, const compose_choice *c, const compose_stem *stem, plan *p) {
    program programs[PROGRAM_COUNT] = { 0 };
    uint64_t too_much;
    TRY(make_programs(r, c, stem, UINT64_MAX, programs, &too_much));
    TRY(plan_make(programs, r->buffers, r->buffer_count, r->lower.threads, p));
    plan_reserve(p, r->kept_bytes);
    p->folder = r->folder;
    return STATUS_OK;
}

status compose_plan(const compose_run *r, const compose_choice *c, plan *p) {
    compose_stem stem;
    status result = compose_stem_open(r, c, &stem);
    if (result == STATUS_OK) result = compose_plan_on(r, c, &stem, p);
    compose_stem_close(&stem);
    return result;
}

status compose_bound(const compose_run *r, const compose_choice *c, const compose_stem *stem, uint64_t limit,
                     compose_least *out) {
    program programs[PROGRAM_COUNT] = { 0 };
    plan p;
    *out = (compose_least){ 0 };
    TRY(make_programs(r, c, stem, limit, programs, &out->peak_bytes));
    if (out->peak_bytes) return STATUS_OK;
    TRY(plan_outline(programs, r->buffers, r->buffer_count, r->lower.threads, &p));
    plan_reserve(&p, r->kept_bytes);
    compose_split split = compose_split_of(r, c);
    *out = (compose_least){ .peak_bytes = p.peak_bytes, .seconds = compose_seconds(&p, &split) };
    plan_close(&p);
    return STATUS_OK;
}

status compose_decode(const compose_run *r, const compose_choice *pinned, plan *p) {
    program programs[PROGRAM_COUNT] = { 0 };
    compose_choice c = { .micro_batch = r->batch };
    graph g;
    model_ports ports = { 0 };
    TRY(graph_open(&g));
    r->model->build(r->model, &g, &(model_run){ .mode = MODEL_DECODE, .batch = r->batch, .context = 1 },
                    &ports);
    status result = graph_status(&g);
    if (result == STATUS_OK) graph_keep(&g, ports.logits, "logits");
    pass_context context = compose_context(r, &c);
    context.training = false;
    for (int i = 0; pass_table[i] && result == STATUS_OK;
         i++) { /* whatever forward passes offer without a cost */
        pass_without without = PASS_OPTIONAL;
        if (pass_table[i]->stage != PASS_FORWARD) continue;
        if (pinned && pinned->settings[i].text[0]) {
            c.settings[i] = pinned->settings[i];
            if (pass_table[i]->check) result = pass_table[i]->check(&g, &c.settings[i], &context);
        } else {
            pass_table[i]->settings(&g, &context, &c.settings[i], 1, &without);
        }
    }
    if (result == STATUS_OK) result = apply_forward(&c, &context, &g);
    if (result != STATUS_OK) {
        graph_close(&g);
        return result;
    }
    TRY(lower_program(&g, &r->lower, &programs[PROGRAM_DECODE]));
    TRY_OR(failed, schedule_program(&programs[PROGRAM_DECODE]));
    TRY(plan_make(programs, r->buffers, r->buffer_count, r->lower.threads, p));
    plan_reserve(p, r->kept_bytes);
    return STATUS_OK;
failed:
    lower_close(&programs[PROGRAM_DECODE]);
    return result;
}

static double seconds_of(const plan *p, program_kind k, int64_t calls) {
    return p->programs[k] ? (double)calls * p->programs[k]->program.seconds : 0;
}

double compose_seconds(const plan *p, const compose_split *s) {
    if (p->programs[PROGRAM_STEP])
        return seconds_of(p, PROGRAM_STEP, 1) + seconds_of(p, PROGRAM_ACCUMULATE, s->accumulate);
    return seconds_of(p, PROGRAM_EVALUATE, s->eval_calls) + seconds_of(p, PROGRAM_EVALUATE_REST, 1);
}
