/* What model directories say of chats: where templates and tokens come from, what is refused, what is held.
 * tools/compare_chats.py compares many more forms with transformers. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"
#include "io/file.h"
#include "io/scratch.h"
#include "language/chat.h"
#include "language/tokenizer_of.h"
#include "text/template/template_json.h"

static const char *const folder = scratch_path;
static const char *const names[] = { "chat_template.jinja",
                                     "tokenizer_config.json",
                                     "special_tokens_map.json",
                                     "tokenizer.json",
                                     "chat_template.json",
                                     "additional_chat_templates/tool_use.jinja",
                                     "additional_chat_templates/default.jinja",
                                     "additional_chat_templates/rag.jinja",
                                     "additional_chat_templates" };
enum { NAMES = sizeof names / sizeof *names };

static void path_of(const char *name, char path[256]) { snprintf(path, 256, "%s/%s", folder, name); }

static void put_bytes(const char *name, const char *bytes, size_t count) {
    char path[256];
    path_of(name, path);
    char *slash = strrchr(path, '/');
    *slash = 0;
    assert_int_equal(io_make_folder(path), STATUS_OK);
    *slash = '/';
    assert_int_equal(io_write_file(path, bytes, count), STATUS_OK);
}

static void put(const char *name, const char *text) { put_bytes(name, text, strlen(text)); }

static int clear(void **state) {
    (void)state;
    char path[256];
    for (int i = 0; i < NAMES; i++) {
        path_of(names[i], path);
        if (unlink(path) != 0) rmdir(path);
    }
    return 0;
}

static template_json *read_json(const char *text) {
    template_json *j;
    json_source source = json_source_memory(text, strlen(text), "chat", "it");
    if (template_json_open(&source, UINT64_MAX, &j) != STATUS_OK) fail_msg("%s", status_message());
    return j;
}

static status render(const char *messages, const char *tools, bool prompt, template_output *out) {
    chat *c;
    bool there;
    template_json *m = read_json(messages), *t = tools ? read_json(tools) : NULL;
    status result = chat_open(folder, &c, &there);
    *out = (template_output){ 0 };
    if (result == STATUS_OK && !there) result = status_set(STATUS_INVALID, "no template");
    if (result == STATUS_OK)
        result = chat_render(c, template_json_value(m), t ? template_json_value(t) : NULL, prompt, out);
    chat_close(c);
    template_json_close(m);
    template_json_close(t);
    return result;
}

static void gives(const char *tools, const char *expected) {
    template_output out;
    if (render("[{\"role\":\"user\",\"content\":\"Hi\"}]", tools, true, &out) != STATUS_OK)
        fail_msg("%s", status_message());
    assert_string_equal(out.text, expected);
    template_output_close(&out);
}

static void refused(const char *sentence) {
    template_output out;
    assert_int_equal(render("[{\"role\":\"user\",\"content\":\"Hi\"}]", NULL, true, &out), STATUS_INVALID);
    const char *said = status_message();
    size_t at = strncmp(said, folder, strlen(folder)) == 0 ? strlen(folder) + 1 : 0;
    assert_string_equal(said + at, sentence);
}

static void a_directory_without_any_has_none(void **state) {
    (void)state;
    chat *c;
    bool there;
    put("tokenizer_config.json", "{\"chat_template\": null, \"bos_token\": 7}");
    assert_int_equal(chat_open(folder, &c, &there), STATUS_OK);
    assert_false(there);
    assert_null(c);
    assert_int_equal(chat_open("/no/such/folder", &c, &there), STATUS_OK);
    assert_false(there);
}

static void templates_are_looked_for_in_order(void **state) {
    (void)state;
    put("chat_template.json", "{\"chat_template\": \"old\"}");
    gives(NULL, "old");
    put("tokenizer_config.json", "{\"chat_template\": null}");
    gives(NULL, "old");
    put("tokenizer_config.json", "{\"chat_template\": \"config\"}");
    gives(NULL, "config");
    gives("[]", "config");
    put("tokenizer_config.json",
        "{\"chat_template\": [{\"template\": \"d\", \"name\": \"default\"},"
        "{\"name\": \"tool_use\", \"template\": \"t\"}, {\"name\": \"rag\", \"template\":"
        " \"{{\"}]}");
    gives(NULL, "d");
    gives("null", "d");
    gives("[]", "t");
    put("tokenizer_config.json", "{\"chat_template\": {\"tool_use\": \"T\", \"default\": \"D\"}}");
    gives(NULL, "D");
    gives("[{}]", "T");
    put("tokenizer_config.json", "{\"chat_template\": {\"tool_use\": \"T\"}, \"chat_template\": \"last\"}");
    gives("[{}]", "last");
    put("tokenizer_config.json", "{\"chat_template\": \"first\", \"chat_template\": null}");
    gives(NULL, "old");
    put("chat_template.jinja", "jinja");
    gives("[{}]", "jinja");
    put("additional_chat_templates/tool_use.jinja", "beside");
    gives(NULL, "jinja");
    gives("[{}]", "beside");
    put("additional_chat_templates/default.jinja", "before");
    gives(NULL, "before");
}

/* A template that nobody asks for may be wrong. */
static void a_wrong_one_of_two_is_refused_when_needed(void **state) {
    (void)state;
    template_output out;
    put("tokenizer_config.json",
        "{\"chat_template\": {\"tool_use\": \"{% if %}\", \"default\": \"D\", \"rag\": \"{{\"}}");
    gives(NULL, "D");
    assert_int_equal(render("[{}]", "[{}]", true, &out), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "tokenizer_config.json: line 1, column 7"));
    put("tokenizer_config.json", "{\"chat_template\": {\"tool_use\": \"T\", \"default\": \"{% if %}\"}}");
    gives("[]", "T");
    refused("tokenizer_config.json: line 1, column 7: expected an expression, found %}");
}

