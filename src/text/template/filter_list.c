/* Filters of lists and dicts. */
#include <string.h>

#include "base/memory.h"
#include "text/template/filter.h"
#include "text/template/stream.h"
#include "text/template/words.h"

static bool given_true(const value *v) { return run_given(v) && value_true(v); }

static status f_default(run *r, const arguments *a, value *out) {
    value b[3];
    TRY(run_bind(a, "value|default_value boolean", b));
    bool gone = b[0].kind == VALUE_UNDEFINED || (given_true(&b[2]) && !value_true(&b[0]));
    *out = gone ? b[1] : b[0];
    return gone && !run_given(&b[1]) ? value_text_lend(r, "", 0, out) : STATUS_OK;
}

static status f_length(run *r, const arguments *a, value *out) {
    value b[1];
    int64_t count;
    bool there;
    TRY(run_bind(a, "/obj", b));
    if (b[0].kind == VALUE_LOOP) return run_loop_attribute(r, b[0].loop, "length", 6, out, &there);
    if (!value_length(&b[0], &count))
        return status_set(STATUS_INVALID, "a %s has no length", value_type(&b[0]));
    *out = value_integer(count);
    return STATUS_OK;
}

static status f_list(run *r, const arguments *a, value *out) {
    value b[1];
    TRY(run_bind(a, "value", b));
    return stream_list(r, &b[0], out);
}

static status make_items(run *r, const arguments *a, value *out) {
    value b[1];
    TRY(run_bind(a, "value", b));
    if (b[0].kind != VALUE_DICT && b[0].kind != VALUE_UNDEFINED)
        return status_set(STATUS_INVALID, "items are of a dict, not of a %s", value_type(&b[0]));
    return stream_value(r, &(stream){ .kind = STREAM_PAIRS, .of = b[0] }, out);
}

static status f_items(run *r, const arguments *a, value *out) {
    value b[1];
    TRY(run_bind(a, "value", b));
    return stream_later(r, make_items, a, out);
}

static status f_first(run *r, const arguments *a, value *out) {
    value b[1];
    stream *s;
    bool more;
    TRY(run_bind(a, "seq", b));
    TRY(stream_open(r, &b[0], &s));
    TRY(stream_next(r, s, out, &more));
    if (!more) *out = value_undefined("there is no first item, there are none");
    return STATUS_OK;
}

static status f_last(run *r, const arguments *a, value *out) {
    value b[1];
    int64_t count;
    TRY(run_bind(a, "seq", b));
    if (b[0].kind == VALUE_STREAM || !value_length(&b[0], &count))
        return status_set(STATUS_INVALID, "a %s has no end to begin at", value_type(&b[0]));
    if (count) return value_item(r, &b[0], count - 1, out);
    *out = value_undefined("there is no last item, there are none");
    return STATUS_OK;
}

static status f_join(run *r, const arguments *a, value *out) {
    value b[3], between, items;
    TRY(run_bind(a, "value|d attribute", b));
    if (run_given(&b[1]))
        TRY(value_show(r, &b[1], &between));
    else
        TRY(value_text_lend(r, "", 0, &between));
    items = b[0];
    if (run_given(&b[2]) && b[2].kind != VALUE_NONE) {
        stream *from;
        TRY(stream_open(r, &b[0], &from));
        TRY(stream_value(r,
                         &(stream){ .kind = STREAM_MAP,
                                    .from = from,
                                    .by_attribute = true,
                                    .attribute = b[2],
                                    .otherwise = value_undefined(NULL) },
                         &items));
    }
    return words_join(r, &between, &items, true, out);
}

static status f_reverse(run *r, const arguments *a, value *out) {
    value b[1], parts[3] = { value_none(), value_none(), value_integer(-1) };
    int64_t count;
    TRY(run_bind(a, "value", b));
    if (b[0].kind == VALUE_TEXT) return run_slice(r, &b[0], parts, out);
    if (b[0].kind == VALUE_STREAM) {
        value list;
        TRY(stream_list(r, &b[0], &list));
        return run_slice(r, &list, parts, out);
    }
    if (!value_length(&b[0], &count))
        return status_set(STATUS_INVALID, "a %s can't be reversed", value_type(&b[0]));
    return stream_value(r, &(stream){ .kind = STREAM_REVERSE, .of = b[0] }, out);
}

