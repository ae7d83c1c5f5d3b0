/* Calls: arguments, macros, and the functions that are there without being set. */
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "text/template/run.h"
#include "text/template/stream.h"

enum { MOST_RANGE = 100000, MOST_TIME_TEXT = 4096 };

static const node *at(const run *r, uint32_t n) { return &r->t->nodes[n]; }

/* ---- arguments as they are written ---- */

typedef struct {
    uint32_t items, named;
} rooms;

static status more_items(run *r, arguments *a, rooms *room, uint32_t n) {
    if (n <= room->items - a->count) return STATUS_OK;
    uint32_t wanted = a->count + n + room->items;
    value *items;
    TRY(run_take(r, wanted * sizeof *items, &items));
    if (a->count) memcpy(items, a->items, a->count * sizeof *items);
    a->items = items;
    room->items = wanted;
    return STATUS_OK;
}

static status add_named(run *r, arguments *a, rooms *room, const value *name, const value *v) {
    if (name->kind != VALUE_TEXT) return status_set(STATUS_INVALID, "the names of arguments are texts");
    for (uint32_t i = 0; i < a->named_count; i++) {
        bool same;
        TRY(value_equal(r, a->names[i], name, &same));
        if (same) return status_set(STATUS_INVALID, "an argument is named twice");
    }
    if (a->named_count == room->named) {
        uint32_t wanted = room->named * 2 + 4;
        const value **names;
        value *named;
        TRY(run_take(r, wanted * sizeof *names, &names));
        TRY(run_take(r, wanted * sizeof *named, &named));
        for (uint32_t i = 0; i < a->named_count; i++) names[i] = a->names[i], named[i] = a->named[i];
        a->names = names, a->named = named, room->named = wanted;
    }
    value *kept;
    TRY(run_take(r, sizeof *kept, &kept));
    *kept = *name;
    a->names[a->named_count] = kept;
    a->named[a->named_count++] = *v;
    return STATUS_OK;
}

static status spread(run *r, const value *v, arguments *a, rooms *room) {
    value list;
    TRY(stream_list(r, v, &list));
    TRY(more_items(r, a, room, list.list->count));
    for (uint32_t i = 0; i < list.list->count; i++) a->items[a->count++] = list.list->items[i];
    return STATUS_OK;
}

static status spread_named(run *r, const value *v, arguments *a, rooms *room) {
    if (v->kind != VALUE_DICT)
        return status_set(STATUS_INVALID, "behind ** stands a dict, not a %s", value_type(v));
    for (uint32_t i = 0; i < v->dict->count; i++)
        TRY(add_named(r, a, room, &v->dict->keys[i], &v->dict->values[i]));
    return STATUS_OK;
}

status run_arguments(run *r, uint32_t first, arguments *out) {
    rooms room = { 0 };
    *out = (arguments){ .name = "call" };
    for (uint32_t i = first; i; i = at(r, i)->next) {
        const node *n = at(r, i);
        value v, name;
        bool wrapped = n->kind == NODE_KEYWORD || n->kind == NODE_SPREAD || n->kind == NODE_SPREAD_NAMED;
        TRY(run_evaluate(r, wrapped ? n->a : i, &v));
        if (n->kind == NODE_KEYWORD) {
            TRY(value_text_lend(r, n->name, n->length, &name));
            TRY(add_named(r, out, &room, &name, &v));
        } else if (n->kind == NODE_SPREAD)
            TRY(spread(r, &v, out, &room));
        else if (n->kind == NODE_SPREAD_NAMED)
            TRY(spread_named(r, &v, out, &room));
        else {
            TRY(more_items(r, out, &room, 1));
            out->items[out->count++] = v;
        }
    }
    return STATUS_OK;
}

