#include "search/front.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/threads.h"

/* ---- what is known of candidates ---- */

/* A lower bound, from outlines of other candidates; its own outline; its plan. */
typedef enum { BOUND, OUTLINED, PLANNED } knowledge;

typedef struct {
    space_code code;
    uint64_t peak_bytes; /* by what is known: never more than its plan will have */
    uint64_t away_bytes; /* 0 where only a bound is known */
    double seconds;
    uint8_t class, known;
} entry;

/* What an entry has to be to matter still: at most as large as `leanest`, or within the budget and at most as
 * slow as `fastest`. Both belong to entries that are planned already. They only get better, so what is out of
 * reach stays out of reach. */
typedef struct {
    uint64_t leanest, budget;
    double fastest;
} reach;

typedef struct {
    const compose_run *run;
    const space *space;
    const search_wish *wish;
    uint64_t limit;
    reach reach;
    visit_memory memory;
    entry *entries;
    uint32_t count, room;
    uint32_t outlined, planned;
} pool;

static bool in_reach(const pool *p, const entry *x) {
    const reach *r = &p->reach;
    if (!x->peak_bytes || x->peak_bytes > p->limit) return false;
    if (p->run->away_limit && x->away_bytes > p->run->away_limit) return false;
    return x->peak_bytes <= r->leanest || (x->peak_bytes <= r->budget && x->seconds <= r->fastest);
}

static status add(pool *p, const entry *x) {
    if (!in_reach(p, x)) return STATUS_OK;
    if (p->count == p->room) {
        uint32_t room = p->room ? 2 * p->room : 512;
        entry *more = memory_resize(p->entries, room, sizeof *more);
        if (!more) return status_set(STATUS_FAILED, "no memory to search");
        p->entries = more, p->room = room;
    }
    p->entries[p->count++] = *x;
    return STATUS_OK;
}

static void drop_out_of_reach(pool *p) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < p->count; i++)
        if (in_reach(p, &p->entries[i])) p->entries[kept++] = p->entries[i];
    p->count = kept;
}

/* ---- questions ---- */

typedef enum { LEANEST, FASTEST } order;

/* Asks for the first entry in this order among those of at most `peak_bytes` that take less than `seconds`.
 */
typedef struct {
    order order;
    uint64_t peak_bytes;
    double seconds;
} question;

static bool comes_first(const entry *a, const entry *b, order by) {
    double s = a->seconds - b->seconds;
    bool lean = a->peak_bytes < b->peak_bytes, same = a->peak_bytes == b->peak_bytes;
    if (by == LEANEST && !same) return lean;
    if (s < 0 || s > 0) return s < 0;
    if (!same) return lean;
    if (a->class != b->class) return a->class < b->class;
    return space_compare(&a->code, &b->code) < 0;
}

/* The first few entries by what is known, in the question's order; returns how many. */
static uint32_t pick(const pool *p, const question *q, uint32_t *list, uint32_t most) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        const entry *x = &p->entries[i];
        if (x->peak_bytes > q->peak_bytes || x->seconds >= q->seconds) continue;
        if (count == most && !comes_first(x, &p->entries[list[most - 1]], q->order)) continue;
        uint32_t at = count < most ? count++ : most - 1;
        for (; at && comes_first(x, &p->entries[list[at - 1]], q->order); at--) list[at] = list[at - 1];
        list[at] = i;
    }
    return count;
}

typedef struct {
    pool *pool;
    const uint32_t *list; /* indexes of entries, in the order of candidates */
    knowledge becomes;    /* what is known of them afterwards */
} turn;

static void entry_choice(const void *list, uint32_t index, compose_choice *out) {
    const turn *r = list;
    *out = space_choice(r->pool->space, &r->pool->entries[r->list[index]].code);
}

static void entry_take(void *list, uint32_t index, const compose_least *found) {
    turn *r = list;
    entry *x = &r->pool->entries[r->list[index]];
    x->peak_bytes = found->given_up ? 0 : found->peak_bytes, x->seconds = found->seconds;
    x->away_bytes = found->away_bytes;
    x->known = (uint8_t)r->becomes;
}

