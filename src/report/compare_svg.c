/* The comparison as a picture for a slide: a row a technique, its bytes as a bar cut by category, and the
 * numbers beside it. Nothing is laid out by measuring text: columns have fixed places, and labels are cut to
 * what they hold at any usual sans-serif font. Colours tell apart what is light from what is dark, too, and
 * every second category is hatched, so the chart can be read in print and by those who don't see colours. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "base/utf8.h"
#include "report/compare.h"

enum {
    WIDTH = 1280,
    MARGIN = 32,
    BAR_LEFT = 330,
    BAR_WIDTH = 380, /* of the largest peak; beside it there is room for a note */
    PEAK_RIGHT = 935,
    PEAK_CHANGE_RIGHT = 1005,
    STEP_RIGHT = 1095,
    STEP_CHANGE_RIGHT = 1175,
    LOSS_RIGHT = WIDTH - MARGIN,
    LABEL_COLUMNS = 36,
    ROW_HEIGHT = 24,
    BAR_HEIGHT = 15,
    HEADING_HEIGHT = 34,
    HEAD = 132 /* title, legend, names of columns */
};

typedef struct {
    text *out;
    const report_comparison *c;
    double scale; /* pixels a byte */
    int y;        /* baseline of the row */
} drawing;

/* ---- text ---- */

static void add_escaped(text *out, const char *s) {
    for (; *s; s++) {
        if (*s == '&')
            text_add(out, "&amp;");
        else if (*s == '<')
            text_add(out, "&lt;");
        else if (*s == '"')
            text_add(out, "&quot;");
        else if ((unsigned char)*s < ' ')
            text_add(out, " ");
        else
            text_add(out, "%c", *s);
    }
}

static void put_text(const drawing *d, int x, int y, const char *classes, const char *s) {
    text_add(d->out, "<text x=\"%d\" y=\"%d\" class=\"%s\">", x, y, classes);
    add_escaped(d->out, s);
    text_add(d->out, "</text>\n");
}

/* ---- the frame ---- */

static void add_style(text *out) {
    text_add(
        out,
        "<style>\n"
        "text { font-family: 'Helvetica Neue', Arial, sans-serif; font-size: 14px; fill: #1d1f24 }\n"
        ".title { font-size: 24px; font-weight: bold }\n"
        ".heading, .whole { font-weight: bold }\n"
        ".right { text-anchor: end }\n"
        ".dim { fill: #5c626d } .note { font-size: 12px; fill: #5c626d }\n"
        ".less { fill: #14692f } .more { fill: #a3231b }\n"
        ".ground { fill: #ffffff } .rule { stroke: #c9ccd2 } .seen { stroke: #1d1f24; stroke-width: 2 }\n"
        ".hatch { stroke: #ffffff; stroke-width: 2; stroke-opacity: .45 }\n"
        "@media (prefers-color-scheme: dark) {\n"
        "text { fill: #e9eaee } .dim, .note { fill: #a5abb6 }\n"
        ".less { fill: #6fd08c } .more { fill: #ff9a90 }\n"
        ".ground { fill: #17191e } .rule { stroke: #3c414b } .seen { stroke: #ffffff }\n"
        ".hatch { stroke: #17191e }\n"
        "}\n</style>\n"
        "<defs><pattern id=\"hatched\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
        "patternTransform=\"rotate(45)\"><line x1=\"0\" y1=\"0\" x2=\"0\" y2=\"6\" class=\"hatch\"/>"
        "</pattern></defs>\n");
}

static const char *colour(category c) {
    static const char *const colours[CATEGORY_COUNT] = {
        [CATEGORY_WEIGHTS] = "#2f5d9b",     [CATEGORY_GRADIENTS] = "#6ea6dc",
        [CATEGORY_OPTIMIZER] = "#8a5aa5",   [CATEGORY_ACTIVATIONS] = "#d9822b",
        [CATEGORY_TEMPORARIES] = "#e8b96f", [CATEGORY_SCRATCH] = "#3f9c7b",
        [CATEGORY_INPUTS] = "#90c9b1",      [CATEGORY_GAPS] = "#c0504d",
        [CATEGORY_RUNTIME] = "#8d939e",     [CATEGORY_CACHE] = "#5a8aa5"
    };
    return colours[c];
}

