/* What snug estimate says of serving is what snug serve plans, to the byte; with it as memory the texts fit,
 * and with a byte less they do not. */
#define _GNU_SOURCE
#include "cli/serving.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/scratch.h"

static bool left_out;

enum { LINE = 320 };

/* A number of the plan that the command writes. */
static uint64_t number_of(const char *line, const char *key) {
    command_result r = command_run(line);
    if (r.exit != 0) fail_msg("%s ends with %d: %s", line, r.exit, r.err);
    const char *at = strstr(r.out, key);
    if (!at) fail_msg("%s does not say %s: %s", line, key, r.out);
    uint64_t number = strtoull(at + strlen(key), NULL, 10);
    command_free(&r);
    return number;
}

static const char *const models[] = { "model", "narrow", "llama", "coded" };
static const char *const gpus[] = { "", "--gpu h200", "--gpu rtx-4090", "--gpu t4" };
static const struct { int texts, length; } asked[] = { { 1, 64 }, { 3, 17 }, { 20, 64 } };

static const char *line_of(int texts) {
    static char line[64];
    snprintf(line, sizeof line, "\"texts_at_once\": %d\n", texts);
    return line;
}

static void estimates_are_plans(void **state) {
    (void)state;
    char line[LINE];
    uint64_t last = 0;
    for (int m = 0; m < 4; m++)
        for (int g = 0; g < 4; g++)
            for (int a = 0; a < 3; a++) {
                snprintf(
                    line, sizeof line,
                    "estimate %s --framework snug --serve --requests %d --context %d --threads 1 --json %s",
                    models[m], asked[a].texts, asked[a].length, gpus[g]);
                uint64_t said = number_of(line, "\"peak_bytes\": ");
                snprintf(line, sizeof line,
                         "serve %s --solve memory --max-num-seqs %d --max-model-len %d --threads 1 --json %s",
                         models[m], asked[a].texts, asked[a].length, gpus[g]);
                uint64_t planned = number_of(line, "\"peak_bytes\": ");
                assert_int_equal(said, planned);
                snprintf(line, sizeof line,
                         "serve %s --memory %llu --max-num-seqs %d --max-model-len %d --threads 1 --dry-run "
                         "--json %s",
                         models[m], (unsigned long long)said, asked[a].texts, asked[a].length, gpus[g]);
                assert_int_equal(number_of(line, "\"texts_at_once\": "), asked[a].texts);
                assert_int_equal(number_of(line, "\"peak_bytes\": "), said);
                snprintf(line, sizeof line,
                         "serve %s --memory %llu --max-num-seqs %d --max-model-len %d --threads 1 --dry-run "
                         "--json %s",
                         models[m], (unsigned long long)said - 1, asked[a].texts, asked[a].length, gpus[g]);
                command_result r = command_run(line); /* fewer, shorter steps, or nothing at all */
                bool less = r.exit == 0 && (!strstr(r.out, "\"max_num_batched_tokens\": 256") ||
                                            !strstr(r.out, line_of(asked[a].texts)));
                assert_true(r.exit == 3 || less);
                command_free(&r);
                assert_int_not_equal(said, last); /* and they are not all the same */
                last = said;
            }
}

/* The plan that is estimated is the one that is served by. */
static void what_is_estimated_is_served(void **state) {
    (void)state;
    if (left_out) return;
    char line[LINE], answer_of[SERVING_ANSWER], expected[64];
    uint64_t said =
        number_of("estimate model --framework snug --serve --requests 2 --context 40 --threads 1 --json",
                  "\"peak_bytes\": ");
    snprintf(line, sizeof line, "--memory %llu --max-num-seqs 2 --max-model-len 40",
             (unsigned long long)said);
    serving_start(line);
    assert_int_equal(serving_get("/plan", answer_of), 200);
    snprintf(expected, sizeof expected, "\"peak_bytes\": %llu,", (unsigned long long)said);
    assert_non_null(strstr(answer_of, expected));
    assert_int_equal(serving_post("/v1/completions", "{\"prompt\": \"a\", \"max_tokens\": 39}", answer_of),
                     200);
    command_result r = serving_stop();
    command_free(&r);
}

static void names_stand_for_sizes(void **state) {
    (void)state;
    uint64_t bytes = number_of("estimate gpt2 --framework snug --serve --json", "\"weights\": ");
    assert_in_range(bytes, 2 * 124000000, 2 * 125000000); /* 16 bits each, all but vectors */
    command_result r =
        command_run("estimate llama-3-8b --framework snug --serve --requests 2 --gpu h200 --json");
    assert_int_equal(r.exit, 0);
    assert_non_null(strstr(r.out, "\"fits\": true"));
    assert_non_null(strstr(r.err, "no tokenizer"));
    command_free(&r);
    r = command_run("estimate 70B --framework snug --serve --gpu t4 --json");
    assert_int_equal(r.exit, 3);
    assert_non_null(strstr(r.out, "\"fits\": false"));
    assert_non_null(strstr(r.err, "serving takes "));
    command_free(&r);
    bytes = number_of("estimate bert-base --framework snug --serve --json", "\"weights\": ");
    assert_in_range(bytes, 2 * 108000000, 2 * 110000000); /* vectors of texts, without a head */
    r = command_run("estimate vit-base --framework snug --serve");
    assert_int_equal(r.exit, 2);
    assert_non_null(strstr(r.err, "has no next token: it sees images"));
    command_free(&r);
    r = command_run("estimate gpt2 --framework snug --serve --requests 257");
    assert_int_equal(r.exit, 2);
    assert_non_null(strstr(r.err, "at most 256 texts at once"));
    command_free(&r);
    r = command_run("estimate gpt2 --serve");
    assert_int_equal(r.exit, 2);
    assert_non_null(strstr(r.err, "--serve"));
    command_free(&r);
    if (left_out) return;
    r = command_run("serve model --port 0 --gpu h200"); /* it is not here, or not this one */
    assert_int_equal(r.exit, 2);
    command_free(&r);
}

static int make(void **state) {
    static const char config[] =
        "{\"model_type\": \"llama\", \"vocab_size\": 256, \"hidden_size\": 32, \"intermediate_size\": 48, "
        "\"num_hidden_layers\": 3, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
        "\"max_position_embeddings\": 64, \"tie_word_embeddings\": false}\n";
    if (serving_make_model(state, 1, &left_out) != 0) return -1;
    command_shell("mkdir kin");
    scratch_write("kin/config.json", config, sizeof config - 1);
    command_expect(0, "train kin --data text --context 64 --batch 2 --steps 1 --out llama --quiet");
    command_expect(
        0, "train longer --data text --context 64 --batch 2 --steps 1 --precision bf16 --out narrow --quiet");
    command_expect(0, "quantize model --to int8 --out coded");
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(estimates_are_plans),
        cmocka_unit_test(what_is_estimated_is_served),
        cmocka_unit_test(names_stand_for_sizes),
    };
    return cmocka_run_group_tests(tests, make, scratch_close);
}
