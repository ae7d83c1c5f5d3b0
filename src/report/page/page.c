/* The frame of a page: head with its policy, sections, sentences, facts, tables. */
#include "report/page/page.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/sha256.h"
#include "base/units.h"
#include "base/utf8.h"
#include "report/page/page_chart.h"
#include "report/report.h"

enum { PIECE = 1 << 16, SENTENCE_BYTES = 2048 };

/* ---- to the file ---- */

static void let_go(page *p) {
    if (p->result == STATUS_OK && p->out.failed)
        p->result = status_set(STATUS_FAILED, "no memory for the page");
    if (p->result == STATUS_OK && p->file && p->out.length)
        p->result = io_writer_add(p->file, p->out.data, p->out.length);
    if (p->file) p->out.length = 0;
}

void page_settle(page *p) {
    if (p->out.length >= PIECE || p->out.failed) let_go(p);
}

void page_add(page *p, const char *format, ...) {
    char few[SENTENCE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(few, sizeof few, format, arguments);
    va_end(arguments);
    if (n > 0) text_add(&p->out, "%s", few); /* markup of ours: always short */
    page_settle(p);
}

/* ---- texts of unknown origin ---- */

/* Marks that turn the direction of writing, with which a name could look like another text. */
static bool turns_writing(const unsigned char *s, size_t length) {
    if (length != 3 || s[0] != 0xe2) return false;
    return (s[1] == 0x80 && ((s[2] >= 0xaa && s[2] <= 0xae) || s[2] == 0x8e || s[2] == 0x8f)) ||
           (s[1] == 0x81 && s[2] >= 0xa6 && s[2] <= 0xa9);
}

/* Controls of C0 and C1, and the two last code points of the first plane, which XML does not have. */
static bool is_control(const unsigned char *s, size_t length) {
    if (length == 1) return *s < ' ' || *s == 0x7f;
    if (length == 2) return s[0] == 0xc2 && s[1] < 0xa0;
    return length == 3 && s[0] == 0xef && s[1] == 0xbf && s[2] >= 0xbe;
}

static const char *replaced(const char *s, size_t length, bool markup) {
    if (length == 1 && (*s == '\n' || *s == '\t')) return " ";
    if (!length || is_control((const unsigned char *)s, length) ||
        turns_writing((const unsigned char *)s, length))
        return "\xef\xbf\xbd";
    if (!markup) return NULL;
    switch (*s) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '"': return "&quot;";
    case '\'': return "&#39;";
    default: return NULL;
    }
}

static void add_text(text *out, const char *s, bool markup) {
    size_t left = s ? strlen(s) : 0, plain = 0;
    while (left) {
        size_t length = utf8_length(s + plain, left);
        const char *other = replaced(s + plain, length, markup);
        if (!length) length = 1;
        left -= length;
        if (!other) {
            plain += length;
            if (left) continue;
        }
        if (plain) text_add(out, "%.*s", (int)plain, s);
        if (other) text_add(out, "%s", other);
        s += plain + (other ? length : 0);
        plain = 0;
    }
}

void page_escape(text *out, const char *s) { add_text(out, s, true); }
void page_clean(text *out, const char *s) { add_text(out, s, false); }

void page_put(page *p, const char *s) {
    page_escape(&p->out, s);
    page_settle(p);
}

void page_json_text(json_writer *w, const char *key, const char *s) {
    text clean = { 0 };
    page_clean(&clean, s);
    if (clean.failed) w->out->failed = true;
    json_put_string(w, key, s ? (clean.data ? clean.data : "") : NULL);
    text_close(&clean);
}

/* ---- values ---- */

const char *page_value(page_unit unit, double value, char buffer[PAGE_VALUE_BYTES]) {
    char few[UNITS_TEXT_BYTES];
    if (!isfinite(value))
        snprintf(buffer, PAGE_VALUE_BYTES, "-");
    else if (unit == PAGE_BYTES)
        snprintf(buffer, PAGE_VALUE_BYTES, "%s%s", value < 0 ? "-" : "",
                 units_bytes_text((uint64_t)(fabs(value) + 0.5), few));
    else if (unit == PAGE_SECONDS)
        snprintf(buffer, PAGE_VALUE_BYTES, "%s%s", value < 0 ? "-" : "",
                 units_seconds_text(fabs(value), few));
    else
        snprintf(buffer, PAGE_VALUE_BYTES, "%.5g", value);
    return buffer;
}

const char *page_exact(uint64_t bytes, char buffer[2 * PAGE_VALUE_BYTES]) {
    char few[UNITS_TEXT_BYTES], all[REPORT_NUMBER_BYTES];
    snprintf(buffer, 2 * PAGE_VALUE_BYTES, "%s (%s)", units_bytes_text(bytes, few), report_count(bytes, all));
    return buffer;
}

/* ---- the frame ---- */

