/* Methods of texts, dicts, lists and loops. */
#include <string.h>

#include "text/template/format.h"
#include "text/template/letters.h"
#include "text/template/lex.h"
#include "text/template/run.h"
#include "text/template/stream.h"
#include "text/template/words.h"

/* `a` holds the arguments in the order of the row's parameters. */
typedef struct {
    run *r;
    const value *of, *a;
    const arguments *all;
    unsigned how;
} method_call;

typedef status method_function(const method_call *c, value *out);

/* ---- of texts ---- */

static status m_case(const method_call *c, value *out) {
    return words_change(c->r, c->of, (words_case)c->how, out);
}
static status m_strip(const method_call *c, value *out) {
    return words_strip(c->r, c->of, &c->a[0], c->how, out);
}

static status m_split(const method_call *c, value *out) {
    int64_t most;
    TRY(run_integer("maxsplit", &c->a[1], -1, &most));
    return words_split(c->r, c->of, &c->a[0], most, c->how, out);
}

static status m_lines(const method_call *c, value *out) {
    int64_t keep;
    TRY(run_integer("keepends", &c->a[0], 0, &keep));
    return words_lines(c->r, c->of, keep != 0, out);
}

static status m_replace(const method_call *c, value *out) {
    int64_t most;
    TRY(run_text("what replace looks for", &c->a[0]));
    TRY(run_text("what replace puts there", &c->a[1]));
    TRY(run_integer("count", &c->a[2], -1, &most));
    return words_replace(c->r, c->of, &c->a[0], &c->a[1], most, out);
}

static status m_join(const method_call *c, value *out) {
    return words_join(c->r, c->of, &c->a[0], false, out);
}

/* Letters [start, end) as bytes, from arguments `at` and the next one. False: nothing is there, not even
 * nothing. */
static status limits(const method_call *c, int at, size_t *begin, size_t *end, bool *inside) {
    int64_t length = c->of->text->points, n[2] = { 0, length };
    for (int i = 0; i < 2; i++) {
        const value *v = &c->a[at + i];
        if (!run_given(v) || v->kind == VALUE_NONE) continue;
        TRY(run_integer("a place in a text", v, 0, &n[i]));
        if (n[i] < 0) n[i] += length;
        if (n[i] < 0) n[i] = 0;
    }
    *inside = n[0] <= length;
    for (int i = 0; i < 2; i++)
        if (n[i] > length) n[i] = length;
    if (n[1] < n[0]) *inside = false, n[1] = n[0];
    *begin = value_letter(c->of, (size_t)n[0]);
    *end = value_letter(c->of, (size_t)n[1]);
    return STATUS_OK;
}

static bool affix(const value_text *t, const value_text *with, size_t begin, size_t end, bool at_end) {
    if (with->length > end - begin) return false;
    return memcmp(t->bytes + (at_end ? end - with->length : begin), with->bytes, with->length) == 0;
}

static status m_affix(const method_call *c, value *out) {
    size_t begin, end;
    bool inside, yes = false;
    TRY(limits(c, 1, &begin, &end, &inside));
    if (c->a[0].kind == VALUE_TUPLE) {
        for (uint32_t i = 0; i < c->a[0].list->count && !yes; i++) {
            const value *with = &c->a[0].list->items[i];
            TRY(run_text("what a text may begin or end with", with));
            yes = inside && affix(c->of->text, with->text, begin, end, c->how);
        }
    } else {
        TRY(run_text("what a text may begin or end with", &c->a[0]));
        yes = inside && affix(c->of->text, c->a[0].text, begin, end, c->how);
    }
    *out = value_bool(yes);
    return STATUS_OK;
}

static status m_remove_affix(const method_call *c, value *out) {
    TRY(run_text("what is removed", &c->a[0]));
    const value_text *t = c->of->text, *with = c->a[0].text;
    bool there = affix(t, with, 0, t->length, c->how);
    size_t n = there ? with->length : 0;
    return c->how ? value_part(c->r, c->of, 0, t->length - n, out)
                  : value_part(c->r, c->of, n, t->length, out);
}