/* ---- map, select and their kin ---- */

/* Takes an argument away by its name; undefined with NULL: it is not there. */
static value take_named(arguments *a, const char *name) {
    for (uint32_t i = 0; i < a->named_count; i++) {
        if (!value_is_word(a->names[i], name)) continue;
        value found = a->named[i];
        a->named_count--;
        for (uint32_t k = i; k < a->named_count; k++)
            a->names[k] = a->names[k + 1], a->named[k] = a->named[k + 1];
        return found;
    }
    return value_undefined(NULL);
}

/* The arguments behind the first `skip`; the first of them is the name of a filter or test, if there is one.
 */
static status behind_name(const arguments *a, uint32_t skip, stream *s) {
    s->more = *a;
    s->more.items += skip, s->more.count -= skip;
    if (!s->more.count) return STATUS_OK;
    TRY(run_text("the name of a filter or test", &s->more.items[0]));
    s->name = s->more.items[0].text->bytes;
    s->length = s->more.items[0].text->length;
    s->more.items++, s->more.count--;
    return STATUS_OK;
}

/* What goes through nothing asks nobody for its arguments, as in Python. */
static status open_stream(run *r, const arguments *a, stream *s, value *out) {
    if (!a->count) return status_set(STATUS_INVALID, "%s: value is missing", a->name);
    if (!value_true(&a->items[0])) {
        value none;
        TRY(value_list_new(r, VALUE_LIST, 0, &none));
        return stream_value(r, &(stream){ .kind = STREAM_ITEMS, .of = none }, out);
    }
    TRY(stream_open(r, &a->items[0], &s->from));
    return stream_value(r, s, out);
}

static status make_map(run *r, const arguments *a, value *out) {
    stream s = { .kind = STREAM_MAP, .attribute = value_undefined(NULL), .otherwise = value_undefined(NULL) };
    arguments rest = *a;
    if (a->count == 1 && a->named_count) s.attribute = take_named(&rest, "attribute");
    s.by_attribute = run_given(&s.attribute);
    if (s.by_attribute) s.otherwise = take_named(&rest, "default");
    bool empty = a->count && !value_true(&a->items[0]);
    if (s.by_attribute && rest.named_count && !empty)
        return status_set(STATUS_INVALID, "map: it has no argument of such a name");
    if (!s.by_attribute && a->count < 2 && !empty)
        return status_set(STATUS_INVALID, "map: it names no filter");
    if (!s.by_attribute && !empty) TRY(behind_name(&rest, 1, &s));
    return open_stream(r, a, &s, out);
}

static status f_map(run *r, const arguments *a, value *out) { return stream_later(r, make_map, a, out); }

static status choose(run *r, const arguments *a, bool by_attribute, bool negated, value *out) {
    stream s = { .kind = STREAM_SELECT, .by_attribute = by_attribute, .negated = negated };
    bool empty = a->count && !value_true(&a->items[0]);
    if (!empty && by_attribute && a->count < 2)
        return status_set(STATUS_INVALID, "%s: it names no attribute", a->name);
    if (!empty && a->count) TRY(behind_name(a, by_attribute ? 2 : 1, &s));
    if (by_attribute && a->count > 1) s.attribute = a->items[1];
    return open_stream(r, a, &s, out);
}

static status make_select(run *r, const arguments *a, value *out) { return choose(r, a, false, false, out); }
static status make_reject(run *r, const arguments *a, value *out) { return choose(r, a, false, true, out); }
static status make_selectattr(run *r, const arguments *a, value *out) {
    return choose(r, a, true, false, out);
}
static status make_rejectattr(run *r, const arguments *a, value *out) {
    return choose(r, a, true, true, out);
}

