#include "data/formats/jsonl_reader.h"

#include <inttypes.h>
#include <string.h>

#include "base/utf8.h"

enum { AHEAD = 16 }; /* bytes that are there unless the file ends: two escapes of surrogates have 12 */

jsonl_reader jsonl_reader_begin(const data_file *f, void *buffer) {
    return (jsonl_reader){ .file = f, .buffer = buffer, .line = 1 };
}

jsonl_reader jsonl_reader_at(const data_file *f, uint64_t offset, void *buffer) {
    return (jsonl_reader){ .file = f, .buffer = buffer, .next = offset, .place = JSONL_TEXT };
}

static status wrong(const jsonl_reader *r, const char *what) {
    if (!r->line)
        return status_set(STATUS_FAILED, "%s has changed since it was opened: near byte %" PRIu64 " %s",
                          r->file->path, r->next - (r->end - r->at), what);
    return status_set(STATUS_INVALID,
                      "%s, line %" PRIu64 ": %s; each line is an object such as {\"text\": \"...\"}",
                      r->file->path, r->line, what);
}

/* ---- characters ---- */

static status fill(jsonl_reader *r) {
    uint32_t left = r->end - r->at, room = JSONL_BUFFER - left;
    uint64_t rest = r->file->bytes - r->next;
    uint32_t n = rest < room ? (uint32_t)rest : room;
    memmove(r->buffer, r->buffer + r->at, left);
    r->at = 0;
    r->end = left;
    TRY(format_pread(r->file, r->next, r->buffer + left, n));
    r->next += n;
    r->end = left + n;
    return STATUS_OK;
}

static status look(jsonl_reader *r) {
    return r->end - r->at < AHEAD && r->next < r->file->bytes ? fill(r) : STATUS_OK;
}

/* The next byte, not taken; -1: the file ends. */
static status peek(jsonl_reader *r, int *c) {
    TRY(look(r));
    *c = r->at < r->end ? (unsigned char)r->buffer[r->at] : -1;
    return STATUS_OK;
}

/* The same behind blanks; the end of a line is none. */
static status peek_word(jsonl_reader *r, int *c) {
    TRY(peek(r, c));
    while (*c == ' ' || *c == '\t' || *c == '\r') {
        r->at++;
        TRY(peek(r, c));
    }
    return STATUS_OK;
}

static status expect(jsonl_reader *r, char wanted) {
    int c;
    char what[] = "' ' is missing";
    TRY(peek_word(r, &c));
    what[1] = wanted;
    if (c != wanted) return wrong(r, what);
    r->at++;
    return STATUS_OK;
}

/* ---- texts ---- */

static status read_hex(jsonl_reader *r, uint32_t *value) {
    *value = 0;
    for (int i = 0; i < 4; i++) {
        char c = r->at < r->end ? r->buffer[r->at] : 0;
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A') + 10
                                                : 16;
        if (digit == 16) return wrong(r, "\\u wants four hexadecimal digits");
        *value = *value << 4 | digit;
        r->at++;
    }
    return STATUS_OK;
}

/* Behind \u. */
static status read_point(jsonl_reader *r, uint32_t *count) {
    uint32_t point, low = 0;
    TRY(read_hex(r, &point));
    if (point >= 0xd800 && point < 0xe000) {
        bool pair = point < 0xdc00 && r->end - r->at >= 2 && memcmp(r->buffer + r->at, "\\u", 2) == 0;
        if (pair) {
            r->at += 2;
            TRY(read_hex(r, &low));
        }
        if (low < 0xdc00 || low > 0xdfff) return wrong(r, "half a surrogate in a text");
        point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
    }
    *count = (uint32_t)utf8_encode(point, r->made);
    return STATUS_OK;
}

static status read_escape(jsonl_reader *r, uint32_t *count) {
    static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    r->at++;
    char c = r->at < r->end ? r->buffer[r->at] : 0;
    const char *known = c ? strchr(letters, c) : NULL;
    if (!known && c != 'u') return wrong(r, "an unknown escape in a text");
    r->at++;
    if (!known) return read_point(r, count);
    r->made[0] = values[known - letters];
    *count = 1;
    return STATUS_OK;
}

/* Whole characters that stand for themselves, as far as the buffer has them. */
static status read_plain(jsonl_reader *r, jsonl_run *run) {
    uint32_t first = r->at;
    while (r->at < r->end && r->buffer[r->at] != '"' && r->buffer[r->at] != '\\') {
        unsigned char c = (unsigned char)r->buffer[r->at];
        size_t length = c < 0x80 ? 1 : utf8_length(r->buffer + r->at, r->end - r->at);
        if (length == 0 && r->end - r->at < 4 && r->next < r->file->bytes) break; /* cut by the buffer */
        if (length == 0) return wrong(r, "a text is not UTF-8");
        if (c == '\n') return wrong(r, "a text does not end in its line");
        if (c < 0x20) return wrong(r, "a control character in a text");
        r->at += (uint32_t)length;
    }
    run->bytes = r->buffer + first;
    run->count = r->at - first;
    return STATUS_OK;
}

