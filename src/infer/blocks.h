/* Which blocks of a cache texts have, and which of the others still hold what somebody may ask for again.
 * Blocks are numbers; what is in them is known here as ids alone.
 *
 * A block is used, by as many texts as have it in their lines, or kept, or free. Full ones can be made known:
 * by their ids, those of an owner, behind a chain of known ones. A chain is named by a number that is never
 * given again, so that who finds a block by (chain before it, owner, ids) has compared every id from the
 * beginning of the text on; a hash only says where to look. Kept blocks count as free: where no other is
 * left, the one that was given up first is taken. Texts give up their last block first, so what is at the
 * beginning of texts stays longest. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "ops/cache_write/cache_write.h"

enum { BLOCKS_NONE = -1 };

typedef struct {
    int32_t ids[CACHE_BLOCK];
    uint64_t chain;         /* that ends with it; 0: it is not known */
    uint64_t before, owner; /* of a known one */
    int16_t users, stayers; /* stayers: the caller's, of whom it is that use it */
    int32_t next, previous; /* of kept ones; next of free ones */
    int32_t bucket_next;    /* of known ones */
} blocks_one;

typedef struct {
    blocks_one *all;
    int32_t *buckets; /* of known ones: the first */
    int64_t count, bucket_count;
    int64_t free, kept;
    int32_t first_free, oldest, newest; /* of the kept */
    uint64_t chains;                    /* that were given */
} blocks;

status blocks_open(int64_t count, blocks *b);
void blocks_close(blocks *b);
uint64_t blocks_bytes(int64_t count); /* that it holds */

static inline int64_t blocks_left(const blocks *b) { return b->free + b->kept; }
/* A block that nothing is known of, for one user; one must be left. */
int32_t blocks_take(blocks *b);
/* One more user, of a used or kept block; and one less. */
void blocks_use(blocks *b, int32_t number);
void blocks_give(blocks *b, int32_t number);
/* A kept block stays as long as if it were given up now. */
void blocks_renew(blocks *b, int32_t number);

/* The chain before the first block of a text is 0. */
int32_t blocks_find(const blocks *b, uint64_t before, uint64_t owner, const int32_t ids[CACHE_BLOCK]);
/* A used block becomes known, if it is not. Returns the chain that ends with these ids: where another block
 * is known by them already, that one's, and this one stays unknown. */
uint64_t blocks_know(blocks *b, int32_t number, uint64_t before, uint64_t owner,
                     const int32_t ids[CACHE_BLOCK]);
void blocks_forget(blocks *b, int32_t number); /* a used one; nothing where it is not known */