/* The reach, as compose_bound takes it. `planning_only`: a candidate is given up only if planning it takes
 * too much memory. */
static compose_reach reach_of(const pool *p, bool planning_only) {
    const reach *r = &p->reach;
    return (compose_reach){ .peak_bytes = r->leanest < p->limit ? r->leanest : p->limit,
                            .budget = r->budget < p->limit ? r->budget : p->limit,
                            .seconds = planning_only ? HUGE_VAL : r->fastest,
                            .planning_only = planning_only };
}

/* Takes the listed entries of which exactly `known` is known to the next stage: bounds are outlined, outlines
 * planned. */
static status learn(pool *p, const uint32_t *list, uint32_t count, knowledge known) {
    uint32_t *chosen = memory_room(count, sizeof *chosen), n = 0;
    if (!chosen) return status_set(STATUS_FAILED, "no memory to search");
    for (uint32_t i = 0; i < count; i++) {
        if (p->entries[list[i]].known != known) continue;
        uint32_t at = n++;
        for (; at && space_compare(&p->entries[list[i]].code, &p->entries[chosen[at - 1]].code) < 0; at--)
            chosen[at] = chosen[at - 1];
        chosen[at] = list[i];
    }
    turn r = { p, chosen, known == BOUND ? OUTLINED : PLANNED };
    visit v = { .run = p->run,
                .memory = &p->memory,
                .plan = known == OUTLINED,
                .reach = reach_of(p, true),
                .list = &r,
                .choice = entry_choice,
                .take = entry_take };
    status result = visit_all(&v, n);
    *(known == OUTLINED ? &p->planned : &p->outlined) += n;
    memory_free(chosen);
    return result;
}

/* The answer to a question, planned. peak_bytes 0: no entry answers it. */
static status ask(pool *p, const question *q, entry *answer) {
    enum { AHEAD = 8 }; /* so many for each of up to 4 threads are outlined in a round, not the first alone */
    uint32_t list[4 * AHEAD], most = AHEAD * (uint32_t)threads_count();
    if (most > sizeof list / sizeof *list) most = sizeof list / sizeof *list;
    for (;;) {
        uint32_t count = pick(p, q, list, most);
        *answer = count ? p->entries[list[0]] : (entry){ 0 };
        if (!count || answer->known == PLANNED) return STATUS_OK;
        if (answer->known == BOUND)
            TRY(learn(p, list, count, BOUND));
        else
            TRY(learn(p, list, 1, OUTLINED));
        drop_out_of_reach(p);
    }
}

/* ---- wishes ---- */

/* At most `most` points of the front, the leanest first. */
static status ask_leanest(pool *p, uint32_t most, entry *out, uint32_t *count) {
    question q = { LEANEST, p->limit, HUGE_VAL };
    for (*count = 0; *count < most; ++*count) {
        TRY(ask(p, &q, &out[*count]));
        if (!out[*count].peak_bytes) break;
        q.seconds = out[*count].seconds;
    }
    return STATUS_OK;
}

enum { WISHED_MOST = 3 }; /* the leanest, the fastest, the leanest that is fast enough */

static bool is_listed(const entry *list, uint32_t count, const entry *x) {
    for (uint32_t i = 0; i < count; i++)
        if (space_compare(&list[i].code, &x->code) == 0) return true;
    return false;
}

/* Answers the wishes from the entries so far, in `out`. Later stems matter only where they would give a
 * better answer: the reach becomes that, and entries out of reach are dropped. Where the wish is for so many
 * seconds, any stem may still answer it, and nothing is. */
static status ask_wished(pool *p, entry out[WISHED_MOST], uint32_t *count) {
    const search_wish *w = p->wish;
    entry x;
    TRY(ask_leanest(p, 1, out, count));
    bool fits = *count && out[0].peak_bytes <= w->budget;
    if (fits) {
        TRY(ask(p, &(question){ FASTEST, w->budget, HUGE_VAL }, &x));
        p->reach.fastest = x.seconds;
        if (!is_listed(out, *count, &x)) out[(*count)++] = x;
    }
    if (w->seconds > 0) {
        TRY(ask(p, &(question){ LEANEST, p->limit, nextafter(w->seconds, HUGE_VAL) }, &x));
        if (x.peak_bytes && !is_listed(out, *count, &x)) out[(*count)++] = x;
    } else if (*count) {
        p->reach.leanest = out[0].peak_bytes;
        p->reach.budget = w->budget;
    }
    drop_out_of_reach(p);
    return STATUS_OK;
}

