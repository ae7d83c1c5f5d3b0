/* Codes of 4 bits: their values are those of the paper's formula, numbers get the nearest of them, and any
 * part of a row decodes as the whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "base/philox.h"
#include "ops/nf4.h"

/* Where a standard normal number lies below with probability p. */
static double quantile(double p) {
    double low = -9, high = 9;
    for (int i = 0; i < 200; i++) {
        double middle = (low + high) / 2;
        if (0.5 * erfc(-middle / sqrt(2)) < p)
            low = middle;
        else
            high = middle;
    }
    return (low + high) / 2;
}

/* arXiv:2305.14314, section 3: eight quantiles up to zero, seven above it and zero itself, divided by the
 * largest. The outermost probability is the mean of 1 - 1 / (2 * 15) and 1 - 1 / (2 * 16). */
static void values_are_quantiles(void **state) {
    (void)state;
    const double outer = 0.9677083;
    double value[NF4_CODES];
    assert_true(fabs((2 - 1.0 / 30 - 1.0 / 32) / 2 - outer) < 1e-7);
    for (int i = 0; i < 7; i++) value[i] = -quantile(outer + (0.5 - outer) * i / 7);
    value[7] = 0;
    for (int i = 0; i < 8; i++) value[15 - i] = quantile(outer + (0.5 - outer) * i / 8);
    for (int i = 0; i < NF4_CODES; i++) {
        double should = value[i] / value[15];
        if (fabs(should - (double)nf4_value[i]) > 1e-7)
            fail_msg("value %d is %.9g, not %.9g", i, (double)nf4_value[i], should);
    }
}

static void each_gets_the_nearest(void **state) {
    (void)state;
    enum { COLUMNS = 202 };
    float x[COLUMNS], scales[4], again[COLUMNS], part[COLUMNS];
    uint8_t codes[COLUMNS / 2];
    philox_normal_list list = { 3, 5, 0, 0.7f };
    philox_normal(&list, 0, COLUMNS, x);
    for (int i = 64; i < 128; i++) x[i] = 0;
    x[130] = -4;
    nf4_encode_row(x, COLUMNS, codes, scales);
    nf4_decode(codes, scales, 0, COLUMNS, again);
    assert_true(scales[1] == 0 && scales[2] == 4 && nf4_blocks(COLUMNS) == 4);
    for (int i = 0; i < COLUMNS; i++) {
        double scale = (double)scales[i / NF4_BLOCK], least = INFINITY;
        for (int c = 0; c < NF4_CODES; c++)
            least = fmin(least, fabs((double)nf4_value[c] * scale - (double)x[i]));
        if (fabs((double)again[i] - (double)x[i]) > least + 1e-6)
            fail_msg("%d: %g became %g", i, (double)x[i], (double)again[i]);
    }
    assert_true(again[130] == -4 && again[100] == 0);
    for (int first = 0; first < COLUMNS; first += 26)
        for (int n = 2; first + n <= COLUMNS; n += 38) {
            nf4_decode(codes, scales, first, n, part);
            for (int i = 0; i < n; i++) assert_true(part[i] == again[first + i]);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(values_are_quantiles),
                                        cmocka_unit_test(each_gets_the_nearest) };
    return cmocka_run_group_tests_name("nf4", tests, NULL, NULL);
}
