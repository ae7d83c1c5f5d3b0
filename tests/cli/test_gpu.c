/* --gpu: plans for GPUs that are elsewhere, which every build makes, without a driver. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "cli/command.h"
#include "io/scratch.h"

static int make_files(void **state) {
    int result = scratch_open(state);
    command_make_files();
    return result;
}

#define TINY "plan tiny --batch 4 "

static void a_plan_needs_no_gpu(void **state) {
    (void)state;
    assert_true(
        command_says(TINY "--gpu h200", 0, "NVIDIA H200 141 GB: published figures, nothing measured"));
    assert_true(command_says(TINY "--gpu H200 --device cuda", 0, "NVIDIA H200"));
    assert_true(command_says("compare tiny --batch 4 --gpu rtx-4090", 0, "everything lossless"));
    json_document d = command_json(TINY "--gpu h200 --json");
    assert_string_equal(command_string(&d, "gpu.name"), "h200");
    assert_int_equal(command_number(&d, "gpu.multiprocessors"), 132);
    assert_int_equal(command_number(&d, "budget_bytes"), 150109945856);
    json_close(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_plan_needs_no_gpu) };
    return cmocka_run_group_tests_name("planning for GPUs that are elsewhere", tests, make_files,
                                       scratch_close);
}
