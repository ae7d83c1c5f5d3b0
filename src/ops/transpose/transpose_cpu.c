#include <string.h>

#include "ops/fast.h"
#include "ops/reference.h"
#include "ops/transpose/transpose.h"
#include "ops/transpose/transpose_math.h"

/* Row r of y, counted over (outer, second, between), has `first` runs of `inner` numbers: the place in x of
 * run 0. The others are step_of apart. */
static int64_t place_of(const transpose_sizes *s, int64_t r) {
    int64_t b = r % s->between, j = r / s->between % s->second, o = r / s->between / s->second;
    return ((o * s->first * s->between + b) * s->second + j) * s->inner;
}

static int64_t step_of(const transpose_sizes *s) { return s->between * s->second * s->inner; }

static transpose_sizes sizes_of(const op_call *c) {
    return transpose_sizes_of(&c->in[0].shape, c->attributes);
}

static int64_t rows_of(const transpose_sizes *s) { return s->outer * s->second * s->between; }

static void transpose_reference(const op_call *c) {
    transpose_sizes s = sizes_of(c);
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++) {
        int64_t k = i % s.inner, run = i / s.inner % s.first, r = i / s.inner / s.first;
        reference_set(&c->out[0], i, reference_get(op_in(c, 0), place_of(&s, r) + run * step_of(&s) + k));
    }
}

/* Bytes are moved as they are. Rows of y that lie beside each other read neighbours, so some are made
 * together: what a line of x holds is used while it is in the first cache. */
enum { TOGETHER = 16 };

static void copy_bytes(const transpose_sizes *s, const op_call *c, int64_t row, int64_t count) {
    size_t item = dtype_bytes(c->in[0].dtype), run = (size_t)s->inner * item;
    const char *x = c->in[0].data;
    char *y = c->out[0].data;
    for (int64_t i = 0; i < s->first; i++)
        for (int64_t r = row; r < row + count; r++)
            memcpy(y + (size_t)(r * s->first + i) * run, x + (size_t)(place_of(s, r) + i * step_of(s)) * item,
                   run);
}

static void copy_floats(const transpose_sizes *s, const op_call *c, int64_t row, int64_t count) {
    const float *from[TOGETHER], *x = c->in[0].data;
    float *y = (float *)c->out[0].data + row * s->first;
    for (int64_t r = 0; r < count; r++) from[r] = x + place_of(s, row + r);
    for (int64_t i = 0; i < s->first; i++)
        for (int64_t r = 0; r < count; r++) y[r * s->first + i] = from[r][i * step_of(s)];
}

static void copy_rows(const op_call *c, int64_t first, int64_t last) {
    transpose_sizes s = sizes_of(c);
    bool floats = s.inner == 1 && c->in[0].dtype == DTYPE_F32;
    for (int64_t row = first; row < last; row += TOGETHER) {
        int64_t count = last - row < TOGETHER ? last - row : TOGETHER;
        if (floats)
            copy_floats(&s, c, row, count);
        else
            copy_bytes(&s, c, row, count);
    }
}

static void transpose_copy(const op_call *c) {
    transpose_sizes s = sizes_of(c);
    int64_t rows = fast_rows(s.first * s.inner);
    fast_for(c, rows_of(&s), rows < TOGETHER ? TOGETHER : rows, copy_rows);
}

const op_kernel transpose_cpu[] = { { "transpose_cpu_copy", NULL, NULL, transpose_copy },
                                    { "transpose_reference", NULL, NULL, transpose_reference },
                                    { 0 } };