static void templates_of_other_names_are_no_default(void **state) {
    (void)state;
    put("additional_chat_templates/rag.jinja", "rag");
    put("tokenizer_config.json", "{\"chat_template\": \"config\"}");
    refused("additional_chat_templates has chat templates with names, but none that is called default");
}

#define SHOW(name) "{{ " name " if " name " is defined else '-' }} "

static void tokens_are_what_transformers_hands_on(void **state) {
    (void)state;
    put("chat_template.jinja",
        SHOW("bos_token") SHOW("eos_token") SHOW("pad_token") SHOW("image_token") SHOW("odd")
            SHOW("add_bos_token") SHOW("extra_special_tokens") SHOW("documents"));
    gives(NULL, "- - - - - - - None ");
    put("special_tokens_map.json",
        "{\"bos_token\": {\"content\": \"<m>\", \"lstrip\": false}, \"pad_token\": \"<p>\"}");
    gives(NULL, "<m> - <p> - - - - None ");
    /* The map counts where there is no added_tokens_decoder. */
    put("tokenizer_config.json",
        "{\"bos_token\": \"<c>\", \"eos_token\": {\"__type\": \"AddedToken\", \"content\": "
        "\"<e>\"}, \"pad_token\": null, \"add_bos_token\": true}");
    gives(NULL, "<m> <e> <p> - - - - None ");
    put("tokenizer_config.json",
        "{\"bos_token\": \"<c>\", \"eos_token\": {\"__type\": \"AddedToken\", \"content\": "
        "\"<e>\"}, \"added_tokens_decoder\": {}}");
    gives(NULL, "<c> <e> - - - - - None ");
    put("tokenizer_config.json",
        "{\"image_token\": \"<i>\", \"additional_special_tokens\": [\"<x>\"], "
        "\"extra_special_tokens\": {\"odd\": \"<o>\"}, \"added_tokens_decoder\": {}}");
    gives(NULL, "- - - <i> <o> - - None ");
    /* A map takes back what an object has said. */
    put("tokenizer_config.json", "{\"image_token\": {\"__type\": \"AddedToken\", \"content\": \"<i>\"}}");
    put("special_tokens_map.json", "{}");
    gives(NULL, "- - - <i> - - - None ");
    put("special_tokens_map.json", "{\"image_token\": null}");
    gives(NULL, "- - - - - - - None ");
    /* What the class says, where nothing else does; null says that there is none. */
    put("tokenizer_config.json", "{\"bos_token\": null, \"tokenizer_class\": \"LlamaTokenizerFast\", "
                                 "\"added_tokens_decoder\": {}}");
    gives(NULL, "- </s> - - - - - None ");
    put("tokenizer_config.json", "{\"tokenizer_class\": \"PreTrainedTokenizerFast\", \"bos_token\": \"a\", "
                                 "\"bos_token\": \"b\", \"added_tokens_decoder\": {}}");
    gives(NULL, "b - - - - - - None ");
}

