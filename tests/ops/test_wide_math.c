/* The formulas in double against the C library in long double, and their bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>

#include "base/hash.h"
#include "ops/adafactor/adafactor_math.h"
#include "ops/adamw/adamw_math.h"
#include "ops/relative_bias/relative_bias_math.h"
#include "ops/wide_math.h"

enum { TRIES = 400000 };

/* Numbers all over [low, high], the same in each run. */
static double between(double low, double high, uint32_t i) {
    return low + (high - low) * ((double)(i * 2654435761u) + 0.5) * 0x1p-32;
}

static void near(const char *what, double x, double value, long double should, double tolerance) {
    double error = (double)fabsl((long double)value - should);
    if (!(error <= tolerance)) fail_msg("%s(%.17g) is %.17g, off by %g", what, x, value, error);
}

static void exponential(void **state) {
    (void)state;
    for (uint32_t i = 0; i < TRIES; i++) {
        double x = between(-708, 709, i);
        long double should = expl((long double)x);
        near("exp", x, wide_exp(x), should, (double)should * DBL_EPSILON);
        x = between(-746, -708, i);
        near("exp", x, wide_exp(x), expl((long double)x), 0x1p-1074);
    }
    assert_true(wide_exp(0) == 1 && wide_exp(-INFINITY) == 0 && wide_exp(-1e9) == 0);
    assert_true(wide_exp(INFINITY) == INFINITY && wide_exp(710) == INFINITY && isnan(wide_exp(NAN)));
}

static void logarithm(void **state) {
    (void)state;
    for (uint32_t i = 0; i < TRIES; i++) {
        double xs[] = { wide_of_bits(((uint64_t)i << 40) * 19 & 0x7fffffffffffffffu), between(0.5, 2, i),
                        between(1, 1e6, i) };
        for (int k = 0; k < 3; k++) {
            if (!(xs[k] > 0 && xs[k] <= DBL_MAX)) continue;
            long double should = logl((long double)xs[k]);
            near("log", xs[k], wide_log(xs[k]), should, fabs((double)should) * DBL_EPSILON);
        }
    }
    assert_true(wide_log(1) == 0 && wide_log(0) == -INFINITY && wide_log(INFINITY) == INFINITY);
    assert_true(isnan(wide_log(-1)) && isnan(wide_log(NAN)));
    near("log", 0x1p-1074, wide_log(0x1p-1074), -1074 * logl(2), 1e-13);
}

static void powers(void **state) {
    (void)state;
    for (uint32_t i = 0; i < TRIES / 4; i++) {
        double x = between(0.5, 1e7, i), y = between(-1, 1, i * 31 + 7);
        long double should = powl((long double)x, (long double)y);
        double size = 1 + fabs(y * log(x));
        near("power", x, wide_power(x, y), should, (double)should * size * DBL_EPSILON);
    }
    for (uint32_t n = 0; n < 5000; n++) {
        long double should = powl(0.999L, (long double)n);
        double x = 0.999, grown = (double)should * (n + 1) * DBL_EPSILON;
        near("whole power", (double)n, wide_power_whole(x, n), powl((long double)x, (long double)n), grown);
    }
    assert_true(wide_power_whole(0, 0) == 1 && wide_power_whole(0.9, 1) == 0.9);
    assert_true(wide_power_whole(2, 1023) == 0x1p1023 && wide_power_whole(0.9f, 2000000000) == 0);
}

static void angles(void **state) {
    (void)state;
    static const double sizes[] = { 1e-8, 0.7, 10, 1e5, 2147483648.0 };
    for (uint32_t i = 0; i < TRIES; i++)
        for (int k = 0; k < 5; k++) {
            double x = between(-sizes[k], sizes[k], i);
            wide_turn turn = wide_turn_of(x);
            near("cos", x, turn.cosine, cosl((long double)x), DBL_EPSILON);
            near("sin", x, turn.sine, sinl((long double)x), DBL_EPSILON);
        }
    assert_true(wide_turn_of(0).cosine == 1 && wide_turn_of(0).sine == 0);
}

