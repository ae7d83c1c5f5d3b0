/* When a file of tokens is there already and when it is made anew: whatever decides a token is in its
 * identity, and a file is what its header says or none. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/token_data.h"
#include "io/scratch.h"
#include "tokenize/tokenize.h"

/* Was it made, or was it there? */
static bool makes(const char *call) {
    char all[512];
    snprintf(all, sizeof all, "%s --json --quiet", call);
    json_document d = command_json(all);
    bool made = command_number(&d, "resumed") == 0;
    json_close(&d);
    return made;
}

static void write_text(const char *path, const char *said) { scratch_write(path, said, strlen(said)); }

static void templates_in_their_folder_count(void **state) {
    (void)state;
    static const char call[] = "tokenize m --data chats.jsonl --out c.safetensors";
    static const char *const names[] = { "messages", "role", "content" };
    static const char first[] = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{% endfor %}",
                      second[] = "{% for m in messages %}[{{ m.role }}]{{ m.content }}</s>{% endfor %}";
    tokens_model("m", "gpt2");
    tokens_chats("chats.jsonl", 20, names, 3);
    assert_true(makes(call));
    command_shell("mkdir m/additional_chat_templates");
    write_text("m/additional_chat_templates/default.jinja", second);
    assert_true(makes(call));
    assert_false(makes(call));
    write_text("m/additional_chat_templates/default.jinja", first);
    assert_true(makes(call));
    write_text("m/additional_chat_templates/tool_use.jinja", second);
    assert_true(makes(call));
    write_text("m/additional_chat_templates/rag.jinja", first); /* nobody asks for it */
    assert_false(makes(call));
    tokens_make("m", "chats.jsonl", "", "anew.safetensors");
    command_shell("cmp c.safetensors anew.safetensors");
}

static void a_file_of_another_length_is_none(void **state) {
    (void)state;
    static const char *const data[] = { "texts.jsonl", "pairs.jsonl" };
    static const char *const sizes[] = { "-1", "-8", "4096", "0", "+1" };
    tokens_model("m", "llama3");
    tokens_texts("texts.jsonl", 30, 20, 5);
    tokens_pairs("pairs.jsonl", 30, 5);
    for (size_t i = 0; i < 2; i++) {
        char call[256];
        command_shell("rm -f cut.safetensors whole.safetensors");
        tokens_make("m", data[i], "", "whole.safetensors");
        tokens_make("m", data[i], "", "cut.safetensors");
        snprintf(call, sizeof call, "tokenize m --data %s --out cut.safetensors", data[i]);
        assert_false(makes(call));
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            command_shell("truncate -s %s cut.safetensors", sizes[k]);
            assert_true(makes(call));
            command_shell("cmp cut.safetensors whole.safetensors");
        }
        command_shell("truncate -s 100 cut.safetensors"); /* nobody can say what it was */
        assert_true(command_says(call, STATUS_INVALID, "is there already, and is no file of tokens"));
    }
}

/* The same bytes under another name are read in another way. */
static void what_a_name_says_counts(void **state) {
    (void)state;
    tokens_model("m", "gpt2");
    write_text("rows.csv", "text\nsnow\nice\n");
    assert_true(makes("tokenize m --data rows.csv --out rows.safetensors"));
    command_shell("cp rows.csv rows.tsv; mkdir -p elsewhere; cp rows.csv elsewhere/other.csv");
    assert_false(makes("tokenize m --data elsewhere/other.csv --out rows.safetensors"));
    assert_true(makes("tokenize m --data rows.tsv --out rows.safetensors"));
    command_shell("printf 'snow is cold' | gzip -n > packed.txt; cp packed.txt packed.txt.gz");
    assert_true(makes("tokenize m --data packed.txt --replace --out packed.safetensors"));
    assert_true(makes("tokenize m --data packed.txt.gz --replace --out packed.safetensors"));
    tokens_make("m", "packed.txt.gz", "--replace", "anew.safetensors");
    command_shell("cmp packed.safetensors anew.safetensors");
}

/* What is made is of the data that its digest is of, or it is not made. */
static void data_that_change_between_the_readings(void **state) {
    (void)state;
    static const char *const changes[] = {
        "echo '{\"text\": \"more snow\"}' >> two.jsonl",               /* longer */
        "sed -i 2s/cold/warm/ two.jsonl",                              /* another file, as long */
        "printf '{\"text\": \"ice\"}' | dd of=two.jsonl conv=notrunc", /* as long, in place */
        "rm two.jsonl",
        ": > two.jsonl",
    };
    tokens_model("m", "gpt2");
    write_text("one.jsonl", "{\"text\": \"the first file\"}\n");
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        tokenize *making;
        tokenize_result r;
        write_text("two.jsonl", "{\"text\": \"ice\"}\n{\"text\": \"snow is cold\"}\n");
        command_shell("rm -f two.safetensors*");
        tokenize_options o = { .model = "m",
                               .data = { .paths = { "one.jsonl", "two.jsonl" }, .count = 2 },
                               .out = "two.safetensors" };
        assert_int_equal(tokenize_open(&o, &making), STATUS_OK);
        usleep(20000); /* file systems count time in steps */
        command_shell("(%s) 2> said", changes[i]);
        assert_int_equal(tokenize_run(making, &r), STATUS_FAILED);
        if (!strstr(status_message(), "two.jsonl has changed since it was first read"))
            fail_msg("%s: %s", changes[i], status_message());
        assert_int_equal(access("two.safetensors", F_OK), -1);
        tokenize_close(making);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates_in_their_folder_count),
        cmocka_unit_test(a_file_of_another_length_is_none),
        cmocka_unit_test(what_a_name_says_counts),
        cmocka_unit_test(data_that_change_between_the_readings),
    };
    return cmocka_run_group_tests_name("tokens that are there", tests, scratch_open, scratch_close);
}
