#define _GNU_SOURCE
#include "text/template/value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/template/run.h"
#include "text/template/stream.h"

/* ---- texts ---- */

static uint32_t count_points(const char *bytes, size_t n) {
    uint32_t points = 0;
    for (size_t i = 0; i < n; i++) points += ((unsigned char)bytes[i] & 0xc0) != 0x80;
    return points;
}

status value_text_lend(run *r, const char *bytes, size_t n, value *out) {
    if (n > UINT32_MAX) return status_set(STATUS_INVALID, "a text of more than 4 GiB");
    value_text *t;
    TRY(run_take(r, sizeof *t, &t));
    *t = (value_text){ n ? bytes : "", (uint32_t)n, count_points(bytes, n), NULL, 0 };
    *out = (value){ .kind = VALUE_TEXT, .text = t };
    return STATUS_OK;
}

status value_text_copy(run *r, const char *bytes, size_t n, value *out) {
    char *copy;
    TRY(run_take(r, n + 1, &copy));
    if (n) memcpy(copy, bytes, n);
    return value_text_lend(r, copy, n, out);
}

status value_part(run *r, const value *v, size_t begin, size_t end, value *out) {
    const value_text *t = v->text;
    if (begin == 0 && end == t->length) {
        *out = *v;
        return STATUS_OK;
    }
    if (t->spans) {
        builder b = { 0 };
        TRY(builder_add_part(r, &b, v, begin, end));
        TRY(builder_value(r, &b, out));
    } else
        TRY(value_text_lend(r, t->bytes + begin, end - begin, out));
    if (!t->spans) out->origin = v->origin;
    out->flag = v->flag;
    return STATUS_OK;
}

