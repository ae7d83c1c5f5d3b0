/* --solve and --fit: what halving finds is what trying everything finds, and the answers as a user has them.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/command.h"
#include "cli/estimate/ask.h"
#include "estimate/hardware_files.h"
#include "estimate/solve.h"
#include "io/scratch.h"

/* ---- the search ---- */

typedef struct {
    int64_t most; /* the largest that fits; for the least: all above it do */
    bool few;
    int asked;
} threshold;

static status below(void *context, int64_t value, bool *fits) {
    threshold *t = context;
    t->asked++;
    *fits = t->few ? value > t->most : value <= t->most;
    return STATUS_OK;
}

static void halving_finds_the_place(void **state) {
    (void)state;
    for (int64_t most = 1; most <= 70; most++)
        for (int64_t at = 0; at <= most + 1; at++) {
            int64_t value = -1;
            assert_int_equal(solve_largest(most, below, &(threshold){ .most = at }, &value), STATUS_OK);
            assert_int_equal(value, at < most ? at : most);
            assert_int_equal(solve_least(most, below, &(threshold){ .most = at, .few = true }, &value),
                             STATUS_OK);
            assert_int_equal(value, at < most ? at + 1 : 0);
        }
    threshold t = { .most = INT64_MAX / 3 };
    int64_t value;
    assert_int_equal(solve_largest(INT64_MAX, below, &t, &value), STATUS_OK);
    assert_true(value == t.most && t.asked < 140);
}

static status refuse(void *context, int64_t value, bool *fits) {
    (void)context;
    *fits = true;
    if (value < 4) return STATUS_OK;
    return status_set(STATUS_INVALID, "no");
}

static void failures_end_it(void **state) {
    (void)state;
    int64_t value;
    assert_int_equal(solve_largest(100, refuse, NULL, &value), STATUS_INVALID);
}

/* ---- by force ---- */

static bool fits(const options *o, framework_variable v, int64_t value) {
    options with = ask_with(o, v, value);
    ask_answer a;
    status result = ask(&with, NULL, false, &a);
    text_close(&a.notes);
    if (result != STATUS_OK && v != FRAMEWORK_GPUS) fail_msg("%s", status_message());
    return result == STATUS_OK && a.fits;
}

static int64_t by_force(const options *o, framework_variable v, int64_t most) {
    for (int64_t value = 1; value <= most; value++)
        if (fits(o, v, value) == (v == FRAMEWORK_GPUS)) return v == FRAMEWORK_GPUS ? value : value - 1;
    return v == FRAMEWORK_GPUS ? 0 : most;
}

static int64_t solved(const char *line, int exit) {
    command_result r = command_run(line);
    json_document d;
    if (r.exit != exit) fail_msg("snug %s: %d: %s", line, r.exit, r.err);
    assert_int_equal(json_parse("solve", r.out, strlen(r.out), &d), STATUS_OK);
    bool none = exit == 3;
    int64_t value = none ? 0 : (int64_t)command_number(&d, "value");
    json_close(&d);
    command_free(&r);
    return value;
}

