/* snug estimate --trainer grpo: its phases beside sums by hand, what TRL refuses, and that more of anything
 * never takes less. What TRL's own steps took is in bench/results/grpo.md. */
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

/* Qwen 2.5 0.5B: 494,032,768 weights, 24 layers, keys and values of 2 heads of 64, 151,936 words. */
#define MODEL "estimate qwen2.5-0.5b --trainer grpo --context 1024 --json --quiet "
#define ASKED MODEL "--batch 8 "
static const uint64_t weights = 494032768;

/* Of 8 texts, unless a batch is said. */
static uint64_t asked(const char *more, const char *key) {
    char line[512];
    snprintf(line, sizeof line, "%s%s", strstr(more, "--batch") ? MODEL : ASKED, more);
    return command_asked(line, key);
}

static void a_reference_is_a_second_model(void **state) {
    (void)state;
    assert_int_equal(asked("--beta 0.1", "by_term.reference"), 4 * weights);
    assert_int_equal(asked("--beta 0.1 --dtype half", "by_term.reference"), 2 * weights);
    assert_int_equal(asked("--beta 0.1", "training_bytes.likely") - asked("", "training_bytes.likely"),
                     4 * weights + 8 * 512 * 4);
    assert_int_equal(asked("--beta 0.1 --gpus 4 --shard fsdp", "by_term.reference"), weights);
    assert_int_equal(asked("--beta 0.1 --gpus 4 --shard zero2", "by_term.reference"), 2 * weights);
}

/* Adapters have the base as reference, and it is computed without them. */
static void adapters_have_no_second_model(void **state) {
    (void)state;
    command_result r = command_run(ASKED "--beta 0.1 --adapter-rank 16");
    assert_int_equal(r.exit, 0);
    assert_non_null(strstr(r.out, "\"reference_bytes\""));
    assert_null(strstr(r.out, "\"reference\": 9"));
    command_free(&r);
    assert_true(asked("--beta 0.1 --adapter-rank 16", "reference_bytes.likely") <
                asked("--beta 0.1 --adapter-rank 16 --iterations 2", "old_bytes.likely"));
}

/* Of 8 texts in 16 bits: 24 layers of 256 numbers a token, and half of one more as keys are joined. */
static void texts_that_are_made_have_a_cache(void **state) {
    (void)state;
    uint64_t once = asked("--dtype half --shortest 1024", "rollouts_bytes.likely");
    uint64_t twice =
        asked("--dtype half --shortest 1024 --batch 16 --micro-batch 8", "rollouts_bytes.likely");
    uint64_t cache = 8 * 1024 * 256 * 2 * 49 / 2;
    assert_true(twice - once > cache);
    assert_int_equal(twice, asked("--dtype half --shortest 1024 --micro-batch 8 --accumulate 2 --batch 16",
                                  "rollouts_bytes.likely"));
    /* in the middle of a step, so its first half's gradients are there */
    assert_int_equal(asked("--dtype half --shortest 1024 --batch 16 --micro-batch 8 --steps-per-generation 1",
                           "rollouts_bytes.likely"),
                     once + 2 * weights);
}

/* The model's own chances are computed apart where texts are older than an update, or are not its own. */
static void old_chances_have_a_pass_of_their_own(void **state) {
    (void)state;
    command_result r = command_run(ASKED);
    assert_null(strstr(r.out, "\"old_bytes\""));
    command_free(&r);
    assert_true(asked("--iterations 2", "old_bytes.likely") > 0);
    assert_true(asked("--rollouts server", "old_bytes.likely") > 0);
    /* and beside the model's chances those of who made the texts wait for their pass, in f32 */
    assert_int_equal(asked("--rollouts server", "by_term.inputs") - asked("--iterations 2", "by_term.inputs"),
                     8 * 512 * 4);
    r = command_run(ASKED "--rollouts server");
    assert_null(strstr(r.out, "\"rollouts_bytes\""));
    command_free(&r);
}

/* vLLM takes its share of the device, in every phase, or asleep in that of the texts alone. */
static void vllm_takes_its_share(void **state) {
    (void)state;
#define ON "--gpu h100-80 --rollouts "
    uint64_t memory = asked(ON "vllm", "reported_bytes"), share = (uint64_t)(0.3 * (double)memory);
    uint64_t alone = asked(ON "server", "training_bytes.likely");
    assert_int_equal(asked(ON "vllm", "training_bytes.likely") - alone, share);
    uint64_t asleep = asked(ON "vllm-sleep", "training_bytes.likely") - alone;
    assert_true(asleep > 0 && asleep < share / 10);
    assert_true(asked(ON "vllm-sleep", "rollouts_bytes.likely") > share);
    assert_int_equal(asked(ON "vllm-sleep", "rollouts_bytes.likely"),
                     asked(ON "vllm", "rollouts_bytes.likely"));
    assert_true(asked(ON "vllm --vllm-gpu-memory-utilization 0.6", "training_bytes.likely") > share + alone);
    /* no room for one text beside the weights of its own */
    assert_true(command_says(ASKED ON "vllm-sleep --vllm-gpu-memory-utilization 0.01", 3, "\"fits\": false"));
}

