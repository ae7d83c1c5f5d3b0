/* What the largest models take of the processor to be estimated and planned. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <sys/resource.h>

#include "cli/command.h"
#include "io/scratch.h"

static double seconds_of_children(void) {
    struct rusage u;
    getrusage(RUSAGE_CHILDREN, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* Of the processor: how long that takes beside others' work says nothing of the program. */
static void four_hundred_billion_parameters_take_two_seconds(void **state) {
    (void)state;
    double begin = seconds_of_children();
    assert_true(command_says("estimate llama-3.1-405b --device h100-80 --batch 8 --context 8192", 3,
                             "405.85 billion"));
#ifndef __SANITIZE_ADDRESS__
    assert_true(seconds_of_children() - begin < 4); /* 1.9 to 2.1 beside others' work that fills the caches */
#endif
}

/* The plan itself: 0.9 to 1.6 s where it was written. */
static void so_does_the_plan_of_them(void **state) {
    (void)state;
    const char *line = "estimate llama-3.1-405b --framework snug --batch 8 --context 4096";
    char with_device[128];
    snprintf(with_device, sizeof with_device, "%s --device mi300x", line);
    double begin = seconds_of_children();
    assert_true(command_says(line, 0, "predicted peak"));
    double middle = seconds_of_children();
    assert_true(command_says(with_device, 3, "does not fit"));
    double end = seconds_of_children();
    print_message("%.2f s, where it does not fit %.2f s\n", middle - begin, end - middle);
#ifndef __SANITIZE_ADDRESS__
    assert_true(middle - begin < 8 && end - middle < 8); /* for slower machines, and busy ones */
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(four_hundred_billion_parameters_take_two_seconds),
                                        cmocka_unit_test(so_does_the_plan_of_them) };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
