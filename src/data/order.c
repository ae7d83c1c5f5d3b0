/* A keyed Feistel network permutes the numbers of 2h bits, the smallest such set that holds 0 .. n-1; walking
 * its cycle until the number is below n again makes that a permutation of 0 .. n-1 (fewer than four steps on
 * average). The round function is Philox under the run's seed, its counter (half, round, epoch).
 * Papers: Luby, Rackoff, "How to construct pseudorandom permutations from pseudorandom functions", 1988;
 * Black, Rogaway, "Ciphers with arbitrary finite domains", 2002 (cycle walking). */
#include "data/order.h"

#include "base/philox.h"

/* Four rounds do for large halves; halves of a few bits need more to forget where they began. */
enum { ROUNDS = 12, ORDER_STREAM = 0x6f726472 };

static uint64_t permute(uint64_t seed, uint64_t epoch, uint32_t half_bits, uint64_t value) {
    uint64_t mask = ((uint64_t)1 << half_bits) - 1;
    uint64_t left = value >> half_bits, right = value & mask;
    uint32_t stream = ORDER_STREAM ^ (uint32_t)(epoch >> 32);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        philox_block b =
            philox_draw(seed, (philox_block){ { (uint32_t)right, round, (uint32_t)epoch, stream } });
        uint64_t next = left ^ (b.word[0] & mask);
        left = right;
        right = next;
    }
    return left << half_bits | right;
}

uint64_t data_order(uint64_t seed, uint64_t epoch, uint64_t n, uint64_t i) {
    if (n < 2) return 0;
    uint32_t bits = 64 - (uint32_t)__builtin_clzll(n - 1);
    uint32_t half_bits = (bits + 1) / 2;
    do i = permute(seed, epoch, half_bits, i);
    while (i >= n);
    return i;
}
