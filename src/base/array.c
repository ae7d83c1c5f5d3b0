#include "base/array.h"

#include "base/memory.h"

status array_open(array *a, uint32_t item_bytes, uint32_t capacity) {
    *a = (array){ .count = 1, .capacity = capacity, .item_bytes = item_bytes };
    a->data = memory_reserve((size_t)item_bytes * capacity);
    if (!a->data)
        return status_set(STATUS_FAILED,
                          "cannot reserve %zu bytes of address space; raise the limit (ulimit -v)",
                          (size_t)item_bytes * capacity);
    return STATUS_OK;
}

void array_close(array *a) {
    memory_release(a->data, (size_t)a->item_bytes * a->capacity, (size_t)a->item_bytes * a->count);
    *a = (array){ 0 };
}

status array_full(const array *a) {
    return status_set(STATUS_FAILED, "the graph is too large: more than %u items", a->capacity);
}