static status f_select(run *r, const arguments *a, value *out) {
    return stream_later(r, make_select, a, out);
}
static status f_reject(run *r, const arguments *a, value *out) {
    return stream_later(r, make_reject, a, out);
}
static status f_selectattr(run *r, const arguments *a, value *out) {
    return stream_later(r, make_selectattr, a, out);
}
static status f_rejectattr(run *r, const arguments *a, value *out) {
    return stream_later(r, make_rejectattr, a, out);
}

static status make_unique(run *r, const arguments *a, value *out) {
    value b[3];
    stream s = { .kind = STREAM_UNIQUE };
    TRY(run_bind(a, "value|case_sensitive attribute", b));
    TRY(stream_open(r, &b[0], &s.from));
    s.sensitive = given_true(&b[1]);
    s.attribute = b[2];
    TRY(run_take(r, sizeof *s.seen, &s.seen));
    *s.seen = (value_list){ 0 };
    return stream_value(r, &s, out);
}

static status f_unique(run *r, const arguments *a, value *out) {
    value b[3];
    TRY(run_bind(a, "value|case_sensitive attribute", b));
    return stream_later(r, make_unique, a, out);
}

/* ---- order ---- */

typedef struct {
    value key, item;
} keyed;

static status before(run *r, const keyed *a, const keyed *b, bool down, bool *yes) {
    int order;
    TRY(value_order(r, &a->key, &b->key, &order));
    *yes = order != 2 && (down ? order > 0 : order < 0);
    return STATUS_OK;
}

/* Merges, so that equal ones keep their order. */
static status merge_sort(run *r, keyed *k, keyed *room, uint32_t n, bool down) {
    for (uint32_t width = 1; width<n; width = width> n / 2 ? n : width * 2) {
        for (uint32_t begin = 0; begin < n; begin += 2 * width) {
            uint32_t middle = n - begin > width ? begin + width : n,
                     end = n - begin > 2 * width ? begin + 2 * width : n;
            uint32_t left = begin, right = middle;
            for (uint32_t i = begin; i < end; i++) {
                bool take_right = left == middle;
                if (left < middle && right < end) TRY(before(r, &k[right], &k[left], down, &take_right));
                room[i] = take_right ? k[right++] : k[left++];
            }
            if (end == n) break;
        }
        memcpy(k, room, n * sizeof *k);
        if (width >= n) break;
    }
    return STATUS_OK;
}

static status key_of(run *r, const value *item, const value *path, bool sensitive, value *out) {
    value none = value_undefined(NULL);
    TRY(filter_reach(r, item, path, &none, out));
    return sensitive ? STATUS_OK : filter_ignore_case(r, out);
}

/* "a,b": by a, then by b. */
static status keys_of(run *r, const value *item, const value *paths, bool sensitive, value *out) {
    if (paths->kind != VALUE_TEXT || !memchr(paths->text->bytes, ',', paths->text->length))
        return key_of(r, item, paths, sensitive, out);
    value comma, parts;
    TRY(value_text_lend(r, ",", 1, &comma));
    TRY(words_split(r, paths, &comma, -1, false, &parts));
    TRY(value_list_new(r, VALUE_LIST, parts.list->count, out));
    for (uint32_t i = 0; i < parts.list->count; i++)
        TRY(key_of(r, item, &parts.list->items[i], sensitive, &out->list->items[i]));
    return STATUS_OK;
}

typedef struct {
    const value *path;
    bool sensitive, down;
} ordering;

static status sort_items(run *r, const value *of, const ordering *o, value *out) {
    keyed *k, *room;
    TRY(stream_list(r, of, out));
    uint32_t n = out->list->count;
    TRY(run_take(r, n * sizeof *k, &k));
    TRY(run_take(r, n * sizeof *room, &room));
    for (uint32_t i = 0; i < n; i++) {
        k[i].item = out->list->items[i];
        TRY(keys_of(r, &k[i].item, o->path, o->sensitive, &k[i].key));
    }
    TRY(merge_sort(r, k, room, n, o->down));
    for (uint32_t i = 0; i < n; i++) out->list->items[i] = k[i].item;
    return STATUS_OK;
}

