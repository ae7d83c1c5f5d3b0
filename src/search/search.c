#define _GNU_SOURCE
#include "search/search.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/threads.h"
#include "base/units.h"
#include "search/front.h"

enum { MAX_CANDIDATES = 4096, MAX_SETTINGS = 64, MAX_MICRO = 10 };

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

uint32_t search_offers(const compose_run *r, const compose_choice *choice, int i, pass_setting *out,
                       uint32_t room) {
    graph g;
    pass_context c = compose_context(r, choice);
    pass_without without = PASS_OPTIONAL;
    uint32_t count = 0;
    if (compose_graph(r, choice, pass_table[i]->stage, &g) == STATUS_OK)
        count = pass_table[i]->settings(&g, &c, out, room, &without);
    graph_close(&g);
    return count;
}

/* ---- candidates ---- */

typedef struct {
    const search_request *q;
    search_point *points;
    uint32_t count;
    status failed; /* a contradiction of pins */
} enumeration;

static bool add_candidate(enumeration *e, const compose_choice *choice) {
    if (e->count == MAX_CANDIDATES) return false;
    pass_class class = PASS_EXACT;
    for (int i = 0; pass_table[i]; i++)
        if (choice->settings[i].text[0] && choice->settings[i].class > class)
            class = choice->settings[i].class;
    e->points[e->count++] = (search_point){ .choice = *choice, .class = class };
    return true;
}

