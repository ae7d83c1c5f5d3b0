#include "search/compose.h"

#include "schedule/schedule.h"
#include "search/compose_graphs.h"

compose_split compose_split_of(const compose_run *r, const compose_choice *c) {
    compose_split s = { .eval_batch = r->eval_batch ? r->eval_batch : c->micro_batch };
    s.accumulate = (r->batch - 1) / c->micro_batch;
    s.last = r->batch - s.accumulate * c->micro_batch;
    if (s.eval_batch > r->eval_samples) s.eval_batch = r->eval_samples;
    if (s.eval_batch > 0)
        s.eval_calls = r->eval_samples / s.eval_batch, s.eval_rest = r->eval_samples % s.eval_batch;
    return s;
}

/* ---- programs ---- */

/* What persistent tensors take of memory, whatever else there is; but for the roles in `without`. */
static uint64_t persistent_bytes(const graph *g, uint32_t without) {
    uint64_t bytes = 0;
    for (tensor_id t = 1; t < g->tensors.count; t++) {
        const tensor *x = graph_tensor(g, t);
        if (!x->producer && role_persistent(x->role) && x->pool == POOL_MEMORY && !(without >> x->role & 1))
            bytes += graph_tensor_bytes(g, t);
    }
    return bytes;
}

/* The roles of which the choice's step passes may leave less in memory than they find. */
static uint32_t roles_freed(const compose_choice *c) {
    uint32_t roles = 0;
    for (int i = 0; pass_table[i]; i++)
        if (pass_table[i]->stage == PASS_STEP && c->settings[i].text[0]) roles |= pass_table[i]->frees;
    return roles;
}

/* What is to be made: of which choice, on which trunk, and how much it may take. */
typedef struct {
    const compose_run *run;
    const compose_choice *choice;
    compose_trunk *trunk;
    uint64_t limit;
    bool outline;      /* what is planned after all is made again, and verified then */
    uint64_t too_much; /* above the limit: what its persistent tensors take at least; 0: not known to be */
} making;

static bool exceeds(making *m, const graph *g, uint32_t without) {
    uint64_t least = m->limit < UINT64_MAX ? persistent_bytes(g, without) : 0;
    if (least > m->limit) m->too_much = least;
    return least > m->limit;
}

/* One program, unless its persistent tensors take too much: mostly the stem knows, before any step pass has
 * run. */
static status make_program(making *m, program_kind k, program *p) {
    const compose_run *r = m->run;
    graph g;
    if (exceeds(m, compose_root(r, m->choice, m->trunk->stem, k), roles_freed(m->choice))) return STATUS_OK;
    status result = compose_grow(r, m->choice, k, m->trunk, &g);
    if (result != STATUS_OK || exceeds(m, &g, 0)) {
        graph_close(&g);
        return result;
    }
    lower_options lower = r->lower;
    lower.unverified = m->outline;
    TRY(lower_program(&g, &lower, p));
    return schedule_program(p);
}

/* All programs of the choice; none where they take too much. */
static status make_programs(making *m, program programs[PROGRAM_COUNT]) {
    status result = m->trunk->stem->made;
    compose_flavour f;
    for (int k = 0; k < COMPOSE_PARTS && result == STATUS_OK && !m->too_much; k++)
        if (compose_flavour_of(m->run, m->choice, (program_kind)k, &f))
            result = make_program(m, (program_kind)k, &programs[k]);
    if (result == STATUS_OK && !m->too_much) return STATUS_OK;
    for (int k = 0; k < COMPOSE_PARTS; k++) lower_close(&programs[k]);
    return result;
}

/* ---- whole runs ---- */

status compose_plan_on(const compose_run *r, const compose_choice *c, compose_trunk *t, plan *p) {
    program programs[PROGRAM_COUNT] = { 0 };
    making m = { .run = r, .choice = c, .trunk = t, .limit = UINT64_MAX };
    TRY(make_programs(&m, programs));
    TRY(plan_make(programs, r->buffers, r->buffer_count, r->lower.threads, p));
    plan_reserve(p, r->kept_bytes);
    p->folder = r->folder;
    return STATUS_OK;
}

status compose_plan(const compose_run *r, const compose_choice *c, plan *p) {
    compose_stem stem;
    compose_trunk trunk = { .stem = &stem };
    status result = compose_stem_open(r, c, &stem);
    if (result == STATUS_OK) result = compose_plan_on(r, c, &trunk, p);
    compose_trunk_close(&trunk);
    compose_stem_close(&stem);
    return result;
}

status compose_bound(const compose_run *r, const compose_choice *c, compose_trunk *t, uint64_t limit,
                     compose_least *out) {
    program programs[PROGRAM_COUNT] = { 0 };
    making m = { .run = r, .choice = c, .trunk = t, .limit = limit, .outline = true };
    plan p;
    *out = (compose_least){ 0 };
    TRY(make_programs(&m, programs));
    out->peak_bytes = m.too_much;
    if (m.too_much) return STATUS_OK;
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
    if (result == STATUS_OK) result = compose_forward(&c, &context, &g);
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
