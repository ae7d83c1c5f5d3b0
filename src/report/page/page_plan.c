/* The page of a plan: the answer, memory over the step, who holds the peak, the front, time by op. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/units.h"
#include "ir/op.h"
#include "report/page/page_memory.h"
#include "report/page/page_plan.h"
#include "report/page/page_time.h"
#include "report/parts.h"

/* ---- the answer ---- */

static const char *after(const setup *s) { return s->request.run.training ? "a step" : "in all"; }

static void add_answer(text *out, const setup *s, const decision *d) {
    char a[UNITS_TEXT_BYTES], b[UNITS_TEXT_BYTES], c[UNITS_TEXT_BYTES];
    const char *what = s->request.run.training ? "Training" : "Evaluating";
    uint64_t least = search_least(&d->front);
    if (!report_fits(d)) {
        text_add(out, "%s does not fit into %s: the least that it takes is %s, %s more.", s->model.name,
                 units_bytes_text(d->budget, a), units_bytes_text(least, b),
                 units_bytes_text(least - d->budget, c));
    } else if (d->budget != UINT64_MAX) {
        text_add(out, "%s fits into %s: it takes %s at its peak, and %s %s.", s->model.name,
                 units_bytes_text(d->budget, a), units_bytes_text(d->plan.peak_bytes, b),
                 units_seconds_text(d->point.seconds, c), after(s));
    } else {
        text_add(out, "%s %s takes %s at its peak, and %s %s.", what, s->model.name,
                 units_bytes_text(d->plan.peak_bytes, a), units_seconds_text(d->point.seconds, b), after(s));
    }
}

static void add_further(text *out, const setup *s, const decision *d) {
    char a[UNITS_TEXT_BYTES], b[UNITS_TEXT_BYTES];
    const search_point *plain = &d->front.plain;
    if (!report_fits(d)) {
        if (d->advice[0])
            text_add(out, "It would fit with %s. Below is the plan that needs least.", d->advice);
        else
            text_add(out,
                     "No option stands in the way: it takes a smaller model, a shorter context, a smaller "
                     "batch or more memory. Below is the plan that needs least.");
        return;
    }
    if (plain->peak_bytes)
        text_add(out, "Without any technique it would take %s and %s %s. ",
                 units_bytes_text(plain->peak_bytes, a), units_seconds_text(plain->seconds, b), after(s));
    text_add(out, "The least memory that it can be done with is %s, at %s %s.",
             units_bytes_text(search_least(&d->front), a), units_seconds_text(d->front.points[0].seconds, b),
             after(s));
}

void page_plan_head(page *p, io_writer *file, const char *command, const setup *s, const decision *d) {
    text title = { 0 }, answer = { 0 }, further = { 0 };
    text_add(&title, "%s %s", command, s->model.name);
    add_answer(&answer, s, d);
    add_further(&further, s, d);
    bool failed = title.failed || answer.failed || further.failed;
    page_begin(p, file, &(page_head){ title.data, answer.data, further.data, !report_fits(d) });
    p->out.failed |= failed;
    text_close(&title);
    text_close(&answer);
    text_close(&further);
}

/* ---- numbers ---- */

/* "4 x 2", micro-batches; "3 x 2 + 1" where the last is smaller; else how many at once. */
static const char *split_text(const compose_split *s, int64_t micro, char few[64]) {
    bool even = s->last == micro;
    if (!s->accumulate)
        snprintf(few, 64, "%lld at once", (long long)s->last);
    else if (even)
        snprintf(few, 64, "%lld x %lld", (long long)s->accumulate + 1, (long long)micro);
    else
        snprintf(few, 64, "%lld x %lld + %lld", (long long)s->accumulate, (long long)micro,
                 (long long)s->last);
    return few;
}

