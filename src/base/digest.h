/* A running digest of bytes, to notice that a file or some data is no longer what it was: 64 bits, as fast as
 * memory, the same however the bytes are cut into calls, and no protection against malice.
 *
 * Four lanes each take every fourth word of 8 bytes: lane = rotate(lane ^ word, 29) * odd constant. */
#pragma once

#include <stdint.h>

typedef struct {
    uint64_t lane[4], bytes;
    unsigned char rest[32]; /* what did not fill a round of the lanes */
} digest;

digest digest_begin(void);
void digest_add(digest *d, const void *data, uint64_t bytes);
void digest_text(digest *d, const char *text); /* with its end, so that "ab","c" is not "a","bc" */
uint64_t digest_value(const digest *d);

/* As 16 hexadecimal digits: what files hold, since JSON's numbers are too small for it. */
enum { DIGEST_TEXT_BYTES = 17 };
const char *digest_text_of(uint64_t value, char digits[DIGEST_TEXT_BYTES]);