/* The steps of optimizers, against the formulas of their headers. */
static void steps(void **state) {
    (void)state;
    static const adamw_attributes adam = { 0.9f, 0.999f, 1e-8f, 0.1f, 0 };
    static const adafactor_attributes ada = { 0.8f, 1e-30f, 1, 0.1f };
    for (int32_t t = 1; t < 3000000; t += 1 + t / 3) {
        adamw_step s = adamw_step_of(&adam, 1e-3f, t, 0.5f);
        double step = (double)1e-3f / (1 - pow((double)0.9f, t)), root = sqrt(1 - pow((double)0.999f, t));
        near("step", t, (double)s.step, step, step * (double)FLT_EPSILON);
        near("grow", t, (double)s.grow, 1 / root, (double)FLT_EPSILON / root);
        near("decay", t, (double)s.decay, 1 - (double)1e-3f * (double)0.1f, (double)FLT_EPSILON);
        double fresh = pow(t, -(double)0.8f);
        near("fresh", t, adafactor_step_of(&ada, 1e-3, t, 1).fresh, fresh, fresh * 1e-14);
    }
}

/* The buckets of T5 are those that the C library's logarithm gives. */
static void buckets(void **state) {
    (void)state;
    for (int32_t count = 8; count <= 256; count *= 2)
        for (int32_t farthest = count; farthest <= 1024; farthest *= 2)
            for (int64_t away = count / 2; away < 3000; away++) {
                relative_bias_attributes a = { 1, 1, 0, farthest, 0 };
                double share = log((double)away / (count / 2)) / log((double)farthest / (count / 2));
                int64_t bucket = count / 2 + (int64_t)(share * (count - count / 2));
                if (bucket > count - 1) bucket = count - 1;
                if (relative_bias_bucket(-away, count, &a) != bucket)
                    fail_msg("distance %lld of %d in %d buckets: %d, not %lld", (long long)away, farthest,
                             count, relative_bias_bucket(-away, count, &a), (long long)bucket);
            }
}

/* ---- the same bits from every compiler and for every instruction set ---- */

enum { FORMULAS = 6, POINTS = 4096 };

static const uint32_t recorded[FORMULAS] = { 0x15e8db33, 0xc16ceaba, 0xfb9978cb,
                                             0xe2578146, 0x9702bd73, 0x08c53799 };

VECTOR_INLINE void all_of(const double *x, double *y) { /* (FORMULAS,POINTS) */
    for (int i = 0; i < POINTS; i++) {
        wide_turn turn = wide_turn_of(x[i]);
        y[0 * POINTS + i] = wide_exp(x[i]);
        y[1 * POINTS + i] = wide_log(x[i] * x[i]);
        y[2 * POINTS + i] = turn.cosine;
        y[3 * POINTS + i] = turn.sine;
        y[4 * POINTS + i] = wide_power(1 + x[i] * x[i], -0.8);
        y[5 * POINTS + i] = wide_power_whole(0.999, (uint32_t)i * 5);
    }
}

VECTOR_CLONES static void all_in_vectors(const double *x, double *y) { all_of(x, y); }

__attribute__((noinline)) static void all_plainly(const double *x, double *y) { all_of(x, y); }

static void bits(void **state) {
    (void)state;
    static double x[POINTS], vectors[FORMULAS * POINTS], plain[FORMULAS * POINTS];
    for (uint32_t i = 0; i < POINTS; i++) x[i] = i % 2 ? between(-800, 800, i) : between(-3, 3, i);
    all_in_vectors(x, vectors);
    all_plainly(x, plain);
    for (int i = 0; i < FORMULAS * POINTS; i++)
        if (wide_bits(vectors[i]) != wide_bits(plain[i]))
            fail_msg("formula %d at %.17g: %.17g or %.17g", i / POINTS, x[i % POINTS], vectors[i], plain[i]);
    for (int f = 0; f < FORMULAS; f++) {
        uint32_t hash = hash_bytes(plain + f * POINTS, POINTS * sizeof *plain);
        if (hash != recorded[f]) fail_msg("formula %d: its bits are 0x%08x", f, hash);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(exponential), cmocka_unit_test(logarithm),
                                        cmocka_unit_test(powers),      cmocka_unit_test(angles),
                                        cmocka_unit_test(steps),       cmocka_unit_test(buckets),
                                        cmocka_unit_test(bits) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
