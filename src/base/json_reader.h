/* JSON of any length, read through a small buffer: what io/json.h is for what is small. Headers of
 * safetensors, indexes of shards, tokenizers and bodies of requests come from strangers and may be as long
 * as they like; here nothing of them is kept but what the caller copies.
 *
 * The caller asks for what it expects, value by value. Strict: UTF-8, strings in double quotes. What is wrong
 * is said with the place, "PATH: the header is wrong at byte 12: expected ':'", as STATUS_INVALID. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    JSON_READER_BUFFER = 4096,
    JSON_READER_STRING = 1024,
    JSON_READER_NUMBER = 512,
    JSON_READER_DEPTH = 64
};

/* Where the bytes come from: an open file (io/json_file.h) or memory. `path` and `what` are for sentences. */
typedef struct {
    /* Exactly `bytes` bytes from `offset` on; both lie inside of start .. start + bytes. */
    status (*read)(const void *from, const char *path, uint64_t offset, void *into, uint64_t bytes);
    const void *from;
    const char *path, *what; /* "the header" */
    uint64_t start, bytes;
} json_source;

/* Of bytes that stay where they are for as long as they are read. */
json_source json_source_memory(const void *bytes, uint64_t count, const char *path, const char *what);

typedef struct {
    json_source source;
    uint64_t next, end; /* offsets in the source: of what is read next, behind the text */
    uint32_t at, have;  /* in the buffer */
    status failed;      /* reading did, with its sentence */
    char buffer[JSON_READER_BUFFER];
} json_reader;

void json_reader_begin(json_reader *r, const json_source *source);
/* Begins anew at a place that json_reader_place said: the second reading of a value. */
void json_reader_go(json_reader *r, uint64_t place);

/* The next character that is no blank, which stays; -1 at the end. */
int json_reader_peek_on(json_reader *r); /* wherever it stands */
static inline int json_reader_peek(json_reader *r) {
    if (r->have - r->at >= 4 && (unsigned char)r->buffer[r->at] > ' ') return (unsigned char)r->buffer[r->at];
    return json_reader_peek_on(r);
}
/* How many bytes of the text stand before that one. */
uint64_t json_reader_place(json_reader *r);
/* How many bytes of the text stand before what comes next, be it a blank. */
uint64_t json_reader_behind(const json_reader *r);
/* Is it this one? Then it is taken. */
static inline bool json_reader_take(json_reader *r, char c) {
    bool is = json_reader_peek(r) == (unsigned char)c;
    r->at += is;
    return is;
}
status json_reader_unexpected(json_reader *r, char c); /* another one is next */
static inline status json_reader_expect(json_reader *r, char c) {
    return json_reader_take(r, c) ? STATUS_OK : json_reader_unexpected(r, c);
}
/* Behind an item of a list or object: is there another one? */
status json_reader_another(json_reader *r, char close, bool *more);

/* A string without zero bytes, decoded, with a zero behind it. STATUS_INVALID for one of JSON_READER_STRING
 * bytes or more. */
status json_reader_string(json_reader *r, char out[JSON_READER_STRING]);
/* A string of any length, decoded, zero bytes too: its first `room` bytes go to `out` (NULL where room is 0),
 * without a zero behind them, and `*bytes` is how long the whole is. */
status json_reader_text(json_reader *r, char *out, uint64_t room, uint64_t *bytes);
/* The same in pieces, none of which tears a character. */
typedef status json_reader_each(void *context, const char *bytes, size_t count);
status json_reader_pieces(json_reader *r, json_reader_each *each, void *context);
/* A string of any length, without zero bytes, passed over. */
status json_reader_skip_string(json_reader *r);

/* A whole number, 0 or more. */
status json_reader_whole(json_reader *r, uint64_t *out);
/* Any number that a double holds; of one in more than JSON_READER_NUMBER letters it is said that it is long.
 */
status json_reader_number(json_reader *r, double *out);
/* A whole number of 64 bits, or one that is written with a fraction or an exponent. */
typedef struct {
    bool whole;
    int64_t integer; /* where it is whole */
    double number;   /* where it is not */
} json_numeral;
status json_reader_numeral(json_reader *r, json_numeral *out);
/* The same as the letters that it is written with, a text. */
status json_reader_digits(json_reader *r, char text[JSON_READER_NUMBER]);
status json_reader_bool(json_reader *r, bool *out);
/* Is it null? Then it is taken. Whatever else begins with n is wrong. */
status json_reader_null(json_reader *r, bool *is_null);

/* Any value, passed over: brackets agree, at most JSON_READER_DEPTH deep; of what else is no string only the
 * letters are looked at. */
status json_reader_skip(json_reader *r);

/* Nothing but blanks may follow. */
status json_reader_end(json_reader *r);

/* "PATH: the header is wrong at byte N: WHY" */
status json_reader_wrong(json_reader *r, const char *why);
