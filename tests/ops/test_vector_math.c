/* The float formulas of fast kernels against the C library in double, over their whole range. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>

#include "base/half.h"
#include "base/hash.h"
#include "ops/gelu/gelu_math.h"
#include "ops/quick_gelu/quick_gelu_math.h"
#include "ops/silu/silu_math.h"
#include "ops/softcap/softcap_math.h"
#include "ops/vector_math.h"

/* Steps through floats in [low, high]; `failed` tells where. */
#define FOR_EACH(x, low, high) for (float x = (low); x <= (high); x += ((high) - (low)) / 200003.0f)

static void exponential(void **state) {
    (void)state;
    FOR_EACH(x, -87.3f, 88.3f) {
        double should = exp((double)x), error = fabs((double)vector_exp(x) - should) / should;
        if (error > 0.7 * (double)FLT_EPSILON) fail_msg("exp(%.9g): relative error %g", (double)x, error);
    }
    FOR_EACH(x, -200.0f, 88.3f)
    if (vector_exp(x) != vector_exp_bounded(x)) fail_msg("exp(%.9g) has two values", (double)x);
    assert_true(vector_exp(0) == 1.0f);
    assert_true(vector_exp(-INFINITY) == 0.0f);
    assert_true(vector_exp(-1000) == 0.0f);
    assert_true(vector_exp(INFINITY) > 1e38f);
    assert_true(isnan(vector_exp(NAN)));
}

/* Every exponent, subnormal numbers too, and all of them near 1, where the logarithm is small. */
static void logarithm(void **state) {
    (void)state;
    for (uint32_t bits = 1; bits < 0x7f800000u; bits += bits - 0x3f000000u < 0x1000000u ? 1 : 997) {
        double x = (double)half_float(bits), should = log(x),
               error = fabs((double)vector_log((float)x) - should);
        if (error > 0.9 * (double)FLT_EPSILON * fabs(should)) fail_msg("log(%.9g): error %g", x, error);
    }
    assert_true(vector_log(0) == -INFINITY && vector_log(-0.0f) == -INFINITY);
    assert_true(vector_log(INFINITY) == INFINITY && vector_log(1) == 0);
    assert_true(isnan(vector_log(-1)) && isnan(vector_log(-INFINITY)) && isnan(vector_log(NAN)));
}

static void hyperbolic_tangent_and_sigmoid(void **state) {
    (void)state;
    FOR_EACH(x, -30.0f, 30.0f) {
        double error = fabs((double)vector_tanh(x) - tanh((double)x));
        if (error > 2e-7) fail_msg("tanh(%.9g): error %g", (double)x, error);
        error = fabs((double)vector_sigmoid(x) - 1 / (1 + exp(-(double)x)));
        if (error > 1.5e-7) fail_msg("sigmoid(%.9g): error %g", (double)x, error);
    }
    assert_true(vector_tanh(200) == 1.0f && vector_tanh(-200) == -1.0f);
    assert_true(isnan(vector_tanh(NAN)) && isnan(vector_sigmoid(NAN)));
}

static void gelu(void **state) {
    (void)state;
    FOR_EACH(x, -20.0f, 20.0f) {
        double d = (double)x, tolerance = 3e-7 * fmax(1, fabs(d));
        double errors[] = { (double)gelu_normal_f32(x) - 0.5 * erfc(-d * 0.7071067811865476),
                            (double)gelu_erf_f32(x) - gelu_erf(d), (double)gelu_tanh_f32(x) - gelu_tanh(d),
                            (double)gelu_erf_slope_f32(x) - gelu_erf_slope(d),
                            (double)gelu_tanh_slope_f32(x) - gelu_tanh_slope(d) };
        for (int i = 0; i < 5; i++)
            if (!(fabs(errors[i]) <= tolerance))
                fail_msg("formula %d at %.9g: error %g", i, (double)x, errors[i]);
    }
    assert_true(gelu_erf_f32(1e30f) == 1e30f && gelu_tanh_f32(1e30f) == 1e30f);
    assert_true(gelu_erf_f32(-1e30f) == 0 && fabsf(gelu_tanh_f32(-1e10f)) < 1e-20f);
    assert_true(isnan(gelu_erf_f32(NAN)) && isnan(gelu_tanh_f32(NAN)));
    assert_true(isnan(gelu_erf_slope_f32(NAN)) && isnan(gelu_tanh_slope_f32(NAN)));
}

static void silu(void **state) {
    (void)state;
    FOR_EACH(x, -100.0f, 100.0f) {
        double d = (double)x, tolerance = 3e-7 * fmax(1, fabs(d));
        if (!(fabs((double)silu_value_f32(x) - silu_value(d)) <= tolerance)) fail_msg("silu(%.9g)", d);
        if (!(fabs((double)silu_slope_f32(x) - silu_slope(d)) <= tolerance))
            fail_msg("slope of silu(%.9g)", d);
    }
}

/* A row of n as another device adds it: 32 threads with four neighbours each, which go over the threads by
 * halves and then over the four. */
static float sum_by_threads(const float *x, int n) {
    float own[32][4] = { { 0 } };
    for (int i = 0; i < n; i++) own[i % 128 / 4][i % 4] += x[i];
    for (int away = 16; away; away /= 2)
        for (int t = 0; t < away; t++)
            for (int k = 0; k < 4; k++) own[t][k] += own[t + away][k];
    return (own[0][0] + own[0][2]) + (own[0][1] + own[0][3]);
}