static uint32_t letters_before(const value_text *t, size_t byte) {
    uint32_t n = 0;
    for (size_t i = 0; i < byte; i++) n += ((unsigned char)t->bytes[i] & 0xc0) != 0x80;
    return n;
}

/* how: 1 from the right, 2 a failure where there is none. */
static status m_find(const method_call *c, value *out) {
    size_t begin, end;
    bool inside;
    TRY(run_text("what is looked for", &c->a[0]));
    TRY(limits(c, 1, &begin, &end, &inside));
    TRY(run_steps(c->r, words_cost(end - begin, c->a[0].text->length, c->how & 1)));
    int64_t at = inside ? words_find(c->of->text, c->a[0].text, begin, end, c->how & 1) : -1;
    if (at < 0 && (c->how & 2)) return status_set(STATUS_INVALID, "what is looked for is not in the text");
    *out = value_integer(at < 0 ? -1 : (int64_t)letters_before(c->of->text, (size_t)at));
    return STATUS_OK;
}

static status m_count(const method_call *c, value *out) {
    size_t begin, end;
    bool inside;
    int64_t n = 0;
    TRY(run_text("what is counted", &c->a[0]));
    TRY(limits(c, 1, &begin, &end, &inside));
    TRY(run_steps(c->r, (end - begin) / 64));
    const value_text *what = c->a[0].text;
    if (inside && !what->length)
        n = (int64_t)letters_before(c->of->text, end) - (int64_t)letters_before(c->of->text, begin) + 1;
    for (int64_t at; inside && what->length && (at = words_find(c->of->text, what, begin, end, false)) >= 0;
         n++)
        begin = (size_t)at + what->length;
    *out = value_integer(n);
    return STATUS_OK;
}

static status m_field(const method_call *c, value *out) {
    int64_t width;
    char fill[8] = " ";
    TRY(run_integer("width", &c->a[0], 0, &width));
    if (run_given(&c->a[1])) {
        TRY(run_text("what fills", &c->a[1]));
        if (c->a[1].text->points != 1) return status_set(STATUS_INVALID, "what fills is one letter");
        memcpy(fill, c->a[1].text->bytes, c->a[1].text->length);
        fill[c->a[1].text->length] = 0;
    }
    return words_field(c->r, c->of, width, (int)c->how - 1, fill, out);
}

static status m_zeros(const method_call *c, value *out) {
    int64_t width, room;
    builder b = { 0 };
    const value_text *t = c->of->text;
    TRY(run_integer("width", &c->a[0], 0, &width));
    size_t sign = t->length && (t->bytes[0] == '-' || t->bytes[0] == '+');
    TRY(builder_add_part(c->r, &b, c->of, 0, sign));
    for (room = width - t->points; room > 0; room--) {
        TRY(run_steps(c->r, 1));
        TRY(builder_add_word(c->r, &b, "0", 0));
    }
    TRY(builder_add_part(c->r, &b, c->of, sign, t->length));
    return builder_value(c->r, &b, out);
}

static status m_partition(const method_call *c, value *out) {
    TRY(run_text("what is split at", &c->a[0]));
    const value_text *t = c->of->text, *with = c->a[0].text;
    if (!with->length) return status_set(STATUS_INVALID, "nothing can be split at an empty text");
    TRY(run_steps(c->r, words_cost(t->length, with->length, c->how)));
    int64_t at = words_find(t, with, 0, t->length, c->how);
    size_t first = at < 0 ? c->how ? 0 : t->length : (size_t)at,
           second = at < 0 ? first : first + with->length;
    TRY(value_list_new(c->r, VALUE_TUPLE, 3, out));
    TRY(value_part(c->r, c->of, 0, first, &out->list->items[0]));
    TRY(value_part(c->r, c->of, first, second, &out->list->items[1]));
    return value_part(c->r, c->of, second, t->length, &out->list->items[2]);
}

