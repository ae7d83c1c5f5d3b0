/* Snappy, by libsnappy's C interface: whole blocks only, no memory of its own. */
#include "data/documents/unpack.h"

#ifdef SNUG_SNAPPY
#include <snappy-c.h>

static status whole(void *room, unpack_span *block) {
    size_t made = 0;
    (void)room;
    if (snappy_uncompressed_length((const char *)block->in, block->in_left, &made) != SNAPPY_OK)
        return status_set(STATUS_INVALID, "it is no Snappy");
    if (made > block->out_left) return status_set(STATUS_INVALID, "it unpacks to more than is said of it");
    if (snappy_uncompress((const char *)block->in, block->in_left, (char *)block->out, &made) != SNAPPY_OK)
        return status_set(STATUS_INVALID, "its Snappy is damaged");
    block->out_left -= made, block->in_left = 0;
    return unpack_finished("Snappy", block);
}

static status there(void) { return STATUS_OK; }

#else

static status there(void) { return unpack_missing("libsnappy", "libsnappy-dev"); }
static status whole(void *room, unpack_span *block) {
    (void)room, (void)block;
    return there();
}

#endif

static uint64_t need_whole(void) { return 0; }

const unpacker unpack_snappy = { .name = "Snappy", .there = there, .need_whole = need_whole, .whole = whole };
