#include "search/candidates.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/threads.h"

enum { MAX_SETTINGS = 64, MAX_MICRO = 10 };

/* ---- what to try for one pass ---- */

typedef struct {
    pass_setting list[MAX_SETTINGS + 1]; /* empty text: off */
    uint32_t count;
} choices;

/* A pinned setting, with the class that the pass gives it here (defer is exact on whole row tiles, say). */
static status pinned_choice(const search_request *q, int i, const graph *g, const pass_context *c,
                            const choices *offered, choices *out) {
    const pass *p = pass_table[i];
    pass_setting pin = q->pins[i].setting;
    for (uint32_t k = 0; k < offered->count; k++)
        if (strcmp(offered->list[k].text, pin.text) == 0) pin = offered->list[k];
    if (p->check) TRY(p->check(g, &pin, c));
    if (q->allowed == PASS_EXACT && pin.class > PASS_EXACT)
        return status_set(STATUS_INVALID, "--exact forbids '%s' of %s, which is %s; leave one of the two out",
                          pin.text, p->name, pass_class_name(pin.class));
    out->list[out->count++] = pin;
    return STATUS_OK;
}

static bool is_allowed(const search_request *q, int i, const pass_setting *s) {
    if (s->class <= q->allowed) return true;
    const char *only = q->lossy[i].setting;
    return q->allowed != PASS_EXACT && q->lossy[i].given && (!only[0] || strcmp(only, s->text) == 0);
}

static status list_choices(const search_request *q, int i, const graph *g, const pass_context *c,
                           choices *out) {
    choices offered = { 0 };
    pass_without without = PASS_OPTIONAL;
    out->count = 0;
    if (pass_table[i]->training_only && !c->training) {
        out->list[out->count++] = (pass_setting){ .class = PASS_EXACT };
        return STATUS_OK;
    }
    offered.count = pass_table[i]->settings(g, c, offered.list, MAX_SETTINGS, &without);
    if (q->pins[i].kind == SEARCH_PINNED) return pinned_choice(q, i, g, c, &offered, out);
    for (uint32_t k = 0; k < offered.count && q->pins[i].kind != SEARCH_OFF; k++)
        if (is_allowed(q, i, &offered.list[k])) out->list[out->count++] = offered.list[k];
    if (q->pins[i].kind == SEARCH_ON) return STATUS_OK;
    if (without == PASS_OPTIONAL || (without == PASS_FREE && !out->count))
        out->list[out->count++] = (pass_setting){ .class = PASS_EXACT };
    return STATUS_OK;
}

/* ---- candidates ---- */

/* Those of one micro-batch. */
typedef struct {
    const search_request *q;
    candidates found;
    status failed; /* a contradiction of pins */
} enumeration;

static void add_candidate(candidates *found, const compose_choice *choice) {
    if (found->count == CANDIDATES_MOST) return;
    pass_class class = PASS_EXACT;
    for (int i = 0; pass_table[i]; i++)
        if (choice->settings[i].text[0] && choice->settings[i].class > class)
            class = choice->settings[i].class;
    found->points[found->count++] = (search_point){ .choice = *choice, .class = class };
}

/* All combinations of the listed settings of step passes from pass i on. */
static void combine(enumeration *e, const choices *lists, int i, compose_choice *choice) {
    while (pass_table[i] && pass_table[i]->stage != PASS_STEP) i++;
    if (!pass_table[i]) {
        add_candidate(&e->found, choice);
        return;
    }
    for (uint32_t k = 0; k < lists[i].count; k++) {
        choice->settings[i] = lists[i].list[k];
        combine(e, lists, i + 1, choice);
    }
}

static status enumerate_step(enumeration *e, choices *lists, compose_choice *choice) {
    const compose_run *r = &e->q->run;
    graph g;
    status result = compose_graph(r, choice, PASS_STEP, &g);
    pass_context c = compose_context(r, choice);
    for (int i = 0; pass_table[i] && result == STATUS_OK; i++)
        if (pass_table[i]->stage == PASS_STEP) result = list_choices(e->q, i, &g, &c, &lists[i]);
    if (result == STATUS_OK) combine(e, lists, 0, choice);
    graph_close(&g);
    return result;
}

/* Forward passes one after the other (each sees the model's graph), then the step passes. */
static status enumerate_forward(enumeration *e, choices *lists, int i, compose_choice *choice) {
    while (pass_table[i] && pass_table[i]->stage != PASS_FORWARD) i++;
    if (!pass_table[i]) return enumerate_step(e, lists, choice);
    for (uint32_t k = 0; k < lists[i].count; k++) {
        choice->settings[i] = lists[i].list[k];
        TRY(enumerate_forward(e, lists, i + 1, choice));
    }
    return STATUS_OK;
}

