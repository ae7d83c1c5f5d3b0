/* Documents beside a tokenizer: options that can't be obeyed are refused, and each sentence says what to do.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "cli/command.h"
#include "cli/token_data.h"
#include "io/scratch.h"

#define SHORT " --context 32 --batch 2 --steps 1 --eval-samples 1 --quiet"

static void expect(int code, const char *line, const char *says) {
    if (!command_says(line, code, says)) fail_msg("%s: not exit %d with '%s'", line, code, says);
}

static void what_can_not_be_obeyed_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *rest, *says;
    } cases[] = {
        { "m --data c.safetensors --learn all",
          "c.safetensors says itself what is learned; give --learn to" },
        { "m --data c.safetensors --learn answers", "says itself what is learned" },
        { "m --data c.safetensors --columns text=body", "holds tokens already; give --columns to snug" },
        { "m --data c.safetensors --replace", "holds tokens already; give --replace to snug" },
        { "m --data ids.bin --learn all", "ids.bin holds tokens already" },
        { "m --data c.safetensors --data c.safetensors --learn all", "says itself" },
        { "m --data few.jsonl --data-kind bytes --columns text=body", "leave one of the two out" },
        { "tiny --data few.jsonl --columns text=body", "no directory with a tokenizer.json" },
        { "tiny --data few.jsonl --learn all", "no directory with a tokenizer.json" },
        { "m --head classes --data labels.jsonl --columns text=body", "reads records with labels" },
        { "m --data nowhere --learn all", "nowhere: No such file" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[256];
        snprintf(line, sizeof line, "train %s --out refused" SHORT, cases[i].rest);
        expect(2, line, cases[i].says);
    }
    expect(2, "train m --eval-only --eval-data c.safetensors --learn all", "says itself");
    command_shell("test ! -e refused");
    /* where some of the data are documents it is of these; taken back it is nothing */
    expect(0, "train m --data few.jsonl --eval-data c.safetensors --learn all --out a" SHORT, "");
    expect(0, "train m --data c.safetensors --eval-data few.jsonl --replace --out b" SHORT, "");
    expect(0, "train m --data c.safetensors --no-replace --out c" SHORT, "");
    static const char *const habit[] = { "SNUG_LEARN=all", "SNUG_REPLACE=yes", NULL };
    command_result r = command_run_with("train m --data c.safetensors --out d" SHORT, habit);
    assert_int_equal(r.exit, 0);
    command_free(&r);
}

/* Whatever form they have, beside a tokenizer tokens are to be made of them. */
static void plans_want_tokens_of_documents(void **state) {
    (void)state;
    static const char *const paths[] = { "few.jsonl", "chats.jsonl", "qa.csv",  "list.json",
                                         "text",      "packed.gz",   "records", "few.jsonl --data text" };
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        char line[256], says[128];
        size_t length = strcspn(paths[i], " ");
        snprintf(line, sizeof line, "plan m --data %s --quiet", paths[i]);
        snprintf(says, sizeof says, "%.*s is text, and m has a tokenizer", (int)length, paths[i]);
        expect(2, line, says);
        expect(2, line, "make tokens of it with snug tokenize");
        snprintf(line, sizeof line, "train weights --eval-only --eval-data %.*s --quiet", (int)length,
                 paths[i]);
        expect(2, line, "--out; name one");
    }
    expect(2, "plan m --data chats.jsonl --data-kind jsonl", "make tokens of it with snug tokenize");
    expect(2, "plan m --data nowhere.jsonl", "cannot open the data nowhere.jsonl: No such file");
    expect(0, "plan m --data qa.csv --data-kind bytes --context 4 --quiet", "");
    expect(2, "plan tiny --data qa.csv", "write its text column as JSON lines");
}

static void what_is_empty_is_called_so(void **state) {
    (void)state;
    static const char *const endings[] = { "jsonl", "json", "csv" };
    for (size_t i = 0; i < 3; i++) {
        char line[256], says[64];
        command_shell("rm -f e.*; : >e.%s", endings[i]);
        snprintf(says, sizeof says, "e.%s is empty; put records into it", endings[i]);
        snprintf(line, sizeof line, "tokenize m --data e.%s --out e.safetensors", endings[i]);
        expect(2, line, says);
        snprintf(line, sizeof line, "train m --data e.%s --out refused" SHORT, endings[i]);
        expect(2, line, says);
    }
    command_shell("rm -f e.*; : >e.safetensors; : >e.bin");
    expect(2, "train m --data e.safetensors --out refused" SHORT, "is empty; make it with snug tokenize");
    expect(2, "train m --data e.bin --out refused" SHORT, "e.bin is empty; give it some tokens");
}

