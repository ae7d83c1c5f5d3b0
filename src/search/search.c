#include "search/search.h"

#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "chain/known.h"
#include "search/front.h"
#include "search/points.h"
#include "search/unbound.h"

status search_plan(const compose_run *r, uint64_t limit, search_point *points, uint32_t count) {
    return points_plan(r, limit, points, count);
}

static status plan_plain(const search_request *q, search_point *plain) {
    *plain = (search_point){ .choice = { .micro_batch = compose_unit(&q->run) } };
    return search_plan(&q->run, UINT64_MAX, plain, 1);
}

/* No candidate could be planned: the sentence is that of the first. */
static status explain_nothing(const compose_run *r, const space *s) {
    space_code first = { 0 };
    compose_choice choice = space_choice(s, &first);
    plan p;
    TRY(compose_plan(r, &choice, &p));
    plan_close(&p);
    return status_set(STATUS_FAILED, "no candidate could be planned for want of memory");
}

/* The part of the space that takes no more than `limit`, which limits planning too, but of a device apart. */
static status find_within(const search_request *q, const space *s, uint64_t limit, const search_wish *w,
                          search_front *front) {
    compose_run run = q->run;
    run.room = q->run.memory; /* beyond that one candidate at a time, and no more than it takes to refuse */
    if (limit == UINT64_MAX)
        run.memory = 0;
    else if (!compose_apart(&run) && (!run.memory || limit > run.memory))
        run.memory = limit;
    search_close(front);
    TRY(front_find(&run, s, limit, w, front));
    return front->count || limit < UINT64_MAX ? STATUS_OK : explain_nothing(&run, s);
}

/* The limit after this one. Limits that would leave nothing either are passed over. */
static uint64_t next_limit(uint64_t limit, uint64_t last, const search_front *front) {
    do {
        limit += limit / 2 + (1u << 20);
        if (limit > last / 2) return last; /* and no overflow */
    } while (limit < front->above);
    return limit;
}

/* Within the first limit, and where nothing is, within half as much again and so on up to `last`: so what is
 * refused takes hardly more memory than what it needs. */
static status search_knowing(const search_request *q, uint64_t first, uint64_t last, const search_wish *w,
                             search_front *front) {
    double begin = clock_seconds();
    space s;
    *front = (search_front){ 0 };
    status result = space_open(q, &s);
    memory_trim();
    for (uint64_t limit = first > last / 2 ? last : first; result == STATUS_OK;
         limit = next_limit(limit, last, front)) {
        result = find_within(q, &s, limit, w, front);
        if (front->count || limit == last) break;
    }
    space_close(&s);
    memory_trim();
    if (result != STATUS_OK) search_close(front);
    front->elapsed = clock_seconds() - begin;
    return result;
}

/* Where the caller keeps nothing for other searches, this one keeps what it has found for itself. */
static status search_up_to(const search_request *q, uint64_t first, uint64_t last, const search_wish *w,
                           search_front *front) {
    *front = (search_front){ 0 };
    if (q->run.known) return search_knowing(q, first, last, w, front);
    search_request *knowing = memory_new(1, sizeof *knowing);
    compose_known known;
    if (!knowing) return status_set(STATUS_FAILED, "no memory to search");
    *knowing = *q;
    known_open(&known, &knowing->run);
    status result = search_knowing(knowing, first, last, w, front);
    known_close(&known);
    memory_free(knowing);
    return result;
}

status search_within(const search_request *q, uint64_t limit, const search_wish *w, search_front *front) {
    return search_up_to(q, limit, limit, w, front);
}

status search_run(const search_request *q, const search_wish *w, search_front *front) {
    double begin = clock_seconds();
    bool budgeted = w && w->budget && w->budget < UINT64_MAX;
    search_point plain = { 0 };
    *front = (search_front){ 0 };
    if (!w || w->plain) TRY(plan_plain(q, &plain));
    if (budgeted) TRY(unbound_find(q, w, &plain, front));
    if (!front->count) TRY(search_up_to(q, budgeted ? w->budget : UINT64_MAX, UINT64_MAX, w, front));
    front->plain = plain;
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
