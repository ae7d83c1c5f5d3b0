#include "run/decision.h"

#include "base/memory.h"
#include "base/units.h"
#include "chain/known.h"
#include "device/device_file.h"

static status not_within(const setup *s, const search_request *q, decision *d) {
    advise_run(q, s->budget, d->advice);
    char budget[UNITS_TEXT_BYTES], least[UNITS_TEXT_BYTES], more[UNITS_TEXT_BYTES];
    uint64_t needed = search_least(&d->front);
    return status_set(STATUS_NO_FIT, "%s does not fit %s: the least budget is %s (%llu bytes), %s more%s%s",
                      s->model.name, units_bytes_text(s->budget, budget), units_bytes_text(needed, least),
                      (unsigned long long)needed, units_bytes_text(needed - s->budget, more),
                      d->advice[0] ? "; it would fit with " : "", d->advice);
}

/* The part of its budget that the host's memory has for planning. */
static uint64_t most_held(const setup *s) {
    const compose_run *r = &s->request.run;
    return !compose_apart(r) ? s->budget : r->away_limit ? r->away_limit : UINT64_MAX;
}

static status plan_point(const setup *s, decision *d) {
    TRY(compose_plan(&s->request.run, &d->point.choice, &d->plan));
    memory_trim();
    plan_hold(&d->plan, d->held_bytes);
    return STATUS_OK;
}

static status check_file(const plan *p) {
    return plan_file_bytes(p) ? device_file_check(p->folder, plan_file_bytes(p)) : STATUS_OK;
}

static status decide(const setup *s, const search_request *q, decision *d) {
    const search_wish needed = { .budget = s->budget, .plain = true };
    TRY(search_run(q, &needed, &d->front));
    const uint64_t kept = known_bytes(&q->run);
    const search_point *point = search_pick(&d->front, s->budget);
    bool fits = point != NULL;
    d->point = fits ? *point : d->front.points[0]; /* what comes closest, for the report */
    d->split = compose_split_of(&q->run, &d->point.choice);
    TRY(search_explain(q, &d->front.plain, &d->point, d->shares, PASS_MAX, &d->share_count));
    TRY(search_declined(q, &d->point, s->budget, d->declined, &d->declined_count));
    d->held_bytes = d->front.held_bytes + known_bytes(&q->run) - kept;
    if (d->held_bytes > most_held(s)) d->held_bytes = most_held(s);
    TRY(plan_point(s, d));
    return fits ? check_file(&d->plan) : not_within(s, q, d);
}

/* What the search finds of candidates is kept for what explains, and what looks for a way to fit. */
status decision_make(const setup *s, decision *d) {
    *d = (decision){ .budget = s->budget };
    search_request *q = memory_new(1, sizeof *q);
    compose_known known;
    if (!q) return status_set(STATUS_FAILED, "no memory to search");
    *q = s->request;
    known_open(&known, &q->run);
    status result = decide(s, q, d);
    known_close(&known);
    memory_free(q);
    return result;
}

status decision_follow(const setup *s, const search_point *point, uint64_t held_bytes, decision *d) {
    *d = (decision){ .budget = s->budget, .point = *point, .held_bytes = held_bytes };
    d->split = compose_split_of(&s->request.run, &d->point.choice);
    TRY(plan_point(s, d));
    return check_file(&d->plan);
}

void decision_close(decision *d) {
    search_close(&d->front);
    plan_close(&d->plan);
}
