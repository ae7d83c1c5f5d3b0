/* Prompts and completions that are lists of messages, and chats that nobody answers: what is learned of them,
 * and what is refused. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/token_data.h"
#include "io/scratch.h"

static const char CALLS_AND_TURNS[] =
    "{% for t in tools or [] %}[{{ t.name }}]{% endfor %}{% for m in messages %}<{{ m.role }}>{{ m.content }}"
    "{% for c in m.tool_calls or [] %}({{ c | tojson }}){% endfor %}</s>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

static void make_answers_model(void) {
    tokens_model("m", "gpt2");
    scratch_write("m/chat_template.jinja", CALLS_AND_TURNS, sizeof CALLS_AND_TURNS - 1);
}

static void put_data(const char *name, const char *data) { scratch_write(name, data, strlen(data)); }

/* The text of all tokens of the first document, or of those that are learned. */
static void text_of(const char *path, bool learned_only, char out[512]) {
    tokens_checker c;
    tokenizer_text said;
    uint32_t ids[256];
    size_t count = 0;
    tokens_open("m", path, &c);
    assert_true(c.made.ends[0] <= 256);
    for (uint64_t i = 0; i < c.made.ends[0]; i++)
        if (!learned_only || c.made.learned[i]) ids[count++] = c.made.tokens[i];
    assert_int_equal(tokenizer_decode(c.tokenizer, c.work, (tokenizer_ids){ ids, count }, true, &said),
                     STATUS_OK);
    assert_true(said.bytes < 512);
    memcpy(out, said.data, said.bytes);
    out[said.bytes] = 0;
    c.made.at = c.made.documents;
    tokens_close(&c);
}

static void expect_answer(const char *name, const char *data, const char *rest, const char *all,
                          const char *learned) {
    char said[512];
    put_data(name, data);
    command_shell("rm -f a.safetensors*");
    tokens_make("m", name, rest, "a.safetensors");
    text_of("a.safetensors", false, said);
    assert_string_equal(said, all);
    if (!learned) return;
    text_of("a.safetensors", true, said);
    assert_string_equal(said, learned);
}

#define ASKED                                                                                                \
    "[{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\"}, "             \
    "{\"role\": \"user\", \"content\": \"c\"}]"
#define ANSWERED "[{\"role\": \"assistant\", \"content\": \"d\", \"tool_calls\": [{\"n\": 1}]}]"
#define OTHERS(role, content) "[{\"from\": \"" role "\", \"value\": \"" content "\", \"tool_calls\": [7]}]"
#define ALL "<user>a</s><assistant>b</s><user>c</s><assistant>d({\"n\": 1})</s>"
#define LEARNED "d({\"n\": 1})</s>"

/* What the assistant said in the prompt is not learned; with one list of all it is. */
static void completions_of_messages_are_learned(void **state) {
    (void)state;
    make_answers_model();
    expect_answer("a.jsonl", "{\"prompt\": " ASKED ", \"completion\": " ANSWERED "}", "", ALL, LEARNED);
    expect_answer("a.jsonl", "{\"completion\": " ANSWERED ", \"x\": [1], \"prompt\": " ASKED "}", "", ALL,
                  LEARNED);
    expect_answer("a.json", "[\n{\"prompt\":\n" ASKED ",\n\"completion\": " ANSWERED "}]", "", ALL, LEARNED);
    expect_answer("a.jsonl",
                  "{\"tools\": [{\"name\": \"f\"}], \"completion\": " ANSWERED ", \"prompt\": " ASKED "}", "",
                  "[f]" ALL, LEARNED);
    expect_answer("a.jsonl",
                  "{\"prompt\": " ASKED ", \"completion\": " ANSWERED ", \"tools\": \"[{\\\"name\\\": 1}]\"}",
                  "", "[1]" ALL, LEARNED);
    expect_answer("a.jsonl", "{\"prompt\": " ASKED ", \"completion\": " ANSWERED "}", "--learn all", ALL,
                  NULL);
    expect_answer("a.jsonl", "{\"text\": 7, \"q\": " OTHERS("human", "a") ", \"a\": " OTHERS("gpt", "b") "}",
                  "--columns prompt=q,completion=a,role=from,content=value", "<user>a</s><assistant>b</s>",
                  "b</s>");
    expect_answer("a.jsonl", "{\"prompt\": [], \"completion\": " ANSWERED "}", "", "<assistant>" LEARNED,
                  LEARNED);
    assert_true(command_says("tokenize m --data a.jsonl --out says.safetensors", 0, "Data: 1 chat"));
}

