#include "models/weight.h"

#include <string.h>

#include "base/half.h"

/* Some of a weight's bytes; `part` is where they are, or what brings them there. */
static status reach(const model_weight *w,
                    status (*part)(void *, const void *, uint64_t, void **, uint64_t *), uint64_t first,
                    void **data, uint64_t *bytes) {
    if (!w->data) return part(w->context, w->which, first, data, bytes);
    *data = (char *)w->data + first;
    *bytes = weight_bytes(w) - first;
    return STATUS_OK;
}

status weight_put(const model_weight *w, int64_t first, const float *x, int64_t n) {
    uint64_t each = dtype_bytes(w->type);
    while (n > 0) {
        void *to;
        uint64_t room;
        TRY(reach(w, w->parts ? w->parts->room : NULL, (uint64_t)first * each, &to, &room));
        int64_t now = (uint64_t)n * each < room ? n : (int64_t)(room / each);
        if (dtype_is_half(w->type))
            half_narrow(w->type, x, now, to);
        else
            memcpy(to, x, (size_t)now * sizeof *x);
        if (!w->data)
            TRY(w->parts->put(w->context, w->which, (uint64_t)first * each, to, (uint64_t)now * each));
        first += now, x += now, n -= now;
    }
    return STATUS_OK;
}

status weight_get(const model_weight *w, int64_t first, int64_t n, float *x) {
    uint64_t each = dtype_bytes(w->type);
    while (n > 0) {
        void *from;
        uint64_t held;
        TRY(reach(w, w->parts ? w->parts->view : NULL, (uint64_t)first * each, &from, &held));
        int64_t now = (uint64_t)n * each < held ? n : (int64_t)(held / each);
        if (dtype_is_half(w->type))
            half_widen(w->type, from, now, x);
        else
            memcpy(x, from, (size_t)now * sizeof *x);
        first += now, x += now, n -= now;
    }
    return STATUS_OK;
}
