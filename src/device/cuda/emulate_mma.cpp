/* What twins of tensor cores do beside the memory they read and write (emulate_mma.h). */
#include "device/cuda/mma.h"

#include <stdio.h>
#include <stdlib.h>

#include <deque>

#include "device/cuda/emulate_hooks.h"

namespace emulate {
namespace {

enum { MOST_THREADS = 1024, LANES = 32, ROWS = 16, COLUMNS = 8, DEPTHS = 16 };

/* The registers of a lane, where they are. */
struct registers {
    float *d;
    const uint32_t *a, *b;
};

uint16_t half_of(uint32_t x, int i) { return (uint16_t)(x >> 16 * (i & 1)); }

/* Of all lanes. A product of two numbers of 16 bits is exact in f64, and nearly so is the sum. */
void multiply(registers *const (&of)[LANES], float (*wide)(uint16_t)) {
    double b[DEPTHS][COLUMNS];
    for (int k = 0; k < DEPTHS; k++)
        for (int c = 0; c < COLUMNS; c++) b[k][c] = wide(half_of(of[c * 4 + k % 8 / 2]->b[k / 8], k));
    for (int r = 0; r < ROWS; r++) {
        double sum[COLUMNS];
        for (int c = 0; c < COLUMNS; c++) sum[c] = of[r % 8 * 4 + c / 2]->d[r / 8 * 2 + c % 2];
        for (int k = 0; k < DEPTHS; k++) {
            double a = wide(half_of(of[r % 8 * 4 + k % 8 / 2]->a[r / 8 + k / 8 * 2], k));
            for (int c = 0; c < COLUMNS; c++) sum[c] += a * b[k][c];
        }
        for (int c = 0; c < COLUMNS; c++) of[r % 8 * 4 + c / 2]->d[r / 8 * 2 + c % 2] = (float)sum[c];
    }
}

struct code_registers {
    int32_t *d;
    const uint32_t *a, *b;
};

int32_t code_of(uint32_t x, int i) { return (int8_t)(x >> 8 * (i & 3)); }

void multiply_codes(code_registers *const (&of)[LANES]) {
    enum { CODES = 2 * DEPTHS };
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++)
            for (int k = 0; k < CODES; k++)
                of[r % 8 * 4 + c / 2]->d[r / 8 * 2 + c % 2] +=
                    code_of(of[r % 8 * 4 + k % 16 / 4]->a[r / 8 + k / 16 * 2], k) *
                    code_of(of[c * 4 + k % 16 / 4]->b[k / 16], k);
}

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

void mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], float (*wide)(uint16_t), site at) {
    registers own = { d, a, b }, *at_own = &own;
    const unsigned char *given = exchange(~0u, &at_own, sizeof at_own, at);
    if (here.lane == 0) {
        registers *of[LANES];
        for (int l = 0; l < LANES; l++) memcpy(&of[l], given + l * SLOT, sizeof of[l]);
        multiply(of, wide);
    }
    exchange(~0u, "", 1, at);
}

void mma_codes(int32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], site at) {
    code_registers own = { d, a, b }, *at_own = &own;
    const unsigned char *given = exchange(~0u, &at_own, sizeof at_own, at);
    if (here.lane == 0) {
        code_registers *of[LANES];
        for (int l = 0; l < LANES; l++) memcpy(&of[l], given + l * SLOT, sizeof of[l]);
        multiply_codes(of);
    }
    exchange(~0u, "", 1, at);
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
