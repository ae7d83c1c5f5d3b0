/* Explains a choice: what each technique contributes to it, and which other settings a technique offers. */
#include <stdio.h>

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

/* Plans the steps. The first and the last are mostly plain and the point itself, which are planned already.
 */
static status plan_steps(const search_request *q, const search_point *plain, const search_point *point,
                         search_point *steps, uint32_t count) {
    uint32_t begin = 0, end = count;
    if (compose_same(&steps[0].choice, &plain->choice)) steps[begin++] = *plain;
    if (end > begin && compose_same(&steps[end - 1].choice, &point->choice)) steps[--end] = *point;
    return search_plan(&q->run, UINT64_MAX, steps + begin, end - begin);
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
