#include "search/space.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/threads.h"
#include "chain/known.h"

enum { MAX_SETTINGS = 127, MAX_MICRO = 128 }; /* of a pass; of a request. Both fail rather than drop any */
enum { AT_ONCE = 16 };                        /* micro-batches whose settings are listed beside each other */

/* ---- settings, each stored once ---- */

static bool same_setting(const pass_setting *a, const pass_setting *b) {
    return a->class == b->class && strcmp(a->text, b->text) == 0 &&
           memcmp(a->value, b->value, sizeof a->value) == 0;
}

/* The index of a setting of pass i in s->known. A setting that is not there yet is added. */
static status intern(space *s, int i, const pass_setting *x, uint8_t *place) {
    space_known *known = &s->known[i];
    for (uint32_t k = 0; k < known->count; k++)
        if (same_setting(&known->settings[k], x)) {
            *place = (uint8_t)k;
            return STATUS_OK;
        }
    if (known->count > UINT8_MAX)
        return status_set(STATUS_FAILED, "search: %s offers more than %u settings", pass_table[i]->name,
                          UINT8_MAX);
    pass_setting *more = memory_resize(known->settings, known->count + 1u, sizeof *more);
    if (!more) return status_set(STATUS_FAILED, "no memory to search");
    known->settings = more;
    more[known->count] = *x;
    *place = (uint8_t)known->count++;
    return STATUS_OK;
}

static status open_known(space *s) {
    const pass_setting off = { .class = PASS_EXACT };
    uint8_t place;
    for (int i = 0; pass_table[i]; i++) {
        TRY(intern(s, i, &off, &place));
        if (pass_table[i]->stage != PASS_STEP) continue;
        if (s->step_count == SPACE_STEPS)
            return status_set(STATUS_FAILED, "search: there are more than %d step passes", SPACE_STEPS);
        s->step_of[s->step_count++] = (uint8_t)i;
    }
    return STATUS_OK;
}

/* ---- what to try for one pass ---- */

typedef struct {
    pass_setting list[MAX_SETTINGS + 1];
    uint32_t count;
    bool spare_off; /* "off", the last one, makes a stem spare */
} choices;

static bool is_allowed(const search_request *q, int i, const pass_setting *s) {
    if (s->class <= q->allowed && !pass_table[i]->open) return true;
    const char *only = q->lossy[i].setting;
    return q->allowed != PASS_EXACT && q->lossy[i].given && (!only[0] || strcmp(only, s->text) == 0);
}

/* Where all layers of a model are alike, passes offer of a few what they offer of all. Pins are checked
 * against the model as it is. */
static compose_run asked_of(const search_request *q) {
    enum { FEW_LAYERS = 4 };
    compose_run run = q->run;
    bool checks = false;
    for (int i = 0; pass_table[i]; i++) checks |= q->pins[i].kind == SEARCH_PINNED && pass_table[i]->check;
    if (run.model->alike && run.model->layers > 2 * FEW_LAYERS && !checks) run.layers = FEW_LAYERS;
    return run;
}

/* What the passes of one stage offer, behind the choice's settings of those before. The graph that they look
 * at is made where one is asked that did not answer before. */
typedef struct {
    const search_request *q;
    compose_run run;
    const compose_choice *choice;
    pass_stage stage;
    pass_context context;
    bool open;
    graph graph;
} asking;

static asking ask_about(const search_request *q, const compose_choice *choice, pass_stage stage) {
    asking a = { .q = q, .run = asked_of(q), .choice = choice, .stage = stage };
    a.context = compose_context(&a.run, choice);
    return a;
}

static status look(asking *a) {
    if (a->open) return STATUS_OK;
    a->open = true;
    return compose_graph(&a->run, a->choice, a->stage, &a->graph);
}

/* What a pass offers, as it is kept: as much of the list as there is. */
typedef struct {
    pass_without without;
    uint32_t count;
    pass_setting list[MAX_SETTINGS];
} offer;

static size_t offer_bytes(uint32_t count) { return offsetof(offer, list) + count * sizeof(pass_setting); }