/* Are all letters so, and is there one? */
static bool all_letters(const value_text *t, unsigned how) {
    for (size_t at = 0; at < t->length;) {
        unsigned long p;
        uint32_t n = value_point(t->bytes + at, &p);
        bool yes = how == 0   ? LETTERS_IS(alpha, p)
                   : how == 1 ? LETTERS_IS(digit, p)
                   : how == 2 ? LETTERS_IS(decimal, p)
                   : how == 3 ? LETTERS_IS(numeric, p)
                   : how == 4 ? LETTERS_IS(alpha, p) || LETTERS_IS(digit, p) || LETTERS_IS(decimal, p) ||
                                    LETTERS_IS(numeric, p)
                   : how == 5 ? lex_blank(t->bytes + at, n) == n
                   : how == 6 ? p < 0x80
                   : p < 0x80 ? p >= 0x20 && p != 0x7f
                              : !LETTERS_IS(hidden, p);
        if (!yes) return false;
        at += n;
    }
    return t->length > 0 || how >= 6;
}

static status m_is(const method_call *c, value *out) {
    TRY(run_steps(c->r, c->of->text->length / 16));
    *out = value_bool(all_letters(c->of->text, c->how));
    return STATUS_OK;
}

/* Are all letters that have cases of this one? */
static status m_is_case(const method_call *c, value *out) {
    const value_text *t = c->of->text;
    bool any = false, yes = true, after = false;
    TRY(run_steps(c->r, t->length / 16));
    for (size_t at = 0; at < t->length && yes;) {
        unsigned long p;
        at += value_point(t->bytes + at, &p);
        bool upper = LETTERS_IS(upper, p) || LETTERS_IS(title, p), lower = LETTERS_IS(lower, p);
        if (c->how == WORDS_TITLE) yes = upper ? !after : lower ? after : true;
        if (c->how == WORDS_UPPER) yes = !lower && !LETTERS_IS(title, p);
        if (c->how == WORDS_LOWER) yes = !upper;
        after = upper || lower;
        any = any || after;
    }
    *out = value_bool(yes && any);
    return STATUS_OK;
}

static status m_tabs(const method_call *c, value *out) {
    int64_t size, column = 0;
    builder b = { 0 };
    TRY(run_integer("tabsize", &c->a[0], 8, &size));
    for (size_t at = 0; at < c->of->text->length;) {
        unsigned long p;
        uint32_t n = value_point(c->of->text->bytes + at, &p);
        TRY(run_steps(c->r, 1));
        if (p == '\t') {
            for (int64_t fill = size > 0 ? size - column % size : 0; fill > 0; fill--, column++)
                TRY(builder_add(c->r, &b, " ", 1, value_origin_at(c->of, at)));
        } else {
            TRY(builder_add_part(c->r, &b, c->of, at, at + n));
            column = p == '\n' || p == '\r' ? 0 : column + 1;
        }
        at += n;
    }
    return builder_value(c->r, &b, out);
}

static status m_format(const method_call *c, value *out) {
    if (!c->how) return format_braces(c->r, c->of, c->all, out);
    arguments a = *c->all;
    if (a.count != 1 || a.named_count || a.items[0].kind != VALUE_DICT)
        return status_set(STATUS_INVALID, "format_map takes one dict");
    const value_dict *d = a.items[0].dict;
    a = (arguments){ .name = "format_map", .named_count = d->count, .named = d->values };
    TRY(run_take(c->r, (d->count + 1) * sizeof *a.names, &a.names));
    for (uint32_t i = 0; i < d->count; i++) {
        TRY(run_text("a name in a format", &d->keys[i]));
        a.names[i] = &d->keys[i];
    }
    return format_braces(c->r, c->of, &a, out);
}

/* ---- of dicts and lists ---- */

static status m_view(const method_call *c, value *out) {
    *out = *c->of;
    out->kind = VALUE_VIEW;
    out->flag = (uint8_t)c->how;
    return STATUS_OK;
}

static status m_get(const method_call *c, value *out) {
    uint32_t place;
    TRY(value_dict_find(c->r, c->of->dict, &c->a[0], &place));
    *out = place < c->of->dict->count ? c->of->dict->values[place]
           : run_given(&c->a[1])      ? c->a[1]
                                      : value_none();
    return STATUS_OK;
}

static status m_copy(const method_call *c, value *out) {
    *out = *c->of;
    return STATUS_OK;
}