/* All combinations of the listed settings of step passes from pass i on. */
static void combine(enumeration *e, const choices *lists, int i, compose_choice *choice) {
    while (pass_table[i] && pass_table[i]->stage != PASS_STEP) i++;
    if (!pass_table[i]) {
        add_candidate(e, choice);
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

/* ---- planning them ---- */

void search_plan(const compose_run *r, uint64_t limit, search_point *points, uint32_t count) {
    if (front_plan(r, limit, points, count) == STATUS_OK) return;
    for (uint32_t i = 0; i < count; i++) points[i].peak_bytes = 0;
}

static void plan_plain(const search_request *q, search_point *plain) {
    *plain = (search_point){ .choice = { .micro_batch = q->run.batch } };
    search_plan(&q->run, UINT64_MAX, plain, 1);
}

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

/* Room for all candidates there can be, 20 MiB of which few are used: in address space, since what comes from
 * malloc is written to be zero when it is handed out again. */
static const size_t ROOM = MAX_CANDIDATES * sizeof(search_point);

static search_point *points_open(void) { return memory_reserve(ROOM); }
static void points_close(search_point *points, uint32_t used) {
    memory_release(points, ROOM, used * sizeof *points);
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
    *e = (enumeration){ .q = a->q, .points = points_open() };
    e->failed = e->points ? enumerate_micro_batch(e, a->micro[index]) : STATUS_FAILED;
}

/* Candidates of all micro-batches, on all threads; what one of them cannot do is no failure while another
 * can. When none can, the largest, which comes first, says why. */
static status enumerate(enumeration *e) {
    enumerations a = { .q = e->q };
    uint32_t count = list_micro_batches(e->q, a.micro);
    status result = STATUS_OK;
    threads_for(count, enumerate_one, &a);
    for (uint32_t i = 0; i < count; i++) {
        const enumeration *part = &a.parts[i];
        uint32_t room = MAX_CANDIDATES - e->count, taken = part->count < room ? part->count : room;
        if (taken) memcpy(&e->points[e->count], part->points, taken * sizeof *e->points);
        e->count += taken;
        if (part->failed != STATUS_OK) result = part->failed;
        points_close(part->points, part->count);
    }
    if (e->count) return STATUS_OK;
    if (result != STATUS_OK) result = enumerate_micro_batch(e, a.micro[0]);
    return result != STATUS_OK ? result : nothing_left(e->q);
}

/* Keeps the front; when no candidate can be planned, the first says why. */
static status keep_front(enumeration *e, uint64_t limit) {
    search_point first = e->points[0];
    TRY(front_keep(&e->q->run, limit, e->points, &e->count));
    if (e->count || limit < UINT64_MAX) return STATUS_OK;
    plan p;
    TRY(compose_plan(&e->q->run, &first.choice, &p));
    plan_close(&p);
    return status_set(STATUS_FAILED, "no candidate could be planned for want of memory");
}

static status copy_front(const enumeration *e, search_front *front) {
    front->points = memory_new(e->count, sizeof *e->points);
    if (!front->points) return status_set(STATUS_FAILED, "no memory to search");
    if (e->count) memcpy(front->points, e->points, e->count * sizeof *e->points);
    front->count = e->count;
    return STATUS_OK;
}

status search_within(const search_request *q, uint64_t limit, search_front *front) {
    double begin = clock_seconds();
    *front = (search_front){ 0 };
    enumeration e = { .q = q, .points = points_open() };
    if (!e.points) return status_set(STATUS_FAILED, "no memory to search");
    status result = enumerate(&e);
    front->candidates = e.count;
    if (result == STATUS_OK) result = keep_front(&e, limit);
    if (result == STATUS_OK) result = copy_front(&e, front);
    front->elapsed = clock_seconds() - begin;
    points_close(e.points, front->candidates);
    return result;
}

status search_run(const search_request *q, search_front *front) {
    double begin = clock_seconds();
    TRY(search_within(q, UINT64_MAX, front));
    plan_plain(q, &front->plain);
    memory_trim();
    front->elapsed = clock_seconds() - begin;
    return STATUS_OK;
}

void search_close(search_front *front) {
    memory_free(front->points);
    *front = (search_front){ 0 };
}

const search_point *search_pick(const search_front *front, uint64_t budget) {
    const search_point *best = NULL;
    for (uint32_t i = 0; i < front->count && front->points[i].peak_bytes <= budget; i++)
        best = &front->points[i];
    return best;
}

/* ---- explaining ---- */

/* What it comes to with the settings of passes up to i. */
static search_point up_to(const search_point *before, const search_point *point, int i, int64_t batch) {
    search_point next = { .choice = before->choice };
    next.choice.settings[i] = point->choice.settings[i];
    bool split = pass_table[i + 1] == NULL && point->choice.micro_batch < batch;
    if (split) next.choice.micro_batch = point->choice.micro_batch;
    return next;
}

static search_share share_of(int i, const search_point *before, const search_point *after) {
    const pass_setting *s = &after->choice.settings[i];
    search_share share = { .class = s->class };
    snprintf(share.name, sizeof share.name, "%s", pass_table[i]->name);
    snprintf(share.setting, sizeof share.setting, "%s", s->text);
    if (after->peak_bytes &&
        before->peak_bytes) { /* else one of them cannot be planned: there is no change */
        share.bytes = (int64_t)after->peak_bytes - (int64_t)before->peak_bytes;
        share.seconds = after->seconds - before->seconds;
    }
    return share;
}

status search_explain(const search_request *q, const search_point *point, search_share *shares, uint32_t room,
                      uint32_t *count) {
    int of[PASS_MAX];
    search_point *steps = memory_new(PASS_MAX + 1, sizeof *steps);
    *count = 0;
    if (!steps) return status_set(STATUS_FAILED, "no memory to search");
    steps[0].choice.micro_batch = q->run.batch;
    if (!q->run.training) steps[0].choice.micro_batch = point->choice.micro_batch; /* no technique's doing */
    for (int i = 0; pass_table[i] && *count < room; i++) {
        if (!point->choice.settings[i].text[0]) continue;
        steps[*count + 1] = up_to(&steps[*count], point, i, q->run.batch);
        of[(*count)++] = i;
    }
    search_plan(&q->run, UINT64_MAX, steps, *count + 1);
    for (uint32_t k = 0; k < *count; k++) shares[k] = share_of(of[k], &steps[k], &steps[k + 1]);
    memory_free(steps);
    return STATUS_OK;
}
