#include "io/json_stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"

status json_stream_open(json_stream *s, const json_feed *feed) {
    *s = (json_stream){ .feed = *feed, .after = -1 };
    s->buffer = memory_room(JSON_STREAM_BUFFER, 1);
    s->text = memory_room(2 * JSON_STREAM_TEXT, 1);
    return s->buffer && s->text ? STATUS_OK : status_set(STATUS_FAILED, "no memory to read with");
}

void json_stream_close(json_stream *s) {
    memory_free(s->buffer);
    memory_free(s->text);
    *s = (json_stream){ 0 };
}

uint64_t json_stream_place(const json_stream *s) { return s->base + s->at; }

status json_stream_wrong(const json_stream *s, const char *why) {
    return status_set(STATUS_INVALID, "%s: byte %llu: %s", s->feed.path,
                      (unsigned long long)json_stream_place(s), why);
}

/* What is left moves to the beginning, and the rest is filled. */
static status refill(json_stream *s) {
    memmove(s->buffer, s->buffer + s->at, s->have - s->at);
    s->base += s->at, s->have -= s->at, s->at = 0;
    while (!s->ended && s->have < JSON_STREAM_BUFFER) {
        size_t got;
        TRY(s->feed.read(s->feed.from, s->buffer + s->have, JSON_STREAM_BUFFER - s->have, &got));
        s->ended = got == 0;
        s->have += got;
    }
    return STATUS_OK;
}

/* So many bytes are here, or all that there are. */
static inline status reach(json_stream *s, size_t count) {
    return s->have - s->at < count && !s->ended ? refill(s) : STATUS_OK;
}