/* ---- the tables of a stem ---- */

typedef struct {
    space_code code;
    compose_least least;
} outline;

typedef struct {
    const space *space;
    outline *items;
} outlines;

static void outline_choice(const void *list, uint32_t index, compose_choice *out) {
    const outlines *o = list;
    *out = space_choice(o->space, &o->items[index].code);
}

static void outline_take(void *list, uint32_t index, const compose_least *found) {
    const outlines *o = list;
    o->items[index].least = *found;
}

static bool is_of_state(const space *s, uint32_t step) { return pass_table[s->step_of[step]]->of_state; }

/* How many combinations the stem has of the step passes that are of_state, or of those that are not. */
static uint32_t combinations(const space *s, uint16_t stem, bool of_state) {
    uint32_t count = 1;
    for (uint32_t k = 0; k < s->step_count; k++)
        if (is_of_state(s, k) == of_state) count *= s->stems[stem].lists[k].count;
    return count;
}

/* Puts combination number n of these passes into the code. */
static void combine(const space *s, uint32_t n, bool of_state, space_code *c) {
    for (uint32_t k = s->step_count; k-- > 0;) {
        uint32_t count = s->stems[c->stem].lists[k].count;
        if (is_of_state(s, k) != of_state) continue;
        c->at[k] = (uint8_t)(n % count);
        n /= count;
    }
}

/* A number for what the of_state settings do to forward and backward: 0, nothing. Equal numbers: they do the
 * same. */
static uint32_t effect_of(const space *s, const space_code *c) {
    uint32_t effect = 0;
    for (uint32_t k = 0; k < s->step_count; k++)
        if (is_of_state(s, k)) effect = effect * 31 + space_setting(s, c, k)->effect;
    return effect;
}

static bool shortens_gradients(const space *s, const space_code *c) {
    for (uint32_t k = 0; k < s->step_count; k++)
        if (is_of_state(s, k) && space_setting(s, c, k)->gradients) return true;
    return false;
}

static uint32_t settings_on(const space *s, const space_code *c) {
    uint32_t on = 0;
    for (uint32_t k = 0; k < s->step_count; k++) on += space_setting(s, c, k)->text[0] != 0;
    return on;
}

enum { EFFECTS = 8 };

/* The two tables of a stem. `states`: every combination of the of_state passes, the others off. `values`: for
 * each effect, every combination of the other passes next to one state with that effect, its companion. */
typedef struct {
    outline *states, *values;
    uint32_t state_count, value_count;
    uint32_t effects, companion[EFFECTS]; /* by effect: an index into `states` */
} tables;

/* Switches these passes off, where "off" is offered; else to their first setting. */
static void set_neutral(const space *s, bool of_state, space_code *c) {
    for (uint32_t k = 0; k < s->step_count; k++) {
        if (is_of_state(s, k) != of_state) continue;
        c->at[k] = 0;
        for (uint32_t i = 0; i < s->stems[c->stem].lists[k].count; i++) {
            space_code other = *c;
            other.at[k] = (uint8_t)i;
            if (!space_setting(s, &other, k)->text[0]) c->at[k] = (uint8_t)i;
        }
    }
}

/* Is state a a better companion than b? Where gradients live their full lives bounds are tighter; after that,
 * fewer settings are better. */
static bool stands_better(const space *s, const space_code *a, const space_code *b) {
    bool x = shortens_gradients(s, a), y = shortens_gradients(s, b);
    return x != y ? y : settings_on(s, a) < settings_on(s, b);
}

static status list_states(const space *s, uint16_t stem, tables *t) {
    t->state_count = combinations(s, stem, true);
    t->states = memory_new(t->state_count, sizeof *t->states);
    if (!t->states) return status_set(STATUS_FAILED, "no memory to search");
    for (uint32_t i = 0; i < t->state_count; i++) {
        t->states[i].code.stem = stem;
        set_neutral(s, false, &t->states[i].code);
        combine(s, i, true, &t->states[i].code);
    }
    return STATUS_OK;
}

