/* A number for some bytes, eight at a time: for tables in memory, which nobody keeps. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t hash_mix(uint64_t h, uint64_t word) {
    h = (h ^ word) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 32;
}

static inline uint64_t hash_pair(uint32_t left, uint32_t right) {
    return hash_mix(0x243f6a8885a308d3u, (uint64_t)left << 32 | right);
}

static inline uint64_t hash_words(const char *bytes, size_t count) {
    uint64_t h = 0x243f6a8885a308d3u ^ count, word;
    for (; count >= 8; bytes += 8, count -= 8) {
        memcpy(&word, bytes, 8);
        h = hash_mix(h, word);
    }
    word = 0;
    memcpy(&word, bytes, count);
    h = hash_mix(h, word);
    return h ^ h >> 29;
}
