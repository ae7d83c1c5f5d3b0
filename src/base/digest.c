#include "base/digest.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { ROUND = 32 };
static const uint64_t odd[4] = { 0x9E3779B97F4A7C15u, 0xD6E8FEB86659FD93u, 0xA0761D6478BD642Fu,
                                 0xE7037ED1A0B428DBu };

digest digest_begin(void) {
    return (digest){ .lane = { 0x243F6A8885A308D3u, 0x13198A2E03707344u, 0xA4093822299F31D0u,
                               0x082EFA98EC4E6C89u } };
}

static uint64_t stir(uint64_t lane, uint64_t word, uint64_t by) {
    lane ^= word;
    return (lane << 29 | lane >> 35) * by;
}

static void take_round(digest *d, const unsigned char *from) {
    uint64_t word[4];
    memcpy(word, from, sizeof word);
    for (int i = 0; i < 4; i++) d->lane[i] = stir(d->lane[i], word[i], odd[i]);
}

void digest_add(digest *d, const void *data, uint64_t bytes) {
    const unsigned char *from = data;
    uint64_t held = d->bytes % ROUND;
    d->bytes += bytes;
    if (held) {
        uint64_t n = ROUND - held < bytes ? ROUND - held : bytes;
        memcpy(d->rest + held, from, n);
        from += n, bytes -= n;
        if (held + n < ROUND) return;
        take_round(d, d->rest);
    }
    for (; bytes >= ROUND; from += ROUND, bytes -= ROUND) take_round(d, from);
    if (bytes) memcpy(d->rest, from, bytes);
}

void digest_text(digest *d, const char *text) { digest_add(d, text, strlen(text) + 1); }

uint64_t digest_value(const digest *d) {
    digest last = *d;
    memset(last.rest + d->bytes % ROUND, 0, ROUND - d->bytes % ROUND);
    take_round(&last, last.rest);
    uint64_t value = d->bytes;
    for (int i = 0; i < 4; i++) {
        value = stir(value, last.lane[i], odd[i]);
        value ^= value >> 32; /* every bit of a lane must reach the low ones too */
    }
    value *= odd[0];
    return value ^ value >> 29;
}

const char *digest_text_of(uint64_t value, char digits[DIGEST_TEXT_BYTES]) {
    snprintf(digits, DIGEST_TEXT_BYTES, "%016" PRIx64, value);
    return digits;
}
