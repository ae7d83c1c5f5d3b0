#include "text/template/learned.h"

#include <string.h>

#include "base/memory.h"
#include "text/template/lex.h"

/* Where {% generation %} stands in the template, what it marks is learned and nothing else.
 *
 * Elsewhere an assistant's message is learned from the first byte that is its own (its role is not: that is
 * what the model is prompted with) to the end of what the template writes while it goes through that message.
 * So the marker of the turn's end is learned, and what the template puts between the message's parts. Blanks
 * of the template behind all that are not: nobody waits for them. */

typedef struct {
    const run *r;
    const builder *text;
    template_output *out;
    size_t room;
} writer;

static uint32_t message_of(value_origin o) { return o >> ORIGIN_SHIFT; }

static status add(writer *w, size_t begin, size_t end, uint32_t message, bool learned) {
    template_output *out = w->out;
    template_range *last = out->range_count ? &out->ranges[out->range_count - 1] : NULL;
    if (begin == end) return STATUS_OK;
    if (last && last->message == (int64_t)message - 1 && last->learned == learned) {
        last->end = end;
        return STATUS_OK;
    }
    if (out->range_count == w->room) {
        size_t room = w->room * 2 + 16;
        template_range *more = memory_resize(out->ranges, room, sizeof *more);
        if (!more) return status_set(STATUS_FAILED, "no memory for %zu ranges of a chat", room);
        out->ranges = more;
        w->room = room;
    }
    out->ranges[out->range_count++] = (template_range){ begin, end, (int64_t)message - 1, learned };
    return STATUS_OK;
}

/* By {% generation %} alone. */
static status marked_ranges(writer *w) {
    size_t at = 0;
    for (uint32_t i = 0; i < w->text->span_count; i++) {
        const value_span *s = &w->text->spans[i];
        TRY(add(w, at, s->begin, 0, false));
        TRY(add(w, s->begin, s->end, message_of(s->origin), s->origin & ORIGIN_MARKED));
        at = s->end;
    }
    return add(w, at, w->text->length, 0, false);
}

/* The end of [begin, end) without blanks of the template. */
static size_t without_blanks(const builder *text, const value_span *last, size_t begin, size_t end) {
    if ((last->origin & ORIGIN_PART) != ORIGIN_TURN) return end;
    if (begin < last->begin) begin = last->begin;
    while (end > begin) {
        size_t at = end - 1;
        while (at > begin && ((unsigned char)text->bytes[at] & 0xc0) == 0x80) at--;
        if (lex_blank(text->bytes + at, end - at) != end - at) break;
        end = at;
    }
    return end;
}

/* Spans [first, last] are of one message. */
static status turn_ranges(writer *w, const value_span *first, const value_span *last) {
    uint32_t message = message_of(first->origin);
    const value_span *said = first;
    while (said <= last && (said->origin & ORIGIN_PART) != ORIGIN_SAID) said++;
    if (!message || message > w->r->message_count || !w->r->assistant[message - 1] || said > last)
        return add(w, first->begin, last->end, message, false);
    size_t end = without_blanks(w->text, last, said->begin, last->end);
    TRY(add(w, first->begin, said->begin, message, false));
    TRY(add(w, said->begin, end, message, true));
    return add(w, end, last->end, message, false);
}

status learned_ranges(const run *r, const builder *text, template_output *out) {
    writer w = { .r = r, .text = text, .out = out };
    if (r->t->marks) return marked_ranges(&w);
    size_t at = 0;
    for (uint32_t i = 0, k; i < text->span_count; i = k) {
        const value_span *s = text->spans;
        for (k = i + 1; k < text->span_count && message_of(s[k].origin) == message_of(s[i].origin);) k++;
        TRY(add(&w, at, s[i].begin, 0, false));
        TRY(turn_ranges(&w, &s[i], &s[k - 1]));
        at = s[k - 1].end;
    }
    return add(&w, at, text->length, 0, false);
}
