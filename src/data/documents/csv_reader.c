/* CSV as RFC 4180 has it: a line of names, then a record a line; fields in quotes may hold separators, ends
 * of lines and doubled quotes. Beside what it says, lines may end with \n or \r alone, and blank ones pass.
 */
#include <string.h>

#include "base/utf8.h"
#include "data/documents/reader.h"

typedef enum { BEFORE, FIELDS, INSIDE, ENDED } place;

typedef struct {
    input in;
    place at;
    uint64_t line;
    uint32_t fields, field;            /* of the line of names; the one that comes next */
    uint32_t wanted[DOCUMENT_COLUMNS]; /* in which field each column stands */
    uint32_t column;                   /* of the field that is read; DOCUMENT_COLUMNS: of none */
    bool quoted, ended;                /* the field; the line did with it */
} state;

static status wrong(const documents *d, const char *why) {
    const state *s = d->state;
    return document_wrong_line(d, s->line, "%s", why);
}

/* Takes the end of a line. */
static status take_end(state *s) {
    TRY(input_ahead(&s->in, 2));
    bool two =
        s->in.buffer[s->in.at] == '\r' && s->in.end - s->in.at > 1 && s->in.buffer[s->in.at + 1] == '\n';
    s->in.at += two ? 2 : 1;
    s->line++;
    return STATUS_OK;
}

/* Behind a field: a separator, or the end of the line or file. */
static status end_field(documents *d) {
    state *s = d->state;
    int c;
    TRY(input_peek(&s->in, &c));
    s->ended = c != (unsigned char)d->options.separator;
    if (!s->ended) {
        s->in.at++;
        return STATUS_OK;
    }
    if (c < 0) return STATUS_OK;
    if (c != '\n' && c != '\r') return wrong(d, "something follows the quotes of a field");
    return take_end(s);
}

static status begin_field(documents *d) {
    state *s = d->state;
    int c;
    TRY(input_peek(&s->in, &c));
    s->quoted = c == '"';
    if (s->quoted) s->in.at++;
    return STATUS_OK;
}

/* Bytes in quotes, behind the first: up to the next quote, of two the first included. */
static status quoted_run(documents *d, document_piece *p) {
    state *s = d->state;
    input *in = &s->in;
    TRY(input_ahead(in, 2));
    p->bytes = in->buffer + in->at;
    uint32_t at = in->at;
    for (; at < in->end && in->buffer[at] != '"'; at++) s->line += in->buffer[at] == '\n';
    p->count = at - in->at;
    if (at == in->end && !p->count) return wrong(d, "the file ends inside of quotes");
    in->at = at;
    if (at == in->end || p->count) return STATUS_OK; /* a quote is looked at with what follows it */
    bool two = in->end - at > 1 && in->buffer[at + 1] == '"';
    p->count = two;
    in->at += two ? 2 : 1;
    p->last = !two;
    return two ? STATUS_OK : end_field(d);
}

static status plain_run(documents *d, document_piece *p) {
    state *s = d->state;
    input *in = &s->in;
    TRY(input_ahead(in, 1));
    uint32_t at = in->at;
    char separator = d->options.separator;
    for (; at < in->end; at++) {
        char c = in->buffer[at];
        if (c == separator || c == '\n' || c == '\r') break;
        if (c == '"') return wrong(d, "a quote inside of a field that does not begin with one");
    }
    p->bytes = in->buffer + in->at;
    p->count = at - in->at;
    in->at = at;
    p->last = at < in->end || !p->count;
    /* The end of the line may push the bytes out of the buffer, so it comes with the next piece. */
    if (p->last && p->count) p->last = false;
    return p->last ? end_field(d) : STATUS_OK;
}

static status next_run(documents *d, document_piece *p) {
    const state *s = d->state;
    *p = (document_piece){ .event = DOCUMENT_STRING, .column = s->column };
    return s->quoted ? quoted_run(d, p) : plain_run(d, p);
}

/* ---- the line of names ---- */

/* One name; a longer one than can be asked for is nobody's. */
static status read_name(documents *d, char name[DOCUMENT_NAME]) {
    uint32_t used = 0;
    bool fits = true;
    document_piece p;
    TRY(begin_field(d));
    do {
        TRY(next_run(d, &p));
        fits = fits && p.count < DOCUMENT_NAME - used && !memchr(p.bytes, 0, p.count);
        if (!fits) continue;
        memcpy(name + used, p.bytes, p.count);
        used += p.count;
    } while (!p.last);
    name[fits ? used : 0] = 0;
    return STATUS_OK;
}

