/* --torch: what it chooses, what it says, and what it refuses. */
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

#define ASKED "estimate bert-base --gpu v100-16 --batch 4 --context 128 "

static uint64_t likely(const char *options, const char *key) {
    char line[256];
    snprintf(line, sizeof line, ASKED "--json --quiet %s", options);
    return command_asked(line, key);
}

#define LIVE "live_bytes.likely"
static void a_version_chooses_what_it_had(void **state) {
    (void)state;
    assert_int_equal(likely("--torch 1.13", LIVE),
                     likely("--torch 1.13 --attn eager --optimizer-kernels single", LIVE));
    assert_int_equal(likely("--torch 2.0", LIVE),
                     likely("--torch 2.0 --attn eager --optimizer-kernels foreach", LIVE));
    assert_int_equal(likely("--torch 2.7", LIVE), likely("--optimizer-kernels foreach", LIVE));
    assert_int_equal(likely("--torch 2.8", LIVE), likely("", LIVE));
    assert_int_equal(likely("--torch any", LIVE), likely("", LIVE));
    assert_int_equal(likely("--torch 2.11", "device_bytes.likely"), likely("", "device_bytes.likely"));
    assert_true(likely("--keeps-gradients", LIVE) > likely("", LIVE));
}

static void a_version_says_what_it_does_otherwise(void **state) {
    (void)state;
    static const char says[] =
        "torch 1.10: gradients stay as zeros from one step to the next, softmax keeps what it "
        "reads, all";
    command_result r = command_run(ASKED "--torch 1.10");
    char flat[8192];
    size_t n = 0;
    for (const char *at = r.out; *at && n + 1 < sizeof flat; at++) flat[n++] = *at == '\n' ? ' ' : *at;
    flat[n] = 0;
    if (!strstr(flat, says)) fail_msg("%s", r.out);
    assert_non_null(strstr(flat, "transformers 5 refuses torch 1.10"));
    command_free(&r);
    r = command_run(ASKED "--torch 2.6");
    assert_null(strstr(r.out, "torch 2.6:"));
    command_free(&r);
    assert_true(command_says(ASKED "--torch 2.0", 0, "torch 2.0: the update has two copies"));
    r = command_run(ASKED "--torch 2.0 --optimizer sgd");
    assert_null(strstr(r.out, "torch 2.0:"));
    command_free(&r);
}

static void what_a_version_has_not_got_is_refused(void **state) {
    (void)state;
    static const char *const wrong[][2] = {
        { "--torch 1.14", "'1.14' is none of any, 1.8" },
        { "--torch 1.7", "'1.7' is none of any, 1.8" },
        { "--torch 1.13 --attn sdpa", "--attn flash: PyTorch has it from 2.0 on" },
        { "--torch 1.13 --optimizer-kernels fused", "--optimizer-kernels fused: PyTorch has it from 2.0 on" },
        { "--torch 1.10 --optimizer-kernels foreach", "foreach: PyTorch has it from 1.12 on" },
        { "--torch 1.10 --gpus 2 --shard fsdp", "--shard fsdp: PyTorch has it from 1.12 on" },
        { "--torch 1.10 --framework litgpt", "--torch is for --framework hf|pytorch" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char line[256];
        snprintf(line, sizeof line, ASKED "%s", wrong[i][0]);
        if (!command_says(line, 2, wrong[i][1])) fail_msg("%s", line);
    }
}

/* Advice is only what the version has. */
static void advice_keeps_to_the_version(void **state) {
    (void)state;
    static const char *const never[] = { "--attn flash", "fused", "fsdp" };
    for (int batch = 16; batch <= 4096; batch *= 4) {
        char line[256];
        snprintf(
            line, sizeof line,
            "estimate gpt2-xl --gpu t4 --batch %d --context 1024 --torch 1.10 --loss fused --json --quiet",
            batch);
        command_result r = command_run(line);
        assert_int_equal(r.exit, 3);
        assert_non_null(strstr(r.out, "\"change\""));
        for (size_t k = 0; k < sizeof never / sizeof *never; k++) assert_null(strstr(r.out, never[k]));
        command_free(&r);
    }
}

static void emitted_settings_name_the_version(void **state) {
    (void)state;
    assert_true(command_says(ASKED "--torch 2.3 --emit hf", 2, "leave --torch 2.3 out"));
    command_result r = command_run(ASKED "--torch 1.10 --keeps-gradients --emit json");
    assert_int_equal(r.exit, 0);
    assert_non_null(strstr(r.out, "\"torch\": \"1.10\""));
    assert_non_null(strstr(r.out, "\"keeps-gradients\": true"));
    command_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_version_chooses_what_it_had),
                                        cmocka_unit_test(a_version_says_what_it_does_otherwise),
                                        cmocka_unit_test(what_a_version_has_not_got_is_refused),
                                        cmocka_unit_test(advice_keeps_to_the_version),
                                        cmocka_unit_test(emitted_settings_name_the_version) };
    return cmocka_run_group_tests_name("--torch", tests, scratch_open, scratch_close);
}
