#include "search/search.h"

#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "search/candidates.h"
#include "search/front.h"

void search_plan(const compose_run *r, uint64_t limit, search_point *points, uint32_t count) {
    if (front_plan(r, limit, points, count) == STATUS_OK) return;
    for (uint32_t i = 0; i < count; i++) points[i].peak_bytes = 0;
}

static void plan_plain(const search_request *q, search_point *plain) {
    *plain = (search_point){ .choice = { .micro_batch = q->run.batch } };
    search_plan(&q->run, UINT64_MAX, plain, 1);
}

/* Keeps the front, front->count of them; when no candidate can be planned, the first says why. */
static status keep_front(const compose_run *r, uint64_t limit, const search_wish *w, candidates *c,
                         search_front *front) {
    compose_choice first = c->points[0].choice;
    front->count = c->count;
    TRY(front_keep(r, limit, w, c->points, &front->count, &front->planned));
    if (front->count || limit < UINT64_MAX) return STATUS_OK;
    plan p;
    TRY(compose_plan(r, &first, &p));
    plan_close(&p);
    return status_set(STATUS_FAILED, "no candidate could be planned for want of memory");
}

static status copy_front(const candidates *c, search_front *front) {
    front->points = memory_new(front->count, sizeof *c->points);
    if (!front->points) return status_set(STATUS_FAILED, "no memory to search");
    if (front->count) memcpy(front->points, c->points, front->count * sizeof *c->points);
    return STATUS_OK;
}

status search_within(const search_request *q, uint64_t limit, const search_wish *w, search_front *front) {
    double begin = clock_seconds();
    candidates c;
    *front = (search_front){ 0 };
    status result = candidates_list(q, &c);
    front->candidates = c.count;
    if (result == STATUS_OK) result = keep_front(&q->run, limit, w, &c, front);
    if (result == STATUS_OK) result = copy_front(&c, front);
    front->elapsed = clock_seconds() - begin;
    candidates_close(&c);
    return result;
}

status search_run(const search_request *q, const search_wish *w, search_front *front) {
    double begin = clock_seconds();
    TRY(search_within(q, UINT64_MAX, w, front));
    if (!w || w->plain) plan_plain(q, &front->plain);
    memory_trim();
    front->elapsed = clock_seconds() - begin;
    return STATUS_OK;
}

void search_close(search_front *front) {
    memory_free(front->points);
    *front = (search_front){ 0 };
}

const search_point *search_pick(const search_front *front, uint64_t budget) {
    const search_point *best = NULL;
    for (uint32_t i = 0; i < front->count && front->points[i].peak_bytes <= budget; i++)
        best = &front->points[i];
    return best;
}
