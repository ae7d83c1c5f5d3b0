#include "estimate/recorded/plan_ladder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

typedef struct {
    double bytes, seconds;
    uint32_t module, step;
} increment;

typedef struct {
    const plan_tree *t;
    plan_ladder *out;
    int may;
    double largest;
    uint32_t *first, *next; /* the modules directly within each, as lists in order; 0 ends */
    increment *increments;
    plan_point *points;
    uint32_t increment_room, point_room;
    double kept; /* points of all hulls */
} climbing;

/* Points of all hulls together; a model of 405 billion weights has some 10,000. */
static const double most_points = 4e6;

/* Seconds a byte, then order. Bytes are above 0. */
static int by_price(const void *a, const void *b) {
    const increment *x = a, *y = b;
    double left = x->seconds * y->bytes, right = y->seconds * x->bytes;
    if (left < right || left > right) return left < right ? -1 : 1;
    if (x->module != y->module) return x->module < y->module ? -1 : 1;
    return x->step < y->step ? -1 : x->step > y->step;
}

static int by_bytes(const void *a, const void *b) {
    const plan_point *x = a, *y = b;
    if (x->bytes < y->bytes || x->bytes > y->bytes) return x->bytes < y->bytes ? -1 : 1;
    return x->seconds < y->seconds ? -1 : x->seconds > y->seconds;
}

/* True: there is room for so many. */
static bool grow(void **block, uint32_t *room, uint32_t count, size_t each) {
    if (count <= *room) return true;
    uint32_t more = count + count / 2 + 16;
    void *grown = memory_resize(*block, more, each);
    if (!grown) return false;
    *block = grown, *room = more;
    return true;
}

/* The increments of all modules directly within, in order. Of one module they come in its own order, since a
 * hull's prices rise. */
static bool gather(climbing *c, uint32_t module, uint32_t *count) {
    *count = 0;
    for (uint32_t m = c->first[module]; m; m = c->next[m]) {
        const plan_hull *h = &c->out->of[m];
        if (!grow((void **)&c->increments, &c->increment_room, *count + h->count, sizeof *c->increments))
            return false;
        for (uint32_t i = 1; i < h->count; i++)
            c->increments[(*count)++] = (increment){ h->points[i].bytes - h->points[i - 1].bytes,
                                                     h->points[i].seconds - h->points[i - 1].seconds, m, i };
    }
    if (*count) qsort(c->increments, *count, sizeof *c->increments, by_price);
    return true;
}

static void offer(climbing *c, uint32_t *count, const plan_cost *cost, plan_action action, uint64_t keeps) {
    bool whole = action == PLAN_AGAIN && cost->bytes > c->largest;
    if (cost->may && cost->bytes > 0 && !whole)
        c->points[(*count)++] =
            (plan_point){ .bytes = cost->bytes, .seconds = cost->seconds, .action = action, .keeps = keeps };
}

/* Kinds that stay or are computed again together. */
typedef struct {
    double bytes, seconds;
    uint64_t kinds;
} together;

/* Seconds a byte, the most first. */
static int by_worth(const void *a, const void *b) {
    const together *x = a, *y = b;
    double left = x->seconds * y->bytes, right = y->seconds * x->bytes;
    if (left < right || left > right) return left > right ? -1 : 1;
    return x->kinds < y->kinds ? -1 : x->kinds > y->kinds;
}

/* What draws random numbers and stays is not drawn again, and what comes behind it would be others than
 * forward drew: so all that draws in a module stays, or nothing does. */
static uint32_t list_kinds(const plan_tree *t, uint32_t module, together *out) {
    uint64_t draws = t->draws[module], may = t->keeps[module];
    uint32_t count = 0, drawing = RECORDED_MOST_KINDS;
    if (draws & ~may) may &= ~draws;
    for (uint32_t k = 0; k < t->kinds.count; k++) {
        const plan_result *x = &t->results[(size_t)module * t->kinds.count + k];
        uint64_t bit = recorded_kind_bit(k + 1);
        /* casts are soon made again, and code and autocast make some that rules can't know */
        if (strcmp(t->kinds.name[k], "_to_copy") == 0) continue;
        if (!(may & bit) || !(x->seconds > 0 || draws & bit)) continue;
        bool joins = draws & bit && drawing < RECORDED_MOST_KINDS;
        together *one = &out[joins ? drawing : count];
        if (!joins) *one = (together){ 0 };
        one->bytes += x->bytes, one->seconds += x->seconds, one->kinds |= bit;
        if (draws & bit && !joins) drawing = count;
        count += !joins;
    }
    return count;
}

/* The module computed again, with results of more and more kinds that stay: of each byte those first that
 * take longest to compute. */
