/* Points: a front, with a line from each of its points to the next. */
#include <math.h>
#include <stdio.h>

#include "report/page/page_chart.h"
#include "report/report.h"

enum { WIDTH = 1000, HEIGHT = 340, LEFT = 84, RIGHT = 24, TOP = 24, BOTTOM = 52 };
static const double TOO_MUCH = 1.6; /* times the largest: a limit beyond is not drawn */

typedef struct {
    const page_points *s;
    page_scale x, y;
} picture;

static void widen(double range[2], double value) {
    if (value < range[0]) range[0] = value;
    if (value > range[1]) range[1] = value;
}

/* A little room on both sides, but not below 0. */
static page_scale scale_of(const double range[2], double from, double to) {
    double room = range[1] > range[0] ? 0.12 * (range[1] - range[0]) : 0.1 * range[1];
    return (page_scale){ range[0] > room ? range[0] - room : 0, range[1] + room, from, to };
}

static void set_scales(picture *c) {
    const page_points *s = c->s;
    double x[2] = { s->points[0].x, s->points[0].x }, y[2] = { s->points[0].y, s->points[0].y };
    for (uint32_t i = 0; i < s->count; i++) widen(x, s->points[i].x), widen(y, s->points[i].y);
    if (s->limit_name && s->limit < TOO_MUCH * x[1]) widen(x, s->limit);
    c->x = scale_of(x, LEFT, WIDTH - RIGHT);
    c->y = scale_of(y, HEIGHT - BOTTOM, TOP);
}

/* A budget between two points is met by the one to its left: stairs. */
static void draw_front(page *p, const picture *c) {
    bool begun = false;
    page_add(p, "<path class=\"front\" d=\"");
    for (uint32_t i = 0; i < c->s->count; i++) {
        const page_point *x = &c->s->points[i];
        if (x->kind == PAGE_POINT_PLAIN) continue;
        double at = page_place(&c->x, x->x), y = page_place(&c->y, x->y);
        page_add(p, begun ? "H%.1fV%.1f" : "M%.1f %.1f", at, y);
        begun = true;
    }
    page_add(p, "\"/>\n");
}

static void draw_point(page *p, const picture *c, uint32_t i) {
    const page_point *x = &c->s->points[i];
    static const char *const names[] = { "", "chosen", "plain" };
    double at = page_place(&c->x, x->x), y = page_place(&c->y, x->y);
    if (x->kind == PAGE_POINT_PLAIN)
        page_add(p, "<path class=\"plain\" data-i=\"%u\" d=\"M%.1f %.1fh10v10h-10z\"/>\n", (unsigned)i,
                 at - 5, y - 5);
    else
        page_add(p, "<circle class=\"%s\" data-i=\"%u\" cx=\"%.1f\" cy=\"%.1f\" r=\"%d\"/>\n",
                 x->kind == PAGE_POINT_CHOSEN ? "chosen" : "point", (unsigned)i, at, y,
                 x->kind == PAGE_POINT_CHOSEN ? 7 : 4);
    if (x->kind != PAGE_POINT) page_label(p, at, y - 12, "strong m", names[x->kind]);
}

static void draw(page *p, const picture *c) {
    const page_points *s = c->s;
    const double box[4] = { LEFT, TOP, WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM };
    page_axis_left(p, s->y_unit, &c->y, box);
    page_axis_below(p, s->x_unit, &c->x, box);
    page_label(p, WIDTH - RIGHT, HEIGHT - 8, "note e", s->x_word);
    page_label(p, 4, TOP - 8, "note", s->y_word);
    if (s->limit_name && s->limit <= c->x.high && s->limit >= c->x.low) {
        double x = page_place(&c->x, s->limit);
        page_stroke(p, (double[]){ x, TOP }, (double[]){ x, HEIGHT - BOTTOM }, "limit");
        page_label(p, x + (x > WIDTH * 0.8 ? -6 : 6), TOP + 10, x > WIDTH * 0.8 ? "note e" : "note",
                   s->limit_name);
    }
    draw_front(p, c);
    for (int kind = PAGE_POINT; kind <= PAGE_POINT_PLAIN; kind++) {
        static const page_point_kind order[] = { PAGE_POINT, PAGE_POINT_PLAIN, PAGE_POINT_CHOSEN };
        for (uint32_t i = 0; i < s->count; i++)
            if (s->points[i].kind == order[kind]) draw_point(p, c, i);
    }
}

static const char *cell_value(page_unit unit, double value, char few[2 * PAGE_VALUE_BYTES]) {
    if (unit == PAGE_BYTES && isfinite(value) && value >= 0)
        return report_count((uint64_t)(value + 0.5), few);
    return page_value(unit, value, few);
}

static void add_table(page *p, const page_points *s) {
    const page_column columns[] = {
        { "", false }, { s->x_word, true }, { s->y_word, true }, { "what", false }
    };
    static const char *const names[] = { "", "chosen", "plain" };
    char few[2 * PAGE_VALUE_BYTES];
    page_table_begin(p, s->name, columns, 4);
    for (uint32_t i = 0; i < s->count; i++) {
        const page_point *x = &s->points[i];
        page_row(p, x->kind == PAGE_POINT_CHOSEN);
        page_cell(p, &columns[0], names[x->kind]);
        page_cell(p, &columns[1], cell_value(s->x_unit, x->x, few));
        page_cell(p, &columns[2], cell_value(s->y_unit, x->y, few));
        page_cell(p, &columns[3], x->label);
    }
    page_table_end(p);
}

static void put_data(text *json, const page_points *s) {
    json_writer w = { .out = json };
    json_begin_object(&w, NULL);
    page_json_unit(&w, "x_unit", s->x_unit);
    page_json_unit(&w, "y_unit", s->y_unit);
    page_json_text(&w, "x_word", s->x_word);
    page_json_text(&w, "y_word", s->y_word);
    if (s->limit_name) json_put_number(&w, "limit", s->limit);
    json_begin_array(&w, "points");
    for (uint32_t i = 0; i < s->count; i++) {
        json_begin_object(&w, NULL);
        json_put_number(&w, "x", s->points[i].x);
        json_put_number(&w, "y", s->points[i].y);
        page_json_text(&w, "label", s->points[i].label);
        json_put_unsigned(&w, "kind", s->points[i].kind);
        json_end_object(&w);
    }
    json_end_array(&w);
    json_end_object(&w);
}

void page_put_points(page *p, const page_points *s) {
    const page_figure f = { "points", s->name, s->about, WIDTH, HEIGHT };
    picture c = { .s = s };
    text json = { 0 };
    if (!s->count) return;
    set_scales(&c);
    page_figure_begin(p, &f);
    draw(p, &c);
    page_figure_drawn(p, &f);
    add_table(p, s);
    put_data(&json, s);
    page_figure_end(p, &json);
}
