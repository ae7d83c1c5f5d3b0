/* A weight of a model as files and initial values see it: numbers in f32, put and got part by part, wherever
 * they lie and in whatever type they are held. */
#pragma once

#include <stdbool.h>

#include "base/dtype.h"
#include "base/shape.h"
#include "base/status.h"

/* How what is not in memory is reached: `view` gets the bytes from `first` on, some or all of them, no more
 * than *bytes says, into memory that lasts until the next call; `room` the memory that they are to be written
 * to, `put` says that they are there. `here`: is what is written there kept, or has another rank that byte?
 * NULL: all is. `which` is their own. */
typedef struct {
    status (*view)(void *context, const void *which, uint64_t first, void **data, uint64_t *bytes);
    status (*room)(void *context, const void *which, uint64_t first, void **data, uint64_t *bytes);
    status (*put)(void *context, const void *which, uint64_t first, void *data, uint64_t bytes);
    bool (*here)(void *context, const void *which, uint64_t first);
} weight_parts;

typedef struct {
    const char *name;
    shape shape;
    void *data; /* all of it, where that is the caller's own memory; NULL: it is reached by parts */
    dtype
        type; /* f32, f16 or bf16; or i8 or u8: codes, whose scales are a weight of their own (ops/codes.h) */
    bool by_rows;      /* i8: a scale for each row; else for each column */
    bool panels;       /* u8: codes as ops/codes4.h has them, of a matrix that lies as (out, in) in files of
                          floats where by_rows, else as (in, out) */
    bool side_by_side; /* parts of such weights may be written by several threads at once */
    const weight_parts *parts;
    void *context;
    const void *which;
    uint64_t first; /* byte of that at which the weight begins: others may lie there as well */
} model_weight;

/* Numbers at a time: where each call but the last brings so many, or a multiple, any weight can take them. */
enum { WEIGHT_PART = 4096 };

/* Numbers first .. first + n - 1 of a weight, as it would list them; narrower types round to the nearest. */
status weight_put(const model_weight *w, int64_t first, const float *x, int64_t n);
status weight_get(const model_weight *w, int64_t first, int64_t n, float *x);

/* Bytes as the weight holds them. weight_view: those from byte `first` on, some or all, until the next call.
 * weight_room: where those from byte `first` on are to be written, as many as
 * there is room for; weight_placed: so many are there. weight_put_bytes: copies all of them. */
status weight_view(const model_weight *w, uint64_t first, void **data, uint64_t *bytes);
status weight_room(const model_weight *w, uint64_t first, void **data, uint64_t *bytes);
status weight_placed(const model_weight *w, uint64_t first, void *data, uint64_t bytes);
status weight_put_bytes(const model_weight *w, uint64_t first, const void *from, uint64_t bytes);

/* Of what ranks share: have others all of these bytes, which lie in two ranks' parts at most? Then nobody
 * needs to read or make them here. */
static inline bool weight_is_elsewhere(const model_weight *w, uint64_t first, uint64_t bytes) {
    uint64_t begin = w->first + first;
    return !w->data && w->parts->here && !w->parts->here(w->context, w->which, begin) &&
           !w->parts->here(w->context, w->which, begin + bytes - 1);
}

static inline uint64_t weight_bytes(const model_weight *w) {
    return (uint64_t)shape_elements(&w->shape) * dtype_bytes(w->type);
}
