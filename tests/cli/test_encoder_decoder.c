/* Models that answer texts (T5), from the command line: pairs as data, training and going on, what is
 * written, answers. */
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

#define MODEL                                                                                                \
    "{\"model_type\":\"t5\",\"d_model\":32,\"d_kv\":8,\"d_ff\":48,\"num_layers\":1,\"num_heads\":4,"         \
    "\"vocab_size\":392,\"relative_attention_num_buckets\":8,\"relative_attention_max_distance\":12,"        \
    "\"dropout_rate\":0,\"n_positions\":32%s}"
#define RUN "--batch 8 --context 16 --threads 2 --quiet "
#define LEARNS RUN "--lr 1e-2 --warmup 5 --steps 120 "

static const char *const asked[] = { "red", "green", "blue", "one", "two", "three", "sun", "moon" };
static const char *const answers[] = { "rot", "gruen", "blau", "eins", "paar", "drei", "sonne", "mond" };
enum { PAIRS = sizeof asked / sizeof *asked };

/* Each pair often, so that some of each are held out. */
static void write_pairs(const char *path, const char *form) {
    FILE *file = fopen(path, "w");
    if (strstr(path, ".csv")) fprintf(file, "a,q\n");
    for (int i = 0; i < 20 * PAIRS; i++) {
        bool turned = strstr(path, ".csv") != NULL; /* columns stand in any order */
        const char *q = asked[i % PAIRS], *a = answers[i % PAIRS];
        fprintf(file, form, turned ? a : q, turned ? q : a);
    }
    fclose(file);
}

static int open_files(void **state) {
    char json[600];
    if (scratch_open(state) != 0) return -1;
    command_shell("mkdir -p t5 bare && cp " SNUG_ROOT "/tests/text/golden/t5.json t5/tokenizer.json");
    snprintf(json, sizeof json, MODEL, "");
    scratch_write("t5/config.json", json, strlen(json));
    scratch_write("bare/config.json", json, strlen(json));
    write_pairs("pairs.jsonl", "{\"prompt\": \"%s\", \"completion\": \"%s\"}\n");
    write_pairs("pairs.csv", "%s,%s\n");
    write_pairs("texts.jsonl", "{\"text\": \"%s and %s\"}\n");
    write_pairs("chats.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \"%s\"}, {\"role\": "
                               "\"assistant\", \"content\": \"%s\"}]}\n");
    command_shell("cat texts.jsonl > plain.txt");
    return 0;
}

/* The answer is the whole output but for its line. */
static void expect_answer(const char *line, const char *answer) {
    command_result r = command_run(line);
    bool asks = strstr(line, answer) == NULL; /* a prompt is no part of its answer */
    if (r.exit != 0 || !strstr(r.out, answer) || !asks)
        fail_msg("%s: exit %d: %s%s", line, r.exit, r.out, r.err);
    command_free(&r);
}

static void pairs_are_learned_and_answered(void **state) {
    (void)state;
    char line[200];
    command_expect(0, "train t5 --data pairs.jsonl --out learned " LEARNS);
    for (int i = 0; i < PAIRS; i++) {
        snprintf(line, sizeof line, "generate learned --prompt %s --temperature 0 --tokens 8 --quiet",
                 asked[i]);
        expect_answer(line, answers[i]);
    }
    /* side by side: the same answers; each ends where it is over */
    json_document d = command_json("generate learned --temperature 0 --tokens 8 --prompt green --prompt sun "
                                   "--prompt red --json");
    assert_int_equal(command_number(&d, "at_once"), 3);
    assert_true(command_number(&d, "measured.peak_bytes") <= command_number(&d, "predicted.peak_bytes"));
    json_close(&d);
    command_result r = command_run("generate learned --temperature 0 --tokens 8 --prompt green --prompt sun "
                                   "--prompt red --quiet");
    assert_non_null(strstr(r.out, "== 1 of 3 ==\ngreen\ngruen\n\n== 2 of 3 ==\nsun\nsonne\n\n== 3 of 3 =="
                                  "\nred\nrot\n"));
    command_free(&r);
}

