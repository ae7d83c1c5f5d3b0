/* What packed bytes are unpacked with: gzip (RFC 1952, by zlib), Zstandard (RFC 8878, by libzstd) and Snappy
 * (by libsnappy). Each lives in a room whose size is known before, and takes no other memory. A library that
 * was not there when the program was built is left out: then everything fails with a sentence, and `there`
 * first.
 *
 * Sentences say what is wrong and not where: callers put the place before them. All are STATUS_INVALID. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* What a step reads and writes; it moves both on. */
typedef struct {
    const unsigned char *in;
    size_t in_left;
    unsigned char *out;
    size_t out_left;
    bool between; /* set by a step: the bytes may end here */
} unpack_span;

typedef struct {
    const char *name;
    status (*there)(void); /* is its library? */
    /* Bytes of its room; `window`: the largest distance back that a stream may have (Zstandard's only: the
     * others have one of their own). */
    uint64_t (*need)(uint64_t window);
    /* A stream from its first byte. `room` has need(window) bytes, aligned to 64. */
    status (*begin)(void *room, uint64_t window);
    /* Takes some, gives some. Members and frames may stand one behind the other. */
    status (*step)(void *room, unpack_span *s);

    /* The same for a block whose size is known, in one go: exactly `out_bytes` come out of exactly
     * `in_bytes`. */
    uint64_t (*need_whole)(void);
    status (*whole)(void *room, unpack_span *block);
} unpacker;

extern const unpacker unpack_gzip, unpack_zstd, unpack_snappy; /* Snappy has no streams: step is NULL */

/* "this program was built without zlib; …". */
status unpack_missing(const char *library, const char *package);
/* Where a block was unpacked: nothing may be left on either side. */
status unpack_finished(const char *name, const unpack_span *block);
