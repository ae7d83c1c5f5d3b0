/* The bytes of a file, one after the other, unpacked where gzip packed it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { SOURCE_HEAD = 64 };

typedef struct {
    const char *path;
    int file; /* < 0: none */
    uint64_t bytes, next;
    unsigned char begins; /* its first byte that is no blank, unpacked; 0 where there is none */
    bool packed, between; /* by gzip; and it may end here */
    void *block, *room;   /* the unpacker's, aligned in `block` */
    unsigned char *in;
    size_t in_at, in_end;
    unsigned char head[SOURCE_HEAD]; /* what was read already */
    size_t head_at, head_end;
} source;

status source_open(const char *path, source *s);
void source_close(source *s);

/* Up to `room` bytes, at least 1; `*got` is 0 at the end. `s` is a source: as pickle_source wants it. */
status source_read(void *s, void *into, size_t room, size_t *got);
