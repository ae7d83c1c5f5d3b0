#include "models/weight.h"

#include <string.h>

#include "base/half.h"

/* Some of a weight's bytes, at most as many as *bytes says; `part` is where they are, or what brings them
 * there. */
static status reach(const model_weight *w,
                    status (*part)(void *, const void *, uint64_t, void **, uint64_t *), uint64_t first,
                    void **data, uint64_t *bytes) {
    uint64_t left = weight_bytes(w) - first;
    if (left > *bytes) left = *bytes;
    *bytes = left;
    if (w->data)
        *data = (char *)w->data + first;
    else
        TRY(part(w->context, w->which, w->first + first, data, bytes));
    if (*bytes > left) *bytes = left;
    return STATUS_OK;
}

static status view_some(const model_weight *w, uint64_t first, void **data, uint64_t *bytes) {
    return reach(w, w->parts ? w->parts->view : NULL, first, data, bytes);
}

status weight_view(const model_weight *w, uint64_t first, void **data, uint64_t *bytes) {
    *bytes = UINT64_MAX;
    return view_some(w, first, data, bytes);
}

status weight_room(const model_weight *w, uint64_t first, void **data, uint64_t *bytes) {
    *bytes = UINT64_MAX;
    return reach(w, w->parts ? w->parts->room : NULL, first, data, bytes);
}

status weight_placed(const model_weight *w, uint64_t first, void *data, uint64_t bytes) {
    return w->data ? STATUS_OK : w->parts->put(w->context, w->which, w->first + first, data, bytes);
}

status weight_put_bytes(const model_weight *w, uint64_t first, const void *from, uint64_t bytes) {
    while (bytes > 0) {
        void *to;
        uint64_t room;
        TRY(weight_room(w, first, &to, &room));
        uint64_t now = bytes < room ? bytes : room;
        memcpy(to, from, now);
        TRY(weight_placed(w, first, to, now));
        first += now, from = (const char *)from + now, bytes -= now;
    }
    return STATUS_OK;
}

status weight_put(const model_weight *w, int64_t first, const float *x, int64_t n) {
    uint64_t each = dtype_bytes(w->type);
    while (n > 0) {
        void *to;
        uint64_t room;
        TRY(weight_room(w, (uint64_t)first * each, &to, &room));
        int64_t now = (uint64_t)n * each < room ? n : (int64_t)(room / each);
        if (dtype_is_half(w->type))
            half_narrow(w->type, x, now, to);
        else
            memcpy(to, x, (size_t)now * sizeof *x);
        TRY(weight_placed(w, (uint64_t)first * each, to, (uint64_t)now * each));
        first += now, x += now, n -= now;
    }
    return STATUS_OK;
}

status weight_get(const model_weight *w, int64_t first, int64_t n, float *x) {
    uint64_t each = dtype_bytes(w->type);
    while (n > 0) {
        void *from;
        uint64_t held = (uint64_t)n * each;
        TRY(view_some(w, (uint64_t)first * each, &from, &held));
        int64_t now = (uint64_t)n * each < held ? n : (int64_t)(held / each);
        if (dtype_is_half(w->type))
            half_widen(w->type, from, now, x);
        else
            memcpy(x, from, (size_t)now * sizeof *x);
        first += now, x += now, n -= now;
    }
    return STATUS_OK;
}
