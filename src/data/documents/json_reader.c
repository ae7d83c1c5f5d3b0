/* JSON: an object a line, or an array of objects. A file that begins with '[' is an array.
 *
 * The reader stops wherever a piece is full, so where it is stands in its state. Values that nobody asked for
 * are passed over, and others may be handed on as they are written: their brackets must agree, and of words
 * only the letters are looked at. */
#include <string.h>

#include "base/least.h"
#include "base/utf8.h"
#include "data/documents/reader.h"

enum { AHEAD = 16, DEPTH = 64 }; /* two escapes of surrogates have 12 bytes */

typedef enum {
    BEFORE,  /* a record, or the end */
    MEMBERS, /* of a record: behind '{' or a member */
    ITEMS,   /* of a list: behind '[' or an item */
    INSIDE,  /* an item: behind '{' or a member */
    STRING,
    WORD,  /* a value of letters, in `word` */
    VALUE, /* a list or an object as it is written, in `open` */
    ENDED
} place;

typedef struct {
    input in;
    place at, above;   /* above: what a value stands in */
    bool array, first; /* first: nothing came yet in what is open, so no comma comes */
    uint64_t line;
    uint32_t column, item, seen; /* seen: a bit for each column of the record */
    char member[DOCUMENT_NAME], word[DOCUMENT_NAME];
    bool json;        /* `word` is */
    char open[DEPTH]; /* brackets of the value that is read */
    uint32_t depth;
    bool quoted;  /* a string of it */
    char made[4]; /* of an escape */
} state;

static status wrong(const documents *d, const char *why) {
    const state *s = d->state;
    return document_wrong_line(d, s->line, "%s", why);
}

/* What stands here is none of what was expected. */
static status expected(const documents *d, int c, const char *what) {
    const state *s = d->state;
    if (c < 0) return document_wrong_line(d, s->line, "the file ends where %s was expected", what);
    if (c == '\n')
        return document_wrong_line(d, s->line,
                                   "the line ends where %s was expected; a record is one object on one line, "
                                   "or the file is an array of objects",
                                   what);
    return document_wrong_line(d, s->line, "%s was expected", what);
}

/* The next byte that is no blank, not taken; -1: the file ends. In a file of lines their ends are no blanks.
 */
static status peek(documents *d, int *c) {
    state *s = d->state;
    for (;; s->in.at++) {
        TRY(input_peek(&s->in, c));
        if (*c == '\n' && s->array)
            s->line++;
        else if (*c != ' ' && *c != '\t' && *c != '\r')
            return STATUS_OK;
    }
}

static status take(documents *d, char wanted, const char *what) {
    int c;
    TRY(peek(d, &c));
    if (c != wanted) return expected(d, c, what);
    ((state *)d->state)->in.at++;
    return STATUS_OK;
}

/* ---- strings, behind the quote ---- */

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The four hexadecimal digits behind \u at `at`, as a number; -1: they are none. */
static long hex(const input *in, uint32_t at) {
    long value = 0;
    if (at + 4 > in->end) return -1;
    for (uint32_t i = 0; i < 4; i++) {
        int digit = hex_digit(in->buffer[at + i]);
        if (digit < 0) return -1;
        value = value << 4 | digit;
    }
    return value;
}

/* \u and four digits, or two of them for one character; the bytes go to `made`. */
static status read_point(documents *d, uint32_t *count) {
    state *s = d->state;
    input *in = &s->in;
    long point = hex(in, in->at + 2), low = -1;
    if (point < 0) return wrong(d, "\\u wants four hexadecimal digits");
    bool pair = point >= 0xd800 && point < 0xdc00 && in->at + 7 < in->end && in->buffer[in->at + 6] == '\\' &&
                in->buffer[in->at + 7] == 'u';
    if (pair) low = hex(in, in->at + 8);
    in->at += 6;
    if (low >= 0xdc00 && low < 0xe000) {
        point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
        in->at += 6;
    } else if (point >= 0xd800 && point < 0xe000) {
        if (!d->options.replace) return wrong(d, "half a surrogate in a string");
        point = 0xfffd;
    }
    *count = (uint32_t)utf8_encode((unsigned long)point, s->made);
    return STATUS_OK;
}

