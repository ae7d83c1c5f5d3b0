/* Which steps of a run rates may learn from: those that had the processors they asked for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "train/pace.h"

static void only_undisturbed_steps_count(void **state) {
    (void)state;
    pace p = { .undisturbed = 0 };
    for (int i = 0; i < 30; i++) pace_note(&p, 3.67, 2 * 1, 2); /* long by the clock, and little of its own */
    assert_true(pace_seconds(&p) == 0);
    for (int i = 0; i < PACE_LEAST; i++) {
        assert_true(pace_seconds(&p) == 0);
        pace_note(&p, 1 + i, 0.91 * 2 * (1 + i), 2);
    }
    assert_true(pace_seconds(&p) == 1 + PACE_LEAST / 2); /* the median of them */
    pace_note(&p, 1e9, 0.89 * 2 * 1e9, 2);
    assert_true(pace_seconds(&p) == 1 + PACE_LEAST / 2);
}

static void the_latest_steps_count(void **state) {
    (void)state;
    pace p = { .undisturbed = 0 };
    for (int i = 0; i < 1000; i++) pace_note(&p, 5, 5, 1);
    for (int i = 0; i < PACE_MOST / 2; i++) pace_note(&p, 2, 2, 1);
    assert_true(pace_seconds(&p) == 5);
    for (int i = 0; i < 2; i++) pace_note(&p, 2, 2, 1);
    assert_true(pace_seconds(&p) == 2);
}

/* Of any times in any order: as many steps are shorter as are longer. */
static void it_is_the_median(void **state) {
    (void)state;
    for (int count = PACE_LEAST; count < PACE_MOST; count++) {
        pace p = { .undisturbed = 0 };
        int shorter = 0, longer = 0;
        for (int i = 0; i < count; i++) {
            double seconds = 0.001 * (1 + i * 37 % 101);
            pace_note(&p, seconds, seconds, 1);
        }
        double middle = pace_seconds(&p);
        for (int i = 0; i < count; i++) {
            shorter += p.seconds[i] < middle;
            longer += p.seconds[i] > middle;
        }
        if (shorter > count / 2 || longer > count / 2)
            fail_msg("of %d steps %d are shorter and %d longer", count, shorter, longer);
    }
}

static void the_share_is_of_all_steps(void **state) {
    (void)state;
    pace p = { .undisturbed = 0 };
    assert_true(pace_share(&p, 4) == 0 && pace_own_seconds(&p, 4) == 0);
    pace_note(&p, 1, 4, 4);
    assert_true(pace_share(&p, 4) == 1);
    pace_note(&p, 3, 0, 4);
    assert_true(pace_share(&p, 4) == 0.25);
    assert_true(pace_own_seconds(&p, 4) == 0.5); /* of two steps */
}

static void on_a_device_apart_none_is_disturbed(void **state) {
    (void)state;
    pace p = { .undisturbed = 0 };
    for (int i = 0; i < PACE_LEAST; i++) pace_note(&p, 3, 0.01, 0);
    assert_true(pace_seconds(&p) == 3 && pace_own_seconds(&p, 0) == 3 && pace_share(&p, 0) == 1);
}

/* Steps first + 1 to last; how often a fall was told. */
static int steps_take(pace_watch *w, int64_t first, int64_t last, double seconds, double share,
                      pace_fall *fall) {
    int told = 0;
    for (int64_t step = first + 1; step <= last; step++) {
        pace_fall now = { 0 };
        if (!pace_falls(w, step, seconds, 2 * share * seconds, 2, &now)) continue;
        told++, *fall = now;
    }
    return told;
}

static void steps_that_get_slower_are_told(void **state) {
    (void)state;
    pace_watch w = { 0 };
    pace_fall fall = { 0 };
    assert_int_equal(steps_take(&w, 0, 100, 1, 1, &fall), 0);
    assert_int_equal(steps_take(&w, 100, 140, 1.3, 1, &fall), 0); /* not by a third */
    assert_int_equal(steps_take(&w, 140, 200, 1.5, 1, &fall), 1); /* once, and */
    assert_true(fall.now == 1.5 && fall.before == 1 && fall.before_at == 20 && fall.share == 1);
    assert_int_equal(steps_take(&w, 200, 240, 1.9, 1, &fall), 0);
    assert_int_equal(steps_take(&w, 240, 300, 2.25, 0.5, &fall), 1); /* again where it is a third worse */
    assert_true(fall.now == 2.25 && fall.before == 1 && fall.share == 0.5);
    assert_int_equal(steps_take(&w, 300, 400, 0.5, 1, &fall), 0); /* faster than ever: that is the measure */
    assert_int_equal(steps_take(&w, 400, 420, 4, 1, &fall), 1);
    assert_true(fall.before == 0.5 && fall.before_at == 320);
}

/* A stretch has both steps and seconds enough: a few long steps say nothing, nor do many short ones. */
static void a_stretch_is_long_enough(void **state) {
    (void)state;
    pace_watch w = { 0 };
    pace_fall fall = { 0 };
    assert_int_equal(steps_take(&w, 0, 500, 0.125, 1, &fall), 0);
    assert_int_equal(steps_take(&w, 500, 520, 0.2, 1, &fall), 0);
    pace_watch few = { 0 };
    assert_int_equal(steps_take(&few, 0, 20, 1, 1, &fall), 0);
    assert_int_equal(steps_take(&few, 20, 39, 100, 1, &fall), 0);
    assert_int_equal(steps_take(&few, 39, 40, 100, 1, &fall), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_undisturbed_steps_count),
        cmocka_unit_test(the_latest_steps_count),
        cmocka_unit_test(it_is_the_median),
        cmocka_unit_test(the_share_is_of_all_steps),
        cmocka_unit_test(on_a_device_apart_none_is_disturbed),
        cmocka_unit_test(steps_that_get_slower_are_told),
        cmocka_unit_test(a_stretch_is_long_enough),
    };
    return cmocka_run_group_tests_name("pace", tests, NULL, NULL);
}
