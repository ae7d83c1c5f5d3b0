/* --json of every command that has it, where it is refused: what does not fit (exit code 3) is an object on
 * stdout all the same, and what is wrong (2) leaves stdout empty. The commands are those that `snug help`
 * names, so a new one without a row fails the test. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "io/scratch.h"

#define DATA "--data text --batch 4 --context 16 --steps 2 "

/* By command: what is wrong, and what does not fit; NULL: there is nothing that could not fit. */
static const struct {
    const char *command, *wrong[4], *no_fit[4];
} rows[] = {
    { "plan",
      { "tiny --batch 0", "nowhere", "tiny --recompute everywhere", "tiny --add-token <a>" },
      { "tiny --memory 1MiB", "gpt2-xl --memory 64MiB --exact" } },
    { "train",
      { "tiny --out o", "tiny --data nowhere --out o", "mixtral-8x7b --data text --out o" },
      { "tiny --out o --memory 1MiB " DATA, "model --data text --eval-only --memory 1MiB" } },
    { "profile", { "tiny --steps 0", "mixtral-8x7b" }, { "tiny --memory 1MiB" } },
    { "compare", { "tiny --batch 0", "mixtral-8x7b --measure" }, { NULL } },
    { "estimate",
      { "nothing-7b", "gpt2 --device nothing", "gpt2 --cluster nothing", "gpt2 --json --emit hf" },
      { "llama-3-70b --device t4 --batch 1",
        "llama-3-70b --cluster pitzer --batch 8 --context 8192 --dtype float32 --gpus 1",
        "llama-3-70b --device v100-32 --solve context --batch 1",
        "gpt2-xl --framework snug --device mine.yaml" } },
    { "explain-oom", { "nowhere", "text" }, { NULL } },
    { "admit", { "nowhere", "--gpu nothing big.sh", "--cluster nothing big.sh" }, { "big.sh" } },
    { "snapshot", { "nowhere", "text", "." }, { NULL } },
    { "status", { "nowhere" }, { NULL } },
    { "generate", { "model", "nowhere --prompt a" }, { "model --prompt a --memory 1MiB" } },
    { "quantize",
      { "model --out q", "nowhere --to int8 --out q" },
      { "model --to int8 --data text --out q --memory 1MiB" } },
    { "tokenize",
      { "model --out q.safetensors", "words --data nowhere --out q.safetensors", "words --data text --out q",
        "words --data text --out q.safetensors --add-token \xff" },
      { "words --data text --out q.safetensors --memory 1MiB" } },
    { "export",
      { "model --out q", "nowhere --to gguf --out q" },
      { "model --to gguf --out q --memory 1MiB" } },
    { "serve",
      { "nowhere", "model --max-model-len 4096", "model --host there", "model --solve memory --memory 1GiB" },
      { "model --memory 1MiB" } },
    { "devices", { "here" }, { NULL } },
};
enum { ROWS = sizeof rows / sizeof *rows };

static int make_files(void **state) {
    static const char mine[] =
        "title: mine\nmemory: 256MiB\ncapability: \"9.0\"\nbandwidth: 1e12\nf32: 1e12\n"
        "f16: 2e12\ncontext: [1MiB, 2MiB, 3MiB]\nworkspace: 1MiB\n";
    static const char big[] =
        "#!/bin/bash\n#SBATCH --gres=gpu:t4:1\npython run_clm.py --do_train --model_name_or_path gpt2-xl "
        "--torch_dtype float32 --block_size 1024\n";
    if (scratch_open(state) != 0) return -1;
    command_make_files();
    scratch_write("big.sh", big, sizeof big - 1);
    scratch_write("mine.yaml", mine, sizeof mine - 1);
    command_expect(0, "train tiny --data text --out model --steps 2 --batch 4 --quiet");
    return system("mkdir words && cp " SNUG_ROOT "/tests/text/golden/gpt2.json words/tokenizer.json");
}

/* Does "snug help COMMAND" know the option? */
static bool has_json(const char *command) {
    char line[64];
    snprintf(line, sizeof line, "help %s", command);
    command_result r = command_run(line);
    assert_int_equal(r.exit, 0);
    bool has = strstr(r.out, "\n  --json ") != NULL;
    command_free(&r);
    return has;
}

