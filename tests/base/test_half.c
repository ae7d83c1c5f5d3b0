/* Widening is exact and narrowing is to the nearest even, for every value there is; stochastic rounding has
 * the right mean and belongs to the element. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/half.h"

/* What 16 bits mean, by the definition of the formats. */
static double meaning(uint16_t x, int exponent_bits, int fraction_bits) {
    int bias = (1 << (exponent_bits - 1)) - 1, exponent = x >> fraction_bits & ((1 << exponent_bits) - 1);
    int fraction = x & ((1 << fraction_bits) - 1);
    double size = exponent == 0 ? ldexp(fraction, 1 - bias - fraction_bits)
                                : ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
    if (exponent == (1 << exponent_bits) - 1) size = fraction ? (double)NAN : (double)INFINITY;
    return x & 0x8000 ? -size : size;
}

static void every_half_is_widened(void **state) {
    (void)state;
    static uint16_t all[65536], back[65536];
    static float wide[65536];
    const dtype types[] = { DTYPE_F16, DTYPE_BF16 };
    for (int i = 0; i < 65536; i++) all[i] = (uint16_t)i;
    for (int t = 0; t < 2; t++) {
        half_widen(types[t], all, 65536, wide);
        half_narrow(types[t], wide, 65536, back);
        for (int i = 0; i < 65536; i++) {
            double should = types[t] == DTYPE_F16 ? meaning(all[i], 5, 10) : meaning(all[i], 8, 7);
            if (isnan(should))
                assert_true(isnan(wide[i]) &&
                            isnan(types[t] == DTYPE_F16 ? half_from_f16(back[i]) : half_from_bf16(back[i])));
            else
                assert_true((double)wide[i] == should && back[i] == all[i]);
        }
    }
}

/* Between neighbours a and b: just below the middle to a, just above to b, the middle to the even one. */
static void check_between(dtype type, uint16_t a, float low, float high) {
    uint16_t (*narrow)(float) = type == DTYPE_F16 ? half_to_f16 : half_to_bf16;
    float middle = (float)(((double)low + (double)high) / 2); /* exact: one bit more */
    uint16_t b = (uint16_t)(a + 1), even = a & 1 ? b : a;
    assert_int_equal(narrow(middle), even);
    assert_int_equal(narrow(nextafterf(middle, 0)), a);
    assert_int_equal(narrow(nextafterf(middle, INFINITY)), b);
    assert_int_equal(narrow(-middle), even | 0x8000);
}

static void narrowing_goes_to_the_nearest_even(void **state) {
    (void)state;
    for (int i = 0; i < 0x7bff; i++) {
        uint16_t a = (uint16_t)i, b = (uint16_t)(i + 1);
        check_between(DTYPE_F16, a, half_from_f16(a), half_from_f16(b));
    }
    for (int i = 0; i < 0x7f7f; i++) {
        uint16_t a = (uint16_t)i, b = (uint16_t)(i + 1);
        check_between(DTYPE_BF16, a, half_from_bf16(a), half_from_bf16(b));
    }
    assert_int_equal(half_to_f16(65519.99f), 0x7bff);
    assert_int_equal(half_to_f16(65520.0f), 0x7c00);
    assert_int_equal(half_to_f16(-INFINITY), 0xfc00);
    assert_int_equal(half_to_bf16(INFINITY), 0x7f80);
    assert_int_equal(half_to_bf16(3.4e38f), 0x7f80);
}

/* Instructions that do some numbers at a time do what the formulas do, and what is left over has it too. */
static void arrays_have_the_bits_of_the_formulas(void **state) {
    (void)state;
    enum { N = 1003 };
    static uint16_t half[N], narrow[N];
    static float wide[N], from[N];
    for (uint32_t first = 0; first < 65536; first += N - 16)
        for (int t = 0; t < 2; t++) {
            for (uint32_t i = 0; i < N; i++) half[i] = (uint16_t)(first + i);
            half_widen(t ? DTYPE_F16 : DTYPE_BF16, half, N, wide);
            for (int i = 0; i < N; i++)
                assert_int_equal(half_bits(wide[i]),
                                 half_bits(t ? half_from_f16(half[i]) : half_from_bf16(half[i])));
        }
    for (uint32_t step = 0; step < 1500; step++)
        for (int t = 0; t < 2; t++) {
            for (uint32_t i = 0; i < N; i++) from[i] = half_float((step * N + i) * 2855u + step);
            half_narrow(t ? DTYPE_F16 : DTYPE_BF16, from, N, narrow);
            for (int i = 0; i < N; i++)
                assert_int_equal(narrow[i], t ? half_to_f16(from[i]) : half_to_bf16(from[i]));
        }
}

