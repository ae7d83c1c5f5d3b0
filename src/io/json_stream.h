/* JSON of any length that comes once, front to back, as from a packed file: traces of gigabytes. Nothing of
 * it is kept but one piece of JSON_STREAM_BUFFER bytes.
 *
 * The caller asks for what it expects, value by value, and passes over the rest. Lenient where writers of
 * traces are: a string may have any bytes but '"', and letters that are no value (NaN) are passed over. What
 * is wrong is said with its byte. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { JSON_STREAM_BUFFER = 1 << 18, JSON_STREAM_TEXT = 1 << 15, JSON_STREAM_DEPTH = 64 };

/* Where bytes come from: up to `room` of them, 0 at the end. */
typedef struct {
    status (*read)(void *from, void *into, size_t room, size_t *got);
    void *from;
    const char *path; /* for sentences */
} json_feed;

typedef struct {
    json_feed feed;
    unsigned char *buffer;
    char *text;      /* a string with escapes, decoded */
    size_t at, have; /* in the buffer */
    uint64_t base;   /* bytes before it */
    bool ended;
    int after; /* what is read next; -1: nothing */
} json_stream;

status json_stream_open(json_stream *s, const json_feed *feed);
void json_stream_close(json_stream *s); /* fine on a zeroed one */

/* The next character that is no blank goes to s->after, and stays. */
status json_stream_look(json_stream *s);
status json_stream_expect(json_stream *s, char c);
/* Behind the opening bracket, and behind each item: is there another one? Takes the comma, or the end. */
status json_stream_first(json_stream *s, char close, bool *more);
status json_stream_another(json_stream *s, char close, bool *more);

/* A string; valid until the next call. No zero stands behind it. */
typedef struct {
    const char *bytes;
    size_t count;
} json_piece;
status json_stream_string(json_stream *s, json_piece *out);
/* A key and the colon behind it. */
status json_stream_key(json_stream *s, json_piece *out);
static inline bool json_piece_is(const json_piece *p, const char *word, size_t count) {
    return p->count == count && __builtin_memcmp(p->bytes, word, count) == 0;
}

/* A number, exact to the thousandth. */
typedef struct {
    uint64_t whole;
    uint32_t thousandths;
    bool negative;
} json_decimal;
status json_stream_decimal(json_stream *s, json_decimal *out);
/* Is what comes next one? (After json_stream_look.) */
static inline bool json_stream_is_number(const json_stream *s) {
    return s->after == '-' || (s->after >= '0' && s->after <= '9');
}

/* Of a list that comes next: is its first item a list too, or is it empty? (After json_stream_look.) */
bool json_stream_is_nested(const json_stream *s);

/* Any value, passed over: brackets agree, at most JSON_STREAM_DEPTH deep. */
status json_stream_skip(json_stream *s);
/* Nothing but blanks may follow. */
status json_stream_end(json_stream *s);

uint64_t json_stream_place(const json_stream *s); /* how many bytes were read */
status json_stream_wrong(const json_stream *s, const char *why);
