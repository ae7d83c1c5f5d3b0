#include "search/compose.h"

#include "autodiff/autodiff.h"
#include "base/memory.h"
#include "ir/verify.h"
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

/* One rewriting; *g is replaced. */
static status apply(status (*run)(const graph *, const pass_setting *, const pass_context *, graph *),
                    const pass_setting *s, const pass_context *context, graph *g) {
    graph next;
    TRY(graph_open(&next));
    status result = run(g, s, context, &next);
    graph_close(g);
    *g = next;
    return result;
}

/* Applies the chosen settings of one stage; *g is replaced. */
static status apply_passes(const compose_choice *c, const pass_context *context, pass_stage stage, graph *g) {
    for (int i = 0; pass_table[i]; i++) {
        if (pass_table[i]->stage != stage || !c->settings[i].text[0]) continue;
        if (pass_table[i]->training_only && !context->training) continue;
        TRY(apply(pass_table[i]->run, &c->settings[i], context, g));
    }
    return STATUS_OK;
}

/* What passes have still to do when all of them have run. */
static status finish_passes(const compose_choice *c, const pass_context *context, graph *g) {
    for (int i = 0; pass_table[i]; i++) {
        if (!pass_table[i]->finish || !c->settings[i].text[0]) continue;
        if (pass_table[i]->training_only && !context->training) continue;
        TRY(apply(pass_table[i]->finish, &c->settings[i], context, g));
    }
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

/* Forward graph, forward passes and, for training, backward and update nodes; then the step passes up to
 * `until` (exclusive: PASS_STEP stops before them). */
static status build(const compose_run *r, const compose_choice *c, const flavour *f, pass_stage *until,
                    graph *g) {
    pass_context context = compose_context(r, c);
    context.accumulating = f->accumulating;
    context.training = f->mode == MODEL_TRAIN;
    model_ports ports = { 0 };
    TRY(graph_open(g));
    r->model->build(r->model, g, &(model_run){ .mode = f->mode, .batch = f->batch, .context = r->context },
                    &ports);
    status result = graph_status(g);
    if (until && *until == PASS_FORWARD) return result;
    if (result == STATUS_OK) result = apply_passes(c, &context, PASS_FORWARD, g);
    if (result == STATUS_OK && context.training) result = differentiate(r, g, find_loss(g));
    if (until) return result;
    if (result == STATUS_OK) result = apply_passes(c, &context, PASS_STEP, g);
    if (result == STATUS_OK) result = finish_passes(c, &context, g);
    return result;
}

status compose_graph(const compose_run *r, const compose_choice *c, pass_stage stage, graph *g) {
    flavour f = { .mode = r->training ? MODEL_TRAIN : MODEL_EVALUATE,
                  .batch = r->training ? c->micro_batch : compose_split_of(r, c).eval_batch };
    return build(r, c, &f, &stage, g);
}

static status make_program(const compose_run *r, const compose_choice *c, const flavour *f, program *p) {
    graph g;
    status result = build(r, c, f, NULL, &g);
    if (result != STATUS_OK) {
        graph_close(&g);
        return result;
    }
    TRY(lower_program(&g, &r->lower, p));
    return schedule_program(p);
}

/* ---- whole runs ---- */

status compose_plan(const compose_run *r, const compose_choice *c, plan *p) {
    program programs[PROGRAM_COUNT] = { 0 };
    compose_split s = compose_split_of(r, c);
    const struct {
        program_kind kind;
        bool wanted;
        flavour flavour;
    } parts[] = {
        { PROGRAM_STEP, r->training, { MODEL_TRAIN, s.last, false } },
        { PROGRAM_ACCUMULATE, r->training && s.accumulate > 0, { MODEL_TRAIN, c->micro_batch, true } },
        { PROGRAM_EVALUATE, s.eval_calls > 0, { MODEL_EVALUATE, s.eval_batch, false } },
        { PROGRAM_EVALUATE_REST, s.eval_rest > 0, { MODEL_EVALUATE, s.eval_rest, false } },
    };
    status result = STATUS_OK;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].wanted) TRY_OR(failed, make_program(r, c, &parts[i].flavour, &programs[parts[i].kind]));
    TRY(plan_make(programs, r->buffers, r->buffer_count, r->lower.threads, p));
    plan_reserve(p, r->kept_bytes);
    p->folder = r->folder;
    return STATUS_OK;
failed:
    for (int k = 0; k < PROGRAM_COUNT; k++) lower_close(&programs[k]);
    return result;
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
    if (result == STATUS_OK) result = apply_passes(&c, &context, PASS_FORWARD, &g);
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
