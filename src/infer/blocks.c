#include "infer/blocks.h"

#include "base/memory.h"

uint64_t blocks_bytes(int64_t count) { return (uint64_t)count * sizeof(int32_t); }

status blocks_open(int64_t count, blocks *b) {
    *b = (blocks){ .free = memory_new((size_t)count, sizeof *b->free), .count = count, .left = count };
    if (!b->free) return status_set(STATUS_FAILED, "no memory for a list of %lld blocks", (long long)count);
    for (int64_t i = 0; i < count; i++) b->free[i] = (int32_t)(count - 1 - i);
    return STATUS_OK;
}

void blocks_close(blocks *b) {
    memory_free(b->free);
    *b = (blocks){ 0 };
}

void blocks_take(blocks *b, int32_t *line, int64_t at, int64_t n) {
    for (int64_t i = 0; i < n; i++) line[at + i] = b->free[--b->left];
}

void blocks_give(blocks *b, const int32_t *line, int64_t n) {
    for (int64_t i = n; i-- > 0;) b->free[b->left++] = line[i];
}
