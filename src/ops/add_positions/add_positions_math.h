/* Where the rows of the table of add_positions.h stand. */
#pragma once

#include "base/vector.h"
#include "ops/add_positions/add_positions.h"

/* Time t is at row first + t * step. */
typedef struct {
    int64_t first, step;
} add_positions_place;

/* `offset` may be NULL. */
VECTOR_INLINE add_positions_place add_positions_place_of(const add_positions_attributes *at,
                                                         const int32_t *offset) {
    add_positions_place p = { at->first, 0 };
    if (!at->still) p.first += offset ? *offset : 0, p.step = 1;
    return p;
}

/* The nearest row of the table. */
VECTOR_INLINE int64_t add_positions_row(const add_positions_place *p, int64_t t, int64_t rows) {
    int64_t position = p->first + t * p->step;
    if (position < 0) return 0;
    return position < rows ? position : rows - 1;
}

/* The times that a row of the table gets its gradient from: from `from` up to `end`. */
typedef struct {
    int64_t from, end;
} add_positions_span;

VECTOR_INLINE add_positions_span add_positions_times(const add_positions_place *p, int64_t row,
                                                     int64_t times) {
    int64_t t = row - p->first;
    add_positions_span none = { 0, 0 }, all = { 0, times }, one = { t, t + 1 };
    if (!p->step) return t == 0 ? all : none;
    return t >= 0 && t < times ? one : none;
}
