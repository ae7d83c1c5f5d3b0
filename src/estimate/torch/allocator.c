#include "estimate/torch/allocator.h"

#include <string.h>

#include "base/memory.h"
#include "base/units.h"

#define MIB (UINT64_C(1) << 20)

enum { MOST_BLOCKS = 1 << 22 };

typedef struct {
    uint64_t bytes, address;
    uint32_t before, after; /* neighbours in the segment; 0: none */
    uint8_t stream;
    bool small, taken;
} block;

static block *at(const allocator *a, uint32_t b) { return (block *)a->blocks.data + b; }

status allocator_open(allocator *a) {
    *a = (allocator){ 0 };
    return array_open(&a->blocks, sizeof(block), MOST_BLOCKS);
}

void allocator_close(allocator *a) {
    memory_free(a->free_blocks);
    array_close(&a->blocks);
}

/* Blocks that were joined with others, or went back to the device, are there again: nobody holds them. */
static void spare_block(allocator *a, uint32_t b) {
    *at(a, b) = (block){ .after = a->spare };
    a->spare = b;
}

static uint32_t new_block(allocator *a, const block *as) {
    uint32_t b = a->spare;
    if (b)
        a->spare = at(a, b)->after;
    else if (array_add(&a->blocks, 1, &b) != STATUS_OK)
        a->failed = true, b = 0;
    if (b) *at(a, b) = *as;
    return b;
}

/* ---- free blocks: in order of their pools, in these of their sizes, and of equal ones of their addresses
 * ---- */

static bool comes_before(const block *x, const block *y) {
    if (x->stream != y->stream) return x->stream < y->stream;
    if (x->small != y->small) return x->small;
    return x->bytes != y->bytes ? x->bytes < y->bytes : x->address < y->address;
}

/* How many of them come before such a block. */
static uint32_t place_of(const allocator *a, const block *b) {
    uint32_t low = 0, high = a->free_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (comes_before(at(a, a->free_blocks[middle]), b))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void list_free(allocator *a, uint32_t b) {
    if (a->free_count == a->room) {
        uint32_t room = a->room ? 2 * a->room : 1024,
                 *more = memory_resize(a->free_blocks, room, sizeof *more);
        if (!more) {
            a->failed = true;
            return;
        }
        a->free_blocks = more, a->room = room;
    }
    uint32_t *to = a->free_blocks + place_of(a, at(a, b));
    memmove(to + 1, to, (size_t)(a->free_blocks + a->free_count++ - to) * sizeof *to);
    *to = b;
    at(a, b)->taken = false;
}

static void unlist(allocator *a, uint32_t b) {
    uint32_t *from = a->free_blocks + place_of(a, at(a, b));
    memmove(from, from + 1, (size_t)(a->free_blocks + --a->free_count - from) * sizeof *from);
    at(a, b)->taken = true;
}

static bool is_of(const allocator *a, uint32_t b, bool small, uint8_t stream) {
    return at(a, b)->small == small && at(a, b)->stream == stream;
}

static bool is_end(const allocator *a, uint32_t b) { return a->last[at(a, b)->stream][at(a, b)->small] == b; }

/* Blocks of at least most_split are for requests of about their size. */
static bool suits(const allocator *a, uint32_t b, uint64_t bytes) {
    if (!a->most_split || at(a, b)->small) return true;
    if (bytes < a->most_split) return at(a, b)->bytes < a->most_split;
    return at(a, b)->bytes < bytes + 20 * MIB;
}

static uint32_t best(const allocator *a, uint64_t bytes, bool small, uint8_t stream) {
    uint32_t i = place_of(a, &(block){ .bytes = bytes, .small = small, .stream = stream });
    if (i == a->free_count) return 0;
    /* The end of an expandable segment counts as what it may grow to: others are taken before it. */
    bool other = i + 1 < a->free_count && is_of(a, a->free_blocks[i + 1], small, stream);
    if (a->expandable && other && is_end(a, a->free_blocks[i])) i++;
    uint32_t b = a->free_blocks[i];
    return is_of(a, b, small, stream) && suits(a, b, bytes) ? b : 0;
}

/* ---- segments ---- */

static void give_segment(allocator *a, uint32_t b) {
    uint32_t *end = &a->last[at(a, b)->stream][at(a, b)->small];
    unlist(a, b);
    if (*end == b) *end = 0;
    a->reserved -= at(a, b)->bytes;
    spare_block(a, b);
}

static bool is_whole(const allocator *a, uint32_t b) {
    return !at(a, b)->before && !at(a, b)->after && !a->keeps[at(a, b)->stream];
}

uint64_t allocator_releasable(const allocator *a) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < a->free_count; i++)
        if (is_whole(a, a->free_blocks[i])) bytes += at(a, a->free_blocks[i])->bytes;
    return bytes;
}

void allocator_release(allocator *a) {
    for (uint32_t i = a->free_count; i-- > 0;) {
        uint32_t b = a->free_blocks[i];
        if (is_whole(a, b)) give_segment(a, b);
    }
}

/* The smallest that is large enough; else the largest ones, until there is enough. */
uint64_t allocator_release_unsplit(allocator *a, uint64_t bytes, uint8_t stream, bool really) {
    uint64_t wants = units_align(bytes, 512), released = 0;
    if (wants < a->most_split) wants = a->most_split;
    uint32_t i = place_of(a, &(block){ .bytes = wants, .small = false, .stream = stream });
    if (i < a->free_count && is_of(a, a->free_blocks[i], false, stream)) {
        released = at(a, a->free_blocks[i])->bytes;
        if (really) give_segment(a, a->free_blocks[i]);
        return released;
    }
    while (i-- > 0 && released < wants) {
        uint32_t b = a->free_blocks[i];
        if (!is_of(a, b, false, stream) || at(a, b)->bytes < a->most_split) break;
        released += at(a, b)->bytes;
        if (really) give_segment(a, b);
    }
    return released;
}