static status read_escape(documents *d, uint32_t *count) {
    static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    state *s = d->state;
    TRY(input_ahead(&s->in, AHEAD));
    if (s->in.end - s->in.at < 2) return expected(d, -1, "the end of a string");
    char c = s->in.buffer[s->in.at + 1];
    if (c == 'u') return read_point(d, count);
    const char *known = c ? strchr(letters, c) : NULL;
    if (!known) return wrong(d, "an unknown escape in a string");
    s->made[0] = values[known - letters];
    *count = 1;
    s->in.at += 2;
    return STATUS_OK;
}

/* Bytes of a string up to the next thing in it that is none of them, or what an escape stands for; `*last`:
 * its end came behind them and was taken. */
static status read_run(documents *d, const char **bytes, uint32_t *count, bool *last) {
    state *s = d->state;
    input *in = &s->in;
    int c;
    TRY(input_peek(in, &c));
    *last = false;
    if (c == '\\') {
        *bytes = s->made;
        return read_escape(d, count);
    }
    uint32_t at = in->at;
    while (at < in->end && in->buffer[at] != '"' && in->buffer[at] != '\\' &&
           (unsigned char)in->buffer[at] >= 0x20)
        at++;
    *bytes = in->buffer + in->at;
    *count = at - in->at;
    in->at = at;
    if (at < in->end && in->buffer[at] == '"') {
        *last = true;
        in->at++;
        return STATUS_OK;
    }
    if (*count) return STATUS_OK;
    if (c < 0 || c == '\n') return expected(d, c, "the end of a string");
    return wrong(d, "a control character in a string");
}

/* A name or a short string, whole, with a zero behind it. */
static status read_name(documents *d, char name[DOCUMENT_NAME]) {
    const char *bytes;
    uint32_t count, used = 0;
    TRY(take(d, '"', "a name in quotes"));
    for (bool last = false; !last;) {
        TRY(read_run(d, &bytes, &count, &last));
        if (count >= DOCUMENT_NAME - used) return wrong(d, "a name has more than 255 bytes");
        if (memchr(bytes, 0, count)) return wrong(d, "a name holds a zero");
        memcpy(name + used, bytes, count);
        used += count;
    }
    name[used] = 0;
    return take(d, ':', "a colon behind the name");
}

/* ---- values as they are written ---- */

/* An escape within a value. What need not be one is its letter, so that halves of surrogates are treated as
 * in strings; the others stay. */
static status keep_escape(documents *d, const char **bytes, uint32_t *count) {
    state *s = d->state;
    input *in = &s->in;
    uint64_t from = input_place(in);
    TRY(read_escape(d, count));
    uint32_t taken = (uint32_t)(input_place(in) - from);
    unsigned char c = (unsigned char)s->made[0];
    bool stays = c < 0x20 || c == '"' || c == '\\';
    *bytes = stays ? in->buffer + in->at - taken : s->made;
    if (stays) *count = taken;
    return STATUS_OK;
}

/* Of a string of the value, its quotes included. */
static status read_quoted(documents *d, const char **bytes, uint32_t *count) {
    state *s = d->state;
    bool last;
    int c;
    TRY(input_peek(&s->in, &c));
    if (c == '\\') return keep_escape(d, bytes, count);
    TRY(read_run(d, bytes, count, &last));
    *count += last; /* the quote stands behind the bytes */
    s->quoted = !last;
    return STATUS_OK;
}

static bool in_word(int c) {
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '+' || c == '-' ||
           c == '.';
}