/* What tokenizer.json fills texts up with is the pad_token, where no other place says one. */
static void padding_names_a_token(void **state) {
    (void)state;
    static const char fills[] =
        "{\"truncation\": null, \"padding\": {\"pad_id\": 3, \"pad_token\": \"<f>\"}}";
    static const struct {
        const char *config, *gives;
    } cases[] = { { NULL, "<f> - " },
                  { "{}", "<f> - " },
                  { "{\"pad_token\": null}", "- - " },
                  { "{\"pad_token\": \"<p>\"}", "<p> - " },
                  { "{\"tokenizer_class\": \"Qwen2Tokenizer\"}", "<|endoftext|> <|endoftext|> " },
                  { "{\"tokenizer_class\": \"LlamaTokenizer\"}", "<f> </s> " } };
    put("chat_template.jinja", SHOW("pad_token") SHOW("eos_token"));
    put("tokenizer.json", fills);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (cases[i].config) put("tokenizer_config.json", cases[i].config);
        gives(NULL, cases[i].gives);
    }
    put("tokenizer.json", "{\"padding\": null}");
    gives(NULL, "- </s> ");
}

/* Of lists that one file has twice the last counts, and a list before names that were saved. */
static void tokens_of_one_model_alone(void **state) {
    (void)state;
    static const struct {
        const char *config, *gives;
    } cases[] = {
        { "\"additional_special_tokens\": {\"image_token\": \"<i>\", \"odd\": \"<1>\"}, "
          "\"extra_special_tokens\": {\"odd\": \"<2>\"}",
          "- <2>" },
        { "\"extra_special_tokens\": {\"odd\": \"<2>\"}, "
          "\"additional_special_tokens\": {\"image_token\": \"<i>\", \"odd\": \"<1>\"}",
          "- <2>" },
        { "\"additional_special_tokens\": {\"image_token\": \"<i>\"}, \"extra_special_tokens\": []", "- -" },
        { "\"model_specific_special_tokens\": {\"image_token\": \"<s>\"}", "<s> -" },
        { "\"model_specific_special_tokens\": {\"image_token\": \"<s>\"}, "
          "\"extra_special_tokens\": {\"odd\": \"<o>\"}",
          "- <o>" },
        { "\"model_specific_special_tokens\": {\"image_token\": \"<s>\"}, \"boi_token\": \"<b>\"", "- -" },
        /* an object is a token where it says so */
        { "\"image_token\": {\"content\": \"<i>\"}", "- -" },
        { "\"image_token\": {\"__type\": \"Other\", \"content\": \"<i>\"}", "- -" },
        { "\"image_token\": {\"content\": \"<i>\", \"__type\": \"AddedToken\"}", "<i> -" },
    };
    put("chat_template.jinja", SHOW("image_token") SHOW("odd"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char config[400], expected[40];
        snprintf(config, sizeof config, "{%s, \"added_tokens_decoder\": {}}", cases[i].config);
        snprintf(expected, sizeof expected, "%s ", cases[i].gives);
        put("tokenizer_config.json", config);
        gives(NULL, expected);
    }
}

static void what_is_wrong_is_said(void **state) {
    (void)state;
    static char long_one[TEMPLATE_SOURCE + 2];
    memset(long_one, 'x', sizeof long_one - 1);
    put("chat_template.jinja", "{% if %}");
    refused("chat_template.jinja: line 1, column 7: expected an expression, found %}");
    put("chat_template.jinja", long_one);
    refused("chat_template.jinja has 1048577 bytes; at most 1048576 are read");
    put("chat_template.jinja", "{{ raise_exception('no') }}");
    refused("chat_template.jinja: line 1, column 19: the template refuses this chat: no");
    put("tokenizer_config.json", "{\"bos_token\": 1}");
    refused(
        "tokenizer_config.json: the file is wrong at byte 14: a special token is a text, or an object with "
        "'content'");
    put("tokenizer_config.json", "{\"bos_token\": {}}");
    refused("tokenizer_config.json: the file is wrong at byte 16: a special token has no 'content'");
    put("tokenizer_config.json", "[]");
    refused("tokenizer_config.json: the file is wrong at byte 0: expected '{'");
    put("tokenizer_config.json", "{} 1");
    refused("tokenizer_config.json: the file is wrong at byte 3: something follows its end");
    clear(NULL);
    put("tokenizer_config.json", "{\"chat_template\": [{\"name\": \"default\"}]}");
    refused("tokenizer_config.json: the file is wrong at byte 38: a chat template of a list has 'name' and "
            "'template'");
    put("tokenizer_config.json", "{\"chat_template\": [{\"template\": \"default\"}]}");
    refused("tokenizer_config.json: the file is wrong at byte 42: a chat template of a list has 'name' and "
            "'template'");
    put("tokenizer_config.json", "{\"chat_template\": true}");
    refused("tokenizer_config.json: the file is wrong at byte 18: a chat template is a text");
    put("chat_template.json", "{\"chat_template\": ");
    put("tokenizer_config.json", "{}");
    refused("chat_template.json: the file is wrong at byte 18: a chat template is a text");
}

static void more_tokens_than_there_may_be(void **state) {
    (void)state;
    size_t used = 1, room = 1 << 16;
    char *text = memory_new(1, room);
    put("chat_template.jinja", "x");
    for (int extra = 0; extra < 2; extra++) {
        used = 1, text[0] = '{';
        for (int i = 0; i < 512 + extra; i++)
            used +=
                (size_t)snprintf(text + used, room - used, "%s\"a%d_token\": \"<%d>\"", i ? "," : "", i, i);
        snprintf(text + used, room - used, "}");
        put("tokenizer_config.json", text);
        if (extra)
            refused("more than 512 special tokens with names");
        else
            gives(NULL, "x");
    }
    memory_free(text);
}

static void conversations_are_checked(void **state) {
    (void)state;
    template_output out;
    put("chat_template.jinja", "{{ messages | length }}");
    assert_int_equal(render("[]", NULL, true, &out), STATUS_INVALID);
    assert_string_equal(status_message(), "a chat without a message");
    assert_int_equal(render("{}", NULL, true, &out), STATUS_INVALID);
    assert_string_equal(status_message(), "the messages of a chat are a list");
    assert_int_equal(render("[{}]", "{}", true, &out), STATUS_INVALID);
    assert_string_equal(status_message(), "the tools of a chat are a list");
    assert_int_equal(render("[{}]", "[{}, 1]", true, &out), STATUS_INVALID);
    assert_string_equal(status_message(), "tool 1 of a chat is no object");
    assert_int_equal(render("[{}, {}]", "[{}]", true, &out), STATUS_OK);
    assert_string_equal(out.text, "2");
    template_output_close(&out);
}

/* Its template writes what was said 20,000 times. */
static void open_repeating(chat **c) {
    bool there;
    put("chat_template.jinja",
        "{% for m in messages %}<{{ m.role }}>{{ (m.content | upper) * 20000 }}{% endfor %}");
    assert_int_equal(chat_open(folder, c, &there), STATUS_OK);
}

/* A rendering leaves its memory for the next one: what is held grows with the largest alone, and the same
 * chats are refused before and after. */
static void memory_is_kept_and_counted(void **state) {
    (void)state;
    chat *c;
    template_output out;
    open_repeating(&c);
    uint64_t first = chat_bytes(c);
    assert_in_range(first, 3 << 16, (3 << 16) + (40 << 10));
    template_json *small = read_json(
                      "[{\"role\":\"user\",\"content\":\"\"},{\"role\":\"assistant\",\"content\":\"\"}]"),
                  *large = read_json("[{\"role\":\"user\",\"content\":\"abcdefghij\"},"
                                     "{\"role\":\"assistant\",\"content\":\"abc\"}]");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(chat_render(c, template_json_value(small), NULL, false, &out), STATUS_OK);
        template_output_close(&out);
        assert_int_equal(chat_bytes(c), first);
    }
    assert_int_equal(chat_render(c, template_json_value(large), NULL, false, &out), STATUS_OK);
    assert_int_equal(out.length, 13 * 20000 + 6 + 11);
    template_output_close(&out);
    uint64_t grown = chat_bytes(c);
    assert_true(grown > first + 13 * 20000);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(chat_render(c, template_json_value(i == 1 ? small : large), NULL, false, &out),
                         STATUS_OK);
        assert_int_equal(out.text[i == 1 ? 1 : 6], i == 1 ? 'u' : 'A');
        template_output_close(&out);
        assert_int_equal(chat_bytes(c), grown);
    }
    /* A bound counts what a rendering takes, however much is there. */
    chat_limit(c, &(template_options){ .memory = 256 << 10 });
    assert_int_equal(chat_render(c, template_json_value(large), NULL, false, &out), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "it takes more than 262144 bytes of memory"));
    assert_int_equal(chat_render(c, template_json_value(small), NULL, false, &out), STATUS_OK);
    template_output_close(&out);
    chat_close(c);
    template_json_close(small);
    template_json_close(large);
}

