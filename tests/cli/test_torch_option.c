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

/* Reserved bytes of an H100 with expandable_segments (bench/estimate/points_gpu.csv), and live ones without a
 * change. */
static void expandable_segments_hold_what_was_measured(void **state) {
    (void)state;
    static const struct {
        const char *line;
        double reserved;
    } points[] = { { "gpt2 --device h100-80 --batch 8 --context 1024 --dtype autocast", 14250147840 },
                   { "gpt2 --device h100-80 --batch 8 --context 1024 --dtype half", 11418992640 },
                   { "tinyllama-1.1b --device h100-80 --batch 4 --context 2048 --dtype half", 26633830400 } };
    for (int i = 0; i < 3; i++) {
        char line[256];
        snprintf(line, sizeof line, "estimate %s --expandable-segments --json --quiet", points[i].line);
        double ratio = (double)command_asked(line, "reserved_bytes.likely") / points[i].reserved;
        if (!(ratio > 0.98 && ratio < 1.02)) fail_msg("snug %s: over measured %.4f", line, ratio);
    }
    assert_int_equal(likely("--expandable-segments", LIVE), likely("", LIVE));
}

/* What torch 2.11 and transformers 5.17 counted more with a batch that is padded, without the mask that is
 * handed over; with shared keys these are repeated as well. */
static void padding_is_a_mask_of_numbers_in_each_layer(void **state) {
    (void)state;
    static const struct {
        const char *model, *dtype;
        int64_t more;
    } points[] = { { "llama", "float32", 209739044 - 205536548 - 8192 },
                   { "llama", "autocast", 186277156 - 184171812 - 8192 },
                   { "llama-grouped", "float32", 192437536 - 181943584 - 8192 },
                   { "llama-grouped", "autocast", 168189216 - 162938144 - 8192 },
                   { "bert", "float32", 180053328 - 175850832 - 8192 } };
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        char line[320], padded[340];
        snprintf(line, sizeof line,
                 "estimate " SNUG_ROOT "/bench/estimate/models/%s.json --device cpu --batch 4 --context 256 "
                 "--dtype %s --optimizer-kernels foreach --json --quiet",
                 points[i].model, points[i].dtype);
        snprintf(padded, sizeof padded, "%s --padding", line);
        int64_t more = (int64_t)command_asked(padded, LIVE) - (int64_t)command_asked(line, LIVE);
        if (llabs(more - points[i].more) > 1024) fail_msg("%s: %lld", line, (long long)more);
    }
}

static void what_has_no_rule_widens_the_interval_and_is_said(void **state) {
    (void)state;
    static const char images[] = "estimate resnet-50 --device h100-80 --batch 64 --dtype float32 ";
    char line[256];
    assert_true(likely("--compile", "live_bytes.low") < likely("", "live_bytes.low"));
    assert_true(likely("--compile", "live_bytes.high") > likely("", "live_bytes.high"));
    assert_int_equal(likely("--compile", LIVE), likely("", LIVE));
    assert_true(command_says(ASKED "--compile", 0, "torch.compile is not played"));
    snprintf(line, sizeof line, "%s--cudnn-benchmark --json --quiet", images);
    assert_true(command_asked(line, "reserved_bytes.high") > INT64_C(10612) << 20);
    assert_true(command_asked(line, "live_bytes.high") > INT64_C(10387) << 20);
    snprintf(line, sizeof line, "%s--cudnn-benchmark", images);
    assert_true(command_says(line, 0, "tries every algorithm at the first use"));
}

static void what_a_tool_has_no_name_for_stands_in_a_comment(void **state) {
    (void)state;
    static const char line[] = "estimate gpt2 --gpu h100-80 --batch 4 --context 512 --compile "
                               "--expandable-segments --padding --shortest 64 --emit ";
    char whole[200];
    static const char *const says[] = { "# asked with --compile", "expandable_segments:True",
                                        "attention_mask", "from 64 tokens on" };
    snprintf(whole, sizeof whole, "%shf", line);
    for (int i = 0; i < 4; i++) assert_true(command_says(whole, 0, says[i]));
    snprintf(whole, sizeof whole, "%sjson", line);
    assert_true(command_says(whole, 0, "\"shortest\": 64"));
    assert_true(command_says(whole, 0, "\"expandable-segments\": true"));
}

/* 13B on a T4 with libraries of 2023 ran out of memory where 75 % of it are played. */
static void codes_in_f16_may_take_more(void **state) {
    (void)state;
    static const char line[] = "estimate llama-2-13b --libraries 2023 --base-bits 4 --adapter-rank 8 "
                               "--adapter-targets q_proj,v_proj --batch 1 --context 1024 --attn eager "
                               "--gradient-checkpointing --reentrant --base-scales f32 --device ";
    char whole[320];
    snprintf(whole, sizeof whole, "%st4", line);
    assert_true(command_says(whole, 0, "the cause is not known"));
    snprintf(whole, sizeof whole, "%st4 --strict", line);
    assert_true(command_says(whole, 3, "may fit"));
    snprintf(whole, sizeof whole, "%sa10 --strict", line);
    assert_true(command_says(whole, 0, "Fits "));
}

