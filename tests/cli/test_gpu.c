/* --gpu: plans for GPUs that are elsewhere, which every build makes, without a driver. */
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
    d = command_json("compare tiny --batch 4 --gpu rtx-4090 --json");
    assert_string_equal(command_string(&d, "device"), "cuda");
    json_close(&d);
    d = command_json("compare tiny --batch 4 --json");
    assert_string_equal(command_string(&d, "device"), "cpu");
    json_close(&d);
}

/* Everything that a report has of a GPU: which, its runtime by parts, the three kinds of memory. */
static void a_report_names_what_it_counts(void **state) {
    (void)state;
    static const char *const says[] = {
        "NVIDIA H200 141 GB: capability 9.0, 132 multiprocessors, 139.80 GiB",
        "context 600.0 MiB (at least 480.0 MiB, likely 527.0 MiB), code",
        "handles 8.0 MiB",
        "Three kinds of memory",
        "device's",
        "of 139.80 GiB; its pool",
        "host's",
        "no budget; its pool",
        "in files",
    };
    command_result r = command_run(TINY "--gpu h200");
    assert_int_equal(r.exit, 0);
    for (size_t i = 0; i < sizeof says / sizeof *says; i++)
        if (!command_has_words(r.out, says[i])) fail_msg("nothing of '%s' in %s", says[i], r.out);
    command_free(&r);
    assert_true(command_says(TINY "--gpu h200 --offload-limit 2GiB", 0, "host's"));
    assert_true(command_says(TINY "--gpu h200 --offload-limit 2GiB", 0, "of 2048.0 MiB; its pool"));
    assert_true(command_says(TINY "--gpu h200 --memory auto", 0,
                             "it is what is free less a margin of 8947.2 MiB for others"));
}

/* What `pools` says of one of them: the first is of the memory that computes. */
static uint64_t pool_number(const json_document *d, size_t which, const char *key) {
    json_value pool = json_item(command_value(d, "pools"), which), v;
    int64_t number;
    assert_int_equal(json_get(pool, key, &v), STATUS_OK);
    assert_int_equal(json_as_integer(v, 0, INT64_MAX, &number), STATUS_OK);
    return (uint64_t)number;
}

static void the_driver_is_in_the_host_s_memory(void **state) {
    (void)state;
    json_document d = command_json(TINY "--gpu h200 --json");
    assert_true(pool_number(&d, 1, "process_bytes") > 512 << 20);
    json_close(&d);
}

static uint64_t pool_of(const char *line) {
    json_document d = command_json(line);
    uint64_t bytes = pool_number(&d, 0, "pool_bytes");
    assert_int_equal(pool_number(&d, 0, "predicted_bytes"), command_number(&d, "predicted.peak_bytes"));
    json_close(&d);
    return bytes;
}

/* GPUs of other generations and rates, by name and by a file of one's own. */
static void the_file_s_figures_are_the_plan_s(void **state) {
    (void)state;
    static const char mine[] = "title: mine\nmemory: 900MiB\ncapability: \"8.0\"\nmultiprocessors: 10\n"
                               "bandwidth: 1e11\nf32: 1e12\ncall: 1e-3\ncontext: [1MiB, 2MiB, 3MiB]\n",
                      slow[] = "memory: 900MiB\ncapability: \"8.0\"\nf32: 1e12\n";
    scratch_write("mine.yaml", mine, sizeof mine - 1);
    scratch_write("slow.yaml", slow, sizeof slow - 1);
    assert_true(
        command_says(TINY "--gpu mine.yaml", 0, "context 3.0 MiB (at least 1.0 MiB, likely 2.0 MiB)"));
    assert_int_equal(pool_of(TINY "--fuse off --gpu mine.yaml --json"),
                     pool_of(TINY "--fuse off --gpu t4 --json"));
    json_document d = command_json(TINY "--gpu mine.yaml --json"); /* a call takes a millisecond there */
    double seconds;
    assert_int_equal(json_as_number(command_value(&d, "predicted.step_seconds"), 0, 1e9, &seconds),
                     STATUS_OK);
    assert_true(seconds > 0.05);
    json_close(&d);
    assert_true(command_says(TINY "--gpu slow.yaml", 2, "its file has no f32 or no bandwidth"));
}

