#include "chain/compose.h"

#include "base/memory.h"
#include "base/units.h"
#include "chain/compose_graphs.h"
#include "chain/compose_seconds.h"
#include "plan/away.h"
#include "schedule/schedule.h"
#include "schedule/sweep.h"

compose_split compose_split_of(const compose_run *r, const compose_choice *c) {
    compose_split s = { .eval_batch = r->eval_batch ? r->eval_batch : c->micro_batch };
    int64_t here = compose_here(r);
    s.accumulate = (here - 1) / c->micro_batch;
    s.last = here - s.accumulate * c->micro_batch;
    s.ends = compose_unit(r) < r->batch ? here / compose_unit(r) - 1 : 0;
    if (s.eval_batch > r->eval_samples) s.eval_batch = r->eval_samples;
    if (s.eval_batch > 0)
        s.eval_calls = r->eval_samples / s.eval_batch, s.eval_rest = r->eval_samples % s.eval_batch;
    return s;
}

/* ---- programs ---- */

/* The programs of a choice while they are made. */
typedef struct {
    const compose_run *run;
    const compose_choice *choice;
    compose_trunk *trunk;
    const compose_reach *reach; /* of an outline; NULL: it is planned */
    uint64_t least;             /* a lower bound of the peak, as far as is known */
    uint64_t tables;            /* bytes of tables for the graphs so far, each when it was largest */
    graph_room room;            /* of all graphs */
    bool given_up, runs;        /* runs: what is planned is to be run, so its programs are verified */
} making;

/* Gives the choice up where the persistent tensors of a graph alone are out of reach. Those of the roles in
 * `without` do not count: step passes may still remove them. */
static void look_at(making *m, const graph *g, uint32_t without) {
    const compose_reach *reach = m->reach;
    if (!reach || reach->planning_only) return;
    uint64_t bytes = compose_persistent_bytes(g, without);
    if (bytes > m->least) m->least = bytes;
    m->given_up = m->least > reach->peak_bytes && m->least > reach->budget;
}

static uint64_t bytes_of_making(uint64_t tables) {
    return device_runtime_reserve(0).code + plan_making_bytes(tables);
}

/* What it takes to make the plan is part of its peak: with the graphs so far, and one of so much more. */
static void look_at_tables(making *m, uint64_t more) {
    if (!m->reach || compose_apart(m->run)) return;
    uint64_t bytes = bytes_of_making(m->tables + more);
    if (bytes > m->least) m->least = bytes;
    m->given_up |= bytes > m->reach->peak_bytes && bytes > m->reach->budget;
}

/* Makes program k of the list, unless the choice is given up. Mostly the stem's graph shows that, before any
 * step pass has run. */
static status make_program(making *m, const compose_program *list, uint32_t k, program *p) {
    const compose_run *r = m->run;
    graph g = { 0 };
    status result = STATUS_OK;
    const graph *root = compose_root(m->trunk->stem, list, k);
    const uint32_t frees = m->reach ? m->reach->frees : 0;
    look_at(m, root, compose_roles_freed(m->choice) | frees);
    look_at_tables(m, plan_growing_bytes(root));
    compose_limit(&m->room, m->tables);
    if (!m->given_up) result = compose_grow(r, m->choice, list, k, m->trunk, &g);
    if (!m->given_up && result == STATUS_OK) look_at(m, &g, frees);
    if (!m->given_up && result == STATUS_OK) look_at_tables(m, plan_growing_bytes(&g));
    m->tables += plan_growing_bytes(&g);
    if (result != STATUS_OK || m->given_up) {
        graph_close(&g);
        return result;
    }
    lower_options lower = r->lower;
    lower.unverified = !m->runs;
    lower.unwaited = m->reach && m->reach->unwaited;
    p->shape = list[k].shape;
    TRY(lower_program(&g, &lower, p));
    TRY(schedule_program(p));
    return sweep_predict(p, &lower);
}