static void a_tokenizer_is_there_or_not(void **state) {
    (void)state;
    tokenizer *t;
    bool there;
    assert_int_equal(tokenizer_of_open(folder, &t, &there), STATUS_OK);
    assert_true(!there && !t);
}

static const char two_turns[] =
    "[{\"role\":\"user\",\"content\":\"\"},{\"role\":\"assistant\",\"content\":\"abcdefghij\"}]";

/* What is reserved is held from the beginning, does not grow, and is enough for what its bounds allow; what
 * is not says that there may be more. */
static void memory_is_reserved(void **state) {
    (void)state;
    chat *c;
    template_output out;
    open_repeating(&c);
    uint64_t first = chat_bytes(c);
    template_json *j = read_json(two_turns);
    template_options o = { .memory = 1 << 20, .output = 300000, .may_grow = true };
    chat_reserve(c, &o);
    uint64_t held = chat_bytes(c);
    assert_int_equal(held, first + 3 * ((1 << 20) - (64 << 10)));
    for (int i = 0; i < 3; i++) {
        if (chat_render(c, template_json_value(j), NULL, false, &out) != STATUS_OK)
            fail_msg("%s", status_message());
        assert_int_equal(out.length, 10 * 20000 + 6 + 11);
        template_output_close(&out);
        assert_int_equal(chat_bytes(c), held);
    }
    for (int grows = 0; grows < 2; grows++) {
        status bounded = grows ? STATUS_NO_FIT : STATUS_INVALID;
        o = (template_options){ .memory = 256 << 10, .output = 300000, .may_grow = grows };
        chat_reserve(c, &o);
        assert_int_equal(chat_render(c, template_json_value(j), NULL, false, &out), bounded);
        assert_non_null(strstr(status_message(), "it takes more than 262144 bytes of memory"));
        o = (template_options){ .memory = 1 << 20, .output = 200000, .may_grow = grows };
        chat_reserve(c, &o);
        assert_int_equal(chat_render(c, template_json_value(j), NULL, false, &out), bounded);
        assert_non_null(strstr(status_message(), "it writes more than 200000 bytes"));
    }
    template_json_close(j);
    chat_close(c);
}

