/* Attributes and items of values. */
#include <stdio.h>
#include <string.h>

#include "text/template/run.h"
#include "text/template/stream.h"

static bool is_word(const char *name, size_t length, const char *word) {
    return length == strlen(word) && memcmp(name, word, length) == 0;
}

static bool among(const char *name, size_t length, const char *words) {
    for (const char *p = words; *p;) {
        size_t n = strcspn(p, " ");
        if (n == length && memcmp(p, name, n) == 0) return true;
        p += n + (p[n] == ' ');
    }
    return false;
}

static status missing(run *r, const value *of, const value *name, value *out) {
    char *text;
    int length = name->kind == VALUE_TEXT ? name->text->length < 80 ? (int)name->text->length : 80 : 0;
    TRY(run_take(r, (size_t)length + 40, &text));
    if (name->kind == VALUE_TEXT)
        snprintf(text, (size_t)length + 40, "a %s has no '%.*s'", value_type(of), length, name->text->bytes);
    else
        snprintf(text, 40, "a %s has no such item", value_type(of));
    *out = value_undefined(text);
    return STATUS_OK;
}

/* ---- what loops know ---- */

static status peek(run *r, loop *l, bool *there) {
    if (!l->has_after && !l->ended) {
        TRY(stream_next(r, l->from, &l->after, &l->has_after));
        l->ended = !l->has_after;
    }
    *there = l->has_after;
    return STATUS_OK;
}

/* Of what has no length the rest is taken at once. */
static status find_length(run *r, loop *l) {
    if (l->length >= 0) return STATUS_OK;
    value self = { .kind = VALUE_STREAM, .stream = l->from }, rest;
    TRY(stream_list(r, &self, &rest));
    l->length = rest.list->count + l->index + 1 + l->has_after;
    TRY(stream_open(r, &rest, &l->from));
    return STATUS_OK;
}

static status near_item(run *r, loop *l, bool after, value *out) {
    if (!after) {
        *out = l->index > 0 ? l->before : value_undefined("there is no previous item");
        return STATUS_OK;
    }
    bool there;
    TRY(peek(r, l, &there));
    *out = there ? l->after : value_undefined("there is no next item");
    return STATUS_OK;
}

static status make_method(run *r, const value *of, const char *name, uint8_t which, value *out) {
    method *m;
    TRY(run_take(r, sizeof *m, &m));
    *m = (method){ *of, which, name };
    *out = (value){ .kind = VALUE_METHOD, .method = m };
    return STATUS_OK;
}

status run_loop_attribute(run *r, loop *l, const char *name, size_t length, value *out, bool *there) {
    static const char *const counts[] = { "index",  "index0",   "depth",    "depth0",
                                          "length", "revindex", "revindex0" };
    size_t which = 0;
    *there = true;
    if (is_word(name, length, "first")) {
        *out = value_bool(l->index == 0);
        return STATUS_OK;
    }
    if (is_word(name, length, "last")) {
        bool more;
        TRY(peek(r, l, &more));
        *out = value_bool(!more);
        return STATUS_OK;
    }
    if (is_word(name, length, "previtem") || is_word(name, length, "nextitem"))
        return near_item(r, l, name[0] == 'n', out);
    value self = { .kind = VALUE_LOOP, .loop = l };
    if (is_word(name, length, "cycle")) return make_method(r, &self, "cycle", 0, out);
    if (is_word(name, length, "changed")) return make_method(r, &self, "changed", 1, out);
    while (which < 7 && !is_word(name, length, counts[which])) which++;
    *there = which < 7;
    if (!*there) return STATUS_OK;
    if (which >= 4) TRY(find_length(r, l));
    const int64_t numbers[] = { l->index + 1,
                                l->index,
                                l->depth + 1,
                                l->depth,
                                l->length,
                                l->length - l->index,
                                l->length - l->index - 1 };
    *out = value_integer(numbers[which]);
    return STATUS_OK;
}

/* ---- attributes ---- */

static status number_attribute(const value *of, const char *name, size_t length, value *out, bool *there) {
    *there = true;
    if (of->kind != VALUE_NUMBER && is_word(name, length, "denominator"))
        *out = value_integer(1);
    else if (is_word(name, length, "imag"))
        *out = of->kind == VALUE_NUMBER ? value_number(0) : value_integer(0);
    else if (is_word(name, length, "real") ||
             (of->kind != VALUE_NUMBER && is_word(name, length, "numerator")))
        *out = of->kind == VALUE_BOOL ? value_integer(of->yes) : *of;
    else
        *there = false;
    return STATUS_OK;
}

static status range_attribute(const value_range *g, const char *name, size_t length, value *out,
                              bool *there) {
    *there = is_word(name, length, "start") || is_word(name, length, "stop") || is_word(name, length, "step");
    if (*there) *out = value_integer(length == 5 ? g->start : name[2] == 'o' ? g->stop : g->step);
    return STATUS_OK;
}

