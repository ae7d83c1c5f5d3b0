#include "search/advise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/nearest.h"
#include "base/text.h"
#include "base/units.h"

/* ---- what the user allows ---- */

/* --allow is about these. A pass that is asked_for decides what is trained: that is no choice of the planner.
 */
static bool is_lossy(const pass *p) { return p->class == PASS_LOSSY && !p->asked_for; }
static bool is_to_be_allowed(const pass *p) { return is_lossy(p) || p->open; }

/* "precision, optimizer-state" */
static void add_lossy_options(text *out) {
    char option[PASS_OPTION_BYTES];
    for (int i = 0; pass_table[i]; i++)
        if (is_to_be_allowed(pass_table[i]))
            text_add(out, "%s%s", out->length ? ", " : "", pass_option(pass_table[i], option));
}

static status unknown_technique(const char *name) {
    text known = { 0 };
    char near[NEAREST_BYTES] = "";
    add_lossy_options(&known);
    if (known.data) nearest_listed(name, known.data, near);
    status failed =
        status_set(STATUS_INVALID, "--allow: '%s' is no technique that changes numerics; %s%s%s%s%s%s", name,
                   *near ? "did you mean " : "", near, *near ? "? " : "",
                   known.data ? "there are " : "there are none: nothing has to be allowed",
                   known.data ? known.data : "", known.data ? ", and all" : "");
    text_close(&known);
    return failed;
}

static int find_technique(const char *name) {
    char option[PASS_OPTION_BYTES];
    for (int i = 0; pass_table[i]; i++)
        if (strcmp(pass_option(pass_table[i], option), name) == 0) return i;
    return -1;
}

/* "precision" or "precision=bf16". */
static status allow_one(search_request *q, char *item) {
    char option[PASS_OPTION_BYTES], *setting = strchr(item, '=');
    pass_setting read = { .class = PASS_LOSSY };
    if (setting) *setting++ = 0;
    if (!setting && strcmp(item, "all") == 0) {
        for (int i = 0; pass_table[i]; i++) q->lossy[i].given = !pass_table[i]->asked_for;
        return STATUS_OK;
    }
    int i = find_technique(item);
    if (i < 0) return unknown_technique(item);
    pass_option(pass_table[i], option);
    if (pass_table[i]->asked_for)
        return status_set(
            STATUS_INVALID,
            "--allow: %s is nothing that a budget chooses; where it is wanted, say --%s and its setting",
            option, option);
    if (setting) TRY(pass_table[i]->parse(setting, &read));
    if (!is_to_be_allowed(pass_table[i]) || (read.class != PASS_LOSSY && !pass_table[i]->open))
        return status_set(STATUS_INVALID,
                          "--allow: %s%s%s does not change numerics, so that the planner uses it without "
                          "being asked; leave it out",
                          option, setting ? "=" : "", setting ? setting : "");
    q->lossy[i].given = q->lossy[i].named = true;
    if (setting) snprintf(q->lossy[i].setting, sizeof q->lossy[i].setting, "%s", read.text);
    return STATUS_OK;
}

status advise_allow(search_request *q, const char *list) {
    char item[PASS_OPTION_BYTES + 64];
    for (const char *at = list; *at; at += strspn(at, ", ")) {
        size_t length = strcspn(at, ", ");
        if (length >= sizeof item)
            return status_set(STATUS_INVALID, "--allow: '%.60s...' is no technique", at);
        snprintf(item, sizeof item, "%.*s", (int)length, at);
        if (length) TRY(allow_one(q, item));
        at += length;
    }
    return STATUS_OK;
}

/* The least budget of q; UINT64_MAX: it cannot be planned, or takes more than `budget`. */
static uint64_t least_within(const search_request *q, uint64_t budget) {
    search_front front;
    if (search_within(q, budget, &(search_wish){ 0 }, &front) != STATUS_OK) return UINT64_MAX;
    uint64_t least = front.count ? search_least(&front) : UINT64_MAX;
    search_close(&front);
    return least;
}

/* ---- the cheapest set of allowances ---- */

