#include "base/finite.h"

#include <string.h>

#include "base/vector.h"

/* A number is not finite where all bits of its exponent are set. These are looked at as integers, a block at
 * a time, so that the loops become vectors. */
enum { BLOCK = 1024 };

typedef struct {
    uint32_t bytes;
    uint64_t exponent;
} layout;

static layout layout_of(dtype type) {
    switch (type) {
    case DTYPE_F32: return (layout){ 4, 0x7f800000u };
    case DTYPE_F64: return (layout){ 8, 0x7ff0000000000000u };
    case DTYPE_F16: return (layout){ 2, 0x7c00u };
    case DTYPE_BF16: return (layout){ 2, 0x7f80u };
    default: return (layout){ 0 };
    }
}

VECTOR_CLONES static bool any_of_16(const char *x, int64_t n, uint16_t exponent) {
    uint16_t found = 0;
    for (int64_t i = 0; i < n; i++) {
        uint16_t bits;
        memcpy(&bits, x + 2 * i, sizeof bits);
        found |= (bits & exponent) == exponent;
    }
    return found;
}

VECTOR_CLONES static bool any_of_32(const char *x, int64_t n, uint32_t exponent) {
    uint32_t found = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + 4 * i, sizeof bits);
        found |= (bits & exponent) == exponent;
    }
    return found;
}

VECTOR_CLONES static bool any_of_64(const char *x, int64_t n, uint64_t exponent) {
    uint64_t found = 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits;
        memcpy(&bits, x + 8 * i, sizeof bits);
        found |= (bits & exponent) == exponent;
    }
    return found;
}

static bool any(const layout *l, const char *x, int64_t n) {
    if (l->bytes == 2) return any_of_16(x, n, (uint16_t)l->exponent);
    if (l->bytes == 4) return any_of_32(x, n, (uint32_t)l->exponent);
    return any_of_64(x, n, l->exponent);
}

int64_t finite_find(dtype type, const void *x, int64_t n) {
    layout l = layout_of(type);
    if (!l.bytes) return -1;
    for (int64_t first = 0; first < n; first += BLOCK) {
        int64_t count = n - first < BLOCK ? n - first : BLOCK;
        const char *block = (const char *)x + first * l.bytes;
        if (!any(&l, block, count)) continue;
        for (int64_t i = 0; i < count; i++)
            if (any(&l, block + i * l.bytes, 1)) return first + i;
    }
    return -1;
}
