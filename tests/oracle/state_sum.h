/* The sum at the end of a checkpoint's trainer_state.json, for tests that edit such files and sign them anew:
 * XXH64, or the digest of early versions, whichever key stands there. */
#pragma once

#include <stdbool.h>
#include <string.h>

#include "base/checksum.h"
#include "base/digest.h"

static const char STATE_SUM[] = "\"xxh64\":", STATE_SUM_EARLY[] = "\"digest\":";

static inline char *state_sum_last(char *data, const char *key) {
    char *last = NULL;
    for (char *at = data; (at = strstr(at, key)); at++) last = at;
    return last;
}

/* Where the key of the file's own sum begins; NULL: it has none. */
static inline char *state_sum_key(char *data) {
    char *key = state_sum_last(data, STATE_SUM);
    return key ? key : state_sum_last(data, STATE_SUM_EARLY);
}

/* Makes it right. false, and nothing happens, where no 16 digits can stand behind the key. */
static inline bool state_sum_sign(char *data) {
    char *key = state_sum_key(data), *quote = key ? strchr(strchr(key, ':'), '"') : NULL;
    char digits[DIGEST_TEXT_BYTES];
    if (!quote || strlen(quote) < 18) return false;
    digest d = digest_begin();
    checksum c = checksum_begin();
    digest_add(&d, data, (uint64_t)(key - data));
    checksum_add(&c, data, (uint64_t)(key - data));
    bool early = strncmp(key, STATE_SUM_EARLY, sizeof STATE_SUM_EARLY - 1) == 0;
    memcpy(quote + 1, digest_text_of(early ? digest_value(&d) : checksum_value(&c), digits), 16);
    return true;
}