VECTOR_CLONES static float sum_in_lanes(const float *x, int64_t n) {
    float lane[VECTOR_LANES];
    vector_lanes_clear(lane);
    VECTOR_OVER_LANES(n, i, j, (void)0, lane[j] += x[i + j];);
    return vector_lanes_sum(lane);
}

static void order_of_sums(void **state) {
    (void)state;
    float x[1100];
    for (int i = 0; i < 1100; i++) x[i] = sinf((float)i * 1.7f) * (float)(1 << i % 13);
    for (int n = 1; n <= 1100; n++)
        if (half_bits(sum_in_lanes(x, n)) != half_bits(sum_by_threads(x, n))) fail_msg("a row of %d", n);
}

/* ---- the same bits from every compiler and for every instruction set ---- */

enum { FORMULAS = 14, POINTS = 4096 };

static const uint32_t recorded[FORMULAS] = { 0x29fdb58e, 0xe82e3209, 0x2c2f8a1d, 0xe67eb248, 0x27dc470a,
                                             0x8ace6717, 0xb7bf2ef7, 0x67ca8df5, 0xe04428cc, 0x0ae4aaf6,
                                             0x98f05200, 0xb3dd0bb0, 0x07230e0f, 0x176aeeb4 };

VECTOR_INLINE void all_of(const float *x, float *y) { /* (FORMULAS,POINTS) */
    for (int i = 0; i < POINTS; i++) y[0 * POINTS + i] = vector_exp(x[i]);
    for (int i = 0; i < POINTS; i++) y[1 * POINTS + i] = vector_log(x[i]);
    for (int i = 0; i < POINTS; i++) y[2 * POINTS + i] = vector_log(fabsf(x[i]));
    for (int i = 0; i < POINTS; i++) y[3 * POINTS + i] = vector_tanh(x[i]);
    for (int i = 0; i < POINTS; i++) y[4 * POINTS + i] = vector_sigmoid(x[i]);
    for (int i = 0; i < POINTS; i++) y[5 * POINTS + i] = gelu_tanh_f32(x[i]);
    for (int i = 0; i < POINTS; i++) y[6 * POINTS + i] = gelu_tanh_slope_f32(x[i]);
    for (int i = 0; i < POINTS; i++) y[7 * POINTS + i] = gelu_erf_f32(x[i]);
    for (int i = 0; i < POINTS; i++) y[8 * POINTS + i] = gelu_erf_slope_f32(x[i]);
    for (int i = 0; i < POINTS; i++) y[9 * POINTS + i] = silu_value_f32(x[i]);
    for (int i = 0; i < POINTS; i++) y[10 * POINTS + i] = silu_slope_f32(x[i]);
    for (int i = 0; i < POINTS; i++) y[11 * POINTS + i] = softcap_value_f32(x[i], 30.0f);
    for (int i = 0; i < POINTS; i++) y[12 * POINTS + i] = quick_gelu_value_f32(x[i]);
    for (int i = 0; i < POINTS; i++) y[13 * POINTS + i] = quick_gelu_slope_f32(x[i]);
}

VECTOR_CLONES static void all_in_vectors(const float *x, float *y) { all_of(x, y); }

__attribute__((noinline)) static void all_plainly(const float *x, float *y) { all_of(x, y); }

/* What all compilers and processors are to make of it, since they do the same operations in the same order.
 */
static void bits(void **state) {
    (void)state;
    static float x[POINTS], vectors[FORMULAS * POINTS], plain[FORMULAS * POINTS];
    for (int i = 0; i < POINTS; i++) {
        float size = (float)(i % 64 + 1) / 64 * (float)(1 << i / 64 % 8); /* up to 128 */
        x[i] = i < POINTS / 8 ? half_float((uint32_t)i * 4194301u & 0x7fffffffu) : i % 3 ? size : -size;
        if (x[i] != x[i]) x[i] = 0; /* what a NaN holds is nobody's */
    }
    all_in_vectors(x, vectors);
    all_plainly(x, plain);
    for (int i = 0; i < FORMULAS * POINTS; i++) {
        if (isnan(vectors[i])) vectors[i] = NAN;
        if (isnan(plain[i])) plain[i] = NAN;
        if (half_bits(vectors[i]) != half_bits(plain[i]))
            fail_msg("formula %d at %.9g: %.9g or %.9g", i / POINTS, (double)x[i % POINTS],
                     (double)vectors[i], (double)plain[i]);
    }
    for (int f = 0; f < FORMULAS; f++) {
        uint32_t hash = hash_bytes(plain + f * POINTS, POINTS * sizeof *plain);
        if (hash != recorded[f]) fail_msg("formula %d: its bits are 0x%08x", f, hash);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(exponential),
                                        cmocka_unit_test(logarithm),
                                        cmocka_unit_test(hyperbolic_tangent_and_sigmoid),
                                        cmocka_unit_test(gelu),
                                        cmocka_unit_test(silu),
                                        cmocka_unit_test(bits),
                                        cmocka_unit_test(order_of_sums) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
