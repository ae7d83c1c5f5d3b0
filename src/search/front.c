#include "search/front.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/threads.h"
#include "search/stem.h"

/* ---- questions ---- */

typedef enum { LEANEST, FASTEST } order;

/* Asks for the first candidate in this order among those of at most `peak_bytes` that take less than
 * `seconds`.
 */
typedef struct {
    order order;
    uint64_t peak_bytes;
    double seconds;
} question;

static bool comes_first(const candidate *a, const candidate *b, order by) {
    double s = a->seconds - b->seconds;
    bool lean = a->peak_bytes < b->peak_bytes, same = a->peak_bytes == b->peak_bytes;
    if (by == LEANEST && !same) return lean;
    if (s < 0 || s > 0) return s < 0;
    if (!same) return lean;
    if (a->class != b->class) return a->class < b->class;
    return space_compare(&a->code, &b->code) < 0;
}

/* Indexes of the first few candidates by what is known, in the question's order; returns how many. */
static uint32_t pick(const candidates *all, const question *q, uint32_t *picked, uint32_t most) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < all->count; i++) {
        const candidate *x = &all->items[i];
        if (x->peak_bytes > q->peak_bytes || x->seconds >= q->seconds) continue;
        if (count == most && !comes_first(x, &all->items[picked[most - 1]], q->order)) continue;
        uint32_t at = count < most ? count++ : most - 1;
        for (; at && comes_first(x, &all->items[picked[at - 1]], q->order); at--) picked[at] = picked[at - 1];
        picked[at] = i;
    }
    return count;
}

typedef struct {
    candidates *all;
    const uint32_t *by_stem; /* indexes of candidates, those of a stem side by side */
    knowledge becomes;       /* what is known of them afterwards */
} learning;

static void learning_choice(const void *context, uint32_t index, compose_choice *out) {
    const learning *l = context;
    *out = space_choice(l->all->space, &l->all->items[l->by_stem[index]].code);
}

/* A sketch is a lower bound as the one before was: both hold. One that is none after all is an outline. */
static void take_sketch(candidate *x, const compose_least *found) {
    double seconds = candidates_seconds(found);
    if (found->peak_bytes > x->peak_bytes) x->peak_bytes = found->peak_bytes;
    if (found->away_bytes > x->away_bytes) x->away_bytes = found->away_bytes;
    if (seconds > x->seconds) x->seconds = seconds;
    if (found->given_up || !found->peak_bytes) x->peak_bytes = 0;
    x->known = SKETCHED;
}

static void learning_take(void *context, uint32_t index, const compose_least *found) {
    const learning *l = context;
    candidate *x = &l->all->items[l->by_stem[index]];
    if (l->becomes == SKETCHED && found->unwaited) {
        take_sketch(x, found);
        return;
    }
    x->peak_bytes = found->given_up ? 0 : found->peak_bytes, x->seconds = found->seconds;
    x->away_bytes = found->away_bytes;
    x->known = l->becomes == SKETCHED ? OUTLINED : (uint8_t)l->becomes;
}

/* Takes those of the picked candidates that are at stage `known` to the next: bounds are sketched or
 * outlined, sketches outlined, outlines planned. */
static status learn(candidates *all, const uint32_t *picked, uint32_t count, knowledge known) {
    uint32_t *by_stem = memory_room(count, sizeof *by_stem), n = 0;
    if (!by_stem) return status_set(STATUS_FAILED, "no memory to search");
    for (uint32_t i = 0; i < count; i++) {
        if (all->items[picked[i]].known != known) continue;
        uint32_t at = n++;
        for (; at && space_compare(&all->items[picked[i]].code, &all->items[by_stem[at - 1]].code) < 0; at--)
            by_stem[at] = by_stem[at - 1];
        by_stem[at] = picked[i];
    }
    knowledge next = known == BOUND && !all->sketches ? OUTLINED : (knowledge)(known + 1);
    learning l = { all, by_stem, next };
    visit v = { .run = all->run,
                .memory = &all->memory,
                .plan = next == PLANNED,
                .sketch = next == SKETCHED,
                .reach = candidates_reach(all, true),
                .context = &l,
                .choice = learning_choice,
                .take = learning_take };
    status result = visit_all(&v, n);
    if (next == PLANNED)
        all->planned += n;
    else if (next == SKETCHED)
        all->sketched += n;
    else
        all->outlined += n;
    memory_free(by_stem);
    return result;
}