static status ask_pass(asking *a, int i, offer *out) {
    memo *known = known_of(&a->q->run);
    char asked[64], key[KNOWN_KEY_BYTES];
    size_t length = 0, bytes = 0;
    snprintf(asked, sizeof asked, "settings of %d", i);
    if (known) length = known_key(asked, a->choice, PASS_FORWARD, key);
    const offer *before = known ? memo_find(known, key, length, &bytes) : NULL;
    if (before) memcpy(out, before, bytes);
    if (before) return STATUS_OK;
    TRY(look(a));
    const uint64_t refused = memory_refused();
    out->without = PASS_OPTIONAL;
    out->count = pass_table[i]->settings(&a->graph, &a->context, out->list, MAX_SETTINGS, &out->without);
    if (known && memory_refused() == refused) memo_keep(known, key, length, out, offer_bytes(out->count));
    return STATUS_OK;
}

/* The pinned setting, with the class that the pass gives it on this graph: "defer", for example, is EXACT
 * only where micro-batches are whole row tiles. */
static status pinned_choice(asking *a, int i, const offer *offered, choices *out) {
    const pass *p = pass_table[i];
    pass_setting pin = a->q->pins[i].setting;
    for (uint32_t k = 0; k < offered->count; k++)
        if (strcmp(offered->list[k].text, pin.text) == 0) pin = offered->list[k];
    if (p->check) TRY(look(a));
    if (p->check) TRY(p->check(&a->graph, &pin, &a->context));
    if (a->q->allowed == PASS_EXACT && pin.class > PASS_EXACT && !a->q->pins[i].held)
        return status_set(STATUS_INVALID, "--exact forbids '%s' of %s, which is %s; leave one of the two out",
                          pin.text, p->name, pass_class_name(pin.class));
    out->list[out->count++] = pin;
    return STATUS_OK;
}

static status take_offer(asking *a, int i, const offer *offered, choices *out) {
    const search_request *q = a->q;
    if (offered->count == MAX_SETTINGS)
        return status_set(STATUS_FAILED, "search: %s offers more than %d settings", pass_table[i]->name,
                          MAX_SETTINGS - 1);
    if (q->pins[i].kind == SEARCH_PINNED) return pinned_choice(a, i, offered, out);
    for (uint32_t k = 0; k < offered->count && q->pins[i].kind != SEARCH_OFF; k++)
        if (is_allowed(q, i, &offered->list[k])) out->list[out->count++] = offered->list[k];
    return STATUS_OK;
}

static status list_choices(asking *a, int i, choices *out) {
    const search_request *q = a->q;
    offer *offered;
    out->count = 0, out->spare_off = false;
    if (pass_table[i]->training_only && !a->context.training) {
        out->list[out->count++] = (pass_setting){ .class = PASS_EXACT };
        return STATUS_OK;
    }
    if (!(offered = memory_new(1, sizeof *offered))) return status_set(STATUS_FAILED, "no memory to search");
    status result = ask_pass(a, i, offered);
    if (result == STATUS_OK) result = take_offer(a, i, offered, out);
    const pass_without without = offered->without;
    memory_free(offered);
    if (result != STATUS_OK || q->pins[i].kind == SEARCH_PINNED || q->pins[i].kind == SEARCH_ON)
        return result;
    out->spare_off = without == PASS_NEARLY_FREE && out->count;
    if (without == PASS_OPTIONAL || without == PASS_NEARLY_FREE || (without == PASS_FREE && !out->count))
        out->list[out->count++] = (pass_setting){ .class = PASS_EXACT };
    return STATUS_OK;
}

static status list_stage(asking *a, choices *lists) {
    status result = STATUS_OK;
    for (int i = 0; pass_table[i] && result == STATUS_OK; i++)
        if (pass_table[i]->stage == a->stage) result = list_choices(a, i, &lists[i]);
    if (a->open) graph_close(&a->graph);
    return result;
}

/* ---- stems ---- */

/* The stems of one micro-batch, while they are listed. */
typedef struct {
    const search_request *q;
    space found;
    choices *lists;       /* by pass */
    status contradiction; /* of pins and one of the stems */
} enumeration;

