#include "base/json_reader.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

static status read_memory(const void *from, const char *path, uint64_t offset, void *into, uint64_t bytes) {
    (void)path;
    memcpy(into, (const char *)from + offset, bytes);
    return STATUS_OK;
}

json_source json_source_memory(const void *bytes, uint64_t count, const char *path, const char *what) {
    return (json_source){ .read = read_memory, .from = bytes, .path = path, .what = what, .bytes = count };
}

void json_reader_begin(json_reader *s, const json_source *source) {
    s->source = *source;
    s->end = source->start + source->bytes;
    s->failed = STATUS_OK;
    json_reader_go(s, 0);
}

void json_reader_go(json_reader *s, uint64_t place) {
    s->next = s->source.start + place;
    s->at = s->have = 0;
}

/* How many bytes stand before the next one. */
static uint64_t place(const json_reader *s) { return s->next - s->source.start - (s->have - s->at); }

uint64_t json_reader_behind(const json_reader *s) { return place(s); }

uint64_t json_reader_place(json_reader *s) {
    json_reader_peek(s);
    return place(s);
}

status json_reader_wrong(json_reader *s, const char *why) {
    if (s->failed != STATUS_OK) return s->failed;
    return status_set(STATUS_INVALID, "%s: %s is wrong at byte %" PRIu64 ": %s", s->source.path,
                      s->source.what, place(s), why);
}

/* Moves what is left to the front and fills the rest, so that a character is never torn. */
static void fill(json_reader *s) {
    uint32_t left = s->have - s->at;
    memmove(s->buffer, s->buffer + s->at, left);
    uint64_t rest = s->end - s->next, n = rest < sizeof s->buffer - left ? rest : sizeof s->buffer - left;
    s->at = 0, s->have = left;
    if (s->failed == STATUS_OK)
        s->failed = s->source.read(s->source.from, s->source.path, s->next, s->buffer + left, n);
    if (s->failed != STATUS_OK) return;
    s->have += (uint32_t)n, s->next += n;
}

/* The next character as it stands; -1 at the end, and where reading failed. */
static int look(json_reader *s) {
    if (s->have - s->at < 4 && s->next < s->end && s->failed == STATUS_OK) fill(s);
    return s->at < s->have ? (unsigned char)s->buffer[s->at] : -1;
}

int json_reader_peek_on(json_reader *s) {
    int c;
    while ((c = look(s)) == ' ' || c == '\n' || c == '\r' || c == '\t') s->at++;
    return c;
}

status json_reader_unexpected(json_reader *s, char c) {
    char what[] = "expected ' '";
    what[sizeof what - 3] = c;
    return json_reader_wrong(s, what);
}

status json_reader_another(json_reader *s, char close, bool *more) {
    *more = json_reader_take(s, ',');
    return *more ? STATUS_OK : json_reader_expect(s, close);
}

/* ---- strings ---- */

/* Where a string goes: nowhere, into so many bytes, or piece by piece to somebody. */
typedef struct {
    json_reader_each *each;
    void *context;
    bool zeros; /* are taken */
} sink;

static status put(const sink *out, const char *bytes, size_t count) {
    return out->each ? out->each(out->context, bytes, count) : STATUS_OK;
}

static status read_hex(json_reader *s, unsigned long *value) {
    *value = 0;
    for (int i = 0; i < 4; i++) {
        int c = look(s);
        if (c < 0) return json_reader_wrong(s, "the text ends inside \\u");
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
                                                : 16;
        if (digit == 16) return json_reader_wrong(s, "\\u wants four hexadecimal digits");
        *value = *value << 4 | digit;
        s->at++;
    }
    return STATUS_OK;
}

/* Takes the character if it is the next one. */
static bool take_at_once(json_reader *s, char c) {
    if (look(s) != (unsigned char)c) return false;
    s->at++;
    return true;
}

/* \u0061, or a pair of surrogates; behind the u. */
static status read_point(json_reader *s, const sink *out) {
    unsigned long point, low;
    char bytes[4];
    TRY(read_hex(s, &point));
    if (point == 0 && !out->zeros) return json_reader_wrong(s, "a zero byte in a string");
    if (point >= 0xd800 && point < 0xdc00) {
        if (!take_at_once(s, '\\') || !take_at_once(s, 'u')) return json_reader_wrong(s, "half a surrogate");
        TRY(read_hex(s, &low));
        if (low < 0xdc00 || low > 0xdfff) return json_reader_wrong(s, "half a surrogate");
        point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
    } else if (point >= 0xdc00 && point < 0xe000) {
        return json_reader_wrong(s, "half a surrogate");
    }
    return put(out, bytes, utf8_encode(point, bytes));
}

