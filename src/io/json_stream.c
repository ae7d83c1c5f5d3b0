#include "io/json_stream.h"

#include <inttypes.h>
#include <string.h>

#include "base/utf8.h"
#include "io/file.h"

void json_stream_begin(json_stream *s, int file, const char *path, const char *what, uint64_t start,
                       uint64_t bytes) {
    s->file = file;
    s->path = path, s->what = what;
    s->start = s->next = start, s->end = start + bytes;
    s->at = s->have = 0;
    s->failed = STATUS_OK;
}

status json_stream_wrong(json_stream *s, const char *why) {
    if (s->failed != STATUS_OK) return s->failed;
    uint64_t at = s->next - s->start - (s->have - s->at);
    return status_set(STATUS_INVALID, "%s: %s is wrong at byte %" PRIu64 ": %s", s->path, s->what, at, why);
}

/* Moves what is left to the front and fills the rest, so that a character is never torn. */
static void fill(json_stream *s) {
    uint32_t left = s->have - s->at;
    memmove(s->buffer, s->buffer + s->at, left);
    uint64_t rest = s->end - s->next, n = rest < sizeof s->buffer - left ? rest : sizeof s->buffer - left;
    s->at = 0, s->have = left;
    if (s->failed == STATUS_OK) s->failed = io_read_at(s->file, s->path, s->next, s->buffer + left, n);
    if (s->failed != STATUS_OK) return;
    s->have += (uint32_t)n, s->next += n;
}

/* The next character as it stands; -1 at the end, and where reading failed. */
static int look(json_stream *s) {
    if (s->have - s->at < 4 && s->next < s->end && s->failed == STATUS_OK) fill(s);
    return s->at < s->have ? (unsigned char)s->buffer[s->at] : -1;
}

int json_stream_peek(json_stream *s) {
    int c;
    while ((c = look(s)) == ' ' || c == '\n' || c == '\r' || c == '\t') s->at++;
    return c;
}

bool json_stream_take(json_stream *s, char c) {
    if (json_stream_peek(s) != (unsigned char)c) return false;
    s->at++;
    return true;
}

status json_stream_expect(json_stream *s, char c) {
    if (json_stream_take(s, c)) return STATUS_OK;
    char what[] = "expected ' '";
    what[sizeof what - 3] = c;
    return json_stream_wrong(s, what);
}

status json_stream_another(json_stream *s, char close, bool *more) {
    *more = json_stream_take(s, ',');
    return *more ? STATUS_OK : json_stream_expect(s, close);
}

/* ---- strings ---- */

/* Where a string goes: nowhere, or into so many bytes. */
typedef struct {
    char *to;
    size_t used;
} sink;

static status put(json_stream *s, sink *out, const char *bytes, size_t count) {
    if (!out->to) return STATUS_OK;
    if (out->used + count >= JSON_STREAM_STRING)
        return json_stream_wrong(s, "a string is too long for a name");
    memcpy(out->to + out->used, bytes, count);
    out->used += count;
    return STATUS_OK;
}

static status read_hex(json_stream *s, unsigned long *value) {
    *value = 0;
    for (int i = 0; i < 4; i++) {
        int c = look(s);
        if (c < 0) return json_stream_wrong(s, "the text ends inside \\u");
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
                                                : 16;
        if (digit == 16) return json_stream_wrong(s, "\\u wants four hexadecimal digits");
        *value = *value << 4 | digit;
        s->at++;
    }
    return STATUS_OK;
}

/* Takes the character if it is the next one. */
static bool take_at_once(json_stream *s, char c) {
    if (look(s) != (unsigned char)c) return false;
    s->at++;
    return true;
}