status run_bind(const arguments *a, const char *parameters, value *out) {
    bool by_place = *parameters == '/', optional = false;
    uint32_t n = 0, taken = 0;
    for (const char *p = parameters + by_place; *p; n++) {
        if (*p == '|') optional = true, p++;
        size_t length = strcspn(p, " |");
        out[n] = value_undefined(NULL);
        if (n < a->count) out[n] = a->items[n];
        for (uint32_t i = 0; i < a->named_count && !by_place; i++) {
            const value_text *name = a->names[i]->text;
            if (name->length != length || memcmp(name->bytes, p, length) != 0) continue;
            if (n < a->count)
                return status_set(STATUS_INVALID, "%s: %.*s is given twice", a->name, (int)length, p);
            out[n] = a->named[i];
            taken++;
        }
        if (!run_given(&out[n]) && !optional)
            return status_set(STATUS_INVALID, "%s: %.*s is missing", a->name, (int)length, p);
        p += length;
        p += *p == ' ';
    }
    if (a->count > n) return status_set(STATUS_INVALID, "%s: more than %u arguments", a->name, n);
    if (taken < a->named_count)
        return status_set(STATUS_INVALID, "%s: it has no argument of such a name", a->name);
    return STATUS_OK;
}

status run_integer(const char *what, const value *v, int64_t otherwise, int64_t *out) {
    *out = otherwise;
    if (!run_given(v)) return STATUS_OK;
    if (v->kind == VALUE_UNDEFINED) return value_missing(v);
    if (v->kind != VALUE_INTEGER && v->kind != VALUE_BOOL)
        return status_set(STATUS_INVALID, "%s is a whole number, not a %s", what, value_type(v));
    *out = v->kind == VALUE_BOOL ? v->yes : v->integer;
    return STATUS_OK;
}

status run_text(const char *what, const value *v) {
    if (v->kind == VALUE_TEXT) return STATUS_OK;
    return status_set(STATUS_INVALID, "%s is a text, not a %s", what, value_type(v));
}

/* ---- macros ---- */

typedef struct {
    run *r;
    const node *n;
    const arguments *a;
    frame *f;
    bool *used; /* of the named arguments */
} macro_call;

static bool is_word(const char *name, uint32_t length, const char *word) {
    return length == strlen(word) && memcmp(name, word, length) == 0;
}

/* The named argument, or NULL. */
static const value *take_named(macro_call *c, const char *name, uint32_t length) {
    for (uint32_t i = 0; i < c->a->named_count; i++) {
        const value_text *t = c->a->names[i]->text;
        if (c->used[i] || t->length != length || memcmp(t->bytes, name, length) != 0) continue;
        c->used[i] = true;
        return &c->a->named[i];
    }
    return NULL;
}

/* What was given first, so that defaults may speak of it; then defaults, in their order. */
static status set_parameters(macro_call *c, uint32_t *count, bool *own_caller) {
    run *r = c->r;
    uint32_t defaults = 0, i = 0;
    *count = 0;
    for (uint32_t p = c->n->a; p; p = at(r, p)->next) ++*count;
    for (uint32_t d = c->n->b; d; d = at(r, d)->next) defaults++;
    uint64_t missing = 0;
    for (uint32_t p = c->n->a; p; p = at(r, p)->next, i++) {
        const node *name = at(r, p);
        if (is_word(name->name, name->length, "caller")) *own_caller = true;
        const value *given = i < c->a->count ? &c->a->items[i] : take_named(c, name->name, name->length);
        if (given)
            TRY(run_set(r, c->f, name->name, name->length, given));
        else
            missing |= (uint64_t)1 << i;
    }
    i = 0;
    uint32_t d = c->n->b;
    for (uint32_t p = c->n->a; p; p = at(r, p)->next, i++) {
        const node *name = at(r, p);
        value v = value_undefined("a parameter of a macro is used that was not given");
        if (missing >> i & 1) {
            if (i >= *count - defaults) TRY(run_evaluate(r, d, &v));
            TRY(run_set(r, c->f, name->name, name->length, &v));
        }
        if (i >= *count - defaults) d = at(r, d)->next;
    }
    return STATUS_OK;
}

static status set_caller(macro_call *c, bool own_caller) {
    if (!(c->n->flag & MACRO_USES_CALLER) || own_caller) return STATUS_OK;
    const value *given = take_named(c, "caller", 6);
    value v = given && given->kind != VALUE_NONE ? *given : value_undefined("No caller defined");
    return run_set(c->r, c->f, "caller", 6, &v);
}