static bool too_slow(const making *m, const program *programs, uint32_t count) {
    chain_seconds seconds = { 0 };
    for (uint32_t k = 0; k < count; k++) chain_seconds_add(&seconds, m->run, &programs[k]);
    return m->reach && m->least > m->reach->peak_bytes && chain_seconds_of(seconds.all) > m->reach->seconds;
}

/* ---- outlines ---- */

plan_options compose_plan_options(const compose_run *r) {
    return (plan_options){ .buffers = r->buffers,
                           .buffer_count = r->buffer_count,
                           .threads = r->lower.threads,
                           .device = r->lower.device };
}

/* Beside a device apart, where `away_limit` leaves too little of the host's memory, files take the rest. */
static bool has_files_behind(const compose_run *r) { return compose_apart(r) && r->folder && r->away_limit; }

static status file_away(const compose_run *r, plan *p) {
    return has_files_behind(r) ? away_file(p, r->away_limit, &r->lower.rates) : STATUS_OK;
}

/* What counts on away_limit whatever goes to files. */
static uint64_t away_of(const compose_run *r, const plan *p) {
    return plan_away_bytes(p) - (has_files_behind(r) ? away_hosted(p) : 0);
}

/* What the outline tells, for compose_bound. What captured programs take is not fixed: together with others a
 * choice may have none. */
static status look_into(const compose_run *r, const plan *p, uint64_t away, compose_least *out) {
    chain_seconds seconds = { 0 };
    *out =
        (compose_least){ .peak_bytes = p->peak_bytes,
                         .away_bytes = away,
                         .fixed_bytes = p->run_bytes - p->pools[POOL_MEMORY].arena_bytes - p->beside.captured,
                         .pieces = p->pieces,
                         .table_bytes = p->table_bytes };
    if (p->pieces.count) out->fixed_bytes -= plan_slots_bytes(p->pieces.count, p->pieces.slot_bytes);
    for (uint32_t k = 0; k < p->program_count; k++) {
        const plan_program *pp = &p->programs[k];
        live_values most;
        TRY(live_find_values(&pp->live, &pp->program, &most));
        if (most.all > out->values.all) out->values.all = most.all;
        if (most.but_gradients > out->values.but_gradients) out->values.but_gradients = most.but_gradients;
        chain_seconds_add(&seconds, r, &pp->program);
    }
    out->seconds = chain_seconds_of(seconds.all);
    out->computing = chain_seconds_of(seconds.computing);
    return STATUS_OK;
}

/* Outlines the first `count` programs, which the plan takes over: `all` of them, or as if nothing was filed.
 */
static status outline(const making *m, program *programs, uint32_t count, bool all, plan *p,
                      compose_least *out) {
    plan_options o = compose_plan_options(m->run);
    TRY(plan_outline(programs, count, &o, p));
    plan_reserve(p, m->run->kept_bytes);
    plan_hold(p, bytes_of_making(m->tables));
    uint64_t away = away_of(m->run, p);
    if (all && !m->reach->unwaited) TRY(file_away(m->run, p));
    TRY(look_into(m->run, p, away, out));
    for (uint32_t k = 0; k < count && m->reach->unwaited; k++)
        out->unwaited |= p->programs[k].program.has_away || m->run->ranks > 1;
    return STATUS_OK;
}

/* Gives the choice up where this program alone shows it to reach->beyond. Mostly that saves all others, and
 * where it does not the program is outlined once more with them. */
static status look_at_one(making *m, program *first) {
    const compose_reach *reach = m->reach;
    compose_least least;
    plan p = { 0 };
    status result = outline(m, first, 1, false, &p, &least);
    if (result == STATUS_OK && reach->beyond(reach->context, reach->index, &least)) {
        m->given_up = true;
        if (least.peak_bytes > m->least) m->least = least.peak_bytes;
    }
    if (result == STATUS_OK) {
        *first = p.programs[0].program;
        p.programs[0].program = (program){ 0 };
    }
    plan_close(&p);
    return result;
}

