/* The float formulas of fast kernels against the C library in double, over their whole range. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>

#include "ops/gelu/gelu_math.h"
#include "ops/silu/silu_math.h"
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

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(exponential),
                                        cmocka_unit_test(hyperbolic_tangent_and_sigmoid),
                                        cmocka_unit_test(gelu), cmocka_unit_test(silu) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
