/* Three answers: it fits, it may fit, it doesn't; in words, in JSON and as exit codes. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "io/scratch.h"

/* Of samples that are all as long: what unequal lengths reserve is no reason not to fit. */
#define ASKED "estimate gpt2 --gpu own.yaml --batch 8 --context 1024 --shortest 1024 "

/* A device of so many bytes, and what is answered. */
static void expect(uint64_t memory, const char *options, int code, const char *answer, const char *says) {
    char words[128], line[256];
    json_document d;
    const char *is;
    int length = snprintf(words, sizeof words, "memory: %llu\n", (unsigned long long)memory);
    scratch_write("own.yaml", words, (size_t)length);
    snprintf(line, sizeof line, ASKED "%s", options);
    if (!command_says(line, code, says)) fail_msg("%s, %llu bytes", line, (unsigned long long)memory);
    snprintf(line, sizeof line, ASKED "%s --json --quiet", options);
    command_result r = command_run(line);
    assert_int_equal(r.exit, code);
    assert_int_equal(json_parse("estimate", r.out, strlen(r.out), &d), STATUS_OK);
    assert_int_equal(json_get_string(d.root, "answer", &is), STATUS_OK);
    assert_string_equal(is, answer);
    json_close(&d);
    command_free(&r);
}

static void there_are_three(void **state) {
    (void)state;
    json_document d;
    scratch_write("own.yaml", "memory: 80GiB\n", 14);
    command_result r = command_run(ASKED "--json --quiet");
    assert_int_equal(json_parse("estimate", r.out, strlen(r.out), &d), STATUS_OK);
    uint64_t likely = command_number(&d, "device_bytes.likely"),
             high = command_number(&d, "device_bytes.high");
    json_close(&d);
    command_free(&r);
    assert_true(likely + 2 < high);
    expect((uint64_t)80 << 30, "", 0, "fits", "Fits own.yaml");
    expect((uint64_t)80 << 30, "--strict", 0, "fits", "Fits own.yaml");
    expect((likely + high) / 2, "", 0, "may fit", "May fit own.yaml");
    expect((likely + high) / 2, "", 0, "may fit", "What decides: what libraries and the driver take");
    expect((likely + high) / 2, "--strict", 3, "may fit", "may fit own.yaml: the upper end");
    expect((likely + high) / 2, "--overhead 256MiB", 0, "fits", "Fits own.yaml");
    expect(likely / 2, "", 3, "does not fit", "Does not fit own.yaml");
    expect(likely / 2, "--strict", 3, "does not fit", "Does not fit own.yaml");
}

/* What is reserved and in no tensor is given back before a request fails, but for libraries of 2023, whose
 * live bytes are too low by what nobody explains. Nothing is written for it or solved that needs it. */
static void a_full_device_gives_back(void **state) {
    (void)state;
#define CUT                                                                                                  \
    "estimate llama-3-8b --device a100-80 --batch 1 --context 4096 --loss fused --gradient-checkpointing "
#define SHARED CUT "--gpus 2 --shard fsdp"
    assert_true(command_says(SHARED, 0, "Fits NVIDIA A100"));
    assert_true(command_says(SHARED " --strict", 0, "give free segments back for that"));
    assert_true(command_says(SHARED " --libraries 2023", 0, "May fit NVIDIA A100"));
    uint64_t low = command_asked(SHARED " --json --quiet", "device_bytes.likely"),
             high = command_asked(SHARED " --json --quiet", "device_bytes.high"),
             reserved = command_asked(SHARED " --json --quiet", "reserved_bytes.high");
    assert_true(low < high && reserved < high);
    assert_int_equal(high, command_asked(SHARED " --json --quiet", "reported_bytes"));
}

static uint64_t asked(const char *yaml, const char *line, const char *path) {
    scratch_write("own.yaml", yaml, strlen(yaml));
    return command_asked(line, path);
}

/* The largest batch that surely fits is smaller than the largest that may. */
static void solving_may_be_strict(void **state) {
    (void)state;
#define SOLVED "estimate gpt2 --gpu own.yaml --batch 1 --context 1024 --solve batch --json --quiet"
    static const char yaml[] = "memory: 16GiB\n";
    uint64_t may = asked(yaml, SOLVED, "value"), surely = asked(yaml, SOLVED " --strict", "value");
    assert_true(surely > 0 && surely < may);
}

/* Sums over rows take buffers by the multiprocessors of the device; where its file doesn't say them, by those
 * of an A100. */
static void multiprocessors_are_the_devices(void **state) {
    (void)state;
#define SUMMED "estimate vit-large --gpu own.yaml --batch 16 --dtype float32 --json --quiet"
    uint64_t silent = asked("memory: 80GiB\n", SUMMED, "live_bytes.likely");
    assert_int_equal(
        asked("memory: 80GiB\nmultiprocessors: 108\nthreads: 2048\n", SUMMED, "live_bytes.likely"), silent);
    assert_true(asked("memory: 80GiB\nmultiprocessors: 98\nthreads: 2048\n", SUMMED, "live_bytes.likely") <
                silent);
    assert_true(asked("memory: 80GiB\nmultiprocessors: 108\nthreads: 1024\n", SUMMED, "live_bytes.likely") <
                silent);
    static const char no_number[] = "memory: 80GiB\nmultiprocessors: none\n";
    scratch_write("own.yaml", no_number, strlen(no_number));
    assert_true(command_says(SUMMED, 2, "multiprocessors"));
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(there_are_three),
                                        cmocka_unit_test(a_full_device_gives_back),
                                        cmocka_unit_test(solving_may_be_strict),
                                        cmocka_unit_test(multiprocessors_are_the_devices) };
    return cmocka_run_group_tests_name("does it fit", tests, scratch_open, scratch_close);
}
