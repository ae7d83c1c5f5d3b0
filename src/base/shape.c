#include "base/shape.h"

#include <stdio.h>

bool shape_valid(const shape *s, uint32_t item_bytes) {
    if (s->rank == 0 || s->rank > SHAPE_MAX_RANK) return false;
    int64_t bytes = item_bytes;
    for (uint32_t i = 0; i < s->rank; i++) {
        if (s->dim[i] < 1 || s->dim[i] > INT32_MAX) return false;
        if (__builtin_mul_overflow(bytes, s->dim[i], &bytes)) return false;
    }
    return bytes < (int64_t)1 << 47;
}

const char *shape_text(const shape *s, char text[SHAPE_TEXT_BYTES]) {
    int n = snprintf(text, SHAPE_TEXT_BYTES, "(");
    for (uint32_t i = 0; i < s->rank; i++)
        n += snprintf(text + n, (size_t)(SHAPE_TEXT_BYTES - n), i ? ",%lld" : "%lld", (long long)s->dim[i]);
    snprintf(text + n, (size_t)(SHAPE_TEXT_BYTES - n), ")");
    return text;
}
