/* The rounds of philox_draw for one instruction set: a template that attention_dropout.c includes once per
 * set, with NAME and TARGET for the function, WIDE and NARROW for LANES numbers of 64 and 32 bits, WIDEN,
 * NARROWED, and MULTIPLY, the product of the low halves of two WIDE. One query per lane; the high halves of
 * the counters are not looked at, so nothing masks them. */

/* Block `j` after the first, for all queries. */
TARGET static void NAME(const attention_draw *d, uint32_t j, int queries, uint32_t *words) {
    for (int t = 0; t < queries; t += LANES) {
        NARROW first;
        memcpy(&first, d->block + t, sizeof first);
        const WIDE none = { 0 };
        WIDE c0 = WIDEN(first) + j, c1 = none + d->sample, c2 = none + d->key.step, c3 = none + d->stream;
        uint32_t k0 = d->key.seed_low, k1 = d->key.seed_high;
        for (int round = 0; round < 10; round++) {
            WIDE p0 = MULTIPLY(c0, none + 0xD2511F53u), p1 = MULTIPLY(c2, none + 0xCD9E8D57u);
            c0 = (p1 >> 32) ^ c1 ^ k0;
            c2 = (p0 >> 32) ^ c3 ^ k1;
            c1 = p1;
            c3 = p0;
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }
        NARROW word[4] = { NARROWED(c0), NARROWED(c1), NARROWED(c2), NARROWED(c3) };
        for (int i = 0; i < 4; i++) memcpy(words + i * ATTENTION_TILE + t, &word[i], sizeof word[i]);
    }
}

#undef NAME
#undef TARGET
#undef WIDE
#undef NARROW
#undef LANES
#undef WIDEN
#undef NARROWED
#undef MULTIPLY