static status set_named(macro_call *c) {
    value rest;
    TRY(value_dict_new(c->r, c->a->named_count, &rest));
    for (uint32_t i = 0; i < c->a->named_count; i++)
        if (!c->used[i]) TRY(value_dict_set(c->r, rest.dict, c->a->names[i], &c->a->named[i]));
    if (c->n->flag & MACRO_USES_NAMED) return run_set(c->r, c->f, "kwargs", 6, &rest);
    return rest.dict->count
               ? status_set(STATUS_INVALID, "a macro is called with an argument of a name that it has not")
               : STATUS_OK;
}

static status set_more(macro_call *c, uint32_t count) {
    value rest;
    uint32_t more = c->a->count > count ? c->a->count - count : 0;
    if (!(c->n->flag & MACRO_USES_MORE))
        return more ? status_set(STATUS_INVALID, "a macro is called with more than its %u arguments", count)
                    : STATUS_OK;
    TRY(value_list_new(c->r, VALUE_TUPLE, more, &rest));
    if (more) memcpy(rest.list->items, c->a->items + count, more * sizeof(value));
    return run_set(c->r, c->f, "varargs", 7, &rest);
}

status run_call_macro(run *r, const macro *m, const arguments *a, value *out) {
    macro_call c = { .r = r, .n = at(r, m->node), .a = a };
    frame *before = r->frame;
    uint32_t count;
    bool own_caller = false;
    TRY(run_take(r, sizeof *c.f, &c.f));
    *c.f = (frame){ .outer = m->frame };
    TRY(run_take(r, a->named_count + 1, &c.used));
    memset(c.used, 0, a->named_count + 1);
    r->frame = c.f;
    TRY(set_parameters(&c, &count, &own_caller));
    TRY(set_caller(&c, own_caller));
    TRY(set_named(&c));
    TRY(set_more(&c, count));
    TRY(run_capture(r, c.n->d, out));
    r->frame = before;
    return STATUS_OK;
}

/* ---- functions ---- */

typedef status function(run *r, const arguments *a, value *out);

static status call_range(run *r, const arguments *a, value *out) {
    int64_t n[3] = { 0, 0, 1 };
    if (a->named_count || a->count < 1 || a->count > 3)
        return status_set(STATUS_INVALID, "range takes one to three numbers");
    for (uint32_t i = 0; i < a->count; i++)
        TRY(run_integer("what range takes", &a->items[i], 0, &n[a->count == 1 ? 1 : i]));
    if (n[2] == 0) return status_set(STATUS_INVALID, "the step of a range is 0");
    __int128 span = n[2] > 0 ? (__int128)n[1] - n[0] : (__int128)n[0] - n[1],
             step = n[2] > 0 ? n[2] : -(__int128)n[2], count = span > 0 ? (span + step - 1) / step : 0;
    if (count > MOST_RANGE) return status_set(STATUS_INVALID, "a range of more than %d numbers", MOST_RANGE);
    value_range *g;
    TRY(run_take(r, sizeof *g, &g));
    *g = (value_range){ n[0], n[1], n[2], (int64_t)count };
    *out = (value){ .kind = VALUE_RANGE, .range = g };
    return STATUS_OK;
}

static status add_pairs(run *r, const value *from, value_dict *d) {
    if (from->kind == VALUE_DICT) {
        for (uint32_t i = 0; i < from->dict->count; i++)
            TRY(value_dict_set(r, d, &from->dict->keys[i], &from->dict->values[i]));
        return STATUS_OK;
    }
    stream *s;
    value pair, parts;
    TRY(stream_open(r, from, &s));
    for (bool more;;) {
        TRY(stream_next(r, s, &pair, &more));
        if (!more) return STATUS_OK;
        TRY(stream_list(r, &pair, &parts));
        if (parts.list->count != 2) return status_set(STATUS_INVALID, "a dict is made of pairs");
        TRY(value_dict_set(r, d, &parts.list->items[0], &parts.list->items[1]));
    }
}

static status call_dict(run *r, const arguments *a, value *out) {
    TRY(value_dict_new(r, a->named_count, out));
    if (a->count > 1) return status_set(STATUS_INVALID, "a dict is made of one value at most");
    if (a->count) TRY(add_pairs(r, &a->items[0], out->dict));
    for (uint32_t i = 0; i < a->named_count; i++)
        TRY(value_dict_set(r, out->dict, a->names[i], &a->named[i]));
    return STATUS_OK;
}

