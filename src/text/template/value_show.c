/* str() and repr() of values, as Python 3.11 writes them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/template/letters.h"
#include "text/template/run.h"
#include "text/template/value.h"

void value_number_text(double x, char *out) {
    if (isnan(x) || isinf(x)) {
        strcpy(out, isnan(x) ? "nan" : x < 0 ? "-inf" : "inf");
        return;
    }
    char digits[VALUE_NUMBER_BYTES];
    int decimals = 1;
    do snprintf(digits, sizeof digits, "%.*e", decimals - 1, x);
    while (strtod(digits, NULL) != x && decimals++ < 17);
    int exponent = atoi(strchr(digits, 'e') + 1);
    if (exponent >= -4 && exponent < 16) {
        int behind = decimals - 1 - exponent;
        snprintf(out, VALUE_NUMBER_BYTES, "%.*f", behind > 1 ? behind : 1, x);
        return;
    }
    *strchr(digits, 'e') = 0;
    snprintf(out, VALUE_NUMBER_BYTES, "%s", digits);
    snprintf(out + strlen(out), VALUE_NUMBER_BYTES - strlen(out), "e%c%02d", exponent < 0 ? '-' : '+',
             abs(exponent));
}

static status add_escaped(run *r, builder *b, const value *v, size_t at, uint32_t length) {
    unsigned long p;
    char escape[16];
    value_point(v->text->bytes + at, &p);
    (void)length;
    if (p == '\n' || p == '\r' || p == '\t')
        snprintf(escape, sizeof escape, "\\%c", p == '\n' ? 'n' : p == '\r' ? 'r' : 't');
    else
        snprintf(escape, sizeof escape, p < 0x100 ? "\\x%02lx" : p < 0x10000 ? "\\u%04lx" : "\\U%08lx", p);
    return builder_add_word(r, b, escape, value_origin_at(v, at));
}

/* As repr() quotes: single quotes, unless the text has some and no double ones. */
static status add_quoted(run *r, builder *b, const value *v) {
    const value_text *t = v->text;
    bool other = memchr(t->bytes, '\'', t->length) && !memchr(t->bytes, '"', t->length);
    char quote = other ? '"' : '\'';
    value_origin first = t->length ? value_origin_at(v, 0) : v->origin,
                 last = t->length ? value_origin_at(v, t->length - 1) : v->origin;
    TRY(builder_add(r, b, &quote, 1, first));
    size_t plain = 0;
    for (size_t at = 0; at < t->length;) {
        unsigned long p;
        uint32_t n = value_point(t->bytes + at, &p);
        bool quoted = p == (unsigned char)quote || p == '\\',
             hidden = p < 0x7f ? p < 0x20 : LETTERS_IS(hidden, p);
        if (quoted || hidden) {
            TRY(builder_add_part(r, b, v, plain, at));
            plain = at + (hidden ? n : 0);
            if (hidden)
                TRY(add_escaped(r, b, v, at, n));
            else
                TRY(builder_add(r, b, "\\", 1, value_origin_at(v, at)));
        }
        at += n;
    }
    TRY(builder_add_part(r, b, v, plain, t->length));
    return builder_add(r, b, &quote, 1, last);
}

static status add_items(run *r, builder *b, const value *v) {
    for (uint32_t i = 0; i < v->list->count; i++) {
        if (i) TRY(builder_add_word(r, b, ", ", v->origin));
        TRY(value_add_repr(r, b, &v->list->items[i]));
    }
    return STATUS_OK;
}

static status add_list(run *r, builder *b, const value *v) {
    bool tuple = v->kind == VALUE_TUPLE;
    TRY(builder_add_word(r, b, tuple ? "(" : "[", v->origin));
    TRY(add_items(r, b, v));
    return builder_add_word(r, b, tuple ? v->list->count == 1 ? ",)" : ")" : "]", v->origin);
}

static status add_dict(run *r, builder *b, const value *v, value_origin origin) {
    TRY(builder_add_word(r, b, "{", origin));
    for (uint32_t i = 0; i < v->dict->count; i++) {
        if (i) TRY(builder_add_word(r, b, ", ", origin));
        TRY(value_add_repr(r, b, &v->dict->keys[i]));
        TRY(builder_add_word(r, b, ": ", origin));
        TRY(value_add_repr(r, b, &v->dict->values[i]));
    }
    return builder_add_word(r, b, "}", origin);
}