static void unequal_lengths_reserve_more(void **state) {
    (void)state;
    static const char gpt2[] = "estimate gpt2 --gpu h100-80 --batch 8 --context 1024 --json --quiet ";
    static const char *const more[] = { "", "--shortest 64", "--shortest 1024",
                                        "--shortest 64 --expandable-segments" };
    uint64_t live[4], reserved[4];
    for (int i = 0; i < 4; i++) {
        char line[160];
        snprintf(line, sizeof line, "%s%s", gpt2, more[i]);
        live[i] = command_asked(line, LIVE), reserved[i] = command_asked(line, "reserved_bytes.likely");
        assert_int_equal(live[i], live[0]);
    }
    assert_true(reserved[1] > reserved[0] + reserved[0] / 10);
    assert_int_equal(reserved[2], reserved[0]);
    assert_true(reserved[3] < reserved[1]);
    assert_true(command_says(ASKED "--shortest 64", 0, "steps of several lengths"));
    assert_true(command_says(ASKED, 0, "of unequal lengths more is reserved"));
    assert_true(command_says(ASKED "--shortest 128", 0, "all samples are as long\n"));
}

/* Where nobody says how long they are, the interval is as wide as where somebody does, and the answer is not
 * another one: what lies in pieces is given back before a request fails. */
static void unknown_lengths_widen_what_is_reserved(void **state) {
    (void)state;
    static const char gpt2[] = "estimate gpt2 --gpu %s --batch 8 --context 1024 --json --quiet %s";
    static const char *const more[] = { "", "--shortest 1024", "--shortest 64", "--expandable-segments" };
    uint64_t reserved[4], whole[4];
    char line[160];
    for (int i = 0; i < 4; i++) {
        snprintf(line, sizeof line, gpt2, "h100-80", more[i]);
        reserved[i] = command_asked(line, "reserved_bytes.high");
        whole[i] = command_asked(line, "device_bytes.high");
    }
    assert_true(reserved[0] > reserved[1] + reserved[1] / 4);
    assert_int_equal(whole[0] - whole[1], reserved[0] - reserved[1]);
    assert_true(reserved[0] > reserved[2] - reserved[2] / 10); /* which is drawn, and so a little off */
    assert_true(reserved[3] < reserved[0]);
    for (int i = 0; i < 2; i++) {
        snprintf(line, sizeof line, gpt2, "rtx-4090 --strict", more[i]);
        assert_true(command_says(line, 0, "\"answer\": \"fits\""));
        assert_true(command_asked(line, "device_bytes.high") <= command_asked(line, "reported_bytes"));
    }
}

static void what_is_for_others_is_refused(void **state) {
    (void)state;
    static const char *const wrong[][2] = {
        { ASKED "--cudnn-benchmark", "is for convolutions" },
        { "estimate resnet-50 --device h100-80 --padding", "sees images" },
        { "estimate resnet-50 --device h100-80 --shortest 8", "sees images" },
        { ASKED "--shortest 2000", "is more than the 128 tokens" },
        { "estimate gpt2 --device cpu --batch 1 --expandable-segments", "for CUDA and ROCm" },
        { "estimate resnet-50 --device cpu --batch 1 --cudnn-benchmark", "is for GPUs" },
        { ASKED "--framework pytorch --padding", "is for --framework hf" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_true(command_says(wrong[i][0], 2, wrong[i][1]));
}

static void what_a_version_has_not_got_is_refused(void **state) {
    (void)state;
    static const char *const wrong[][2] = {
        { "--torch 1.14", "'1.14' is none of any, 1.8" },
        { "--torch 2.2-nightly", "'2.2-nightly' is none of any, 1.8" },
        { "--torch 2.", "'2.' is none of any, 1.8" },
        { "--dtype half+x", "'half+x' is none of float32" },
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
    assert_true(command_says(ASKED "--torch 1.10.2+cu113 --emit json", 0, "\"torch\": \"1.10\""));
    assert_true(command_says(ASKED "--torch 2.15.0 --emit json", 0, "\"torch\": \"2.15\""));
    assert_non_null(strstr(r.out, "\"keeps-gradients\": true"));
    command_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_version_chooses_what_it_had),
                                        cmocka_unit_test(a_version_says_what_it_does_otherwise),
                                        cmocka_unit_test(expandable_segments_hold_what_was_measured),
                                        cmocka_unit_test(padding_is_a_mask_of_numbers_in_each_layer),
                                        cmocka_unit_test(what_has_no_rule_widens_the_interval_and_is_said),
                                        cmocka_unit_test(what_a_tool_has_no_name_for_stands_in_a_comment),
                                        cmocka_unit_test(codes_in_f16_may_take_more),
                                        cmocka_unit_test(unequal_lengths_reserve_more),
                                        cmocka_unit_test(unknown_lengths_widen_what_is_reserved),
                                        cmocka_unit_test(what_is_for_others_is_refused),
                                        cmocka_unit_test(what_a_version_has_not_got_is_refused),
                                        cmocka_unit_test(advice_keeps_to_the_version),
                                        cmocka_unit_test(emitted_settings_name_the_version) };
    return cmocka_run_group_tests_name("--torch", tests, scratch_open, scratch_close);
}
