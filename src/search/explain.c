/* Explains a choice: what each technique contributes to it, and which other settings a technique offers. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "search/search.h"

status search_offers(const compose_run *r, const compose_choice *choice, int i, pass_setting *out,
                     uint32_t room, uint32_t *count) {
    graph g;
    pass_context c = compose_context(r, choice);
    pass_without without = PASS_OPTIONAL;
    uint64_t refused = memory_refused();
    *count = 0;
    status result = compose_graph(r, choice, pass_table[i]->stage, &g);
    if (result == STATUS_OK) *count = pass_table[i]->settings(&g, &c, out, room, &without);
    graph_close(&g);
    if (memory_refused() != refused)
        return status_set(STATUS_FAILED, "there is no memory to look for settings");
    if (*count == room)
        return status_set(STATUS_FAILED, "search: %s offers %u settings or more", pass_table[i]->name, room);
    return result == STATUS_FAILED ? result
                                   : STATUS_OK; /* else nothing is offered where nothing can be made */
}

/* The step before with the point's setting of pass i. Cutting the batch is done with the last pass. */
static search_point up_to(const search_point *before, const search_point *point, int i, int64_t whole) {
    search_point next = { .choice = before->choice };
    next.choice.settings[i] = point->choice.settings[i];
    bool split = pass_table[i + 1] == NULL && point->choice.micro_batch < whole;
    if (split) next.choice.micro_batch = point->choice.micro_batch;
    return next;
}

static search_share share_of(int i, const search_point *before, const search_point *after) {
    const pass_setting *s = &after->choice.settings[i];
    search_share share = { .class = s->class };
    snprintf(share.name, sizeof share.name, "%s", pass_table[i]->name);
    snprintf(share.setting, sizeof share.setting, "%s", s->text);
    if (after->peak_bytes &&
        before->peak_bytes) { /* else one of them cannot be planned: there is no change */
        share.bytes = (int64_t)after->peak_bytes - (int64_t)before->peak_bytes;
        share.seconds = after->seconds - before->seconds;
    }
    return share;
}

static void reverse(search_point *steps, uint32_t count) {
    for (uint32_t i = 0; i < count / 2; i++) {
        search_point x = steps[i];
        steps[i] = steps[count - 1 - i], steps[count - 1 - i] = x;
    }
}

/* Plans the steps. The first and the last are mostly plain and the point itself, which are planned already.
 * One is planned alone, before it is known how much memory that takes: the first, which has least to it. Of
 * the others those with the most techniques take longest, and begin first. */
static status plan_steps(const search_request *q, const search_point *plain, const search_point *point,
                         search_point *steps, uint32_t count) {
    uint32_t begin = 0, end = count;
    if (compose_same(&steps[0].choice, &plain->choice)) steps[begin++] = *plain;
    if (end > begin && compose_same(&steps[end - 1].choice, &point->choice)) steps[--end] = *point;
    uint32_t others = end > begin ? end - begin - 1 : 0;
    reverse(steps + begin + 1, others);
    status result = search_plan(&q->run, UINT64_MAX, steps + begin, end - begin);
    reverse(steps + begin + 1, others);
    return result;
}

status search_explain(const search_request *q, const search_point *plain, const search_point *point,
                      search_share *shares, uint32_t room, uint32_t *count) {
    int of[PASS_MAX];
    search_point *steps = memory_new(PASS_MAX + 1, sizeof *steps);
    *count = 0;
    if (!steps) return status_set(STATUS_FAILED, "no memory to search");
    steps[0].choice.micro_batch = compose_unit(&q->run);
    if (!q->run.training) steps[0].choice.micro_batch = point->choice.micro_batch; /* no technique's doing */
    for (int i = 0; pass_table[i] && *count < room; i++) {
        if (!point->choice.settings[i].text[0]) continue;
        steps[*count + 1] = up_to(&steps[*count], point, i, compose_unit(&q->run));
        of[(*count)++] = i;
    }
    status result = plan_steps(q, plain, point, steps, *count + 1);
    for (uint32_t k = 0; k < *count && result == STATUS_OK; k++)
        shares[k] = share_of(of[k], &steps[k], &steps[k + 1]);
    memory_free(steps);
    return result;
}

/* ---- what was allowed and is not there ---- */

enum { FEW_SETTINGS = 8 }; /* of a technique that needs something opened */

