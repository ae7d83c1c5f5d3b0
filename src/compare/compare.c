#include "compare/compare.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "run/made_up.h"
#include "run/unconfirmed.h"

enum { MAX_SETTINGS = 32 };

/* ---- one row ---- */

static void add_part(char *to, size_t room, const char *what, const char *setting) {
    size_t used = strlen(to);
    snprintf(to + used, room - used, "%s%s%s%s", used ? ", " : "", what, *what ? " " : "", setting);
}

/* "4 x 2", micro-batches; "3 x 2 + 1" where the last is smaller. "": the batch is not cut. */
static void write_split(const compose_split *s, int64_t micro_batch, char cut[48]) {
    cut[0] = 0;
    if (!s->accumulate) return;
    bool even = s->last == micro_batch;
    int n = snprintf(cut, 48, "%lld x %lld", (long long)s->accumulate + even, (long long)micro_batch);
    if (!even) snprintf(cut + n, 48 - (size_t)n, " + %lld", (long long)s->last);
}

/* What the row's plan does, in words. `own`: the technique that the row is named after; -1: none. */
static void describe(compare_row *row, const compose_split *split, int own) {
    char option[PASS_OPTION_BYTES], cut[48];
    const compose_choice *c = &row->point.choice;
    write_split(split, c->micro_batch, cut);
    for (int i = 0; pass_table[i]; i++)
        if (c->settings[i].text[0])
            add_part(row->choice, sizeof row->choice, pass_option(pass_table[i], option),
                     c->settings[i].text);
    if (*cut) add_part(row->choice, sizeof row->choice, "batch", cut);
    if (own < 0) return;
    snprintf(row->setting, sizeof row->setting, "%s", c->settings[own].text);
    if (*cut && row->group == COMPARE_ALONE) add_part(row->setting, sizeof row->setting, "", cut);
}

static status add_row(compare_table *t, compare_group group, const char *name, const search_request *q,
                      compare_row **row) {
    if (t->count == COMPARE_ROWS)
        return status_set(STATUS_FAILED, "compare: there are more than %d rows", COMPARE_ROWS);
    *row = &t->rows[t->count++];
    **row = (compare_row){ .group = group, .optimizer = q->run.optimizer.kind };
    snprintf((*row)->name, sizeof(*row)->name, "%s", name);
    return STATUS_OK;
}

static void explain(compare_row *row, const char *why) { snprintf(row->why, sizeof row->why, "%s", why); }

/* Why a row has no plan stands in the row. Want of memory says nothing of it, and ends the comparison. */
static status explain_failure(compare_row *row, status why) {
    if (why == STATUS_FAILED) return why;
    explain(row, status_message());
    return STATUS_OK;
}

/* Plans the chosen point again for what a search does not keep. */
static status fill_row(compare_row *row, const search_request *q, const search_point *x, int own) {
    plan p;
    status result = compose_plan(&q->run, &x->choice, &p);
    if (result != STATUS_OK) return explain_failure(row, result);
    compose_split split = compose_split_of(&q->run, &x->choice);
    row->point = *x;
    row->class = x->class;
    row->unconfirmed = unconfirmed_of(&p);
    memcpy(row->by_category, p.by_category, sizeof row->by_category);
    describe(row, &split, own);
    plan_close(&p);
    return STATUS_OK;
}

/* The leanest plan of q that takes at most `seconds`; among equals the first, which is the most exact. */
static status fill_leanest(compare_row *row, const search_request *q, double seconds, int own) {
    search_front front;
    status result = search_run(q, &(search_wish){ .seconds = seconds }, &front);
    if (result != STATUS_OK) return explain_failure(row, result);
    const search_point *x = NULL;
    for (uint32_t i = 0; i < front.count && !x; i++)
        if (front.points[i].seconds <= seconds) x = &front.points[i];
    if (x)
        result = fill_row(row, q, x, own);
    else
        explain(row, "no plan is fast enough");
    search_close(&front);
    return result;
}

/* ---- alone ---- */

/* Everything off but pass number i, which is up to the caller. */
static search_request only(const search_request *q, int i) {
    search_request alone = *q;
    for (int k = 0; pass_table[k]; k++)
        if (k != i) alone.pins[k].kind = SEARCH_OFF;
    memset(alone.lossy, 0, sizeof alone.lossy);
    return alone;
}

