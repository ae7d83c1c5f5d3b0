#include "text/template/stream.h"

#include <string.h>

#include "text/template/filter.h"

status stream_open(run *r, const value *v, stream **out) {
    int64_t count;
    if (v->kind == VALUE_STREAM) {
        *out = v->stream;
        return STATUS_OK;
    }
    if (!value_length(v, &count))
        return status_set(STATUS_INVALID, "a %s has no items to go through", value_type(v));
    TRY(run_take(r, sizeof **out, out));
    **out = (stream){ .kind = STREAM_ITEMS, .of = *v };
    return STATUS_OK;
}

/* Of a text `at` counts bytes, else items. */
static status next_item(run *r, stream *s, value *item, bool *more) {
    int64_t count;
    value_length(&s->of, &count);
    if (s->of.kind == VALUE_TEXT) count = s->of.text->length;
    *more = s->at < count;
    if (!*more) return STATUS_OK;
    int64_t i = s->at++;
    if (s->of.kind == VALUE_TEXT) {
        unsigned long point;
        s->at = i + value_point(s->of.text->bytes + i, &point);
        return value_part(r, &s->of, (size_t)i, (size_t)s->at, item);
    }
    return value_item(r, &s->of, s->kind == STREAM_REVERSE ? count - 1 - i : i, item);
}

static status with_item(run *r, const stream *s, const value *item, arguments *a) {
    *a = s->more;
    a->name = "filter";
    a->count = s->more.count + 1;
    TRY(run_take(r, a->count * sizeof(value), &a->items));
    a->items[0] = *item;
    if (s->more.count) memcpy(a->items + 1, s->more.items, s->more.count * sizeof(value));
    return STATUS_OK;
}

static status next_mapped(run *r, stream *s, value *item, bool *more) {
    value from, name;
    arguments a;
    TRY(stream_next(r, s->from, &from, more));
    if (!*more) return STATUS_OK;
    if (s->by_attribute) return filter_reach(r, &from, &s->attribute, &s->otherwise, item);
    TRY(with_item(r, s, &from, &a));
    TRY(value_text_lend(r, s->name, s->length, &name));
    return filter_by_name(r, &name, &a, item);
}

static status selects(run *r, stream *s, const value *item, bool *yes) {
    value of = *item, name;
    arguments a;
    value none = value_undefined(NULL);
    if (s->by_attribute) TRY(filter_reach(r, item, &s->attribute, &none, &of));
    if (s->name) {
        TRY(with_item(r, s, &of, &a));
        TRY(value_text_lend(r, s->name, s->length, &name));
        TRY(tester_by_name(r, &name, &a, yes));
    } else
        *yes = value_true(&of);
    *yes = *yes != s->negated;
    return STATUS_OK;
}

/* `for ... if`: the condition sees the item under its name, in a scope of its own. */
static status holds(run *r, stream *s, const value *item, bool *yes) {
    const node *n = &r->t->nodes[s->node];
    frame *before = r->frame, *f;
    value answer;
    TRY(run_take(r, sizeof *f, &f));
    *f = (frame){ .outer = s->frame };
    r->frame = f;
    TRY(run_assign(r, n->a, item));
    TRY(run_evaluate(r, n->c, &answer));
    r->frame = before;
    *yes = value_true(&answer);
    return STATUS_OK;
}

static status is_new(run *r, stream *s, const value *item, bool *yes) {
    value key, none = value_undefined(NULL);
    TRY(filter_reach(r, item, &s->attribute, &none, &key));
    if (!s->sensitive) TRY(filter_ignore_case(r, &key));
    if (!value_is_key(&key)) return status_set(STATUS_INVALID, "a %s can't be a key", value_type(&key));
    bool seen = false;
    for (uint32_t i = 0; i < s->seen->count && !seen; i++)
        TRY(value_equal(r, &s->seen->items[i], &key, &seen));
    *yes = !seen;
    if (seen) return STATUS_OK;
    if (s->seen->count == s->seen_room) {
        uint32_t room = s->seen_room * 2 + 8;
        value *items;
        TRY(run_take(r, room * sizeof *items, &items));
        if (s->seen->count) memcpy(items, s->seen->items, s->seen->count * sizeof *items);
        s->seen->items = items;
        s->seen_room = room;
    }
    s->seen->items[s->seen->count++] = key;
    return STATUS_OK;
}

static status next_chosen(run *r, stream *s, value *item, bool *more) {
    for (bool yes = false; !yes;) {
        TRY(run_steps(r, 1));
        TRY(stream_next(r, s->from, item, more));
        if (!*more) return STATUS_OK;
        if (s->kind == STREAM_SELECT)
            TRY(selects(r, s, item, &yes));
        else if (s->kind == STREAM_UNIQUE)
            TRY(is_new(r, s, item, &yes));
        else
            TRY(holds(r, s, item, &yes));
    }
    return STATUS_OK;
}

static status next_pair(run *r, stream *s, value *item, bool *more) {
    *more = s->of.kind == VALUE_DICT && s->at < s->of.dict->count;
    if (!*more) return STATUS_OK;
    value view = s->of;
    view.kind = VALUE_VIEW, view.flag = VIEW_ITEMS;
    return value_item(r, &view, s->at++, item);
}

static status next_later(run *r, stream *s, value *item, bool *more) {
    if (!s->from) {
        value made;
        TRY(s->make(r, &s->more, &made));
        TRY(stream_open(r, &made, &s->from));
    }
    return stream_next(r, s->from, item, more);
}

static status next(run *r, stream *s, value *item, bool *more) {
    switch (s->kind) {
    case STREAM_LATER: return next_later(r, s, item, more);
    case STREAM_ITEMS:
    case STREAM_REVERSE: return next_item(r, s, item, more);
    case STREAM_MAP: return next_mapped(r, s, item, more);
    case STREAM_PAIRS: return next_pair(r, s, item, more);
    default: return next_chosen(r, s, item, more);
    }
}

status stream_next(run *r, stream *s, value *item, bool *more) {
    *more = false;
    if (s->ended) return STATUS_OK;
    TRY(run_deeper(r));
    TRY(run_steps(r, 1));
    TRY(next(r, s, item, more));
    r->depth--;
    s->ended = !*more;
    return STATUS_OK;
}

status stream_list(run *r, const value *v, value *out) {
    stream *s;
    uint32_t room = 0, count = 0;
    value *items = NULL, item;
    TRY(stream_open(r, v, &s));
    for (bool more;;) {
        TRY(stream_next(r, s, &item, &more));
        if (!more) break;
        if (count == room) {
            value *larger;
            room = room * 2 + 8;
            TRY(run_take(r, room * sizeof *larger, &larger));
            if (count) memcpy(larger, items, count * sizeof *larger);
            items = larger;
        }
        items[count++] = item;
    }
    TRY(value_list_new(r, VALUE_LIST, 0, out));
    if (count) *(value_list *)out->list = (value_list){ items, count };
    return STATUS_OK;
}

status stream_later(run *r, stream_maker *make, const arguments *a, value *out) {
    return stream_value(r, &(stream){ .kind = STREAM_LATER, .make = make, .more = *a }, out);
}

status stream_value(run *r, const stream *s, value *out) {
    stream *kept;
    TRY(run_take(r, sizeof *kept, &kept));
    *kept = *s;
    *out = (value){ .kind = VALUE_STREAM, .stream = kept };
    return STATUS_OK;
}