static status read_escape(json_reader *s, const sink *out) {
    static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    int c = look(s);
    if (c < 0) return json_reader_wrong(s, "the text ends inside a string");
    s->at++;
    if (c == 'u') return read_point(s, out);
    const char *known = c ? strchr(letters, c) : NULL;
    return known ? put(out, &values[known - letters], 1)
                 : json_reader_wrong(s, "an unknown escape in a string");
}

/* How many of the buffered bytes stand for themselves: letters of a string that are UTF-8 and no escapes. */
static uint32_t plain(const json_reader *s) {
    uint32_t n = 0, most = s->have - s->at;
    const unsigned char *c = (const unsigned char *)s->buffer + s->at;
    for (;;) {
        while (n < most && c[n] < 0x80 && c[n] >= 0x20 && c[n] != '"' && c[n] != '\\') n++;
        if (n == most || c[n] < 0x80) return n;
        size_t length = utf8_length((const char *)c + n, most - n);
        if (length == 0) return n;
        n += (uint32_t)length;
    }
}

static status read_string(json_reader *s, const sink *out) {
    int c;
    TRY(json_reader_expect(s, '"'));
    while ((c = look(s)) >= 0 && c != '"') {
        uint32_t n = plain(s);
        if (n == 0 && c >= 0x80) return json_reader_wrong(s, "a string is not UTF-8");
        if (n == 0 && c < 0x20) return json_reader_wrong(s, "a control character in a string");
        if (n == 0) {
            s->at++;
            TRY(read_escape(s, out));
            continue;
        }
        TRY(put(out, s->buffer + s->at, n));
        s->at += n;
    }
    return json_reader_expect(s, '"');
}

typedef struct {
    json_reader *reader;
    char *to;
    uint64_t room, used;
} copy;

static status copy_name(void *context, const char *bytes, size_t count) {
    copy *c = context;
    if (c->used + count >= c->room) return json_reader_wrong(c->reader, "a string is too long for a name");
    memcpy(c->to + c->used, bytes, count);
    c->used += count;
    return STATUS_OK;
}

status json_reader_string(json_reader *s, char out[JSON_READER_STRING]) {
    copy into = { s, out, JSON_READER_STRING, 0 };
    status result = read_string(s, &(sink){ .each = copy_name, .context = &into });
    out[into.used] = 0;
    return result;
}

static status copy_some(void *context, const char *bytes, size_t count) {
    copy *c = context;
    uint64_t left = c->used < c->room ? c->room - c->used : 0;
    if (left) memcpy(c->to + c->used, bytes, count < left ? count : left);
    c->used += count;
    return STATUS_OK;
}

status json_reader_text(json_reader *s, char *out, uint64_t room, uint64_t *bytes) {
    copy into = { s, out, room, 0 };
    status result = json_reader_pieces(s, copy_some, &into);
    *bytes = into.used;
    return result;
}

status json_reader_pieces(json_reader *s, json_reader_each *each, void *context) {
    return read_string(s, &(sink){ .each = each, .context = context, .zeros = true });
}

status json_reader_skip_string(json_reader *s) { return read_string(s, &(sink){ 0 }); }

/* ---- other values ---- */

status json_reader_whole(json_reader *s, uint64_t *out) {
    uint64_t value = 0;
    int digits = 0, first = json_reader_peek(s);
    for (int c; (c = look(s)) >= '0' && c <= '9'; s->at++, digits++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(c - '0'), &value))
            return json_reader_wrong(s, "a number does not fit in 64 bits");
    if (!digits) return json_reader_wrong(s, "expected a whole number, 0 or more");
    if (first == '0' && digits > 1) return json_reader_wrong(s, "a number begins with 0");
    *out = value;
    return STATUS_OK;
}

/* Takes digits to `text`, at least one. */
static status take_digits(json_reader *s, char text[JSON_READER_NUMBER], size_t *used) {
    size_t before = *used;
    for (int c; (c = look(s)) >= '0' && c <= '9'; s->at++) {
        if (*used >= JSON_READER_NUMBER - 8) return json_reader_wrong(s, "a number is too long");
        text[(*used)++] = (char)c;
    }
    return *used > before ? STATUS_OK : json_reader_wrong(s, "expected a digit");
}

