#include "infer/stop.h"

#include <string.h>

status stop_check(const char *const *strings, uint32_t count) {
    if (count > STOP_MOST)
        return status_set(STATUS_INVALID, "%u stop strings are given; %d can be watched for", count,
                          STOP_MOST);
    for (uint32_t i = 0; i < count; i++) {
        if (!*strings[i]) return status_set(STATUS_INVALID, "a stop string is empty");
        if (strlen(strings[i]) >= STOP_BYTES)
            return status_set(STATUS_INVALID, "a stop string has %zu bytes; the longest may have %d",
                              strlen(strings[i]), STOP_BYTES - 1);
    }
    return STATUS_OK;
}

/* The length of the longest string that ends where the held bytes end; 0: none. */
static size_t found_length(const stop_watch *w) {
    size_t longest = 0;
    for (uint32_t i = 0; i < w->count; i++) {
        size_t n = strlen(w->strings[i]);
        if (n > longest && n <= w->held && memcmp(w->bytes + w->held - n, w->strings[i], n) == 0) longest = n;
    }
    return longest;
}

/* Whether the last n held bytes are how a string begins. */
static bool may_begin(const stop_watch *w, size_t n) {
    for (uint32_t i = 0; i < w->count; i++)
        if (strlen(w->strings[i]) > n && memcmp(w->bytes + w->held - n, w->strings[i], n) == 0) return true;
    return false;
}

/* The first n held bytes go out. */
static size_t hand_on(stop_watch *w, size_t n, char out[STOP_BYTES]) {
    memcpy(out, w->bytes, n);
    memmove(w->bytes, w->bytes + n, w->held - n);
    w->held -= n;
    return n;
}

size_t stop_take(stop_watch *w, char byte, char out[STOP_BYTES], bool *found) {
    w->bytes[w->held++] = byte; /* fewer than the bytes of the longest string were held */
    size_t length = found_length(w);
    *found = length > 0;
    if (*found) {
        size_t n = hand_on(w, w->held - length, out);
        w->held = 0;
        return n;
    }
    size_t kept = w->held;
    while (kept && !may_begin(w, kept)) kept--;
    return hand_on(w, w->held - kept, out);
}

size_t stop_rest(stop_watch *w, char out[STOP_BYTES]) { return hand_on(w, w->held, out); }
