/* Curves. A long run has more steps than anybody can see: of each of some hundred stretches the lowest and
 * the highest value are kept, with their steps, so no spike is lost. */
#include <math.h>
#include <stdio.h>

#include "report/page/page_chart.h"

enum {
    WIDTH = 560,
    HEIGHT = 260,
    LEFT = 84,
    RIGHT = 12,
    TOP = 16,
    BOTTOM = 44,
    STRETCHES = 500,
    ROWS = 16 /* of the table: evenly spread, with both ends */
};

typedef struct {
    const page_lines *l;
    page_scale x, y;
} picture;

/* Calls `take` for the points that are kept. */
typedef struct {
    page *p;
    json_writer *w;
    const picture *c;
    bool gap; /* the next point begins anew */
} pen;

static void each_kept(const page_line *line, pen *to, void (*take)(pen *to, double x, double y)) {
    uint32_t stretch = line->count / STRETCHES + 1;
    for (uint32_t from = 0; from < line->count; from += stretch) {
        uint32_t end = line->count - from < stretch ? line->count : from + stretch, low = from, high = from;
        bool gap = false;
        for (uint32_t i = from; i < end; i++) {
            if (!isfinite(line->y[i])) {
                gap = true;
                continue;
            }
            if (!(line->y[i] >= line->y[low])) low = i;
            if (!(line->y[i] <= line->y[high])) high = i;
        }
        uint32_t first = low < high ? low : high, second = low < high ? high : low;
        if (gap) take(to, line->x[from], NAN);
        if (isfinite(line->y[first])) take(to, line->x[first], line->y[first]);
        if (second != first) take(to, line->x[second], line->y[second]);
    }
}

static void draw_point(pen *to, double x, double y) {
    if (!isfinite(y)) {
        to->gap = true;
        return;
    }
    page_add(to->p, "%s%.1f %.1f", to->gap ? "M" : "L", page_place(&to->c->x, x), page_place(&to->c->y, y));
    to->gap = false;
}

static void write_point(pen *to, double x, double y) {
    json_put_number(to->w, NULL, x);
    json_put_number(to->w, NULL, y);
}

static void widen(page_scale *s, double value) {
    if (!isfinite(value)) return;
    if (!(s->low <= value)) s->low = value;
    if (!(s->high >= value)) s->high = value;
}

static void set_scales(picture *c) {
    const page_lines *l = c->l;
    c->x = (page_scale){ NAN, NAN, LEFT, WIDTH - RIGHT };
    c->y = (page_scale){ NAN, NAN, HEIGHT - BOTTOM, TOP };
    for (uint32_t k = 0; k < l->count; k++)
        for (uint32_t i = 0; i < l->lines[k].count; i++) {
            widen(&c->x, l->lines[k].x[i]);
            widen(&c->y, l->lines[k].y[i]);
        }
    if (l->unit != PAGE_NUMBER) widen(&c->y, 0);
    if (l->limit_name && l->limit < 1.6 * c->y.high) widen(&c->y, l->limit);
    if (!(c->y.high > c->y.low))
        c->y.high = c->y.low + (c->y.low < 0 || c->y.low > 0 ? fabs(c->y.low) * 0.1 : 1);
    c->y.high += 0.05 * (c->y.high - c->y.low);
    if (!(c->x.high > c->x.low)) c->x.high = c->x.low + 1;
}