/* A piece of a bar, or of the legend. */
static void put_box(const drawing *d, double x, double y, double width, category c) {
    const char *const fills[] = { colour(c), "url(#hatched)" };
    for (int layer = 0; layer <= (int)c % 2; layer++)
        text_add(d->out, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\" fill=\"%s\"/>\n", x, y,
                 width, BAR_HEIGHT, fills[layer]);
}

static void put_legend(const drawing *d) {
    double x = MARGIN;
    for (int c = 0; c < CATEGORY_COUNT; c++) {
        uint64_t most = 0;
        for (uint32_t i = 0; i < d->c->table->count; i++)
            if (d->c->table->rows[i].by_category[c] > most) most = d->c->table->rows[i].by_category[c];
        if ((double)most * d->scale < 0.5) continue; /* too little to be seen in any bar */
        put_box(d, x, 76, BAR_HEIGHT, (category)c);
        put_text(d, (int)x + 21, 88, "", category_name((category)c));
        x += 43 + 8 * (double)strlen(category_name((category)c));
    }
    if (!d->c->measured) return;
    text_add(d->out, "<line x1=\"%.0f\" y1=\"74\" x2=\"%.0f\" y2=\"93\" class=\"seen\"/>\n", x + 6, x + 6);
    put_text(d, (int)x + 16, 88, "", "measured");
}

static void put_head(const drawing *d) {
    const setup *s = d->c->setup;
    const compose_run *r = &s->request.run;
    char line[512], length[48] = "", name[UTF8_QUOTE_BYTES];
    snprintf(line, sizeof line, "%s: what training takes, technique by technique",
             utf8_quote(s->model.name, name));
    put_text(d, MARGIN, 40, "title", line);
    if (s->model.context) snprintf(length, sizeof length, " of %lld tokens", (long long)r->context);
    snprintf(line, sizeof line, "%s, a batch of %lld sample%s%s, %d thread%s. Times %s%s.",
             optimizer_title(r->optimizer.kind), (long long)r->batch, r->batch == 1 ? "" : "s", length,
             (int)r->lower.threads, r->lower.threads == 1 ? "" : "s",
             d->c->measured ? "measured" : "predicted, rates: ", d->c->measured ? "" : r->lower.rates.source);
    put_text(d, MARGIN, 62, "dim", line);
    put_legend(d);
    put_text(d, PEAK_RIGHT, HEAD - 12, "dim right", "peak");
    put_text(d, STEP_RIGHT, HEAD - 12, "dim right", "a step");
    if (d->c->measured) put_text(d, LOSS_RIGHT, HEAD - 12, "dim right", "loss");
}

/* ---- rows ---- */

static void put_percent(const drawing *d, int x, double percent, double noise) {
    char number[32];
    const char *class = fabs(percent) < noise ? "right dim" : percent < 0 ? "right less" : "right more";
    snprintf(number, sizeof number, "%+.1f %%", fabs(percent) < 0.05 ? 0 : percent);
    put_text(d, x, d->y, class, number);
}

static void put_bar(const drawing *d, const compare_row *row) {
    double x = BAR_LEFT, top = d->y - 12;
    for (int c = 0; c < CATEGORY_COUNT; c++) {
        double width = (double)row->by_category[c] * d->scale;
        if (width < 0.05) continue;
        put_box(d, x, top, width, (category)c);
        x += width;
    }
    if (!row->measured.done) return;
    double seen = BAR_LEFT + (double)row->measured.peak_bytes * d->scale;
    text_add(d->out, "<line x1=\"%.2f\" y1=\"%.1f\" x2=\"%.2f\" y2=\"%.1f\" class=\"seen\"/>\n", seen,
             top - 2, seen, top + BAR_HEIGHT + 2);
}