/* One character of the value that is in no string. */
static status take_between(documents *d, int c) {
    state *s = d->state;
    if (c == '{' || c == '[') {
        if (s->depth == DEPTH) return wrong(d, "values are nested more than 64 deep");
        s->open[s->depth++] = (char)c;
    } else if (c == '}' || c == ']') {
        if (s->open[s->depth - 1] != (c == '}' ? '{' : '[')) return wrong(d, "brackets do not agree");
        s->depth--;
    } else if (c == '\n') {
        if (!s->array) return expected(d, c, "a value");
        s->line++;
    } else if (c != ' ' && c != '\t' && c != '\r' && c != ',' && c != ':' && c != '"' && !in_word(c)) {
        return expected(d, c, "a value");
    }
    s->quoted = c == '"';
    s->in.at++;
    return STATUS_OK;
}

/* Bytes of a list or an object whose first bracket comes or was taken; `*last`: it ends with them. */
static status read_value(documents *d, const char **bytes, uint32_t *count, bool *last) {
    state *s = d->state;
    input *in = &s->in;
    int c;
    *last = false;
    if (s->quoted) return read_quoted(d, bytes, count);
    TRY(input_peek(in, &c));
    if (c < 0) return expected(d, c, "a value");
    uint32_t first = in->at;
    do TRY(take_between(d, (unsigned char)in->buffer[in->at]));
    while (s->depth && !s->quoted && in->at < in->end);
    *bytes = in->buffer + first;
    *count = in->at - first;
    *last = !s->depth;
    return STATUS_OK;
}

/* A number, true, false or null, whole, into `word`. */
static status read_word(documents *d) {
    state *s = d->state;
    uint32_t used = 0;
    int c;
    for (;; s->in.at++) {
        TRY(input_peek(&s->in, &c));
        if (!in_word(c)) break;
        if (used == DOCUMENT_NAME - 1) return wrong(d, "a value has more than 255 letters");
        s->word[used++] = (char)c;
    }
    s->word[used] = 0;
    return used ? STATUS_OK : expected(d, c, "a value");
}

static bool is_null(const state *s) { return strcmp(s->word, "null") == 0; }

/* ---- values that nobody asked for ---- */

/* A number, true, false or null, of any length. */
static status skip_word(documents *d) {
    state *s = d->state;
    bool none = true;
    int c;
    for (;; s->in.at++, none = false) {
        TRY(input_peek(&s->in, &c));
        if (!in_word(c)) return none ? expected(d, c, "a value") : STATUS_OK;
    }
}

static status skip_value(documents *d) {
    const char *bytes;
    uint32_t count;
    bool last = false;
    int c;
    TRY(peek(d, &c));
    if (c == '"') {
        TRY(take(d, '"', "a string"));
        while (!last) TRY(read_run(d, &bytes, &count, &last));
    } else if (c == '{' || c == '[') {
        while (!last) TRY(read_value(d, &bytes, &count, &last));
    } else {
        return skip_word(d);
    }
    return STATUS_OK;
}

/* ---- records ---- */

/* Between the parts of what is open: `*more` is false where it closes, and its end is taken. */
static status another(documents *d, char close, const char *what, bool *more) {
    state *s = d->state;
    int c;
    TRY(peek(d, &c));
    bool first = s->first;
    s->first = false;
    *more = c != close;
    if (!*more) {
        s->in.at++;
        return STATUS_OK;
    }
    if (first) return STATUS_OK;
    if (c != ',') return expected(d, c, what);
    s->in.at++;
    return STATUS_OK;
}

/* Blank lines pass. */
static status find_line(documents *d, bool *more) {
    state *s = d->state;
    int c;
    for (;; s->in.at++, s->line++) {
        TRY(peek(d, &c));
        if (c != '\n') break;
    }
    *more = c >= 0;
    return STATUS_OK;
}

