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

static status refuse(const arena *a) {
    return status_set(a->may_grow ? STATUS_NO_FIT : STATUS_INVALID, "it takes more than %zu bytes of memory",
                      a->limit);
}

static status no_memory(size_t bytes) {
    return status_set(STATUS_FAILED, "no memory for %zu bytes of a template", bytes);
}

/* Counts blocks as if none were kept, so that the same is refused the first time and later. */
static status count(arena *a, size_t bytes) {
    if (bytes > a->left) {
        size_t size = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        if (size > a->limit - a->used) return refuse(a);
        a->used += size, a->left = size;
    }
    a->left -= bytes;
    return STATUS_OK;
}

static status take_kept(arena *a, size_t bytes, void **place) {
    if (!a->kept->data) a->kept->data = memory_room(1, a->kept->bytes);
    if (!a->kept->data) return no_memory(a->kept->bytes);
    *place = a->kept->data + a->kept_used;
    a->kept_used += bytes;
    return STATUS_OK;
}

static status add_block(arena *a, size_t bytes) {
    size_t size = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
    arena_block *b = memory_room(1, size + 2 * sizeof *b + ALIGNMENT);
    if (!b) return no_memory(size);
    *b = (arena_block){ a->last, 0, size };
    a->last = b;
    return STATUS_OK;
}

status arena_take(arena *a, size_t bytes, void *out) {
    void *place = NULL;
    if (bytes > a->limit) return refuse(a);
    bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    TRY(count(a, bytes));
    if (a->kept && bytes <= a->kept->bytes - a->kept_used) {
        TRY(take_kept(a, bytes, &place));
    } else {
        if (!a->last || bytes > a->last->size - a->last->used) TRY(add_block(a, bytes));
        place = block_data(a->last) + a->last->used;
        a->last->used += bytes;
    }
    memcpy(out, &place, sizeof place);
    return STATUS_OK;
}

void arena_close(arena *a) {
    if (a->kept && a->last) {
        arena_forget(a->kept);
        a->kept->bytes = a->used;
    }
    for (arena_block *b = a->last; b;) {
        arena_block *before = b->before;
        memory_free(b);
        b = before;
    }
    *a = (arena){ 0 };
}

void arena_forget(arena_kept *k) {
    memory_free(k->data);
    k->data = NULL;
}
