/* generate --chat: what is said becomes the text of the model's chat template, a conversation goes on as a
 * file with the same turns does, and what is none is refused. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "cli/command.h"
#include "io/scratch.h"
#include "language/tokenizer_of.h"

static void put(const char *path, const char *words) { scratch_write(path, words, strlen(words)); }

#define TEMPLATE                                                                                             \
    "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ eos_token }}\n{% endfor %}"       \
    "{% if tools %}{{ tools | length }} tools {% endif %}{% if add_generation_prompt %}<assistant>{% endif " \
    "%}"

static const char SENTENCE[] = "The wind was cold, and the sea rose; then the light went out. ";
enum { TIMES = 60 };

/* What a model is trained on: the sentence over and over, as text or as ids of the tokenizer in `folder`. */
static void write_data(const char *folder, bool as_ids) {
    tokenizer *t;
    tokenizer_work *w;
    tokenizer_ids ids;
    bool there;
    if (!as_ids) {
        FILE *out = fopen("data.txt", "wb");
        for (int n = 0; n < TIMES; n++) fputs(SENTENCE, out);
        fclose(out);
        return;
    }
    if (tokenizer_of_open(folder, &t, &there) != STATUS_OK) fail_msg("%s", status_message());
    assert_int_equal(tokenizer_work_open(t, &w), STATUS_OK);
    assert_int_equal(tokenizer_encode(t, w, SENTENCE, strlen(SENTENCE), false, &ids), STATUS_OK);
    command_write_ids("data.u16", ids.id, ids.count, TIMES);
    tokenizer_work_close(w);
    tokenizer_close(t);
}

/* A model that says words, with the tokenizer `kind` (NULL: of bytes) and a template. The tokenizer puts a
 * token before each text. */
static void make_model(const char *kind, const char *name, int size) {
    char line[1024];
    snprintf(line, sizeof line,
             "rm -rf made %s && mkdir made && echo '{\"model_type\": \"gpt2\", \"vocab_size\": %d, "
             "\"n_positions\": 256, \"n_embd\": 32, \"n_layer\": 2, \"n_head\": 2}' > made/config.json",
             name, size);
    command_shell("%s", line);
    if (kind) {
        snprintf(line, sizeof line, "cp %s/tests/text/golden/%s.json made/tokenizer.json", SNUG_ROOT, kind);
        command_shell("%s", line);
    }
    write_data("made", kind);
    snprintf(line, sizeof line,
             "train made --data %s --context 32 --batch 4 --steps 60 --lr 1e-2 --quiet --out %s",
             kind ? "data.u16" : "data.txt", name);
    command_expect(0, line);
    snprintf(line, sizeof line, "%s/chat_template.jinja", name);
    put(line, TEMPLATE);
    snprintf(line, sizeof line, "%s/tokenizer_config.json", name);
    put(line, "{\"bos_token\": \"<s>\", \"eos_token\": {\"__type\": \"AddedToken\", \"content\": \"</s>\"}}");
}

static int make_models(void **state) {
    if (scratch_open(state) != 0) return -1;
    make_model("llama2", "words", 636);
    make_model(NULL, "bytes", 256);
    return 0;
}

static void a_prompt_becomes_the_text_of_a_chat(void **state) {
    (void)state;
    json_document d = command_json(
        "generate words --chat --prompt Hi --system Be --temperature 0 --tokens 5 --json --quiet");
    assert_string_equal(command_string(&d, "prompt"), "<s><system>Be</s>\n<user>Hi</s>\n<assistant>");
    uint64_t tokens = command_number(&d, "prompt_tokens");
    char said[256];
    snprintf(said, sizeof said, "%s", command_string(&d, "text"));
    json_close(&d);
    /* The template has put the first token there; as a text it gets another one. */
    put("text", "<s><system>Be</s>");
    d = command_json("generate words --prompt <s>a --temperature 0 --tokens 1 --json --quiet");
    uint64_t twice = command_number(&d, "prompt_tokens");
    json_close(&d);
    put("words/chat_template.jinja", "{{ messages[0].content }}");
    d = command_json("generate words --chat --prompt <s>a --temperature 0 --tokens 1 --json --quiet");
    assert_int_equal(command_number(&d, "prompt_tokens") + 1, twice);
    json_close(&d);
    put("words/chat_template.jinja", TEMPLATE);
    if (strlen(said) < 4) fail_msg("%d: %s|", (int)tokens, said);
    command_result r =
        command_run("generate words --chat --prompt Hi --system Be --temperature 0 --tokens 5 --quiet");
    assert_int_equal(r.exit, 0);
    assert_int_equal(strlen(r.out), strlen(said) + 1);
    assert_memory_equal(r.out, said, strlen(said));
    command_free(&r);
}

