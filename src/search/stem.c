#include "search/stem.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"

/* ---- the tables of a stem ---- */

typedef struct {
    space_code code;
    compose_least least;
} outline;

typedef struct tables tables;

typedef struct {
    candidates *all;
    outline *items;
    const tables *tables; /* of the stem whose values are outlined; NULL: of states */
    bool sketch;
} outlines;

static void outline_choice(const void *context, uint32_t index, compose_choice *out) {
    const outlines *o = context;
    *out = space_choice(o->all->space, &o->items[index].code);
}

static void outline_take(void *context, uint32_t index, const compose_least *found) {
    const outlines *o = context;
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

/* What settings of other passes than those of state may take out of what persists, a bit for each role. */
static uint32_t roles_freed(const space *s, uint16_t stem) {
    space_code c = { .stem = stem };
    uint32_t roles = 0;
    for (uint32_t k = 0; k < s->step_count; k++)
        for (c.at[k] = 0; !is_of_state(s, k) && c.at[k] < s->stems[stem].lists[k].count; c.at[k]++)
            if (space_setting(s, &c, k)->text[0])
                roles |= pass_frees(pass_table[s->step_of[k]], space_setting(s, &c, k));
    return roles;
}

static uint32_t settings_on(const space *s, const space_code *c) {
    uint32_t on = 0;
    for (uint32_t k = 0; k < s->step_count; k++) on += space_setting(s, c, k)->text[0] != 0;
    return on;
}

enum { EFFECTS = 8 };

/* The two tables of a stem. `states`: every combination of the of_state passes, the others off. `values`: for
 * each effect, every combination of the other passes next to one state with that effect, its companion. */
struct tables {
    outline *states, *values;
    uint32_t state_count, value_count;
    uint32_t effects, companion[EFFECTS]; /* by effect: an index into `states` */
};

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

/* Prefers as companion a state that leaves gradients their full lives, since its bounds are tighter, and then
 * one with fewer settings on. */
static bool is_better_companion(const space *s, const space_code *a, const space_code *b) {
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

static status outline_all(candidates *all, const outlines *o, uint32_t count, const compose_reach *reach) {
    visit v = { .run = all->run,
                .memory = &all->memory,
                .sketch = o->sketch,
                .reach = *reach,
                .context = (void *)o,
                .choice = outline_choice,
                .take = outline_take };
    if (o->sketch)
        all->sketched += count;
    else
        all->outlined += count;
    return visit_all(&v, count);
}

/* Where other passes may leave less of what persists, as sharding does among ranks, that part is not looked
 * at, and nothing is too slow: their settings may be faster too. */
static compose_reach reach_of_states(const candidates *all, const tables *t) {
    compose_reach reach = candidates_reach(all, false);
    reach.frees = roles_freed(all->space, t->states[0].code.stem);
    if (reach.frees) reach.seconds = HUGE_VAL;
    return reach;
}

/* Chooses a companion for each effect that some state within reach has. A state that was given up alone is
 * out of reach with all values too: its persistent tensors, or its tables, are too large, or it is too slow
 * as well (compose_reach), and other passes improve none of these (outline_states). */
static status list_effects(const candidates *all, tables *t) {
    const space *s = all->space;
    t->effects = 0;
    for (uint32_t i = 0; i < t->state_count; i++) {
        uint32_t e = 0, effect = effect_of(s, &t->states[i].code);
        if (!t->states[i].least.peak_bytes || t->states[i].least.given_up) continue;
        while (e < t->effects && effect_of(s, &t->states[t->companion[e]].code) != effect) e++;
        if (e == EFFECTS) return status_set(STATUS_FAILED, "search: more than %d effects", EFFECTS);
        if (e == t->effects)
            t->companion[t->effects++] = i;
        else if (is_better_companion(s, &t->states[i].code, &t->states[t->companion[e]].code))
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

/* ---- candidates of a stem ---- */

/* Sums of parts are not quite lower bounds. The predicted time of a call depends on what is in caches, so
 * added work may make another call faster; and tables do not add up to the byte. Sums were seen to be 0.2 %
 * too slow and 0.05 % too large. The bounds are lowered by more than twice that. */
static const double SLACK = 0.995;
enum { PEAK_SLACK = 512 }; /* one part in so many */

/* a + b - less, or 0: where `values` are of one program only, `less` may be the larger. */
static uint64_t sum_less(uint64_t a, uint64_t b, uint64_t less) { return a + b > less ? a + b - less : 0; }

/* The slots that pieces pass through. Their counts add up. A slot is as large as the largest piece: of
 * `values` that counts where it is no piece of an update, since updates are those of `state`. */
static uint64_t slots_of(const stem_parts *x) {
    const pieces_size *state = &x->state->pieces, *values = &x->values->pieces, *base = &x->base->pieces;
    uint64_t pieces = sum_less(state->count, values->count, base->count),
             bytes = values->slot_bytes > values->update_bytes ? values->slot_bytes : 0;
    if (state->update_bytes > bytes) bytes = state->update_bytes;
    return pieces ? plan_slots_bytes(pieces, bytes) : 0;
}

/* The other passes only add computing to that of a state; and, where it has no effect, time. */
static double seconds_at_least(const stem_parts *x) {
    return x->effect ? x->state->computing : x->state->seconds;
}

/* Other passes leave no less of what persists than a state has (list_effects). */
static stem_least bound_shallow(const stem_parts *x) {
    const live_values *values = &x->values->values;
    uint64_t alive = x->gradients ? values->but_gradients : values->all;
    return (stem_least){ x->state->held_bytes + alive, 0, SLACK * seconds_at_least(x) };
}

stem_least stem_bound(const stem_parts *x) {
    if (x->values->shallow) return bound_shallow(x);
    uint64_t fixed =
        sum_less(x->state->fixed_bytes, x->values->fixed_bytes, x->base->fixed_bytes) + slots_of(x);
    double seconds =
        x->values->computing + x->state->computing - x->base->computing; /* waiting may overlap */
    if (seconds_at_least(x) > seconds) seconds = seconds_at_least(x);
    uint64_t peak = fixed + (x->gradients ? x->values->values.but_gradients : x->values->values.all),
             away = sum_less(x->state->away_bytes, x->values->away_bytes, x->base->away_bytes);
    return (stem_least){ peak - peak / PEAK_SLACK, away - away / PEAK_SLACK, SLACK * seconds };
}

/* Where sketches are made, another one of a candidate would tell no more. */
static status add_outline(candidates *all, const outline *x) {
    const compose_least *least = &x->least;
    if (least->given_up) return STATUS_OK;
    return candidates_add(all, &(candidate){ .code = x->code,
                                             .peak_bytes = least->peak_bytes,
                                             .away_bytes = least->away_bytes,
                                             .seconds = candidates_seconds(least),
                                             .class = (uint8_t)space_class(all->space, &x->code),
                                             .known = !least->unwaited ? OUTLINED
                                                      : all->sketches  ? SKETCHED
                                                                       : BOUND });
}

/* At least what the outline has of which this is the sketch. What persists, what is away and computing are
 * affine in the depth but for paddings and caches: outlines had up to 0.005 % more bytes (0.01 % of time). */
static compose_least at_most(const compose_least *x) {
    enum { MORE_BYTES = 2048 }; /* one part in so many */
    compose_least most = *x;
    if (!x->sketched) return most;
    most.fixed_bytes += x->fixed_bytes / MORE_BYTES;
    most.away_bytes += x->away_bytes / MORE_BYTES;
    most.computing *= 1.001;
    return most;
}

/* What has these values next to this state, by its bound. `values`: an outline, or that of one program. */
static candidate bound_pair(const space *s, const outline *base, const compose_least *values,
                            const outline *state) {
    const compose_least taken = at_most(&base->least);
    stem_least least = stem_bound(&(stem_parts){ .values = values,
                                                 .state = &state->least,
                                                 .base = &taken,
                                                 .effect = effect_of(s, &state->code) != 0,
                                                 .gradients = shortens_gradients(s, &state->code) ||
                                                              shortens_gradients(s, &base->code) });
    return (candidate){ .peak_bytes = least.peak_bytes,
                        .away_bytes = least.away_bytes,
                        .seconds = least.seconds,
                        .known = BOUND };
}

/* Adds the candidate with these values and this state, which is in neither table. */
static status add_pair(candidates *all, const outline *base, const outline *values, const outline *state) {
    const space *s = all->space;
    candidate x = bound_pair(s, base, &values->least, state);
    if (!candidates_in_reach(all, &x)) return STATUS_OK;
    x.code = values->code;
    for (uint32_t k = 0; k < s->step_count; k++)
        if (is_of_state(s, k)) x.code.at[k] = state->code.at[k];
    x.class = (uint8_t)space_class(s, &x.code);
    return candidates_add(all, &x);
}

/* The companion of these values. */
static const outline *base_of(const space *s, const tables *t, const outline *values) {
    uint32_t e = 0, effect = effect_of(s, &values->code);
    while (effect_of(s, &t->states[t->companion[e]].code) != effect) e++;
    return &t->states[t->companion[e]];
}

/* May the values that are next to this companion be next to this state? */
static bool go_together(const space *s, const outline *base, const outline *state) {
    return state->least.peak_bytes && !state->least.given_up &&
           effect_of(s, &state->code) == effect_of(s, &base->code);
}

static status add_pairs(candidates *all, const tables *t) {
    const space *s = all->space;
    for (uint32_t i = 0; i < t->value_count; i++) {
        const outline *values = &t->values[i], *base = base_of(s, t, values);
        TRY(add_outline(all, values));
        if (!values->least.peak_bytes || values->least.given_up) continue;
        for (uint32_t k = 0; k < t->state_count; k++) {
            const outline *state = &t->states[k];
            if (state != base && go_together(s, base, state)) TRY(add_pair(all, base, values, state));
        }
    }
    return STATUS_OK;
}

/* Are these values out of reach next to every state, as far as one program shows? Then so are all candidates
 * that have them. */
static bool is_beyond(const void *context, uint32_t index, const compose_least *one) {
    const outlines *o = context;
    const space *s = o->all->space;
    const outline *base = base_of(s, o->tables, &o->items[index]);
    for (uint32_t k = 0; k < o->tables->state_count; k++) {
        const outline *state = &o->tables->states[k];
        if (!go_together(s, base, state)) continue;
        candidate x = bound_pair(s, base, one, state);
        if (candidates_in_reach(o->all, &x)) return false;
    }
    return true;
}

static void tables_close(tables *t) {
    memory_free(t->states);
    memory_free(t->values);
    *t = (tables){ 0 };
}

/* A state that was given up bounds all candidates that have it. Of others, values are not known so far. */
static void note_above(candidates *all, const tables *t) {
    for (uint32_t i = 0; i < t->state_count; i++) {
        const compose_least *x = &t->states[i].least;
        uint64_t least = x->given_up ? x->peak_bytes : 0;
        if (x->peak_bytes && least < all->above) all->above = least;
    }
}

static status outline_states(candidates *all, tables *t) {
    outlines o = { .all = all, .items = t->states, .sketch = all->sketches };
    compose_reach reach = reach_of_states(all, t);
    TRY(outline_all(all, &o, t->state_count, &reach));
    TRY(list_effects(all, t));
    note_above(all, t);
    return STATUS_OK;
}

/* With another state the same values may take less, and less time: only is_beyond gives them up. */
static status outline_values(candidates *all, tables *t) {
    outlines o = { .all = all, .items = t->values, .tables = t, .sketch = all->sketches };
    compose_reach reach = candidates_reach(all, true);
    reach.unwaited = true; /* stem_bound reads no other seconds of values */
    if (all->limit < UINT64_MAX || all->run->away_limit || all->reach.peak_bytes < UINT64_MAX)
        reach.beyond = is_beyond;
    qsort(t->values, t->value_count, sizeof *t->values, compare_outlines);
    TRY(outline_all(all, &o, t->value_count, &reach));
    for (uint32_t i = 0; i < t->value_count; i++) all->given_up += t->values[i].least.given_up;
    return STATUS_OK;
}

status stem_add(candidates *all, uint16_t stem) {
    tables t = { 0 };
    status result = list_states(all->space, stem, &t);
    if (result == STATUS_OK) result = outline_states(all, &t);
    for (uint32_t i = 0; i < t.state_count && result == STATUS_OK; i++)
        result = add_outline(all, &t.states[i]);
    if (result == STATUS_OK && t.effects) {
        result = list_values(all->space, &t);
        if (result == STATUS_OK) result = outline_values(all, &t);
        if (result == STATUS_OK) result = add_pairs(all, &t);
    }
    tables_close(&t);
    return result;
}