/* Could this technique's LOSSY settings be allowed, or more of them than are? */
static bool could_be_allowed(const search_request *q, int i) {
    return is_lossy(pass_table[i]) && q->pins[i].kind == SEARCH_AUTO &&
           !(q->lossy[i].given && !q->lossy[i].setting[0]);
}

static void allow_all_of(search_request *q, int i) {
    q->lossy[i].given = true;
    q->lossy[i].setting[0] = 0;
}

static bool allowed_already(const search_request *q, int i, const pass_setting *s) {
    return q->lossy[i].given && (!q->lossy[i].setting[0] || strcmp(q->lossy[i].setting, s->text) == 0);
}

/* The LOSSY settings of x that q does not allow, as --allow takes them. */
static void write_set(const search_request *q, const search_point *x, char set[ADVISE_SET_BYTES]) {
    char option[PASS_OPTION_BYTES];
    size_t used = 0;
    set[0] = 0;
    for (int i = 0; pass_table[i]; i++) {
        const pass_setting *s = &x->choice.settings[i];
        if (!could_be_allowed(q, i) || !s->text[0] || s->class != PASS_LOSSY || allowed_already(q, i, s))
            continue;
        if (used < ADVISE_SET_BYTES)
            used += (size_t)snprintf(set + used, ADVISE_SET_BYTES - used, "%s%s=%s", used ? "," : "",
                                     pass_option(pass_table[i], option), s->text);
    }
}

/* Is there any plan of q within the budget? */
static bool fits(const search_request *q, uint64_t budget) {
    search_front front;
    if (search_within(q, budget, &(search_wish){ .budget = budget, .only = SEARCH_ANY }, &front) != STATUS_OK)
        return false;
    bool any = front.count != 0;
    search_close(&front);
    return any;
}

/* The fastest plan of q within the budget, if it is faster than *best. */
static void take_faster(const search_request *q, uint64_t budget, search_point *best) {
    search_front front;
    search_wish wish = { .budget = budget, .only = SEARCH_FASTEST };
    if (search_within(q, budget, &wish, &front) != STATUS_OK) return;
    const search_point *x = search_pick(&front, budget);
    if (x && (!best->peak_bytes || x->seconds < best->seconds)) *best = *x;
    search_close(&front);
}

/* Every way to allow exactly `more` techniques, from pass i on, beside what q allows. */
static void try_sets(const search_request *q, int i, uint32_t more, uint64_t budget, search_point *best) {
    if (!more) {
        take_faster(q, budget, best);
        return;
    }
    for (; pass_table[i]; i++) {
        search_request wider = *q;
        if (!could_be_allowed(q, i)) continue;
        allow_all_of(&wider, i);
        try_sets(&wider, i + 1, more - 1, budget, best);
    }
}

void advise_lossy(const search_request *q, uint64_t budget, char set[ADVISE_SET_BYTES], search_point *point) {
    search_request all = *q;
    uint32_t techniques = 0;
    set[0] = 0;
    *point = (search_point){ 0 };
    for (int i = 0; pass_table[i]; i++)
        if (could_be_allowed(q, i)) allow_all_of(&all, i), techniques++;
    try_sets(q, 0, 1, budget, point); /* mostly one is enough, or it shows soon that none is */
    if (!point->peak_bytes && techniques > 1 && !fits(&all, budget)) return; /* nothing would do */
    for (uint32_t n = 2; n <= techniques && !point->peak_bytes; n++) try_sets(q, 0, n, budget, point);
    write_set(q, point, set);
}

/* ---- refusing ---- */

/* What can stand in the way: passes, by their index in pass_table, and these. */
enum {
    RELEASE_EVAL_BATCH = -4,
    RELEASE_MICRO_BATCH = -3,
    RELEASE_CLIPPING = -2,
    RELEASE_EXACT = -1,
    OPTION_BYTES = 64
};

