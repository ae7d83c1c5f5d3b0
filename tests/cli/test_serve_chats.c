/* A model with a tokenizer, a chat template and an end token, served: answers are those of generate, they end
 * by their own token, and what a stop string might have begun is not lost with it. */
#define _GNU_SOURCE
#include "cli/serving.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "io/scratch.h"
#include "language/tokenizer_of.h"

#define SAID "The wind was cold, and the sea rose."
#define TEMPLATE                                                                                             \
    "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ eos_token }}\n{% endfor %}"       \
    "{% if tools %}{{ tools | length }} tools {% endif %}{% if add_generation_prompt %}<assistant>{% endif " \
    "%}"
static const char TAUGHT[] = "<s><user>Hi</s>\n<assistant>" SAID "</s>\n";

static bool left_out;
static char answer[SERVING_ANSWER];

static void put(const char *path, const char *words) { scratch_write(path, words, strlen(words)); }

static void write_data(void) {
    tokenizer *t;
    tokenizer_work *w;
    tokenizer_ids ids;
    bool there;
    if (tokenizer_of_open("made", &t, &there) != STATUS_OK) fail_msg("%s", status_message());
    assert_int_equal(tokenizer_work_open(t, &w), STATUS_OK);
    assert_int_equal(tokenizer_encode(t, w, TAUGHT, strlen(TAUGHT), false, &ids), STATUS_OK);
    command_write_ids("data.u16", ids.id, ids.count, 100);
    tokenizer_work_close(w);
    tokenizer_close(t);
}

/* It has learned one answer by heart. */
static int make_model(void **state) {
    if (scratch_open(state) != 0) return -1;
    command_shell("mkdir made && cp %s/tests/text/golden/llama2.json made/tokenizer.json", SNUG_ROOT);
    put("made/config.json", "{\"model_type\": \"gpt2\", \"vocab_size\": 636, \"n_positions\": 128, "
                            "\"n_embd\": 32, \"n_layer\": 2, \"n_head\": 2, \"eos_token_id\": 2}");
    write_data();
    command_expect(0, "train made --data data.u16 --context 64 --batch 4 --steps 250 --lr 1e-2 --quiet "
                      "--out model");
    put("model/chat_template.jinja", TEMPLATE);
    put("model/tokenizer_config.json", "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\"}");
    left_out = serving_left_out();
    return 0;
}

/* What all events say of choices[0].delta.content, or the whole answer's message. */
static void said(char out[1024], char finish[32]) {
    const char *at = serving_body(answer);
    bool streamed = strncmp(at, "data: ", 6) == 0;
    out[0] = finish[0] = 0;
    for (const char *end; *at; at = end) {
        end = strchr(at, '\n');
        end = end ? end + 1 : at + strlen(at);
        json_document d;
        json_value choices, message, value;
        if (streamed && strncmp(at, "data: {", 7) != 0) continue;
        at += streamed ? 6 : 0;
        if (json_parse("answer", at, (size_t)(end - at), &d) != STATUS_OK) fail_msg("%s", answer);
        const char *words;
        size_t count = 0;
        if (json_get(d.root, "choices", &choices) != STATUS_OK || json_as_array(choices, &count) != STATUS_OK)
            fail_msg("%s", answer);
        if (count) {
            json_value choice = json_item(choices, 0);
            assert_int_equal(json_get(choice, streamed ? "delta" : "message", &message), STATUS_OK);
            if (json_find(message, "content", &value) && json_as_string(value, &words) == STATUS_OK)
                strncat(out, words, 1023 - strlen(out));
            if (json_find(choice, "finish_reason", &value) && json_as_string(value, &words) == STATUS_OK)
                snprintf(finish, 32, "%s", words);
        }
        json_close(&d);
    }
}

static void expect(const char *more, const char *words, const char *how) {
    char body[512], got[1024], finish[32];
    for (int streamed = 0; streamed < 2; streamed++) {
        snprintf(body, sizeof body,
                 "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"temperature\": 0, "
                 "\"stream\": %s, \"max_tokens\": 60%s}",
                 streamed ? "true" : "false", more);
        assert_int_equal(serving_post("/v1/chat/completions", body, answer), 200);
        said(got, finish);
        if (strcmp(got, words) != 0 || strcmp(finish, how) != 0)
            fail_msg("%s: '%s' ends by %s\n%s", body, got, finish, answer);
    }
}

static void texts_end_by_their_own_token(void **state) {
    (void)state;
    if (left_out) return;
    json_document d = command_json("generate model --chat --prompt Hi --temperature 0 --tokens 60 --json "
                                   "--quiet --threads 1");
    assert_string_equal(command_string(&d, "text"), SAID);
    uint64_t tokens = command_number(&d, "prompt_tokens");
    json_close(&d);
    serving_start("");
    expect("", SAID, "stop");
    expect(", \"stop\": \"sea\"", "The wind was cold, and the ", "stop");
    /* Its end might have been the beginning of one. */
    expect(", \"stop\": [\"rose.!\", \"e.\\n\"]", SAID, "stop");
    expect(", \"stop\": \".\"", "The wind was cold, and the sea rose", "stop");
    expect(", \"max_tokens\": 2", "The", "length");
    /* The template has put the first token there, and no other one stands before it. */
    assert_int_equal(
        serving_post("/tokenize", "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}", answer),
        200);
    char count[32];
    snprintf(count, sizeof count, "{\"count\":%llu,", (unsigned long long)tokens);
    assert_non_null(strstr(answer, count));
    assert_non_null(strstr(answer, "\"tokens\":[1,"));
    assert_null(strstr(answer, "\"tokens\":[1,1,"));
    command_result r = serving_stop();
    command_free(&r);
}

static void tools_and_roles_are_the_templates(void **state) {
    (void)state;
    if (left_out) return;
    static const char tools[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"max_tokens\": 1, \"tools\": "
        "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {}}}]}";
    serving_start("");
    assert_int_equal(serving_post("/v1/chat/completions", tools, answer), 200);
    assert_int_equal(serving_post("/v1/chat/completions", "{\"messages\": []}", answer), 400);
    assert_int_equal(serving_post("/v1/chat/completions", "{\"messages\": \"Hi\"}", answer), 400);
    command_result r = serving_stop();
    command_free(&r);
    put("model/chat_template.jinja", "{{ raise_exception('no roles here') }}");
    serving_start("");
    assert_int_equal(serving_post("/v1/chat/completions", tools, answer), 400);
    assert_non_null(strstr(answer, "no roles here"));
    assert_int_equal(serving_get("/health", answer), 200);
    r = serving_stop();
    command_free(&r);
    put("model/chat_template.jinja", TEMPLATE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_end_by_their_own_token),
        cmocka_unit_test(tools_and_roles_are_the_templates),
    };
    return cmocka_run_group_tests(tests, make_model, scratch_close);
}
