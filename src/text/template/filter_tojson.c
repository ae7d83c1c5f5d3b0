/* |tojson: json.dumps as transformers calls it, letters beyond ASCII as they are. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "text/template/filter.h"

typedef struct {
    run *r;
    builder b;
    bool ascii, sorted, indented;
    value indent;                                /* a text */
    const value *item_separator, *key_separator; /* texts */
    uint32_t depth;
    value_origin origin; /* of what the brackets are around */
} writer;

static status add_word(writer *w, const char *word) { return builder_add_word(w->r, &w->b, word, w->origin); }

/* Letters beyond 16 bits are two escapes. */
static status add_escape(writer *w, unsigned long p, value_origin origin) {
    static const char names[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    char out[32];
    const char *name = p && p < 0x80 ? strchr(names, (int)p) : NULL;
    if (name)
        snprintf(out, sizeof out, "\\%c", letters[name - names]);
    else if (p < 0x10000)
        snprintf(out, sizeof out, "\\u%04lx", p);
    else
        snprintf(out, sizeof out, "\\u%04lx\\u%04lx", 0xd800 + ((p - 0x10000) >> 10),
                 0xdc00 + ((p - 0x10000) & 0x3ff));
    return builder_add_word(w->r, &w->b, out, origin);
}

static status add_text(writer *w, const value *v) {
    const value_text *t = v->text;
    value_origin first = t->length ? value_origin_at(v, 0) : v->origin,
                 last = t->length ? value_origin_at(v, t->length - 1) : v->origin;
    size_t plain = 0;
    TRY(builder_add_word(w->r, &w->b, "\"", first ? first : w->origin));
    for (size_t at = 0; at < t->length;) {
        unsigned long p;
        uint32_t n = value_point(t->bytes + at, &p);
        if (p < 0x20 || p == '"' || p == '\\' || (w->ascii && p > 0x7e)) {
            TRY(builder_add_part(w->r, &w->b, v, plain, at));
            TRY(add_escape(w, p, value_origin_at(v, at)));
            plain = at + n;
        }
        at += n;
    }
    TRY(builder_add_part(w->r, &w->b, v, plain, t->length));
    return builder_add_word(w->r, &w->b, "\"", last ? last : w->origin);
}

static status new_line(writer *w) {
    if (!w->indented) return STATUS_OK;
    TRY(add_word(w, "\n"));
    for (uint32_t i = 0; i < w->depth; i++)
        TRY(builder_add(w->r, &w->b, w->indent.text->bytes, w->indent.text->length, w->origin));
    return STATUS_OK;
}

static status add_separator(writer *w, const value *separator) {
    return builder_add(w->r, &w->b, separator->text->bytes, separator->text->length, w->origin);
}

static status add_value(writer *w, const value *v);

static status add_list(writer *w, const value_list *l) {
    if (!l->count) return add_word(w, "[]");
    TRY(add_word(w, "["));
    w->depth++;
    for (uint32_t i = 0; i < l->count; i++) {
        if (i) TRY(add_separator(w, w->item_separator));
        TRY(new_line(w));
        TRY(add_value(w, &l->items[i]));
    }
    w->depth--;
    TRY(new_line(w));
    return add_word(w, "]");
}

static status add_number(writer *w, const value *v) {
    char text[VALUE_NUMBER_BYTES];
    if (v->kind == VALUE_INTEGER)
        snprintf(text, sizeof text, "%lld", (long long)v->integer);
    else if (isnan(v->number) || isinf(v->number))
        strcpy(text, isnan(v->number) ? "NaN" : v->number < 0 ? "-Infinity" : "Infinity");
    else
        value_number_text(v->number, text);
    return add_word(w, text);
}

/* Keys that are no texts are written as ones. */
static status add_key(writer *w, const value *key) {
    if (key->kind == VALUE_TEXT) return add_text(w, key);
    if (key->kind != VALUE_NONE && key->kind != VALUE_BOOL && key->kind != VALUE_INTEGER &&
        key->kind != VALUE_NUMBER)
        return status_set(STATUS_INVALID, "JSON has no keys that are a %s", value_type(key));
    TRY(add_word(w, "\""));
    TRY(add_value(w, key));
    return add_word(w, "\"");
}

static status order_keys(writer *w, const value *of, uint32_t *order) {
    const value_dict *d = of->dict;
    for (uint32_t i = 0; i < d->count; i++) {
        uint32_t at = i;
        for (int less = -1; at > 0; at--) {
            TRY(value_order(w->r, &d->keys[i], &d->keys[order[at - 1]], &less));
            if (less >= 0) break;
            order[at] = order[at - 1];
        }
        order[at] = i;
    }
    return STATUS_OK;
}

static status add_dict(writer *w, const value *v) {
    const value_dict *d = v->dict;
    uint32_t *order;
    if (!d->count) return add_word(w, "{}");
    TRY(run_take(w->r, d->count * sizeof *order, &order));
    for (uint32_t i = 0; i < d->count; i++) order[i] = i;
    if (w->sorted) TRY(order_keys(w, v, order));
    TRY(add_word(w, "{"));
    w->depth++;
    for (uint32_t i = 0; i < d->count; i++) {
        if (i) TRY(add_separator(w, w->item_separator));
        TRY(new_line(w));
        TRY(add_key(w, &d->keys[order[i]]));
        TRY(add_separator(w, w->key_separator));
        TRY(add_value(w, &d->values[order[i]]));
    }
    w->depth--;
    TRY(new_line(w));
    return add_word(w, "}");
}

static status add_one(writer *w, const value *v) {
    switch (v->kind) {
    case VALUE_NONE: return add_word(w, "null");
    case VALUE_BOOL: return add_word(w, v->yes ? "true" : "false");
    case VALUE_INTEGER:
    case VALUE_NUMBER: return add_number(w, v);
    case VALUE_TEXT: return add_text(w, v);
    case VALUE_LIST:
    case VALUE_TUPLE: return add_list(w, v->list);
    case VALUE_DICT: return add_dict(w, v);
    default: return status_set(STATUS_INVALID, "JSON has nothing for a %s", value_type(v));
    }
}

static status add_value(writer *w, const value *v) {
    value_origin around = w->origin;
    TRY(run_deeper(w->r));
    if (v->origin) w->origin = v->origin;
    TRY(add_one(w, v));
    w->origin = around;
    w->r->depth--;
    return STATUS_OK;
}

static status read_indent(writer *w, const value *given) {
    int64_t n;
    value one;
    if (!run_given(given) || given->kind == VALUE_NONE) return STATUS_OK;
    w->indented = true;
    w->indent = *given;
    if (given->kind == VALUE_TEXT) return STATUS_OK;
    TRY(run_integer("indent", given, 0, &n));
    TRY(value_text_lend(w->r, " ", 1, &one));
    value times = value_integer(n);
    return run_operate(w->r, NODE_MUL, &one, &times, &w->indent);
}

static status read_separators(writer *w, const value *given, value *both) {
    TRY(value_text_lend(w->r, w->indented ? "," : ", ", w->indented ? 1 : 2, &both[0]));
    TRY(value_text_lend(w->r, ": ", 2, &both[1]));
    w->item_separator = &both[0], w->key_separator = &both[1];
    if (!run_given(given) || given->kind == VALUE_NONE) return STATUS_OK;
    if ((given->kind != VALUE_LIST && given->kind != VALUE_TUPLE) || given->list->count != 2)
        return status_set(STATUS_INVALID, "tojson: separators are two texts");
    for (int i = 0; i < 2; i++) TRY(run_text("a separator", &given->list->items[i]));
    w->item_separator = &given->list->items[0], w->key_separator = &given->list->items[1];
    return STATUS_OK;
}

status filter_tojson(run *r, const arguments *a, value *out) {
    writer w = { .r = r };
    value b[5], both[2];
    TRY(run_bind(a, "x|ensure_ascii indent separators sort_keys", b));
    w.ascii = run_given(&b[1]) && value_true(&b[1]);
    w.sorted = run_given(&b[4]) && value_true(&b[4]);
    if (b[0].kind != VALUE_TEXT) {
        TRY(read_indent(&w, &b[2]));
        TRY(read_separators(&w, &b[3], both));
    }
    TRY(add_value(&w, &b[0]));
    return builder_value(r, &w.b, out);
}
