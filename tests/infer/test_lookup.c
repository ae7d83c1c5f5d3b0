/* Guesses: what stood behind the last ids before; fewer and more seldom where they are wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "infer/lookup.h"

static void guesses_are_what_stood_there(void **state) {
    (void)state;
    static const struct {
        int32_t ids[16];
        int64_t count, most, guessed;
        int32_t guess[8];
    } cases[] = {
        { { 1, 2, 3, 4, 5, 1, 2, 3 }, 8, 2, 2, { 4, 5 } },
        { { 1, 2, 3, 4, 5, 1, 2, 3 }, 8, 8, 8, { 4, 5, 1, 2, 3, 4, 5, 1 } }, /* goes on with itself */
        { { 9, 2, 3, 4, 8, 2, 3, 5, 2, 3 }, 10, 1, 1, { 5 } },               /* the last time it was 5 */
        { { 1, 2, 3, 7, 2, 3, 8, 1, 2, 3 }, 10, 1, 1, { 7 } },               /* more ids are the same there */
        { { 7, 7, 7 }, 3, 3, 3, { 7, 7, 7 } },
        { { 1, 2, 3, 4, 3 }, 5, 4, 0, { 0 } }, /* one alone says too little */
        { { 1 }, 1, 4, 0, { 0 } },
        { { 1, 1 }, 2, 4, 0, { 0 } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lookup l = { 0 };
        int32_t ids[32] = { 0 };
        memcpy(ids, cases[i].ids, sizeof cases[i].ids);
        int64_t n = lookup_guess(&l, ids, cases[i].count, cases[i].most);
        assert_int_equal(n, cases[i].guessed);
        assert_memory_equal(ids + cases[i].count, cases[i].guess, (size_t)n * sizeof *ids);
        assert_memory_equal(ids, cases[i].ids, (size_t)cases[i].count * sizeof *ids);
    }
}

static void who_guesses_wrong_guesses_less(void **state) {
    (void)state;
    lookup l = { 0 };
    int32_t ids[64];
    for (int i = 0; i < 64; i++) ids[i] = 7;
    assert_int_equal(lookup_guess(&l, ids, 32, 8), 8);
    lookup_learn(&l, 8, 3);
    assert_int_equal(lookup_guess(&l, ids, 32, 8), 4);
    lookup_learn(&l, 4, 4);
    assert_int_equal(lookup_guess(&l, ids, 32, 8), 8);
    int64_t guessed = 0, steps = 1000;
    for (int64_t i = 0; i < steps; i++) {
        int64_t n = lookup_guess(&l, ids, 32, 8);
        guessed += n;
        if (n) lookup_learn(&l, n, 0);
    }
    assert_true(guessed > 10 && guessed < 50);
    int64_t rest = 0;
    while (!lookup_guess(&l, ids, 32, 8)) assert_true(rest++ < 100);
    lookup_learn(&l, 1, 1);
    assert_int_equal(lookup_guess(&l, ids, 32, 8), 2); /* at once, and more again */
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(guesses_are_what_stood_there),
                                        cmocka_unit_test(who_guesses_wrong_guesses_less) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