/* CSV, other names of columns, and tokens that were made before are the same data. */
static void pairs_come_in_any_form(void **state) {
    (void)state;
    command_expect(0, "train t5 --data pairs.jsonl --out json --lr 1e-3 --steps 3 " RUN);
    command_expect(
        0, "train t5 --data pairs.csv --columns prompt=q,completion=a --out csv --lr 1e-3 --steps 3 " RUN);
    command_expect(0, "tokenize t5 --data pairs.jsonl --out made.safetensors --quiet");
    command_expect(0, "train t5 --data made.safetensors --out made --lr 1e-3 --steps 3 " RUN);
    command_shell("cmp json/model.safetensors csv/model.safetensors");
    command_shell("cmp json/model.safetensors made/model.safetensors");
}

static void runs_go_on_to_the_same_end(void **state) {
    (void)state;
    command_expect(0, "train t5 --data pairs.jsonl --out whole --lr 1e-3 --steps 6 --save-every 3 " RUN);
    command_expect(0, "train t5 --data pairs.jsonl --out parts --lr 1e-3 --steps 6 --save-every 3 " RUN);
    command_shell("rm -rf parts/model.safetensors parts/checkpoint-6");
    command_expect(
        0, "train t5 --data pairs.jsonl --out parts --lr 1e-3 --steps 6 --save-every 3 --resume " RUN);
    command_shell("cmp whole/model.safetensors parts/model.safetensors");
    /* what was saved is evaluated to the loss that it was saved with */
    command_expect(0, "train whole --data pairs.jsonl --eval-only --out evaluated " RUN);
    /* and trained on, as an adapter too, where PEFT has one */
    command_expect(0, "train whole --data pairs.jsonl --out adapted --lora rank=2,target=q+v --steps 2 " RUN);
    command_expect(0, "generate whole --adapter adapted --prompt red --tokens 3 --quiet");
}

/* It learns distances and no positions, so texts may be longer than its configuration says. Tokens are added
 * to its table as to others'. */
static void longer_texts_and_new_tokens(void **state) {
    (void)state;
    command_expect(0, "train t5 --data pairs.jsonl --out longer --batch 8 --context 48 --steps 2 --quiet");
    command_shell("grep -q '\"n_positions\": 48' longer/config.json");
    command_expect(0, "generate longer --prompt red --tokens 3 --quiet");
    command_expect(0, "train longer --data pairs.jsonl --add-token <x> --out added --batch 8 --context 16 "
                      "--steps 2 --quiet");
    command_shell("grep -q '<x>' added/tokenizer.json");
    command_expect(0, "generate added --prompt red --tokens 3 --quiet");
}

static void other_data_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *line, *says;
    } cases[] = {
        { "train t5 --data texts.jsonl --out no --steps 1 " RUN, "learns from records with a prompt and a" },
        { "train t5 --data plain.txt --out no --steps 1 " RUN, "learns from records with a prompt and a" },
        { "train t5 --data chats.jsonl --out no --steps 1 " RUN, "holds messages, and t5 answers texts" },
        { "train t5 --data pairs.jsonl --learn all --out no --steps 1 " RUN, "never writes a prompt" },
        { "train t5 --data pairs.jsonl --pack pad --out no --steps 1 " RUN, "can't tell documents apart" },
        { "train bare --data plain.txt --out no --steps 1 " RUN, "doesn't say what is a text" },
        { "train t5 --data pairs.jsonl --head classes --out no --steps 1 " RUN, "no kind that judges texts" },
        { "generate learned --tokens 4 --quiet --prompt "
          "red-green-blue-red-green-blue-red-green-blue-red-green-blue-red-green-blue-red-green-blue",
          "and the model reads 32" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!command_says(cases[i].line, 2, cases[i].says)) fail_msg("%s", cases[i].line);
}

static void configurations_are_checked(void **state) {
    (void)state;
    char json[600];
    snprintf(json, sizeof json, MODEL, ",\"decoder_start_token_id\":392");
    scratch_write("given.json", json, strlen(json));
    assert_true(
        command_says("plan given.json --batch 1", 2, "decoder_start_token_id is 392, and vocab_size 392"));
    snprintf(json, sizeof json, MODEL, ",\"decoder_start_token_id\":\"a\"");
    scratch_write("given.json", json, strlen(json));
    assert_true(command_says("plan given.json --batch 1", 2, "decoder_start_token_id"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_are_learned_and_answered), cmocka_unit_test(pairs_come_in_any_form),
        cmocka_unit_test(runs_go_on_to_the_same_end),     cmocka_unit_test(longer_texts_and_new_tokens),
        cmocka_unit_test(other_data_are_refused),         cmocka_unit_test(configurations_are_checked)
    };
    return cmocka_run_group_tests(tests, open_files, scratch_close);
}