/* Chooses a companion for each effect that some state within reach has. A state that was given up alone is
 * out of reach with all values too: its persistent tensors, or its tables, are too large, or it is too slow
 * as well (compose_reach), and other passes improve none of these. */
static status list_effects(const pool *p, tables *t) {
    const space *s = p->space;
    for (uint32_t i = 0; i < t->state_count; i++) {
        uint32_t e = 0, effect = effect_of(s, &t->states[i].code);
        if (!t->states[i].least.peak_bytes || t->states[i].least.given_up) continue;
        while (e < t->effects && effect_of(s, &t->states[t->companion[e]].code) != effect) e++;
        if (e == EFFECTS) return status_set(STATUS_FAILED, "search: more than %d effects", EFFECTS);
        if (e == t->effects)
            t->companion[t->effects++] = i;
        else if (stands_better(s, &t->states[i].code, &t->states[t->companion[e]].code))
            t->companion[e] = i;
    }
    return STATUS_OK;
}

/* Lists the values next to each companion. With all other passes off the candidate is the companion itself,
 * which is in the other table. */
static status list_values(const space *s, tables *t) {
    uint32_t each = combinations(s, t->states[0].code.stem, false);
    t->values = memory_new((size_t)each * t->effects, sizeof *t->values);
    if (!t->values) return status_set(STATUS_FAILED, "no memory to search");
    for (uint32_t e = 0; e < t->effects; e++)
        for (uint32_t i = 0; i < each; i++) {
            space_code c = t->states[t->companion[e]].code;
            combine(s, i, false, &c);
            if (space_compare(&c, &t->states[t->companion[e]].code) != 0)
                t->values[t->value_count++].code = c;
        }
    return STATUS_OK;
}

static int compare_outlines(const void *a, const void *b) {
    return space_compare(&((const outline *)a)->code, &((const outline *)b)->code);
}

static status outline_all(pool *p, outline *items, uint32_t count, const compose_reach *near) {
    outlines o = { p->space, items };
    visit v = { .run = p->run,
                .memory = &p->memory,
                .reach = *near,
                .list = &o,
                .choice = outline_choice,
                .take = outline_take };
    p->outlined += count;
    return visit_all(&v, count);
}

/* ---- candidates of a stem ---- */

/* Sums of parts are not quite lower bounds. The predicted time of a call depends on what is in caches, so
 * added work may make another call faster; and tables do not add up to the byte. Sums were seen to be 0.2 %
 * too slow and 0.05 % too large. The bounds are lowered by more than that. */
static const double SLACK = 0.98;
enum { PEAK_SLACK = 512 }; /* one part in so many */

/* The slots that pieces pass through. Their counts add up; a slot is as large as the largest piece, and
 * pieces of updates are those of `state`. */
static uint64_t slots_of(const front_parts *x) {
    const pieces_size *state = &x->state->pieces, *values = &x->values->pieces, *base = &x->base->pieces;
    uint64_t pieces = state->count + values->count - base->count,
             bytes = values->slot_bytes > values->update_bytes ? values->slot_bytes : 0;
    if (state->update_bytes > bytes) bytes = state->update_bytes;
    return pieces ? plan_slots_bytes(pieces, bytes) : 0;
}

front_least front_bound(const front_parts *x) {
    uint64_t fixed = x->state->fixed_bytes + x->values->fixed_bytes - x->base->fixed_bytes + slots_of(x);
    double seconds = x->values->computing + x->state->computing - x->base->computing;
    if (!x->effect && x->state->seconds > seconds) seconds = x->state->seconds;
    uint64_t peak = fixed + (x->gradients ? x->values->values.but_gradients : x->values->values.all);
    return (front_least){ peak - peak / PEAK_SLACK, SLACK * seconds };
}

static status add_outline(pool *p, const outline *x) {
    if (x->least.given_up) return STATUS_OK;
    return add(p, &(entry){ .code = x->code,
                            .peak_bytes = x->least.peak_bytes,
                            .away_bytes = x->least.away_bytes,
                            .seconds = x->least.seconds,
                            .class = (uint8_t)space_class(p->space, &x->code),
                            .known = OUTLINED });
}

