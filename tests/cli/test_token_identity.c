/* What tells one file of tokens from another: the same command takes a file that is there, and makes it anew
 * where anything has changed that a token or a mark of it depends on. */
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

#define CHAT(mark) "{% for m in messages %}<{{ m.role }}" mark "{{ m.content }}</s>{% endfor %}"
#define NO_TEMPLATE "rm m/chat_template.jinja"

/* What is called, and what changes then: the options, a file whose text is the second one, or whatever a line
 * of the shell does. Nothing else that decides a token is another one then. */
typedef struct {
    const char *what, *kind, *data, *options[2], *file, *says[2], *before, *then;
} change;

static const change changes[] = {
    { .what = "a column",
      .kind = "gpt2",
      .data = "two.jsonl",
      .options = { "--columns text=text", "--columns text=body" } },
    { .what = "the prompt's and the completion's column",
      .kind = "gpt2",
      .data = "pair.jsonl",
      .options = { "", "--columns prompt=completion,completion=prompt" } },
    { .what = "what is learned of a pair",
      .kind = "gpt2",
      .data = "pair.jsonl",
      .options = { "", "--learn all" } },
    { .what = "what is learned of a chat",
      .kind = "gpt2",
      .data = "chat.jsonl",
      .options = { "", "--learn all" } },
    { .what = "the end, of two special tokens",
      .kind = "llama3",
      .data = "two.jsonl",
      .file = "m/generation_config.json",
      .says = { "{\"eos_token_id\": 381}", "{\"eos_token_id\": 382}" } },
    { .what = "the end, of two words",
      .kind = "gpt2",
      .data = "two.jsonl",
      .file = "m/config.json",
      .says = { "{\"eos_token_id\": 5}", "{\"eos_token_id\": 6}" } },
    { .what = "tokenizer.json",
      .kind = "gpt2",
      .data = "two.jsonl",
      .then = "sed -i 's/\"add_prefix_space\":false/\"add_prefix_space\":true/' m/tokenizer.json" },
    { .what = "tokenizer_config.json",
      .kind = "gpt2",
      .data = "chat.jsonl",
      .before = NO_TEMPLATE,
      .file = "m/tokenizer_config.json",
      .says = { "{\"chat_template\": \"" CHAT(">") "\"}", "{\"chat_template\": \"" CHAT("]") "\"}" } },
    { .what = "special_tokens_map.json",
      .kind = "gpt2",
      .data = "chat.jsonl",
      .before = "cp begins.jinja m/chat_template.jinja",
      .file = "m/special_tokens_map.json",
      .says = { "{\"bos_token\": \"a\"}", "{\"bos_token\": \"b\"}" } },
    { .what = "chat_template.jinja",
      .kind = "gpt2",
      .data = "chat.jsonl",
      .file = "m/chat_template.jinja",
      .says = { CHAT(">"), CHAT("]") } },
    { .what = "chat_template.json",
      .kind = "gpt2",
      .data = "chat.jsonl",
      .before = NO_TEMPLATE,
      .file = "m/chat_template.json",
      .says = { "{\"chat_template\": \"" CHAT(">") "\"}", "{\"chat_template\": \"" CHAT("]") "\"}" } },
    { .what = "the data",
      .kind = "gpt2",
      .data = "folder",
      .file = "folder/part.jsonl",
      .says = { "{\"text\": \"snow\"}\n", "{\"text\": \"cold\"}\n" } },
    { .what = "a file's name, by which its lines are one text",
      .kind = "gpt2",
      .data = "folder",
      .before = "cp two.jsonl folder/part.jsonl",
      .then = "mv folder/part.jsonl folder/part.txt" },
    { .what = "a template for chats with tools",
      .kind = "gpt2",
      .data = "tools.jsonl",
      .before = "mkdir m/additional_chat_templates",
      .file = "m/additional_chat_templates/tool_use.jinja",
      .says = { CHAT(">"), CHAT("]") } },
};

