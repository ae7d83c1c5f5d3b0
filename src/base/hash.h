/* FNV-1a: a name or some bytes as a number that stays the same, for streams of random numbers, tables and
 * names of files. It keeps nobody from making two texts with one number; base/digest.h makes that unlikely by
 * chance. */
#pragma once

#include <stddef.h>
#include <stdint.h>

static inline uint32_t hash_bytes(const void *bytes, size_t count) {
    const uint8_t *b = (const uint8_t *)bytes;
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < count; i++) hash = (hash ^ b[i]) * 16777619u;
    return hash;
}

static inline uint32_t hash_name(const char *name) {
    uint32_t hash = 2166136261u;
    for (; *name; name++) hash = (hash ^ (uint8_t)*name) * 16777619u;
    return hash;
}

static inline uint64_t hash_name_wide(const char *name) {
    uint64_t hash = 14695981039346656037u;
    for (; *name; name++) hash = (hash ^ (uint8_t)*name) * 1099511628211u;
    return hash;
}
