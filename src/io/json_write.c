/* The writing half of io/json.h. */
#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "io/json.h"

void json_add_quoted(text *out, const char *value) {
    size_t left = strlen(value), plain = 0; /* `plain` bytes before `value` wait to be copied as they are */
    text_add(out, "\"");
    while (left > 0) {
        size_t length = utf8_length(value, left);
        unsigned char c = (unsigned char)*value;
        if (length > 0 && c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) {
            plain += length, value += length, left -= length;
            continue;
        }
        text_add(out, "%.*s", (int)plain, value - plain);
        plain = 0;
        if (length == 0)
            text_add(out, "\xef\xbf\xbd");
        else if (c == '"' || c == '\\')
            text_add(out, "\\%c", c);
        else if (c == '\n')
            text_add(out, "\\n");
        else if (c == '\t')
            text_add(out, "\\t");
        else
            text_add(out, "\\u%04x", c);
        value++, left--;
    }
    text_add(out, "%.*s\"", (int)plain, value - plain);
}

static void break_line(json_writer *w) {
    if (w->lines) text_add(w->out, "\n%*s", (int)(2 * w->depth), "");
}

/* What comes before a value: comma, line, key. */
static void begin_value(json_writer *w, const char *key) {
    uint64_t bit = (uint64_t)1 << w->depth;
    if (w->filled & bit) text_add(w->out, w->lines ? "," : ", ");
    w->filled |= bit;
    if (w->depth > 0) break_line(w);
    if (!key) return;
    json_add_quoted(w->out, key);
    text_add(w->out, ": ");
}

static void begin_group(json_writer *w, const char *key, const char *bracket) {
    begin_value(w, key);
    text_add(w->out, "%s", bracket);
    w->depth++;
    assert(w->depth < JSON_MAX_DEPTH);
    w->filled &= ~((uint64_t)1 << w->depth);
}

static void end_group(json_writer *w, const char *bracket) {
    assert(w->depth > 0);
    bool filled = (w->filled >> w->depth & 1) != 0;
    w->depth--;
    if (filled) break_line(w);
    text_add(w->out, "%s", bracket);
}

void json_begin_object(json_writer *w, const char *key) { begin_group(w, key, "{"); }
void json_end_object(json_writer *w) { end_group(w, "}"); }
void json_begin_array(json_writer *w, const char *key) { begin_group(w, key, "["); }
void json_end_array(json_writer *w) { end_group(w, "]"); }

void json_put_integer(json_writer *w, const char *key, int64_t value) {
    begin_value(w, key);
    text_add(w->out, "%lld", (long long)value);
}

void json_put_unsigned(json_writer *w, const char *key, uint64_t value) {
    begin_value(w, key);
    text_add(w->out, "%llu", (unsigned long long)value);
}

/* printf writes the decimal point of the locale; JSON has one only. */
static void add_number(text *out, char *number) {
    char *to = number;
    for (const char *from = number; *from; from++) {
        if (strchr("+-0123456789e", *from))
            *to++ = *from;
        else if (to == number || to[-1] != '.')
            *to++ = '.';
    }
    *to = '\0';
    text_add(out, "%s", number);
}

void json_put_number(json_writer *w, const char *key, double value) {
    if (!isfinite(value)) {
        json_put_null(w, key);
        return;
    }
    char number[64];
    for (int digits = DBL_DIG; digits <= DBL_DECIMAL_DIG; digits++) {
        snprintf(number, sizeof number, "%.*g", digits, value);
        if (strtod(number, NULL) == value) break;
    }
    begin_value(w, key);
    add_number(w->out, number);
}

void json_put_real(json_writer *w, const char *key, double value) {
    if (!isfinite(value) || value != floor(value) || fabs(value) >= 1e15) {
        json_put_number(w, key, value);
        return;
    }
    begin_value(w, key);
    text_add(w->out, "%.0f", value);
    text_add(w->out, ".0");
}

void json_put_float(json_writer *w, const char *key, float value) {
    if (!isfinite(value)) {
        json_put_null(w, key);
        return;
    }
    char number[64];
    for (int digits = FLT_DIG; digits <= FLT_DECIMAL_DIG; digits++) {
        snprintf(number, sizeof number, "%.*g", digits, (double)value);
        if (strtof(number, NULL) == value) break;
    }
    begin_value(w, key);
    add_number(w->out, number);
}

void json_put_bool(json_writer *w, const char *key, bool value) {
    begin_value(w, key);
    text_add(w->out, value ? "true" : "false");
}

void json_put_string(json_writer *w, const char *key, const char *value) {
    if (!value) {
        json_put_null(w, key);
        return;
    }
    begin_value(w, key);
    json_add_quoted(w->out, value);
}

void json_put_null(json_writer *w, const char *key) {
    begin_value(w, key);
    text_add(w->out, "null");
}
