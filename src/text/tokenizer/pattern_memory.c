#include "text/tokenizer/pattern_memory.h"

#include "base/memory.h"

enum { LEAD = 16 };

void pattern_memory_count(pattern_memory *memory, uint64_t bytes) {
    memory->held += bytes;
    if (memory->held > memory->most) memory->most = memory->held;
}

void *pattern_memory_new(size_t bytes, void *memory) {
    char *block = memory_room(1, bytes + LEAD);
    if (!block) return NULL;
    *(size_t *)(void *)block = bytes + LEAD;
    pattern_memory_count(memory, bytes + LEAD);
    return block + LEAD;
}

void pattern_memory_free(void *block, void *memory) {
    if (!block) return;
    char *lead = (char *)block - LEAD;
    ((pattern_memory *)memory)->held -= *(size_t *)(void *)lead;
    memory_free(lead);
}
