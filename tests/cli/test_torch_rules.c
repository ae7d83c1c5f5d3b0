/* Rules of PyTorch that show in an answer of `snug estimate`, beside what others measured or what follows
 * from the sizes. */
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

#define LIVE "live_bytes.likely"

/* torchtune's README has 60.0 GiB for this run, whose norms and loss are f32 in a model of 16 bits. Modules
 * of torch.nn take 13 less, so the interval holds both; where nothing is narrow there is nothing to widen. */
static void what_may_be_widened_is_in_the_interval(void **state) {
    (void)state;
#define WIDE                                                                                                 \
    "estimate llama-3.2-3b --batch 2 --context 4096 --optimizer-kernels fused --torch 2.6 --json --quiet "
    static const double measured = 60.0 * (1 << 30);
    const char *narrow = WIDE "--framework pytorch --dtype half";
    assert_true((double)command_asked(narrow, LIVE) < 0.85 * measured);
    assert_in_range(command_asked(narrow, "live_bytes.high"), (uint64_t)measured,
                    (uint64_t)(1.05 * measured));
    assert_true(command_asked(narrow, "reserved_bytes.high") > command_asked(narrow, "live_bytes.high"));
    const char *others[] = { WIDE "--framework hf --dtype half", WIDE "--framework pytorch --dtype float32" };
    for (int i = 0; i < 2; i++)
        assert_true((double)command_asked(others[i], "live_bytes.high") <
                    1.1 * (double)command_asked(others[i], LIVE));
}

/* An adapter of the table of tokens looks rows of `rank` numbers up; it is no second head as wide as the
 * vocabulary, whatever weight the head shares. Its gradients are the table's, twice of (rank, vocabulary). */
static void an_adapter_of_the_table_is_no_head(void **state) {
    (void)state;
#define ADAPTED                                                                                              \
    "estimate gpt2 --framework hf --batch 8 --context 1024 --json --quiet --adapter-rank 8 "                 \
    "--adapter-targets "
    uint64_t attention = command_asked(ADAPTED "c_attn", LIVE),
             both = command_asked(ADAPTED "c_attn,wte", LIVE),
             trained =
                 command_asked(ADAPTED "c_attn,wte", "trained") - command_asked(ADAPTED "c_attn", "trained"),
             logits = (uint64_t)8 * 1024 * 50257 * 4;
    assert_int_equal(trained, 8 * (50257 + 768));
    assert_int_equal(command_asked(ADAPTED "c_attn,wte", "by_term.weights") -
                         command_asked(ADAPTED "c_attn", "by_term.weights"),
                     4 * trained);
    assert_true(both > attention + 4 * trained && both < attention + 4 * trained + logits / 16);
}

/* Bytes that tensors asked for on an H100 (bench/estimate/points_gpu_drawn.csv): a third table of tokens. */
static void tied_gradients_are_summed_beside_both(void **state) {
    (void)state;
    double likely = (double)command_asked("estimate distilgpt2 --gpu h100-80 --batch 4 --context 64 "
                                          "--dtype float32 --dropout 0 --json --quiet",
                                          LIVE);
    assert_true(likely > 0.996 * 1687542072 && likely < 1.004 * 1687542072);
}

static void expect_mib(double bytes, double mib) {
    if (bytes < (mib - 1) * (1 << 20) || bytes > (mib + 1) * (1 << 20))
        fail_msg("%.1f MiB, measured were %.1f", bytes / (1 << 20), mib);
}

/* What an H100 showed (bench/results/gpu_trace.md, "What else was measured"). */
static void besides_the_step_it_is_what_was_measured(void **state) {
    (void)state;
#define TRAINED "estimate gpt2 --gpu h100-80 --batch 8 --context 1024 --json --quiet --dtype "
    expect_mib((double)command_asked(TRAINED "autocast", "evaluating_bytes.likely"), 5675.5);
    expect_mib((double)command_asked(TRAINED "half", "evaluating_bytes.likely"), 4715.6);
    expect_mib((double)command_asked(TRAINED "autocast", "resuming_bytes.likely"), 1424.2);
    expect_mib((double)command_asked(TRAINED "half", "resuming_bytes.likely"), 712.2);
    static const char *const on_device[] = { TRAINED "autocast --framework pytorch",
                                             TRAINED "half --framework pytorch" };
    expect_mib((double)command_asked(on_device[0], "resuming_bytes.likely"), 1898.9);
    expect_mib((double)command_asked(on_device[1], "resuming_bytes.likely"), 949.5);
}

