#include "search/advise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/nearest.h"
#include "base/text.h"
#include "base/units.h"

/* ---- what the user allows ---- */

/* What decides what is trained is not up to the planner. */
static bool is_lossy(const pass *p) { return p->class == PASS_LOSSY && !p->asked_for; }

/* "precision, optimizer-state" */
static void add_lossy_options(text *out) {
    char option[PASS_OPTION_BYTES];
    for (int i = 0; pass_table[i]; i++)
        if (is_lossy(pass_table[i]))
            text_add(out, "%s%s", out->length ? ", " : "", pass_option(pass_table[i], option));
}

static status unknown_technique(const char *name) {
    text known = { 0 };
    char near[NEAREST_BYTES] = "";
    add_lossy_options(&known);
    if (known.data) nearest_listed(name, known.data, near);
    status_set(STATUS_INVALID, "--allow: '%s' is no technique that changes numerics; %s%s%s%s%s%s", name,
               *near ? "did you mean " : "", near, *near ? "? " : "",
               known.data ? "there are " : "there are none: nothing has to be allowed",
               known.data ? known.data : "", known.data ? ", and all" : "");
    text_close(&known);
    return STATUS_INVALID;
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
    if (!is_lossy(pass_table[i]) || read.class != PASS_LOSSY)
        return status_set(STATUS_INVALID,
                          "--allow: %s%s%s does not change numerics, so that the planner uses it without "
                          "being asked; leave it out",
                          option, setting ? "=" : "", setting ? setting : "");
    q->lossy[i].given = true;
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

/* ---- the cheapest set of allowances ---- */

/* Sets are tried on the leanest plans that need none: what is lean without a LOSSY technique is with one. */
enum { MAX_SETTINGS = 16, MAX_TRIED = 512 };

typedef struct {
    const search_request *q;
    pass_setting settings[PASS_MAX][MAX_SETTINGS]; /* by pass: LOSSY ones that could be allowed */
    uint32_t count[PASS_MAX];
    search_point *tried;
    uint32_t tried_count;
} allowances;

static bool allowed_already(const search_request *q, int i, const pass_setting *s) {
    return q->lossy[i].given && (!q->lossy[i].setting[0] || strcmp(q->lossy[i].setting, s->text) == 0);
}

static void list_allowances(allowances *a, const compose_choice *base) {
    pass_setting offered[MAX_SETTINGS * 4];
    for (int i = 0; pass_table[i]; i++) {
        if (!is_lossy(pass_table[i]) || a->q->pins[i].kind != SEARCH_AUTO) continue;
        uint32_t count = search_offers(&a->q->run, base, i, offered, MAX_SETTINGS * 4);
        for (uint32_t k = 0; k < count && a->count[i] < MAX_SETTINGS; k++)
            if (offered[k].class == PASS_LOSSY && !allowed_already(a->q, i, &offered[k]))
                a->settings[i][a->count[i]++] = offered[k];
    }
}

/* Every way to add settings of exactly `more` techniques, from pass i on, to the choice. */
static void add_sets(allowances *a, int i, uint32_t more, compose_choice *choice) {
    if (!more) {
        if (a->tried_count < MAX_TRIED) a->tried[a->tried_count++] = (search_point){ .choice = *choice };
        return;
    }
    for (; pass_table[i]; i++) {
        pass_setting before = choice->settings[i];
        for (uint32_t k = 0; k < a->count[i]; k++) {
            choice->settings[i] = a->settings[i][k];
            add_sets(a, i + 1, more - 1, choice);
        }
        choice->settings[i] = before;
    }
}

/* The request with what the point uses allowed as well; as text too. */
static search_request allowing(const allowances *a, const search_point *x, char set[ADVISE_SET_BYTES]) {
    search_request q = *a->q;
    char option[PASS_OPTION_BYTES];
    size_t used = 0;
    set[0] = 0;
    for (int i = 0; pass_table[i]; i++) {
        const pass_setting *s = &x->choice.settings[i];
        if (!a->count[i] || !s->text[0] || s->class != PASS_LOSSY || allowed_already(a->q, i, s)) continue;
        q.lossy[i].given = true;
        snprintf(q.lossy[i].setting, sizeof q.lossy[i].setting, "%s", s->text);
        if (used < ADVISE_SET_BYTES)
            used += (size_t)snprintf(set + used, ADVISE_SET_BYTES - used, "%s%s=%s", used ? "," : "",
                                     pass_option(pass_table[i], option), s->text);
    }
    return q;
}

static int compare_seconds(const void *one, const void *other) {
    const search_point *x = one, *y = other;
    return (x->seconds > y->seconds) - (x->seconds < y->seconds);
}

/* Of the sets that were tried: those that fit are searched in earnest, the promising ones first, since the
 * leanest plan is not the fastest. */
static void choose_set(allowances *a, uint64_t budget, char set[ADVISE_SET_BYTES], search_point *best) {
    enum { IN_EARNEST = 4 };
    char seen[IN_EARNEST][ADVISE_SET_BYTES];
    uint32_t searched = 0;
    qsort(a->tried, a->tried_count, sizeof *a->tried, compare_seconds);
    for (uint32_t t = 0; t < a->tried_count && searched < IN_EARNEST; t++) {
        if (!a->tried[t].peak_bytes || a->tried[t].peak_bytes > budget) continue;
        search_front front;
        search_request q = allowing(a, &a->tried[t], seen[searched]);
        bool known = false;
        for (uint32_t k = 0; k < searched; k++) known |= strcmp(seen[k], seen[searched]) == 0;
        if (known || search_within(&q, budget, &(search_wish){ .budget = budget }, &front) != STATUS_OK)
            continue;
        const search_point *x = search_pick(&front, budget);
        if (x && (!best->peak_bytes || x->seconds < best->seconds)) {
            *best = *x;
            snprintf(set, ADVISE_SET_BYTES, "%s", seen[searched]);
        }
        search_close(&front);
        searched++;
    }
}

static status try_sets(allowances *a, const search_front *front, uint64_t budget, char set[ADVISE_SET_BYTES],
                       search_point *point) {
    uint32_t techniques = 0;
    a->tried = memory_new(MAX_TRIED, sizeof *a->tried);
    if (!a->tried) return status_set(STATUS_FAILED, "no memory to search");
    list_allowances(a, &front->points[0].choice);
    for (int i = 0; pass_table[i]; i++) techniques += a->count[i] != 0;
    for (uint32_t n = 1; n <= techniques && !point->peak_bytes; n++) {
        a->tried_count = 0;
        for (uint32_t b = 0; b < ADVISE_BASES && b < front->count; b++) {
            compose_choice choice = front->points[b].choice;
            add_sets(a, 0, n, &choice);
        }
        search_plan(&a->q->run, budget, a->tried, a->tried_count);
        choose_set(a, budget, set, point);
    }
    memory_free(a->tried);
    return STATUS_OK;
}

status advise_lossy(const search_request *q, const search_front *known, uint64_t budget,
                    char set[ADVISE_SET_BYTES], search_point *point) {
    allowances a = { .q = q };
    search_front own = { 0 };
    set[0] = 0;
    *point = (search_point){ 0 };
    if (!known) TRY(search_run(q, &(search_wish){ .leanest = ADVISE_BASES }, &own));
    status result = try_sets(&a, known ? known : &own, budget, set, point);
    search_close(&own);
    return result;
}

/* ---- refusing ---- */

/* What can stand in the way: the table of passes from 0 on, and these before it. */
enum {
    RELEASE_EVAL_BATCH = -4,
    RELEASE_MICRO_BATCH = -3,
    RELEASE_CLIPPING = -2,
    RELEASE_EXACT = -1,
    OPTION_BYTES = 64
};

/* Leaves what is pinned at place i to the search, and says how; false: nothing is pinned there. */
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

/* The least budget of q; UINT64_MAX: it cannot be planned, or takes more than `budget`. */
static uint64_t least_within(const search_request *q, uint64_t budget) {
    search_front front;
    if (search_within(q, budget, &(search_wish){ 0 }, &front) != STATUS_OK) return UINT64_MAX;
    uint64_t least = front.count ? search_least(&front) : UINT64_MAX;
    search_close(&front);
    return least;
}

/* How people read one way out: what to say, what it needs. */
static void add_way(text *out, const char *option, uint64_t needs) {
    char least[UNITS_TEXT_BYTES];
    text_add(out, "%s%s (needs %s)", out->length ? ", or " : "", option, units_bytes_text(needs, least));
}

/* Pins that alone, or all together, stand in the way. */
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

static void advise_allowances(const search_request *q, const search_front *front, uint64_t budget,
                              text *out) {
    char set[ADVISE_SET_BYTES], option[ADVISE_SET_BYTES + 64];
    search_request wide = *q;
    search_point x;
    bool exact = q->allowed == PASS_EXACT;
    if (exact) wide.allowed = PASS_REASSOCIATING;
    if (advise_lossy(&wide, exact ? NULL : front, budget, set, &x) != STATUS_OK || !x.peak_bytes) return;
    snprintf(option, sizeof option, "%s--allow %s, which changes numerics", exact ? "no --exact and " : "",
             set);
    add_way(out, option, x.peak_bytes);
}

void advise_run(const search_request *q, const search_front *front, uint64_t budget,
                char advice[ADVISE_BYTES]) {
    text out = { 0 };
    advise_releases(q, budget, &out);
    advise_allowances(q, front, budget, &out);
    snprintf(advice, ADVISE_BYTES, "%s", out.data ? out.data : "");
    text_close(&out);
}
