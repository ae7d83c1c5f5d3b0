#include "device/device_shapes.h"

#include <math.h>

void device_shapes_add(device_shapes *s, const device_shape *x) {
    if (s->count < DEVICE_SHAPES) s->of[s->count++] = *x;
}

static bool is_alike(const device_shape *a, const device_shape *b) {
    return a->work == b->work && a->half == b->half && a->by_library == b->by_library &&
           (a->by_library || a->tensor == b->tensor);
}

/* Arithmetic of the multiprocessor that has the most tiles. */
static double most_of(const device_shapes *s, const device_shape *x) {
    double multiprocessors = s->multiprocessors > 0 ? s->multiprocessors : 1;
    return ceil(x->tiles / multiprocessors) * x->flops / x->tiles;
}

/* What was measured around a place: the nearest that is not above it, and the nearest above. Where two were
 * measured at one place, or a larger one took less, the longer time counts. */
typedef struct {
    double most, seconds; /* 0: there is none */
} measured;
typedef struct {
    measured below, above;
    double filling; /* the smallest that gives tiles to all multiprocessors; HUGE_VAL: none does */
} around;

static around look(const device_shapes *s, const device_shape *asked) {
    around a = { .filling = HUGE_VAL };
    double at = most_of(s, asked);
    for (int i = 0; i < s->count; i++) {
        const device_shape *x = &s->of[i];
        double most = most_of(s, x);
        if (!is_alike(x, asked)) continue;
        if (x->tiles >= s->multiprocessors) a.filling = fmin(a.filling, most);
        if (most <= at && most >= a.below.most) a.below.most = most;
        if (most > at && (a.above.most <= 0 || most < a.above.most)) a.above.most = most;
    }
    for (int i = 0; i < s->count; i++) {
        const device_shape *x = &s->of[i];
        double most = most_of(s, x);
        if (!is_alike(x, asked)) continue;
        if (most <= a.below.most) a.below.seconds = fmax(a.below.seconds, x->seconds);
        if (most <= a.above.most) a.above.seconds = fmax(a.above.seconds, x->seconds);
    }
    return a;
}

/* Below all that was measured a call takes as long as the smallest of them: what one tile waits for. */
double device_shapes_seconds(const device_shapes *s, const device_shape *asked) {
    if (asked->tiles <= 0 || asked->flops <= 0 || !s->count) return 0;
    around a = look(s, asked);
    double at = most_of(s, asked);
    if (isinf(a.filling)) return 0;
    if (a.above.most <= 0) return a.below.seconds * at / a.below.most;
    if (a.below.most <= 0) return a.above.seconds;
    double part = log(at / a.below.most) / log(a.above.most / a.below.most);
    return a.below.seconds * pow(a.above.seconds / a.below.seconds, part);
}