static void draw(page *p, const picture *c) {
    const page_lines *l = c->l;
    const double box[4] = { LEFT, TOP, WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM };
    page_axis_left(p, l->unit, &c->y, box);
    page_axis_below(p, PAGE_NUMBER, &c->x, box);
    page_label(p, WIDTH - RIGHT, HEIGHT - 6, "note e", l->x_word);
    if (l->limit_name && l->limit <= c->y.high) {
        double y = page_place(&c->y, l->limit);
        page_stroke(p, (double[]){ LEFT, y }, (double[]){ WIDTH - RIGHT, y }, "limit");
        page_label(p, LEFT + 6, y - 5, "note", l->limit_name);
    }
    for (uint32_t k = 0; k < l->count; k++) {
        pen to = { .p = p, .c = c, .gap = true };
        page_add(p, "<path class=\"line l%u\" d=\"", (unsigned)k % 4);
        each_kept(&l->lines[k], &to, draw_point);
        page_add(p, "\"/>\n");
        if (l->lines[k].count == 1 && isfinite(l->lines[k].y[0]))
            page_add(p, "<circle class=\"dot%u\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>\n", (unsigned)k % 4,
                     page_place(&c->x, l->lines[k].x[0]), page_place(&c->y, l->lines[k].y[0]));
    }
}

static void add_table(page *p, const page_lines *l) {
    static const page_column word = { "", false }, number = { "", true };
    const page_column columns[] = { { "curve", false },
                                    { l->x_word, true },
                                    { l->count > 1 ? "value" : l->name, true } };
    uint32_t named = l->count > 1 ? 0 : 1;
    char few[PAGE_VALUE_BYTES];
    page_table_begin(p, l->name, columns + named, 3 - named);
    for (uint32_t k = 0; k < l->count; k++) {
        const page_line *line = &l->lines[k];
        uint32_t rows = line->count < ROWS ? line->count : ROWS;
        for (uint32_t r = 0; r < rows; r++) {
            uint32_t i = rows > 1 ? (uint32_t)((uint64_t)r * (line->count - 1) / (rows - 1)) : 0;
            page_row(p, false);
            if (!named) page_cell(p, &word, line->name);
            snprintf(few, sizeof few, "%.15g", line->x[i]);
            page_cell(p, &number, few);
            page_cell(p, &number, page_value(l->unit, line->y[i], few));
        }
    }
    page_table_end(p);
}

static void put_data(text *json, const picture *c) {
    const page_lines *l = c->l;
    json_writer w = { .out = json };
    json_begin_object(&w, NULL);
    page_json_text(&w, "x_word", l->x_word);
    page_json_unit(&w, "unit", l->unit);
    if (l->limit_name) json_put_number(&w, "limit", l->limit);
    const double place[] = { LEFT, WIDTH - RIGHT, TOP, HEIGHT - BOTTOM, c->x.low, c->x.high };
    json_begin_array(&w, "scale");
    for (size_t i = 0; i < sizeof place / sizeof *place; i++) json_put_number(&w, NULL, place[i]);
    json_end_array(&w);
    json_begin_array(&w, "lines");
    for (uint32_t k = 0; k < l->count; k++) {
        pen to = { .w = &w };
        json_begin_object(&w, NULL);
        page_json_text(&w, "name", l->lines[k].name);
        json_put_unsigned(&w, "of", l->lines[k].count);
        json_begin_array(&w, "points");
        each_kept(&l->lines[k], &to, write_point);
        json_end_array(&w);
        json_end_object(&w);
    }
    json_end_array(&w);
    json_end_object(&w);
}

void page_put_lines(page *p, const page_lines *l) {
    const page_figure f = { "lines", l->name, l->about, WIDTH, HEIGHT };
    picture c = { .l = l };
    text json = { 0 };
    set_scales(&c);
    if (!isfinite(c.x.low) || !isfinite(c.y.low)) return; /* nothing was recorded */
    page_figure_begin(p, &f);
    draw(p, &c);
    page_figure_drawn(p, &f);
    if (l->count > 1) {
        page_add(p, "<ul class=\"legend\">");
        for (uint32_t k = 0; k < l->count; k++) {
            page_add(
                p,
                "<li><svg class=\"swatch\" viewBox=\"0 0 14 14\" aria-hidden=\"true\"><path class=\"line "
                "l%u\" d=\"M0 7H14\"/></svg>",
                (unsigned)k % 4);
            page_put(p, l->lines[k].name);
            page_add(p, "</li>");
        }
        page_add(p, "</ul>\n");
    }
    add_table(p, l);
    put_data(&json, &c);
    page_figure_end(p, &json);
}
