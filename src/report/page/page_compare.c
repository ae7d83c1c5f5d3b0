/* The page of a comparison: rows as bars by category, the time of a step beside, and everything in one table.
 */
#include <math.h>
#include <stdio.h>

#include "base/memory.h"
#include "base/units.h"
#include "report/compare.h"
#include "report/page/page.h"
#include "report/parts.h"

enum { LABEL = 33 };

static bool is_planned(const compare_row *row) { return row->point.peak_bytes > 0; }

/* ---- the answer ---- */

/* What ends the lossless rows: of these the fastest. NULL: none is planned. */
static const compare_row *best_whole(const compare_table *t) {
    const compare_row *best = NULL;
    for (uint32_t i = 0; i < t->count; i++) {
        const compare_row *row = &t->rows[i];
        if (row->group != COMPARE_LOSSLESS || !row->ends || !is_planned(row)) continue;
        if (!best || row->point.seconds < best->point.seconds) best = row;
    }
    return best;
}

static const compare_row *best_alone(const compare_table *t) {
    const compare_row *best = NULL;
    for (uint32_t i = 1; i < t->count; i++) {
        const compare_row *row = &t->rows[i];
        bool same = compare_results(row) == pass_class_name(row->class) && row->class != PASS_LOSSY;
        if (row->group != COMPARE_ALONE || !same || !is_planned(row)) continue;
        if (!best || row->point.peak_bytes < best->point.peak_bytes) best = row;
    }
    return best && best->point.peak_bytes < t->rows[0].point.peak_bytes ? best : NULL;
}

static void add_answer(text *out, const report_comparison *c) {
    char a[UNITS_TEXT_BYTES], b[UNITS_TEXT_BYTES], s[UNITS_TEXT_BYTES], was[UNITS_TEXT_BYTES];
    const compare_row *plain = &c->table->rows[0], *best = best_whole(c->table);
    if (!best || best->point.peak_bytes >= plain->point.peak_bytes) {
        text_add(out, "%s takes %s at its peak, and no technique that keeps its results saves any of that.",
                 c->setup->model.name, units_bytes_text(plain->point.peak_bytes, a));
        return;
    }
    text_add(out, "%s takes %s in place of %s with the same results, and %s a step in place of %s.",
             c->setup->model.name, units_bytes_text(best->point.peak_bytes, a),
             units_bytes_text(plain->point.peak_bytes, b), units_seconds_text(best->point.seconds, s),
             units_seconds_text(plain->point.seconds, was));
}

static void add_further(text *out, const report_comparison *c) {
    char label[COMPARE_LABEL_BYTES], a[UNITS_TEXT_BYTES];
    const compare_row *best = best_whole(c->table), *alone = best_alone(c->table);
    if (best) text_add(out, "That is '%s': %s. ", best->name, best->choice);
    if (alone)
        text_add(out, "Alone, %s saves most: %s at the peak, %.1f %%.",
                 compare_label(alone, COMPARE_LABEL_BYTES, label),
                 units_bytes_text(alone->point.peak_bytes, a), compare_bytes_percent(c->table, alone));
}

/* ---- bars ---- */

typedef struct {
    const report_comparison *c;
    page_bar *bytes, *seconds;
    double (*pieces)[CATEGORY_COUNT];
    char (*labels)[COMPARE_LABEL_BYTES];
} picture;

static bool open_picture(picture *p) {
    uint32_t n = p->c->table->count;
    p->bytes = memory_new(n + 1u, sizeof *p->bytes);
    p->seconds = memory_new(n + 1u, sizeof *p->seconds);
    p->pieces = memory_new(n + 1u, sizeof *p->pieces);
    p->labels = memory_new(n + 1u, sizeof *p->labels);
    return p->bytes && p->seconds && p->pieces && p->labels;
}

static void close_picture(picture *p) {
    memory_free(p->bytes), memory_free(p->seconds), memory_free(p->pieces), memory_free(p->labels);
}

static void fill(picture *p, const compare_row *row, uint32_t counts[2]) {
    const compare_row *plain = &p->c->table->rows[0];
    const compare_measured *m = &row->measured;
    uint32_t i = counts[0]++;
    compare_label(row, LABEL, p->labels[i]);
    for (int k = 0; k < CATEGORY_COUNT; k++) p->pieces[i][k] = (double)row->by_category[k];
    p->bytes[i] =
        (page_bar){ .label = p->labels[i],
                    .value = (double)row->point.peak_bytes,
                    .marks = { (double)plain->point.peak_bytes, m->done ? (double)m->peak_bytes : NAN },
                    .pieces = p->pieces[i] };
    if (row->other.eval_only) return;
    p->seconds[counts[1]++] =
        (page_bar){ .label = p->labels[i],
                    .value = row->point.seconds,
                    .marks = { plain->point.seconds, m->done ? m->step_seconds : NAN } };
}

/* A group's rows, below the plain one that they are compared with. */
static void put_group(page *out, picture *p, compare_group g) {
    const compare_table *t = p->c->table;
    const char *names[CATEGORY_COUNT], *measured = p->c->measured ? "measured" : NULL;
    uint32_t counts[2] = { 0, 0 };
    text bytes = { 0 }, seconds = { 0 };
    for (int k = 0; k < CATEGORY_COUNT; k++) names[k] = category_name((category)k);
    fill(p, &t->rows[0], counts);
    for (uint32_t i = 1; i < t->count; i++)
        if (t->rows[i].group == g && is_planned(&t->rows[i])) fill(p, &t->rows[i], counts);
    if (counts[0] < 2) return;
    const char *title = compare_group_title(g);
    text_add(&bytes, "%s: bytes at the peak", title);
    text_add(&seconds, "%s: the time of a step", title);
    if (bytes.failed || seconds.failed) {
        out->out.failed = true;
    } else {
        page_section(out, title);
        page_put_bars(out, &(page_bars){ .name = bytes.data,
                                         .label_word = "row",
                                         .unit = PAGE_BYTES,
                                         .value_name = "planned",
                                         .mark_names = { "plain", measured },
                                         .piece_names = names,
                                         .piece_count = CATEGORY_COUNT,
                                         .bars = p->bytes,
                                         .count = counts[0] });
        page_put_bars(out, &(page_bars){ .name = seconds.data,
                                         .label_word = "row",
                                         .unit = PAGE_SECONDS,
                                         .value_name = "predicted",
                                         .mark_names = { "plain", measured },
                                         .bars = p->seconds,
                                         .count = counts[1] });
    }
    text_close(&bytes);
    text_close(&seconds);
}

