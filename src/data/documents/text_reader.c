/* A file of text: one document. */
#include "data/documents/reader.h"

typedef struct {
    input in;
    enum { BEFORE, INSIDE, BEHIND, ENDED } at;
} state;

static status inspect(documents *d, document_room *room) {
    if (d->options.column_count != 1 || d->options.columns[0].is_list)
        return status_set(
            STATUS_INVALID,
            "%s is text, of which the whole is one string; several columns or lists are asked for",
            d->file.path);
    state *s = document_room_take(room, sizeof *s);
    input in = document_input(d);
    input_lay_out(&in, room);
    if (s) *s = (state){ .in = in };
    d->state = s;
    return STATUS_OK;
}

static status seek(documents *d, document_place place) {
    state *s = d->state;
    s->at = place.record == 0 ? BEFORE : ENDED;
    d->place = (document_place){ .record = place.record != 0, .line = 1 };
    return input_seek(&s->in, 0);
}

static status begin(documents *d) { return seek(d, (document_place){ 0 }); }

static status next(documents *d, document_piece *p) {
    state *s = d->state;
    switch (s->at) {
    case BEFORE: *p = (document_piece){ .event = DOCUMENT_RECORD }, s->at = INSIDE; return STATUS_OK;
    case INSIDE:
        TRY(input_ahead(&s->in, 1));
        *p = (document_piece){ .event = DOCUMENT_STRING,
                               .bytes = s->in.buffer + s->in.at,
                               .count = s->in.end - s->in.at,
                               .last = s->in.at == s->in.end };
        s->in.at = s->in.end;
        if (p->last) s->at = BEHIND;
        return STATUS_OK;
    case BEHIND:
        *p = (document_piece){ .event = DOCUMENT_RECORD_END }, s->at = ENDED;
        d->place.record = 1;
        return STATUS_OK;
    default: *p = (document_piece){ .event = DOCUMENT_END }; return STATUS_OK;
    }
}

const document_reader document_reader_text = { .name = "text",
                                               .suffixes = { ".txt", ".text", ".md" },
                                               .inspect = inspect,
                                               .begin = begin,
                                               .next = next,
                                               .seek = seek };