static status find_record(documents *d, document_piece *p) {
    state *s = d->state;
    bool more;
    int c;
    if (s->array)
        TRY(another(d, ']', "a comma or ] behind a record", &more));
    else
        TRY(find_line(d, &more));
    if (!more) {
        s->at = ENDED;
        *p = (document_piece){ .event = DOCUMENT_END };
        if (!s->array) return STATUS_OK;
        TRY(peek(d, &c));
        return c < 0 ? STATUS_OK : wrong(d, "something follows the array");
    }
    TRY(peek(d, &c));
    d->place = (document_place){ .record = d->place.record, .offset = input_place(&s->in), .line = s->line };
    TRY(take(d, '{', "an object such as {\"text\": \"...\"}"));
    s->at = MEMBERS;
    s->first = true;
    s->seen = 0;
    *p = (document_piece){ .event = DOCUMENT_RECORD };
    return STATUS_OK;
}

static status end_record(documents *d, document_piece *p) {
    state *s = d->state;
    int c;
    char name[UTF8_QUOTE_BYTES];
    for (uint32_t i = 0; i < d->options.column_count; i++)
        if (!((s->seen | d->options.optional) >> i & 1))
            return document_wrong_line(d, s->line, "the record has no \"%s\"",
                                       utf8_quote(d->options.columns[i].name, name));
    if (!s->array) {
        TRY(peek(d, &c));
        if (c >= 0 && c != '\n') return wrong(d, "something follows the record on its line");
    }
    s->at = BEFORE;
    d->place.record++;
    *p = (document_piece){ .event = DOCUMENT_RECORD_END };
    return STATUS_OK;
}

/* A value of the column that is being read, where a string is expected: what comes may be another one where
 * the options say so. */
static status begin_value(documents *d, const char *name, place above) {
    state *s = d->state;
    char shown[UTF8_QUOTE_BYTES];
    bool plain = d->options.plain >> s->column & 1;
    int c;
    TRY(peek(d, &c));
    s->json = d->options.json >> s->column & 1;
    s->above = above;
    if (c == '"') {
        s->in.at++;
        s->at = STRING;
    } else if (s->json && (c == '{' || c == '[')) {
        s->at = VALUE;
    } else if (s->json || (plain && in_word(c))) {
        s->at = WORD;
        return read_word(d);
    } else {
        return document_wrong_line(d, s->line, "\"%s\" is %s", utf8_quote(name, shown),
                                   plain ? "neither a string nor a number" : "no string");
    }
    return STATUS_OK;
}

/* Of a column that is no list. */
static status begin_column(documents *d, const char *name) {
    state *s = d->state;
    char shown[UTF8_QUOTE_BYTES];
    TRY(begin_value(d, name, MEMBERS));
    if (s->at != WORD || !is_null(s)) return STATUS_OK;
    s->at = MEMBERS;
    if (d->options.optional >> s->column & 1) return STATUS_OK;
    return document_wrong_line(d, s->line, "\"%s\" is %s", utf8_quote(name, shown),
                               s->json ? "null" : "neither a string nor a number");
}

static status next_member(documents *d, document_piece *p, bool *made) {
    state *s = d->state;
    char name[DOCUMENT_NAME], shown[UTF8_QUOTE_BYTES];
    bool more, is_list;
    int c;
    TRY(another(d, '}', "a comma or } behind a value", &more));
    *made = !more;
    if (!more) return end_record(d, p);
    TRY(read_name(d, name));
    TRY(peek(d, &c));
    if (d->options.see) d->options.see(d->options.to, name, c == '[');
    int column = document_column_find(d, name, &is_list);
    if (column < 0) return skip_value(d);
    if (s->seen >> column & 1)
        return document_wrong_line(d, s->line, "\"%s\" comes twice in the record", utf8_quote(name, shown));
    s->seen |= 1u << column;
    s->column = (uint32_t)column;
    if (!is_list) return begin_column(d, name);
    if (c != '[') return document_wrong_line(d, s->line, "\"%s\" is no list", utf8_quote(name, shown));
    s->in.at++;
    s->at = ITEMS;
    s->first = true;
    s->item = 0;
    return STATUS_OK;
}

