/* One block of memory, cut into parts. The same function lays the parts out without a block, to learn how
 * many bytes they take, and with one. So what is planned is what is used. */
#pragma once

#include <stdint.h>

#include "base/units.h"

enum { ROOM_ALIGNMENT = 64 };

typedef struct {
    char *base;     /* NULL: only counted */
    uint64_t bytes; /* of the block */
    uint64_t used;  /* counted on where the block has no more */
} document_room;

/* A part, aligned to ROOM_ALIGNMENT as the block is; NULL while counting, or where the block is too small. */
static inline void *document_room_take(document_room *r, uint64_t bytes) {
    uint64_t at = r->used;
    r->used += units_align(bytes, ROOM_ALIGNMENT);
    return r->base && r->used <= r->bytes ? r->base + at : 0;
}