/* ---- all programs of a choice ---- */

/* All programs of the choice; none where they are given up. */
static status make_programs(making *m, program programs[COMPOSE_PROGRAMS], uint32_t *count) {
    status result = m->trunk->stem->made;
    compose_program list[COMPOSE_PROGRAMS];
    *count = compose_programs(m->run, m->choice, list);
    m->room = graph_limit_now();
    bool looks = m->reach && m->reach->beyond && *count > 1;
    uint32_t first = looks ? compose_most_called(list, *count) : 0;
    for (uint32_t i = 0; i < *count && result == STATUS_OK && !m->given_up; i++) {
        uint32_t k = i == 0 ? first : i <= first ? i - 1 : i; /* the others in their order */
        result = make_program(m, list, k, &programs[k]);
        if (!i && looks && !m->given_up && result == STATUS_OK) result = look_at_one(m, &programs[k]);
    }
    graph_limit(&m->room);
    if (result == STATUS_OK && !m->given_up) m->given_up = too_slow(m, programs, *count);
    if (result == STATUS_OK && !m->given_up) return STATUS_OK;
    for (uint32_t k = 0; k < *count; k++) lower_close(&programs[k]);
    return result;
}

/* ---- whole runs ---- */

/* STATUS_INVALID where more is away than may be. */
static status check_away(const compose_run *r, const plan *p) {
    uint64_t bytes = plan_away_bytes(p);
    char taken[UNITS_TEXT_BYTES], limit[UNITS_TEXT_BYTES];
    if (!r->away_limit || bytes <= r->away_limit) return STATUS_OK;
    return status_set(STATUS_INVALID, "%s takes %s, %llu bytes, more than --offload-limit %s",
                      p->device->apart ? "what the host's memory holds" : "what waits in --offload-to",
                      units_bytes_text(bytes, taken), (unsigned long long)bytes,
                      units_bytes_text(r->away_limit, limit));
}

static status plan_on(const compose_run *r, const compose_choice *c, compose_trunk *t, bool runs, plan *p) {
    program programs[COMPOSE_PROGRAMS] = { 0 };
    uint32_t count;
    making m = { .run = r, .choice = c, .trunk = t, .runs = runs };
    TRY(make_programs(&m, programs, &count));
    plan_options o = compose_plan_options(r);
    TRY(plan_make(programs, count, &o, p));
    plan_reserve(p, r->kept_bytes);
    plan_hold(p, bytes_of_making(m.tables));
    p->folder = r->folder;
    status result = file_away(r, p);
    if (result == STATUS_OK) result = check_away(r, p);
    if (result != STATUS_OK) plan_close(p);
    return result;
}

status compose_plan_on(const compose_run *r, const compose_choice *c, compose_trunk *t, plan *p) {
    return plan_on(r, c, t, false, p);
}

status compose_plan(const compose_run *r, const compose_choice *c, plan *p) {
    compose_stem stem;
    compose_trunk trunk = { .stem = &stem, .most = COMPOSE_KEPT };
    status result = compose_stem_open(r, c, &stem);
    if (result == STATUS_OK) result = plan_on(r, c, &trunk, true, p);
    compose_trunk_close(&trunk);
    compose_stem_close(&stem);
    return result;
}

status compose_bound(const compose_run *r, const compose_choice *c, compose_trunk *t,
                     const compose_reach *reach, compose_least *out) {
    program programs[COMPOSE_PROGRAMS] = { 0 };
    uint32_t count;
    making m = { .run = r, .choice = c, .trunk = t, .reach = reach };
    plan p = { 0 };
    *out = (compose_least){ 0 };
    status result = make_programs(&m, programs, &count);
    if (result != STATUS_OK) return result;
    *out = (compose_least){ .peak_bytes = m.least, .given_up = m.given_up };
    if (m.given_up) return STATUS_OK;
    result = outline(&m, programs, count, true, &p, out);
    out->held_bytes = m.least;
    plan_close(&p);
    return result;
}
