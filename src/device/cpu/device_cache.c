/* The caches of the CPU, as far as a program has a say in what is in them. */
#include "device/device.h"

#if defined(__x86_64__)
#include <immintrin.h>

enum { LINE = 64 };

bool device_cache_drop(const void *data, uint64_t bytes) {
    for (uint64_t at = 0; at < bytes; at += LINE) _mm_clflush((const char *)data + at);
    _mm_mfence();
    return true;
}
#else
bool device_cache_drop(const void *data, uint64_t bytes) {
    (void)data, (void)bytes;
    return false;
}
#endif