static status enumerate_micro_batch(enumeration *e, int64_t micro_batch) {
    const compose_run *r = &e->q->run;
    compose_choice choice = { .micro_batch = micro_batch };
    pass_context c = compose_context(r, &choice);
    choices *lists = memory_new(PASS_MAX, sizeof *lists);
    if (!lists) return status_set(STATUS_FAILED, "no memory to search");
    graph g;
    status result = compose_graph(r, &choice, PASS_FORWARD, &g);
    for (int i = 0; pass_table[i] && result == STATUS_OK; i++)
        if (pass_table[i]->stage == PASS_FORWARD) result = list_choices(e->q, i, &g, &c, &lists[i]);
    graph_close(&g);
    if (result == STATUS_OK) result = enumerate_forward(e, lists, 0, &choice);
    memory_free(lists);
    return result;
}

/* The largest divisor of n that is at most `most`. */
static int64_t divisor_up_to(int64_t n, int64_t most) {
    for (int64_t d = (n + most - 1) / most; d <= n / d; d++)
        if (n % d == 0) return n / d;
    int64_t m = (int64_t)sqrt((double)n) + 1;
    if (m > most) m = most;
    while (n % m) m--;
    return m;
}

/* Divisors of the batch, the whole of it first, each at most half of the one before, down to the smallest;
 * where that makes too many, some in between are left out. Exact runs need whole row tiles. Where nothing is
 * trained they are what is evaluated at once. */
static uint32_t list_micro_batches(const search_request *q, int64_t out[MAX_MICRO]) {
    int64_t all[64], batch = q->run.batch;
    int64_t pinned = q->run.training ? q->micro_batch : q->run.eval_batch;
    uint32_t count = 0, kept = 0;
    if (pinned) {
        out[0] = pinned;
        return 1;
    }
    for (int64_t m = batch; m;) {
        bool whole = m == batch || m * q->run.context % THREADS_ROW_TILE == 0;
        bool take = whole || q->allowed != PASS_EXACT;
        if (take) all[count++] = m;
        int64_t most = take ? m / 2 : m - 1;
        m = most ? divisor_up_to(batch, most) : 0;
    }
    for (; kept < MAX_MICRO && kept < count; kept++)
        out[kept] = count <= MAX_MICRO ? all[kept] : all[kept * (count - 1) / (MAX_MICRO - 1)];
    return kept;
}

/* ---- all of them ---- */

/* Names what was pinned: together these leave nothing to try. */
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

/* Room for all there can be, 20 MiB of which few are used: in address space, since what comes from malloc is
 * written to be zero when it is handed out again. */
static const size_t ROOM = CANDIDATES_MOST * sizeof(search_point);

static candidates candidates_open(void) { return (candidates){ .points = memory_reserve(ROOM) }; }

void candidates_close(candidates *c) {
    memory_release(c->points, ROOM, c->count * sizeof *c->points);
    *c = (candidates){ 0 };
}

typedef struct {
    const search_request *q;
    int64_t micro[MAX_MICRO];
    enumeration parts[MAX_MICRO];
} enumerations;

static void enumerate_one(void *context, int64_t index, int thread) {
    (void)thread;
    enumerations *a = context;
    enumeration *e = &a->parts[index];
    *e = (enumeration){ .q = a->q, .found = candidates_open() };
    e->failed = e->found.points ? enumerate_micro_batch(e, a->micro[index]) : STATUS_FAILED;
}

/* On all threads; what one micro-batch cannot do is no failure while another can. When none can, the largest,
 * which comes first, says why. */
status candidates_list(const search_request *q, candidates *c) {
    enumerations a = { .q = q };
    enumeration all = { .q = q, .found = candidates_open() };
    uint32_t count = list_micro_batches(q, a.micro);
    status result = all.found.points ? STATUS_OK : status_set(STATUS_FAILED, "no memory to search");
    if (result == STATUS_OK) threads_for(count, enumerate_one, &a);
    for (uint32_t i = 0; i < count && all.found.points; i++) {
        candidates *part = &a.parts[i].found;
        uint32_t room = CANDIDATES_MOST - all.found.count, taken = part->count < room ? part->count : room;
        if (taken) memcpy(&all.found.points[all.found.count], part->points, taken * sizeof *part->points);
        all.found.count += taken;
        if (a.parts[i].failed != STATUS_OK) result = a.parts[i].failed;
        candidates_close(part);
    }
    if (all.found.count)
        result = STATUS_OK;
    else if (all.found.points) {
        if (result != STATUS_OK) result = enumerate_micro_batch(&all, a.micro[0]);
        if (result == STATUS_OK && !all.found.count) result = nothing_left(q);
    }
    *c = all.found;
    return result;
}
