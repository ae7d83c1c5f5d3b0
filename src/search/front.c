#include "search/front.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/threads.h"

/* ---- many choices on all threads ---- */

/* Each looks at one point on a stem that is there. */
typedef void point_body(const compose_run *r, uint64_t limit, const compose_stem *stem, search_point *x);

typedef struct {
    const compose_run *run;
    uint64_t limit;
    point_body *body;
    search_point *points;
    const uint32_t *list; /* which of them */
    compose_stem *stems;
    const uint32_t *stem_of; /* by place in the list */
    const uint32_t *first;   /* by stem: the first place in the list that has it */
} round;

static void open_stem(void *context, int64_t index, int thread) {
    (void)thread;
    const round *a = context;
    compose_stem_open(a->run, &a->points[a->list[a->first[index]]].choice, &a->stems[index]);
}

static void look_at(void *context, int64_t index, int thread) {
    (void)thread;
    const round *a = context;
    a->body(a->run, a->limit, &a->stems[a->stem_of[index]], &a->points[a->list[index]]);
}

/* Calls the body for the listed points. Neighbours share their stem; as many stems are there at once as
 * threads. */
static status for_points(const round *what, uint32_t count) {
    uint32_t most = (uint32_t)threads_count();
    round a = *what;
    uint32_t *stem_of = memory_new(count, sizeof *stem_of), *first = memory_new(most, sizeof *first);
    a.stems = memory_new(most, sizeof *a.stems);
    a.stem_of = stem_of, a.first = first;
    bool enough = stem_of && first && a.stems;
    for (uint32_t begin = 0, end; enough && begin < count; begin = end) {
        uint32_t stems = 0;
        a.list = what->list + begin;
        for (end = begin; end < count; end++) {
            const compose_choice *x = &a.points[what->list[end]].choice;
            bool same = end > begin && compose_same_stem(x, &a.points[what->list[end - 1]].choice);
            if (!same && stems == most) break;
            if (!same) first[stems++] = end - begin;
            stem_of[end - begin] = stems - 1;
        }
        threads_for(stems, open_stem, &a);
        threads_for(end - begin, look_at, &a);
        for (uint32_t s = 0; s < stems; s++) compose_stem_close(&a.stems[s]);
    }
    memory_free(stem_of);
    memory_free(first);
    memory_free(a.stems);
    return enough ? STATUS_OK : status_set(STATUS_FAILED, "no memory to search");
}

static void plan_point(const compose_run *r, uint64_t limit, const compose_stem *stem, search_point *x) {
    plan p;
    (void)limit;
    x->peak_bytes = 0;
    if (compose_plan_on(r, &x->choice, stem, &p) != STATUS_OK) return;
    compose_split split = compose_split_of(r, &x->choice);
    x->peak_bytes = p.peak_bytes;
    x->seconds = compose_seconds(&p, &split);
    plan_close(&p);
}

static void bound_point(const compose_run *r, uint64_t limit, const compose_stem *stem, search_point *x) {
    compose_least least;
    x->peak_bytes = 0;
    if (compose_bound(r, &x->choice, stem, limit, &least) != STATUS_OK) return;
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

/* Sorts, sets aside what a planned entry beats, and lists those that are to be planned: what nothing beats,
 * if it keeps what it promises. */
static uint32_t next_round(entry *entries, uint32_t count, uint32_t *list) {
    uint32_t listed = 0;
    bool any = false, planned = false;
    double least = 0, least_planned = 0; /* seconds so far */
    qsort(entries, count, sizeof *entries, compare_entries);
    for (uint32_t i = 0; i < count; i++) {
        entry *x = &entries[i];
        if (x->stage == BEATEN) continue;
        if (planned && x->seconds >= least_planned) {
            x->stage = BEATEN;
            continue;
        }
        if (any && x->seconds >= least) continue;
        any = true, least = x->seconds;
        if (x->stage == PLANNED)
            planned = true, least_planned = x->seconds;
        else
            x->stage = CHOSEN, list[listed++] = x->index;
    }
    return listed;
}

static int compare_indices(const void *a, const void *b) {
    const uint32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Plans in rounds until what nothing beats is planned. */
static status plan_rounds(round *a, entry *entries, uint32_t count, uint32_t *list) {
    uint32_t listed;
    a->body = plan_point;
    while ((listed = next_round(entries, count, list))) {
        qsort(list, listed, sizeof *list, compare_indices); /* neighbours share their stems */
        TRY(for_points(a, listed));
        for (uint32_t i = 0; i < count; i++) {
            entry *x = &entries[i];
            if (x->stage != CHOSEN) continue;
            x->peak_bytes = a->points[x->index].peak_bytes;
            x->stage = x->peak_bytes && x->peak_bytes <= a->limit ? PLANNED : BEATEN;
        }
    }
    return STATUS_OK;
}

/* Moves the points of planned entries to the front, in the entries' order. */
static status gather(const entry *entries, uint32_t *count, search_point *points) {
    search_point *kept = memory_new(*count, sizeof *kept);
    uint32_t n = 0;
    if (!kept) return status_set(STATUS_FAILED, "no memory to search");
    for (uint32_t i = 0; i < *count; i++)
        if (entries[i].stage == PLANNED) kept[n++] = points[entries[i].index];
    memcpy(points, kept, n * sizeof *kept);
    memory_free(kept);
    *count = n;
    return STATUS_OK;
}

/* ---- both ---- */

static status outline_all(round *a, uint32_t count, uint32_t *list) {
    for (uint32_t i = 0; i < count; i++) list[i] = i;
    a->body = bound_point;
    return for_points(a, count);
}

status front_keep(const compose_run *r, uint64_t limit, search_point *points, uint32_t *count) {
    uint32_t *list = memory_new(*count, sizeof *list), open = 0;
    entry *entries = memory_new(*count, sizeof *entries);
    round a = { .run = r, .limit = limit, .points = points, .list = list };
    status result =
        list && entries ? outline_all(&a, *count, list) : status_set(STATUS_FAILED, "no memory to search");
    for (uint32_t i = 0; i < *count && result == STATUS_OK; i++) {
        const search_point *x = &points[i];
        if (x->peak_bytes && x->peak_bytes <= limit)
            entries[open++] = (entry){ x->peak_bytes, x->seconds, x->class, i, OUTLINED };
    }
    if (result == STATUS_OK) result = plan_rounds(&a, entries, open, list);
    if (result == STATUS_OK) *count = open, result = gather(entries, count, points);
    memory_free(list);
    memory_free(entries);
    return result;
}

status front_plan(const compose_run *r, uint64_t limit, search_point *points, uint32_t count) {
    uint32_t *list = memory_new(count, sizeof *list), open = 0;
    round a = { .run = r, .limit = limit, .points = points, .list = list };
    status result = list ? STATUS_OK : status_set(STATUS_FAILED, "no memory to search");
    if (result == STATUS_OK && limit < UINT64_MAX) result = outline_all(&a, count, list);
    for (uint32_t i = 0; i < count && result == STATUS_OK; i++)
        if (limit == UINT64_MAX || (points[i].peak_bytes && points[i].peak_bytes <= limit)) list[open++] = i;
    a.body = plan_point;
    if (result == STATUS_OK) result = for_points(&a, open);
    memory_free(list);
    return result;
}