/* Blocks that are drawn together are those drawn one by one, in both orders, and where their number wraps. */
static void many_blocks_are_the_same_blocks(void **state) {
    (void)state;
    static uint32_t many[PHILOX_MANY_WORDS], apart[4 * 72];
    const uint32_t firsts[] = { 0, 96, 0xffffffe0u, 0xfffffff1u };
    for (int f = 0; f < 4; f++)
        for (uint64_t seed = 5; seed < 9e18; seed = seed * 977 + 3) {
            philox_block first = { { firsts[f], 7, (uint32_t)seed, 0xfffffffdu } };
            philox_draw_many(seed, &first, many);
            for (int blocks = 8; blocks <= 72; blocks += 8) {
                philox_draw_apart(seed, &first, blocks, apart);
                for (int i = 0; i < 4 * blocks; i++) {
                    philox_block one = first;
                    one.word[0] += (uint32_t)(i / 4);
                    uint32_t should = philox_draw(seed, one).word[i % 4];
                    assert_int_equal(apart[i % 4 * blocks + i / 4], should);
                    if (i < PHILOX_MANY_WORDS) assert_int_equal(many[i], should);
                }
            }
        }
}

static void stochastic_rounding_has_the_right_mean(void **state) {
    (void)state;
    enum { N = 100000 };
    static float x[N];
    static uint16_t y[N], cut[N];
    half_random r = { { 1, 2, 3, 0 }, 4 };
    for (int i = 0; i < N; i++) x[i] = 1.0f + 0x1p-7f * 0.3f; /* three tenths of the way up */
    half_narrow_stochastic(&r, 0, x, N, y);
    int up = 0;
    for (int i = 0; i < N; i++) {
        assert_true(y[i] == 0x3f80 || y[i] == 0x3f81);
        up += y[i] == 0x3f81;
    }
    assert_in_range(up, N * 29 / 100, N * 31 / 100);
    for (int at = 0, next; at < N; at = next) {
        next = at + 777 < N ? at + 777 : N;
        half_narrow_stochastic(&r, at, x + at, next - at, cut + at);
    }
    assert_memory_equal(y, cut, sizeof y);
    r.key.step++;
    half_narrow_stochastic(&r, 0, x, N, cut);
    assert_true(memcmp(y, cut, sizeof y) != 0);
}

/* Numbers of all kinds; NaN stays NaN whatever is drawn. */
static void drawn_arrays_have_the_bits_of_the_formula(void **state) {
    (void)state;
    enum { N = 1003 };
    static float x[N];
    static uint16_t y[N], bits[N];
    half_random r = { { 5, 6, 7, 0 }, 8 };
    for (uint32_t step = 0; step < 1500; step++) {
        for (uint32_t i = 0; i < N; i++) x[i] = half_float((step * N + i) * 2855u + step);
        half_narrow_stochastic(&r, step * 3, x, N, y);
        half_draw(&r, step * 3, N, bits);
        for (int i = 0; i < N; i++) assert_int_equal(y[i], half_to_bf16_stochastic(x[i], bits[i]));
    }
}

static void what_has_no_neighbours_stays(void **state) {
    (void)state;
    const float special[] = { 0, -0.0f, 1, -2, INFINITY, -INFINITY, 0x1p-133f };
    const uint16_t should[] = { 0, 0x8000, 0x3f80, 0xc000, 0x7f80, 0xff80, 1 };
    for (uint32_t i = 0; i < sizeof special / sizeof *special; i++)
        for (uint32_t random = 0; random < 65536; random += 257)
            assert_int_equal(half_to_bf16_stochastic(special[i], random), should[i]);
    assert_true(isnan(half_from_bf16(half_to_bf16_stochastic(NAN, 0xffff))));
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_half_is_widened),
                                        cmocka_unit_test(narrowing_goes_to_the_nearest_even),
                                        cmocka_unit_test(arrays_have_the_bits_of_the_formulas),
                                        cmocka_unit_test(many_blocks_are_the_same_blocks),
                                        cmocka_unit_test(stochastic_rounding_has_the_right_mean),
                                        cmocka_unit_test(drawn_arrays_have_the_bits_of_the_formula),
                                        cmocka_unit_test(what_has_no_neighbours_stays) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