/* How many of the first candidates are looked at together. A sketch mostly tells the outline, so then few
 * more than the first are of use. */
static uint32_t ahead_of(knowledge known) {
    enum { AHEAD = 8 }; /* for each thread */
    uint32_t threads = (uint32_t)threads_count();
    return known == OUTLINED ? 1 : known == SKETCHED ? threads : AHEAD * threads;
}

/* The answer to a question, planned. peak_bytes 0: no candidate answers it. */
static status ask(candidates *all, const question *q, candidate *answer) {
    uint32_t picked[32], most = ahead_of(BOUND);
    if (most > sizeof picked / sizeof *picked) most = sizeof picked / sizeof *picked;
    for (;;) {
        uint32_t count = pick(all, q, picked, most);
        *answer = count ? all->items[picked[0]] : (candidate){ 0 };
        if (!count || answer->known == PLANNED) return STATUS_OK;
        uint32_t ahead = ahead_of(answer->known);
        TRY(learn(all, picked, count < ahead ? count : ahead, answer->known));
        candidates_drop(all);
    }
}

/* ---- wishes ---- */

/* At most `most` points of the front, the leanest first. */
static status ask_leanest(candidates *all, uint32_t most, candidate *out, uint32_t *count) {
    question q = { LEANEST, all->limit, HUGE_VAL };
    for (*count = 0; *count < most; ++*count) {
        TRY(ask(all, &q, &out[*count]));
        if (!out[*count].peak_bytes) break;
        q.seconds = out[*count].seconds;
    }
    return STATUS_OK;
}

enum { WISHED_MOST = 3 }; /* the leanest, the fastest, the leanest that is fast enough */

static bool is_among(const candidate *found, uint32_t count, const candidate *x) {
    for (uint32_t i = 0; i < count; i++)
        if (space_compare(&found[i].code, &x->code) == 0) return true;
    return false;
}

/* Where only the fastest within the budget is wished for, a later stem matters if it has one as fast. */
static status ask_fastest(candidates *all, const search_wish *w, candidate *out, uint32_t *count) {
    TRY(ask(all, &(question){ FASTEST, w->budget, HUGE_VAL }, out));
    *count = out->peak_bytes != 0;
    if (*count) all->reach.seconds = out->seconds;
    candidates_drop(all);
    return STATUS_OK;
}

/* Answers the wishes from the candidates so far, in `out`. Later stems matter only where they would give a
 * better answer: the reach becomes that, and what is out of reach is dropped. A wish for so many seconds may
 * be answered by any later stem, so then nothing is dropped. */
static status ask_wished(candidates *all, const search_wish *w, candidate out[WISHED_MOST], uint32_t *count) {
    candidate x;
    if (w->only) return ask_fastest(all, w, out, count);
    TRY(ask_leanest(all, 1, out, count));
    bool fits = *count && out[0].peak_bytes <= w->budget;
    if (fits) {
        TRY(ask(all, &(question){ FASTEST, w->budget, HUGE_VAL }, &x));
        all->reach.seconds = x.seconds;
        if (!is_among(out, *count, &x)) out[(*count)++] = x;
    }
    if (w->seconds > 0) {
        TRY(ask(all, &(question){ LEANEST, all->limit, nextafter(w->seconds, HUGE_VAL) }, &x));
        if (x.peak_bytes && !is_among(out, *count, &x)) out[(*count)++] = x;
    } else if (*count) {
        all->reach.peak_bytes = out[0].peak_bytes;
        all->reach.budget = w->budget;
    }
    candidates_drop(all);
    return STATUS_OK;
}