/* A setting that takes as much as an earlier one of its technique says so. */
static void look_beside(const compare_table *t, compare_row *row) {
    const double nothing = 0.0005;
    for (const compare_row *other = t->rows; other < row && !row->why[0]; other++) {
        if (other->group != COMPARE_ALONE || strcmp(other->name, row->name) != 0) continue;
        double more = (double)row->point.peak_bytes - (double)other->point.peak_bytes;
        if (other->point.peak_bytes && fabs(more) < nothing * (double)t->rows[0].point.peak_bytes)
            snprintf(row->why, sizeof row->why, "no less than %s", other->setting);
    }
}

static status add_alone(compare_table *t, const search_request *q, int i, const pass_setting *setting) {
    char name[PASS_OPTION_BYTES + 2] = "--";
    search_request alone = only(q, i);
    compare_row *row = NULL;
    pass_option(pass_table[i], name + 2);
    TRY(add_row(t, COMPARE_ALONE, name, q, &row));
    alone.pins[i].kind = setting ? SEARCH_PINNED : SEARCH_ON;
    if (setting) alone.pins[i].setting = *setting;
    if (setting) snprintf(row->setting, sizeof row->setting, "%s", setting->text);
    TRY(fill_leanest(row, &alone, HUGE_VAL, i));
    if (row->point.peak_bytes) look_beside(t, row);
    if (row->point.peak_bytes || setting) return STATUS_OK;
    bool forbidden = q->allowed == PASS_EXACT && pass_table[i]->class > PASS_EXACT;
    explain(row, forbidden ? "not exact, and --exact is asked for" : "has nothing to do here");
    return STATUS_OK;
}

static bool has_setting(const pass_setting *list, uint32_t count, const char *setting) {
    for (uint32_t k = 0; k < count; k++)
        if (strcmp(list[k].text, setting) == 0) return true;
    return false;
}

/* A technique's LOSSY settings: those that it offers, and those that its help names though they save nothing,
 * which is worth knowing too. */
static status list_lossy(const search_request *q, int i, pass_setting out[MAX_SETTINGS], uint32_t *listed) {
    compose_choice plain = { .micro_batch = compose_unit(&q->run) };
    pass_setting offered[MAX_SETTINGS];
    uint32_t count = 0, n;
    TRY(search_offers(&q->run, &plain, i, offered, MAX_SETTINGS, &n));
    for (uint32_t k = 0; k < n; k++)
        if (offered[k].class == PASS_LOSSY) out[count++] = offered[k];
    for (const char *at = pass_table[i]->values, *end; at && *at; at = end + strspn(end, ", ")) {
        end = strstr(at, ", ");
        if (!end) end = at + strlen(at);
        size_t length = (size_t)(end - at);
        char word[32];
        pass_setting read = { .class = PASS_EXACT };
        bool fits = length && length < sizeof word;
        snprintf(word, sizeof word, "%.*s", fits ? (int)length : 0, at);
        bool known = strcmp(word, "auto") == 0 || strcmp(word, "off") == 0 || !isalnum((unsigned char)*word);
        if (known || pass_table[i]->parse(word, &read) != STATUS_OK) continue;
        if (read.class != PASS_LOSSY || has_setting(out, count, read.text)) continue;
        if (count == MAX_SETTINGS)
            return status_set(STATUS_FAILED, "compare: %s has more than %d settings", pass_table[i]->name,
                              MAX_SETTINGS);
        out[count++] = read;
    }
    *listed = count;
    return STATUS_OK;
}

static status add_technique(compare_table *t, const search_request *q, int i) {
    pass_setting lossy[MAX_SETTINGS];
    uint32_t count = 0;
    if (q->pins[i].kind == SEARCH_OFF) return STATUS_OK; /* the user has no use for it */
    if (q->pins[i].kind == SEARCH_PINNED) return add_alone(t, q, i, &q->pins[i].setting);
    if (pass_table[i]->class == PASS_LOSSY) TRY(list_lossy(q, i, lossy, &count));
    for (uint32_t k = 0; k < count; k++) TRY(add_alone(t, q, i, &lossy[k]));
    return count ? STATUS_OK : add_alone(t, q, i, NULL);
}

/* ---- other runs ---- */

setup_options compare_options(const setup_options *asked, const compare_row *row) {
    setup_options o = *asked;
    const compare_other *other = &row->other;
    if (other->optimizer) { /* at its usual settings */
        o.optimizer = setup_defaults().optimizer;
        o.optimizer.kind = row->optimizer;
        o.optimizer.weight_decay = asked->optimizer.weight_decay, o.optimizer.clip = asked->optimizer.clip;
    }
    if (other->batch) { /* of which pinned ones may be no part */
        o.batch = other->batch;
        o.micro_batch = o.accumulate = 0;
    }
    if (other->context) o.context = other->context;
    if (other->eval_batch) o.eval_batch = other->eval_batch;
    if (other->workers) o.workers = other->workers;
    if (other->eval_only) o.eval_only = true;
    return o;
}