static void several_are_answered_beside_their_questions(void **state) {
    (void)state;
    command_result r =
        command_run("generate bytes --chat --prompt Hi --prompt Ho --temperature 0 --tokens 3 --quiet");
    assert_int_equal(r.exit, 0);
    assert_non_null(strstr(r.out, "== 2 of 2 ==\nHo\n"));
    assert_null(strstr(r.out, "<user>"));
    command_free(&r);
    put("lines", "Hi\n\nHo\n");
    json_document d =
        command_json("generate bytes --chat --prompt-file lines --temperature 0 --tokens 3 --quiet --json");
    const char *prompt;
    assert_int_equal(json_get_string(json_item(command_value(&d, "texts"), 1), "prompt", &prompt), STATUS_OK);
    assert_string_equal(prompt, "<s><user>Ho</s>\n<assistant>");
    json_close(&d);
}

static void a_file_is_a_conversation(void **state) {
    (void)state;
    put("list.json",
        "[{\"role\": \"user\", \"content\": \"a\"}, {\"content\": \"b\", \"role\": \"assistant\"}]");
    put("both.json", "{\"tools\": [{}, {}], \"messages\": [{\"role\": \"user\", \"content\": \"\\u00e9\"}]}");
    json_document d =
        command_json("generate bytes --chat-file list.json --temperature 0 --tokens 3 --quiet --json");
    assert_string_equal(command_string(&d, "prompt"), "<s><user>a</s>\n<assistant>b</s>\n<assistant>");
    json_close(&d);
    d = command_json(
        "generate bytes --chat-file both.json --prompt more --temperature 0 --tokens 3 --quiet --json");
    assert_string_equal(command_string(&d, "prompt"), "<s><user>é</s>\n<user>more</s>\n2 tools <assistant>");
    json_close(&d);
}

static char *read_all(const char *path) {
    static char all[1 << 16];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    all[fread(all, 1, sizeof all - 1, file)] = 0;
    fclose(file);
    return all;
}

/* What a shell makes of a line; what it complains of is in "err". */
static char *heard(const char *line) {
    char full[1024];
    snprintf(full, sizeof full, "{ %s; } >said 2>err", line);
    command_shell("%s", full);
    return read_all("said");
}

#define SNUG "env SNUG_RATES=built-in " SNUG_BUILD "/snug "

/* Each turn is what a chat of all before it gives. */
static void a_conversation_goes_on(void **state) {
    (void)state;
    static const char *const models[] = { "words", "bytes" };
    for (int m = 0; m < 2; m++) {
        char line[512], all[2048];
        snprintf(line, sizeof line,
                 "printf 'one\\r\\n\\ntwo\\nthree' | " SNUG
                 "generate %s --chat --system S --temperature 0 --tokens 6 "
                 "--repetition-penalty 1.5 --quiet",
                 models[m]);
        char *said = heard(line);
        snprintf(all, sizeof all, "%s", said);
        FILE *file = fopen("grown.json", "w");
        fprintf(file, "[{\"role\":\"system\",\"content\":\"S\"}");
        static const char *const asked[] = { "one", "two", "three" };
        char *at = all;
        for (int i = 0; i < 3; i++) {
            fprintf(file, ",{\"role\":\"user\",\"content\":\"%s\"}", asked[i]);
            fflush(file);
            command_shell("cat grown.json > whole.json && echo ']' >> whole.json");
            snprintf(line, sizeof line,
                     "generate %s --chat-file whole.json --temperature 0 --tokens 6 --repetition-penalty 1.5 "
                     "--quiet --json",
                     models[m]);
            json_document d = command_json(line);
            const char *turn = command_string(&d, "text");
            size_t length = strlen(turn);
            if (strncmp(at, turn, length) != 0 || at[length] != '\n')
                fail_msg("%s, turn %d: '%s' is not at '%s'", models[m], i, turn, at);
            if (length < 4) fail_msg("%s|", turn);
            at += length + 1;
            text quoted = { 0 };
            json_add_quoted(&quoted, turn);
            fprintf(file, ",{\"role\":\"assistant\",\"content\":%s}", quoted.data);
            text_close(&quoted);
            json_close(&d);
        }
        assert_int_equal(*at, 0);
        fclose(file);
    }
}

static void a_conversation_ends_where_the_context_does(void **state) {
    (void)state;
    heard("yes aaaaaaaaaaaaaaaaaaaa | " SNUG "generate bytes --chat --temperature 0 --tokens 300");
    char *err = read_all("err");
    assert_non_null(strstr(err, "the conversation is as long as the model's context, and ends here"));
    char line[512];
    snprintf(line, sizeof line,
             "yes aaaaaaaaaaaaaaaaaaaa | " SNUG
             "generate bytes --chat --temperature 0 --tokens 2 >said 2>err; test $? "
             "= 2");
    command_shell("%s", line);
    err = read_all("err");
    if (!strstr(err, "the conversation has ")) fail_msg("%s", err);
    assert_non_null(strstr(err, "nothing can be added"));
    snprintf(line, sizeof line,
             "head -c 70000 /dev/zero | tr '\\0' a | " SNUG "generate bytes --chat >said 2>err; "
             "test $? = 2 && test ! -s said");
    command_shell("%s", line);
    assert_non_null(strstr(read_all("err"), "a line of more than 65536 bytes"));
    command_shell("head -c 3 /dev/zero | " SNUG "generate bytes --chat 2>err; test $? = 2");
    assert_non_null(strstr(read_all("err"), "zero byte"));
}

