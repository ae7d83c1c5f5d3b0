/* Dimensions of a tensor, row-major. Sizes are checked for overflow when a shape enters the graph, so
 * products of dimensions are safe afterwards. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { SHAPE_MAX_RANK = 4 };

typedef struct shape {
    int64_t dim[SHAPE_MAX_RANK];
    uint32_t rank;
} shape;

#define SHAPE(...)                                                                                           \
    ((shape){ .dim = { __VA_ARGS__ },                                                                        \
              .rank = (uint32_t)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)) })

static inline int64_t shape_elements(const shape *s) {
    int64_t n = 1;
    for (uint32_t i = 0; i < s->rank; i++) n *= s->dim[i];
    return n;
}

/* A tensor seen as a matrix (rows, last): `last` is the last dimension, `rows` all the others. */
static inline int64_t shape_last(const shape *s) { return s->rank ? s->dim[s->rank - 1] : 1; }
static inline int64_t shape_rows(const shape *s) {
    int64_t n = 1;
    for (uint32_t i = 0; i + 1 < s->rank; i++) n *= s->dim[i];
    return n;
}
/* Without the last dimension: a number for each row. */
static inline shape shape_of_rows(const shape *s) {
    shape rows = *s;
    if (rows.rank > 1)
        rows.rank--;
    else
        rows.dim[0] = 1, rows.rank = 1;
    return rows;
}

static inline bool shape_equal(const shape *a, const shape *b) {
    if (a->rank != b->rank) return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i]) return false;
    return true;
}

/* Every dimension in 1 .. 2^31-1 and the bytes below 2^47. */
bool shape_valid(const shape *s, uint32_t item_bytes);

/* "(4,256,768)" into `text`; returns `text`. */
enum { SHAPE_TEXT_BYTES = 64 };
const char *shape_text(const shape *s, char text[SHAPE_TEXT_BYTES]);
