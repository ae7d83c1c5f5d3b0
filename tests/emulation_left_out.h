/* What a test program of the emulated GPU is in a build without it: one test that is skipped. After
 * <cmocka.h>. */
#pragma once

static void is_not_built(void **state) {
    (void)state;
    skip();
}

static inline int emulation_left_out(const char *name) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(is_not_built) };
    print_message("%s: configure with -DSNUG_CUDA=EMULATED\n", name);
    return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}