static void every_command_has_a_row(void **state) {
    (void)state;
    command_result r = command_run("help");
    int found = 0;
    for (char *rest, *line = strtok_r(r.out, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char name[32];
        if (strcmp(line, "Models") == 0) break;
        if (strncmp(line, "  snug ", 7) != 0 || sscanf(line, "  snug %31[a-z-]", name) != 1 ||
            strcmp(name, "help") == 0 || name[0] == '-')
            continue;
        if (!has_json(name)) continue;
        bool known = false;
        for (int i = 0; i < ROWS; i++) known |= strcmp(rows[i].command, name) == 0;
        if (!known) fail_msg("%s takes --json, and has no row here", name);
        found++;
    }
    assert_int_equal(found, ROWS);
    command_free(&r);
}

static command_result refused(int row, const char *asked, int code) {
    char line[512];
    snprintf(line, sizeof line, "%s %s --json", rows[row].command, asked);
    command_result r = command_run(line);
    if (r.exit != code) fail_msg("snug %s: exit %d, not %d: %s", line, r.exit, code, r.err);
    return r;
}

static void what_is_wrong_leaves_stdout_empty(void **state) {
    (void)state;
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < 4 && rows[i].wrong[k]; k++) {
            command_result r = refused(i, rows[i].wrong[k], 2);
            if (r.out[0]) fail_msg("%s %s: %s", rows[i].command, rows[i].wrong[k], r.out);
            assert_non_null(strstr(r.err, "snug: "));
            command_free(&r);
        }
}

static void what_does_not_fit_is_an_object(void **state) {
    (void)state;
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < 4 && rows[i].no_fit[k]; k++) {
            command_result r = refused(i, rows[i].no_fit[k], 3);
            json_document d;
            json_value fits;
            bool yes = true;
            if (json_parse(rows[i].no_fit[k], r.out, strlen(r.out), &d) != STATUS_OK)
                fail_msg("%s %s: %s: %s", rows[i].command, rows[i].no_fit[k], status_message(), r.out);
            if (json_get(d.root, "fits", &fits) != STATUS_OK || json_as_bool(fits, &yes) != STATUS_OK || yes)
                fail_msg("%s %s: %s", rows[i].command, rows[i].no_fit[k], r.out);
            json_close(&d);
            command_free(&r);
        }
}

/* ---- before the plan ---- */

/* What is wrong with the model or the data is said before a plan is made and shown. */
static void what_is_wrong_comes_before_the_plan(void **state) {
    (void)state;
    static const char *const lines[] = {
        "train mixtral-8x7b --out o " DATA,
        "train llama-3-8b --out o --data text --batch 1 --context 16 --steps 1",
        "train llama-3-8b --eval-only --data text --context 16",
        "profile llama-3-8b --batch 1 --context 16",
        "compare llama-3-8b --batch 1 --context 16 --measure",
        "train short --out o " DATA,
        "train short --eval-only --data text --context 16",
        "train deeper --out o " DATA,
        "profile deeper --batch 2",
        "train wider --out o " DATA,
        "train model --out o --data ids.u16 --batch 4 --context 16 --steps 2",
        "train model --eval-only --data ids.u16 --context 16",
        "profile model --data ids.u16 --batch 4 --context 16",
        "train model --out o --lora rank=4,target=nothing " DATA,
    };
    static uint16_t ids[4096];
    for (int i = 0; i < 4096; i++) ids[i] = (uint16_t)(i == 3000 ? 999 : i % 256);
    scratch_write("ids.u16", (const char *)ids, sizeof ids);
    assert_int_equal(system("for m in short deeper wider; do cp -r model $m; done; "
                            "truncate -s 3000 short/model.safetensors; "
                            "sed -i 's/\"n_layer\": 2/\"n_layer\": 3/' deeper/config.json; "
                            "sed -i 's/\"n_embd\": 32/\"n_embd\": 64/' wider/config.json"),
                     0);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        command_result r = command_run(lines[i]);
        if (r.exit != 2 || r.out[0] || strstr(r.err, "What was chosen"))
            fail_msg("snug %s: exit %d: %s%s", lines[i], r.exit, r.out, r.err);
        command_free(&r);
    }
}