static status read_names(documents *d) {
    state *s = d->state;
    char name[DOCUMENT_NAME], shown[UTF8_QUOTE_BYTES];
    bool is_list;
    for (uint32_t i = 0; i < d->options.column_count; i++) s->wanted[i] = UINT32_MAX;
    s->fields = 0;
    do {
        TRY(read_name(d, name));
        if (d->options.see) d->options.see(d->options.to, name, false);
        int column = document_column_find(d, name, &is_list);
        if (column >= 0 && is_list)
            return document_wrong_line(d, 1, "a column of CSV holds strings, and %s is asked for as a list",
                                       utf8_quote(name, shown));
        if (column >= 0 && s->wanted[column] != UINT32_MAX)
            return document_wrong_line(d, 1, "two columns are called %s", utf8_quote(name, shown));
        if (column >= 0) s->wanted[column] = s->fields;
        s->fields++;
    } while (!s->ended && s->fields < UINT32_MAX - 1);
    for (uint32_t i = 0; i < d->options.column_count; i++)
        if (s->wanted[i] == UINT32_MAX && !(d->options.optional >> i & 1))
            return document_wrong_line(d, 1, "the line of names has no %s",
                                       utf8_quote(d->options.columns[i].name, shown));
    return STATUS_OK;
}

/* ---- records ---- */

static status find_record(documents *d, document_piece *p) {
    state *s = d->state;
    int c;
    for (;;) {
        TRY(input_peek(&s->in, &c));
        if (c != '\n' && c != '\r') break;
        TRY(take_end(s));
    }
    if (c < 0) {
        s->at = ENDED;
        *p = (document_piece){ .event = DOCUMENT_END };
        return STATUS_OK;
    }
    d->place = (document_place){ .record = d->place.record, .offset = input_place(&s->in), .line = s->line };
    s->at = FIELDS;
    s->field = 0;
    s->ended = false;
    *p = (document_piece){ .event = DOCUMENT_RECORD };
    return STATUS_OK;
}

static status next_field(documents *d, document_piece *p, bool *made) {
    state *s = d->state;
    if (s->ended && s->field != s->fields)
        return document_wrong_line(d, d->place.line, "the record has %u fields, and the line of names %u",
                                   s->field, s->fields);
    *made = s->ended;
    if (s->ended) {
        s->at = BEFORE;
        d->place.record++;
        *p = (document_piece){ .event = DOCUMENT_RECORD_END };
        return STATUS_OK;
    }
    if (s->field == s->fields)
        return document_wrong_line(d, d->place.line, "the record has more fields than the line of names, %u",
                                   s->fields);
    for (s->column = 0; s->column < d->options.column_count; s->column++)
        if (s->wanted[s->column] == s->field) break;
    if (s->column == d->options.column_count) s->column = DOCUMENT_COLUMNS;
    s->field++;
    s->at = INSIDE;
    return begin_field(d);
}

static status next(documents *d, document_piece *p) {
    state *s = d->state;
    for (bool made = false; !made;) {
        switch (s->at) {
        case BEFORE: return find_record(d, p);
        case FIELDS: TRY(next_field(d, p, &made)); break;
        case INSIDE:
            TRY(next_run(d, p));
            made = s->column < DOCUMENT_COLUMNS;
            if (p->last) s->at = FIELDS;
            break;
        case ENDED: *p = (document_piece){ .event = DOCUMENT_END }; return STATUS_OK;
        }
    }
    return STATUS_OK;
}

/* ---- beginning ---- */

static status inspect(documents *d, document_room *room) {
    state *s = document_room_take(room, sizeof *s);
    input in = document_input(d);
    input_lay_out(&in, room);
    if (s) *s = (state){ .in = in };
    d->state = s;
    return STATUS_OK;
}

static status begin(documents *d) {
    state *s = d->state;
    TRY(input_seek(&s->in, 0));
    s->line = 1, s->at = BEFORE;
    TRY(input_ahead(&s->in, 3));
    if (s->in.end - s->in.at >= 3 && memcmp(s->in.buffer + s->in.at, "\xef\xbb\xbf", 3) == 0) s->in.at += 3;
    TRY(read_names(d));
    d->place = (document_place){ .offset = input_place(&s->in), .line = s->line };
    return STATUS_OK;
}

static status seek(documents *d, document_place to) {
    state *s = d->state;
    if (to.record == 0) return begin(d);
    TRY(input_seek(&s->in, to.offset));
    s->line = to.line, s->at = BEFORE;
    d->place = to;
    return STATUS_OK;
}

const document_reader document_reader_csv = { .name = "csv",
                                              .suffixes = { ".csv", ".tsv" },
                                              .many = true,
                                              .inspect = inspect,
                                              .begin = begin,
                                              .next = next,
                                              .seek = seek };
