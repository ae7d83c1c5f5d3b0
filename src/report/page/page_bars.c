/* Bars: a row each, its value as a bar, perhaps in pieces, and what stands beside it as ticks on the bar. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/page/page_chart.h"
#include "report/report.h"

enum { WIDTH = 1000, LEFT = 250, RIGHT = 130, TOP = 8, ROW = 24, BAR = 14, BOTTOM = 34, LABEL_BYTES = 34 };

typedef struct {
    const page_bars *b;
    page_scale x;
} picture;

/* A label that fits: what is too long keeps its beginning, at a whole character. */
static const char *fit(const char *s, char few[LABEL_BYTES + 4]) {
    size_t length = strlen(s);
    if (length <= LABEL_BYTES) return s;
    length = LABEL_BYTES - 1;
    while (length && ((unsigned char)s[length] & 0xc0) == 0x80) length--;
    snprintf(few, LABEL_BYTES + 4, "%.*s\xe2\x80\xa6", (int)length, s);
    return few;
}

static void draw_piece(page *p, const double place[3], uint32_t tone) {
    for (uint32_t layer = 0; layer <= (tone % 4 != 0); layer++) {
        page_add(p, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" ", place[0], place[1],
                 place[2] > 0.5 ? place[2] : 0.5, BAR);
        if (layer)
            page_add(p, "fill=\"url(#h%u)\"/>\n", (unsigned)tone % 4);
        else
            page_add(p, "class=\"t%u\"/>\n", (unsigned)(tone % PAGE_TONES));
    }
}

static void draw_bar(page *p, const picture *c, uint32_t i) {
    const page_bar *x = &c->b->bars[i];
    double y = TOP + ROW * (double)i + (ROW - BAR) / 2.0;
    char few[PAGE_VALUE_BYTES], label[LABEL_BYTES + 4], both[256];
    snprintf(both, sizeof both, "%.120s%s%.60s", x->label, x->note && *x->note ? ", " : "",
             x->note ? x->note : "");
    page_add(p, "<rect x=\"0\" y=\"%d\" width=\"%d\" height=\"%d\" class=\"row\" data-i=\"%u\"/>\n",
             TOP + ROW * (int)i, WIDTH, ROW, (unsigned)i);
    page_label(p, LEFT - 10, y + BAR - 2, "name e", fit(both, label));
    if (isfinite(x->value)) {
        if (!x->pieces) {
            page_add(p, "<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" class=\"bar\"/>\n", LEFT, y,
                     page_place(&c->x, x->value) - LEFT, BAR);
        } else {
            double sum = 0;
            for (uint32_t k = 0; k < c->b->piece_count; k++) {
                if (!(x->pieces[k] > 0)) continue;
                double from = page_place(&c->x, sum);
                sum += x->pieces[k];
                draw_piece(p, (double[]){ from, y, page_place(&c->x, sum) - from }, k);
            }
        }
    }
    for (int k = 0; k < PAGE_MARKS; k++) {
        if (!c->b->mark_names[k] || !isfinite(x->marks[k])) continue;
        double at = page_place(&c->x, x->marks[k]);
        page_stroke(p, (double[]){ at, y - 3 }, (double[]){ at, y + BAR + 3 }, k ? "mark1" : "mark0");
    }
    page_label(p, WIDTH - 12, y + BAR - 2, "value e", page_value(c->b->unit, x->value, few));
}

static void add_marks_legend(page *p, const page_bars *b) {
    if (!b->mark_names[0] && !b->mark_names[1]) return;
    page_add(p, "<ul class=\"legend\"><li><svg class=\"swatch\" viewBox=\"0 0 14 14\" aria-hidden=\"true\">"
                "<rect width=\"14\" height=\"14\" class=\"bar\"/></svg>");
    page_put(p, b->value_name);
    page_add(p, "</li>");
    for (int k = 0; k < PAGE_MARKS; k++) {
        if (!b->mark_names[k]) continue;
        page_add(
            p,
            "<li><svg class=\"swatch\" viewBox=\"0 0 14 14\" aria-hidden=\"true\"><path class=\"mark%d\" "
            "d=\"M7 0V14\"/></svg>",
            k);
        page_put(p, b->mark_names[k]);
        page_add(p, "</li>");
    }
    page_add(p, "</ul>\n");
}

static const char *cell_value(const page_bars *b, double value, char few[2 * PAGE_VALUE_BYTES]) {
    if (b->unit == PAGE_BYTES && isfinite(value) && value >= 0)
        return report_count((uint64_t)(value + 0.5), few);
    return page_value(b->unit, value, few);
}