static bool take_into(json_reader *s, char c, char text[JSON_READER_NUMBER], size_t *used) {
    if (!take_at_once(s, c)) return false;
    text[(*used)++] = c;
    return true;
}

/* The letters of a number. `*whole`: it has neither a fraction nor an exponent. */
static status take_number(json_reader *s, char text[JSON_READER_NUMBER], bool *whole) {
    size_t used = 0;
    memset(text, 0, JSON_READER_NUMBER);
    json_reader_peek(s);
    take_into(s, '-', text, &used);
    size_t first = used;
    TRY(take_digits(s, text, &used));
    if (text[first] == '0' && used > first + 1) return json_reader_wrong(s, "a number begins with 0");
    size_t digits = used;
    if (take_into(s, '.', text, &used)) TRY(take_digits(s, text, &used));
    if (take_into(s, 'e', text, &used) || take_into(s, 'E', text, &used)) {
        if (!take_into(s, '+', text, &used)) take_into(s, '-', text, &used);
        TRY(take_digits(s, text, &used));
    }
    *whole = used == digits;
    return STATUS_OK;
}

status json_reader_digits(json_reader *s, char text[JSON_READER_NUMBER]) {
    bool whole;
    return take_number(s, text, &whole);
}

static status number_of(json_reader *s, const char *text, double *out) {
    *out = strtod(text, NULL);
    return isfinite(*out) ? STATUS_OK : json_reader_wrong(s, "a number is too large");
}

status json_reader_number(json_reader *s, double *out) {
    char text[JSON_READER_NUMBER];
    bool whole;
    TRY(take_number(s, text, &whole));
    return number_of(s, text, out);
}

status json_reader_numeral(json_reader *s, json_numeral *out) {
    char text[JSON_READER_NUMBER];
    *out = (json_numeral){ 0 };
    TRY(take_number(s, text, &out->whole));
    if (!out->whole) return number_of(s, text, &out->number);
    errno = 0;
    out->integer = strtoll(text, NULL, 10);
    return errno ? json_reader_wrong(s, "a whole number does not fit in 64 bits") : STATUS_OK;
}

/* The letters of a word, all of them or it is wrong. */
static status take_word(json_reader *s, const char *word) {
    for (; *word; word++)
        if (!take_at_once(s, *word)) return json_reader_wrong(s, "expected true, false or null");
    return STATUS_OK;
}

status json_reader_bool(json_reader *s, bool *out) {
    *out = json_reader_peek(s) == 't';
    return take_word(s, *out ? "true" : "false");
}

status json_reader_null(json_reader *s, bool *is_null) {
    *is_null = json_reader_peek(s) == 'n';
    return *is_null ? take_word(s, "null") : STATUS_OK;
}

/* A number, true, false or null. */
static status skip_word(json_reader *s) {
    uint32_t length = 0;
    for (int c; (c = look(s)) > 0 && c < 0x80 && strchr("+-.0123456789", c) != NULL; length++) s->at++;
    for (int c; (c = look(s)) > 0 && ((c | 0x20) >= 'a' && (c | 0x20) <= 'z'); length++) s->at++;
    for (int c; length && (c = look(s)) > 0 && strchr("+-0123456789", c);) s->at++; /* of an exponent */
    return length ? STATUS_OK : json_reader_wrong(s, "expected a value");
}

status json_reader_skip(json_reader *s) {
    char open[JSON_READER_DEPTH];
    uint32_t depth = 0;
    do {
        int c = json_reader_peek(s);
        if (c == '{' || c == '[') {
            if (depth == JSON_READER_DEPTH)
                return json_reader_wrong(s, "values are nested more than 64 deep");
            open[depth++] = (char)c;
            s->at++;
        } else if (c == '}' || c == ']') {
            if (!depth || open[depth - 1] != (c == '}' ? '{' : '['))
                return json_reader_wrong(s, "brackets do not agree");
            depth--;
            s->at++;
        } else if (c == '"') {
            TRY(json_reader_skip_string(s));
        } else if (depth && (c == ',' || c == ':')) {
            s->at++;
        } else {
            TRY(skip_word(s));
        }
    } while (depth);
    return STATUS_OK;
}

status json_reader_end(json_reader *s) {
    if (json_reader_peek(s) < 0 && s->failed == STATUS_OK) return STATUS_OK;
    return json_reader_wrong(s, "something follows its end");
}