static void write_text(const char *path, const char *words) { scratch_write(path, words, strlen(words)); }

static const char *call_of(const change *c, int i, const char *out) {
    static char call[512];
    const char *options = c->options[i] ? c->options[i] : "";
    snprintf(call, sizeof call, "tokenize m --data %s --out %s %s", c->data, out, options);
    return call;
}

/* Whether it says that the file is there. */
static bool takes(const change *c, int i) {
    command_result r = command_run(call_of(c, i, "o.safetensors"));
    if (r.exit != 0) fail_msg("%s: %s%s", c->what, r.out, r.err);
    bool there = command_has_words(r.out, "is there already");
    command_free(&r);
    return there;
}

static bool hold_the_same(const char *a, const char *b) {
    tokens_made x, y;
    tokens_read(a, &x), tokens_read(b, &y);
    bool same = x.masks == y.masks && x.count == y.count && x.documents == y.documents &&
                memcmp(x.tokens, y.tokens, x.count * sizeof *x.tokens) == 0 &&
                memcmp(x.learned, y.learned, x.count) == 0 &&
                memcmp(x.ends, y.ends, x.documents * sizeof *x.ends) == 0;
    tokens_free(&x), tokens_free(&y);
    return same;
}

static void expect_anew(const change *c) {
    tokens_model("m", c->kind);
    command_shell("rm -rf folder *.safetensors && mkdir folder");
    if (c->before) command_shell("%s", c->before);
    if (c->file) write_text(c->file, c->says[0]);
    if (takes(c, 0)) fail_msg("%s: there was no file", c->what);
    if (!takes(c, 0)) fail_msg("%s: nothing has changed, and the file is made anew", c->what);
    command_shell("mv o.safetensors was.safetensors && cp was.safetensors o.safetensors");
    if (c->file) write_text(c->file, c->says[1]);
    if (c->then) command_shell("%s", c->then);
    bool there = takes(c, 1);
    command_expect(0, call_of(c, 1, "new.safetensors"));
    if (hold_the_same("was.safetensors", "new.safetensors")) fail_msg("%s: changes nothing", c->what);
    if (there) fail_msg("%s has changed, and the file from before is taken", c->what);
    command_shell("cmp o.safetensors new.safetensors");
    if (!takes(c, 1)) fail_msg("%s: the file that was made anew is made once more", c->what);
}

static void what_decides_a_token_makes_another_file(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) expect_anew(&changes[i]);
}

/* Without --replace such data are refused, whatever was made of them with it. */
static void replaced_bytes_are_refused_without_the_option(void **state) {
    (void)state;
    tokens_model("m", "gpt2");
    write_text("latin.txt", "snow, caf\xe9");
    tokens_make("m", "latin.txt", "--replace", "latin.safetensors");
    assert_true(command_says("tokenize m --data latin.txt --out latin.safetensors", 2, "latin.txt"));
    assert_true(
        command_says("tokenize m --data latin.txt --out latin.safetensors --replace", 0, "is there already"));
}

static int open_files(void **state) {
    if (scratch_open(state) != 0) return -1;
    write_text("two.jsonl", "{\"text\": \"snow is cold\", \"body\": \"so is ice\"}\n");
    write_text("pair.jsonl", "{\"prompt\": \"how cold is snow\", \"completion\": \"very cold\"}\n");
#define SAID                                                                                                 \
    "{\"messages\": [{\"role\": \"user\", \"content\": \"how cold\"}, "                                      \
    "{\"role\": \"assistant\", \"content\": \"very\"}]"
    write_text("chat.jsonl", SAID "}\n");
    write_text("begins.jinja", "{{ bos_token }}" CHAT(">"));
    write_text("tools.jsonl", SAID ", \"tools\": [{\"name\": \"f\"}]}\n");
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replaced_bytes_are_refused_without_the_option),
        cmocka_unit_test(what_decides_a_token_makes_another_file),
    };
    return cmocka_run_group_tests_name("token identity", tests, open_files, scratch_close);
}
