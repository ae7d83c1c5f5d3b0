#include "infer/blocks.h"

#include <string.h>

#include "base/memory.h"

/* A power of two. */
static int64_t buckets_of(int64_t count) {
    int64_t n = 1;
    while (n < count) n *= 2;
    return n;
}

uint64_t blocks_bytes(int64_t count) {
    return (uint64_t)count * sizeof(blocks_one) + (uint64_t)buckets_of(count) * sizeof(int32_t);
}

static void set_free(blocks *b, int32_t number) {
    b->all[number].next = b->first_free;
    b->first_free = number, b->free++;
}

status blocks_open(int64_t count, blocks *b) {
    *b = (blocks){ .count = count, .bucket_count = buckets_of(count) };
    b->all = memory_new((size_t)count, sizeof *b->all);
    b->buckets = memory_new((size_t)b->bucket_count, sizeof *b->buckets);
    if (!b->all || !b->buckets)
        return status_set(STATUS_FAILED, "no memory for a list of %lld blocks", (long long)count);
    b->first_free = b->oldest = b->newest = BLOCKS_NONE;
    for (int64_t i = 0; i < b->bucket_count; i++) b->buckets[i] = BLOCKS_NONE;
    for (int64_t i = count; i-- > 0;) set_free(b, (int32_t)i);
    return STATUS_OK;
}

void blocks_close(blocks *b) {
    memory_free(b->all);
    memory_free(b->buckets);
    *b = (blocks){ 0 };
}

/* ---- those that are known ---- */

static uint64_t mixed(uint64_t hash, uint64_t with) {
    hash = (hash ^ with) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

static int32_t *bucket_of(const blocks *b, uint64_t before, uint64_t owner, const int32_t *ids) {
    uint64_t hash = mixed(mixed(0, before), owner);
    for (int i = 0; i < CACHE_BLOCK; i++) hash = mixed(hash, (uint32_t)ids[i]);
    return &b->buckets[hash & (uint64_t)(b->bucket_count - 1)];
}

int32_t blocks_find(const blocks *b, uint64_t before, uint64_t owner, const int32_t ids[CACHE_BLOCK]) {
    int32_t i = *bucket_of(b, before, owner, ids);
    for (; i != BLOCKS_NONE; i = b->all[i].bucket_next) {
        const blocks_one *x = &b->all[i];
        if (x->before == before && x->owner == owner && memcmp(x->ids, ids, sizeof x->ids) == 0) break;
    }
    return i;
}

uint64_t blocks_know(blocks *b, int32_t number, uint64_t before, uint64_t owner,
                     const int32_t ids[CACHE_BLOCK]) {
    blocks_one *x = &b->all[number];
    if (x->chain) return x->chain;
    int32_t same = blocks_find(b, before, owner, ids), *bucket = bucket_of(b, before, owner, ids);
    if (same != BLOCKS_NONE) return b->all[same].chain;
    memcpy(x->ids, ids, sizeof x->ids);
    x->before = before, x->owner = owner, x->chain = ++b->chains;
    x->bucket_next = *bucket, *bucket = number;
    return x->chain;
}

void blocks_forget(blocks *b, int32_t number) {
    blocks_one *x = &b->all[number];
    if (!x->chain) return;
    int32_t *at = bucket_of(b, x->before, x->owner, x->ids);
    while (*at != number) at = &b->all[*at].bucket_next;
    *at = x->bucket_next;
    x->chain = 0;
}

/* ---- those that are kept, in the order in which they were given up ---- */

static void keep(blocks *b, int32_t number) {
    blocks_one *x = &b->all[number];
    x->previous = b->newest, x->next = BLOCKS_NONE;
    *(b->newest == BLOCKS_NONE ? &b->oldest : &b->all[b->newest].next) = number;
    b->newest = number, b->kept++;
}

static void keep_no_more(blocks *b, int32_t number) {
    const blocks_one *x = &b->all[number];
    *(x->previous == BLOCKS_NONE ? &b->oldest : &b->all[x->previous].next) = x->next;
    *(x->next == BLOCKS_NONE ? &b->newest : &b->all[x->next].previous) = x->previous;
    b->kept--;
}

/* ---- use ---- */

int32_t blocks_take(blocks *b) {
    int32_t number = b->first_free;
    if (number != BLOCKS_NONE) {
        b->first_free = b->all[number].next, b->free--;
    } else {
        number = b->oldest;
        keep_no_more(b, number);
        blocks_forget(b, number);
    }
    b->all[number].users = 1;
    return number;
}

void blocks_use(blocks *b, int32_t number) {
    if (!b->all[number].users++) keep_no_more(b, number);
}

void blocks_renew(blocks *b, int32_t number) {
    const blocks_one *x = &b->all[number];
    if (x->users || !x->chain) return;
    keep_no_more(b, number);
    keep(b, number);
}

void blocks_give(blocks *b, int32_t number) {
    blocks_one *x = &b->all[number];
    if (--x->users) return;
    if (x->chain)
        keep(b, number);
    else
        set_free(b, number);
}
