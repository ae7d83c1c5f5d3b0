/* What charts share: figures, legends, axes. */
#include "report/page/page_chart.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- figures ---- */

static void add_id(page *p, const page_figure *f) {
    page_add(p, "<figure class=\"chart\" id=\"chart%u\" data-kind=\"%s\" aria-labelledby=\"chart%u-name\">\n",
             (unsigned)p->charts, f->kind, (unsigned)p->charts);
    page_add(p, "<figcaption id=\"chart%u-name\">", (unsigned)p->charts);
    page_put(p, f->name);
    page_add(p, "</figcaption>\n");
}

void page_figure_begin(page *p, const page_figure *f) {
    p->charts++;
    add_id(p, f);
    page_add(p,
             "<div class=\"plot\"><svg viewBox=\"0 0 %d %d\" role=\"img\" "
             "aria-labelledby=\"chart%u-name\">\n",
             f->width, f->height, (unsigned)p->charts);
}

void page_figure_drawn(page *p, const page_figure *f) {
    page_add(p, "</svg></div>\n");
    if (!f->about) return;
    page_add(p, "<p class=\"about\">");
    page_put(p, f->about);
    page_add(p, "</p>\n");
}

/* In JSON a '<' is only within texts, where it may be written as a number: so nothing in it ends the script
 * or begins a comment. */
static void add_data(page *p, const text *json) {
    const char *s = json->data ? json->data : "null";
    while (*s) {
        size_t plain = strcspn(s, "<");
        enum { MOST = 1 << 15 };
        if (plain > MOST) plain = MOST;
        text_add(&p->out, "%.*s", (int)plain, s);
        s += plain;
        if (*s == '<') text_add(&p->out, "\\u003c"), s++;
        page_settle(p);
    }
}

void page_figure_end(page *p, text *json) {
    page_add(p, "<script type=\"application/json\">");
    if (json->failed) p->out.failed = true;
    add_data(p, json);
    text_close(json);
    page_add(p, "</script>\n</figure>\n");
}

/* ---- tones ---- */

void page_swatch(page *p, uint32_t tone) {
    page_add(p,
             "<svg class=\"swatch\" viewBox=\"0 0 14 14\" aria-hidden=\"true\">"
             "<rect width=\"14\" height=\"14\" rx=\"2\" class=\"t%u\"/>",
             (unsigned)(tone % PAGE_TONES));
    if (tone % 4) page_add(p, "<rect width=\"14\" height=\"14\" fill=\"url(#h%u)\"/>", (unsigned)(tone % 4));
    page_add(p, "</svg>");
}

void page_legend(page *p, const char *const *names, const bool *there, uint32_t count) {
    page_add(p, "<ul class=\"legend\">");
    for (uint32_t i = 0; i < count; i++) {
        if (there && !there[i]) continue;
        page_add(p, "<li>");
        page_swatch(p, i);
        page_put(p, names[i]);
        page_add(p, "</li>");
    }
    page_add(p, "</ul>\n");
}

/* ---- axes ---- */

double page_place(const page_scale *s, double value) {
    double width = s->high - s->low;
    return width > 0 ? s->from + (value - s->low) / width * (s->to - s->from) : s->from;
}

/* 1, 2 or 5 times a power of ten; of bytes a power of two. */
static double tick_width(page_unit unit, double range) {
    const double least = range / (PAGE_TICKS - 2);
    if (!(least > 0)) return 1;
    if (unit == PAGE_BYTES) return exp2(ceil(log2(least)));
    double power = pow(10, floor(log10(least)));
    return least <= power       ? power
           : least <= 2 * power ? 2 * power
           : least <= 5 * power ? 5 * power
                                : 10 * power;
}

int page_ticks(page_unit unit, double low, double high, double ticks[PAGE_TICKS]) {
    double width = tick_width(unit, high - low);
    int count = 0;
    for (double i = ceil(low / width - 1e-9); count < PAGE_TICKS && i * width <= high + 1e-9 * width; i++)
        ticks[count++] = i * width;
    return count;
}

/* As short as ticks can be: "3 GiB". */
static const char *tick_text(page_unit unit, double value, char buffer[PAGE_VALUE_BYTES]) {
    static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB" };
    int k = 0;
    if (fabs(value) < 1e-12) return "0";
    if (unit != PAGE_BYTES) return page_value(unit, value, buffer);
    for (; k < 4 && value >= 1024; k++) value /= 1024;
    snprintf(buffer, PAGE_VALUE_BYTES, "%.4g %s", value, units[k]);
    return buffer;
}

void page_label(page *p, double x, double y, const char *classes, const char *s) {
    page_add(p, "<text x=\"%.1f\" y=\"%.1f\"%s%s%s>", x, y, *classes ? " class=\"" : "", classes,
             *classes ? "\"" : "");
    page_put(p, s);
    page_add(p, "</text>\n");
}

void page_stroke(page *p, const double from[2], const double to[2], const char *classes) {
    page_add(p, "<path d=\"M%.1f %.1fL%.1f %.1f\" class=\"%s\"/>\n", from[0], from[1], to[0], to[1], classes);
}

void page_axis_left(page *p, page_unit unit, const page_scale *s, const double box[4]) {
    double ticks[PAGE_TICKS];
    char label[PAGE_VALUE_BYTES];
    int count = page_ticks(unit, s->low, s->high, ticks);
    for (int i = 0; i < count; i++) {
        double y = page_place(s, ticks[i]);
        page_stroke(p, (double[]){ box[0], y }, (double[]){ box[0] + box[2], y }, "grid");
        page_label(p, box[0] - 8, y + 4, "tick e", tick_text(unit, ticks[i], label));
    }
}

void page_axis_below(page *p, page_unit unit, const page_scale *s, const double box[4]) {
    double ticks[PAGE_TICKS];
    char label[PAGE_VALUE_BYTES];
    int count = page_ticks(unit, s->low, s->high, ticks);
    for (int i = 0; i < count; i++) {
        double x = page_place(s, ticks[i]), bottom = box[1] + box[3];
        page_stroke(p, (double[]){ x, bottom }, (double[]){ x, bottom + 5 }, "axis");
        page_label(p, x, bottom + 20, "tick m", tick_text(unit, ticks[i], label));
    }
    page_stroke(p, (double[]){ box[0], box[1] + box[3] }, (double[]){ box[0] + box[2], box[1] + box[3] },
                "axis");
}

void page_json_unit(json_writer *w, const char *key, page_unit unit) {
    static const char *const units[] = {
        [PAGE_NUMBER] = "number", [PAGE_BYTES] = "bytes", [PAGE_SECONDS] = "seconds"
    };
    json_put_string(w, key, units[unit]);
}