static void add_table(page *p, const page_bars *b) {
    page_column columns[4 + PAGE_MARKS + PAGE_TONES];
    uint32_t n = 0;
    char few[2 * PAGE_VALUE_BYTES];
    columns[n++] = (page_column){ b->label_word, false };
    if (b->note_word) columns[n++] = (page_column){ b->note_word, false };
    columns[n++] = (page_column){ b->value_name, true };
    for (int k = 0; k < PAGE_MARKS; k++)
        if (b->mark_names[k]) columns[n++] = (page_column){ b->mark_names[k], true };
    for (uint32_t k = 0; k < b->piece_count; k++) columns[n++] = (page_column){ b->piece_names[k], true };
    page_table_begin(p, b->name, columns, n);
    for (uint32_t i = 0; i < b->count; i++) {
        const page_bar *x = &b->bars[i];
        uint32_t at = 0;
        page_row(p, false);
        page_cell(p, &columns[at++], x->label);
        if (b->note_word) page_cell(p, &columns[at++], x->note);
        page_cell(p, &columns[at++], cell_value(b, x->value, few));
        for (int k = 0; k < PAGE_MARKS; k++)
            if (b->mark_names[k]) page_cell(p, &columns[at++], cell_value(b, x->marks[k], few));
        for (uint32_t k = 0; k < b->piece_count; k++)
            page_cell(p, &columns[at++], x->pieces ? cell_value(b, x->pieces[k], few) : "");
    }
    page_table_end(p);
}

static void put_data(text *json, const page_bars *b) {
    json_writer w = { .out = json };
    json_begin_object(&w, NULL);
    page_json_unit(&w, "unit", b->unit);
    page_json_text(&w, "value", b->value_name);
    json_begin_array(&w, "marks");
    for (int k = 0; k < PAGE_MARKS; k++)
        if (b->mark_names[k]) page_json_text(&w, NULL, b->mark_names[k]);
    json_end_array(&w);
    json_begin_array(&w, "pieces");
    for (uint32_t k = 0; k < b->piece_count; k++) page_json_text(&w, NULL, b->piece_names[k]);
    json_end_array(&w);
    json_begin_array(&w, "bars");
    for (uint32_t i = 0; i < b->count; i++) {
        const page_bar *x = &b->bars[i];
        json_begin_object(&w, NULL);
        page_json_text(&w, "label", x->label);
        page_json_text(&w, "note", x->note);
        json_put_number(&w, "value", x->value);
        json_begin_array(&w, "marks");
        for (int k = 0; k < PAGE_MARKS; k++)
            if (b->mark_names[k]) json_put_number(&w, NULL, x->marks[k]);
        json_end_array(&w);
        json_begin_array(&w, "pieces");
        for (uint32_t k = 0; x->pieces && k < b->piece_count; k++) json_put_number(&w, NULL, x->pieces[k]);
        json_end_array(&w);
        json_end_object(&w);
    }
    json_end_array(&w);
    json_end_object(&w);
}

void page_put_bars(page *p, const page_bars *b) {
    const page_figure f = { "bars", b->name, b->about, WIDTH, TOP + ROW * (int)b->count + BOTTOM };
    picture c = { .b = b, .x = { 0, 0, LEFT, WIDTH - RIGHT } };
    bool there[PAGE_TONES] = { false };
    text json = { 0 };
    for (uint32_t i = 0; i < b->count; i++) {
        const page_bar *x = &b->bars[i];
        if (x->value > c.x.high) c.x.high = x->value;
        for (int k = 0; k < PAGE_MARKS; k++)
            if (b->mark_names[k] && isfinite(x->marks[k]) && x->marks[k] > c.x.high) c.x.high = x->marks[k];
        for (uint32_t k = 0; x->pieces && k < b->piece_count; k++) there[k] |= x->pieces[k] > 0;
    }
    if (!b->count) return;
    page_figure_begin(p, &f);
    page_axis_below(p, b->unit, &c.x, (double[]){ LEFT, TOP, WIDTH - LEFT - RIGHT, ROW * (double)b->count });
    for (uint32_t i = 0; i < b->count; i++) draw_bar(p, &c, i);
    page_figure_drawn(p, &f);
    if (b->piece_count) page_legend(p, b->piece_names, there, b->piece_count);
    add_marks_legend(p, b);
    add_table(p, b);
    put_data(&json, b);
    page_figure_end(p, &json);
}