/* how: 1 counts, 0 looks for the place. */
static status m_items(const method_call *c, value *out) {
    int64_t length, n = 0;
    value item;
    value_length(c->of, &length);
    for (int64_t i = 0; i < length; i++) {
        bool same;
        TRY(value_item(c->r, c->of, i, &item));
        TRY(value_equal(c->r, &item, &c->a[0], &same));
        n += same;
        if (!same || c->how) continue;
        *out = value_integer(i);
        return STATUS_OK;
    }
    *out = value_integer(n);
    return c->how ? STATUS_OK : status_set(STATUS_INVALID, "what is looked for is not in the list");
}

static status m_unknown(const method_call *c, value *out) {
    (void)c, (void)out;
    return status_set(STATUS_INVALID, "this method is not supported");
}

/* ---- of loops ---- */

static status m_loop(const method_call *c, value *out) {
    loop *l = c->of->loop;
    if (c->how == 0) {
        if (!c->all->count) return status_set(STATUS_INVALID, "cycle has nothing to go through");
        *out = c->all->items[l->index % c->all->count];
        return STATUS_OK;
    }
    value now;
    bool same = false;
    TRY(value_list_new(c->r, VALUE_TUPLE, c->all->count, &now));
    if (c->all->count) memcpy(now.list->items, c->all->items, c->all->count * sizeof(value));
    if (l->changed.kind == VALUE_TUPLE) TRY(value_equal(c->r, &l->changed, &now, &same));
    l->changed = now;
    *out = value_bool(!same);
    return STATUS_OK;
}

/* ---- the table ---- */

