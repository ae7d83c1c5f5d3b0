#include "text/template/arena.h"

#include <string.h>

#include "base/memory.h"

enum { BLOCK_BYTES = 64 << 10, ALIGNMENT = 16 };

struct arena_block {
    arena_block *before;
    size_t used, size;
};

static char *block_data(arena_block *b) {
    return (char *)b + (sizeof *b + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static status add_block(arena *a, size_t bytes) {
    size_t size = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
    if (size > a->limit - a->used)
        return status_set(STATUS_INVALID, "it takes more than %zu bytes of memory", a->limit);
    arena_block *b = memory_room(1, size + 2 * sizeof *b + ALIGNMENT);
    if (!b) return status_set(STATUS_FAILED, "no memory for %zu bytes of a template", size);
    *b = (arena_block){ a->last, 0, size };
    a->last = b;
    a->used += size;
    return STATUS_OK;
}

status arena_take(arena *a, size_t bytes, void *out) {
    if (bytes > a->limit)
        return status_set(STATUS_INVALID, "it takes more than %zu bytes of memory", a->limit);
    bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (!a->last || bytes > a->last->size - a->last->used) TRY(add_block(a, bytes));
    void *place = block_data(a->last) + a->last->used;
    a->last->used += bytes;
    memcpy(out, &place, sizeof place);
    return STATUS_OK;
}

void arena_close(arena *a) {
    for (arena_block *b = a->last; b;) {
        arena_block *before = b->before;
        memory_free(b);
        b = before;
    }
    *a = (arena){ 0 };
}