static void nobody_says_anything(void **state) {
    (void)state;
    command_result r = command_run("generate bytes --chat --quiet");
    assert_int_equal(r.exit, 0);
    assert_string_equal(r.out, "");
    command_free(&r);
}

static void memory_is_planned(void **state) {
    (void)state;
    heard("for i in 1 2 3 4 5 6; do echo a b c; done | " SNUG
          "generate bytes --chat --temperature 0 --tokens 2");
    char *err = read_all("err");
    double used = 0, planned = 0;
    const char *at = strstr(err, "memory ");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "memory %lf MiB, planned %lf MiB", &used, &planned), 2);
    assert_true(used > 1 && used <= planned);
    assert_true(command_says("generate bytes --chat --prompt a --memory 4MiB", 3, "does not fit"));
}

/* What is read and rendered before there is a plan keeps to the budget, or is refused. */
static void long_chats_keep_to_the_budget(void **state) {
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* programs are larger then */
#endif
    for (int messages = 20; messages <= 40000; messages += 39980) {
        FILE *file = fopen("long.json", "w");
        for (int i = 0; i < messages; i++)
            fprintf(file, "%s{\"role\":\"user\",\"content\":\"%s\"}", i ? "," : "[",
                    messages < 100 ? "" : "a");
        fprintf(file, "]");
        fclose(file);
        command_shell(
            "cp -r bytes short && echo '{{ messages | map(attribute=\"content\") | join }}{{ \"a\" }}' > "
            "short/chat_template.jinja");
        command_result r =
            command_run("generate short --chat-file long.json --tokens 1 --threads 1 --memory 24MiB");
        if (r.exit != (messages < 100 ? 0 : 2)) fail_msg("%d messages: exit %d, %s", messages, r.exit, r.err);
        if (r.exit) assert_true(command_has_words(r.err, "takes more than 3145728 bytes of memory"));
        assert_true(r.resident_peak <= 24 << 20);
        command_free(&r);
    }
}

static void what_is_no_chat_is_refused(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        { "--prompt a --system b", "--system begins a chat; say --chat too" },
        { "--chat-file list.json --system b", "both say how the conversation begins" },
        { "--chat --json", "give --prompt" },
        { "--chat-file nowhere.json", "nowhere.json" },
        { "--chat-file empty.json", "a chat without a message" },
        { "--chat-file word.json", "word.json: a conversation is a list of messages" },
        { "--chat-file items.json", "items.json: message 1 is no object" },
        { "--chat-file cut.json", "cut.json: the conversation is wrong at byte 1: expected a value" },
        { "--chat-file tools.json", "the tools of a chat are a list" },
        { "--chat --prompt \xff", "a byte that is not UTF-8" },
        { "--chat --prompt-file bad", "prompt 2: " },
    };
    put("list.json", "[{\"role\": \"user\", \"content\": \"a\"}]");
    put("empty.json", "[]");
    put("word.json", "{\"message\": []}");
    put("items.json", "[{}, 1]");
    put("cut.json", "[");
    put("tools.json", "{\"messages\": [{}], \"tools\": {}}");
    put("bad", "good\nb\xff\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[256];
        snprintf(line, sizeof line, "generate bytes %s", cases[i][0]);
        if (!command_says(line, 2, cases[i][1])) fail_msg("%s", line);
    }
    command_shell("cp -r words broken && echo '{\"model\": 1}' > broken/tokenizer.json");
    assert_true(command_says("generate broken --chat --prompt a", 2, "broken/tokenizer.json"));
    command_shell("mv broken/tokenizer.json broken/tokenizer.model");
    assert_true(command_says("generate broken --chat --prompt a", 2, "tokenizer.model"));
    command_shell("cp -r bytes plain && rm plain/chat_template.jinja");
    assert_true(command_says("generate plain --chat --prompt a", 2, "plain has no chat template"));
    put("plain/chat_template.jinja", "{% for %}");
    assert_true(command_says("generate plain --chat --prompt a", 2, "plain/chat_template.jinja: line 1"));
    put("plain/chat_template.jinja", "{{ raise_exception('roles') }}");
    assert_true(command_says("generate plain --chat --prompt a", 2, "the template refuses this chat: roles"));
    put("plain/chat_template.jinja", "");
    assert_true(command_says("generate plain --chat --prompt a --data-kind bytes", 0, ""));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prompt_becomes_the_text_of_a_chat),
        cmocka_unit_test(several_are_answered_beside_their_questions),
        cmocka_unit_test(a_file_is_a_conversation),
        cmocka_unit_test(a_conversation_goes_on),
        cmocka_unit_test(a_conversation_ends_where_the_context_does),
        cmocka_unit_test(nobody_says_anything),
        cmocka_unit_test(memory_is_planned),
        cmocka_unit_test(long_chats_keep_to_the_budget),
        cmocka_unit_test(what_is_no_chat_is_refused),
    };
    return cmocka_run_group_tests_name("chats", tests, make_models, scratch_close);
}
