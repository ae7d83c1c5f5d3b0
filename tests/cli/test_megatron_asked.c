/* Megatron-LM as a user asks of it: what --solve tries, what a cluster is asked for, and what contradicts. */
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
#include "io/scratch.h"

#define ASK "estimate llama-3-8b --framework megatron "

/* The least number is a multiple of what a copy of the model takes, not 1. */
static void numbers_of_devices_hold_whole_copies(void **state) {
    (void)state;
    static const struct {
        const char *line;
        uint64_t gpus;
    } cases[] = {
        { ASK "--gpu h100-80 --tensor-model-parallel-size 4 --pipeline-model-parallel-size 2 --micro-batch 1 "
              "--context 4096 --solve gpus --json",
          8 },
        { ASK "--gpu h100-80 --context-parallel-size 2 --use-distributed-optimizer --micro-batch 1 "
              "--context 4096 --recompute-granularity full --solve gpus --json",
          4 },
        { "estimate mixtral-8x7b --framework megatron --gpu h200 --expert-model-parallel-size 8 "
          "--pipeline-model-parallel-size 3 --use-distributed-optimizer --micro-batch 1 --context 2048 "
          "--num-layers 12 --solve gpus --json",
          24 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(command_asked(cases[i].line, "value"), cases[i].gpus);
    assert_true(command_says(ASK
                             "--gpu h100-80 --tensor-model-parallel-size 8 --pipeline-model-parallel-size "
                             "32 --context-parallel-size 8 --context 4096 --solve gpus",
                             2, "a copy of the model takes 2048 devices, and numbers up to 1024 are tried"));
}

#define DEEPSEEK                                                                                             \
    "\"model_type\":\"deepseek_v3\",\"hidden_size\":1024,\"vocab_size\":32000,\"num_attention_heads\":16,"   \
    "\"intermediate_size\":4096,\"kv_lora_rank\":64,\"qk_nope_head_dim\":32,\"qk_rope_head_dim\":16,"        \
    "\"v_head_dim\":32,\"max_position_embeddings\":32768"

static void write_deepseek(const char *more) {
    char json[1024];
    snprintf(json, sizeof json, "{" DEEPSEEK "%s}", more);
    scratch_write("config.json", json, strlen(json));
}

/* The largest that fits of those that can be divided: it fits, the next one does not. */
static void sizes_are_tried_that_can_be_divided(void **state) {
    (void)state;
    static const struct {
        const char *line, *variable;
        uint64_t step; /* 0: divisors */
    } cases[] = {
        { "--gpus 4 --tensor-model-parallel-size 4 --sequence-parallel --micro-batch 8", "context", 4 },
        { "--gpus 24 --tensor-model-parallel-size 8 --context-parallel-size 3 --sequence-parallel "
          "--micro-batch 48",
          "context", 24 },
        { "--gpus 16 --tensor-model-parallel-size 8 --context 4096 --global-batch-size 96", "batch", 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[512];
        snprintf(line, sizeof line, ASK "--gpu h100-80 %s --solve %s --json", cases[i].line,
                 cases[i].variable);
        uint64_t value = command_asked(line, "value"), more = command_asked(line, "one_more_bytes");
        assert_true(value > 1 && (cases[i].step ? value % cases[i].step == 0 : 48 % value == 0));
        for (int next = 0; next < 2; next++) {
            uint64_t larger = value + cases[i].step;
            while (!cases[i].step && (48 % larger || larger == value)) larger++;
            snprintf(line, sizeof line, ASK "--gpu h100-80 %s --%s %llu --json", cases[i].line,
                     cases[i].variable, (unsigned long long)(next ? larger : value));
            command_result r = command_run(line);
            assert_int_equal(r.exit, next ? 3 : 0);
            command_free(&r);
        }
        assert_true(more > UINT64_C(79) << 30);
    }
    assert_true(command_says(ASK
                             "--gpu t4 --gpus 8 --tensor-model-parallel-size 8 --sequence-parallel --solve "
                             "context",
                             3, "not even a context of 8 tokens"));
}

/* A model that has no builder here has a longest context all the same. */
static void deepseek_has_a_longest_context(void **state) {
    (void)state;
    write_deepseek(",\"num_hidden_layers\":2");
    assert_int_equal(command_asked("estimate config.json --framework megatron --gpu h100-80 --micro-batch 1 "
                                   "--solve context --json",
                                   "value"),
                     32768);
}

/* --batch is a micro-batch's, and a step's beside --micro-batch, 8 too. */
static void batches_are_those_that_were_said(void **state) {
    (void)state;
    static const struct {
        const char *line;
        int exit;
        const char *says;
    } cases[] = {
        { "--gpus 8 --micro-batch 1 --batch 9", 2,
          "--batch 9: 2 copies of the model take 2 samples at once" },
        { "--gpus 8 --micro-batch 3 --batch 8", 2,
          "--batch 8: 2 copies of the model take 6 samples at once" },
        { "--gpus 4 --micro-batch 3 --batch 8", 2, "--batch 8: 1 copy of the model takes 3 samples at once" },
        { "--gpus 8 --micro-batch 1 --batch 64 --global-batch-size 32", 2,
          "--batch 64 and --global-batch-size 32 both say how many samples" },
        { "--gpus 8 --micro-batch 1 --batch 64 --global-batch-size 64", 0, "micro-batches of a step" },
        { "--gpus 8 --micro-batch 2 --batch 64 --accumulate 3", 2, "--batch and --accumulate both say" },
        { "--gpus 8 --micro-batch 2 --global-batch-size 64 --accumulate 3", 2,
          "--global-batch-size and --accumulate" },
        { "--gpus 8 --batch 2", 0, "a step of 4 micro-batches, as many as there are stages, is assumed" },
        { "--gpus 8", 0, "micro-batches of 8 samples are assumed" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[512];
        snprintf(line, sizeof line, ASK "--pipeline-model-parallel-size 4 --context 1024 %s", cases[i].line);
        assert_true(command_says(line, cases[i].exit, cases[i].says));
    }
    assert_int_equal(command_asked(ASK "--gpus 4 --pipeline-model-parallel-size 2 --context 1024 "
                                       "--micro-batch 1 --batch 8 --json",
                                   "micro_batches.likely"),
                     4);
}

/* Of what advice says: micro-batches, copies and samples of a micro-batch make as many samples as before, and
 * the options it names are taken and keep what it promises. */
static void advice_keeps_the_samples_of_a_step(void **state) {
    (void)state;
    static const struct {
        const char *stay, *change, *says;
        uint64_t samples;
    } cases[] = {
        { "--gpus 4 --context 8192 --use-distributed-optimizer --cross-entropy-fusion-impl te "
          "--recompute-granularity full",
          "--micro-batch 16 --accumulate 4", "--accumulate", 256 },
        { "--gpus 8 --context 8192 --use-distributed-optimizer --cross-entropy-fusion-impl te "
          "--recompute-granularity full",
          "--batch 15 --accumulate 3", "--batch", 360 },
        { "--gpus 2 --context 1024 --use-distributed-optimizer --cross-entropy-fusion-impl te "
          "--recompute-granularity full --micro-batch 1",
          "--accumulate 4", "--accumulate 8", 8 },
        { "--gpus 8 --context 8192 --micro-batch 2",
          "--recompute-granularity selective --recompute-modules mlp", "--recompute-modules core_attn", 16 },
        { "--gpus 8 --context 8192 --micro-batch 2 --recompute-granularity full --use-distributed-optimizer",
          "--recompute-method block --recompute-num-layers 2", "--recompute-num-layers 1", 16 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[1024];
        snprintf(line, sizeof line, ASK "--gpu h100-80 %s %s --json", cases[i].stay, cases[i].change);
        command_result r = command_run(line);
        json_document d;
        assert_int_equal(r.exit, 3);
        assert_int_equal(json_parse("advice", r.out, strlen(r.out), &d), STATUS_OK);
        const char *change = command_string(&d, "change"), *batch;
        print_message("%s: %s\n", cases[i].change, change);
        assert_non_null(strstr(change, cases[i].says));
        snprintf(line, sizeof line, ASK "--gpu h100-80 %s %s --json", cases[i].stay, change);
        batch = strstr(line, "batch ");
        assert_non_null(batch);
        uint64_t passes =
            command_asked(line, "micro_batches.likely") * command_asked(line, "replicas.likely");
        assert_int_equal(passes * strtoull(batch + strlen("batch "), NULL, 10), cases[i].samples);
        assert_int_equal(command_asked(line, "device_bytes.likely"),
                         command_number(&d, "changed_device_bytes"));
        json_close(&d);
        command_free(&r);
    }
}

/* Layers beyond the model's follow its pattern where that is known: every second one has experts here. */
static void more_layers_follow_the_pattern(void **state) {
    (void)state;
    const char *experts = ",\"num_hidden_layers\":%d,\"n_routed_experts\":8,\"num_experts_per_tok\":2,"
                          "\"moe_intermediate_size\":512,\"first_k_dense_replace\":1,\"moe_layer_freq\":2%s";
    uint64_t parameters[2];
    char more[512];
    for (int i = 0; i < 2; i++) {
        snprintf(more, sizeof more, experts, i ? 12 : 4, i ? ",\"num_nextn_predict_layers\":1" : "");
        write_deepseek(more);
        parameters[i] = command_asked(
            "estimate config.json --framework megatron --micro-batch 1 --context 64 --num-layers 12 --json",
            "parameters");
        command_result r =
            command_run("estimate config.json --framework megatron --micro-batch 1 --context 64");
        assert_int_equal(command_has_words(r.out, "more than one token ahead"), i);
        command_free(&r);
    }
    assert_int_equal(parameters[0], parameters[1]);
    static const char mixed[] =
        "{\"model_type\":\"qwen3_moe\",\"hidden_size\":64,\"vocab_size\":1000,\"num_attention_heads\":4,"
        "\"num_key_value_heads\":2,\"head_dim\":16,\"intermediate_size\":128,\"num_hidden_layers\":4,"
        "\"num_experts\":4,\"num_experts_per_tok\":2,\"moe_intermediate_size\":32,\"decoder_sparse_step\":2,"
        "\"max_position_embeddings\":256}";
    scratch_write("config.json", mixed, sizeof mixed - 1);
    assert_true(command_says("estimate config.json --framework megatron --num-layers 8", 2,
                             "which layers have experts is known of the model's 4 alone"));
    assert_true(command_says("estimate config.json --framework megatron --num-layers 2", 0, "one device: "));
    assert_true(command_says("estimate config.json --framework megatron", 0, "million parameters"));
    assert_true(command_says("estimate config.json --framework megatron --device cpu", 2, "trains on GPUs"));
}

/* --shard is none of its options: the line that the script has must be one that is understood. */
static void clusters_share_by_its_own_sizes(void **state) {
    (void)state;
    command_result r = command_run(ASK "--cluster ascend --tensor-model-parallel-size 2 --context 4096 "
                                       "--micro-batch 1 --use-distributed-optimizer --emit slurm");
    assert_int_equal(r.exit, 0);
    assert_true(command_has_words(r.out, "--gpus 4") && strstr(r.out, "--gpus-per-node=4\n"));
    assert_null(strstr(r.out, "fsdp"));
    assert_null(strstr(r.err, "fsdp"));
    char line[1024];
    const char *estimated = strstr(r.out, "# Estimated: snug ");
    assert_non_null(estimated);
    estimated += strlen("# Estimated: snug ");
    snprintf(line, sizeof line, "%.*s", (int)strcspn(estimated, "\n"), estimated);
    command_expect(0, line);
    command_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(numbers_of_devices_hold_whole_copies),
                                        cmocka_unit_test(sizes_are_tried_that_can_be_divided),
                                        cmocka_unit_test(deepseek_has_a_longest_context),
                                        cmocka_unit_test(batches_are_those_that_were_said),
                                        cmocka_unit_test(advice_keeps_the_samples_of_a_step),
                                        cmocka_unit_test(more_layers_follow_the_pattern),
                                        cmocka_unit_test(clusters_share_by_its_own_sizes) };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