/* An estimate for snug on a GPU is the plan for it, to the byte and with its seconds. */
static void estimates_are_the_plan_s(void **state) {
    (void)state;
    static const char *const asked[] = {
        "tiny --batch 4 --context 16 --gpu h200", "gpt2 --batch 4 --context 128 --gpu t4",
        "gpt2 --batch 8 --context 256 --precision bf16 --recompute block --gpu "
        "a100-40"
    };
    static const char *const numbers[] = { "predicted.peak_bytes", "predicted.arena_bytes",
                                           "least_budget_bytes", "budget_bytes" };
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        char line[200];
        snprintf(line, sizeof line, "estimate %s --framework snug --json", asked[i]);
        json_document e = command_json(line);
        snprintf(line, sizeof line, "plan %s --json", asked[i]);
        json_document p = command_json(line);
        for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++)
            assert_int_equal(command_number(&e, numbers[n]), command_number(&p, numbers[n]));
        for (size_t pool = 0; pool < 2; pool++)
            assert_int_equal(pool_number(&e, pool, "predicted_bytes"),
                             pool_number(&p, pool, "predicted_bytes"));
        double seconds[2];
        assert_int_equal(json_as_number(command_value(&e, "predicted.step_seconds"), 0, 1e9, &seconds[0]),
                         STATUS_OK);
        assert_int_equal(json_as_number(command_value(&p, "predicted.step_seconds"), 0, 1e9, &seconds[1]),
                         STATUS_OK);
        assert_true(seconds[0] == seconds[1]);
        json_close(&e);
        json_close(&p);
    }
    assert_true(
        command_says("estimate gpt2 --batch 64 --micro-batch 64 --context 1024 --framework snug --gpu "
                     "t4 --recompute off --attention plain --chunk-loss off --offload off",
                     3, "does not fit"));
}

/* The emulated device is whichever is asked for: so its runs have these plans (tests/train/test_elsewhere.c).
 */
static void the_emulated_one_plans_the_same(void **state) {
    (void)state;
    if (!command_says(TINY "--device emulated", 0, "predicted peak")) skip();
    static const char *const with[] = { "", "--memory 760MiB", "--precision bf16 --recompute block",
                                        "--offload optimizer --attention flash" };
    for (size_t i = 0; i < sizeof with / sizeof *with; i++) {
        char there[200], here[200];
        snprintf(there, sizeof there, TINY "%s --gpu h200 --json", with[i]);
        snprintf(here, sizeof here, TINY "%s --gpu h200 --device emulated --json", with[i]);
        assert_int_equal(pool_of(there), pool_of(here));
    }
}

static void what_can_t_be_is_one_sentence(void **state) {
    (void)state;
    static const struct {
        const char *line, *says;
        int code;
    } bad[] = {
        { TINY "--gpu mi300x", "kernels are for NVIDIA's GPUs of capability 7.0 and later", 2 },
        { TINY "--gpu h2000", "h200", 2 },
        { TINY "--gpu h200 --device cpu", "--device cpu is no GPU; leave one of the two out", 2 },
        { TINY "--gpu h200 --offload-to nowhere", "name a folder on a disk that can be written to", 2 },
        { TINY "--gpu h200 --memory 500MiB", "does not fit", 3 },    /* less than its context */
        { "train tiny --data text --gpu h200", "--device cuda", 2 }, /* which is not here */
        { "profile tiny --gpu h200", "--device cuda", 2 },
        { "compare tiny --gpu h200 --measure", "leave one of the two out", 2 },
    };
    bool here = command_says("plan tiny --device cuda", 0, "predicted peak");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (here && strstr(bad[i].says, "--device cuda")) continue; /* a machine with a GPU */
        assert_true(command_says(bad[i].line, bad[i].code, bad[i].says));
        command_result r = command_run(bad[i].line);
        const char *sentence = strstr(r.err, "snug: ");
        assert_non_null(sentence);
        assert_null(strstr(sentence + 1, "snug: "));
        if (bad[i].code == 2) assert_int_equal(strlen(r.out), 0);
        command_free(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_plan_needs_no_gpu),
                                        cmocka_unit_test(a_report_names_what_it_counts),
                                        cmocka_unit_test(the_driver_is_in_the_host_s_memory),
                                        cmocka_unit_test(the_file_s_figures_are_the_plan_s),
                                        cmocka_unit_test(estimates_are_the_plan_s),
                                        cmocka_unit_test(the_emulated_one_plans_the_same),
                                        cmocka_unit_test(what_can_t_be_is_one_sentence) };
    return cmocka_run_group_tests_name("planning for GPUs that are elsewhere", tests, make_files,
                                       scratch_close);
}