/* One row that is another run in something, without any technique. */
static status add_other(compare_table *t, const setup *s, const compare_row *like) {
    compare_row *row = NULL;
    TRY(add_row(t, COMPARE_ALONE, like->name, &s->request, &row));
    row->optimizer = like->optimizer, row->other = like->other, row->class = like->class;
    snprintf(row->setting, sizeof row->setting, "%s", like->setting);
    setup_options options = compare_options(&s->options, row);
    setup other;
    status result = setup_open(&options, s->custom ? &s->model : NULL, &other);
    if (result != STATUS_OK) return explain_failure(row, result);
    search_request q = only(&other.request, -1);
    search_point plain = { .choice = { .micro_batch = compose_unit(&q.run) }, .class = like->class };
    result = search_plan(&q.run, UINT64_MAX, &plain, 1);
    if (result == STATUS_OK && plain.peak_bytes)
        result = fill_row(row, &q, &plain, -1);
    else if (result == STATUS_OK)
        explain(row, row->other.optimizer ? "this optimizer can't train the model" : "it can't be planned");
    row->class = like->class;
    if (row->other.eval_only) {
        row->point.seconds = 0;
        snprintf(row->measured.why, sizeof row->measured.why, "trains nothing");
    }
    setup_close(&other);
    return result;
}

static compare_row named(const char *name, const char *setting, pass_class class, optimizer_kind optimizer) {
    compare_row row = { .class = class, .optimizer = optimizer };
    snprintf(row.name, sizeof row.name, "%s", name);
    snprintf(row.setting, sizeof row.setting, "%s", setting);
    return row;
}

static status add_others(compare_table *t, const setup *s) {
    const compose_run *r = &s->request.run;
    const optimizer_kind own = r->optimizer.kind;
    const struct {
        const char *option;
        int64_t value; /* 0: there is none to try */
        compare_other other;
        pass_class class;
    } runs[] = {
        { "--batch", r->batch / 2, { .batch = r->batch / 2 }, PASS_LOSSY },
        { "--context", s->model.context ? r->context / 2 : 0, { .context = r->context / 2 }, PASS_LOSSY },
        { "--eval-batch", r->eval_samples > 1 ? 1 : 0, { .eval_batch = 1 }, PASS_REASSOCIATING },
        { "--workers", s->options.workers + 3, { .workers = s->options.workers + 3 }, PASS_EXACT },
    };
    for (int kind = 0; kind < OPTIMIZER_COUNT; kind++) {
        if ((optimizer_kind)kind == own) continue;
        compare_row row =
            named("--optimizer", optimizer_name((optimizer_kind)kind), PASS_LOSSY, (optimizer_kind)kind);
        row.other.optimizer = true;
        TRY(add_other(t, s, &row));
    }
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        char value[24];
        if (!runs[i].value) continue;
        snprintf(value, sizeof value, "%lld", (long long)runs[i].value);
        compare_row row = named(runs[i].option, value, runs[i].class, own);
        row.other = runs[i].other;
        TRY(add_other(t, s, &row));
    }
    compare_row row = named("--eval-only", "", PASS_EXACT, own);
    row.other.eval_only = true;
    return r->eval_samples ? add_other(t, s, &row) : STATUS_OK;
}

/* ---- together ---- */

static bool is_free(const search_request *q, int i) {
    return q->lossy[i].given || q->pins[i].kind == SEARCH_PINNED;
}

/* All techniques up to number i: those that change no numerics, or, `lossy`, all of them and the allowed
 * ones. What is pinned off stays off, what is pinned to a setting has it. */
static search_request up_to(const search_request *q, int i, bool lossy) {
    search_request some = *q;
    for (int k = 0; pass_table[k]; k++) {
        bool is_lossy = pass_table[k]->class == PASS_LOSSY;
        bool here = lossy ? !is_lossy || (k <= i && is_free(q, k)) : !is_lossy && k <= i;
        if (!here) some.pins[k].kind = SEARCH_OFF;
        if (!here) some.lossy[k].given = false;
    }
    return some;
}

/* Rows for the passes that belong to the group; the last two say what all of them come to: leanest, and
 * leanest among those that cost next to no time. */