static status add_view(run *r, builder *b, const value *v) {
    static const char *const names[] = { "dict_keys([", "dict_values([", "dict_items([" };
    int64_t count;
    value item;
    value_length(v, &count);
    TRY(builder_add_word(r, b, names[v->flag], v->origin));
    for (int64_t i = 0; i < count; i++) {
        if (i) TRY(builder_add_word(r, b, ", ", v->origin));
        TRY(value_item(r, v, i, &item));
        TRY(value_add_repr(r, b, &item));
    }
    return builder_add_word(r, b, "])", v->origin);
}

static status add_loop(run *r, builder *b, const value *v) {
    value length;
    bool there;
    char text[64];
    TRY(run_loop_attribute(r, v->loop, "length", 6, &length, &there));
    snprintf(text, sizeof text, "<LoopContext %lld/%lld>", (long long)v->loop->index + 1,
             (long long)length.integer);
    return builder_add_word(r, b, text, 0);
}

static status add_macro(run *r, builder *b, const value *v) {
    value name;
    if (!v->macro->name) return builder_add_word(r, b, "<Macro anonymous>", 0);
    TRY(builder_add_word(r, b, "<Macro ", 0));
    TRY(value_text_lend(r, v->macro->name, v->macro->length, &name));
    TRY(add_quoted(r, b, &name));
    return builder_add_word(r, b, ">", 0);
}

static status add_range(run *r, builder *b, const value_range *g, value_origin origin) {
    char text[80];
    int n = snprintf(text, sizeof text, "range(%lld, %lld", (long long)g->start, (long long)g->stop);
    if (g->step != 1) n += snprintf(text + n, sizeof text - (size_t)n, ", %lld", (long long)g->step);
    snprintf(text + n, sizeof text - (size_t)n, ")");
    return builder_add_word(r, b, text, origin);
}

static status add_word(run *r, builder *b, const value *v) {
    char text[VALUE_NUMBER_BYTES];
    if (v->kind == VALUE_NUMBER)
        value_number_text(v->number, text);
    else if (v->kind == VALUE_INTEGER)
        snprintf(text, sizeof text, "%lld", (long long)v->integer);
    else
        strcpy(text, v->kind == VALUE_NONE ? "None" : v->yes ? "True" : "False");
    return builder_add_word(r, b, text, v->origin);
}

static status add_one(run *r, builder *b, const value *v) {
    switch (v->kind) {
    case VALUE_UNDEFINED: return builder_add_word(r, b, "Undefined", v->origin);
    case VALUE_NONE:
    case VALUE_BOOL:
    case VALUE_INTEGER:
    case VALUE_NUMBER: return add_word(r, b, v);
    case VALUE_TEXT:
        if (v->flag) TRY(builder_add_word(r, b, "Markup(", v->origin));
        TRY(add_quoted(r, b, v));
        return v->flag ? builder_add_word(r, b, ")", v->origin) : STATUS_OK;
    case VALUE_LIST:
    case VALUE_TUPLE: return add_list(r, b, v);
    case VALUE_DICT: return add_dict(r, b, v, v->origin);
    case VALUE_VIEW: return add_view(r, b, v);
    case VALUE_RANGE: return add_range(r, b, v->range, v->origin);
    case VALUE_NAMESPACE:
        TRY(builder_add_word(r, b, "<Namespace ", v->origin));
        TRY(add_dict(r, b, v, v->origin));
        return builder_add_word(r, b, ">", v->origin);
    case VALUE_LOOP: return add_loop(r, b, v);
    case VALUE_MACRO: return add_macro(r, b, v);
    default:
        return status_set(STATUS_INVALID,
                          "a %s has no text of its own, only an address, which is not printed",
                          value_type(v));
    }
}

status value_add_repr(run *r, builder *b, const value *v) {
    TRY(run_deeper(r));
    TRY(add_one(r, b, v));
    r->depth--;
    return STATUS_OK;
}

status value_add_shown(run *r, builder *b, const value *v) {
    if (v->kind == VALUE_TEXT) return builder_add_text(r, b, v);
    if (v->kind == VALUE_UNDEFINED) return STATUS_OK;
    return value_add_repr(r, b, v);
}

status value_show(run *r, const value *v, value *out) {
    if (v->kind == VALUE_TEXT) {
        *out = *v;
        out->flag = 0;
        return STATUS_OK;
    }
    builder b = { 0 };
    TRY(value_add_shown(r, &b, v));
    return builder_value(r, &b, out);
}