void page_put_numbers(page *p, const setup *s, const decision *d) {
    enum { FACTS = 8 };
    char few[FACTS][2 * PAGE_VALUE_BYTES], note[FACTS][160], seconds[UNITS_TEXT_BYTES];
    page_fact facts[FACTS];
    uint32_t n = 0;
    const plan *x = &d->plan;
    const compose_run *r = &s->request.run;
    parts_parameters weights = parts_parameters_of(s, d);
    snprintf(note[n], sizeof note[n], "%s bytes, predicted", report_count(x->peak_bytes, few[7]));
    facts[n] = (page_fact){ "peak", page_value(PAGE_BYTES, (double)x->peak_bytes, few[n]), note[n] }, n++;
    bool limited = d->budget != UINT64_MAX;
    if (limited && report_fits(d))
        snprintf(note[n], sizeof note[n], "%s of it left over",
                 page_value(PAGE_BYTES, (double)(d->budget - x->peak_bytes), few[7]));
    else
        snprintf(note[n], sizeof note[n], "%s", limited ? "too little" : "set one with --memory");
    facts[n] = (page_fact){ "budget", limited ? page_value(PAGE_BYTES, (double)d->budget, few[n]) : "none",
                            note[n] };
    n++;
    uint64_t least = search_least(&d->front);
    snprintf(note[n], sizeof note[n], "%s bytes, at %s %s", report_count(least, few[7]),
             units_seconds_text(d->front.points[0].seconds, seconds), after(s));
    facts[n] = (page_fact){ "least budget", page_value(PAGE_BYTES, (double)least, few[n]), note[n] }, n++;
    snprintf(note[n], sizeof note[n], "predicted, with rates of the %.100s", r->lower.rates.source);
    facts[n] = (page_fact){ r->training ? "a step" : "time",
                            page_value(PAGE_SECONDS, d->point.seconds, few[n]), note[n] };
    n++;
    if (weights.trained && weights.trained != weights.all)
        snprintf(note[n], sizeof note[n], "%s of them trained", units_count_text(weights.trained, seconds));
    else
        snprintf(note[n], sizeof note[n], "%s",
                 r->training ? optimizer_title(r->optimizer.kind) : "no training");
    facts[n] = (page_fact){ "parameters", units_count_text(weights.all, few[n]), note[n] }, n++;
    if (r->training) {
        char split[64];
        snprintf(few[n], sizeof few[n], "%lld samples", (long long)r->batch);
        snprintf(note[n], sizeof note[n], "%s; context %lld",
                 split_text(&d->split, d->point.choice.micro_batch, split), (long long)r->context);
        facts[n] = (page_fact){ "batch", few[n], note[n] }, n++;
    }
    page_facts(p, facts, n);
}

/* ---- techniques ---- */

static const search_share *share_of(const decision *d, const pass *x) {
    for (uint32_t i = 0; i < d->share_count; i++)
        if (strcmp(d->shares[i].name, x->name) == 0) return &d->shares[i];
    return NULL;
}

static const char *change_text(page_unit unit, double change, char few[PAGE_VALUE_BYTES]) {
    char value[PAGE_VALUE_BYTES];
    if (fabs(change) < (unit == PAGE_BYTES ? 0.5 : 0.5e-6)) return "none";
    snprintf(few, PAGE_VALUE_BYTES, "%c%.38s", change < 0 ? '-' : '+', page_value(unit, fabs(change), value));
    return few;
}

static const char *option_of(const search_share *x, char option[PASS_OPTION_BYTES]) {
    for (int i = 0; pass_table[i]; i++)
        if (strcmp(pass_table[i]->name, x->name) == 0) return pass_option(pass_table[i], option);
    return x->name;
}

/* The peak after each technique, from plain to the plan. */
static void put_way(page *p, const decision *d) {
    page_bar bars[PASS_MAX + 1] = { { .label = "plain, without any technique",
                                      .value = (double)d->front.plain.peak_bytes,
                                      .marks = { NAN, NAN } } };
    char labels[PASS_MAX][64 + PASS_OPTION_BYTES], option[PASS_OPTION_BYTES];
    uint32_t n = 1;
    double peak = bars[0].value;
    if (!d->front.plain.peak_bytes || !d->share_count) return;
    for (uint32_t i = 0; i < d->share_count; i++, n++) {
        const search_share *x = &d->shares[i];
        peak += (double)x->bytes;
        snprintf(labels[i], sizeof labels[i], "and --%s %s", option_of(x, option), x->setting);
        bars[n] = (page_bar){
            .label = labels[i], .note = pass_class_name(x->class), .value = peak, .marks = { NAN, NAN }
        };
    }
    page_put_bars(p, &(page_bars){ .name = "The peak, technique by technique",
                                   .about = "From plain to the plan: what is left of the peak when each "
                                            "technique joins those before it.",
                                   .label_word = "technique",
                                   .note_word = "results",
                                   .unit = PAGE_BYTES,
                                   .value_name = "peak",
                                   .bars = bars,
                                   .count = n });
}

/* What the plan's text says below its table. */
static void put_said(page *p, const decision *d) {
    char said[PARTS_SAID_BYTES], option[PASS_OPTION_BYTES];
    for (int i = 0; pass_table[i]; i++) {
        const char *remark = parts_remark(d, i);
        if (remark) page_say(p, "--%s: %s.", pass_option(pass_table[i], option), remark);
    }
    for (uint32_t i = 0; i < d->declined_count; i++)
        page_say(p, "%s.", parts_declined(&d->declined[i], said));
    if (*parts_unconfirmed(d, said)) page_say(p, "%s.", said);
}

