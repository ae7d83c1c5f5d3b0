#include "text/template/learned.h"

#include <string.h>

#include "base/memory.h"
#include "text/template/lex.h"

/* Where {% generation %} stands in the template, what it marks is learned and nothing else.
 *
 * Elsewhere an assistant's message is learned from where its prompt ends to the end of what the template
 * writes while it goes through that message. So the marker of the turn's end is learned, and what the
 * template puts before and between the message's parts. Blanks of the template behind all that are not:
 * nobody waits for them.
 *
 * The prompt is what a model is given to answer to. A turn begins with it, or with as much of it as they have
 * in common (a prompt may open or close a thought that earlier turns are written without). Where a turn
 * begins otherwise, it is learned from the first byte that is the message's own, which its role is not, and
 * from the template's blanks before that.
 *
 * A template may write another message within a turn (what a tool answered, between brackets of its own).
 * Then what it writes first behind the turn's own last byte still closes what the model wrote; what it writes
 * after that opens the other message. */

typedef struct {
    const run *r;
    const builder *text;
    const learned_prompt *prompt;
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
        size_t room = w->room * 2 + 16, most = w->r->limits.output / sizeof(template_range) + 16;
        if (room > most) room = most;
        if (room <= w->room)
            return status_set(run_bounded(w->r), "it makes more than %zu ranges of a chat", most);
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

/* The end of the turn [first, last] without the template's blanks. */
static size_t without_blanks(const builder *text, const value_span *first, const value_span *last) {
    size_t end = last->end;
    for (; (last->origin & ORIGIN_PART) == ORIGIN_TURN; last--, end = last->end) {
        while (end > last->begin) {
            size_t at = end - 1;
            while (at > last->begin && ((unsigned char)text->bytes[at] & 0xc0) == 0x80) at--;
            if (lex_blank(text->bytes + at, end - at) != end - at) return end;
            end = at;
        }
        if (last == first) break;
    }
    return end;
}

/* The first `n` bytes without half of a marker at their end. */
static size_t whole_markers(const char *bytes, size_t n) {
    while (n > 0 && !strchr(">]}):\n ", bytes[n - 1])) n--;
    return n;
}

learned_prompt learned_difference(const builder *plain, const builder *prompted) {
    size_t n = 0;
    while (n < plain->length && n < prompted->length && plain->bytes[n] == prompted->bytes[n]) n++;
    if (n < plain->length) n = whole_markers(plain->bytes, n);
    if (n == prompted->length) return (learned_prompt){ "", 0 };
    return (learned_prompt){ prompted->bytes + n, prompted->length - n };
}

/* How far [begin, end) goes as the prompt does, where that is half of the prompt at least; else 0. */
static size_t prompted(const writer *w, size_t begin, size_t end) {
    const learned_prompt *p = w->prompt;
    size_t n = 0;
    while (n < p->length && begin + n < end && p->bytes[n] == w->text->bytes[begin + n]) n++;
    if (n < p->length) n = whole_markers(p->bytes, n);
    return n * 2 >= p->length ? n : 0;
}

static bool only_blanks(const char *s, size_t n) {
    for (uint32_t length; n > 0; s += length, n -= length)
        if (!(length = lex_blank(s, n))) return false;
    return true;
}

/* Where learning begins in the turn [first, last], or its end: nowhere. */
static size_t learned_begin(const writer *w, const value_span *first, const value_span *last) {
    const value_span *said = first;
    while (said <= last && (said->origin & ORIGIN_PART) != ORIGIN_SAID) said++;
    size_t begin = first->begin, n = prompted(w, begin, last->end),
           own = said > last ? last->end : said->begin;
    if (n) return begin + n < own ? begin + n : own;
    return said <= last && only_blanks(w->text->bytes + begin, own - begin) ? begin : own;
}

/* Where the turn [first, last] ends for who learns it; `within`: another message is written within it next.
 */
static size_t learned_end(const writer *w, const value_span *first, const value_span *last, bool within) {
    const value_span *own = last;
    while (own > first && (own->origin & ORIGIN_PART) != ORIGIN_SAID) own--;
    if (within && own < last) last = own + 1;
    return without_blanks(w->text, first, last);
}

/* Spans [first, last] are of one message. */
static status turn_ranges(writer *w, const value_span *first, const value_span *last, bool within) {
    uint32_t message = message_of(first->origin);
    if (!message || message > w->r->message_count || !w->r->assistant[message - 1])
        return add(w, first->begin, last->end, message, false);
    size_t begin = learned_begin(w, first, last), end = learned_end(w, first, last, within);
    if (end < begin) end = begin;
    TRY(add(w, first->begin, begin, message, false));
    TRY(add(w, begin, end, message, true));
    return add(w, end, last->end, message, false);
}

status learned_ranges(const run *r, const builder *text, const learned_prompt *prompt, template_output *out) {
    writer w = { .r = r, .text = text, .prompt = prompt, .out = out };
    if (r->t->marks && !r->limits.by_message) return marked_ranges(&w);
    size_t at = 0;
    for (uint32_t i = 0, k; i < text->span_count; i = k) {
        const value_span *s = text->spans;
        for (k = i + 1; k < text->span_count && message_of(s[k].origin) == message_of(s[i].origin);) k++;
        TRY(add(&w, at, s[i].begin, 0, false));
        bool within = k < text->span_count && (s[k].origin & ORIGIN_QUOTED);
        TRY(turn_ranges(&w, &s[i], &s[k - 1], within));
        at = s[k - 1].end;
    }
    return add(&w, at, text->length, 0, false);
}
