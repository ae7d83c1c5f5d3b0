/* A running checksum of the bytes of a file: XXH64 with seed 0, by xxHash's library. `xxh64sum FILE` prints
 * the same 16 digits, so a checkpoint can be checked without snug. It notices damage, and is no protection
 * against malice. base/digest.h has what earlier versions used instead, and what marks a run's data and
 * model. */
#pragma once

#include <stdint.h>

#define XXH_STATIC_LINKING_ONLY /* the state's size; nothing is linked */
#include <xxhash.h>

typedef XXH64_state_t checksum;

checksum checksum_begin(void);
void checksum_add(checksum *c, const void *data, uint64_t bytes);
uint64_t checksum_value(const checksum *c);
