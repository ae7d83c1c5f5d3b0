/* What a device and the host hold besides the step, in the answer of `snug estimate`, beside what was
 * measured or what others have reported. */
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

static const double mib = 1 << 20, gib = 1 << 30;

static void expect_near(double bytes, double measured, double share) {
    if (bytes < (1 - share) * measured || bytes > (1 + share) * measured)
        fail_msg("%.1f MiB, measured were %.1f", bytes / mib, measured / mib);
}

static double asked(const char *line, const char *path) { return (double)command_asked(line, path); }

#define GPT2 "estimate gpt2 --gpu h100-80 --batch 8 --json --quiet --dropout 0.1 "

/* bench/results/gpu_trace.md: without the optimizer's state, and with one workspace of 32 MiB where training
 * leaves two. 512 tokens after 512 are the least, since prompts are short; 1 after 512 the first pass. */
static void generating_is_what_was_measured(void **state) {
    (void)state;
    static const struct {
        const char *line, *end;
        double measured;
    } points[] = { { GPT2 "--context 1024 --dtype half", "low", 573.6 },
                   { GPT2 "--context 1024 --dtype autocast", "low", 1046.7 },
                   { GPT2 "--context 512 --dtype half", "likely", 546.6 },
                   { GPT2 "--context 512 --dtype autocast", "likely", 1019.6 } };
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        char path[64];
        snprintf(path, sizeof path, "generating_bytes.%s", points[i].end);
        double least = strcmp(points[i].end, "low") == 0 ? 0.97 : 1,
               alone = asked(points[i].line, path) / least - asked(points[i].line, "by_term.optimizer") -
                       32 * mib;
        expect_near(alone, points[i].measured * mib, 0.06);
    }
}

#define SMALL "\"eos_token_id\": 0, \"bos_token_id\": 0, \"vocab_size\": 8192, "
static const char llama[] =
    "{ " SMALL "\"model_type\": \"llama\", \"hidden_size\": 256, \"intermediate_size\": 704, "
    "\"num_hidden_layers\": 4, \"num_attention_heads\": 8, \"num_key_value_heads\": 2, "
    "\"max_position_embeddings\": 512, \"tie_word_embeddings\": false }",
                  gpt2[] = "{ " SMALL "\"model_type\": \"gpt2\", \"n_embd\": 256, \"n_layer\": 4, "
                           "\"n_head\": 4, \"n_positions\": 512, \"resid_pdrop\": 0.0, "
                           "\"embd_pdrop\": 0.0, \"attn_pdrop\": 0.0 }";

typedef struct {
    const char *config, *more;
    double measured; /* MB, bench/results/grpo.md, on a CPU */
} measured_point;

/* What `options` and the point's own ask lies within `part` of what was measured. */
static void expect_measured(const measured_point *points, size_t count, const char *options, const char *key,
                            double part) {
    for (size_t i = 0; i < count; i++) {
        char line[384];
        scratch_write("small.json", points[i].config, strlen(points[i].config));
        snprintf(line, sizeof line,
                 "estimate small.json %s --device cpu --batch 8 --context 128 --json --quiet "
                 "--optimizer-kernels foreach %s",
                 points[i].more, options);
        expect_near(asked(line, key), points[i].measured * 1e6, part);
    }
}

/* What Python's functions hold of a block and of all blocks, positions of each text, and keys that were
 * turned in f32. Prompts have a token less than the estimate's. */
static void generating_holds_what_functions_hold(void **state) {
    (void)state;
    static const measured_point points[] = { { llama, "--dtype float32", 99.29 },
                                             { llama, "--dtype autocast", 99.76 },
                                             { gpt2, "--dtype float32", 95.90 },
                                             { gpt2, "--dtype autocast", 88.68 } };
    expect_measured(points, sizeof points / sizeof *points, "", "generating_bytes.likely", 0.003);
}

/* TRL's own steps, likewise: texts of 96 tokens and 32 more, in groups of 4. */
static void texts_hold_what_functions_hold(void **state) {
    (void)state;
    static const measured_point points[] = {
        { llama, "--dtype float32", 95.61 },
        { llama, "", 97.25 },
        { llama, "--dtype float32 --adapter-rank 8 --base-bits 32", 43.40 },
        { gpt2, "--dtype float32", 88.28 },
        { gpt2, "", 84.23 },
        { gpt2, "--dtype float32 --adapter-rank 8 --base-bits 32", 46.75 }
    };
    expect_measured(points, sizeof points / sizeof *points,
                    "--trainer grpo --micro-batch 8 --completion 32 --generations 4 --shortest 128",
                    "rollouts_bytes.likely", 0.001);
}