static status f_sort(run *r, const arguments *a, value *out) {
    value b[4];
    int64_t down;
    TRY(run_bind(a, "value|reverse case_sensitive attribute", b));
    TRY(run_integer("reverse", &b[1], 0, &down));
    return sort_items(r, &b[0], &(ordering){ &b[3], given_true(&b[2]), down != 0 }, out);
}

static status f_dictsort(run *r, const arguments *a, value *out) {
    value b[4], items;
    int64_t down;
    TRY(run_bind(a, "value|case_sensitive by reverse", b));
    TRY(run_integer("reverse", &b[3], 0, &down));
    bool by_value = run_given(&b[2]) && value_is_word(&b[2], "value");
    if (run_given(&b[2]) && !by_value && !value_is_word(&b[2], "key"))
        return status_set(STATUS_INVALID, "dictsort: by is key or value");
    if (b[0].kind == VALUE_UNDEFINED) return value_missing(&b[0]);
    if (b[0].kind != VALUE_DICT)
        return status_set(STATUS_INVALID, "dictsort is of a dict, not of a %s", value_type(&b[0]));
    items = b[0];
    items.kind = VALUE_VIEW, items.flag = VIEW_ITEMS;
    value path = value_integer(by_value);
    return sort_items(r, &items, &(ordering){ &path, given_true(&b[1]), down != 0 }, out);
}

static status extreme(run *r, const arguments *a, bool most, value *out) {
    value b[3], item, key, best;
    stream *s;
    bool more, any = false;
    TRY(run_bind(a, "value|case_sensitive attribute", b));
    TRY(stream_open(r, &b[0], &s));
    for (;; any = true) {
        int order = most ? 1 : -1;
        TRY(stream_next(r, s, &item, &more));
        if (!more) break;
        TRY(key_of(r, &item, &b[2], given_true(&b[1]), &key));
        if (any) TRY(value_order(r, &key, &best, &order));
        if (order != (most ? 1 : -1)) continue;
        best = key;
        *out = item;
    }
    if (!any) *out = value_undefined("there is no such item, there are none");
    return STATUS_OK;
}

static status f_min(run *r, const arguments *a, value *out) { return extreme(r, a, false, out); }
static status f_max(run *r, const arguments *a, value *out) { return extreme(r, a, true, out); }

static status f_sum(run *r, const arguments *a, value *out) {
    value b[3], item, none = value_undefined(NULL);
    stream *s;
    TRY(run_bind(a, "iterable|attribute start", b));
    TRY(stream_open(r, &b[0], &s));
    *out = run_given(&b[2]) ? b[2] : value_integer(0);
    if (out->kind == VALUE_TEXT) return status_set(STATUS_INVALID, "sum: texts are joined, not added");
    for (bool more;;) {
        value part, all;
        TRY(stream_next(r, s, &item, &more));
        if (!more) return STATUS_OK;
        TRY(filter_reach(r, &item, &b[1], &none, &part));
        TRY(run_operate(r, NODE_ADD, out, &part, &all));
        *out = all;
    }
}

/* ---- lists of lists ---- */

static status put_list(run *r, value *lists, uint32_t place, const value *items, uint32_t count) {
    TRY(value_list_new(r, VALUE_LIST, count, &lists->list->items[place]));
    if (count) memcpy(lists->list->items[place].list->items, items, count * sizeof *items);
    return STATUS_OK;
}

static status fill_last(run *r, value *of, int64_t count, const value *with) {
    uint32_t have = of->list->count;
    value larger;
    if (!run_given(with) || with->kind == VALUE_NONE || count <= have) return STATUS_OK;
    if (count > UINT32_MAX) return status_set(STATUS_INVALID, "a list of more than 2^32 items");
    TRY(value_list_new(r, VALUE_LIST, (uint32_t)count, &larger));
    for (uint32_t i = 0; i < count; i++) larger.list->items[i] = i < have ? of->list->items[i] : *with;
    *of = larger;
    return STATUS_OK;
}