static status next_item(documents *d, document_piece *p, bool *made) {
    state *s = d->state;
    bool more;
    TRY(another(d, ']', "a comma or ] behind an object", &more));
    *made = more;
    if (!more) {
        s->at = MEMBERS;
        return STATUS_OK;
    }
    if (s->item == UINT32_MAX) return wrong(d, "a list has too many objects to count");
    TRY(take(d, '{', "an object in the list"));
    s->at = INSIDE;
    s->first = true;
    *p = (document_piece){ .event = DOCUMENT_ITEM, .column = s->column, .item = s->item };
    return STATUS_OK;
}

/* A member of an item. One that is null is not there, unless it is wanted as JSON. */
static status next_inside(documents *d) {
    state *s = d->state;
    bool more;
    int c;
    TRY(another(d, '}', "a comma or } behind a value", &more));
    if (!more) {
        s->at = ITEMS;
        s->item++;
        return STATUS_OK;
    }
    TRY(read_name(d, s->member));
    if (!document_member_wanted(&d->options.columns[s->column], s->member)) return skip_value(d);
    TRY(peek(d, &c));
    if (c == 'n' && !(d->options.json >> s->column & 1)) {
        TRY(read_word(d));
        if (is_null(s)) return STATUS_OK;
    }
    return begin_value(d, s->member, INSIDE);
}

static status next_run(documents *d, document_piece *p) {
    state *s = d->state;
    *p =
        (document_piece){ .event = DOCUMENT_STRING, .column = s->column, .json = s->json && s->at != STRING };
    if (s->above == INSIDE) p->item = s->item, p->member = s->member;
    if (s->at == WORD)
        p->bytes = s->word, p->count = (uint32_t)strlen(s->word), p->last = true;
    else if (s->at == VALUE)
        TRY(read_value(d, &p->bytes, &p->count, &p->last));
    else
        TRY(read_run(d, &p->bytes, &p->count, &p->last));
    if (p->last) s->at = s->above;
    return STATUS_OK;
}

static status next(documents *d, document_piece *p) {
    state *s = d->state;
    for (bool made = false; !made;) {
        switch (s->at) {
        case BEFORE: return find_record(d, p);
        case MEMBERS: TRY(next_member(d, p, &made)); break;
        case ITEMS: TRY(next_item(d, p, &made)); break;
        case INSIDE: TRY(next_inside(d)); break;
        case STRING:
        case WORD:
        case VALUE: return next_run(d, p);
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
    int c;
    TRY(input_seek(&s->in, 0));
    s->line = 1, s->at = BEFORE, s->first = true, s->quoted = false, s->depth = 0;
    TRY(input_ahead(&s->in, 3));
    if (s->in.end - s->in.at >= 3 && memcmp(s->in.buffer + s->in.at, "\xef\xbb\xbf", 3) == 0) s->in.at += 3;
    s->array = true; /* so that ends of lines are blanks */
    TRY(peek(d, &c));
    s->array = c == '[';
    if (s->array) s->in.at++;
    d->place = (document_place){ .offset = input_place(&s->in), .line = s->line };
    return STATUS_OK;
}

static status seek(documents *d, document_place to) {
    state *s = d->state;
    if (to.record == 0) return begin(d);
    TRY(input_seek(&s->in, to.offset));
    s->line = to.line, s->at = BEFORE, s->quoted = false, s->depth = 0;
    s->first = true; /* no comma comes before the record whose place it is */
    d->place = to;
    return STATUS_OK;
}

const document_reader document_reader_json = { .name = "json",
                                               .suffixes = { ".jsonl", ".ndjson", ".json" },
                                               .many = true,
                                               .inspect = inspect,
                                               .begin = begin,
                                               .next = next,
                                               .seek = seek };
