#include "search/front.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/threads.h"

/* ---- many choices on all threads ---- */

/* Each looks at one point, on a trunk of its stem. */
typedef void point_body(const compose_run *r, const compose_reach *reach, compose_trunk *trunk,
                        search_point *x);

typedef struct {
    const compose_run *run;
    compose_reach reach; /* of outlines */
    point_body *body;
    search_point *points;
    uint32_t *list; /* which of them; those that share a stem are brought together */
    compose_stem *stems;
    uint32_t *stem_of; /* by place in the list */
    uint32_t *first;   /* by stem: the first place in the list that has it */
    uint32_t begin;    /* the first stem that is open */
    uint32_t end;      /* the first place whose stem is open no more */
    uint32_t batch;    /* as many points are looked at in a row by one thread, which grow from each other */
    compose_trunk *trunks; /* by thread */
    uint32_t planned;      /* how many points so far */
} visit;

static const compose_choice *choice_at(const visit *a, uint32_t place) {
    return &a->points[a->list[place]].choice;
}

static void open_stem(void *context, int64_t index, int thread) {
    (void)thread;
    const visit *a = context;
    compose_stem_open(a->run, choice_at(a, a->first[a->begin + index]), &a->stems[index]);
}

static void look_at(void *context, int64_t index, int thread) {
    const visit *a = context;
    compose_trunk *trunk = &a->trunks[thread];
    uint32_t from = a->first[a->begin] + (uint32_t)index * a->batch;
    for (uint32_t place = from; place < from + a->batch && place < a->end; place++) {
        const compose_stem *stem = &a->stems[a->stem_of[place] - a->begin];
        if (trunk->stem != stem) compose_trunk_close(trunk);
        trunk->stem = stem;
        a->body(a->run, &a->reach, trunk, &a->points[a->list[place]]);
    }
}

/* Numbers stems in the order in which they appear; mostly a point has that of the one before it. */
static uint32_t number_stems(const visit *a, uint32_t count) {
    uint32_t stems = 0;
    for (uint32_t i = 0; i < count; i++) {
        const compose_choice *x = choice_at(a, i);
        uint32_t s = i ? a->stem_of[i - 1] : 0;
        if (!i || !compose_same_stem(x, choice_at(a, a->first[s])))
            for (s = 0; s < stems && !compose_same_stem(x, choice_at(a, a->first[s]));) s++;
        if (s == stems) a->first[stems++] = i;
        a->stem_of[i] = s;
    }
    return stems;
}

/* A counting sort of the list by stem, which keeps the order within one. `room` has as many as the list. */
static void sort_by_stem(visit *a, uint32_t count, uint32_t stems, uint32_t *room) {
    uint32_t *next = a->first + 1; /* by stem; in the end that is where the one after it begins */
    memset(a->first, 0, (stems + 2u) * sizeof *a->first);
    for (uint32_t i = 0; i < count; i++) next[a->stem_of[i] + 1]++;
    for (uint32_t s = 0; s < stems; s++) next[s + 1] += next[s];
    memcpy(room, a->list, count * sizeof *room);
    for (uint32_t i = 0; i < count; i++) a->list[next[a->stem_of[i]]++] = room[i];
    for (uint32_t s = 0; s < stems; s++)
        for (uint32_t i = a->first[s]; i < a->first[s + 1]; i++) a->stem_of[i] = s;
}

/* Looks at all points of the stems from a->begin on that there are threads for. */
static void next_stems(visit *a, uint32_t stems) {
    enum { ROUNDS = 8, MOST_IN_A_ROW = 8 }; /* turns for each thread, so that they end together */
    uint32_t threads = (uint32_t)threads_count(), left = stems - a->begin;
    uint32_t open = left < threads ? left : threads, count = a->first[a->begin + open] - a->first[a->begin];
    a->end = a->first[a->begin + open];
    a->batch = count / (threads * ROUNDS);
    a->batch = a->batch < 1 ? 1 : a->batch > MOST_IN_A_ROW ? MOST_IN_A_ROW : a->batch;
    threads_for(open, open_stem, a);
    threads_for((count + a->batch - 1) / a->batch, look_at, a);
    for (uint32_t t = 0; t < threads; t++) compose_trunk_close(&a->trunks[t]);
    for (uint32_t s = 0; s < open; s++) compose_stem_close(&a->stems[s]);
    a->begin += open;
}