static void offer_again(climbing *c, uint32_t *count, uint32_t module) {
    together kinds[RECORDED_MOST_KINDS];
    uint64_t keeps = 0;
    offer(c, count, &c->t->again[module], PLAN_AGAIN, 0);
    if (!(c->may & PLAN_MAY_RESULTS) || !c->t->results || !c->t->again[module].may) return;
    uint32_t listed = list_kinds(c->t, module, kinds);
    if (listed) qsort(kinds, listed, sizeof *kinds, by_worth);
    for (uint32_t i = 0; i < listed; i++) {
        keeps |= kinds[i].kinds;
        plan_cost cost = plan_tree_again(c->t, module, keeps);
        offer(c, count, &cost, PLAN_AGAIN, keeps);
    }
}

/* Is b above the line from a to c? Points of equal modules lie on it, and stay. */
static bool is_above(const plan_point *a, const plan_point *b, const plan_point *c) {
    double left = (b->seconds - a->seconds) * (c->bytes - a->bytes),
           right = (c->seconds - a->seconds) * (b->bytes - a->bytes);
    return left > right + 1e-9 * fabs(right);
}

/* Keeps the lower hull of points in order of bytes, from the first on; more bytes in less time go before. */
static uint32_t keep_hull(plan_point *p, uint32_t count) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        while (kept && p[kept - 1].seconds >= p[i].seconds && p[kept - 1].bytes > 0) kept--;
        if (kept && !(p[i].bytes > p[kept - 1].bytes)) continue;
        while (kept >= 2 && is_above(&p[kept - 2], &p[kept - 1], &p[i])) kept--;
        p[kept++] = p[i];
    }
    return kept;
}

static bool climb(climbing *c, uint32_t module) {
    plan_hull *h = &c->out->of[module];
    uint32_t steps, count = 0;
    if (!gather(c, module, &steps) ||
        !grow((void **)&c->points, &c->point_room, steps + 3 + RECORDED_MOST_KINDS, sizeof *c->points))
        return false;
    c->points[count++] = (plan_point){ 0 };
    h->order = memory_new((size_t)steps + 1, sizeof *h->order);
    if (!h->order) return false;
    c->kept += steps;
    for (uint32_t i = 0; i < steps; i++) {
        const plan_point *before = &c->points[count - 1];
        h->order[i] = c->increments[i].module;
        c->points[count] = (plan_point){ .bytes = before->bytes + c->increments[i].bytes,
                                         .seconds = before->seconds + c->increments[i].seconds,
                                         .steps = i + 1 };
        count++;
    }
    if (c->may & PLAN_MAY_AGAIN) offer_again(c, &count, module);
    if (c->may & PLAN_MAY_AWAY) offer(c, &count, &c->t->away[module], PLAN_AWAY, 0);
    if (count > steps + 1) { /* else they are a hull */
        qsort(c->points, count, sizeof *c->points, by_bytes);
        count = keep_hull(c->points, count);
    }
    h->count = count;
    h->points = memory_new(h->count, sizeof *h->points);
    if (!h->points) return false;
    memcpy(h->points, c->points, h->count * sizeof *h->points);
    return true;
}

status plan_ladder_find(const plan_tree *t, int may, double largest, plan_ladder *l) {
    uint32_t modules = t->recording->modules.count;
    *l = (plan_ladder){ .t = t, .of = memory_new((size_t)modules + 1, sizeof *l->of) };
    climbing c = { .t = t, .out = l, .may = may, .largest = largest };
    c.first = memory_new((size_t)modules + 1, sizeof *c.first);
    c.next = memory_new((size_t)modules + 1, sizeof *c.next);
    bool made = l->of && c.first && c.next;
    for (uint32_t m = modules - 1; made && m > 0; m--)
        c.next[m] = c.first[t->parent[m]], c.first[t->parent[m]] = m;
    for (uint32_t m = modules; made && m-- > 0 && c.kept <= most_points;) made = climb(&c, m);
    memory_free(c.first);
    memory_free(c.next);
    memory_free(c.increments);
    memory_free(c.points);
    if (c.kept > most_points)
        return status_set(STATUS_INVALID, "%s has more modules within modules than can be planned",
                          t->recording->model);
    return made ? STATUS_OK : status_set(STATUS_FAILED, "no memory to plan");
}

status plan_ladder_rung(const plan_ladder *l, uint32_t rung, uint8_t *action, uint64_t *keeps) {
    uint32_t modules = l->t->recording->modules.count;
    uint32_t *point = memory_new((size_t)modules + 1, sizeof *point); /* by module: which of its points */
    if (!point) return status_set(STATUS_FAILED, "no memory to plan");
    point[0] = rung;
    for (uint32_t m = 0; m < modules; m++) {
        const plan_point *p = &l->of[m].points[point[m]];
        action[m] = (uint8_t)p->action, keeps[m] = p->keeps;
        for (uint32_t i = 0; i < p->steps; i++) point[l->of[m].order[i]]++;
    }
    memory_free(point);
    return STATUS_OK;
}

void plan_ladder_close(plan_ladder *l) {
    for (uint32_t m = 0; l->of && m < l->t->recording->modules.count; m++) {
        memory_free(l->of[m].points);
        memory_free(l->of[m].order);
    }
    memory_free(l->of);
    *l = (plan_ladder){ 0 };
}