/* Older libraries made logits of the whole prompt, in 16 bits and in f32: 6 bytes each. What today is the
 * most, a feed-forward's results, what it was given and the embeddings, is less than that, and takes their
 * place. */
static void older_libraries_make_all_logits(void **state) {
    (void)state;
    static const struct {
        const char *today, *before;
        double logits;
    } models[] = {
        { GPT2 "--context 1024 --dtype half", GPT2 "--context 1024 --dtype half --libraries 2023",
          8 * 1024 * 50257.0 },
        { "estimate mistral-7b --batch 8 --context 2048 --dtype half --json --quiet",
          "estimate mistral-7b --batch 8 --context 2048 --dtype half --json --quiet --libraries 2023",
          8 * 2048 * 32000.0 },
    };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        double today = asked(models[i].today, "generating_bytes.likely"),
               before = asked(models[i].before, "generating_bytes.likely");
        if (before - today < 3.5 * models[i].logits || before - today > 7 * models[i].logits)
            fail_msg("%s: %.0f MiB more, logits are %.0f million numbers", models[i].before,
                     (before - today) / mib, models[i].logits / 1e6);
    }
}

static void validation_on_several_devices_has_their_shares(void **state) {
    (void)state;
#define LLAMA "estimate llama-3.2-1b --gpu h100-80 --batch 2 --context 512 --dtype half --json --quiet "
    double alone = asked(LLAMA, "evaluating_bytes.likely"),
           ddp = asked(LLAMA "--gpus 4 --shard ddp", "evaluating_bytes.likely"),
           fsdp = asked(LLAMA "--gpus 4 --shard fsdp", "evaluating_bytes.likely"),
           weights = asked(LLAMA, "by_term.weights");
    expect_near(ddp, alone + weights, 0.001); /* buckets as large as the gradients stay */
    assert_true(fsdp < alone - 1.5 * weights && fsdp > alone - 3 * weights);
}

/* FSDP gathers a unit and what is outside of blocks; everything stays on the device where the loop of one's
 * own does not say offload_to_cpu. The Trainer says it. */
static void saving_gathers(void **state) {
    (void)state;
#define SAVED LLAMA "--gpus 4 --shard fsdp --framework "
    double weights = asked(LLAMA, "by_term.weights"),
           hf = asked(SAVED "hf", "saving_bytes.high") - asked(SAVED "hf", "saving_bytes.low"),
           own = asked(SAVED "pytorch", "saving_bytes.high") - asked(SAVED "pytorch", "saving_bytes.low");
    expect_near(own, weights, 0.01);
    assert_true(hf > 0.2 * weights && hf < 0.5 * weights);
    assert_true(command_says("estimate gpt2 --gpu h100-80 --batch 1 --gpus 2 --shard ddp", 0,
                             "Besides the step, live; saving takes nothing more"));
}

/* pytorch's loops load what was saved on to device 0, in each process (transformers#4403). */
static void misplaced_files_are_said(void **state) {
    (void)state;
    double likely = asked(LLAMA "--gpus 4 --shard ddp", "misplaced_bytes.likely"),
           weights = asked(LLAMA, "by_term.weights"), optimizer = asked(LLAMA, "by_term.optimizer");
    expect_near(likely, weights + optimizer, 0.001);
}

/* ---- the host ---- */

#define SEVEN "estimate llama-2-7b --batch 1 --context 512 --json --quiet "

#define XXL "estimate flan-t5-xxl --libraries 2023 --dtype float32 --batch 1 --context 128 --json --quiet"

/* Of each process that loads, less what it has itself, beside what threads report. */
static void loading_is_what_was_reported(void **state) {
    (void)state;
    static const struct {
        const char *line;
        double reported; /* of one process, less what it had before it loaded */
        double processes;
    } points[] = {
        /* transformers#25107, 7B in f32 with FSDP: 26,415 at the end, 31,818 at the peak, of the first */
        { SEVEN "--libraries 2023 --dtype autocast --gpus 2 --shard ddp", 31818 * mib, 2 },
        /* FastChat#114: 25.7 GiB resident in each of 8 processes */
        { SEVEN "--libraries 2023 --dtype autocast --gpus 8 --shard ddp", 25.7 * gib - 600 * mib, 8 },
        /* llama-int8#3: 25,310 MiB of a model that is made and a state dict, with 553 of the process's own */
        { SEVEN "--framework pytorch --dtype half", (25310.0 - 553) * mib, 1 },
        { SEVEN "--framework pytorch --dtype half", (13405.0 - 553) * mib, 1 },
        /* transformers#16844: T0 in one file, and in files of 10 GB, with what the process has itself */
        { XXL, 87286376 * 1024.0 - 600 * mib, 1 },
        { XXL, 53529416 * 1024.0 - 600 * mib, 1 },
    };
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        double low = asked(points[i].line, "host_loading_bytes.low") / points[i].processes,
               high = asked(points[i].line, "host_loading_bytes.high") / points[i].processes;
        if (points[i].reported < 0.99 * low || points[i].reported > 1.01 * high)
            fail_msg("%zu: %.0f to %.0f MiB, reported were %.0f", i, low / mib, high / mib,
                     points[i].reported / mib);
    }
}