static status make_batch(run *r, const arguments *a, value *out) {
    value b[3], all, lists;
    int64_t size;
    TRY(run_bind(a, "value linecount|fill_with", b));
    TRY(stream_list(r, &b[0], &all));
    uint32_t n = all.list->count, made = 0;
    bool counted = b[1].kind == VALUE_INTEGER || b[1].kind == VALUE_BOOL;
    size = !counted ? -1 : b[1].kind == VALUE_BOOL ? b[1].yes : b[1].integer;
    if (!counted && run_given(&b[2]) && b[2].kind != VALUE_NONE)
        return status_set(STATUS_INVALID, "batch: linecount is a whole number, not a %s", value_type(&b[1]));
    if (size == 0) return status_set(STATUS_INVALID, "batch: lists of no items are not supported");
    if (size < 0) size = n ? n : 1; /* a list is never full */
    if (size > n && n) size = n > 0 && run_given(&b[2]) && b[2].kind != VALUE_NONE ? size : n;
    uint32_t count = n ? (uint32_t)((n + size - 1) / size) : 0;
    TRY(value_list_new(r, VALUE_LIST, count, &lists));
    for (int64_t at = 0; at < n; at += size, made++)
        TRY(put_list(r, &lists, made, all.list->items + at, (uint32_t)(n - at < size ? n - at : size)));
    if (made) TRY(fill_last(r, &lists.list->items[made - 1], size, &b[2]));
    *out = lists;
    return STATUS_OK;
}

static status make_slice(run *r, const arguments *a, value *out) {
    value b[3], all, lists;
    int64_t count, at = 0;
    TRY(run_bind(a, "value slices|fill_with", b));
    TRY(run_integer("slices", &b[1], 0, &count));
    TRY(stream_list(r, &b[0], &all));
    if (count < 1 || count > UINT32_MAX)
        return status_set(STATUS_INVALID, "slice: less than one list, or too many");
    TRY(value_list_new(r, VALUE_LIST, (uint32_t)count, &lists));
    int64_t each = all.list->count / count, extra = all.list->count % count;
    for (int64_t i = 0; i < count; i++) {
        int64_t n = each + (i < extra);
        TRY(put_list(r, &lists, (uint32_t)i, all.list->items + at, (uint32_t)n));
        if (i >= extra) TRY(fill_last(r, &lists.list->items[i], n + 1, &b[2]));
        at += n;
    }
    *out = lists;
    return STATUS_OK;
}

static status f_batch(run *r, const arguments *a, value *out) {
    value b[3];
    TRY(run_bind(a, "value linecount|fill_with", b));
    return stream_later(r, make_batch, a, out);
}

static status f_slice(run *r, const arguments *a, value *out) {
    value b[3];
    TRY(run_bind(a, "value slices|fill_with", b));
    return stream_later(r, make_slice, a, out);
}

static status f_attr(run *r, const arguments *a, value *out) {
    value b[2];
    bool there;
    TRY(run_bind(a, "obj name", b));
    if (b[0].kind == VALUE_UNDEFINED) return value_missing(&b[0]);
    TRY(run_text("the name of an attribute", &b[1]));
    TRY(run_attribute(r, &b[0], b[1].text->bytes, b[1].text->length, out, &there));
    if (!there) *out = value_undefined("there is no such attribute");
    return STATUS_OK;
}

const filter_row filter_of_lists[] = {
    { "default", f_default },
    { "d", f_default },
    { "length", f_length },
    { "count", f_length },
    { "list", f_list },
    { "items", f_items },
    { "first", f_first },
    { "last", f_last },
    { "join", f_join },
    { "reverse", f_reverse },
    { "map", f_map },
    { "select", f_select },
    { "reject", f_reject },
    { "selectattr", f_selectattr },
    { "rejectattr", f_rejectattr },
    { "unique", f_unique },
    { "sort", f_sort },
    { "dictsort", f_dictsort },
    { "min", f_min },
    { "max", f_max },
    { "sum", f_sum },
    { "batch", f_batch },
    { "slice", f_slice },
    { "attr", f_attr },
    { "tojson", filter_tojson },
    { "groupby", NULL },
    { "random", NULL },
    { NULL, NULL },
};
