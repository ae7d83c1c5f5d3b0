#include "run/decision.h"

#include "base/memory.h"
#include "base/units.h"
#include "device/device_file.h"

static status not_within(const setup *s, decision *d) {
    advise_run(&s->request, s->budget, d->advice);
    char budget[UNITS_TEXT_BYTES], least[UNITS_TEXT_BYTES], more[UNITS_TEXT_BYTES];
    uint64_t needed = search_least(&d->front);
    return status_set(STATUS_NO_FIT, "%s does not fit %s: the least budget is %s (%llu bytes), %s more%s%s",
                      s->model.name, units_bytes_text(s->budget, budget), units_bytes_text(needed, least),
                      (unsigned long long)needed, units_bytes_text(needed - s->budget, more),
                      d->advice[0] ? "; it would fit with " : "", d->advice);
}

status decision_make(const setup *s, decision *d) {
    *d = (decision){ .budget = s->budget };
    const search_wish needed = { .budget = s->budget, .plain = true };
    TRY(search_run(&s->request, &needed, &d->front));
    const search_point *point = search_pick(&d->front, s->budget);
    bool fits = point != NULL;
    d->point = fits ? *point : d->front.points[0]; /* what comes closest, for the report */
    d->split = compose_split_of(&s->request.run, &d->point.choice);
    TRY(search_explain(&s->request, &d->front.plain, &d->point, d->shares, PASS_MAX, &d->share_count));
    TRY(compose_plan(&s->request.run, &d->point.choice, &d->plan));
    memory_trim();
    const compose_run *r = &s->request.run;
    uint64_t held = d->front.held_bytes, most = !compose_apart(r) ? s->budget
                                                : r->away_limit   ? r->away_limit
                                                                  : UINT64_MAX;
    plan_hold(&d->plan, held < most ? held : most);
    if (!fits) return not_within(s, d);
    return plan_file_bytes(&d->plan) ? device_file_check(d->plan.folder, plan_file_bytes(&d->plan))
                                     : STATUS_OK;
}

void decision_close(decision *d) {
    search_close(&d->front);
    plan_close(&d->plan);
}
