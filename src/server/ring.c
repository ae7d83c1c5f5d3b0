#include "server/ring.h"

#include <string.h>

void ring_write(ring *r, const char *bytes, size_t count) {
    size_t end = (r->begin + r->count) % r->size, first = r->size - end < count ? r->size - end : count;
    memcpy(r->bytes + end, bytes, first);
    memcpy(r->bytes, bytes + first, count - first);
    r->count += count;
}

size_t ring_read(ring *r, char *out, size_t most) {
    size_t count = most < r->count ? most : r->count;
    size_t first = r->size - r->begin < count ? r->size - r->begin : count;
    memcpy(out, r->bytes + r->begin, first);
    memcpy(out + first, r->bytes, count - first);
    r->begin = (r->begin + count) % r->size, r->count -= count;
    return count;
}
