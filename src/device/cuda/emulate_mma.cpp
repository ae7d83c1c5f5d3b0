/* What twins of tensor cores do beside the memory they read and write (emulate_mma.h). */
#include "device/cuda/mma.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <deque>

#include "device/cuda/emulate_hooks.h"

namespace emulate {
namespace {

enum { MOST_THREADS = 1024, LANES = 32, ROWS = 16, COLUMNS = 8 };

/* The registers of a lane, where they are. */
template <class D>
struct registers {
    D *d;
    const uint32_t *a, *b;
};

/* Of all lanes; a register has EACH numbers of an operand. Products of numbers of 16 bits and of 8 are exact
 * in f64, and nearly so are their sums. */
template <int EACH, class SUM, class D, class A, class B>
void multiply(registers<D> *const (&of)[LANES], A number_of_a, B number_of_b) {
    enum { DEPTHS = 8 * EACH, HALF = DEPTHS / 2 };
    SUM b[DEPTHS][COLUMNS];
    for (int k = 0; k < DEPTHS; k++)
        for (int c = 0; c < COLUMNS; c++)
            b[k][c] = number_of_b(of[c * 4 + k % HALF / EACH]->b[k / HALF], k % EACH);
    for (int r = 0; r < ROWS; r++) {
        SUM sum[COLUMNS];
        for (int c = 0; c < COLUMNS; c++) sum[c] = of[r % 8 * 4 + c / 2]->d[r / 8 * 2 + c % 2];
        for (int k = 0; k < DEPTHS; k++) {
            SUM a = number_of_a(of[r % 8 * 4 + k % HALF / EACH]->a[r / 8 + k / HALF * 2], k % EACH);
            for (int c = 0; c < COLUMNS; c++) sum[c] += a * b[k][c];
        }
        for (int c = 0; c < COLUMNS; c++) of[r % 8 * 4 + c / 2]->d[r / 8 * 2 + c % 2] = (D)sum[c];
    }
}

int32_t code_of(uint32_t x, int i) { return (int8_t)(x >> 8 * i); }

/* Floats of 8 bits by their formats' definition: sign, exponent, fraction. Of four bits of exponent only all
 * ones are no number; of five, those whose exponent is all ones. */
struct small_floats {
    double of[256];

    explicit small_floats(int exponent_bits) {
        int fraction_bits = 7 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
        int most = (1 << exponent_bits) - 1, all = (1 << fraction_bits) - 1;
        for (int code = 0; code < 128; code++) {
            int exponent = code >> fraction_bits, fraction = code & all;
            double size = exponent ? ldexp(fraction + all + 1, exponent - bias - fraction_bits)
                                   : ldexp(fraction, 1 - bias - fraction_bits);
            bool special = exponent == most && (exponent_bits == 5 || fraction == all);
            if (special) size = exponent_bits == 5 && fraction == 0 ? (double)INFINITY : (double)NAN;
            of[code] = size, of[code + 128] = -size;
        }
    }
};

/* Of the threads of the block that runs on this thread of the host. */
struct copies {
    std::deque<copy> under_way;
    unsigned group;
};
copies &mine() {
    static thread_local copies of[MOST_THREADS];
    running r;
    if (!is_running(&r)) abort();
    return of[r.thread];
}

} // namespace

namespace {

/* The whole warp's, by its first lane while the others wait. */
template <class D, class F>
void by_warp(D (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], site at, F multiply_all) {
    registers<D> own = { d, a, b }, *at_own = &own;
    const unsigned char *given = exchange(~0u, &at_own, sizeof at_own, at);
    if (here.lane == 0) {
        registers<D> *of[LANES];
        for (int l = 0; l < LANES; l++) memcpy(&of[l], given + l * SLOT, sizeof of[l]);
        multiply_all(of);
    }
    exchange(~0u, "", 1, at);
}

} // namespace

const double *small_floats_of(int exponent_bits) {
    static const small_floats e4m3(4), e5m2(5);
    return exponent_bits == 4 ? e4m3.of : e5m2.of;
}

void mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], float (*wide)(uint16_t), site at) {
    auto number = [wide](uint32_t x, int i) { return (double)wide((uint16_t)(x >> 16 * i)); };
    by_warp(d, a, b, at,
            [=](registers<float> *const(&of)[LANES]) { multiply<2, double>(of, number, number); });
}

void mma_floats(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], int exponent_bits, site at) {
    const double *of_a = small_floats_of(exponent_bits), *of_b = small_floats_of(4);
    auto number_of_a = [of_a](uint32_t x, int i) { return of_a[x >> 8 * i & 0xff]; };
    auto number_of_b = [of_b](uint32_t x, int i) { return of_b[x >> 8 * i & 0xff]; };
    by_warp(d, a, b, at,
            [=](registers<float> *const(&of)[LANES]) { multiply<4, double>(of, number_of_a, number_of_b); });
}

void mma_codes(int32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], site at) {
    by_warp(d, a, b, at,
            [](registers<int32_t> *const(&of)[LANES]) { multiply<4, int32_t>(of, code_of, code_of); });
}

void copy_begins(const copy &c) {
    copies &m = mine();
    m.under_way.push_back(c);
    m.under_way.back().group = m.group;
}

void copies_commit() { mine().group++; }

bool copy_lands(unsigned left, copy *c) {
    copies &m = mine();
    if (m.under_way.empty() || m.group - m.under_way.front().group <= left) return false;
    *c = m.under_way.front();
    m.under_way.pop_front();
    return true;
}

void copies_end(const char *kernel) {
    if (mine().under_way.empty()) return;
    fprintf(stderr, "emulated GPU: %s: a thread ends before its copies have landed\n", kernel);
    abort();
}

} // namespace emulate
