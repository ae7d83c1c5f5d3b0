/* The comparison as text: peak and time of every row against plain, where the bytes are, and what was
 * measured. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "report/compare.h"
#include "report/parts.h"

enum { LINE = 108, LABEL = 32, NARROW_LABEL = 30 };

static void add_title(text *out, const report_comparison *c, const parts_colours *k) {
    const setup *s = c->setup;
    const compose_run *r = &s->request.run;
    char name[REPORT_NAME_BYTES];
    text_add(out, "%s%s%s, %s, a batch of %lld sample%s", k->bold, report_name(s->model.name, name), k->end,
             optimizer_title(r->optimizer.kind), (long long)r->batch, r->batch == 1 ? "" : "s");
    if (s->model.context) text_add(out, " of %lld tokens", (long long)r->context);
    text_add(out, "; times predicted with rates of the %s\n", r->lower.rates.source);
}

/* A heading where a group begins. */
static void add_group(text *out, const compare_table *t, uint32_t i, const parts_colours *k) {
    const char *title = compare_group_title(t->rows[i].group);
    if (i && t->rows[i].group != t->rows[i - 1].group) text_add(out, "\n%s%s%s\n", k->bold, title, k->end);
}

/* ---- what is planned ---- */

static void add_change(text *out, double percent, bool better, const parts_colours *k) {
    const char *colour = fabs(percent) < 0.05 ? k->dim : better ? k->good : k->bad;
    text_add(out, " %s%+7.1f %%%s", colour, percent, k->end);
}

/* "fuse on, attention flash, …", in as many lines as it takes. */
static void add_choice(text *out, const char *choice, const parts_colours *k) {
    while (*choice) {
        size_t length = strlen(choice), room = LINE - 4;
        if (length > room)
            for (length = room; length > 1 && choice[length - 1] != ','; length--) {}
        text_add(out, "%s    %.*s%s\n", k->dim, (int)length, choice, k->end);
        choice += length + strspn(choice + length, " ");
    }
}

static void add_planned_row(text *out, const compare_table *t, uint32_t i, const parts_colours *k) {
    const compare_row *row = &t->rows[i];
    char label[COMPARE_LABEL_BYTES], bytes[UNITS_TEXT_BYTES], seconds[UNITS_TEXT_BYTES];
    const char *note = compare_note(t, i);
    bool name_alone = row->ends;
    text_add(out, "%s%-*s%s", name_alone ? k->bold : "", LABEL, compare_label(row, LABEL, label), k->end);
    if (!row->point.peak_bytes) {
        text_add(out, " %11s  %s%s%s\n", "-", k->dim, note, k->end);
        return;
    }
    text_add(out, " %11s", units_bytes_text(row->point.peak_bytes, bytes));
    if (i)
        add_change(out, compare_bytes_percent(t, row), row->point.peak_bytes < t->rows[0].point.peak_bytes,
                   k);
    else
        text_add(out, " %9s", "");
    bool steps = !row->other.eval_only;
    text_add(out, " %9s", steps ? units_seconds_text(row->point.seconds, seconds) : "-");
    if (!steps) text_add(out, "%10s", "");
    if (i && steps)
        add_change(out, compare_seconds_percent(t, row), row->point.seconds < t->rows[0].point.seconds, k);
    if (i) text_add(out, "  %s%s%s", compare_results(row), *note ? "; " : "", note);
    text_add(out, "\n");
    if (row->ends) add_choice(out, row->choice, k);
}

static void add_planned(text *out, const compare_table *t, const parts_colours *k) {
    text_add(out, "\n%s%-*s %11s %9s %9s %9s  %s%s\n", k->dim, LABEL, "", "peak", "change", "a step",
             "change", "results", k->end);
    for (uint32_t i = 0; i < t->count; i++) {
        add_group(out, t, i, k);
        add_planned_row(out, t, i, k);
    }
}

/* ---- where the bytes are ---- */

/* What is compared trains, and has no cache. */
enum { COMPARED = CATEGORY_CACHE };

static const char *short_name(category c) {
    static const char *const names[CATEGORY_COUNT] = {
        [CATEGORY_WEIGHTS] = "weights",    [CATEGORY_GRADIENTS] = "grads",   [CATEGORY_OPTIMIZER] = "optim.",
        [CATEGORY_ACTIVATIONS] = "activ.", [CATEGORY_TEMPORARIES] = "temp.", [CATEGORY_SCRATCH] = "scratch",
        [CATEGORY_INPUTS] = "inputs",      [CATEGORY_GAPS] = "gaps",         [CATEGORY_RUNTIME] = "runtime"
    };
    return names[c];
}