/* Of the measured step where it was measured, and then against the measured plain one. */
static void put_time(const drawing *d, const compare_row *row) {
    const compare_row *plain = &d->c->table->rows[0];
    char number[UNITS_TEXT_BYTES];
    if (row->other.eval_only) return;
    if (!d->c->measured) {
        put_text(d, STEP_RIGHT, d->y, "right", units_seconds_text(row->point.seconds, number));
        if (row != plain) put_percent(d, STEP_CHANGE_RIGHT, compare_seconds_percent(d->c->table, row), 0.05);
        return;
    }
    if (!row->measured.done) {
        put_text(d, STEP_RIGHT, d->y, "right dim", "not run");
        return;
    }
    double seconds = row->measured.step_seconds;
    put_text(d, STEP_RIGHT, d->y, "right", units_seconds_text(seconds, number));
    if (row != plain && plain->measured.done)
        put_percent(d, STEP_CHANGE_RIGHT, 100 * (seconds / plain->measured.step_seconds - 1), 1);
}

static void put_loss(const drawing *d, const compare_row *row) {
    const compare_row *plain = &d->c->table->rows[0];
    char number[32];
    if (!row->measured.done) return;
    bool same = row != plain && plain->measured.done && row->measured.loss == plain->measured.loss;
    snprintf(number, sizeof number, "%.4f", row->measured.loss);
    put_text(d, LOSS_RIGHT, d->y, same ? "right dim" : "right", same ? "the same" : number);
}

static void put_row(drawing *d, uint32_t i) {
    const compare_table *t = d->c->table;
    const compare_row *row = &t->rows[i];
    const char *note = compare_note(t, i);
    char label[COMPARE_LABEL_BYTES], number[UNITS_TEXT_BYTES];
    text_add(d->out, "<g><title>");
    add_escaped(d->out, compare_label(row, COMPARE_LABEL_BYTES - 1, label));
    if (row->choice[0]) text_add(d->out, ": ");
    add_escaped(d->out, row->choice);
    text_add(d->out, "</title>\n");
    put_text(d, MARGIN, d->y, row->ends || i == 0 ? "whole" : "", compare_label(row, LABEL_COLUMNS, label));
    double end = BAR_LEFT + (double)row->point.peak_bytes * d->scale;
    put_text(d, (int)end + 8, d->y - 1, "note", note);
    if (row->point.peak_bytes) {
        put_bar(d, row);
        put_text(d, PEAK_RIGHT, d->y, "right", units_bytes_text(row->point.peak_bytes, number));
        if (i) put_percent(d, PEAK_CHANGE_RIGHT, compare_bytes_percent(t, row), 0.05);
        put_time(d, row);
        put_loss(d, row);
    }
    text_add(d->out, "</g>\n");
    d->y += ROW_HEIGHT;
}

static bool begins_group(const compare_table *t, uint32_t i) {
    return i && t->rows[i].group != t->rows[i - 1].group;
}

static int height_of(const compare_table *t) {
    int height = HEAD + MARGIN / 2;
    for (uint32_t i = 0; i < t->count; i++) height += ROW_HEIGHT + (begins_group(t, i) ? HEADING_HEIGHT : 0);
    return height;
}

void report_compare_svg(text *out, const report_comparison *c) {
    const compare_table *t = c->table;
    uint64_t most = 1;
    char name[UTF8_QUOTE_BYTES];
    for (uint32_t i = 0; i < t->count; i++)
        if (t->rows[i].point.peak_bytes > most) most = t->rows[i].point.peak_bytes;
    drawing d = { .out = out, .c = c, .scale = BAR_WIDTH / (double)most, .y = HEAD + 14 };
    int height = height_of(t);
    text_add(out,
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
             "role=\"img\">\n",
             WIDTH, height, WIDTH, height);
    text_add(out, "<title>Memory and time of training ");
    add_escaped(out, utf8_quote(c->setup->model.name, name));
    text_add(out, " with each technique, and with them together</title>\n");
    add_style(out);
    text_add(out, "<rect width=\"%d\" height=\"%d\" class=\"ground\"/>\n", WIDTH, height);
    put_head(&d);
    for (uint32_t i = 0; i < t->count; i++) {
        if (begins_group(t, i)) {
            d.y += HEADING_HEIGHT;
            text_add(out, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" class=\"rule\"/>\n", MARGIN,
                     d.y - ROW_HEIGHT - 18, WIDTH - MARGIN, d.y - ROW_HEIGHT - 18);
            put_text(&d, MARGIN, d.y - ROW_HEIGHT + 2, "heading", compare_group_title(t->rows[i].group));
        }
        put_row(&d, i);
    }
    text_add(out, "</svg>\n");
}