static status add_stem(enumeration *e, const compose_choice *choice) {
    space *s = &e->found;
    space_stem stem = { .micro_batch = choice->micro_batch };
    uint32_t places = 0;
    for (int i = 0; pass_table[i]; i++) {
        if (pass_table[i]->stage != PASS_FORWARD) continue;
        TRY(intern(s, i, &choice->settings[i], &stem.forward[i]));
        stem.spare |= e->lists[i].spare_off && !choice->settings[i].text[0];
    }
    for (uint32_t k = 0; k < s->step_count; k++) {
        stem.lists[k] = (space_list){ s->place_count + places, (uint8_t)e->lists[s->step_of[k]].count };
        if (!stem.lists[k].count) return STATUS_OK; /* a pass has no setting left: no candidates */
        places += stem.lists[k].count;
    }
    space_stem *stems = memory_resize(s->stems, s->stem_count + 1u, sizeof *stems);
    if (stems) s->stems = stems;
    uint8_t *room = memory_resize(s->places, s->place_count + places, sizeof *room);
    if (room) s->places = room;
    if (!stems || !room) return status_set(STATUS_FAILED, "no memory to search");
    for (uint32_t k = 0; k < s->step_count; k++)
        for (uint32_t x = 0; x < stem.lists[k].count; x++)
            TRY(intern(s, s->step_of[k], &e->lists[s->step_of[k]].list[x], &room[stem.lists[k].first + x]));
    s->place_count += places;
    stems[s->stem_count++] = stem;
    return STATUS_OK;
}

/* The step passes see the graph after the forward passes. */
static status enumerate_step(enumeration *e, compose_choice *choice) {
    asking a = ask_about(e->q, choice, PASS_STEP);
    TRY(list_stage(&a, e->lists));
    return add_stem(e, choice);
}

/* Chooses a setting for each forward pass from i on, in every combination; then lists the step passes. */
static status enumerate_forward(enumeration *e, int i, compose_choice *choice) {
    while (pass_table[i] && pass_table[i]->stage != PASS_FORWARD) i++;
    if (!pass_table[i]) {
        status result = enumerate_step(e, choice);
        if (result != STATUS_INVALID) return result;
        e->contradiction = result; /* of pins and this stem: others may go with them */
        return STATUS_OK;
    }
    for (uint32_t k = 0; k < e->lists[i].count; k++) {
        choice->settings[i] = e->lists[i].list[k];
        TRY(enumerate_forward(e, i + 1, choice));
    }
    return STATUS_OK;
}

static status enumerate_micro_batch(enumeration *e, int64_t micro_batch) {
    compose_choice choice = { .micro_batch = micro_batch };
    asking a = ask_about(e->q, &choice, PASS_FORWARD);
    TRY(open_known(&e->found));
    e->lists = memory_new(PASS_MAX, sizeof *e->lists);
    if (!e->lists) return status_set(STATUS_FAILED, "no memory to search");
    status result = list_stage(&a, e->lists);
    if (result == STATUS_OK) result = enumerate_forward(e, 0, &choice);
    if (result == STATUS_OK && !e->found.stem_count) result = e->contradiction;
    memory_free(e->lists);
    return result;
}

/* ---- micro-batches ---- */

/* The largest divisor of n that is at most `most`. */
static int64_t divisor_up_to(int64_t n, int64_t most) {
    for (int64_t d = (n + most - 1) / most; d <= n / d; d++)
        if (n % d == 0) return n / d;
    int64_t m = (int64_t)sqrt((double)n) + 1;
    if (m > most) m = most;
    while (n % m) m--;
    return m;
}

/* Adds divisors of the batch, or of the unit: all of it, then each time the largest that is at most half of
 * the one before. `whole`: only those whose rows are whole row tiles. */
static uint32_t halve(const search_request *q, bool whole, int64_t *out, uint32_t count) {
    int64_t batch = q->run.training ? compose_unit(&q->run) : q->run.batch;
    for (int64_t m = batch; m && count < MAX_MICRO;) {
        bool take = !whole || m == batch || m * compose_least_rows(&q->run) % THREADS_ROW_TILE == 0;
        if (take) out[count++] = m;
        int64_t most = take ? m / 2 : m - 1;
        m = most ? divisor_up_to(batch, most) : 0;
    }
    return count;
}