/* ---- the table ---- */

enum { COLUMNS = 12, PLANNED = 8 };
static const page_column columns[COLUMNS] = {
    { "group", false },        { "row", false },          { "peak", true },
    { "against plain", true }, { "a step", true },        { "against plain", true },
    { "results", false },      { "note", false },         { "measured peak", true },
    { "as planned", false },   { "measured step", true }, { "loss, validation", true },
};

static void put_measured(page *p, const compare_row *row) {
    const compare_measured *m = &row->measured;
    char few[2 * PAGE_VALUE_BYTES], loss[PAGE_VALUE_BYTES], validation[PAGE_VALUE_BYTES];
    page_cell(p, &columns[PLANNED], m->done ? report_count(m->peak_bytes, few) : "");
    page_cell(p, &columns[PLANNED + 1], !m->done ? m->why : m->planned ? "equal" : "differs");
    page_cell(p, &columns[PLANNED + 2], m->done ? page_value(PAGE_SECONDS, m->step_seconds, few) : "");
    snprintf(few, sizeof few, "%s, %s", page_value(PAGE_NUMBER, m->loss, loss),
             page_value(PAGE_NUMBER, m->validation, validation));
    page_cell(p, &columns[PLANNED + 3], m->done ? few : "");
}

static void put_row(page *p, const report_comparison *c, uint32_t i) {
    const compare_row *row = &c->table->rows[i];
    char label[COMPARE_LABEL_BYTES], few[2 * PAGE_VALUE_BYTES];
    bool planned = is_planned(row), steps = planned && !row->other.eval_only;
    page_row(p, row->ends);
    page_cell(p, &columns[0], compare_group_name(row->group));
    page_cell(p, &columns[1], compare_label(row, COMPARE_LABEL_BYTES, label));
    page_cell(p, &columns[2], planned ? report_count(row->point.peak_bytes, few) : "-");
    snprintf(few, sizeof few, "%+.1f %%", compare_bytes_percent(c->table, row));
    page_cell(p, &columns[3], planned && i ? few : "");
    page_cell(p, &columns[4], steps ? page_value(PAGE_SECONDS, row->point.seconds, few) : "-");
    snprintf(few, sizeof few, "%+.1f %%", compare_seconds_percent(c->table, row));
    page_cell(p, &columns[5], steps && i ? few : "");
    page_cell(p, &columns[6], planned && i ? compare_results(row) : "");
    page_cell(p, &columns[7], compare_note(c->table, i));
    if (c->measured) put_measured(p, row);
}

static void put_table(page *p, const report_comparison *c) {
    page_section(p, "Every row");
    page_table_begin(p, "Peaks in bytes", columns, c->measured ? COLUMNS : PLANNED);
    for (uint32_t i = 0; i < c->table->count; i++) put_row(p, c, i);
    page_table_end(p);
    if (!c->table->any_allowed)
        page_say(p, "What changes numerics is counted in where --allow names it. 'exact' are the same bits, "
                    "'reassociating' sums in another order, 'lossy' other numerics.");
    char said[COMPARE_SAID_BYTES];
    if (*compare_unconfirmed_text(c, said)) page_say(p, "%s.", said);
}

/* ---- the whole ---- */

static void put_run(page *p, const report_comparison *c) {
    const setup *s = c->setup;
    const compose_run *r = &s->request.run;
    text run = { 0 };
    text_add(&run, "%s, a batch of %lld sample%s", optimizer_title(r->optimizer.kind), (long long)r->batch,
             r->batch == 1 ? "" : "s");
    if (s->model.context) text_add(&run, " of %lld tokens", (long long)r->context);
    if (run.data) page_say(p, "%s; times predicted with rates of the %s.", run.data, r->lower.rates.source);
    if (c->measured)
        page_say(p, "Measured: %lld step%s a row, each row in a process of its own, watched from outside.",
                 (long long)s->options.steps, s->options.steps == 1 ? "" : "s");
    p->out.failed |= run.failed;
    text_close(&run);
}

status report_compare_page(io_writer *file, const report_comparison *c) {
    page p;
    picture rows = { .c = c };
    text title = { 0 }, answer = { 0 }, further = { 0 };
    text_add(&title, "snug compare %s", c->setup->model.name);
    add_answer(&answer, c);
    add_further(&further, c);
    bool failed = title.failed || answer.failed || further.failed || !open_picture(&rows);
    page_begin(&p, file, &(page_head){ title.data, answer.data, further.data, false });
    p.out.failed |= failed;
    put_run(&p, c);
    for (int g = COMPARE_ASKED; !failed && g > COMPARE_PLAIN; g--)
        if (g != COMPARE_ALONE) put_group(&p, &rows, (compare_group)g);
    if (!failed) put_group(&p, &rows, COMPARE_ALONE);
    put_table(&p, c);
    close_picture(&rows);
    text_close(&title);
    text_close(&answer);
    text_close(&further);
    return page_end(&p);
}
