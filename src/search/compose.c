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

/* What is to be made: of which choice, on which trunk. */
typedef struct {
    const compose_run *run;
    const compose_choice *choice;
    compose_trunk *trunk;
    const compose_reach *reach; /* of an outline; NULL: it is planned */
    uint64_t least;             /* what persistent tensors take at least, as far as is known */
    bool given_up;
} making;

/* Looks at a graph of the choice, which may yet lose persistent tensors of the roles in `without`. */
static void look_at(making *m, const graph *g, uint32_t without) {
    const compose_reach *reach = m->reach;
    if (!reach || reach->peak_bytes == UINT64_MAX) return;
    uint64_t bytes = persistent_bytes(g, without);
    if (bytes > m->least) m->least = bytes;
    m->given_up = m->least > reach->peak_bytes && m->least > reach->budget;
}

/* One program, unless its persistent tensors take too much: mostly the stem knows, before any step pass has
 * run. */
static status make_program(making *m, program_kind k, program *p) {
    const compose_run *r = m->run;
    graph g = { 0 };
    status result = STATUS_OK;
    look_at(m, compose_root(r, m->choice, m->trunk->stem, k), roles_freed(m->choice));
    if (!m->given_up) result = compose_grow(r, m->choice, k, m->trunk, &g);
    if (!m->given_up && result == STATUS_OK) look_at(m, &g, 0);
    if (result != STATUS_OK || m->given_up) {
        graph_close(&g);
        return result;
    }
    lower_options lower = r->lower;
    lower.unverified = m->reach != NULL; /* what is planned after all is made again, and verified then */
    TRY(lower_program(&g, &lower, p));
    return schedule_program(p);
}

/* Of a step, or of the whole validation where that is all there is; by program, 0: there is none. */
static double seconds_of(const double seconds[PROGRAM_COUNT], const compose_split *s) {
    if (seconds[PROGRAM_STEP] > 0)
        return seconds[PROGRAM_STEP] + (double)s->accumulate * seconds[PROGRAM_ACCUMULATE];
    return (double)s->eval_calls * seconds[PROGRAM_EVALUATE] + seconds[PROGRAM_EVALUATE_REST];
}

static bool too_slow(const making *m, const program programs[PROGRAM_COUNT]) {
    double seconds[PROGRAM_COUNT];
    compose_split split = compose_split_of(m->run, m->choice);
    for (int k = 0; k < PROGRAM_COUNT; k++) seconds[k] = programs[k].seconds;
    return m->reach && m->least > m->reach->peak_bytes && seconds_of(seconds, &split) > m->reach->seconds;
}

/* All programs of the choice; none where they are given up. */
static status make_programs(making *m, program programs[PROGRAM_COUNT]) {
    status result = m->trunk->stem->made;
    compose_flavour f;
    for (int k = 0; k < COMPOSE_PARTS && result == STATUS_OK && !m->given_up; k++)
        if (compose_flavour_of(m->run, m->choice, (program_kind)k, &f))
            result = make_program(m, (program_kind)k, &programs[k]);
    if (result == STATUS_OK && !m->given_up) m->given_up = too_slow(m, programs);
    if (result == STATUS_OK && !m->given_up) return STATUS_OK;
    for (int k = 0; k < COMPOSE_PARTS; k++) lower_close(&programs[k]);
    return result;
}

/* ---- whole runs ---- */

status compose_plan_on(const compose_run *r, const compose_choice *c, compose_trunk *t, plan *p) {
    program programs[PROGRAM_COUNT] = { 0 };
    making m = { .run = r, .choice = c, .trunk = t };
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

status compose_bound(const compose_run *r, const compose_choice *c, compose_trunk *t,
                     const compose_reach *reach, compose_least *out) {
    program programs[PROGRAM_COUNT] = { 0 };
    making m = { .run = r, .choice = c, .trunk = t, .reach = reach };
    plan p;
    *out = (compose_least){ 0 };
    TRY(make_programs(&m, programs));
    *out = (compose_least){ .peak_bytes = m.least, .given_up = m.given_up };
    if (m.given_up) return STATUS_OK;
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

double compose_seconds(const plan *p, const compose_split *s) {
    double seconds[PROGRAM_COUNT];
    for (int k = 0; k < PROGRAM_COUNT; k++) seconds[k] = p->programs[k] ? p->programs[k]->program.seconds : 0;
    return seconds_of(seconds, s);
}
