/* What the charts of a page share: markup, figures, SVG, axes, JSON that can stand within a script. */
#pragma once

#include "io/json.h"
#include "report/page/page.h"

/* Files of this folder that the program carries (cmake/carried.cmake). */
typedef struct {
    const char *name, *text;
} page_file;
extern const page_file page_scripts[], page_styles[];

/* Markup as it is. */
void page_add(page *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
void page_escape(text *out, const char *s); /* a text as it may stand in markup and between double quotes */
void page_clean(text *out, const char *s);  /* a text without what no text should have, for JSON */
void page_put(page *p, const char *s);      /* page_escape to the page; NULL: nothing */
/* Hands what is there to the file when it is more than a little. */
void page_settle(page *p);

/* A figure: name, drawing, switches (of the script), the sentence about it, table, data. */
typedef struct {
    const char *kind; /* "bands": what page.js looks for */
    const char *name, *about;
    int width, height; /* of the drawing */
} page_figure;
void page_figure_begin(page *p, const page_figure *f); /* until the drawing is begun */
void page_figure_drawn(page *p, const page_figure *f); /* the drawing is done; a table may follow */
void page_figure_end(page *p, text *json);             /* the data of the script; is closed */

/* Names of tones, by which colours and patterns go. */
void page_legend(page *p, const char *const *names, const bool *there, uint32_t count);
void page_swatch(page *p, uint32_t tone); /* a small square of its colour and pattern */

/* Where values lie in the drawing. */
typedef struct {
    double low, high; /* values */
    double from, to;  /* of the drawing */
} page_scale;
double page_place(const page_scale *s, double value);
/* Values between which an axis is cut, at most PAGE_TICKS; returns how many. */
enum { PAGE_TICKS = 8 };
int page_ticks(page_unit unit, double low, double high, double ticks[PAGE_TICKS]);
void page_label(page *p, double x, double y, const char *classes, const char *s);
void page_stroke(page *p, const double from[2], const double to[2], const char *classes);
/* Lines and numbers of a vertical axis at the left of `box` (x, y, width, height). */
void page_axis_left(page *p, page_unit unit, const page_scale *s, const double box[4]);
void page_axis_below(page *p, page_unit unit, const page_scale *s, const double box[4]);

/* A string of JSON, cleaned. */
void page_json_text(json_writer *w, const char *key, const char *s);
void page_json_unit(json_writer *w, const char *key, page_unit unit); /* as page.js knows it */