static void add_categories(text *out, const compare_table *t, const parts_colours *k) {
    text_add(out, "\n%sWhere the bytes are at the peak, in MiB%s\n%s%-*s", k->bold, k->end, k->dim,
             NARROW_LABEL, "");
    for (int c = 0; c < COMPARED; c++) text_add(out, "%8s", short_name((category)c));
    text_add(out, "%s\n", k->end);
    for (uint32_t i = 0; i < t->count; i++) {
        const compare_row *row = &t->rows[i];
        char label[COMPARE_LABEL_BYTES];
        if (!row->point.peak_bytes) continue;
        text_add(out, "%-*s", NARROW_LABEL, compare_label(row, NARROW_LABEL, label));
        for (int c = 0; c < COMPARED; c++) {
            double mebibytes = (double)row->by_category[c] / 0x1p20;
            text_add(out, row->by_category[c] ? "%8.1f" : "%8.0f", mebibytes);
        }
        text_add(out, "\n");
    }
}

/* ---- what was measured ---- */

static void add_loss(text *out, double loss, double plain) {
    char change[16] = "";
    if (isnan(loss)) {
        text_add(out, " %8s %8s", "-", "");
        return;
    }
    if (loss == plain)
        snprintf(change, sizeof change, "same");
    else if (!isnan(plain))
        snprintf(change, sizeof change, "%+.4f", loss - plain);
    text_add(out, " %8.4f %8s", loss, change);
}

static void add_measured_row(text *out, const compare_table *t, uint32_t i) {
    const compare_measured *m = &t->rows[i].measured, *plain = &t->rows[0].measured;
    char label[COMPARE_LABEL_BYTES], bytes[UNITS_TEXT_BYTES], seconds[UNITS_TEXT_BYTES], change[16] = "";
    text_add(out, "%-*s", NARROW_LABEL, compare_label(&t->rows[i], NARROW_LABEL, label));
    if (!m->done) {
        text_add(out, " %11s  %s\n", "-", m->why[0] ? m->why : "not measured");
        return;
    }
    if (i && plain->done)
        snprintf(change, sizeof change, "%+.1f %%", 100 * (m->step_seconds / plain->step_seconds - 1));
    text_add(out, " %11s %7s %9s %8s", units_bytes_text(m->peak_bytes, bytes),
             m->planned ? "equal" : "DIFFER", units_seconds_text(m->step_seconds, seconds), change);
    add_loss(out, m->loss, i && plain->done ? plain->loss : NAN);
    add_loss(out, m->validation, i && plain->done ? plain->validation : NAN);
    text_add(out, "\n");
}

static void add_measured(text *out, const report_comparison *c, const parts_colours *k) {
    const compare_table *t = c->table;
    text_add(out,
             "\n%sMeasured%s, %lld step%s a row, each row in a process of its own, watched from outside%s\n",
             k->bold, k->end, (long long)c->setup->options.steps, c->setup->options.steps == 1 ? "" : "s",
             c->setup->options.data ? "" : "; on random samples");
    text_add(out, "%s%-*s %11s %7s %9s %8s %8s %8s %8s %8s%s\n", k->dim, NARROW_LABEL, "", "peak", "bytes",
             "a step", "change", "loss", "change", "validat.", "change", k->end);
    for (uint32_t i = 0; i < t->count; i++)
        if (t->rows[i].point.peak_bytes) add_measured_row(out, t, i);
    text_add(out,
             "%sbytes: planned and measured ones of every category but runtime; loss: of the last step; "
             "changes: against plain%s\n",
             k->dim, k->end);
}

void report_compare_text(text *out, const report_comparison *c, const report_style *style) {
    parts_colours k = parts_colours_of(style);
    add_title(out, c, &k);
    add_planned(out, c->table, &k);
    if (!c->table->any_allowed)
        text_add(out, "\nWhat changes numerics is counted in where --allow names it.\n");
    char said[COMPARE_SAID_BYTES];
    if (*compare_unconfirmed_text(c, said)) text_add(out, "\n%s.\n", said);
    add_categories(out, c->table, &k);
    if (c->measured) add_measured(out, c, &k);
}