static void trying_everything_finds_the_same(void **state) {
    (void)state;
    static const struct {
        const char *model, *device;
        framework_name framework;
        const char *name;
        framework_variable variable;
        const char *what;
        int64_t batch, context, most;
    } cases[] = {
        { "gpt2", "t4", FRAMEWORK_HF, "hf", FRAMEWORK_BATCH, "batch", 1, 512, 64 },
        { "gpt2-medium", "v100-32", FRAMEWORK_PYTORCH, "pytorch", FRAMEWORK_BATCH, "batch", 1, 256, 128 },
        { "gpt2", "a100-80-mig-1g.10gb", FRAMEWORK_HF, "hf", FRAMEWORK_CONTEXT, "context", 7, 0, 1024 },
        { "smollm2-135m", "t4", FRAMEWORK_PYTORCH, "pytorch", FRAMEWORK_CONTEXT, "context", 4, 0, 8192 },
        { "llama-3-8b", "h100-80", FRAMEWORK_HF, "hf", FRAMEWORK_GPUS, "gpus", 1, 4096, 1024 },
        { "llama-3-8b", "a100-40", FRAMEWORK_VLLM, "vllm", FRAMEWORK_BATCH, "batch", 1, 4096, 512 },
        { "llama-2-7b", "t4", FRAMEWORK_LLAMA_CPP, "llama.cpp", FRAMEWORK_CONTEXT, "context", 1, 0, 4096 },
        { "gpt2", "a100-80-mig-1g.10gb", FRAMEWORK_SNUG, "snug", FRAMEWORK_CONTEXT, "context", 1, 0, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        options o = options_defaults();
        char line[256], context[32] = "";
        o.subject = cases[i].model;
        o.estimate.framework = cases[i].framework, o.estimate.device = cases[i].device;
        o.run.batch = cases[i].batch, o.run.context = cases[i].context;
        if (o.run.context) snprintf(context, sizeof context, " --context %lld", (long long)o.run.context);
        snprintf(line, sizeof line, "estimate %s --framework %s --device %s --batch %lld%s --solve %s --json",
                 cases[i].model, cases[i].name, cases[i].device, (long long)o.run.batch, context,
                 cases[i].what);
        int64_t found = solved(line, 0);
        print_message("%s: %lld\n", line, (long long)found);
        int64_t least = cases[i].most ? by_force(&o, cases[i].variable, cases[i].most) : 1024;
        if (found == least) continue;
        /* Near a full device what is reserved may fall as a batch grows: then there is more than one end. */
        bool grows = cases[i].variable != FRAMEWORK_GPUS && found > least;
        if (!grows || found > least + least / 12) fail_msg("by force %lld", (long long)least);
        assert_true(fits(&o, cases[i].variable, found) && !fits(&o, cases[i].variable, found + 1));
    }
}

/* snug's own: what fits is planned by `snug plan`, and one more is refused. */
static void snug_keeps_what_it_says(void **state) {
    (void)state;
    const char *settings = "--recompute off --attention off --chunk-loss off --micro-batch 24";
    char line[256];
    /* As large as a context of 96 takes: what this process holds besides is no number of ours. */
    scratch_write("large.yaml", "memory: 64GiB\n", 14);
    snprintf(line, sizeof line,
             "estimate char-gpt --framework snug --device large.yaml --batch 24 --context 96 --solve memory "
             "--json %s",
             settings);
    char yaml[64];
    snprintf(yaml, sizeof yaml, "memory: %lld\n", (long long)solved(line, 0));
    scratch_write("small.yaml", yaml, strlen(yaml));
    snprintf(line, sizeof line,
             "estimate char-gpt --framework snug --device small.yaml --batch 24 --solve context --json %s",
             settings);
    int64_t found = solved(line, 0);
    print_message("context %lld\n", (long long)found);
    assert_in_range(found, 90, 100);
    for (int64_t more = 0; more < 2; more++) {
        snprintf(line, sizeof line,
                 "estimate char-gpt --framework snug --device small.yaml --batch 24 --context %lld %s",
                 (long long)(found + more), settings);
        command_expect(more ? 3 : 0, line);
    }
}

/* ---- as a user has it ---- */

static void answers(void **state) {
    (void)state;
    static const struct {
        const char *line;
        int exit;
        const char *said;
    } cases[] = {
        { "gpt2 --solve memory", 0, "takes" },
        { "gpt2 --solve memory --framework snug --device t4", 0, "of the device" },
        { "gpt2 --solve batch", 2, "say --gpu" },
        { "--solve batch --device t4", 2, "no model named" },
        { "", 2, "no model named" },
        { "--solve model --device t4 --batch 1 --context 512", 0,
          "the largest published decoder that fits is" },
        { "--solve model --device t4 --batch 512 --context 2048", 3,
          "no published decoder fits t4: the smallest, pythia-70m, takes" },
        { "--fit pythia --device t4 --batch 1 --context 512", 0, "pythia-410m" },
        { "--fit gpt_neox --device t4 --batch 1 --context 512", 0, "pythia-410m" },
        { "--fit llama-3 --device t4 --batch 1 --context 512", 3,
          "no published model of that family fits t4: the smallest, llama-3.2-1b, takes" },
        { "--fit llama --framework snug --batch 1 --context 64 --memory 1GiB", 3,
          "no published model of that family fits --memory: the smallest, smollm2-135m, takes" },
        { "char-small --framework snug --batch 8 --unit 2 --memory 1GiB --solve gpus", 0,
          "the least number of ranks that fits is 1; it takes" },
        { "char-small --framework snug --batch 8 --unit 2 --memory 1MiB --solve gpus", 3,
          "on no number of ranks char-small fits: of the most that divide its units each takes" },
        { "char-small --framework snug --batch 8 --unit 2 --ranks 4x2", 0, "on each of 4 ranks" },
        { "gpt2 --ranks 2", 2, "--ranks is for --framework snug" },
        { "gpt2 --memory 1GiB", 2, "--memory is for --framework snug" },
        { "--fit foo --device t4", 2, "no published model" },
        { "gpt2 --fit llama --solve batch --device t4", 2, "leave --solve out" },
        { "70B --device t4 --solve batch", 3, "not even a batch of one of llama-3-70b fits t4: it takes" },
        { "70B --device t4 --solve context --batch 1", 3, "not even a context of one token of llama-3-70b" },
        { "70B --device t4 --solve batch --framework vllm", 3,
          "not even one request of llama-3-70b fits t4" },
        { "gpt2 --device t4 --solve batch --context 512", 0, " would take " },
        { "llama-3-8b --device h100-80 --solve gpus --batch 1 --context 4096", 0, "--shard fsdp" },
        { "gpt2 --framework snug --device t4 --solve gpus", 2, "say --unit N" },
        { "llama-3-70b --framework llama.cpp --device rtx-3090 --context 8192 --requests 1 --solve gpus", 0,
          "fits is 2" },
        { "gpt2 --solve gpu --batch 4", 0, "a16, a2, t4, " },
        { "llama-3.1-405b --solve gpu --batch 1 --context 512", 3, "no device holds llama-3.1-405b: of " },
        { "gpt2 --solve everything", 2, "everything" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[256];
        snprintf(line, sizeof line, "estimate %s", cases[i].line);
        assert_true(command_says(line, cases[i].exit, cases[i].said));
    }
}

/* vLLM takes numbers of devices that heads are divided by: 1, 2, 4, 5, 8, 10, 20 and 40 of 40 heads. Halving
 * all numbers would stop at one of those between. */
static void only_what_can_be_is_halved(void **state) {
    (void)state;
    static const char line[] = "estimate llama-2-13b --framework vllm --device small.yaml --solve gpus "
                               "--context 512 --json";
    bool seen[41] = { false };
    for (int mib = 5000; mib < 40000; mib += mib / 8) {
        char yaml[64];
        snprintf(yaml, sizeof yaml, "memory: %dMiB\n", mib);
        scratch_write("small.yaml", yaml, strlen(yaml));
        options o = options_defaults();
        o.subject = "llama-2-13b", o.estimate.device = "small.yaml", o.run.context = 512;
        o.estimate.framework = FRAMEWORK_VLLM;
        int64_t expected = by_force(&o, FRAMEWORK_GPUS, 64);
        assert_int_equal(solved(line, expected ? 0 : 3), expected);
        seen[expected] = true;
    }
    assert_true(seen[5] && seen[8]);
    scratch_write("small.yaml", "memory: 300MiB\n", 15);
    assert_true(
        command_says("estimate llama-2-13b --framework vllm --device small.yaml --solve gpus --context 512",
                     3, "no number of small.yaml holds llama-2-13b: of the most that can be asked for"));
    assert_true(command_says("estimate llama-3-8b --framework vllm --gpus 8", 0, "over 8 devices"));
    assert_true(command_says("estimate llama-3-8b --framework vllm --gpus 16", 0, "over 16 devices"));
    assert_true(
        command_says("estimate llama-3.2-3b --framework vllm --gpus 12", 2, "8 of them can't be either"));
}

/* One that can't be asked so is not the end of the others. */
static void what_cannot_be_is_passed_over(void **state) {
    (void)state;
    assert_true(
        command_says("estimate --solve model --framework vllm --device h100-80 --gpus 5 --context 2048", 0,
                     "the largest published decoder that fits is"));
    assert_true(
        command_says("estimate --solve model --framework vllm --device t4 --gpus 1021", 2, "whole heads"));
    assert_true(command_says("estimate gpt2 --framework vllm --solve gpu --max-num-seqs 4096", 0,
                             "the smallest device that fits is"));
    assert_true(
        command_says("estimate gpt2 --framework vllm --solve gpu --block-size 3", 2, "--block-size 3"));
}

static void devices_come_from_small_to_large(void **state) {
    (void)state;
    command_result r = command_run("estimate llama-3.2-1b --solve gpu --batch 1 --context 2048 --json");
    json_document d;
    int64_t before = 0;
    bool any = false;
    assert_int_equal(r.exit, 0);
    assert_int_equal(json_parse("solve", r.out, strlen(r.out), &d), STATUS_OK);
    for (uint32_t i = 0; i < hardware_count(); i++) {
        char name[64];
        json_value one = json_item(command_value(&d, "devices"), i);
        int64_t reported, takes, leaves = 0;
        bool fits_it;
        const char *which, *value;
        assert_int_equal(json_get_integer(one, "reported_bytes", 1, INT64_MAX, &reported), STATUS_OK);
        if (json_has(one, "machine_bytes"))
            assert_int_equal(json_get_integer(one, "machine_bytes", 1, reported, &leaves), STATUS_OK);
        reported -= leaves;
        assert_int_equal(json_get_integer(one, "device_bytes", 1, INT64_MAX, &takes), STATUS_OK);
        assert_int_equal(json_get_bool(one, "fits", &fits_it), STATUS_OK);
        assert_int_equal(json_get_string(one, "name", &which), STATUS_OK);
        assert_true(reported >= before && fits_it == (takes <= reported));
        snprintf(name, sizeof name, "%s", which);
        if (fits_it && !any) {
            assert_int_equal(json_get_string(d.root, "value", &value), STATUS_OK);
            assert_string_equal(value, name);
        }
        any |= fits_it;
        before = reported;
    }
    json_close(&d);
    command_free(&r);
}

/* ---- snug's own techniques, and folders ---- */

static void techniques_are_snugs(void **state) {
    (void)state;
    const char *snug = "estimate gpt2 --framework snug --batch 4 --context 256 --json";
    char line[256];
    command_result plain = command_run(snug),
                   planned = command_run("plan gpt2 --batch 4 --context 256 --json");
    json_document d;
    assert_int_equal(json_parse("plan", planned.out, strlen(planned.out), &d), STATUS_OK);
    uint64_t peak = command_number(&d, "least_budget_bytes");
    json_close(&d);
    assert_int_equal(json_parse("estimate", plain.out, strlen(plain.out), &d), STATUS_OK);
    assert_int_equal(command_number(&d, "least_budget_bytes"), peak);
    json_close(&d);
    command_free(&plain);
    command_free(&planned);
    static const char *const pins[] = { "--precision bf16",   "--recompute block",
                                        "--lora rank=8",      "--optimizer-state 8bit",
                                        "--clip off --exact", "--accumulate 2",
                                        "--allow all",        "--threads 1" };
    int others = 0;
    for (size_t i = 0; i < sizeof pins / sizeof *pins; i++) {
        snprintf(line, sizeof line, "%s %s", snug, pins[i]);
        command_result r = command_run(line);
        snprintf(line, sizeof line, "plan gpt2 --batch 4 --context 256 --json %s", pins[i]);
        command_result same = command_run(line);
        assert_int_equal(r.exit, 0);
        assert_int_equal(same.exit, 0);
        json_document one, other;
        assert_int_equal(json_parse("estimate", r.out, strlen(r.out), &one), STATUS_OK);
        assert_int_equal(json_parse("plan", same.out, strlen(same.out), &other), STATUS_OK);
        assert_int_equal(command_number(&one, "least_budget_bytes"),
                         command_number(&other, "least_budget_bytes"));
        others += command_number(&one, "least_budget_bytes") != peak;
        json_close(&one);
        json_close(&other);
        command_free(&r);
        command_free(&same);
    }
    assert_true(others > 4);
    assert_true(
        command_says("estimate gpt2 --recompute block", 2, "is for --framework snug, and here it is hf"));
}

static void folders_come_first(void **state) {
    (void)state;
    command_make_files();
    assert_int_equal(system("cp -r tiny llama-3-8b"), 0);
    assert_true(
        command_says("estimate llama-3-8b --batch 1", 0, "read from here, and not the published model"));
    assert_true(command_says("estimate llama-3-8b --batch 1 --framework snug", 0, "read from here"));
    assert_true(command_says("estimate llama-3-70b --batch 1 --context 64", 0, "70.55 billion"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halving_finds_the_place),
        cmocka_unit_test(failures_end_it),
        cmocka_unit_test(trying_everything_finds_the_same),
        cmocka_unit_test(snug_keeps_what_it_says),
        cmocka_unit_test(answers),
        cmocka_unit_test(only_what_can_be_is_halved),
        cmocka_unit_test(what_cannot_be_is_passed_over),
        cmocka_unit_test(devices_come_from_small_to_large),
        cmocka_unit_test(techniques_are_snugs),
        cmocka_unit_test(folders_come_first),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
