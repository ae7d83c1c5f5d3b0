/* Bytes on their way to a reader, in memory of a fixed size: who writes looks first whether there is room. */
#pragma once

#include <stddef.h>

typedef struct {
    char *bytes;
    size_t size, begin, count; /* count bytes from `begin` on, around the end */
} ring;

static inline size_t ring_room(const ring *r) { return r->size - r->count; }
void ring_write(ring *r, const char *bytes, size_t count); /* at most ring_room */
size_t ring_read(ring *r, char *out, size_t most);         /* how many that were */
