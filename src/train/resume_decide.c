/* Plans a resumed run. It keeps the choices of its checkpoint if they fit; else it changes them, first in
 * ways that keep the results bit for bit. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "run/products.h"
#include "train/resume.h"

/* ---- what a change of plan does to results ---- */

/* Does a later pass that is on, in the checkpoint or in c (may be NULL), make the choice of pass i show in
 * results? See pass.follows. */
static bool is_followed(const trainer_state *t, const compose_choice *c, int i) {
    bool found = false;
    for (int k = i + 1; pass_table[k]; k++) {
        bool chosen = t->passes[k].setting[0] || (c && c->settings[k].text[0]);
        found |= pass_table[k]->follows && chosen;
    }
    return found;
}

/* Does the cut into micro-batches show in results, with this setting? With an EXACT one it does not, by
 * definition. A REASSOCIATING forward pass changes the order of sums within samples only, which is the same
 * in every cut. */
static bool holds_cut(const pass *p, const char *setting, pass_class class) {
    if (!setting[0] || class == PASS_EXACT) return false;
    return class == PASS_LOSSY || p->stage != PASS_FORWARD;
}

static bool cut_matters(const trainer_state *t, const compose_choice *c) {
    bool matters = false;
    for (int i = 0; pass_table[i]; i++) {
        matters |= holds_cut(pass_table[i], t->passes[i].setting, t->passes[i].class);
        if (c) matters |= holds_cut(pass_table[i], c->settings[i].text, c->settings[i].class);
    }
    return matters;
}

/* The difference between the stored choices and new ones, by what it does to results. */
typedef struct {
    bool any;
    pass_class class;
    int lossy; /* the first pass whose change is LOSSY; -1: there is none */
} change;

static pass_class change_of_pass(const trainer_state *t, const compose_choice *c, int i) {
    const pass_setting *is = &c->settings[i];
    pass_class was = t->passes[i].setting[0] ? t->passes[i].class : PASS_EXACT;
    pass_class now = is->text[0] ? is->class : PASS_EXACT;
    if (is_followed(t, c, i)) return PASS_LOSSY;
    return was > now ? was : now;
}

static change change_of(const trainer_state *t, const compose_choice *c) {
    change found = { .lossy = -1 };
    for (int i = 0; pass_table[i]; i++) {
        if (strcmp(t->passes[i].setting, c->settings[i].text) == 0) continue;
        pass_class class = change_of_pass(t, c, i);
        found.any = true;
        if (class > found.class) found.class = class;
        if (class == PASS_LOSSY && found.lossy < 0) found.lossy = i;
    }
    if (t->micro_batch == c->micro_batch) return found;
    found.any = true;
    bool matters = cut_matters(t, c);
    if (matters && found.class < PASS_REASSOCIATING) found.class = PASS_REASSOCIATING;
    return found;
}

/* ---- what is kept ---- */

/* Which of the stored settings become pins, from the first that is tried to the last. */
typedef enum {
    KEEP_ALL,
    KEEP_RESULTS, /* those that show in results; all else is searched among EXACT settings */
    KEEP_LOSSY,   /* LOSSY ones, without which it is another run; the order of sums may change */
    KEEP_ALLOWED  /* the same, and what --allow names may be chosen as well */
} keeping;

static bool is_kept(const trainer_state *t, int i, keeping keep) {
    bool chosen = t->passes[i].setting[0];
    if (keep == KEEP_ALL || (chosen && t->passes[i].class == PASS_LOSSY)) return true;
    bool matters = (chosen && t->passes[i].class != PASS_EXACT) || is_followed(t, NULL, i);
    return keep == KEEP_RESULTS && matters;
}

/* The user's request with the stored choices as pins. What the user has pinned stays. It counts as held,
 * unless
 * --exact is given and the run did not have it. */
static status pin(const search_request *asked, const trainer_state *t, keeping keep, search_request *q) {
    *q = *asked;
    for (int i = 0; pass_table[i]; i++) {
        const char *setting = t->passes[i].setting;
        bool same = strcmp(asked->pins[i].setting.text, setting) == 0;
        q->pins[i].held = asked->allowed != PASS_EXACT || same;
        if (keep != KEEP_ALLOWED) q->lossy[i].given = false;
        if (q->pins[i].kind != SEARCH_AUTO || !is_kept(t, i, keep)) continue;
        q->pins[i].kind = setting[0] ? SEARCH_PINNED : SEARCH_OFF;
        q->pins[i].held = true;
        if (setting[0]) TRY(pass_table[i]->parse(setting, &q->pins[i].setting));
        if (setting[0] && pass_table[i]->open) /* not to be had: the pin contradicts, others are tried */
            STATUS_IGNORED(pass_table[i]->open(asked->run.lower.device));
    }
    bool cut = keep == KEEP_ALL || (keep == KEEP_RESULTS && cut_matters(t, NULL));
    if (!q->micro_batch && cut) q->micro_batch = t->micro_batch;
    if (keep == KEEP_RESULTS) q->allowed = PASS_EXACT;
    return STATUS_OK;
}

