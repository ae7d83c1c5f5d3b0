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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_undisturbed_steps_count),
        cmocka_unit_test(the_latest_steps_count),
        cmocka_unit_test(it_is_the_median),
        cmocka_unit_test(the_share_is_of_all_steps),
    };
    return cmocka_run_group_tests_name("pace", tests, NULL, NULL);
}