/* The driver places a new segment below all others. */
static const uint64_t HIGHEST = UINT64_C(1) << 50;

static uint32_t new_segment(allocator *a, uint64_t bytes, bool small, uint8_t stream) {
    uint64_t segment = small ? 2 * MIB : bytes < 10 * MIB ? 20 * MIB : units_align(bytes, 2 * MIB);
    a->addressed = (a->addressed ? a->addressed : HIGHEST) - segment;
    uint32_t b =
        new_block(a, &(block){ .bytes = segment, .address = a->addressed, .stream = stream, .small = small });
    if (a->limit && a->reserved + segment > a->limit) allocator_release(a);
    a->reserved += segment;
    if (a->reserved > a->most) a->most = a->reserved;
    if (b) list_free(a, b);
    return b;
}

/* Where `from` was the last block of an expandable segment, `to` is, in the same one. */
static void move_end(allocator *a, uint32_t from, uint32_t to) {
    uint32_t *end = &a->last[at(a, from)->stream][at(a, from)->small];
    if (*end == from) *end = to;
}

/* The end of the only segment of that stream and kind, with room for `bytes` in one free block. */
static uint32_t grow(allocator *a, uint64_t bytes, bool small, uint8_t stream) {
    uint32_t *end = &a->last[stream][small], b = *end;
    bool joins = b && !at(a, b)->taken;
    uint64_t page = (small ? 2 : 20) * MIB, missing = bytes - (joins ? at(a, b)->bytes : 0),
             pages = (missing + page - 1) / page * page;
    uint64_t begins = b ? at(a, b)->address + at(a, b)->bytes : HIGHEST * (2u + 2u * stream + small);
    if (joins) {
        unlist(a, b);
        at(a, b)->taken = false, at(a, b)->bytes += pages;
    } else {
        uint32_t before = b;
        b = new_block(
            a, &(block){
                   .bytes = pages, .address = begins, .before = before, .stream = stream, .small = small });
        if (b && before) at(a, before)->after = b;
        if (b) *end = b;
    }
    a->reserved += pages;
    if (a->limit && a->reserved > a->limit)
        a->reserved = a->limit > a->taken + bytes ? a->limit : a->taken + bytes;
    if (a->reserved > a->most) a->most = a->reserved;
    if (b) list_free(a, b);
    return b;
}

uint32_t allocator_place(allocator *a, uint32_t before, const allocator_block *as) {
    uint32_t b = new_block(a, &(block){ .bytes = as->bytes,
                                        .address = as->address,
                                        .before = before,
                                        .stream = as->stream,
                                        .small = as->small,
                                        .taken = as->taken });
    if (!b) return 0;
    if (before) at(a, before)->after = b;
    if (a->expandable) a->last[as->stream][as->small] = b;
    if (!a->addressed) a->addressed = as->address;
    a->reserved += as->bytes;
    if (a->reserved > a->most) a->most = a->reserved;
    if (as->taken)
        a->taken += as->bytes;
    else
        list_free(a, b);
    return b;
}

static void split(allocator *a, uint32_t b, uint64_t bytes) {
    uint64_t left = at(a, b)->bytes - bytes;
    if (at(a, b)->small || a->expandable ? left < 512 : left <= MIB) return;
    if (a->most_split && !at(a, b)->small && bytes >= a->most_split) return;
    uint32_t rest = new_block(a, &(block){ .bytes = left,
                                           .address = at(a, b)->address + bytes,
                                           .before = b,
                                           .after = at(a, b)->after,
                                           .stream = at(a, b)->stream,
                                           .small = at(a, b)->small });
    if (!rest) return;
    if (at(a, b)->after) at(a, at(a, b)->after)->before = rest;
    move_end(a, b, rest);
    at(a, b)->after = rest;
    at(a, b)->bytes = bytes;
    list_free(a, rest);
}

uint32_t allocator_take(void *context, uint64_t bytes, uint8_t stream) {
    allocator *a = context;
    uint64_t rounded = units_align(bytes, 512);
    bool small = rounded <= MIB;
    uint32_t b = best(a, rounded, small, stream);
    if (!b) b = a->expandable ? grow(a, rounded, small, stream) : new_segment(a, rounded, small, stream);
    if (!b || a->failed) return 0;
    unlist(a, b);
    split(a, b, rounded);
    a->taken += at(a, b)->bytes;
    return b;
}

/* b swallows the block after it. */
static void join(allocator *a, uint32_t b) {
    uint32_t next = at(a, b)->after;
    at(a, b)->bytes += at(a, next)->bytes;
    at(a, b)->after = at(a, next)->after;
    move_end(a, next, b);
    if (at(a, b)->after) at(a, at(a, b)->after)->before = b;
    spare_block(a, next);
}

void allocator_give(void *context, uint32_t b) {
    allocator *a = context;
    if (!b || a->failed) return;
    uint32_t after = at(a, b)->after, before = at(a, b)->before;
    a->taken -= at(a, b)->bytes;
    if (after && !at(a, after)->taken) {
        unlist(a, after);
        join(a, b);
    }
    if (before && !at(a, before)->taken) {
        unlist(a, before);
        join(a, before);
        b = before;
    }
    list_free(a, b);
}
