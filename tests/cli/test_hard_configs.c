/* What a config.json may say wrongly gets one sentence, whichever framework is asked: unknown keys are
 * ignored with a note, missing ones named, unknown types say which builder is nearest, and no number
 * overflows. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cli/command.h"
#include "io/scratch.h"

#define SIZES                                                                                                \
    "\"hidden_size\": 64, \"intermediate_size\": 128, \"num_hidden_layers\": 2, \"num_attention_heads\": "   \
    "4, "                                                                                                    \
    "\"max_position_embeddings\": 128, \"vocab_size\": 256"
#define LARGEST                                                                                              \
    "{\"model_type\": \"llama\", \"hidden_size\": 1048576, \"intermediate_size\": 1048576, "                 \
    "\"num_hidden_layers\": 8, \"num_attention_heads\": 2048, \"head_dim\": 512, "                           \
    "\"max_position_embeddings\": 16777216, \"vocab_size\": 1048576}"

static const char *const frameworks[] = { "hf", "pytorch", "snug", "vllm", "llama.cpp" };
static const char *const servers[] = { "vllm", "llama.cpp", "sglang", "tensorrt-llm" };

static void configs_get_a_sentence(void **state) {
    (void)state;
    static const struct {
        const char *config, *said;
        int exit;
    } cases[] = {
        { "{\"model_type\": \"llama\", " SIZES ", \"flux\": 1, \"warp\": {}}", "are ignored: flux, warp", 0 },
        { "{\"model_type\": \"llama\", \"hidden_size\": 64}", "'num_hidden_layers' is missing", 2 },
        { "{" SIZES "}", "'model_type' is missing", 2 },
        { "{\"model_type\": \"lama\", " SIZES "}", "the nearest is llama", 2 },
        { "{\"model_type\": \"mamba\", " SIZES "}", "there is no builder", 2 },
        { "{\"model_type\": \"gpt_oss\", " SIZES "}", "the nearest of most decoders is llama", 2 },
        { "{\"_class_name\": \"UNet2DConditionModel\"}", "a network of diffusers", 2 },
        { "{\"_class_name\": 7}", "'_class_name' is 7", 2 },
        { "{\"architecture\": \"efficientnet_b0\"}", "of timm's architectures there are", 2 },
        { "{\"model_type\": \"llama\", " SIZES ", \"head_dim\": 99999999999999999999}", "head_dim", 2 },
        { "{\"model_type\": \"llama\", " SIZES ", \"head_dim\": -1}", "'head_dim' is -1", 2 },
        { "{\"model_type\": \"llama\", " SIZES ", \"head_dim\": 2147483647}", "head_dim is 2147483647", 2 },
        { "{\"model_type\": \"gpt2\", \"n_embd\": 2147483647, \"n_layer\": 2147483647, \"n_head\": 1, "
          "\"vocab_size\": 2147483647, \"n_positions\": 2147483647}",
          "must be", 2 },
        { "[1, 2]", "object", 2 },
        { "{\"model_type\": ", "config.json", 2 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t f = 0; f < sizeof frameworks / sizeof *frameworks; f++) {
            char line[128];
            scratch_write("config.json", cases[i].config, strlen(cases[i].config));
            snprintf(line, sizeof line, "estimate config.json --batch 1 --framework %s", frameworks[f]);
            command_result r = command_run(line);
            if (r.exit != cases[i].exit || !(strstr(r.out, cases[i].said) || strstr(r.err, cases[i].said)))
                fail_msg("%s: %s\n%d: %s%s", cases[i].config, line, r.exit, r.out, r.err);
            command_free(&r);
        }
}

/* What has no builder is trained as a step that a recipe records, which says nothing of serving it. */
static void what_has_no_builder_is_told_what_helps(void **state) {
    (void)state;
    static const struct {
        const char *config, *to_train, *to_serve;
    } cases[] = {
        { "{\"model_type\": \"gpt_oss\", " SIZES "}", "--recipe hf > step.py && python step.py config.json",
          "; of a decoder ask for a copy of config.json that says \"model_type\": \"llama\"" },
        { "{\"model_type\": \"qwen4\", " SIZES "}", "--recipe hf > step.py", "\"model_type\": \"qwen" },
        { "{\"model_type\": \"gemma3\", \"text_config\": {\"model_type\": \"gemma3_text\"}}",
          "--recipe hf > step.py", "nothing of serving. Builders" },
        { "{\"_class_name\": \"UNet2DConditionModel\"}", "--recipe diffusers > step.py", "" },
        { "{\"architecture\": \"efficientnet_b0\"}", "--recipe timm > step.py", "" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch_write("config.json", cases[i].config, strlen(cases[i].config));
        assert_true(command_says("estimate config.json --batch 1", 2, cases[i].to_train));
        for (size_t f = 0; f < sizeof servers / sizeof *servers; f++) {
            char line[128];
            snprintf(line, sizeof line, "estimate config.json --batch 1 --framework %s", servers[f]);
            command_result r = command_run(line);
            if (r.exit != 2 || !strstr(r.err, "tells nothing of serving") || strstr(r.err, "--recipe") ||
                !strstr(r.err, cases[i].to_serve))
                fail_msg("%s: %s\n%d: %s", cases[i].config, line, r.exit, r.err);
            command_free(&r);
        }
    }
}

/* The stand-in that is named is served. */
static void a_stand_in_is_served(void **state) {
    static const char stand_in[] = "{\"model_type\": \"llama\", " SIZES "}";
    (void)state;
    scratch_write("config.json", stand_in, sizeof stand_in - 1);
    assert_true(command_says("estimate config.json --batch 1 --framework vllm --gpu h100-80", 0, "cache"));
}

/* The largest of everything that is taken, and more texts than there are bytes for. */
static void nothing_overflows(void **state) {
    (void)state;
    static const struct {
        const char *options, *said;
        int exit;
    } cases[] = {
        { "--batch 1 --context 1024", "does not fit", 3 },
        { "--batch 1 --context 1024 --framework vllm", "does not fit", 3 },
        { "--batch 1 --context 1024 --framework llama.cpp", "does not fit", 3 },
        { "--batch 1048576", "more bytes than can be counted", 2 },
        { "--batch 64 --context 4194304", "impossible shape", 2 },
        { "--batch 1 --context 16777216 --attn eager", "impossible shape", 2 },
        { "--requests 1048576 --context 16777216 --framework vllm", "more bytes than can be counted", 2 },
        { "--requests 1048576 --context 16777216 --framework llama.cpp", "more bytes than can be counted",
          2 },
    };
    scratch_write("config.json", LARGEST, strlen(LARGEST));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[256];
        snprintf(line, sizeof line, "estimate config.json --device b200 %s", cases[i].options);
        command_result r = command_run(line);
        if (r.exit != cases[i].exit || !(strstr(r.out, cases[i].said) || strstr(r.err, cases[i].said)))
            fail_msg("%s\n%d: %s%s", line, r.exit, r.out, r.err);
        command_free(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(configs_get_a_sentence),
        cmocka_unit_test(what_has_no_builder_is_told_what_helps),
        cmocka_unit_test(a_stand_in_is_served),
        cmocka_unit_test(nothing_overflows),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