static void sort_falling(int64_t *list, uint32_t *count) {
    uint32_t kept = 0;
    for (uint32_t i = 1; i < *count; i++)
        for (uint32_t k = i; k && list[k] > list[k - 1]; k--) {
            int64_t x = list[k];
            list[k] = list[k - 1], list[k - 1] = x;
        }
    for (uint32_t i = 0; i < *count; i++)
        if (!kept || list[kept - 1] != list[i]) list[kept++] = list[i];
    *count = kept;
}

/* --exact needs whole row tiles, since only they give the same bits. Those micro-batches are tried without
 * --exact as well: allowing more must not take candidates away. Where nothing is trained, a micro-batch is
 * what is evaluated in one call. A sum that goes from rank to rank wants whole tiles in any case. */
static uint32_t list_micro_batches(const search_request *q, int64_t out[MAX_MICRO]) {
    int64_t pinned = q->run.training ? q->micro_batch : q->run.eval_batch;
    if (pinned) {
        out[0] = pinned;
        return 1;
    }
    uint32_t count = halve(q, true, out, 0);
    if (q->allowed != PASS_EXACT && !compose_chained(&q->run)) count = halve(q, false, out, count);
    sort_falling(out, &count);
    return count;
}

/* ---- all of them ---- */

/* The sentence for pins that together leave nothing to try. */
static status nothing_left(const search_request *q) {
    char pins[256] = "";
    size_t n = 0;
    if (q->micro_batch)
        n += (size_t)snprintf(pins, sizeof pins, ", --micro-batch %lld", (long long)q->micro_batch);
    if (q->allowed == PASS_EXACT) n += (size_t)snprintf(pins + n, sizeof pins - n, ", --exact");
    for (int i = 0; pass_table[i] && n < sizeof pins; i++) {
        char option[PASS_OPTION_BYTES];
        if (q->pins[i].kind == SEARCH_AUTO) continue;
        const char *text = q->pins[i].kind == SEARCH_OFF ? "off" : q->pins[i].setting.text;
        n += (size_t)snprintf(pins + n, sizeof pins - n, ", --%s %s", pass_option(pass_table[i], option),
                              text);
    }
    return status_set(STATUS_INVALID, "what is pinned leaves no plan to try; set one of these to auto: %s",
                      n ? pins + 2 : "nothing is pinned");
}

/* Adds the stems of a part. Indexes into the part's settings become indexes into those of s. */
static status merge(space *s, const space *part) {
    if (!part->stem_count) return STATUS_OK;
    if (s->stem_count + part->stem_count > UINT16_MAX)
        return status_set(STATUS_FAILED, "search: there are more than %u stems", UINT16_MAX);
    space_stem *stems = memory_resize(s->stems, s->stem_count + part->stem_count, sizeof *stems);
    if (stems) s->stems = stems;
    uint8_t *places = memory_resize(s->places, s->place_count + part->place_count, sizeof *places);
    if (places) s->places = places;
    if (!stems || !places) return status_set(STATUS_FAILED, "no memory to search");
    for (uint32_t k = 0; k < part->stem_count; k++) {
        space_stem *x = &stems[s->stem_count];
        *x = part->stems[k];
        for (int i = 0; pass_table[i]; i++)
            TRY(intern(s, i, &part->known[i].settings[x->forward[i]], &x->forward[i]));
        for (uint32_t l = 0; l < s->step_count; l++) {
            x->lists[l].first = s->place_count;
            const space_list *from = &part->stems[k].lists[l];
            for (uint32_t y = 0; y < from->count; y++) {
                const pass_setting *setting =
                    &part->known[s->step_of[l]].settings[part->places[from->first + y]];
                TRY(intern(s, s->step_of[l], setting, &places[s->place_count]));
                s->place_count++;
            }
        }
        s->stem_count++;
    }
    return STATUS_OK;
}

/* The parts that are listed at once, each of one micro-batch. */
typedef struct {
    const search_request *q;
    const int64_t *micro;
    space found[AT_ONCE];
    status how[AT_ONCE];
} parts;

static void list_part(void *context, int64_t index, int thread) {
    parts *p = context;
    enumeration part = { .q = p->q };
    (void)thread;
    p->how[index] = enumerate_micro_batch(&part, p->micro[index]);
    p->found[index] = part.found;
}