/* The largest phase is what is live, whichever it is. */
static void the_largest_phase_counts(void **state) {
    (void)state;
    static const char *const keys[] = { "rollouts_bytes.likely", "reference_bytes.likely",
                                        "training_bytes.likely" };
    static const char *const lines[] = { "--beta 0.1",
                                         "--beta 0.1 --micro-batch 1 --batch 512 --gradient-checkpointing" };
    for (size_t i = 0; i < 2; i++) {
        uint64_t most = 0;
        for (size_t k = 0; k < 3; k++)
            if (asked(lines[i], keys[k]) > most) most = asked(lines[i], keys[k]);
        assert_int_equal(asked(lines[i], "live_bytes.likely"), most);
    }
    assert_true(
        command_says("estimate qwen2.5-0.5b --trainer grpo --context 1024 --micro-batch 1 --batch 512 "
                     "--gradient-checkpointing",
                     0, "at the peak, in generating"));
}

/* Logits are made in tiles of 4096 tokens by 32768 words, so ten times the texts have no more of them. */
static void logits_come_in_tiles(void **state) {
    (void)state;
    uint64_t eight = asked("--micro-batch 8 --dtype half", "by_term.temporaries");
    assert_int_equal(asked("--micro-batch 8 --dtype half", "by_term.logits"), 0);
    assert_true(eight >= 4096 * UINT64_C(32768) * 2);
    /* without a GPU's kernel seven tiles of f32 and one of truth values stand beside it on the way back */
    uint64_t gpu = asked("--micro-batch 1", "by_term.temporaries");
    assert_true(asked("--micro-batch 1 --device cpu", "by_term.temporaries") - gpu >=
                29 * 512 * UINT64_C(32768));
}

static void what_trl_refuses_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *more, *says;
    } cases[] = {
        { "--completion 1024", "of the 1024 tokens of --context some are the prompt" },
        { "--generations 3", "no whole number of groups" },
        { "--loss fused", "tile by tile" },
        { "--libraries 2023", "--libraries 2023" },
        { "--framework pytorch", "--trainer is for --framework hf" },
        { "--rollouts vllm --device cpu", "for GPUs" },
        { "--vllm-gpu-memory-utilization 0.5", "--rollouts vllm" },
        { "--emit hf", "one of them" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[512];
        snprintf(line, sizeof line, ASKED "%s", cases[i].more);
        if (!command_says(line, 2, cases[i].says)) fail_msg("%s: not '%s'", cases[i].more, cases[i].says);
    }
    assert_true(command_says("estimate bert-base --trainer grpo --context 64", 2, "for decoders"));
    assert_true(command_says("estimate gpt2 --beta 0.1", 2, "--beta is for --trainer grpo"));
    assert_true(command_says("estimate gpt2 --trainer grpo --context 64 --html p.html", 2, "no picture"));
    assert_true(command_says("estimate gpt2 --trainer grpo --context 64 --emit hf", 2, "take --emit trl"));
    assert_true(command_says("estimate gpt2 --emit trl", 2, "--trainer grpo"));
}

/* Fewer texts at once, vLLM asleep: nothing in what is learned changes. */
static void rollouts_are_cut_before_anything_is_learned_otherwise(void **state) {
    (void)state;
    assert_true(
        command_says("estimate qwen2.5-7b --trainer grpo --context 2048 --batch 512 --micro-batch 1 "
                     "--generations 8 --gradient-checkpointing --gpu h200 --dtype half --quiet --json",
                     3, "--steps-per-generation 8"));
    assert_true(command_says("estimate qwen2.5-0.5b --trainer grpo --context 1024 --batch 8 --gpu rtx-4090 "
                             "--rollouts vllm --gradient-checkpointing --vllm-gpu-memory-utilization 0.6",
                             3, "--rollouts vllm-sleep"));
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_reference_is_a_second_model),
                                        cmocka_unit_test(adapters_have_no_second_model),
                                        cmocka_unit_test(texts_that_are_made_have_a_cache),
                                        cmocka_unit_test(old_chances_have_a_pass_of_their_own),
                                        cmocka_unit_test(vllm_takes_its_share),
                                        cmocka_unit_test(the_largest_phase_counts),
                                        cmocka_unit_test(logits_come_in_tiles),
                                        cmocka_unit_test(what_trl_refuses_is_refused),
                                        cmocka_unit_test(
                                            rollouts_are_cut_before_anything_is_learned_otherwise) };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