/* The next run of the text that `r` is in, none (`*ended`) at its closing quote, which is taken. */
static status text_run(jsonl_reader *r, jsonl_run *run, bool *ended) {
    int c;
    TRY(peek(r, &c));
    run->offset = r->next - (r->end - r->at);
    *ended = c == '"';
    if (c < 0) return wrong(r, "a text does not end");
    if (*ended) {
        r->at++;
        return STATUS_OK;
    }
    if (c != '\\') return read_plain(r, run);
    run->bytes = r->made;
    return read_escape(r, &run->count);
}

/* Takes a text, `r` at its opening quote. `*same` (may be NULL): is it "text"? */
static status skip_text(jsonl_reader *r, bool *same) {
    static const char key[] = "text";
    uint32_t matched = 0;
    bool ended = false, equal = true;
    TRY(expect(r, '"'));
    while (true) {
        jsonl_run run = { 0 };
        TRY(text_run(r, &run, &ended));
        if (ended) break;
        equal = equal && run.count <= sizeof key - 1 - matched &&
                memcmp(key + matched, run.bytes, run.count) == 0;
        if (equal) matched += run.count;
    }
    if (same) *same = equal && matched == sizeof key - 1;
    return STATUS_OK;
}

/* ---- values that are passed over ---- */

static bool in_word(int c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '+' ||
           c == '-' || c == '.';
}

static status skip_word(jsonl_reader *r) {
    int c;
    TRY(peek(r, &c));
    if (!in_word(c))
        return wrong(r, c == '\n' || c < 0 ? "an object does not end in its line" : "a value is missing");
    while (in_word(c)) {
        r->at++;
        TRY(peek(r, &c));
    }
    return STATUS_OK;
}

/* An object or a list, with what is in it: brackets must agree, no more is asked of it. */
static status skip_nested(jsonl_reader *r) {
    char open[JSONL_DEPTH];
    uint32_t depth = 0;
    do {
        int c;
        TRY(peek_word(r, &c));
        if (c == '{' || c == '[') {
            if (depth == JSONL_DEPTH) return wrong(r, "values are nested more than 64 deep");
            open[depth++] = (char)c;
        } else if (c == '}' || c == ']') {
            if (open[--depth] != (c == '}' ? '{' : '[')) return wrong(r, "brackets do not agree");
        }
        if (c == '"')
            TRY(skip_text(r, NULL));
        else if (c > 0 && strchr("{[]},:", c))
            r->at++;
        else
            TRY(skip_word(r));
    } while (depth > 0);
    return STATUS_OK;
}

static status skip_value(jsonl_reader *r) {
    int c;
    TRY(peek_word(r, &c));
    if (c == '"') return skip_text(r, NULL);
    return c == '{' || c == '[' ? skip_nested(r) : skip_word(r);
}

/* ---- lines ---- */

/* Members up to the text (then `r` is in it) or, when that was `seen`, to the end of the object. */
static status members(jsonl_reader *r, bool seen) {
    for (int c = ','; c == ',';) {
        bool same;
        TRY(skip_text(r, &same));
        TRY(expect(r, ':'));
        if (same && seen) return wrong(r, "'text' comes twice in it");
        TRY(peek_word(r, &c));
        if (same && c != '"') return wrong(r, "its 'text' is no text");
        if (same) {
            r->at++;
            r->place = JSONL_TEXT;
            return STATUS_OK;
        }
        TRY(skip_value(r));
        TRY(peek_word(r, &c));
        if (c == ',') r->at++;
    }
    return seen ? expect(r, '}') : wrong(r, "it has no 'text'");
}

static bool marked(const jsonl_reader *r) {
    return r->next == r->end && r->at == 0 && r->end >= 3 && memcmp(r->buffer, "\xef\xbb\xbf", 3) == 0;
}

/* To the text of the next record; `*found`: there is one. */
static status begin_line(jsonl_reader *r, bool *found) {
    int c = '\n';
    TRY(look(r));
    if (marked(r)) r->at = 3; /* a byte order mark, as some editors leave it */
    while (true) {
        TRY(peek_word(r, &c));
        if (c != '\n') break;
        r->at++;
        if (r->line) r->line++;
    }
    *found = c >= 0;
    if (c < 0) return STATUS_OK;
    TRY(expect(r, '{'));
    TRY(peek_word(r, &c));
    return c == '}' ? wrong(r, "it has no 'text'") : members(r, false);
}

/* From behind the text to the end of the line. */
static status finish_line(jsonl_reader *r) {
    int c;
    TRY(peek_word(r, &c));
    if (c == ',') {
        r->at++;
        TRY(members(r, true));
    } else {
        TRY(expect(r, '}'));
    }
    TRY(peek_word(r, &c));
    return c == '\n' || c < 0 ? STATUS_OK : wrong(r, "something follows the object");
}

status jsonl_reader_next(jsonl_reader *r, jsonl_run *run) {
    bool found = true, ended;
    *run = (jsonl_run){ 0 };
    if (r->place == JSONL_REST) TRY(finish_line(r));
    if (r->place != JSONL_TEXT) TRY(begin_line(r, &found));
    if (!found) {
        r->place = JSONL_LINE;
        return STATUS_OK;
    }
    TRY(text_run(r, run, &ended));
    if (!ended) return STATUS_OK;
    r->made[0] = '\n';
    run->bytes = r->made;
    run->count = 1;
    run->ends = true;
    r->place = JSONL_REST;
    return STATUS_OK;
}