/* Whole commands: training makes tokens of such records, and more than one file of them is read. */
static void such_records_are_trained_on(void **state) {
    (void)state;
    static const char line[] = "{\"prompt\": " ASKED ", \"completion\": " ANSWERED "}\n";
    make_answers_model();
    command_shell("rm -rf d t && mkdir d");
    for (int i = 0; i < 20; i++) {
        char name[32];
        snprintf(name, sizeof name, "d/%d.jsonl", i);
        put_data(name, line);
    }
    command_expect(0, "train m --data d --data a.jsonl --steps 2 --batch 2 --out t --threads 1 --quiet");
    char said[512];
    text_of("t/data/train-1.safetensors", true, said);
    assert_string_equal(said, LEARNED);
}

/* A sentence with file and place, exit code 2, and nothing is left. */
static void chats_without_an_answer_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *data, *options, *says;
    } cases[] = {
        { "{\"messages\": " ASKED "}\n{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}", "",
          "w.jsonl, record 2: the chat has no answer" },
        { "{\"messages\": " OTHERS("gpt", "a") "}", "", "w.jsonl, record 1: the chat has no answer" },
        { "{\"prompt\": " ASKED ", \"completion\": [{\"role\": \"user\", \"content\": \"a\"}]}", "",
          "w.jsonl, record 1: the chat has no answer: nothing that its template writes of the completion" },
        { "{\"prompt\": " ASKED ", \"completion\": []}", "", "w.jsonl, record 1: the chat has no answer" },
        { "{\"prompt\": [], \"completion\": []}", "", "w.jsonl, record 1: the chat has no message" },
        { "{\"prompt\": " ASKED ", \"completion\": \"d\"}", "",
          "w.jsonl: prompt is a list and completion is none" },
        { "{\"completion\": " ANSWERED ", \"prompt\": \"d\"}", "--columns prompt=prompt",
          "w.jsonl: completion is a list and prompt is none" },
        { "{\"prompt\": " ASKED "}", "--columns prompt=prompt,completion=x", "the record has no \"x\"" },
        { "{\"prompt\": \"a\", \"completion\": \"b\"}", "--columns prompt=prompt,role=from",
          "role, content and tools are of messages" },
        { "{\"prompt\": " ASKED ", \"completion\": " ANSWERED "}\n{\"prompt\": \"a\", \"completion\": \"b\"}",
          "", "w.jsonl, line 2: \"prompt\" is no list" },
    };
    make_answers_model();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char call[256];
        put_data("w.jsonl", cases[i].data);
        snprintf(call, sizeof call, "tokenize m --data w.jsonl --out w.safetensors %s", cases[i].options);
        if (!command_says(call, 2, cases[i].says)) fail_msg("%s", cases[i].says);
        assert_true(access("w.safetensors", F_OK) != 0 && access("w.safetensors.partial", F_OK) != 0);
    }
    put_data("w.jsonl", cases[0].data);
    command_expect(0, "tokenize m --data w.jsonl --out w.safetensors --learn all --quiet");
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(completions_of_messages_are_learned),
                                        cmocka_unit_test(such_records_are_trained_on),
                                        cmocka_unit_test(chats_without_an_answer_are_refused) };
    return cmocka_run_group_tests_name("answers", tests, scratch_open, scratch_close);
}