/* Of shared state nothing was measured while it is loaded. */
static void what_is_not_known_is_not_said(void **state) {
    (void)state;
    command_result r = command_run(TRAINED "half --gpus 2 --shard fsdp");
    assert_int_equal(r.exit, 0);
    assert_non_null(strstr(r.out, "evaluating_bytes"));
    assert_null(strstr(r.out, "\"resuming_bytes"));
    assert_non_null(strstr(r.out, "loading a checkpoint of shared state has no rule"));
    command_free(&r);
    assert_true(
        command_says("estimate gpt2 --gpu h100-80", 0, "Besides the step, live; saving takes nothing more"));
}

/* sdpa gets a mask for each layer with a window, and heads that share keys are repeated for it; flash-attn's
 * kernels take the window. Mistral 7B: 32 layers, 32 heads of 128 on 8, each with a window of 4096. */
static void windows_are_masks_for_sdpa_alone(void **state) {
    (void)state;
#define MISTRAL "estimate mistral-7b --batch 1 --dtype half --json --quiet --context "
    uint64_t tokens = 8192, masks = 32 * tokens * tokens * 2,
             repeats = 32 * (uint64_t)2 * (32 - 8) * 128 * tokens * 2;
    uint64_t sdpa = command_asked(MISTRAL "8192", LIVE),
             library = command_asked(MISTRAL "8192 --attn flash_attention_2", LIVE);
    assert_in_range(sdpa - library, (masks + repeats) / 100 * 98, (masks + repeats) / 100 * 102);
    assert_int_equal(command_asked(MISTRAL "8192 --attn sdpa", LIVE), sdpa);
    assert_int_equal(command_asked(MISTRAL "8192 --attn fa2", LIVE), library);
    assert_int_equal(command_asked(MISTRAL "2048 --attn fa2", LIVE), command_asked(MISTRAL "2048", LIVE));
    uint64_t padded = command_asked(MISTRAL "8192 --attn fa2 --padding", LIVE);
    assert_true(library < padded);
    assert_true(padded < command_asked(MISTRAL "8192 --padding", LIVE));
#define LLAMA "estimate llama-3.2-1b --batch 1 --context 4096 --json --quiet "
    assert_int_equal(command_asked(LLAMA "--attn fa2", LIVE), command_asked(LLAMA "--attn sdpa", LIVE));
    assert_int_equal(command_asked(LLAMA "--framework pytorch --attn fa2", LIVE),
                     command_asked(LLAMA "--framework pytorch --attn sdpa", LIVE));
}

static void what_flash_attn_cannot_is_refused(void **state) {
    (void)state;
    static const char *const cases[][2] = { { "llama-3.2-1b --dtype float32", "kernels for 16 bits alone" },
                                            { "llama-3.2-1b --device cpu", "kernels for GPUs alone" },
                                            { "t5-small", "a bias by distance" } };
    char line[128];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(line, sizeof line, "estimate %s --batch 1 --context 64 --attn fa2", cases[i][0]);
        assert_true(command_says(line, 2, cases[i][1]));
    }
    assert_true(command_says("estimate llama-3.2-1b --batch 1 --context 64 --attn fa2 --gpu v100-32", 0,
                             "has no kernels of flash-attn's"));
    assert_true(command_says("estimate gpt2 --batch 1 --attn fa2 --gpu h100-80 --emit hf", 0,
                             "attn_implementation=\"flash_attention_2\""));
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(what_may_be_widened_is_in_the_interval),
                                        cmocka_unit_test(an_adapter_of_the_table_is_no_head),
                                        cmocka_unit_test(tied_gradients_are_summed_beside_both),
                                        cmocka_unit_test(besides_the_step_it_is_what_was_measured),
                                        cmocka_unit_test(what_is_not_known_is_not_said),
                                        cmocka_unit_test(windows_are_masks_for_sdpa_alone),
                                        cmocka_unit_test(what_flash_attn_cannot_is_refused) };
    return cmocka_run_group_tests_name("rules of PyTorch", tests, scratch_open, scratch_close);
}