static status macro_attribute(run *r, const macro *m, const value *name, value *out, bool *there) {
    const node *n = &r->t->nodes[m->node];
    *there = true;
    if (value_is_word(name, "name")) {
        *out = value_none();
        return m->name ? value_text_lend(r, m->name, m->length, out) : STATUS_OK;
    }
    if (value_is_word(name, "catch_kwargs") || value_is_word(name, "catch_varargs") ||
        value_is_word(name, "caller")) {
        char c = name->text->bytes[name->text->length - 6];
        unsigned bit = value_is_word(name, "caller") ? MACRO_USES_CALLER
                       : c == 'k'                    ? MACRO_USES_NAMED
                                                     : MACRO_USES_MORE;
        *out = value_bool(n->flag & bit);
        return STATUS_OK;
    }
    *there = value_is_word(name, "arguments");
    if (!*there) return STATUS_OK;
    uint32_t count = 0;
    for (uint32_t p = n->a; p; p = r->t->nodes[p].next) count++;
    TRY(value_list_new(r, VALUE_TUPLE, count, out));
    count = 0;
    for (uint32_t p = n->a; p; p = r->t->nodes[p].next)
        TRY(value_text_lend(r, r->t->nodes[p].name, r->t->nodes[p].length, &out->list->items[count++]));
    return STATUS_OK;
}

/* What would change a list or a dict, and what is Python's own, is hidden by the sandbox: as if undefined. */
static bool hidden(const value *of, const char *name, size_t length) {
    if (among(name, length,
              "__class__ __doc__ __init__ __new__ __len__ __iter__ __eq__ __hash__ __str__ __repr__ "
              "__dir__ __getattribute__ __contains__ __getitem__ __add__ __format__ __reduce__"))
        return true;
    if (of->kind == VALUE_DICT) return among(name, length, "pop popitem clear update setdefault");
    return of->kind == VALUE_LIST &&
           among(name, length, "append clear pop reverse insert sort extend remove");
}

status run_attribute(run *r, const value *of, const char *name, size_t length, value *out, bool *there) {
    uint8_t which;
    const char *known;
    *there = false;
    if (of->kind == VALUE_LOOP) return run_loop_attribute(r, of->loop, name, length, out, there);
    if (of->kind == VALUE_BOOL || of->kind == VALUE_INTEGER || of->kind == VALUE_NUMBER)
        TRY(number_attribute(of, name, length, out, there));
    if (of->kind == VALUE_RANGE) TRY(range_attribute(of->range, name, length, out, there));
    if (of->kind == VALUE_NAMESPACE) {
        const value *found = value_dict_word(of->dict, name, length);
        *there = found != NULL;
        if (found) *out = *found;
    }
    if (of->kind == VALUE_MACRO) {
        value word;
        TRY(value_text_lend(r, name, length, &word));
        TRY(macro_attribute(r, of->macro, &word, out, there));
    }
    if (*there) return STATUS_OK;
    if (hidden(of, name, length)) {
        *there = true;
        *out = value_undefined("the sandbox hides this attribute");
        return STATUS_OK;
    }
    *there = run_method_known(of, name, length, &which, &known);
    return *there ? make_method(r, of, known, which, out) : STATUS_OK;
}

status run_get_attribute(run *r, const value *of, const value *name, value *out) {
    bool there;
    if (of->kind == VALUE_UNDEFINED) return value_missing(of);
    TRY(run_attribute(r, of, name->text->bytes, name->text->length, out, &there));
    if (there) return STATUS_OK;
    const value *item =
        of->kind == VALUE_DICT ? value_dict_word(of->dict, name->text->bytes, name->text->length) : NULL;
    if (!item) return missing(r, of, name, out);
    *out = *item;
    return STATUS_OK;
}

static status find_item(run *r, const value *of, const value *key, value *out, bool *there) {
    int64_t count, i;
    *there = false;
    if (of->kind == VALUE_DICT) {
        uint32_t place = of->dict->count;
        if (value_is_key(key)) TRY(value_dict_find(r, of->dict, key, &place));
        *there = place < of->dict->count;
        if (*there) *out = of->dict->values[place];
        return STATUS_OK;
    }
    bool ordered = of->kind == VALUE_TEXT || of->kind == VALUE_LIST || of->kind == VALUE_TUPLE ||
                   of->kind == VALUE_RANGE;
    if (!ordered || (key->kind != VALUE_INTEGER && key->kind != VALUE_BOOL)) return STATUS_OK;
    i = key->kind == VALUE_BOOL ? key->yes : key->integer;
    value_length(of, &count);
    if (i < 0) i += count;
    *there = i >= 0 && i < count;
    return *there ? value_item(r, of, i, out) : STATUS_OK;
}

status run_get_item(run *r, const value *of, const value *key, value *out) {
    bool there;
    if (of->kind == VALUE_UNDEFINED) return value_missing(of);
    TRY(find_item(r, of, key, out, &there));
    if (!there && key->kind == VALUE_TEXT)
        TRY(run_attribute(r, of, key->text->bytes, key->text->length, out, &there));
    return there ? STATUS_OK : missing(r, of, key, out);
}