typedef enum { FITS, TOO_LARGE, CONTRADICTS } outcome;

static status try(const setup *s, const search_request *q, outcome *found) {
    search_front front;
    status result = search_run(q, &(search_wish){ .budget = s->budget }, &front);
    *found = CONTRADICTS;
    if (result != STATUS_OK) return result == STATUS_FAILED ? result : STATUS_OK;
    *found = search_pick(&front, s->budget) ? FITS : TOO_LARGE;
    search_close(&front);
    return STATUS_OK;
}

static bool allows_lossy(const search_request *q) {
    bool any = false;
    for (int i = 0; pass_table[i]; i++) any |= q->lossy[i].given;
    return any;
}

/* The first way to keep choices with which a plan fits; where none does, the last one. `first`: the outcome
 * of keeping all. */
static status choose(const setup *s, const trainer_state *t, outcome *first, keeping *keep,
                     search_request *q) {
    keeping last = s->options.exact ? KEEP_RESULTS : allows_lossy(&s->request) ? KEEP_ALLOWED : KEEP_LOSSY;
    *keep = KEEP_ALL;
    TRY(pin(&s->request, t, *keep, q));
    TRY(try(s, q, first));
    outcome now = *first;
    while (now != FITS && *keep < last) {
        TRY(pin(&s->request, t, ++*keep, q));
        if (*keep < last) TRY(try(s, q, &now));
    }
    return STATUS_OK;
}

/* ---- what --allow may not choose ---- */

/* Is this a LOSSY setting that the planner has chosen by itself and the run has not had? */
static bool is_new(const trainer_state *t, const search_request *q, const compose_choice *c, int i) {
    return q->pins[i].kind == SEARCH_AUTO && c->settings[i].text[0] && c->settings[i].class == PASS_LOSSY &&
           strcmp(c->settings[i].text, t->passes[i].setting) != 0;
}

/* Does this setting, put into the run's own plan, need persistent values that the checkpoint does not have?
 */
static bool is_unfilled(const setup *s, const resume *r, const pass_setting *setting, int i) {
    compose_choice c = { .micro_batch = r->state.micro_batch };
    plan p;
    for (int k = 0; pass_table[k]; k++) {
        const char *stored = r->state.passes[k].setting;
        if (stored[0] && pass_table[k]->parse(stored, &c.settings[k]) != STATUS_OK) return false;
    }
    c.settings[i] = *setting;
    if (compose_plan(&s->request.run, &c, &p) != STATUS_OK) return false;
    bool unfilled = checkpoint_check(&p, r->folder, &r->state) != STATUS_OK;
    plan_close(&p);
    return unfilled;
}

static void leave_out(setup *s, resume *r, const compose_choice *c, int i) {
    char option[PASS_OPTION_BYTES];
    pass_option(pass_table[i], option);
    s->request.lossy[i].given = false;
    resume_say(r, "--allow %s is left out: --%s %s begins with values that %s does not have", option, option,
               c->settings[i].text, r->folder);
}

/* Withdraws the allowances whose settings need values that the checkpoint does not have; where no setting
 * does so by itself, all new ones. False: there is nothing to withdraw. */
static bool disallow(setup *s, resume *r, const compose_choice *c) {
    bool any = false;
    for (int alone = 1; alone >= 0 && !any; alone--)
        for (int i = 0; pass_table[i]; i++) {
            if (!is_new(&r->state, &s->request, c, i)) continue;
            if (alone && !is_unfilled(s, r, &c->settings[i], i)) continue;
            leave_out(s, r, c, i);
            any = true;
        }
    return any;
}

static status decide_allowed(setup *s, resume *r, decision *d) {
    for (;;) {
        char sentence[1024];
        status result = decision_make(s, d);
        if (result != STATUS_OK && result != STATUS_NO_FIT) return result;
        snprintf(sentence, sizeof sentence, "%s", result == STATUS_OK ? "" : status_message());
        bool fills = checkpoint_check(&d->plan, r->folder, &r->state) == STATUS_OK;
        if (fills ||
            !disallow(s, r, &d->point.choice)) /* a pinned setting is refused when weights are loaded */
            return result == STATUS_OK ? STATUS_OK : status_set(result, "%s", sentence);
        decision_close(d);
    }
}