/* \u0061, or a pair of surrogates; behind the u. */
static status read_point(json_stream *s, sink *out) {
    unsigned long point, low;
    char bytes[4];
    TRY(read_hex(s, &point));
    if (point == 0) return json_stream_wrong(s, "a zero byte in a string");
    if (point >= 0xd800 && point < 0xdc00) {
        if (!take_at_once(s, '\\') || !take_at_once(s, 'u')) return json_stream_wrong(s, "half a surrogate");
        TRY(read_hex(s, &low));
        if (low < 0xdc00 || low > 0xdfff) return json_stream_wrong(s, "half a surrogate");
        point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
    } else if (point >= 0xdc00 && point < 0xe000) {
        return json_stream_wrong(s, "half a surrogate");
    }
    return put(s, out, bytes, utf8_encode(point, bytes));
}

static status read_escape(json_stream *s, sink *out) {
    static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    int c = look(s);
    if (c < 0) return json_stream_wrong(s, "the text ends inside a string");
    s->at++;
    if (c == 'u') return read_point(s, out);
    const char *known = c ? strchr(letters, c) : NULL;
    return known ? put(s, out, &values[known - letters], 1)
                 : json_stream_wrong(s, "an unknown escape in a string");
}

static status read_string(json_stream *s, sink *out) {
    int c;
    TRY(json_stream_expect(s, '"'));
    while ((c = look(s)) >= 0 && c != '"') {
        size_t length = utf8_length(s->buffer + s->at, s->have - s->at);
        if (length == 0) return json_stream_wrong(s, "a string is not UTF-8");
        if (c < 0x20) return json_stream_wrong(s, "a control character in a string");
        if (c == '\\') {
            s->at++;
            TRY(read_escape(s, out));
            continue;
        }
        TRY(put(s, out, s->buffer + s->at, length));
        s->at += (uint32_t)length;
    }
    return json_stream_expect(s, '"');
}

status json_stream_string(json_stream *s, char out[JSON_STREAM_STRING]) {
    sink into = { .to = out };
    status result = read_string(s, &into);
    out[into.used] = 0;
    return result;
}

status json_stream_skip_string(json_stream *s) { return read_string(s, &(sink){ 0 }); }

/* ---- other values ---- */

status json_stream_whole(json_stream *s, uint64_t *out) {
    uint64_t value = 0;
    int digits = 0, first = json_stream_peek(s);
    for (int c; (c = look(s)) >= '0' && c <= '9'; s->at++, digits++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(c - '0'), &value))
            return json_stream_wrong(s, "a number does not fit in 64 bits");
    if (!digits) return json_stream_wrong(s, "expected a whole number, 0 or more");
    if (first == '0' && digits > 1) return json_stream_wrong(s, "a number begins with 0");
    *out = value;
    return STATUS_OK;
}

/* A number, true, false or null. */
static status skip_word(json_stream *s) {
    uint32_t length = 0;
    for (int c; (c = look(s)) > 0 && c < 0x80 && strchr("+-.0123456789", c) != NULL; length++) s->at++;
    for (int c; (c = look(s)) > 0 && ((c | 0x20) >= 'a' && (c | 0x20) <= 'z'); length++) s->at++;
    for (int c; length && (c = look(s)) > 0 && strchr("+-0123456789", c);) s->at++; /* of an exponent */
    return length ? STATUS_OK : json_stream_wrong(s, "expected a value");
}

status json_stream_skip(json_stream *s) {
    char open[JSON_STREAM_DEPTH];
    uint32_t depth = 0;
    do {
        int c = json_stream_peek(s);
        if (c == '{' || c == '[') {
            if (depth == JSON_STREAM_DEPTH)
                return json_stream_wrong(s, "values are nested more than 64 deep");
            open[depth++] = (char)c;
            s->at++;
        } else if (c == '}' || c == ']') {
            if (!depth || open[depth - 1] != (c == '}' ? '{' : '['))
                return json_stream_wrong(s, "brackets do not agree");
            depth--;
            s->at++;
        } else if (c == '"') {
            TRY(json_stream_skip_string(s));
        } else if (depth && (c == ',' || c == ':')) {
            s->at++;
        } else {
            TRY(skip_word(s));
        }
    } while (depth);
    return STATUS_OK;
}

status json_stream_end(json_stream *s) {
    if (json_stream_peek(s) < 0 && s->failed == STATUS_OK) return STATUS_OK;
    return json_stream_wrong(s, "something follows its end");
}