static inline bool is_blank(unsigned char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

status json_stream_look(json_stream *s) {
    for (;;) {
        TRY(reach(s, JSON_STREAM_TEXT));
        while (s->at < s->have && is_blank(s->buffer[s->at])) s->at++;
        if (s->have - s->at >= JSON_STREAM_TEXT || s->ended) break; /* a long blank ends with less */
    }
    s->after = s->at < s->have ? s->buffer[s->at] : -1;
    return STATUS_OK;
}

static status unexpected(const json_stream *s, char c) {
    if (s->after < 0) return json_stream_wrong(s, "the file ends in the middle");
    char why[] = "expected 'x'";
    why[sizeof why - 3] = c;
    return json_stream_wrong(s, why);
}

static inline status take(json_stream *s, char c, bool *is) {
    TRY(json_stream_look(s));
    *is = s->after == (unsigned char)c;
    s->at += *is;
    return STATUS_OK;
}

status json_stream_expect(json_stream *s, char c) {
    bool is;
    TRY(take(s, c, &is));
    return is ? STATUS_OK : unexpected(s, c);
}

status json_stream_first(json_stream *s, char close, bool *more) {
    bool ends;
    TRY(take(s, close, &ends));
    *more = !ends;
    return STATUS_OK;
}

status json_stream_another(json_stream *s, char close, bool *more) {
    bool ends;
    TRY(take(s, ',', more));
    if (*more) return STATUS_OK;
    TRY(take(s, close, &ends));
    return ends ? STATUS_OK : unexpected(s, ',');
}

/* ---- strings ---- */

static int hex(const unsigned char *four) {
    int n = 0;
    for (int i = 0; i < 4; i++) {
        unsigned char c = four[i];
        int digit = c >= '0' && c <= '9'                 ? c - '0'
                    : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                         : -1;
        if (digit < 0) return -1;
        n = 16 * n + digit;
    }
    return n;
}

/* Halves of a pair that stand alone become U+FFFD. */
static uint32_t code_point(const unsigned char **from, const unsigned char *end) {
    int high = end - *from >= 4 ? hex(*from) : -1;
    if (high < 0) return 0xfffd;
    *from += 4;
    if (high < 0xd800 || high > 0xdfff) return high ? (uint32_t)high : 0xfffd;
    int low = end - *from >= 6 && (*from)[0] == '\\' && (*from)[1] == 'u' ? hex(*from + 2) : -1;
    if (high > 0xdbff || low < 0xdc00 || low > 0xdfff) return 0xfffd;
    *from += 6;
    return 0x10000u + ((uint32_t)(high - 0xd800) << 10) + (uint32_t)(low - 0xdc00);
}

/* What is decoded is at most half as long again as what is written. */
static void decode(json_stream *s, const unsigned char *from, const unsigned char *end, json_piece *out) {
    static const char letters[] = "bfnrt", meant[] = "\b\f\n\r\t";
    size_t count = 0;
    while (from < end) {
        unsigned char c = *from++;
        if (c != '\\' || from == end) {
            s->text[count++] = (char)c;
            continue;
        }
        c = *from++;
        const char *letter = c ? strchr(letters, c) : NULL;
        if (c == 'u')
            count += utf8_encode(code_point(&from, end), s->text + count);
        else
            s->text[count++] = letter ? meant[letter - letters] : (char)c;
    }
    *out = (json_piece){ s->text, count };
}

/* Where the quote is that ends what begins at `at`; `have` where it is not here. */
static inline size_t find_quote(const json_stream *s, size_t at, bool *escapes) {
    for (; at < s->have && s->buffer[at] != '"'; at++)
        if (s->buffer[at] == '\\') *escapes = true, at++;
    return at < s->have ? at : s->have;
}

status json_stream_string(json_stream *s, json_piece *out) {
    bool escapes = false;
    TRY(json_stream_expect(s, '"'));
    size_t end = find_quote(s, s->at, &escapes);
    if (end == s->have && s->ended) return json_stream_wrong(s, "the file ends in a string");
    if (end - s->at >= JSON_STREAM_TEXT - 1)
        return json_stream_wrong(s, "a string of more than 32,766 bytes, which no trace has here");
    const unsigned char *from = s->buffer + s->at;
    if (escapes)
        decode(s, from, s->buffer + end, out);
    else
        *out = (json_piece){ (const char *)from, end - s->at };
    s->at = end + 1;
    return STATUS_OK;
}

/* The colon may lie behind what is here, and then the buffer moves: the key is copied before. */
status json_stream_key(json_stream *s, json_piece *out) {
    TRY(json_stream_string(s, out));
    if (s->at < s->have && s->buffer[s->at] == ':') {
        s->at++;
        return STATUS_OK;
    }
    if (out->bytes != s->text) memcpy(s->text, out->bytes, out->count), out->bytes = s->text;
    return json_stream_expect(s, ':');
}

static status skip_string(json_stream *s) {
    TRY(json_stream_expect(s, '"'));
    for (bool escapes = false;;) {
        size_t end = find_quote(s, s->at, &escapes);
        if (end < s->have) {
            s->at = end + 1;
            return STATUS_OK;
        }
        if (s->ended) return json_stream_wrong(s, "the file ends in a string");
        /* A backslash at the end escapes what comes next. */
        size_t back = 0;
        while (back < s->have - s->at && s->buffer[s->have - 1 - back] == '\\') back++;
        s->at = s->have - (back & 1);
        TRY(refill(s));
    }
}

/* ---- numbers ---- */

static inline bool is_digit(const json_stream *s) {
    return s->at < s->have && s->buffer[s->at] >= '0' && s->buffer[s->at] <= '9';
}

/* Written with an exponent: as a double has it. */
static status far_decimal(json_stream *s, size_t begins, json_decimal *out) {
    char digits[64];
    size_t count = s->have - begins < sizeof digits - 1 ? s->have - begins : sizeof digits - 1;
    memcpy(digits, s->buffer + begins, count);
    digits[count] = 0;
    char *end;
    double x = strtod(digits, &end);
    double size = x < 0 ? -x : x;
    if (!(size < 0x1p63))
        return json_stream_wrong(s, "a number of more than 64 bits, which no trace has here");
    s->at = begins + (size_t)(end - digits);
    out->whole = (uint64_t)size;
    out->thousandths = (uint32_t)((size - (double)out->whole) * 1000);
    return STATUS_OK;
}

static void take_fraction(json_stream *s, json_decimal *out) {
    uint32_t unit = 100;
    for (s->at++; is_digit(s); s->at++, unit /= 10)
        out->thousandths += unit * (uint32_t)(s->buffer[s->at] - '0');
}

status json_stream_decimal(json_stream *s, json_decimal *out) {
    *out = (json_decimal){ .negative = false };
    TRY(json_stream_look(s));
    size_t begins = s->at;
    if (s->after == '-') out->negative = true, s->at++;
    if (!is_digit(s))
        return json_stream_wrong(s, s->after < 0 ? "the file ends in the middle" : "expected a number");
    for (; is_digit(s); s->at++) {
        unsigned digit = s->buffer[s->at] - (unsigned)'0';
        if (out->whole > (UINT64_MAX - digit) / 10)
            return json_stream_wrong(s, "a number of more than 64 bits, which no trace has here");
        out->whole = 10 * out->whole + digit;
    }
    if (s->at < s->have && s->buffer[s->at] == '.') take_fraction(s, out);
    bool far = s->at < s->have && (s->buffer[s->at] | 32) == 'e';
    return far ? far_decimal(s, begins, out) : STATUS_OK;
}

/* ---- what is passed over ---- */

typedef enum { PLAIN, QUOTE, OPENS, CLOSES, PARTS } letter;

static const unsigned char letters[256] = {
    ['"'] = QUOTE, ['{'] = OPENS, ['['] = OPENS, ['}'] = CLOSES, [']'] = CLOSES, [','] = PARTS, [':'] = PARTS
};

static status skip_brackets(json_stream *s) {
    uint64_t braces = 0; /* a bit for each that is open: a brace */
    unsigned depth = 0;
    do {
        while (s->at < s->have && letters[s->buffer[s->at]] % PARTS == PLAIN) s->at++;
        TRY(json_stream_look(s));
        if (s->after < 0) return json_stream_wrong(s, "the file ends in the middle");
        letter kind = (letter)letters[s->after];
        if (kind == QUOTE) {
            TRY(skip_string(s));
        } else if (kind == OPENS) {
            if (depth++ == JSON_STREAM_DEPTH) return json_stream_wrong(s, "it is nested deeper than a trace");
            braces = braces << 1 | (s->after == '{');
            s->at++;
        } else if (kind == CLOSES) {
            if ((braces & 1) != (s->after == '}')) return json_stream_wrong(s, "brackets do not agree");
            braces >>= 1, depth--;
            s->at++;
        }
    } while (depth);
    return STATUS_OK;
}

status json_stream_skip(json_stream *s) {
    TRY(json_stream_look(s));
    if (s->after == '"') return skip_string(s);
    if (s->after == '{' || s->after == '[') return skip_brackets(s);
    size_t begins = s->at;
    while (s->at < s->have && letters[s->buffer[s->at]] == PLAIN && !is_blank(s->buffer[s->at])) s->at++;
    if (s->at > begins) return STATUS_OK;
    return json_stream_wrong(s, s->after < 0 ? "the file ends in the middle" : "expected a value");
}

bool json_stream_is_nested(const json_stream *s) {
    size_t at = s->at + 1;
    while (at < s->have && is_blank(s->buffer[at])) at++;
    return s->after == '[' && at < s->have && (s->buffer[at] == '[' || s->buffer[at] == ']');
}

status json_stream_end(json_stream *s) {
    TRY(json_stream_look(s));
    return s->after < 0 ? STATUS_OK : json_stream_wrong(s, "more follows behind the end");
}