/* Where there is no plan to tell of, the reason is the sentence. */
static void a_reason_stands_where_there_is_no_plan(void **state) {
    (void)state;
    command_result r = command_run("generate model --prompt a --memory 1MiB --json --quiet");
    json_document d;
    const char *reason;
    assert_int_equal(json_parse("generate", r.out, strlen(r.out), &d), STATUS_OK);
    assert_int_equal(json_get_string(d.root, "reason", &reason), STATUS_OK);
    assert_non_null(strstr(reason, "does not fit"));
    assert_non_null(strstr(r.err, reason));
    json_close(&d);
    command_free(&r);
}

static void a_folder_is_a_way_out(void **state) {
    (void)state;
    char line[256];
    uint64_t least = command_least_budget("plan gpt2 --batch 2 --context 64 --json --quiet");
    snprintf(line, sizeof line, "plan gpt2 --batch 2 --context 64 --memory %llu",
             (unsigned long long)least - 1);
    assert_true(command_says(line, 3, "--offload-to DIR, which is slower (needs"));
    snprintf(line, sizeof line,
             "plan gpt2 --batch 2 --context 64 --memory %llu --offload-limit 1MiB --offload-to " SNUG_BUILD,
             (unsigned long long)least - 1);
    assert_true(command_says(line, 3, "a larger --offload-limit (needs"));
}

static void what_stands_in_the_way_is_named(void **state) {
    (void)state;
    char line[256];
    uint64_t least = command_least_budget("plan char-small --batch 4 --threads 2 --json --quiet");
    snprintf(line, sizeof line, "plan char-small --batch 4 --threads 2 --recompute off --memory %llu",
             (unsigned long long)least);
    assert_true(command_says(line, 3, "--recompute auto (needs"));
}

static void what_only_plans_is_not_run(void **state) {
    (void)state;
    static const char *const lines[] = {
        "profile bounded.json --batch 1 --context 8 --data text",
        "compare bounded.json --batch 1 --context 8 --measure --steps 1",
        "train bounded.json --batch 1 --context 8 --data text --steps 1 --out o"
    };
    static const char config[] =
        "{\"model_type\": \"llama\", \"vocab_size\": 256, \"hidden_size\": 32, \"intermediate_size\": 64, "
        "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"max_position_embeddings\": 32, "
        "\"clip_qkv\": 8.0}";
    scratch_write("bounded.json", config, sizeof config - 1);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_true(command_says(lines[i], 2, "(llama) can be planned, and not computed yet"));
}

/* Where a run computes is one thing, and which GPU somewhere else is asked about is another. */
static void devices_are_named(void **state) {
    (void)state;
    static const char *const commands[] = { "plan tiny", "train tiny --out o " DATA, "profile tiny",
                                            "compare tiny", "generate model --prompt a" };
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char line[256];
        snprintf(line, sizeof line, "%s --device cuda:0", commands[i]);
        assert_true(command_says(line, 2, "this snug is built for the CPU only"));
        snprintf(line, sizeof line, "%s --device h100-80", commands[i]);
        assert_true(
            command_says(line, 2, "'h100-80' is no device; there are cpu, cuda, and auto for the best"));
    }
    static const char *const same[][2] = {
        { "plan tiny --quiet --json", "plan tiny --device cpu --quiet --json" },
        { "plan tiny --device auto --quiet --json", "plan tiny --device cpu --quiet --json" },
        { "estimate gpt2 --gpu t4 --batch 4 --json", "estimate gpt2 --device t4 --batch 4 --json" },
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        uint64_t peak[2];
        for (int k = 0; k < 2; k++) {
            command_result r = command_run(same[i][k]);
            json_document d;
            assert_int_equal(r.exit, 0);
            assert_int_equal(json_parse("out", r.out, strlen(r.out), &d), STATUS_OK);
            peak[k] = command_number(&d, i < 2 ? "predicted.peak_bytes" : "device_bytes.likely");
            json_close(&d);
            command_free(&r);
        }
        assert_int_equal(peak[0], peak[1]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_command_has_a_row),
        cmocka_unit_test(what_is_wrong_leaves_stdout_empty),
        cmocka_unit_test(what_does_not_fit_is_an_object),
        cmocka_unit_test(what_is_wrong_comes_before_the_plan),
        cmocka_unit_test(a_reason_stands_where_there_is_no_plan),
        cmocka_unit_test(a_folder_is_a_way_out),
        cmocka_unit_test(what_stands_in_the_way_is_named),
        cmocka_unit_test(what_only_plans_is_not_run),
        cmocka_unit_test(devices_are_named),
    };
    return cmocka_run_group_tests(tests, make_files, scratch_close);
}