static const struct {
    value_kind of;
    const char *name, *parameters; /* as run_bind has them; NULL: any */
    method_function *call;
    unsigned how;
} methods[] = {
    { VALUE_LOOP, "cycle", NULL, m_loop, 0 },
    { VALUE_LOOP, "changed", NULL, m_loop, 1 },
    { VALUE_TEXT, "strip", "/|chars", m_strip, 3 },
    { VALUE_TEXT, "lstrip", "/|chars", m_strip, 1 },
    { VALUE_TEXT, "rstrip", "/|chars", m_strip, 2 },
    { VALUE_TEXT, "split", "|sep maxsplit", m_split, 0 },
    { VALUE_TEXT, "rsplit", "|sep maxsplit", m_split, 1 },
    { VALUE_TEXT, "splitlines", "|keepends", m_lines, 0 },
    { VALUE_TEXT, "replace", "/old new|count", m_replace, 0 },
    { VALUE_TEXT, "join", "/iterable", m_join, 0 },
    { VALUE_TEXT, "upper", "/", m_case, WORDS_UPPER },
    { VALUE_TEXT, "lower", "/", m_case, WORDS_LOWER },
    { VALUE_TEXT, "capitalize", "/", m_case, WORDS_CAPITALIZE },
    { VALUE_TEXT, "title", "/", m_case, WORDS_TITLE },
    { VALUE_TEXT, "swapcase", "/", m_case, WORDS_SWAP },
    { VALUE_TEXT, "startswith", "/prefix|start end", m_affix, 0 },
    { VALUE_TEXT, "endswith", "/suffix|start end", m_affix, 1 },
    { VALUE_TEXT, "removeprefix", "/prefix", m_remove_affix, 0 },
    { VALUE_TEXT, "removesuffix", "/suffix", m_remove_affix, 1 },
    { VALUE_TEXT, "find", "/sub|start end", m_find, 0 },
    { VALUE_TEXT, "rfind", "/sub|start end", m_find, 1 },
    { VALUE_TEXT, "index", "/sub|start end", m_find, 2 },
    { VALUE_TEXT, "rindex", "/sub|start end", m_find, 3 },
    { VALUE_TEXT, "count", "/sub|start end", m_count, 0 },
    { VALUE_TEXT, "ljust", "/width|fill", m_field, 0 },
    { VALUE_TEXT, "center", "/width|fill", m_field, 1 },
    { VALUE_TEXT, "rjust", "/width|fill", m_field, 2 },
    { VALUE_TEXT, "zfill", "/width", m_zeros, 0 },
    { VALUE_TEXT, "partition", "/sep", m_partition, 0 },
    { VALUE_TEXT, "rpartition", "/sep", m_partition, 1 },
    { VALUE_TEXT, "isalpha", "/", m_is, 0 },
    { VALUE_TEXT, "isdigit", "/", m_is, 1 },
    { VALUE_TEXT, "isdecimal", "/", m_is, 2 },
    { VALUE_TEXT, "isnumeric", "/", m_is, 3 },
    { VALUE_TEXT, "isalnum", "/", m_is, 4 },
    { VALUE_TEXT, "isspace", "/", m_is, 5 },
    { VALUE_TEXT, "isascii", "/", m_is, 6 },
    { VALUE_TEXT, "isprintable", "/", m_is, 7 },
    { VALUE_TEXT, "isupper", "/", m_is_case, WORDS_UPPER },
    { VALUE_TEXT, "islower", "/", m_is_case, WORDS_LOWER },
    { VALUE_TEXT, "istitle", "/", m_is_case, WORDS_TITLE },
    { VALUE_TEXT, "expandtabs", "|tabsize", m_tabs, 0 },
    { VALUE_TEXT, "format", NULL, m_format, 0 },
    { VALUE_TEXT, "format_map", NULL, m_format, 1 },
    { VALUE_TEXT, "encode", NULL, m_unknown, 0 },
    { VALUE_TEXT, "casefold", NULL, m_unknown, 0 },
    { VALUE_TEXT, "isidentifier", NULL, m_unknown, 0 },
    { VALUE_TEXT, "translate", NULL, m_unknown, 0 },
    { VALUE_TEXT, "maketrans", NULL, m_unknown, 0 },
    { VALUE_DICT, "items", "/", m_view, VIEW_ITEMS },
    { VALUE_DICT, "keys", "/", m_view, VIEW_KEYS },
    { VALUE_DICT, "values", "/", m_view, VIEW_VALUES },
    { VALUE_DICT, "get", "/key|default", m_get, 0 },
    { VALUE_DICT, "copy", "/", m_copy, 0 },
    { VALUE_DICT, "fromkeys", NULL, m_unknown, 0 },
    { VALUE_LIST, "copy", "/", m_copy, 0 },
    { VALUE_LIST, "index", "/value", m_items, 0 },
    { VALUE_LIST, "count", "/value", m_items, 1 },
    { VALUE_TUPLE, "index", "/value", m_items, 0 },
    { VALUE_TUPLE, "count", "/value", m_items, 1 },
    { VALUE_RANGE, "index", "/value", m_items, 0 },
    { VALUE_RANGE, "count", "/value", m_items, 1 },
    { VALUE_VIEW, "mapping", NULL, m_unknown, 0 },
    { VALUE_VIEW, "isdisjoint", NULL, m_unknown, 0 },
    { VALUE_INTEGER, "bit_length", NULL, m_unknown, 0 },
    { VALUE_INTEGER, "conjugate", NULL, m_unknown, 0 },
    { VALUE_INTEGER, "to_bytes", NULL, m_unknown, 0 },
    { VALUE_NUMBER, "is_integer", NULL, m_unknown, 0 },
    { VALUE_NUMBER, "hex", NULL, m_unknown, 0 },
    { VALUE_NUMBER, "conjugate", NULL, m_unknown, 0 },
};

bool run_method_known(const value *of, const char *name, size_t length, uint8_t *which, const char **known) {
    for (uint8_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        if (methods[i].of != of->kind || strlen(methods[i].name) != length) continue;
        if (memcmp(methods[i].name, name, length) != 0) continue;
        *which = i;
        *known = methods[i].name;
        return true;
    }
    return false;
}

status run_call_method(run *r, const method *m, const arguments *a, value *out) {
    value bound[RUN_MOST_PARAMETERS];
    arguments named = *a;
    named.name = m->name;
    method_call c = { .r = r, .of = &m->of, .a = bound, .all = &named, .how = methods[m->which].how };
    if (methods[m->which].parameters)
        TRY(run_bind(&named, methods[m->which].parameters, bound));
    else if (m->of.kind == VALUE_LOOP && a->named_count)
        return status_set(STATUS_INVALID, "%s: it has no argument of such a name", m->name);
    return methods[m->which].call(&c, out);
}
