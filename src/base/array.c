#include "base/array.h"

#include <stdbool.h>

#include "base/memory.h"

/* Less than this no array is made for: it is what the smallest model's graphs take. */
enum { LEAST_BYTES = 256 << 10 };

static bool reserve(array *a, uint32_t capacity) {
    a->capacity = capacity;
    a->data = memory_reserve((size_t)a->item_bytes * capacity);
    return a->data != NULL;
}

status array_open(array *a, uint32_t item_bytes, uint32_t capacity) {
    *a = (array){ .count = 1, .item_bytes = item_bytes, .wanted = capacity };
    size_t all = (size_t)item_bytes * capacity, least = all < LEAST_BYTES ? all : LEAST_BYTES,
           bytes = memory_reserve_share(all, least);
    while (!reserve(a, (uint32_t)(bytes / item_bytes)))
        if ((bytes /= 2) < least)
            return status_set(STATUS_FAILED,
                              "cannot reserve %zu bytes of address space; raise the limit (ulimit -v)",
                              least);
    return STATUS_OK;
}

void array_close(array *a) {
    memory_release(a->data, (size_t)a->item_bytes * a->capacity, (size_t)a->item_bytes * a->count);
    *a = (array){ 0 };
}

status array_full(const array *a) {
    if (a->capacity < a->wanted)
        return status_set(STATUS_FAILED,
                          "the model's graph has more than the %u items that the limit on address space "
                          "leaves room for; raise it (ulimit -v)",
                          a->capacity);
    return status_set(STATUS_INVALID, "the graph is too large: more than %u items", a->capacity);
}