/* What is left out for want of memory may be possible: no part may go missing so. The sentence of a part that
 * failed on another thread is that of doing it once more on this one. */
static status list_parts(parts *p, const int64_t *micro, uint32_t count, space *s) {
    uint64_t refused = memory_refused();
    status result = STATUS_OK;
    p->micro = micro;
    if (count == 1)
        list_part(p, 0, 0);
    else
        threads_for(count, list_part, p);
    for (uint32_t i = 0; i < count && result == STATUS_OK; i++) {
        if (p->how[i] == STATUS_FAILED && count > 1) {
            space_close(&p->found[i]);
            list_part(p, i, 0);
        }
        if (p->how[i] == STATUS_FAILED) result = STATUS_FAILED;
    }
    if (result == STATUS_OK && memory_refused() != refused)
        result = status_set(STATUS_FAILED, "there is no memory to look for a plan");
    for (uint32_t i = 0; i < count; i++) {
        if (result == STATUS_OK) result = merge(s, &p->found[i]);
        space_close(&p->found[i]);
    }
    return result;
}

/* Each micro-batch makes graphs as large as a candidate's, and nobody knows yet for how many there is memory:
 * so one after the other, but where the budget is not of the memory that they lie in. */
static uint32_t parts_at_once(const search_request *q) {
    bool plenty = compose_apart(&q->run) && !q->run.away_limit;
    uint32_t most = plenty ? (uint32_t)threads_count() : 1;
    return most < AT_ONCE ? most : AT_ONCE;
}

/* A micro-batch that cannot be done is no failure while another can. Where none can, the first, which is the
 * largest, says why. */
status space_open(const search_request *q, space *s) {
    *s = (space){ 0 };
    int64_t micro[MAX_MICRO];
    uint32_t count = list_micro_batches(q, micro), most = parts_at_once(q);
    parts p = { .q = q };
    TRY(open_known(s));
    for (uint32_t i = 0; i < count; i += most)
        TRY(list_parts(&p, micro + i, count - i < most ? count - i : most, s));
    if (s->stem_count) return STATUS_OK;
    TRY(list_parts(&p, micro, 1, s)); /* its sentence once more */
    return p.how[0] == STATUS_OK ? nothing_left(q) : p.how[0];
}

void space_close(space *s) {
    for (int i = 0; i < PASS_MAX; i++) memory_free(s->known[i].settings);
    memory_free(s->stems);
    memory_free(s->places);
    *s = (space){ 0 };
}

/* ---- candidates ---- */

uint64_t space_size(const space *s) {
    uint64_t size = 0;
    for (uint32_t k = 0; k < s->stem_count; k++) {
        uint64_t of_stem = 1;
        for (uint32_t l = 0; l < s->step_count; l++) of_stem *= s->stems[k].lists[l].count;
        size += of_stem;
    }
    return size;
}

const pass_setting *space_setting(const space *s, const space_code *c, uint32_t step) {
    const space_list *list = &s->stems[c->stem].lists[step];
    return &s->known[s->step_of[step]].settings[s->places[list->first + c->at[step]]];
}

compose_choice space_choice(const space *s, const space_code *c) {
    const space_stem *stem = &s->stems[c->stem];
    compose_choice choice = { .micro_batch = stem->micro_batch };
    for (int i = 0; pass_table[i]; i++) choice.settings[i] = s->known[i].settings[stem->forward[i]];
    for (uint32_t k = 0; k < s->step_count; k++) choice.settings[s->step_of[k]] = *space_setting(s, c, k);
    return choice;
}

pass_class space_class(const space *s, const space_code *c) {
    pass_class class = PASS_EXACT;
    for (int i = 0; pass_table[i]; i++) {
        const pass_setting *x = &s->known[i].settings[s->stems[c->stem].forward[i]];
        if (x->text[0] && x->class > class) class = x->class;
    }
    for (uint32_t k = 0; k < s->step_count; k++) {
        const pass_setting *x = space_setting(s, c, k);
        if (x->text[0] && x->class > class) class = x->class;
    }
    return class;
}

int space_compare(const space_code *a, const space_code *b) {
    if (a->stem != b->stem) return a->stem < b->stem ? -1 : 1;
    return memcmp(a->at, b->at, sizeof a->at);
}