const char *search_why_name(search_why why) {
    static const char *const names[] = { [SEARCH_NO_SETTING] = "no setting",
                                         [SEARCH_NO_PLAN] = "no plan",
                                         [SEARCH_TOO_LARGE] = "above the budget",
                                         [SEARCH_NOT_FASTER] = "not faster" };
    return names[why];
}

static bool is_left_out(const search_request *q, const compose_choice *c, int i) {
    const pass *p = pass_table[i];
    return p->open && (q->run.training || !p->training_only) && q->pins[i].kind == SEARCH_AUTO &&
           q->lossy[i].given && q->allowed != PASS_EXACT && !c->settings[i].text[0];
}

static void say(search_decline *d, search_why why) {
    d->why = why;
    snprintf(d->said, sizeof d->said, "%s", status_message());
}

/* A pass that is to be opened says with its check why it has no setting. */
static void say_no_setting(const search_request *q, const search_point *point, search_decline *d) {
    const pass *p = pass_table[d->pass];
    pass_context c = compose_context(&q->run, &point->choice);
    graph g;
    if (compose_graph(&q->run, &point->choice, p->stage, &g) == STATUS_OK && p->check &&
        p->check(&g, &(pass_setting){ 0 }, &c) != STATUS_OK)
        say(d, SEARCH_NO_SETTING);
    graph_close(&g);
}

/* Such a plan could not be made: does a pass say why? */
static void say_no_plan(const search_request *q, const search_point *with, search_decline *d) {
    graph g;
    d->why = SEARCH_NO_PLAN;
    if (compose_graph(&q->run, &with->choice, PASS_STEP, &g) != STATUS_OK) say(d, SEARCH_NO_PLAN);
    graph_close(&g);
}

/* The fastest that fits, else the smallest. */
static const search_point *nearest_of(const search_point *points, uint32_t count, uint64_t budget) {
    const search_point *best = NULL;
    for (uint32_t i = 0; i < count; i++) {
        const search_point *x = &points[i];
        bool fits = x->peak_bytes <= budget;
        if (!x->peak_bytes) continue;
        if (!best || (fits && best->peak_bytes > budget) ||
            (fits ? x->seconds < best->seconds : x->peak_bytes < best->peak_bytes))
            best = x;
    }
    return best;
}

/* false: it would be a better choice, or there is nothing to say. */
static bool judge(const search_request *q, const search_point *point, uint64_t budget,
                  const search_point *with, uint32_t count, search_decline *d) {
    const search_point *best = nearest_of(with, count, budget);
    if (!best) {
        say_no_plan(q, &with[0], d);
        return true;
    }
    snprintf(d->setting, sizeof d->setting, "%s", best->choice.settings[d->pass].text);
    d->peak_bytes = best->peak_bytes, d->seconds = best->seconds;
    d->why = best->peak_bytes > budget ? SEARCH_TOO_LARGE : SEARCH_NOT_FASTER;
    return d->why == SEARCH_TOO_LARGE || best->seconds >= point->seconds;
}

static status decline_of(const search_request *q, const search_point *point, uint64_t budget, int i,
                         search_decline *d, bool *is) {
    pass_setting offered[FEW_SETTINGS];
    search_point with[FEW_SETTINGS] = { 0 };
    uint32_t count, kept = 0;
    const char *only = q->lossy[i].setting;
    *d = (search_decline){ .pass = i };
    TRY(search_offers(&q->run, &point->choice, i, offered, FEW_SETTINGS, &count));
    for (uint32_t k = 0; k < count; k++) {
        if (only[0] && strcmp(only, offered[k].text) != 0) continue;
        with[kept].choice = point->choice;
        with[kept++].choice.settings[i] = offered[k];
    }
    *is = true;
    if (!kept) {
        say_no_setting(q, point, d);
        return STATUS_OK;
    }
    TRY(search_plan(&q->run, UINT64_MAX, with, kept));
    *is = judge(q, point, budget, with, kept, d);
    return STATUS_OK;
}

status search_declined(const search_request *q, const search_point *point, uint64_t budget,
                       search_decline *out, uint32_t *count) {
    *count = 0;
    for (int i = 0; pass_table[i]; i++) {
        bool is;
        if (!is_left_out(q, &point->choice, i)) continue;
        TRY(decline_of(q, point, budget, i, &out[*count], &is));
        *count += is;
    }
    return STATUS_OK;
}
