/* An append-only array in reserved address space: it grows but never moves, so pointers into it stay
 * valid and ids are plain indexes. Index 0 is taken at opening and means "none". Where address space is
 * limited (ulimit -v) the capacity is less than was asked for, and adding fails when that is reached. */
#pragma once

#include <stdint.h>

#include "base/status.h"

typedef struct {
    void *data;
    uint32_t count, capacity, item_bytes, wanted; /* wanted: what capacity is without a limit */
} array;

status array_open(array *a, uint32_t item_bytes, uint32_t capacity);
void array_close(array *a); /* fine on a zeroed or closed array */

status array_full(const array *a); /* fails, with a sentence */

/* Adds `n` zeroed items; the index of the first goes to `*index`. Fails when the capacity is reached. */
static inline status array_add(array *a, uint32_t n, uint32_t *index) {
    *index = a->count;
    if (n > a->capacity - a->count) return array_full(a);
    a->count += n;
    return STATUS_OK;
}
