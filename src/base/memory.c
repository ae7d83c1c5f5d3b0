#include "base/memory.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

void *memory_new(size_t count, size_t size) { return calloc(count ? count : 1, size ? size : 1); }

void *memory_resize(void *block, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) return NULL;
    return realloc(block, bytes ? bytes : 1);
}

char *memory_text(const char *text) { return strdup(text); }

void memory_free(void *block) { free(block); }

void *memory_reserve(size_t bytes) {
    void *block =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return block == MAP_FAILED ? NULL : block;
}

void memory_release(void *block, size_t bytes) {
    if (block) munmap(block, bytes);
}

void memory_trim(void) { malloc_trim(0); }