/* ---- saying ---- */

static const char *named(const char *setting) { return setting[0] ? setting : "off"; }

static void say_lossy(resume *r, const decision *d, const char *why, int i) {
    char option[PASS_OPTION_BYTES];
    resume_say(
        r,
        "resuming %s with another plan, %s; it computes with other numbers (--%s was %s and is %s), so "
        "results differ from those that the run would have had",
        r->folder, why, pass_option(pass_table[i], option), named(r->state.passes[i].setting),
        named(d->point.choice.settings[i].text));
}

static void say_how(resume *r, const setup *s, const decision *d, outcome first) {
    char why[80] = "as the options ask", budget[UNITS_TEXT_BYTES];
    change is = change_of(&r->state, &d->point.choice);
    if (first == TOO_LARGE)
        snprintf(why, sizeof why, "since the earlier one does not fit %s",
                 units_bytes_text(s->budget, budget));
    if (!is.any)
        resume_say(r, "resuming %s with the plan that it was begun with", r->folder);
    else if (is.class == PASS_EXACT)
        resume_say(r, "resuming %s with another plan, %s; results stay the same bit for bit", r->folder, why);
    else if (is.class == PASS_LOSSY)
        say_lossy(r, d, why, is.lossy);
    else
        resume_say(
            r,
            "resuming %s with another plan, %s; it takes some sums in another order, so results differ "
            "in their last digits",
            r->folder, why);
}

/* Products of 16 bits have the bits of their kind. What said nothing widened them, or had none: then that
 * other numbers are computed with is said already. */
static const char *products_were(const resume *r) {
    return r->state.products[0] ? r->state.products : PRODUCTS_WIDENED;
}

static bool products_differ(const resume *r, const decision *d) {
    char are[PRODUCTS_KIND_BYTES];
    products_kind(d, are);
    return are[0] && strcmp(are, products_were(r)) != 0 &&
           change_of(&r->state, &d->point.choice).class != PASS_LOSSY;
}

/* A library makes those of f32 as well. */
static const char *products_of(const resume *r, const char *are) {
    return products_by_library(are) || products_by_library(products_were(r)) ? "" : " of 16 bits";
}

static void say_products(resume *r, const decision *d) {
    char way[PRODUCTS_WAY_BYTES], are[PRODUCTS_KIND_BYTES];
    if (products_differ(r, d))
        resume_say(r,
                   "products%s were %s and are %s, so results differ in their last digits; what "
                   "goes on as before: %s",
                   products_of(r, products_kind(d, are)), products_were(r), are,
                   products_way(products_were(r), way));
}

/* --exact at a resume means the results of the run as it was begun. Pins beside it must not change those. */
static status check_exact(const resume *r, const setup *s, const decision *d) {
    char way[PRODUCTS_WAY_BYTES], are[PRODUCTS_KIND_BYTES];
    if (!s->options.exact) return STATUS_OK;
    if (products_differ(r, d))
        return status_set(STATUS_INVALID,
                          "--exact keeps the results of %s, whose products%s were %s and would be "
                          "%s; take %s, or leave --exact out",
                          r->folder, products_of(r, products_kind(d, are)), products_were(r), are,
                          products_way(products_were(r), way));
    if (change_of(&r->state, &d->point.choice).class == PASS_EXACT) return STATUS_OK;
    return status_set(
        STATUS_INVALID,
        "--exact keeps the results of %s, and what is pinned beside it does not; leave one of the "
        "two out",
        r->folder);
}

status resume_decide(setup *s, resume *r, decision *d) {
    search_request q;
    keeping keep;
    outcome first;
    if (!r->step) {
        TRY(setup_check_begun(s));
        return decision_make(s, d);
    }
    TRY(choose(s, &r->state, &first, &keep, &q));
    s->request = q;
    TRY(setup_check_begun(s));
    TRY(keep == KEEP_ALLOWED ? decide_allowed(s, r, d) : decision_make(s, d));
    TRY(check_exact(r, s, d));
    say_how(r, s, d, first);
    say_products(r, d);
    if (r->step == s->options.steps) resume_say(r, "all %lld steps are done already", (long long)r->step);
    return STATUS_OK;
}