/* Calls the body for the listed points. As many stems are there at once as threads. */
static status for_points(visit *a, uint32_t count) {
    uint32_t most = (uint32_t)threads_count();
    a->stem_of = memory_new(count, sizeof *a->stem_of);
    a->first = memory_new(count + 2u, sizeof *a->first);
    a->stems = memory_new(most, sizeof *a->stems);
    a->trunks = memory_new(most, sizeof *a->trunks);
    uint32_t *room = memory_new(count, sizeof *room);
    bool enough = a->stem_of && a->first && a->stems && a->trunks && room;
    uint32_t stems = enough ? number_stems(a, count) : 0;
    if (enough) sort_by_stem(a, count, stems, room);
    for (a->begin = 0; enough && a->begin < stems;) next_stems(a, stems);
    memory_free(a->stem_of);
    memory_free(a->first);
    memory_free(a->stems);
    memory_free(a->trunks);
    memory_free(room);
    return enough ? STATUS_OK : status_set(STATUS_FAILED, "no memory to search");
}

static void plan_point(const compose_run *r, const compose_reach *reach, compose_trunk *trunk,
                       search_point *x) {
    plan p;
    (void)reach;
    x->peak_bytes = 0;
    if (compose_plan_on(r, &x->choice, trunk, &p) != STATUS_OK) return;
    compose_split split = compose_split_of(r, &x->choice);
    x->peak_bytes = p.peak_bytes;
    x->seconds = compose_seconds(&p, &split);
    plan_close(&p);
}

static void bound_point(const compose_run *r, const compose_reach *reach, compose_trunk *trunk,
                        search_point *x) {
    compose_least least;
    x->peak_bytes = 0;
    if (compose_bound(r, &x->choice, trunk, reach, &least) != STATUS_OK || least.given_up) return;
    x->peak_bytes = least.peak_bytes;
    x->seconds = least.seconds;
}

/* ---- which to plan ---- */

typedef enum { OUTLINED, CHOSEN, PLANNED, BEATEN } stage;

typedef struct {
    uint64_t peak_bytes;
    double seconds;
    pass_class class;
    uint32_t index;
    stage stage;
} entry;