/* Least is that one process of a node loads; most, and seen in ms-swift#9982, weights of zeros and a copy in
 * each: 136 GB in each of 16 processes, for 67 GB of weights. */
static void fsdp_has_a_copy_in_each_process_or_in_one(void **state) {
    (void)state;
#define MANY                                                                                                 \
    "estimate qwen3-30b-a3b --gpu h100-80 --batch 1 --context 512 --dtype half --gpus 16 --shard fsdp "      \
    "--json --quiet"
    double weights = 2 * asked(MANY, "parameters");
    assert_true(asked(MANY, "host_loading_bytes.low") <= weights);
    expect_near(asked(MANY, "host_loading_bytes.high") / 16 / weights, 136.0 / 67, 0.02);
}

static void a_loader_adds_its_workers(void **state) {
    (void)state;
#define IMAGES "estimate resnet-50 --gpu h100-80 --batch 64 --dtype float32 --json --quiet "
    double batch = asked(IMAGES, "by_term.inputs"), none = asked(IMAGES, "host_bytes.likely"),
           eight = asked(IMAGES "--workers 8", "host_bytes.likely");
    expect_near(asked(IMAGES "--workers 8", "host_shared_bytes.likely"), 16 * batch, 0.001);
    assert_true(eight - none > 16 * batch && eight - none < 16 * batch + 2 * gib);
    command_result r = command_run(IMAGES);
    assert_null(strstr(r.out, "host_loader_bytes"));
    command_free(&r);
}

static void the_first_process_gathers_what_is_saved(void **state) {
    (void)state;
#define GATHERED SEVEN "--dtype autocast --gpus 4 --shard "
    double zero3 = asked(GATHERED "zero3", "host_saving_bytes.likely"),
           fsdp = asked(GATHERED "fsdp", "host_saving_bytes.likely"),
           numbers = asked(GATHERED "fsdp", "parameters");
    expect_near(zero3, 2 * numbers, 0.001); /* 16 bits, of stage3_gather_16bit_weights_on_model_save */
    expect_near(fsdp, 8 * numbers, 0.001);  /* both moments in f32, after weights that are let go */
}

/* huggingface/blog#1412: eight processes of a node with 70 billion numbers in f32
 * take 2 TB. On a cluster the node's share of memory is what counts. */
static void a_node_of_a_cluster_is_asked_whether_it_has_that(void **state) {
    (void)state;
#define NODE "estimate llama-2-70b --cluster ascend --batch 1 --context 1024 --json --quiet "
    command_result r = command_run(NODE);
    assert_non_null(strstr(r.out, "\"host_answer\": \"does not fit\""));
    command_free(&r);
    assert_true(asked(NODE, "node_bytes") == 921 * gib);
    expect_near(asked(NODE, "host_loading_bytes.likely"), 4 * 4 * asked(NODE, "parameters"), 0.001);
    assert_true(command_says("estimate llama-2-70b --cluster ascend --batch 1 --context 1024", 0,
                             "one process may load for all"));
    assert_true(
        command_says("estimate gpt2 --cluster ascend --batch 1", 0, "The host's memory fits as well"));
    r = command_run("estimate gpt2 --gpu h100-80 --batch 1 --json --quiet");
    assert_null(strstr(r.out, "host_answer"));
    command_free(&r);
}

/* nebuly-ai/optimate#242, 7B with ZeRO-3: 24.7 GB more for masters, 73.9 for moments and gradients; on the
 * device the state is gone, and a share of the weights where they are kept with the host as well. */
