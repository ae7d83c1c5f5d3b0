#include "server/pages.h"

#include <string.h>

uint64_t pages_bytes(int64_t count) { return (uint64_t)count * (PAGES_BYTES + sizeof(int32_t)); }
int64_t pages_for(uint64_t bytes) { return (int64_t)((bytes + PAGES_BYTES - 1) / PAGES_BYTES); }

void pages_open(pages *p, int64_t count, void *memory) {
    char *bytes = memory;
    *p = (pages){ .bytes = bytes, .count = count, .left = count, .free = count ? 0 : PAGES_NONE };
    p->next = (int32_t *)(void *)(bytes + (uint64_t)count * PAGES_BYTES);
    for (int64_t i = 0; i < count; i++) p->next[i] = i + 1 < count ? (int32_t)(i + 1) : PAGES_NONE;
}

void pages_begin(paper *a, const pages *p) { *a = (paper){ p, PAGES_NONE, PAGES_NONE, 0 }; }

static void take_page(paper *a, pages *p) {
    int32_t page = p->free;
    p->free = p->next[page], p->left--;
    p->next[page] = PAGES_NONE;
    if (a->last == PAGES_NONE)
        a->first = page;
    else
        p->next[a->last] = page;
    a->last = page;
}

bool pages_add(paper *a, pages *p, const char *bytes, size_t count) {
    if (pages_for(a->count + count) - pages_for(a->count) > p->left) return false;
    while (count) {
        size_t at = a->count % PAGES_BYTES, room = PAGES_BYTES - at, some = count < room ? count : room;
        if (!at) take_page(a, p);
        memcpy(p->bytes + (uint64_t)a->last * PAGES_BYTES + at, bytes, some);
        a->count += some, bytes += some, count -= some;
    }
    return true;
}

size_t pages_read(const paper *a, uint64_t at, char *out, size_t most) {
    const pages *p = a->pool;
    if (at >= a->count) return 0;
    size_t all = a->count - at < most ? (size_t)(a->count - at) : most, done = 0;
    int32_t page = a->first;
    for (uint64_t i = at / PAGES_BYTES; i > 0; i--) page = p->next[page];
    for (size_t from = at % PAGES_BYTES; done < all; from = 0, page = p->next[page]) {
        size_t some = PAGES_BYTES - from < all - done ? PAGES_BYTES - from : all - done;
        memcpy(out + done, p->bytes + (uint64_t)page * PAGES_BYTES + from, some);
        done += some;
    }
    return done;
}

void pages_end(paper *a, pages *p) {
    if (a->first != PAGES_NONE) {
        p->next[a->last] = p->free, p->free = a->first;
        p->left += pages_for(a->count);
    }
    pages_begin(a, p);
}

static status read_at(const void *from, const char *path, uint64_t offset, void *into, uint64_t bytes) {
    (void)path;
    pages_read(from, offset, into, (size_t)bytes);
    return STATUS_OK;
}

json_source pages_source(const paper *a, const char *path, const char *what) {
    return (json_source){ .read = read_at, .from = a, .path = path, .what = what, .bytes = a->count };
}