static status call_namespace(run *r, const arguments *a, value *out) {
    TRY(call_dict(r, a, out));
    out->kind = VALUE_NAMESPACE;
    return STATUS_OK;
}

static status call_raise(run *r, const arguments *a, value *out) {
    value message, shown;
    (void)out;
    TRY(run_bind(a, "message", &message));
    TRY(value_show(r, &message, &shown));
    char text[400];
    size_t n = shown.text->length < sizeof text ? shown.text->length : sizeof text - 1;
    if (n) memcpy(text, shown.text->bytes, n);
    text[n] = 0;
    utf8_clean(text);
    return status_set(STATUS_INVALID, "the template refuses this chat: %s", text);
}

/* What Python's strftime makes of parts that C's knows otherwise: no zone, microseconds that are 0. */
static void time_format(const value_text *t, char *out) {
    size_t n = 0;
    for (uint32_t i = 0; i < t->length && n + 8 < MOST_TIME_TEXT; i++) {
        char next = t->bytes[i] == '%' && i + 1 < t->length ? t->bytes[i + 1] : 0;
        if (next == 'f' || next == 'z' || next == 'Z') {
            if (next == 'f') memcpy(out + n, "000000", 6), n += 6;
            i++;
        } else {
            out[n++] = t->bytes[i];
            if (next == '%') out[n++] = '%', i++;
        }
    }
    out[n] = 0;
}

static status call_time(run *r, const arguments *a, value *out) {
    value format;
    char wanted[MOST_TIME_TEXT], text[MOST_TIME_TEXT];
    TRY(run_bind(a, "format", &format));
    TRY(run_text("what strftime_now takes", &format));
    if (format.text->length > MOST_TIME_TEXT / 8 || memchr(format.text->bytes, 0, format.text->length))
        return status_set(STATUS_INVALID, "a format of a time of %u bytes", format.text->length);
    time_format(format.text, wanted);
    time_t now = r->limits.at ? *r->limits.at : time(NULL);
    struct tm parts;
    if (!(r->limits.at ? gmtime_r(&now, &parts) : localtime_r(&now, &parts)))
        return status_set(STATUS_INVALID, "the clock shows no time");
    size_t n = strftime(text, sizeof text, wanted, &parts);
    if (n == 0 && *wanted) return status_set(STATUS_INVALID, "a format of a time that gives no text");
    return value_text_copy(r, text, n, out);
}

static status call_unknown(run *r, const arguments *a, value *out) {
    (void)r, (void)a, (void)out;
    return status_set(STATUS_INVALID, "cycler, joiner and lipsum are not supported");
}

/* The template as a value: it has blocks, which are not called from here. */
static status call_self(run *r, const arguments *a, value *out) {
    (void)r, (void)a, (void)out;
    return status_set(STATUS_INVALID, "the template itself can't be called");
}

static const struct {
    const char *name;
    function *call;
} functions[] = { { "namespace", call_namespace },
                  { "raise_exception", call_raise },
                  { "range", call_range },
                  { "strftime_now", call_time },
                  { "dict", call_dict },
                  { "cycler", call_unknown },
                  { "joiner", call_unknown },
                  { "lipsum", call_unknown },
                  { "self", call_self } };

bool run_find_function(const char *name, uint32_t length, value *out) {
    for (uint8_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (!is_word(name, length, functions[i].name)) continue;
        *out = (value){ .kind = VALUE_FUNCTION, .flag = i };
        return true;
    }
    return false;
}

status run_call_function(run *r, unsigned which, const arguments *a, value *out) {
    arguments named = *a;
    named.name = functions[which].name;
    return functions[which].call(r, &named, out);
}

status run_call(run *r, const value *callee, const arguments *a, value *out) {
    switch (callee->kind) {
    case VALUE_UNDEFINED: return value_missing(callee);
    case VALUE_MACRO: return run_call_macro(r, callee->macro, a, out);
    case VALUE_LOOP: return run_call_loop(r, callee->loop, a, out);
    case VALUE_FUNCTION: return run_call_function(r, callee->flag, a, out);
    case VALUE_METHOD: return run_call_method(r, callee->method, a, out);
    default: return status_set(STATUS_INVALID, "a %s can't be called", value_type(callee));
    }
}
