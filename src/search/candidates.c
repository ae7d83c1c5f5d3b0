#include "search/candidates.h"

#include <math.h>

#include "base/memory.h"

candidates candidates_none(const compose_run *r, const space *s, uint64_t limit) {
    return (candidates){ .run = r,
                         .space = s,
                         .limit = limit,
                         .above = UINT64_MAX,
                         .reach = { .peak_bytes = UINT64_MAX, .budget = UINT64_MAX, .seconds = HUGE_VAL },
                         .memory = visit_memory_none,
                         .sketches = sketch_possible(r) };
}

void candidates_close(candidates *c) {
    memory_free(c->items);
    c->items = NULL;
}

bool candidates_in_reach(const candidates *c, const candidate *x) {
    const compose_reach *r = &c->reach;
    if (!x->peak_bytes || x->peak_bytes > c->limit) return false;
    if (c->run->away_limit && x->away_bytes > c->run->away_limit) return false;
    return x->peak_bytes <= r->peak_bytes || (x->peak_bytes <= r->budget && x->seconds <= r->seconds);
}

status candidates_add(candidates *c, const candidate *x) {
    if (!candidates_in_reach(c, x)) return STATUS_OK;
    if (c->count == c->room) {
        uint32_t room = c->room ? 2 * c->room : 512;
        candidate *more = memory_resize(c->items, room, sizeof *more);
        if (!more) return status_set(STATUS_FAILED, "no memory to search");
        c->items = more, c->room = room;
    }
    c->items[c->count++] = *x;
    return STATUS_OK;
}

void candidates_drop(candidates *c) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < c->count; i++)
        if (candidates_in_reach(c, &c->items[i])) c->items[kept++] = c->items[i];
    c->count = kept;
}

double candidates_seconds(const compose_least *x) {
    static const double SLACK = 0.9995;
    return x->unwaited ? SLACK * x->seconds : x->seconds;
}

compose_reach candidates_reach(const candidates *c, bool planning_only) {
    const compose_reach *r = &c->reach;
    return (compose_reach){ .peak_bytes = r->peak_bytes < c->limit ? r->peak_bytes : c->limit,
                            .budget = r->budget < c->limit ? r->budget : c->limit,
                            .seconds = planning_only ? HUGE_VAL : r->seconds,
                            .planning_only = planning_only };
}
