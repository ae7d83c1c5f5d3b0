/* What patterns take, counted: each block is led by its size. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* What patterns hold and held at most, in bytes. */
typedef struct {
    uint64_t held, most;
} pattern_memory;

/* As PCRE2 calls them; `memory` is a pattern_memory. NULL: there is none. */
void *pattern_memory_new(size_t bytes, void *memory);
void pattern_memory_free(void *block, void *memory); /* NULL is fine */
/* For what someone else took. */
void pattern_memory_count(pattern_memory *memory, uint64_t bytes);
