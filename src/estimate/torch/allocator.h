/* PyTorch's caching allocator, on sizes: what it holds of the device for a sequence of requests.
 *
 * Its rules, as documented with c10/cuda/CUDACachingAllocator: requests are rounded up to 512 bytes; those of
 * at most 1 MiB share segments of 2 MiB; larger ones below 10 MiB come from segments of 20 MiB, others get
 * segments of their own, rounded up to 2 MiB. A request takes the smallest free block that is large enough,
 * of equal ones that with the lowest address (later segments are taken to lie higher), and splits it where
 * enough is left (512 bytes of small ones, more than 1 MiB of large ones). Freed blocks join free neighbours;
 * a block is of the stream that asked for its segment, and no other takes it; segments stay, until the device
 * has no more: then those that are free as a whole are given back, and it is tried again.
 *
 * expandable_segments (PyTorch's notes on CUDA semantics, "Optimizing memory usage"): one segment for each
 * stream and kind, which grows at its end by pages of 20 MiB, of small requests 2 MiB. Pages that are free
 * can be given back one by one, so a full device reserves what is taken.
 *
 * max_split_size_mb (the same notes): a block of at least so much is not split, serves no smaller request,
 * and a larger one only where at most 20 MiB are left over. Where the device is full such blocks go back
 * first. */
#pragma once

#include <stdbool.h>

#include "base/array.h"
#include "base/status.h"

enum { ALLOCATOR_STREAMS = 256 };

typedef struct {
    array blocks;
    uint32_t *free_blocks, free_count, room;
    uint32_t spare;          /* the first of blocks that are none any more */
    uint64_t reserved, most; /* now; at most so far */
    uint64_t limit;          /* what the device has; 0: no end */
    uint64_t addressed;      /* by segments so far; where the next one begins */
    bool expandable;         /* expandable_segments */
    uint64_t taken;          /* bytes of blocks that somebody has */
    uint64_t most_split;     /* max_split_size_mb, in bytes; 0: none */
    /* Of expandable segments: the last block of each stream's, large and small. */
    uint32_t last[ALLOCATOR_STREAMS][2];
    bool keeps[ALLOCATOR_STREAMS]; /* a stream's segments are not given back: a CUDA graph's pool has them */
    bool failed;
} allocator;

status allocator_open(allocator *a);
void allocator_close(allocator *a);
uint32_t allocator_take(void *a, uint64_t bytes, uint8_t stream); /* as tape_listener wants them */
void allocator_give(void *a, uint32_t block);
/* A block of a segment that is there before anything is asked for. `before` is the one in front of it, 0
 * where the segment begins with it. Segments are placed from the lowest address on. Later ones come below
 * them. */
typedef struct {
    uint64_t address, bytes;
    uint8_t stream;
    bool small, taken;
} allocator_block;
uint32_t allocator_place(allocator *a, uint32_t before, const allocator_block *as);
/* With max_split_size_mb, of a request that found no room: gives back what is not split, or, without
 * `really`, says how many bytes these are. */
uint64_t allocator_release_unsplit(allocator *a, uint64_t bytes, uint8_t stream, bool really);
/* Bytes that allocator_release would give back. */
uint64_t allocator_releasable(const allocator *a);
/* Gives back all segments that are free as a whole, as torch.cuda.empty_cache() does. */
void allocator_release(allocator *a);
