#include "text/template/builder.h"

#include <string.h>

#include "text/template/run.h"

static status grow(run *r, builder *b, size_t n) {
    if (n <= b->room - b->length) return STATUS_OK;
    size_t room = b->room * 2 > b->length + n ? b->room * 2 : b->length + n + 64;
    if (room > UINT32_MAX) return status_set(STATUS_INVALID, "a text of more than 4 GiB");
    char *bytes;
    TRY(run_take(r, room, &bytes));
    if (b->length) memcpy(bytes, b->bytes, b->length);
    b->bytes = bytes;
    b->room = room;
    return STATUS_OK;
}

static status add_span(run *r, builder *b, size_t begin, size_t end, value_origin origin) {
    value_span *last = b->span_count > b->closed ? &b->spans[b->span_count - 1] : NULL;
    if (last && last->end == begin && last->origin == origin) {
        last->end = (uint32_t)end;
        return STATUS_OK;
    }
    if (b->span_count == b->span_room) {
        uint32_t room = b->span_room * 2 + 4;
        value_span *spans;
        TRY(run_take(r, room * sizeof *spans, &spans));
        if (b->span_count) memcpy(spans, b->spans, b->span_count * sizeof *spans);
        b->spans = spans;
        b->span_room = room;
    }
    b->spans[b->span_count++] = (value_span){ (uint32_t)begin, (uint32_t)end, origin };
    return STATUS_OK;
}

status builder_add(run *r, builder *b, const char *bytes, size_t n, value_origin origin) {
    if (n == 0) return STATUS_OK;
    TRY(run_steps(r, n / 64));
    TRY(grow(r, b, n));
    memcpy(b->bytes + b->length, bytes, n);
    b->length += n;
    if (origin <= ORIGIN_MARKED) origin |= b->turn;
    return origin ? add_span(r, b, b->length - n, b->length, origin) : STATUS_OK;
}

status builder_add_word(run *r, builder *b, const char *word, value_origin origin) {
    return builder_add(r, b, word, strlen(word), origin);
}

status builder_add_part(run *r, builder *b, const value *v, size_t begin, size_t end) {
    const value_text *t = v->text;
    if (!t->spans) return builder_add(r, b, t->bytes + begin, end - begin, v->origin);
    for (uint32_t i = value_span_at(t, begin); i < t->span_count && begin < end; i++) {
        const value_span *s = &t->spans[i];
        if (s->begin >= end) break;
        if (s->begin > begin) {
            TRY(builder_add(r, b, t->bytes + begin, s->begin - begin, 0));
            begin = s->begin;
        }
        size_t stop = s->end < end ? s->end : end;
        TRY(builder_add(r, b, t->bytes + begin, stop - begin, s->origin));
        begin = stop;
    }
    return builder_add(r, b, t->bytes + begin, end - begin, 0);
}

status builder_add_text(run *r, builder *b, const value *v) {
    return builder_add_part(r, b, v, 0, v->text->length);
}

status builder_value(run *r, const builder *b, value *out) {
    TRY(value_text_lend(r, b->bytes, b->length, out));
    value_text *t = (value_text *)out->text;
    if (b->span_count == 1 && b->spans[0].begin == 0 && b->spans[0].end == b->length)
        out->origin = b->spans[0].origin;
    else if (b->span_count)
        t->spans = b->spans, t->span_count = b->span_count;
    return STATUS_OK;
}