static void the_host_keeps_what_deepspeed_leaves_to_it(void **state) {
    (void)state;
#define KEPT SEVEN "--dtype autocast --gpus 4 --shard zero3 "
    double state_bytes = asked(KEPT, "by_term.optimizer"), live = asked(KEPT, "live_bytes.likely"),
           less = asked(KEPT "--host-keeps optimizer", "live_bytes.likely"),
           least = asked(KEPT "--host-keeps all", "live_bytes.likely"), numbers = asked(KEPT, "parameters");
    assert_true(live - less >= state_bytes && live - less < 1.3 * state_bytes);
    expect_near(less - least, numbers * 2 / 4, 0.02);
    double kept = asked(KEPT "--host-keeps optimizer", "host_kept_bytes.likely");
    expect_near(kept * 4, (24.7 + 73.9) * gib, 0.02);
    assert_true(asked(KEPT "--host-keeps optimizer", "host_bytes.likely") > kept * 4);
    double shares =
        asked(SEVEN "--dtype autocast --gpus 4 --shard fsdp --host-keeps all", "host_kept_bytes.likely");
    expect_near(shares * 4, 16 * numbers, 0.001);
    double one = asked(SEVEN "--dtype autocast --shard zero2 --host-keeps optimizer", "live_bytes.likely"),
           both = asked(SEVEN "--dtype autocast", "live_bytes.likely");
    assert_true(one < both - 9 * numbers); /* of weights, moments and gradients in f32 there are 16 bits */
    assert_true(command_says("estimate llama-2-7b --gpu a100-40 --shard zero2 --host-keeps optimizer "
                             "--batch 1 --context 512 --solve gpus",
                             0, "the least number of devices that fits is 1"));
    assert_true(
        command_says("estimate gpt2 --gpus 2 --shard ddp --host-keeps optimizer", 2, "say --shard zero1"));
    assert_true(command_says("estimate gpt2 --gpus 2 --shard zero2 --host-keeps all", 2, "zero3 or fsdp"));
    assert_true(command_says("estimate gpt2 --gpus 2 --shard zero2 --host-keeps optimizer --optimizer-bits 8",
                             2, "states of fewer bits"));
    assert_true(
        command_says("estimate gpt2 --gpu h100-80 --gpus 2 --shard zero2 --host-keeps optimizer --steps 9", 0,
                     "hours with updates on the host have no rule"));
    assert_true(
        command_says("estimate gpt2 --gpu h100-80 --gpus 2 --shard zero2 --host-keeps optimizer --batch 1 "
                     "--emit deepspeed",
                     2, "leave --host-keeps out"));
}

/* ---- what is said ---- */

static void what_has_no_rule_is_said(void **state) {
    (void)state;
    static const struct {
        const char *line, *said;
    } asks[] = {
        { "estimate llama-3.2-1b --framework litgpt --batch 1 --context 512 --gpu h100-80",
          "litgpt have no rule" },
        { "estimate gpt2 --framework pytorch --batch 1 --context 512 --gpu h100-80",
          "generating has no rule" },
        { "estimate gpt2 --batch 1 --context 512 --gpu h100-80 --gpus 2 --shard fsdp",
          "shared weights has no rule" },
        { "estimate gpt2 --framework vllm --gpu h100-80 --context 512",
          "vLLM's memory of the host has no rule" },
        { "estimate gpt2 --framework llm.c --batch 1 --context 512", "have no rule for llm.c" },
        { "estimate t5-small --batch 1 --context 128 --gpu h100-80",
          "generating has no rule for this model" },
    };
    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++)
        assert_true(command_says(asks[i].line, 0, asks[i].said));
    command_result r =
        command_run("estimate gpt2 --framework vllm --gpu h100-80 --context 512 --json --quiet");
    assert_null(strstr(r.out, "host_bytes"));
    command_free(&r);
    assert_true(command_says("estimate gpt2 --gpu h100-80", 0, "Host memory, resident"));
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(generating_is_what_was_measured),
                                        cmocka_unit_test(generating_holds_what_functions_hold),
                                        cmocka_unit_test(texts_hold_what_functions_hold),
                                        cmocka_unit_test(older_libraries_make_all_logits),
                                        cmocka_unit_test(validation_on_several_devices_has_their_shares),
                                        cmocka_unit_test(saving_gathers),
                                        cmocka_unit_test(misplaced_files_are_said),
                                        cmocka_unit_test(loading_is_what_was_reported),
                                        cmocka_unit_test(fsdp_has_a_copy_in_each_process_or_in_one),
                                        cmocka_unit_test(a_loader_adds_its_workers),
                                        cmocka_unit_test(the_first_process_gathers_what_is_saved),
                                        cmocka_unit_test(a_node_of_a_cluster_is_asked_whether_it_has_that),
                                        cmocka_unit_test(the_host_keeps_what_deepspeed_leaves_to_it),
                                        cmocka_unit_test(what_has_no_rule_is_said) };
    return cmocka_run_group_tests_name("besides the step", tests, scratch_open, scratch_close);
}
