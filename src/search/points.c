#include "search/points.h"

#include "base/memory.h"
#include "search/visit.h"

typedef struct {
    search_point *points;
    const uint32_t *order;
} given;

static void point_choice(const void *context, uint32_t index, compose_choice *out) {
    const given *g = context;
    *out = g->points[g->order[index]].choice;
}

static void point_take(void *context, uint32_t index, const compose_least *found) {
    const given *g = context;
    g->points[g->order[index]].peak_bytes = found->peak_bytes;
    g->points[g->order[index]].away_bytes = found->away_bytes;
    g->points[g->order[index]].seconds = found->seconds;
}

/* Points of one stem become neighbours; else their order stays. */
static void order_by_stem(const search_point *points, uint32_t count, uint32_t *order) {
    uint32_t listed = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = listed++;
        for (uint32_t k = at; k-- > 0;)
            if (compose_same_stem(&points[order[k]].choice, &points[i].choice)) {
                for (uint32_t m = at; m > k + 1; m--) order[m] = order[m - 1];
                at = k + 1;
                break;
            }
        order[at] = i;
    }
}

status points_plan(const compose_run *r, uint64_t limit, search_point *points, uint32_t count) {
    uint32_t *order = memory_room(count, sizeof *order), kept = 0;
    if (!order) return status_set(STATUS_FAILED, "no memory to search");
    order_by_stem(points, count, order);
    given g = { points, order };
    visit_memory memory = visit_memory_none;
    visit v = { .run = r,
                .memory = &memory,
                .reach = { .peak_bytes = limit },
                .context = &g,
                .choice = point_choice,
                .take = point_take };
    status result = STATUS_OK;
    if (limit < UINT64_MAX) {
        result = visit_all(&v, count);
        for (uint32_t i = 0; i < count; i++) {
            const search_point *x = &points[order[i]];
            if (x->peak_bytes && x->peak_bytes <= limit) order[kept++] = order[i];
        }
    } else {
        kept = count;
    }
    v.plan = true;
    if (result == STATUS_OK) result = visit_all(&v, kept);
    memory_free(order);
    return result;
}
