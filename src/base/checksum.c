/* The code of xxHash is in its header, and compiled here. */
#define XXH_INLINE_ALL
#include "base/checksum.h"

checksum checksum_begin(void) {
    checksum c;
    XXH64_reset(&c, 0);
    return c;
}

void checksum_add(checksum *c, const void *data, uint64_t bytes) {
    if (bytes) XXH64_update(c, data, bytes);
}

uint64_t checksum_value(const checksum *c) { return XXH64_digest(c); }
