/* The process's peak as the operating system counts it, against what was planned and what was allowed. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "io/scratch.h"

/* Trains within `budget` and looks at the three numbers. */
static void train_within(const char *model, const char *more, uint64_t budget) {
    char line[512];
    json_document d;
    snprintf(line, sizeof line,
             "train %s --data text --out run --overwrite --steps 2 --eval-samples 4 --json --quiet %s "
             "--memory %llu",
             model, more, (unsigned long long)budget);
    command_result r = command_run(line);
    if (r.exit) fail_msg("snug %s: exit %d, %s", line, r.exit, r.err);
    assert_int_equal(json_parse("run", r.out, strlen(r.out), &d), STATUS_OK);
    uint64_t predicted = command_number(&d, "predicted.peak_bytes");
    if (r.resident_peak > predicted || predicted > budget)
        fail_msg("snug %s: the process took %llu bytes, planned %llu, allowed %llu", line,
                 (unsigned long long)r.resident_peak, (unsigned long long)predicted,
                 (unsigned long long)budget);
    assert_true(command_number(&d, "measured.peak_bytes") <= r.resident_peak);
    json_close(&d);
    command_free(&r);
}

/* A refused process takes less than the least budget that it names. */
static void refused_within(const char *model, const char *more, uint64_t budget) {
    char line[512];
    json_document d;
    snprintf(line, sizeof line, "plan %s --data text --eval-samples 4 --json --quiet %s --memory %llu", model,
             more, (unsigned long long)budget);
    command_result r = command_run(line);
    assert_int_equal(r.exit, 3);
    assert_int_equal(json_parse("plan", r.out, strlen(r.out), &d), STATUS_OK);
    uint64_t least = command_number(&d, "least_budget_bytes");
    json_close(&d);
    if (r.resident_peak >= least)
        fail_msg("snug %s: the process took %llu bytes, and the least is %llu", line,
                 (unsigned long long)r.resident_peak, (unsigned long long)least);
    command_free(&r);
}

/* Budgets from the least to plenty. */
static void every_budget_is_kept(void **state) {
    (void)state;
    static const struct {
        const char *model, *more;
    } cases[] = { { "tiny", "--batch 8" },
                  { "char-small", "--batch 4 --context 64" },
                  { "char-small", "--batch 6 --context 128 --threads 1" },
                  { "tiny", "--batch 32 --workers 4" },
                  { "deep", "--batch 8" },
                  { "char-small", "--batch 4 --context 64 --offload optimizer --offload-to " SNUG_BUILD } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[256];
        json_document d;
        snprintf(line, sizeof line, "plan %s --data text --eval-samples 4 --json --quiet %s", cases[i].model,
                 cases[i].more);
        command_result r = command_run(line);
        assert_int_equal(r.exit, 0);
        assert_int_equal(json_parse("plan", r.out, strlen(r.out), &d), STATUS_OK);
        uint64_t least = command_number(&d, "least_budget_bytes"),
                 most = command_number(&d, "predicted.peak_bytes");
        json_close(&d);
        command_free(&r);
        refused_within(cases[i].model, cases[i].more, least - 1);
        train_within(cases[i].model, cases[i].more, least);
        train_within(cases[i].model, cases[i].more, (least + most) / 2);
        train_within(cases[i].model, cases[i].more, most);
    }
    refused_within("deep", "--batch 4 --allow all --threads 3 --offload-to " SNUG_BUILD, 16 << 20);
}

/* A long run remembers its losses and times, and sorts these: measured, 24 bytes a step. They are planned. */
static void long_runs_plan_what_they_remember(void **state) {
    (void)state;
    uint64_t peak[2];
    for (int i = 0; i < 2; i++) {
        json_document d;
        command_result r = command_run(i ? "plan tiny --steps 1000001 --json --quiet"
                                         : "plan tiny --steps 1 --json --quiet");
        assert_int_equal(r.exit, 0);
        assert_int_equal(json_parse("plan", r.out, strlen(r.out), &d), STATUS_OK);
        peak[i] = command_number(&d, "predicted.peak_bytes");
        json_close(&d);
        command_free(&r);
    }
    assert_true(peak[1] >= peak[0] + 24 * UINT64_C(1000000));
}

static void generating_keeps_its_plan(void **state) {
    (void)state;
    json_document d;
    command_expect(0, "train char-small --data text --out model --steps 1 --batch 2 --quiet");
    command_result r = command_run("generate model --prompt=the --tokens 50 --json --quiet");
    assert_int_equal(r.exit, 0);
    assert_int_equal(json_parse("generate", r.out, strlen(r.out), &d), STATUS_OK);
    assert_true(r.resident_peak <= command_number(&d, "predicted.peak_bytes"));
    json_close(&d);
    command_free(&r);
}

static int open_files(void **state) {
    int failed = scratch_open(state);
    if (!failed) command_make_files();
    return failed;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_budget_is_kept),
        cmocka_unit_test(long_runs_plan_what_they_remember),
        cmocka_unit_test(generating_keeps_its_plan),
    };
    return cmocka_run_group_tests_name("memory from outside", tests, open_files, scratch_close);
}
