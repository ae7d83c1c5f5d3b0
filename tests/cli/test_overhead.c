/* What a process takes of a GPU beside its allocator, as the user knows it (--overhead) or as a run of theirs
 * has shown (--measured): in the answer, and in what is solved for. */
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

#define ASKED "estimate gpt2 --gpu h100-80 --batch 8 --context 1024 "

typedef struct {
    uint64_t reserved[3], device[3];
} bytes;

static bytes asked(const char *options) {
    static const char *const ends[] = { "low", "likely", "high" };
    char line[256], path[64];
    json_document d;
    bytes b;
    snprintf(line, sizeof line, ASKED "%s --json --quiet", options);
    command_result r = command_run(line);
    if (r.exit != 0) fail_msg("%s: exit %d: %s", line, r.exit, r.err);
    assert_int_equal(json_parse("estimate", r.out, strlen(r.out), &d), STATUS_OK);
    for (int k = 0; k < 3; k++) {
        snprintf(path, sizeof path, "reserved_bytes.%s", ends[k]);
        b.reserved[k] = command_number(&d, path);
        snprintf(path, sizeof path, "device_bytes.%s", ends[k]);
        b.device[k] = command_number(&d, path);
    }
    json_close(&d);
    command_free(&r);
    return b;
}

static void overhead_takes_the_place_of_the_rules(void **state) {
    (void)state;
    bytes rules = asked(""), known = asked("--overhead 2GiB");
    assert_memory_equal(rules.reserved, known.reserved, sizeof rules.reserved);
    for (int k = 0; k < 3; k++) assert_int_equal(known.device[k] - known.reserved[k], (uint64_t)2 << 30);
    assert_true(rules.device[2] - rules.reserved[2] > rules.device[0] - rules.reserved[0]);
    bytes two = asked("--gpus 2 --shard ddp"); /* and what passes between two */
    for (int k = 0; k < 3; k++)
        assert_true(two.device[k] - two.reserved[k] > rules.device[k] - rules.reserved[k] + (32 << 20));
}

static void a_run_says_what_it_is(void **state) {
    (void)state;
    char options[64];
    bytes rules = asked("");
    uint64_t measured = rules.reserved[1] + 1234567890;
    snprintf(options, sizeof options, "--measured %llu", (unsigned long long)measured);
    bytes known = asked(options);
    assert_int_equal(known.device[1], measured);
    for (int k = 0; k < 3; k++) assert_int_equal(known.device[k] - known.reserved[k], 1234567890);
    snprintf(options, sizeof options, "--measured %llu",
             (unsigned long long)((rules.reserved[0] + rules.reserved[1]) / 2));
    known = asked(options); /* a little below what is likely reserved: next to nothing is beside it */
    assert_int_equal(known.device[1], known.reserved[1] + 1);
}

static uint64_t solved(const char *options) {
    char line[256];
    json_document d;
    snprintf(line, sizeof line, ASKED "--solve batch %s --json --quiet", options);
    command_result r = command_run(line);
    if (r.exit != 0) fail_msg("%s: exit %d: %s", line, r.exit, r.err);
    assert_int_equal(json_parse("estimate", r.out, strlen(r.out), &d), STATUS_OK);
    uint64_t value = command_number(&d, "value");
    json_close(&d);
    command_free(&r);
    return value;
}

/* The run had the batch that was said; what it showed counts for all that are tried. */
static void answers_go_by_it(void **state) {
    (void)state;
    char options[64];
    uint64_t reserved = asked("").reserved[1], more = (uint64_t)20 << 30;
    snprintf(options, sizeof options, "--measured %llu", (unsigned long long)(reserved + more));
    uint64_t by_run = solved(options), by_number = solved("--overhead 20GiB");
    assert_int_equal(by_run, by_number);
    assert_true(by_run < solved(""));
}

static void what_cannot_be_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *line, *says;
    } cases[] = {
        { ASKED "--measured 1GiB", "is less than what these settings reserve, at least" },
        { ASKED "--measured 20GiB --overhead 1GiB", "--measured says what --overhead is" },
        { "estimate --fit llama --gpu h100-80 --measured 20GiB", "--measured is of a model" },
        { ASKED "--framework snug --measured 20GiB", "--measured" },
        { ASKED "--overhead much", "--overhead" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!command_says(cases[i].line, 2, cases[i].says)) fail_msg("%s", cases[i].line);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(overhead_takes_the_place_of_the_rules),
                                        cmocka_unit_test(a_run_says_what_it_is),
                                        cmocka_unit_test(answers_go_by_it),
                                        cmocka_unit_test(what_cannot_be_is_refused) };
    return cmocka_run_group_tests_name("what a process takes beside", tests, scratch_open, scratch_close);
}