static int compare_entries(const void *a, const void *b) {
    const entry *x = a, *y = b;
    if (x->peak_bytes != y->peak_bytes) return x->peak_bytes < y->peak_bytes ? -1 : 1;
    if (x->seconds != y->seconds) return x->seconds < y->seconds ? -1 : 1;
    if (x->class != y->class) return x->class < y->class ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

/* The front as far as is known, in order, as places in `entries`: bounds stand for peaks that are not
 * planned. What is planned on it before the first that is not is on the front for certain, for bounds only
 * rise. */
static uint32_t list_unbeaten(entry *entries, uint32_t count, uint32_t *list) {
    uint32_t listed = 0;
    bool planned = false;
    double least = 0, least_planned = 0; /* seconds so far */
    qsort(entries, count, sizeof *entries, compare_entries);
    for (uint32_t i = 0; i < count; i++) {
        entry *x = &entries[i];
        if (x->stage != BEATEN && planned && x->seconds >= least_planned) x->stage = BEATEN;
        if (x->stage == BEATEN || (listed && x->seconds >= least)) continue;
        list[listed++] = i;
        least = x->seconds;
        if (x->stage == PLANNED) planned = true, least_planned = x->seconds;
    }
    return listed;
}

/* Keeps of the listed entries those that are wished for. Once such a one is planned it stays: a leaner one,
 * or a faster one within the budget, would be so by its bound already. */
static uint32_t list_wished(const entry *entries, const search_wish *w, uint32_t *list, uint32_t listed) {
    uint32_t within = 0, slow = 0, kept = 0;
    if (!w) return listed;
    while (within < listed && entries[list[within]].peak_bytes <= w->budget) within++;
    while (slow < listed && entries[list[slow]].seconds > w->seconds) slow++;
    for (uint32_t i = 0; i < listed; i++) {
        bool fastest = i + 1 == within, leanest = i == 0 || i == slow;
        if (fastest || leanest || (!within && i < w->leanest)) list[kept++] = list[i];
    }
    return kept;
}

/* Lists the points of those entries that have to be planned. */
static uint32_t choose(entry *entries, const uint32_t *wished, uint32_t count, uint32_t *list) {
    uint32_t chosen = 0;
    for (uint32_t i = 0; i < count; i++) {
        entry *x = &entries[wished[i]];
        if (x->stage == PLANNED) continue;
        x->stage = CHOSEN;
        list[chosen++] = x->index;
    }
    return chosen;
}

/* What becomes the front. */
typedef struct {
    visit visit;
    const search_wish *wish;
    uint64_t limit;
    entry *entries;
    uint32_t *wished; /* places in `entries`, in order */
    uint32_t count, found;
} keeper;

/* Plans in rounds until what is wished for is planned; lists that at last. */
static status plan_rounds(keeper *k) {
    visit *a = &k->visit;
    uint32_t chosen;
    a->body = plan_point;
    for (;;) {
        k->found =
            list_wished(k->entries, k->wish, k->wished, list_unbeaten(k->entries, k->count, k->wished));
        if (!(chosen = choose(k->entries, k->wished, k->found, a->list))) return STATUS_OK;
        TRY(for_points(a, chosen));
        a->planned += chosen;
        for (uint32_t i = 0; i < k->count; i++) {
            entry *x = &k->entries[i];
            if (x->stage != CHOSEN) continue;
            x->peak_bytes = a->points[x->index].peak_bytes;
            x->stage = x->peak_bytes && x->peak_bytes <= k->limit ? PLANNED : BEATEN;
        }
    }
}

/* Moves the points of the listed entries to the front, in this order. */
static status gather(const keeper *k) {
    search_point *points = k->visit.points, *kept = memory_new(k->found, sizeof *kept);
    if (!kept) return status_set(STATUS_FAILED, "no memory to search");
    for (uint32_t i = 0; i < k->found; i++) kept[i] = points[k->entries[k->wished[i]].index];
    memcpy(points, kept, k->found * sizeof *kept);
    memory_free(kept);
    return STATUS_OK;
}

/* ---- both ---- */

/* Outlines the points from `from` to `end`, and makes entries of what is within the limit. */
static status outline(keeper *k, uint32_t from, uint32_t end) {
    visit *a = &k->visit;
    for (uint32_t i = from; i < end; i++) a->list[i - from] = i;
    a->body = bound_point;
    TRY(for_points(a, end - from));
    for (uint32_t i = from; i < end; i++) {
        const search_point *x = &a->points[i];
        if (x->peak_bytes && x->peak_bytes <= k->limit)
            k->entries[k->count++] = (entry){ x->peak_bytes, x->seconds, x->class, i, OUTLINED };
    }
    return STATUS_OK;
}

static const entry *found_at(const keeper *k, uint32_t i) { return &k->entries[k->wished[i]]; }

/* How many points from the leanest on are wished for, as far as is known. */
static uint32_t leanest_wished(const keeper *k) {
    bool fits = k->found && found_at(k, 0)->peak_bytes <= k->wish->budget;
    return fits || !k->wish->leanest ? 1 : k->wish->leanest;
}

/* What of the points that are not outlined yet can still be wished for, by those that are planned: what may
 * be leaner than all of the leanest, or within the budget and faster than the fastest there. False: all. */
static bool narrow(const keeper *k, compose_reach *reach) {
    const search_wish *w = k->wish;
    uint32_t leanest = leanest_wished(k);
    if (w->seconds > 0 || k->found < leanest) return false;
    *reach = (compose_reach){ found_at(k, leanest - 1)->peak_bytes, w->budget, HUGE_VAL };
    for (uint32_t i = 0; i < k->found && found_at(k, i)->peak_bytes <= w->budget; i++)
        reach->seconds = found_at(k, i)->seconds;
    if (reach->budget > k->limit) reach->budget = k->limit;
    return true;
}

/* Can nothing that was given up be wished for after all? It takes more than the reach. So it is none of the
 * leanest if there are enough that take no more; and it is none of the others, for these only get better. */
static bool is_final(const keeper *k) {
    uint32_t leanest = leanest_wished(k);
    return k->found >= leanest && found_at(k, leanest - 1)->peak_bytes <= k->visit.reach.peak_bytes;
}

/* The first stem's points are of the largest micro-batch, and show how far the others have to be looked at.
 */
static uint32_t of_first_stem(const search_point *points, uint32_t count) {
    uint32_t first = 1;
    while (first < count && compose_same_stem(&points[0].choice, &points[first].choice)) first++;
    return first < count ? first : count;
}

static status keep_from(keeper *k, uint32_t from, uint32_t end) {
    TRY(outline(k, from, end));
    return plan_rounds(k);
}

static status keep_wished(keeper *k, uint32_t count) {
    const compose_reach all = k->visit.reach;
    uint32_t first = k->wish ? of_first_stem(k->visit.points, count) : count;
    TRY(keep_from(k, 0, first));
    if (first == count) return STATUS_OK;
    bool narrowed = narrow(k, &k->visit.reach);
    TRY(keep_from(k, first, count));
    if (!narrowed || is_final(k)) return STATUS_OK;
    k->visit.reach = all;
    k->count = 0;
    return keep_from(k, 0, count);
}

status front_keep(const compose_run *r, uint64_t limit, const search_wish *w, search_point *points,
                  uint32_t *count, uint32_t *planned) {
    keeper k = { .wish = w, .limit = limit };
    k.visit = (visit){ .run = r, .reach = { limit, 0, 0 }, .points = points };
    k.visit.list = memory_new(*count, sizeof *k.visit.list);
    k.wished = memory_new(*count, sizeof *k.wished);
    k.entries = memory_new(*count, sizeof *k.entries);
    bool enough = k.visit.list && k.wished && k.entries;
    status result = enough ? keep_wished(&k, *count) : status_set(STATUS_FAILED, "no memory to search");
    if (result == STATUS_OK) result = gather(&k);
    if (result == STATUS_OK) *count = k.found;
    *planned = k.visit.planned;
    memory_free(k.visit.list);
    memory_free(k.wished);
    memory_free(k.entries);
    return result;
}

status front_plan(const compose_run *r, uint64_t limit, search_point *points, uint32_t count) {
    uint32_t *list = memory_new(count, sizeof *list), open = 0;
    visit a = { .run = r, .reach = { limit, 0, 0 }, .points = points, .list = list, .body = bound_point };
    status result = list ? STATUS_OK : status_set(STATUS_FAILED, "no memory to search");
    for (uint32_t i = 0; i < count && result == STATUS_OK; i++) list[i] = i;
    if (result == STATUS_OK && limit < UINT64_MAX) result = for_points(&a, count);
    for (uint32_t i = 0; i < count && result == STATUS_OK; i++)
        if (limit == UINT64_MAX || (points[i].peak_bytes && points[i].peak_bytes <= limit)) list[open++] = i;
    a.body = plan_point;
    if (result == STATUS_OK) result = for_points(&a, open);
    memory_free(list);
    return result;
}