/* Adds the candidate with these values and this state, which is in neither table, by its bound. */
static status add_pair(pool *p, const tables *t, uint32_t e, const outline *values, const outline *state) {
    const space *s = p->space;
    const outline *base = &t->states[t->companion[e]];
    entry x = { .code = values->code, .known = BOUND };
    for (uint32_t k = 0; k < s->step_count; k++)
        if (is_of_state(s, k)) x.code.at[k] = state->code.at[k];
    front_least least = front_bound(&(front_parts){ .values = &values->least,
                                                    .state = &state->least,
                                                    .base = &base->least,
                                                    .effect = effect_of(s, &state->code) != 0,
                                                    .gradients = shortens_gradients(s, &state->code) ||
                                                                 shortens_gradients(s, &base->code) });
    x.peak_bytes = least.peak_bytes, x.seconds = least.seconds;
    if (!in_reach(p, &x)) return STATUS_OK;
    x.class = (uint8_t)space_class(s, &x.code);
    return add(p, &x);
}

static status add_pairs(pool *p, const tables *t) {
    const space *s = p->space;
    for (uint32_t i = 0; i < t->value_count; i++) {
        const outline *values = &t->values[i];
        uint32_t e = 0, effect = effect_of(s, &values->code);
        while (effect_of(s, &t->states[t->companion[e]].code) != effect) e++;
        TRY(add_outline(p, values));
        for (uint32_t k = 0; k < t->state_count; k++) {
            const outline *state = &t->states[k];
            bool skip = k == t->companion[e] || state->least.given_up || !state->least.peak_bytes;
            if (skip || !values->least.peak_bytes || values->least.given_up ||
                effect_of(s, &state->code) != effect)
                continue;
            TRY(add_pair(p, t, e, values, state));
        }
    }
    return STATUS_OK;
}

static void tables_close(tables *t) {
    memory_free(t->states);
    memory_free(t->values);
    *t = (tables){ 0 };
}

/* Adds the candidates of a stem that are in reach. */
static status survey(pool *p, uint16_t stem) {
    tables t = { 0 };
    compose_reach near = reach_of(p, false);
    status result = list_states(p->space, stem, &t);
    if (result == STATUS_OK) result = outline_all(p, t.states, t.state_count, &near);
    if (result == STATUS_OK) result = list_effects(p, &t);
    for (uint32_t i = 0; i < t.state_count && result == STATUS_OK; i++) result = add_outline(p, &t.states[i]);
    if (result == STATUS_OK && t.effects) {
        result = list_values(p->space, &t);
        if (result == STATUS_OK) {
            qsort(t.values, t.value_count, sizeof *t.values, compare_outlines);
            near = reach_of(p, true); /* with another state the same values may take less, and less time */
            result = outline_all(p, t.values, t.value_count, &near);
        }
        if (result == STATUS_OK) result = add_pairs(p, &t);
    }
    tables_close(&t);
    return result;
}

/* ---- all of it ---- */

static status copy_points(const pool *p, entry *list, uint32_t count, search_front *front) {
    front->points = memory_new(count, sizeof *front->points);
    if (!front->points) return status_set(STATUS_FAILED, "no memory to search");
    for (uint32_t i = 1; i < count; i++)
        for (uint32_t k = i; k && comes_first(&list[k], &list[k - 1], LEANEST); k--) {
            entry x = list[k];
            list[k] = list[k - 1], list[k - 1] = x;
        }
    for (uint32_t i = 0; i < count; i++)
        front->points[i] = (search_point){ .choice = space_choice(p->space, &list[i].code),
                                           .peak_bytes = list[i].peak_bytes,
                                           .away_bytes = list[i].away_bytes,
                                           .seconds = list[i].seconds,
                                           .class = (pass_class)list[i].class };
    front->count = count;
    return STATUS_OK;
}