/* Unpins what i stands for. `option`: what the user would say. False: it is not pinned. */
static bool release(search_request *q, int i, char option[OPTION_BYTES]) {
    char name[PASS_OPTION_BYTES];
    if (i == RELEASE_EVAL_BATCH) {
        if (!q->run.eval_batch) return false;
        q->run.eval_batch = 0;
        snprintf(option, OPTION_BYTES, "--eval-batch auto");
    } else if (i == RELEASE_MICRO_BATCH) {
        if (!q->micro_batch) return false;
        q->micro_batch = 0;
        snprintf(option, OPTION_BYTES, "--micro-batch auto (and no --accumulate)");
    } else if (i == RELEASE_CLIPPING) {
        if (!(q->run.optimizer.clip > 0)) return false;
        q->run.optimizer.clip = 0;
        snprintf(option, OPTION_BYTES, "--clip off");
    } else if (i == RELEASE_EXACT) {
        if (q->allowed != PASS_EXACT) return false;
        q->allowed = PASS_REASSOCIATING;
        snprintf(option, OPTION_BYTES, "no --exact");
    } else {
        if (q->pins[i].kind == SEARCH_AUTO) return false;
        q->pins[i].kind = SEARCH_AUTO;
        snprintf(option, OPTION_BYTES, "--%s auto", pass_option(pass_table[i], name));
    }
    return true;
}

/* Adds one way out: the options to say, and the least budget then. */
static void add_way(text *out, const char *option, uint64_t needs) {
    char least[UNITS_TEXT_BYTES];
    text_add(out, "%s%s (needs %s)", out->length ? ", or " : "", option, units_bytes_text(needs, least));
}

/* Each pin whose release alone would do; where there is none, all of them together. */
static void advise_releases(const search_request *q, uint64_t budget, text *out) {
    char option[OPTION_BYTES];
    text all = { 0 };
    uint32_t released = 0;
    search_request freed = *q;
    for (int i = RELEASE_EVAL_BATCH; i < 0 || pass_table[i]; i++) {
        search_request without = *q;
        if (!release(&without, i, option)) continue;
        release(&freed, i, option);
        text_add(&all, "%s%s", released++ ? ", " : "", option);
        uint64_t least = least_within(&without, budget);
        if (least <= budget) add_way(out, option, least);
    }
    uint64_t together = !out->length && released > 1 ? least_within(&freed, budget) : UINT64_MAX;
    if (together <= budget && all.data) {
        text_add(&all, " together");
        add_way(out, all.data, together);
    }
    text_close(&all);
}

static void advise_allowances(const search_request *q, uint64_t budget, text *out) {
    char set[ADVISE_SET_BYTES], option[ADVISE_SET_BYTES + 64];
    search_request wide = *q;
    search_point x;
    bool exact = q->allowed == PASS_EXACT;
    if (exact) wide.allowed = PASS_REASSOCIATING;
    advise_lossy(&wide, budget, set, &x);
    if (!x.peak_bytes) return;
    snprintf(option, sizeof option, "%s--allow %s, which changes numerics", exact ? "no --exact and " : "",
             set);
    add_way(out, option, x.peak_bytes);
}

/* A folder for what does not stay in memory costs time and no bits. */
static void advise_folder(const search_request *q, uint64_t budget, text *out) {
    search_request with = *q;
    with.run.folder = ".";
    bool has_room = compose_apart(&q->run) && !q->run.away_limit; /* of the host's memory */
    uint64_t least = q->run.folder || has_room || !q->run.training ? UINT64_MAX : least_within(&with, budget);
    if (least <= budget) add_way(out, "--offload-to DIR, which is slower", least);
}

static void advise_limit(const search_request *q, uint64_t budget, text *out) {
    search_request with = *q;
    with.run.away_limit = 0;
    uint64_t least = q->run.away_limit ? least_within(&with, budget) : UINT64_MAX;
    if (least <= budget) add_way(out, "a larger --offload-limit", least);
}

void advise_run(const search_request *q, uint64_t budget, char advice[ADVISE_BYTES]) {
    text out = { 0 };
    advise_releases(q, budget, &out);
    advise_folder(q, budget, &out);
    advise_limit(q, budget, &out);
    advise_allowances(q, budget, &out);
    snprintf(advice, ADVISE_BYTES, "%s", out.data ? out.data : "");
    text_close(&out);
}