static void prompts_and_ranges_are_bounded(void **state) {
    (void)state;
    chat *c;
    bool there;
    template_output out;
    template_options o;
    char many[4000] = "[";
    /* Looking for the prompt may want more than the chat: what is learned must not depend on the bound. */
    put("chat_template.jinja", "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
                               "{% if add_generation_prompt %}{{ ('x' * 300000) | length }}{% endif %}");
    assert_int_equal(chat_open(folder, &c, &there), STATUS_OK);
    template_json *j = read_json(two_turns);
    o = (template_options){ .memory = 256 << 10, .output = 300000, .may_grow = true };
    chat_reserve(c, &o);
    assert_int_equal(chat_render(c, template_json_value(j), NULL, false, &out), STATUS_NO_FIT);
    o.plain = true;
    chat_reserve(c, &o);
    assert_int_equal(chat_render(c, template_json_value(j), NULL, false, &out), STATUS_OK);
    template_output_close(&out);
    template_json_close(j);
    /* Ranges count as text does. */
    for (int i = 0; i < 60; i++)
        strcat(many, i ? ",{\"role\":\"user\",\"content\":\"a\"}" : "{\"role\":\"user\",\"content\":\"a\"}");
    j = read_json(strcat(many, "]"));
    o = (template_options){ .memory = 256 << 10, .output = 700, .may_grow = true };
    chat_reserve(c, &o);
    assert_int_equal(chat_render(c, template_json_value(j), NULL, false, &out), STATUS_NO_FIT);
    assert_string_equal(strstr(status_message(), "it makes"), "it makes more than 37 ranges of a chat");
    o.output = 2000;
    chat_reserve(c, &o);
    assert_int_equal(chat_render(c, template_json_value(j), NULL, false, &out), STATUS_OK);
    assert_int_equal(out.range_count, 60);
    template_output_close(&out);
    template_json_close(j);
    chat_close(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_directory_without_any_has_none, clear),
        cmocka_unit_test_teardown(templates_are_looked_for_in_order, clear),
        cmocka_unit_test_teardown(a_wrong_one_of_two_is_refused_when_needed, clear),
        cmocka_unit_test_teardown(templates_of_other_names_are_no_default, clear),
        cmocka_unit_test_teardown(tokens_are_what_transformers_hands_on, clear),
        cmocka_unit_test_teardown(padding_names_a_token, clear),
        cmocka_unit_test_teardown(tokens_of_one_model_alone, clear),
        cmocka_unit_test_teardown(what_is_wrong_is_said, clear),
        cmocka_unit_test_teardown(more_tokens_than_there_may_be, clear),
        cmocka_unit_test_teardown(conversations_are_checked, clear),
        cmocka_unit_test_teardown(memory_is_kept_and_counted, clear),
        cmocka_unit_test_teardown(memory_is_reserved, clear),
        cmocka_unit_test_teardown(prompts_and_ranges_are_bounded, clear),
        cmocka_unit_test_teardown(a_tokenizer_is_there_or_not, clear),
    };
    return cmocka_run_group_tests_name("chat", tests, scratch_open, scratch_close);
}