/* Stems with the largest micro-batch come first. Their answers limit how far the others are looked at. Stems
 * that lack a technique which is nearly free (`spare`) come last. With a budget all of these are searched;
 * without one, only those up to the micro-batch of the leanest answer. Where a limit leaves no answer they
 * are skipped: the caller searches again with a larger limit. */
static status find_wished(pool *p, search_front *front) {
    const space *s = p->space;
    entry found[WISHED_MOST];
    uint32_t count = 0;
    int64_t most = INT64_MAX;
    for (int spare = 0; spare < 2; spare++) {
        for (uint32_t stem = 0; stem < s->stem_count; stem++) {
            if (s->stems[stem].spare != spare || s->stems[stem].micro_batch > most) continue;
            TRY(survey(p, (uint16_t)stem));
            TRY(ask_wished(p, found, &count));
        }
        bool budgeted =
            p->wish->budget && p->wish->budget < UINT64_MAX; /* what is leaner may be faster within it */
        if (count && !budgeted) most = s->stems[found[0].code.stem].micro_batch;
        if (!count && p->limit < UINT64_MAX) break;
    }
    return copy_points(p, found, count, front);
}

static status find_all(pool *p, search_front *front) {
    for (uint32_t stem = 0; stem < p->space->stem_count; stem++) TRY(survey(p, (uint16_t)stem));
    entry *found = memory_new(p->count, sizeof *found);
    uint32_t count = 0;
    if (!found) return status_set(STATUS_FAILED, "no memory to search");
    status result = ask_leanest(p, p->count, found, &count);
    if (result == STATUS_OK) result = copy_points(p, found, count, front);
    memory_free(found);
    return result;
}

status front_find(const compose_run *r, const space *s, uint64_t limit, const search_wish *w,
                  search_front *front) {
    pool p = { .run = r,
               .space = s,
               .wish = w,
               .limit = limit,
               .reach = { UINT64_MAX, UINT64_MAX, HUGE_VAL },
               .memory = visit_memory_none };
    status result = w ? find_wished(&p, front) : find_all(&p, front);
    front->candidates = space_size(s);
    front->outlined = p.outlined;
    front->planned = p.planned;
    front->held_bytes = p.memory.held;
    memory_free(p.entries);
    return result;
}

/* ---- given choices ---- */

typedef struct {
    search_point *points;
    const uint32_t *list;
} given;

static void point_choice(const void *list, uint32_t index, compose_choice *out) {
    const given *g = list;
    *out = g->points[g->list[index]].choice;
}

static void point_take(void *list, uint32_t index, const compose_least *found) {
    const given *g = list;
    g->points[g->list[index]].peak_bytes = found->peak_bytes;
    g->points[g->list[index]].away_bytes = found->away_bytes;
    g->points[g->list[index]].seconds = found->seconds;
}

/* Points of one stem become neighbours in the list; else their order stays. */
static void list_by_stem(const search_point *points, uint32_t count, uint32_t *list) {
    uint32_t listed = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = listed++;
        for (uint32_t k = at; k-- > 0;)
            if (compose_same_stem(&points[list[k]].choice, &points[i].choice)) {
                for (uint32_t m = at; m > k + 1; m--) list[m] = list[m - 1];
                at = k + 1;
                break;
            }
        list[at] = i;
    }
}

status front_plan(const compose_run *r, uint64_t limit, search_point *points, uint32_t count) {
    uint32_t *list = memory_room(count, sizeof *list), kept = 0;
    if (!list) return status_set(STATUS_FAILED, "no memory to search");
    list_by_stem(points, count, list);
    given g = { points, list };
    visit_memory memory = visit_memory_none;
    visit v = { .run = r,
                .memory = &memory,
                .reach = { limit, 0, 0, false },
                .list = &g,
                .choice = point_choice,
                .take = point_take };
    status result = STATUS_OK;
    if (limit < UINT64_MAX) {
        result = visit_all(&v, count);
        for (uint32_t i = 0; i < count; i++) {
            const search_point *x = &points[list[i]];
            if (x->peak_bytes && x->peak_bytes <= limit) list[kept++] = list[i];
        }
    } else {
        kept = count;
    }
    v.plan = true;
    if (result == STATUS_OK) result = visit_all(&v, kept);
    memory_free(list);
    return result;
}
