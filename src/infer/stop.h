/* Finds stop strings in text that comes piece by piece. Bytes that may turn out to be the beginning of one
 * are held back until that is known, so a stop string is found wherever the pieces are cut, and none of it is
 * ever handed on. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { STOP_MOST = 64, STOP_BYTES = 256 }; /* strings; bytes of one, its end included */

typedef struct {
    const char *const *strings;
    uint32_t count;
    size_t held;
    char bytes[STOP_BYTES]; /* held back */
} stop_watch;

/* STATUS_INVALID for too many strings, an empty one, one that is too long. */
status stop_check(const char *const *strings, uint32_t count);

/* Takes one more byte. `out` gets what may be handed on (at most STOP_BYTES); returns how much that is.
 * `*found`: a stop string is complete, and nothing may follow. Of several that end here the longest counts.
 */
size_t stop_take(stop_watch *w, char byte, char out[STOP_BYTES], bool *found);

/* What is still held back at the end of the text. */
size_t stop_rest(stop_watch *w, char out[STOP_BYTES]);