/* The page fetches nothing, sends nothing, and runs and wears only what it carries. */
static void add_policy(page *p) {
    char script[SHA256_SOURCE_BYTES], style[SHA256_SOURCE_BYTES];
    const char *js = page_scripts[0].text, *css = page_styles[0].text;
    page_add(p,
             "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src '%s'; "
             "style-src '%s'; base-uri 'none'; form-action 'none'\" />\n",
             sha256_source(js, strlen(js), script), sha256_source(css, strlen(css), style));
}

void page_begin(page *p, io_writer *file, const page_head *h) {
    *p = (page){ .file = file };
    page_add(p, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\" />\n");
    add_policy(p);
    page_add(p, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\" />\n"
                "<meta name=\"color-scheme\" content=\"light dark\" />\n<title>");
    page_put(p, h->title);
    page_add(p, "</title>\n<style>");
    text_add(&p->out, "%s", page_styles[0].text);
    page_add(p, "</style>\n</head>\n<body>\n<header>\n<p class=\"of\">");
    page_put(p, h->title);
    page_add(p, "</p>\n<h1%s>", h->refused ? " class=\"no\"" : "");
    page_put(p, h->answer);
    page_add(p, "</h1>\n");
    if (h->further) {
        page_add(p, "<p class=\"further\">");
        page_put(p, h->further);
        page_add(p, "</p>\n");
    }
    page_add(p, "</header>\n<main>\n");
    page_add(p, "<svg width=\"0\" height=\"0\" class=\"defs\" aria-hidden=\"true\"><defs>"
                "<pattern id=\"h1\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\" "
                "patternTransform=\"rotate(45)\"><path d=\"M0 0V7\" class=\"hatch\"/></pattern>"
                "<pattern id=\"h2\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\" "
                "patternTransform=\"rotate(-45)\"><path d=\"M0 0V7\" class=\"hatch\"/></pattern>"
                "<pattern id=\"h3\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">"
                "<circle cx=\"3\" cy=\"3\" r=\"1\" class=\"dot\"/></pattern></defs></svg>\n");
}

static void end_section(page *p) {
    if (p->section) page_add(p, "</section>\n");
    p->section = false;
}

void page_section(page *p, const char *title) {
    end_section(p);
    page_add(p, "<section>\n<h2>");
    page_put(p, title);
    page_add(p, "</h2>\n");
    p->section = true;
}

status page_end(page *p) {
    end_section(p);
    page_add(p,
             "</main>\n<footer><p>This page is one file: it fetches nothing and sends nothing.</p></footer>\n"
             "<script>");
    text_add(&p->out, "%s", page_scripts[0].text);
    page_add(p, "</script>\n</body>\n</html>\n");
    let_go(p);
    if (p->file) text_close(&p->out);
    return p->result;
}

void page_say(page *p, const char *format, ...) {
    char few[SENTENCE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(few, sizeof few, format, arguments);
    va_end(arguments);
    page_add(p, "<p>");
    page_put(p, few);
    page_add(p, "</p>\n");
}

void page_facts(page *p, const page_fact *facts, uint32_t count) {
    page_add(p, "<dl class=\"facts\">\n");
    for (uint32_t i = 0; i < count; i++) {
        page_add(p, "<div><dt>");
        page_put(p, facts[i].name);
        page_add(p, "</dt><dd><b>");
        page_put(p, facts[i].value);
        page_add(p, "</b>");
        if (facts[i].note) {
            page_add(p, " <span>");
            page_put(p, facts[i].note);
            page_add(p, "</span>");
        }
        page_add(p, "</dd></div>\n");
    }
    page_add(p, "</dl>\n");
}

void page_side_by_side(page *p, bool begin) { page_add(p, begin ? "<div class=\"grid\">\n" : "</div>\n"); }

/* ---- tables ---- */

void page_table_begin(page *p, const char *name, const page_column *columns, uint32_t count) {
    page_add(p, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"");
    page_put(p, name);
    page_add(p, "\">\n<table>\n<caption>");
    page_put(p, name);
    page_add(p, "</caption>\n<thead><tr>");
    for (uint32_t i = 0; i < count; i++) {
        page_add(p, "<th scope=\"col\"%s>", columns[i].number ? " class=\"n\"" : "");
        page_put(p, columns[i].title);
        page_add(p, "</th>");
    }
    page_add(p, "</tr></thead>\n<tbody>\n");
}

/* HTML ends rows and cells by itself, which halves long tables; a reader of XML could not follow. */
void page_row(page *p, bool marked) { page_add(p, marked ? "<tr class=\"mark\">" : "<tr>"); }

void page_row_of_bands(page *p, uint8_t kind, const char *from, const char *form) {
    page_add(p, "<tr data-category=\"%u\"", (unsigned)kind);
    if (from) page_add(p, " data-from=\""), page_put(p, from), page_add(p, "\"");
    if (form) page_add(p, " data-form=\""), page_put(p, form), page_add(p, "\"");
    page_add(p, ">");
}

void page_cell(page *p, const page_column *column, const char *value) {
    page_add(p, column->number ? "<td class=\"n\">" : "<td>");
    page_put(p, value);
}

void page_table_end(page *p) { page_add(p, "</tbody>\n</table>\n</div>\n"); }