uint32_t value_span_at(const value_text *t, size_t byte) {
    uint32_t low = 0, high = t->spans ? t->span_count : 0;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (t->spans[middle].end <= byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

value_origin value_origin_at(const value *v, size_t byte) {
    const value_text *t = v->text;
    if (!t->spans) return v->origin;
    uint32_t i = value_span_at(t, byte);
    return i < t->span_count && byte >= t->spans[i].begin ? t->spans[i].origin : 0;
}

size_t value_letter(const value *v, size_t n) {
    const value_text *t = v->text;
    if (t->points == t->length) return n;
    size_t at = 0;
    for (; at < t->length; at++)
        if (((unsigned char)t->bytes[at] & 0xc0) != 0x80 && n-- == 0) break;
    return at;
}

bool value_is_word(const value *v, const char *word) {
    return v->kind == VALUE_TEXT && v->text->length == strlen(word) &&
           memcmp(v->text->bytes, word, v->text->length) == 0;
}

uint32_t value_point(const char *s, unsigned long *point) {
    unsigned char a = (unsigned char)s[0];
    uint32_t length = a < 0x80 ? 1 : a < 0xe0 ? 2 : a < 0xf0 ? 3 : 4;
    static const unsigned char mask[] = { 0, 0x7f, 0x1f, 0x0f, 0x07 };
    *point = a & mask[length];
    for (uint32_t i = 1; i < length; i++) *point = *point << 6 | ((unsigned char)s[i] & 0x3f);
    return length;
}

/* ---- containers ---- */

status value_list_new(run *r, value_kind kind, uint32_t count, value *out) {
    value_list *l;
    TRY(run_take(r, sizeof *l, &l));
    l->count = count;
    TRY(run_take(r, count * sizeof(value), &l->items));
    *out = (value){ .kind = (uint8_t)kind, .list = l };
    return run_steps(r, count / 8);
}

status value_dict_new(run *r, uint32_t room, value *out) {
    value_dict *d;
    TRY(run_take(r, sizeof *d, &d));
    *d = (value_dict){ .room = room };
    TRY(run_take(r, room * sizeof(value), &d->keys));
    TRY(run_take(r, room * sizeof(value), &d->values));
    *out = (value){ .kind = VALUE_DICT, .dict = d };
    return STATUS_OK;
}

bool value_is_key(const value *v) {
    bool key =
        v->kind != VALUE_LIST && v->kind != VALUE_DICT && !(v->kind == VALUE_VIEW && v->flag != VIEW_VALUES);
    for (uint32_t i = 0; v->kind == VALUE_TUPLE && i < v->list->count && key; i++)
        key = value_is_key(&v->list->items[i]);
    return key;
}

status value_dict_find(run *r, const value_dict *d, const value *key, uint32_t *place) {
    if (!value_is_key(key)) return status_set(STATUS_INVALID, "a %s can't be a key", value_type(key));
    TRY(run_steps(r, d->count / 16));
    bool equal = false;
    if (key->kind == VALUE_TEXT) {
        const value *found = value_dict_word(d, key->text->bytes, key->text->length);
        *place = found ? (uint32_t)(found - d->values) : d->count;
        return STATUS_OK;
    }
    for (*place = 0; *place < d->count; ++*place) {
        TRY(value_equal(r, &d->keys[*place], key, &equal));
        if (equal) break;
    }
    return STATUS_OK;
}

status value_dict_set(run *r, value_dict *d, const value *key, const value *item) {
    uint32_t place;
    TRY(value_dict_find(r, d, key, &place));
    if (place == d->room) {
        uint32_t room = d->room * 2 + 4;
        value *keys, *values;
        TRY(run_take(r, room * sizeof *keys, &keys));
        TRY(run_take(r, room * sizeof *values, &values));
        if (d->count) memcpy(keys, d->keys, d->count * sizeof *keys);
        if (d->count) memcpy(values, d->values, d->count * sizeof *values);
        d->keys = keys, d->values = values, d->room = room;
    }
    if (place == d->count) d->keys[d->count++] = *key;
    d->values[place] = *item;
    return STATUS_OK;
}

const value *value_dict_word(const value_dict *d, const char *word, size_t length) {
    for (uint32_t i = 0; i < d->count; i++) {
        const value *k = &d->keys[i];
        if (k->kind == VALUE_TEXT && k->text->length == length && memcmp(k->text->bytes, word, length) == 0)
            return &d->values[i];
    }
    return NULL;
}

bool value_length(const value *v, int64_t *count) {
    switch (v->kind) {
    case VALUE_UNDEFINED: *count = 0; return true;
    case VALUE_TEXT: *count = v->text->points; return true;
    case VALUE_LIST:
    case VALUE_TUPLE: *count = v->list->count; return true;
    case VALUE_DICT:
    case VALUE_VIEW: *count = v->dict->count; return true;
    case VALUE_RANGE: *count = v->range->count; return true;
    default: return false;
    }
}

static status view_item(run *r, const value *v, uint32_t i, value *out) {
    const value_dict *d = v->dict;
    if (v->flag == VIEW_KEYS) *out = d->keys[i];
    if (v->flag == VIEW_VALUES) *out = d->values[i];
    if (v->flag != VIEW_ITEMS) return STATUS_OK;
    TRY(value_list_new(r, VALUE_TUPLE, 2, out));
    out->list->items[0] = d->keys[i];
    out->list->items[1] = d->values[i];
    return STATUS_OK;
}

status value_item(run *r, const value *v, int64_t i, value *out) {
    if (v->kind == VALUE_LIST || v->kind == VALUE_TUPLE)
        *out = v->list->items[i];
    else if (v->kind == VALUE_DICT)
        *out = v->dict->keys[i];
    else if (v->kind == VALUE_VIEW)
        return view_item(r, v, (uint32_t)i, out);
    else if (v->kind == VALUE_RANGE)
        *out = value_integer(v->range->start + i * v->range->step);
    else {
        size_t begin = value_letter(v, (size_t)i);
        unsigned long point;
        TRY(run_steps(r, v->text->points == v->text->length ? 0 : begin / 64));
        return value_part(r, v, begin, begin + value_point(v->text->bytes + begin, &point), out);
    }
    return STATUS_OK;
}

/* ---- truth, types, equality, order ---- */

bool value_true(const value *v) {
    int64_t count;
    switch (v->kind) {
    case VALUE_UNDEFINED:
    case VALUE_NONE: return false;
    case VALUE_BOOL: return v->yes;
    case VALUE_INTEGER: return v->integer != 0;
    case VALUE_NUMBER: return v->number != 0;
    default: return value_length(v, &count) ? count != 0 : true;
    }
}

const char *value_type(const value *v) {
    static const char *const names[] = {
        [VALUE_UNDEFINED] = "undefined", [VALUE_NONE] = "None",     [VALUE_BOOL] = "bool",
        [VALUE_INTEGER] = "int",         [VALUE_NUMBER] = "float",  [VALUE_TEXT] = "str",
        [VALUE_LIST] = "list",           [VALUE_TUPLE] = "tuple",   [VALUE_DICT] = "dict",
        [VALUE_VIEW] = "view of a dict", [VALUE_RANGE] = "range",   [VALUE_STREAM] = "generator",
        [VALUE_NAMESPACE] = "namespace", [VALUE_LOOP] = "loop",     [VALUE_MACRO] = "macro",
        [VALUE_FUNCTION] = "function",   [VALUE_METHOD] = "method",
    };
    return names[v->kind];
}

status value_missing(const value *v) {
    return status_set(STATUS_INVALID, "%s", v->missing ? v->missing : "an undefined value is used");
}

static bool is_number(const value *v) {
    return v->kind == VALUE_BOOL || v->kind == VALUE_INTEGER || v->kind == VALUE_NUMBER;
}

static int64_t whole(const value *v) { return v->kind == VALUE_BOOL ? v->yes : v->integer; }

/* Exact, also where a whole number is no double. */
static int order_numbers(const value *a, const value *b) {
    if (a->kind != VALUE_NUMBER && b->kind != VALUE_NUMBER)
        return (whole(a) > whole(b)) - (whole(a) < whole(b));
    if (a->kind == VALUE_NUMBER && b->kind == VALUE_NUMBER)
        return isnan(a->number) || isnan(b->number) ? 2 : (a->number > b->number) - (a->number < b->number);
    if (b->kind == VALUE_NUMBER) {
        int other = order_numbers(b, a);
        return other == 2 ? 2 : -other;
    }
    if (isnan(a->number)) return 2;
    if (a->number >= 9223372036854775808.0) return 1;
    if (a->number < -9223372036854775808.0) return -1;
    int64_t down = (int64_t)floor(a->number), n = whole(b);
    return down != n ? (down > n) - (down < n) : a->number > floor(a->number);
}

static status equal_lists(run *r, const value_list *a, const value_list *b, bool *equal) {
    *equal = a->count == b->count;
    for (uint32_t i = 0; i < a->count && *equal; i++) TRY(value_equal(r, &a->items[i], &b->items[i], equal));
    return STATUS_OK;
}

static status equal_dicts(run *r, const value_dict *a, const value_dict *b, bool *equal) {
    *equal = a->count == b->count;
    for (uint32_t i = 0; i < a->count && *equal; i++) {
        uint32_t place;
        TRY(value_dict_find(r, b, &a->keys[i], &place));
        *equal = place < b->count;
        if (*equal) TRY(value_equal(r, &a->values[i], &b->values[place], equal));
    }
    return STATUS_OK;
}

static status equal_kind(run *r, const value *a, const value *b, bool *equal) {
    switch (a->kind) {
    case VALUE_UNDEFINED:
    case VALUE_NONE: *equal = true; return STATUS_OK;
    case VALUE_TEXT:
        TRY(run_steps(r, a->text->length / 256));
        *equal = a->text->length == b->text->length &&
                 memcmp(a->text->bytes, b->text->bytes, a->text->length) == 0;
        return STATUS_OK;
    case VALUE_LIST:
    case VALUE_TUPLE: return equal_lists(r, a->list, b->list, equal);
    case VALUE_DICT: return equal_dicts(r, a->dict, b->dict, equal);
    case VALUE_RANGE:
        *equal = a->range->count == b->range->count &&
                 (!a->range->count || (a->range->start == b->range->start &&
                                       (a->range->count == 1 || a->range->step == b->range->step)));
        return STATUS_OK;
    case VALUE_FUNCTION: *equal = a->flag == b->flag; return STATUS_OK;
    case VALUE_VIEW: *equal = a->flag == b->flag && a->dict == b->dict; return STATUS_OK;
    default: *equal = a->list == b->list; return STATUS_OK;
    }
}

status value_equal(run *r, const value *a, const value *b, bool *equal) {
    TRY(run_steps(r, 1));
    if (is_number(a) && is_number(b)) {
        *equal = order_numbers(a, b) == 0;
        return STATUS_OK;
    }
    *equal = false;
    if (a->kind != b->kind) return STATUS_OK;
    TRY(run_deeper(r));
    TRY(equal_kind(r, a, b, equal));
    r->depth--;
    return STATUS_OK;
}

static status order_lists(run *r, const value_list *a, const value_list *b, int *order) {
    for (uint32_t i = 0; i < a->count && i < b->count; i++) {
        bool equal;
        TRY(value_equal(r, &a->items[i], &b->items[i], &equal));
        if (!equal) return value_order(r, &a->items[i], &b->items[i], order);
    }
    *order = (a->count > b->count) - (a->count < b->count);
    return STATUS_OK;
}

status value_order(run *r, const value *a, const value *b, int *order) {
    TRY(run_steps(r, 1));
    if (a->kind == VALUE_UNDEFINED) return value_missing(a);
    if (b->kind == VALUE_UNDEFINED) return value_missing(b);
    if (is_number(a) && is_number(b)) {
        *order = order_numbers(a, b);
        return STATUS_OK;
    }
    if (a->kind == b->kind && a->kind == VALUE_TEXT) {
        size_t n = a->text->length < b->text->length ? a->text->length : b->text->length;
        int c = memcmp(a->text->bytes, b->text->bytes, n);
        *order =
            c ? (c > 0) - (c < 0) : (a->text->length > b->text->length) - (a->text->length < b->text->length);
        return STATUS_OK;
    }
    if (a->kind == b->kind && (a->kind == VALUE_LIST || a->kind == VALUE_TUPLE)) {
        TRY(run_deeper(r));
        TRY(order_lists(r, a->list, b->list, order));
        r->depth--;
        return STATUS_OK;
    }
    return status_set(STATUS_INVALID, "a %s and a %s have no order", value_type(a), value_type(b));
}

static status in_text(run *r, const value *a, const value *in, bool *is) {
    if (a->kind != VALUE_TEXT)
        return status_set(STATUS_INVALID, "only a text can be in a text, not a %s", value_type(a));
    TRY(run_steps(r, in->text->length / 64));
    *is = memmem(in->text->bytes, in->text->length, a->text->bytes, a->text->length) != NULL;
    return STATUS_OK;
}

status value_in(run *r, const value *a, const value *in, bool *is) {
    stream *s;
    value item;
    *is = false;
    if (in->kind == VALUE_TEXT) return in_text(r, a, in, is);
    if (in->kind == VALUE_DICT || (in->kind == VALUE_VIEW && in->flag == VIEW_KEYS)) {
        uint32_t place;
        TRY(value_dict_find(r, in->dict, a, &place));
        *is = place < in->dict->count;
        return STATUS_OK;
    }
    TRY(stream_open(r, in, &s));
    for (bool more; !*is;) {
        TRY(stream_next(r, s, &item, &more));
        if (!more) break;
        TRY(value_equal(r, &item, a, is));
    }
    return STATUS_OK;
}
