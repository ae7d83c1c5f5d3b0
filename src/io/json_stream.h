/* JSON of any length, read through a small buffer: what io/json.h is for what is small. Headers of
 * safetensors and indexes of shards come from strangers and may be as long as they like; here nothing of them
 * is kept but what the caller copies.
 *
 * The caller asks for what it expects, value by value. Strict: UTF-8, whole numbers without a sign, strings
 * in double quotes. What is wrong is said with the place, "PATH: the header is wrong at byte 12: expected
 * ':'", as STATUS_INVALID. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { JSON_STREAM_BUFFER = 4096, JSON_STREAM_STRING = 1024, JSON_STREAM_DEPTH = 64 };

typedef struct {
    int file;
    const char *path, *what;   /* for sentences: "the header" */
    uint64_t start, next, end; /* offsets in the file: of the text, of what is read next, behind the text */
    uint32_t at, have;         /* in the buffer */
    status failed;             /* reading did, with its sentence */
    char buffer[JSON_STREAM_BUFFER];
} json_stream;

/* Of `bytes` from `start` on of an open file. */
void json_stream_begin(json_stream *s, int file, const char *path, const char *what, uint64_t start,
                       uint64_t bytes);

/* The next character that is no blank, which stays; -1 at the end. */
int json_stream_peek(json_stream *s);
/* Is it this one? Then it is taken. */
bool json_stream_take(json_stream *s, char c);
status json_stream_expect(json_stream *s, char c);
/* Behind an item of a list or object: is there another one? */
status json_stream_another(json_stream *s, char close, bool *more);

/* A string without zero bytes, decoded, with a zero behind it. STATUS_INVALID for one of JSON_STREAM_STRING
 * bytes or more. */
status json_stream_string(json_stream *s, char out[JSON_STREAM_STRING]);
/* A string of any length, passed over. */
status json_stream_skip_string(json_stream *s);
/* A whole number, 0 or more. */
status json_stream_whole(json_stream *s, uint64_t *out);
/* Any value, passed over: brackets agree, at most JSON_STREAM_DEPTH deep; of what else is no string only the
 * letters are looked at. */
status json_stream_skip(json_stream *s);

/* Nothing but blanks may follow. */
status json_stream_end(json_stream *s);

/* "PATH: the header is wrong at byte N: WHY" */
status json_stream_wrong(json_stream *s, const char *why);
