#include "snapshot/steps.h"

#include <stdlib.h>

#include "base/memory.h"
#include "snapshot/gaps.h"

/* ---- one by one ---- */

typedef struct {
    const course *course;
    steps *steps;
    uint32_t run; /* the next one to begin */
    uint32_t step;
    uint64_t level;
} walking;

/* An update's own end ends its step. */
static void end_step(walking *w, uint32_t at) {
    steps_step *s = &w->steps->all[w->step];
    s->end = w->level, s->ends = at;
}

static void walk(void *context, uint32_t instant, uint64_t level) {
    walking *w = context;
    const course *c = w->course;
    for (; w->run < c->count && c->runs[w->run].begins <= instant; w->run++)
        while (w->step + 1 < w->steps->count && c->runs[w->run].step > w->steps->all[w->step].step) {
            end_step(w, c->runs[w->run].begins - 1);
            w->steps->all[++w->step].begins = c->runs[w->run].begins;
        }
    w->level = level;
    if (w->run == 0) return;
    steps_step *s = &w->steps->all[w->step];
    uint64_t *peak = &s->peak[c->runs[w->run - 1].phase];
    if (level > *peak) *peak = level;
}

static void find_reserved(const course *c, steps *s) {
    gaps_course g = gaps_course_of(c->trace);
    gaps_reader r = { c->trace, g.begin, 0 };
    for (uint32_t i = 0; i < s->count; i++) s->all[i].reserved = gaps_reserved_at(&r, s->all[i].ends);
}

static status find_steps(const course *c, const levels *l, steps *s) {
    s->count = c->count ? c->runs[c->count - 1].step : 0;
    s->all = memory_new(s->count + 1, sizeof *s->all);
    if (!s->all) return status_set(STATUS_FAILED, "no memory for the steps of the recording");
    for (uint32_t i = 0; i < s->count; i++) s->all[i].step = i + 1;
    for (uint32_t i = 0; i < c->count; i++)
        if (c->runs[i].phase == COURSE_UPDATE) s->all[c->runs[i].step - 1].whole = true;
    if (!s->count) return STATUS_OK;
    walking w = { .course = c, .steps = s };
    levels_run(l, &(levels_play){ .each = walk, .context = &w });
    end_step(&w, c->trace->events);
    find_reserved(c, s);
    return STATUS_OK;
}

/* ---- what grows ---- */

/* The least that any step from the second on adds to what is in use between steps. */
static uint64_t least_growth(const steps *s, uint32_t *seen) {
    uint64_t least = UINT64_MAX;
    *seen = 0;
    for (uint32_t i = 2; i < s->count && s->all[i].whole; i++) {
        uint64_t before = s->all[i - 1].end, now = s->all[i].end;
        if (now <= before && i + 1 == s->count) break; /* a program that ends lets go of all */
        if (now <= before) return 0;
        if (now - before < least) least = now - before;
        ++*seen;
    }
    return *seen ? least : 0;
}

static bool is_kept(const steps *s, const snapshot_piece *p, uint32_t step, uint32_t last) {
    return step >= 1 && step <= last && p->died > s->all[last].ends;
}

static int largest_first(const void *a, const void *b) {
    const steps_growth *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x->stack < y->stack ? -1 : x->stack > y->stack;
}

/* Growth that nobody is found for is none: a late buffer, or another batch. */
static void check_growers(steps *s) {
    uint64_t found = 0;
    for (uint32_t i = 0; i < s->by_count; i++) found += s->by[i].bytes;
    if (found < s->grows / 2) s->grows = 0, s->by_count = 0;
}

/* A stack that leaves something in each of the steps. */
static status find_growers(const course *c, steps *s) {
    uint32_t room = c->traits->count + 1, last = s->seen + 1;
    uint64_t *bytes = memory_new(room, sizeof *bytes);
    uint32_t *in = memory_new(room, sizeof *in), *latest = memory_new(room, sizeof *latest);
    uint32_t *count = memory_new(room, sizeof *count);
    s->by = memory_new(room, sizeof *s->by);
    bool there = bytes && in && latest && count && s->by;
    uint32_t step = 0;
    for (uint32_t i = 0; there && i < snapshot_count(&c->trace->pieces); i++) {
        const snapshot_piece *p = snapshot_piece_at(&c->trace->pieces, i);
        while (step + 1 < s->count && s->all[step + 1].begins <= p->born) step++;
        if (!is_kept(s, p, step, last)) continue;
        bytes[p->stack] += p->bytes, count[p->stack]++;
        if (latest[p->stack] != step) in[p->stack]++, latest[p->stack] = step;
    }
    for (uint32_t i = 0; there && i < room; i++)
        if (in[i] == last) s->by[s->by_count++] = (steps_growth){ i, count[i], bytes[i] / last };
    if (there && s->by_count) qsort(s->by, s->by_count, sizeof *s->by, largest_first);
    memory_free(bytes), memory_free(in), memory_free(latest), memory_free(count);
    return there ? STATUS_OK : status_set(STATUS_FAILED, "no memory for what grows");
}

status steps_open(const course *c, const levels *l, steps *s) {
    *s = (steps){ 0 };
    status result = find_steps(c, l, s);
    if (result == STATUS_OK) s->grows = least_growth(s, &s->seen);
    if (result == STATUS_OK && s->grows) result = find_growers(c, s);
    if (result == STATUS_OK) check_growers(s);
    if (result != STATUS_OK) steps_close(s);
    return result;
}

void steps_close(steps *s) {
    memory_free(s->all);
    memory_free(s->by);
    *s = (steps){ 0 };
}