static status add_together(compare_table *t, const search_request *q, bool lossy) {
    compare_group group = lossy ? COMPARE_ALLOWED : COMPARE_LOSSLESS;
    const double little = 1.05;
    const char *everything = lossy ? "everything allowed" : "everything lossless";
    compare_row *row = NULL;
    int last = -1;
    for (int i = 0; pass_table[i]; i++) {
        bool is_lossy = pass_table[i]->class == PASS_LOSSY;
        if (is_lossy != lossy || q->pins[i].kind == SEARCH_OFF || (lossy && !is_free(q, i))) continue;
        char name[PASS_OPTION_BYTES + 4] = "+ --";
        pass_option(pass_table[i], name + 4);
        search_request some = up_to(q, i, lossy);
        TRY(add_row(t, group, name, q, &row));
        TRY(fill_leanest(row, &some, HUGE_VAL, i));
        last = i;
    }
    if (last < 0) return STATUS_OK;
    snprintf(row->setting, sizeof row->setting, "%s", "");
    snprintf(row->name, sizeof row->name, "%s", everything);
    row->ends = true;
    const search_point *plain = &t->rows[0].point;
    if (!plain->peak_bytes) return STATUS_OK;
    char name[sizeof row->name];
    snprintf(name, sizeof name, "%s, at most 5 %% slower", lossy ? "allowed" : "lossless");
    search_request all = up_to(q, last, lossy);
    TRY(add_row(t, group, name, q, &row));
    row->ends = true;
    return fill_leanest(row, &all, plain->seconds * little, -1);
}

static status add_asked(compare_table *t, const setup *s) {
    if (s->budget == UINT64_MAX) return STATUS_OK;
    compare_row *row = NULL;
    TRY(add_row(t, COMPARE_ASKED, "within --memory", &s->request, &row));
    row->ends = true;
    search_front front;
    status result = search_run(&s->request, &(search_wish){ .budget = s->budget }, &front);
    if (result != STATUS_OK) return explain_failure(row, result);
    const search_point *x = search_pick(&front, s->budget);
    if (x)
        result = fill_row(row, &s->request, x, -1);
    else
        explain(row, "nothing fits; 'snug plan' says what would");
    search_close(&front);
    return result;
}

static status add_plain(compare_table *t, const search_request *q) {
    search_front front;
    compare_row *row = NULL;
    TRY(add_row(t, COMPARE_PLAIN, "plain", q, &row));
    TRY(search_run(q, &(search_wish){ .plain = true }, &front));
    search_point plain = front.plain;
    search_close(&front);
    if (plain.peak_bytes) return fill_row(row, q, &plain, -1);
    explain(row, "without any technique it can't be planned");
    return STATUS_OK;
}

status compare_plan(const setup *s, compare_table *t) {
    const search_request *q = &s->request;
    *t = (compare_table){ 0 };
    TRY(add_plain(t, q));
    for (int i = 0; pass_table[i]; i++) {
        t->any_allowed |= pass_table[i]->class == PASS_LOSSY && is_free(q, i);
        TRY(add_technique(t, q, i));
    }
    TRY(add_others(t, s));
    TRY(add_together(t, q, false));
    if (t->any_allowed) TRY(add_together(t, q, true));
    TRY(add_asked(t, s));
    memory_trim();
    return STATUS_OK;
}

/* ---- measuring ---- */

static bool as_planned(const plan *p, const train_result *r) {
    for (int c = 0; c < CATEGORY_COUNT; c++)
        if (c != CATEGORY_RUNTIME && p->by_category[c] != r->memory.by_category[c]) return false;
    return true;
}

status compare_run(setup *s, const compare_row *row, const train_observer *o, compare_measured *m) {
    TRY(model_computes(&s->model));
    resume from = { .lock.file = -1 };
    train_result r = { 0 };
    decision d = { .budget = UINT64_MAX, .point = row->point };
    d.split = compose_split_of(&s->request.run, &row->point.choice);
    TRY(made_up_train(s));
    TRY(made_up_validation(s));
    TRY(compose_plan(&s->request.run, &row->point.choice, &d.plan));
    memory_trim();
    status result = train_run(s, &d, &from, o, &r);
    if (result == STATUS_OK) {
        m->done = true;
        m->planned = as_planned(&d.plan, &r);
        m->step_seconds = r.step_seconds;
        m->steps = r.steps;
        m->loss = r.losses[r.steps - 1];
        m->validation = r.evaluation_count ? r.evaluations[r.evaluation_count - 1].loss : NAN;
    }
    train_result_close(&r);
    decision_close(&d);
    resume_close(&from);
    return result;
}
