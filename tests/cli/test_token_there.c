/* When a file of tokens is there already and when it is made anew: whatever decides a token is in its
 * identity. */
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
#include "cli/token_data.h"
#include "io/scratch.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates_in_their_folder_count),
        cmocka_unit_test(what_a_name_says_counts),
    };
    return cmocka_run_group_tests_name("tokens that are there", tests, scratch_open, scratch_close);
}