void page_put_techniques(page *p, const setup *s, const decision *d) {
    static const page_column columns[] = {
        { "technique", false }, { "setting", false }, { "memory", true },
        { "bytes", true },      { "time", true },     { "results", false }
    };
    bool training = s->request.run.training;
    char option[PASS_OPTION_BYTES], few[PAGE_VALUE_BYTES], number[32];
    page_section(p, "What was chosen");
    put_way(p, d);
    page_table_begin(p, "Techniques, and what each brings", columns, 6);
    for (int i = 0; pass_table[i]; i++) {
        if (!training && pass_table[i]->training_only) continue;
        const search_share *x = share_of(d, pass_table[i]);
        snprintf(number, sizeof number, "--%s", pass_option(pass_table[i], option));
        page_row(p, x != NULL);
        page_cell(p, &columns[0], number);
        page_cell(p, &columns[1], x ? x->setting : "off");
        page_cell(p, &columns[2], x ? change_text(PAGE_BYTES, (double)x->bytes, few) : "");
        snprintf(number, sizeof number, "%+lld", x ? (long long)x->bytes : 0ll);
        page_cell(p, &columns[3], x ? number : "");
        page_cell(p, &columns[4], x ? change_text(PAGE_SECONDS, x->seconds, few) : "");
        page_cell(p, &columns[5], x ? pass_class_name(x->class) : "");
    }
    page_table_end(p);
    put_said(p, d);
}

/* ---- the front ---- */

static void describe(text *out, const setup *s, const search_point *x) {
    char option[PASS_OPTION_BYTES], few[64];
    for (int i = 0; pass_table[i]; i++)
        if (x->choice.settings[i].text[0])
            text_add(out, "%s%s %s", out->length ? ", " : "", pass_option(pass_table[i], option),
                     x->choice.settings[i].text);
    if (!s->request.run.training) return;
    compose_split split = compose_split_of(&s->request.run, &x->choice);
    text_add(out, "%sbatch %s", out->length ? ", " : "", split_text(&split, x->choice.micro_batch, few));
}

static bool same_point(const search_point *a, const search_point *b) {
    return a->peak_bytes == b->peak_bytes && a->seconds == b->seconds && compose_same(&a->choice, &b->choice);
}

/* `front`: the points that are known. */
static void draw_front(page *p, const setup *s, const decision *d, const search_front *front) {
    uint32_t n = 0, most = front->count + 2;
    page_point *points = memory_new(most, sizeof *points);
    text *labels = memory_new(most, sizeof *labels);
    bool chosen = false, plain = false;
    char limit[PAGE_VALUE_BYTES + 16], few[PAGE_VALUE_BYTES];
    for (uint32_t i = 0; points && labels && i < most; i++) {
        const search_point *x = i < front->count    ? &front->points[i]
                                : i == front->count ? &d->point
                                                    : &d->front.plain;
        page_point_kind kind =
            i > front->count || same_point(x, &d->front.plain) ? PAGE_POINT_PLAIN : PAGE_POINT;
        if (same_point(x, &d->point)) kind = PAGE_POINT_CHOSEN;
        if ((i == front->count && chosen) || !x->peak_bytes) continue;
        if (i > front->count && (plain || same_point(x, &d->point))) continue;
        chosen |= kind == PAGE_POINT_CHOSEN, plain |= kind == PAGE_POINT_PLAIN;
        describe(&labels[n], s, x);
        p->out.failed |= labels[n].failed;
        points[n] = (page_point){ (double)x->peak_bytes, x->seconds, labels[n].data, kind };
        n++;
    }
    snprintf(limit, sizeof limit, "budget %s", page_value(PAGE_BYTES, (double)d->budget, few));
    if (!points || !labels)
        p->out.failed = true;
    else
        page_put_points(p, &(page_points){ .name = "Peak against time",
                                           .about =
                                               "Each point is a plan: none of those that were searched takes "
                                               "less memory in the same time. A budget gets the fastest "
                                               "point within it.",
                                           .x_unit = PAGE_BYTES,
                                           .y_unit = PAGE_SECONDS,
                                           .x_word = "peak",
                                           .y_word = s->request.run.training ? "a step" : "time",
                                           .points = points,
                                           .count = n,
                                           .limit_name = d->budget != UINT64_MAX ? limit : NULL,
                                           .limit = (double)d->budget });
    for (uint32_t i = 0; labels && i < n; i++) text_close(&labels[i]);
    memory_free(labels);
    memory_free(points);
}

void page_put_front(page *p, const setup *s, const decision *d, bool whole) {
    search_front front = { 0 };
    page_section(p, "The front");
    if (whole) {
        status searched = search_run(&s->request, NULL, &front);
        if (p->result == STATUS_OK) p->result = searched;
    } else {
        page_say(p,
                 "Only the points that this run needed are shown; snug plan --html shows the whole front.");
    }
    draw_front(p, s, d, whole ? &front : &d->front);
    search_close(&front);
}

/* ---- the whole ---- */

status report_plan_page(io_writer *file, const setup *s, const decision *d) {
    page p;
    page_plan_head(&p, file, "snug plan", s, d);
    page_put_numbers(&p, s, d);
    page_section(&p, "Memory");
    page_put_memory(&p, s, d, NULL, NULL);
    page_put_holders(&p, d);
    page_put_techniques(&p, s, d);
    page_put_front(&p, s, d, true);
    page_section(&p, "Time");
    page_put_time(&p, s, d, NULL);
    return page_end(&p);
}