/* ---- all of it ---- */

/* Of what was found, the leanest first. */
static status copy_points(const candidates *all, candidate *found, uint32_t count, search_front *front) {
    front->points = memory_new(count, sizeof *front->points);
    if (!front->points) return status_set(STATUS_FAILED, "no memory to search");
    for (uint32_t i = 1; i < count; i++)
        for (uint32_t k = i; k && comes_first(&found[k], &found[k - 1], LEANEST); k--) {
            candidate x = found[k];
            found[k] = found[k - 1], found[k - 1] = x;
        }
    for (uint32_t i = 0; i < count; i++)
        front->points[i] = (search_point){ .choice = space_choice(all->space, &found[i].code),
                                           .peak_bytes = found[i].peak_bytes,
                                           .away_bytes = found[i].away_bytes,
                                           .seconds = found[i].seconds,
                                           .class = (pass_class)found[i].class };
    front->count = count;
    return STATUS_OK;
}

/* The stems with the largest micro-batch come first, where mostly the fastest plan is, then those with the
 * smallest, where the leanest is, and so on up; where the leanest is not wished for, the largest that fits
 * has mostly the fastest, and they come in their order. Their answers limit how far the others are looked at.
 * Stems that lack a technique which is nearly free (`spare`) come last. With a budget all of these are
 * searched; without one, only those up to the micro-batch of the leanest answer. Where a limit leaves no
 * answer they are skipped: the caller searches again with a larger limit. */
static status find_wished(candidates *all, const search_wish *w, search_front *front) {
    const space *s = all->space;
    candidate found[WISHED_MOST];
    uint32_t count = 0;
    int64_t most = INT64_MAX;
    uint32_t largest = 1;
    while (largest < s->stem_count && (w->only || s->stems[largest].micro_batch == s->stems[0].micro_batch))
        largest++;
    if (w->only) all->reach = (compose_reach){ .budget = w->budget, .seconds = HUGE_VAL };
    for (int spare = 0; spare < 2; spare++) {
        for (uint32_t i = 0; i < s->stem_count; i++) {
            uint32_t stem = i < largest ? i : s->stem_count - 1 - (i - largest);
            if (s->stems[stem].spare != spare || s->stems[stem].micro_batch > most) continue;
            TRY(stem_add(all, (uint16_t)stem));
            TRY(ask_wished(all, w, found, &count));
            if (count && w->only == SEARCH_ANY) return copy_points(all, found, count, front);
        }
        /* Leaner, with smaller micro-batches, may be faster within a budget. */
        bool budgeted = w->only || (w->budget && w->budget < UINT64_MAX);
        if (count && !budgeted) most = s->stems[found[0].code.stem].micro_batch;
        if (!count && all->limit < UINT64_MAX) break;
    }
    return copy_points(all, found, count, front);
}

static status find_all(candidates *all, search_front *front) {
    for (uint32_t stem = 0; stem < all->space->stem_count; stem++) TRY(stem_add(all, (uint16_t)stem));
    candidate *found = memory_new(all->count, sizeof *found);
    uint32_t count = 0;
    if (!found) return status_set(STATUS_FAILED, "no memory to search");
    status result = ask_leanest(all, all->count, found, &count);
    if (result == STATUS_OK) result = copy_points(all, found, count, front);
    memory_free(found);
    return result;
}

status front_find(const compose_run *r, const space *s, uint64_t limit, const search_wish *w,
                  search_front *front) {
    candidates all = candidates_none(r, s, limit);
    status result = w ? find_wished(&all, w, front) : find_all(&all, front);
    front->candidates = space_size(s);
    front->sketched = all.sketched;
    front->outlined = all.outlined;
    front->given_up = all.given_up;
    front->planned = all.planned;
    front->held_bytes = all.memory.held;
    front->above = result == STATUS_OK && !front->count ? all.above : 0;
    candidates_close(&all);
    return result;
}