static void sentences_say_what_to_do(void **state) {
    (void)state;
    static const struct {
        const char *line, *says;
    } cases[] = {
        { "tokenize m --data latin.txt --out x.safetensors", "which is no UTF-8 there; convert it, or, where "
                                                             "tokens are made of it, say --replace" },
        { "train m --data latin.txt --out refused" SHORT, "say --replace" },
        { "train tiny --data text:0,7 --out refused" SHORT,
          "--data text:0,7: there is text, but '0,7' behind it is no weight such as 0.7" },
        { "tokenize m --data text:half --out x.safetensors", "'half' behind it is no weight such as 0.7" },
        { "train tiny --data nowhere:0,7 --out refused" SHORT, "cannot open the data nowhere:0,7" },
        { "export gpt2 --to gguf --out x.gguf", "the name gpt2 stands for sizes only, and a directory" },
        { "export nope --to gguf --out x.gguf",
          "cannot open the model nope: No such file or directory; name" },
        { "tokenize nope --data text --out x.safetensors",
          "cannot open the model nope: No such file or directory; name the directory of one" },
        { "tokenize gpt2 --data text --out x.safetensors", "the name gpt2 stands for sizes only" },
        { "tokenize m/config.json --data text --out x.safetensors", "m/config.json is no directory" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) expect(2, cases[i].line, cases[i].says);
    command_shell("cp text odd:x");
    expect(0, "train tiny --data odd:x --out odd" SHORT, "");
}

static void a_full_disk_is_no_end(void **state) {
    (void)state;
    static const char *const lines[] = { "tokenize m --data many.jsonl --out d.safetensors",
                                         "train m --data many.jsonl --out filled" SHORT };
    for (size_t i = 0; i < 2; i++)
        command_shell(
            "(ulimit -f 100; exec %s/snug %s --threads 1 >said 2>&1); test $? = 1 && tr '\\n' ' ' <said "
            "| grep -q 'File too large; make room, and the same command goes on from there'",
            SNUG_BUILD, lines[i]);
}

static void one_is_one(void **state) {
    (void)state;
    scratch_write("one.jsonl", "{\"prompt\": \"a\", \"completion\": \"b\"}\n", 34);
    expect(0, "train m --data one.jsonl --out one --context 32 --batch 1 --steps 1", "1 document, each by");
    expect(0, "train m --data one.jsonl --eval-data one.jsonl --out two --context 32 --batch 1 --steps 1",
           "over 1 sample\n");
    scratch_write("letter", "a", 1);
    expect(2, "train tiny --data letter --out refused" SHORT, "letter has 1 token;");
}

static void expect_named(const json_document *d, uint32_t part, const char *name) {
    const char *path;
    json_value of = json_item(command_value(d, "data"), part);
    assert_int_equal(json_get_string(of, "path", &path), STATUS_OK);
    assert_string_equal(path, name);
}

/* As they were named, though tokens were made of them. */
static void reports_name_the_data(void **state) {
    (void)state;
    json_document d = command_json("train m --data few.jsonl --out named --json" SHORT);
    expect_named(&d, 0, "few.jsonl");
    json_close(&d);
    d = command_json("train m --data few.jsonl:2 --data c.safetensors:1 --out named2 --json" SHORT);
    expect_named(&d, 0, "few.jsonl"), expect_named(&d, 1, "c.safetensors");
    json_close(&d);
}

static void help_says_what_a_command_has(void **state) {
    (void)state;
    command_result plan = command_run("help plan"), train = command_run("help train");
    assert_true(command_has_words(plan.out, "optimizer steps [1000] "));
    assert_true(command_has_words(train.out, "optimizer steps [1000, or by --epochs]"));
    assert_true(command_has_words(train.out, "tokens are made of text first"));
    command_free(&plan), command_free(&train);
}

static void status_while_tokens_are_made(void **state) {
    (void)state;
    command_shell("mkdir -p making/data && printf '4711 node3' >making/data/train.safetensors.lock");
    expect(2, "status making", "no metrics.jsonl");
    command_shell("flock making/data/train.safetensors.lock sleep 3 & sleep 0.3");
    expect(0, "status making", "making: tokens are being made, process 4711 on node3; training begins when");
    json_document d = command_json("status making --json");
    assert_string_equal(command_string(&d, "state"), "making tokens");
    json_close(&d);
    command_shell("cp -r one/metrics.jsonl making"); /* of a run before */
    expect(0, "status making", "tokens are being made");
    expect(0, "status making --follow", "making: finished"); /* when nobody makes any */
}

static int open_files(void **state) {
    static const char *const names[] = { "messages", "role", "content" };
    if (scratch_open(state) != 0) return -1;
    command_make_files();
    tokens_model("m", "gpt2");
    tokens_texts("few.jsonl", 40, 30, 9);
    tokens_chats("chats.jsonl", 60, names, 3);
    tokens_texts("many.jsonl", 9000, 150, 6);
    scratch_write("latin.txt", "caf\xe9", 4);
    command_shell(
        "mkdir records && cp chats.jsonl records && gzip -c text >packed.gz && printf 'q,a\\nx,y\\n' "
        ">qa.csv && echo '[{\"prompt\": \"a\", \"completion\": \"b\"}]' >list.json");
    expect(0, "train m --data few.jsonl --out weights" SHORT, "");
    tokens_make("m", "chats.jsonl", "", "c.safetensors");
    command_shell("head -c 4000 /dev/zero >ids.bin; for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo '{\"text\": "
                  "\"so it is\", \"label\": \"'$((i%%2))'\"}'; done >labels.jsonl");
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_can_not_be_obeyed_is_refused),
        cmocka_unit_test(plans_want_tokens_of_documents),
        cmocka_unit_test(what_is_empty_is_called_so),
        cmocka_unit_test(sentences_say_what_to_do),
        cmocka_unit_test(a_full_disk_is_no_end),
        cmocka_unit_test(one_is_one),
        cmocka_unit_test(reports_name_the_data),
        cmocka_unit_test(help_says_what_a_command_has),
        cmocka_unit_test(status_while_tokens_are_made),
    };
    return cmocka_run_group_tests_name("making", tests, open_files, scratch_close);
}
