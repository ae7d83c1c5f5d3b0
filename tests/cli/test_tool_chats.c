/* Chats with tools as data, from outside: what a chat template makes of tools, calls and other members that
 * are no strings becomes the tokens of its text, the same as where the chat is read at once. */
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
#include "io/safetensors.h"
#include "io/scratch.h"
#include "language/chat.h"
#include "language/tokenizer_of.h"
#include "text/template/template_json.h"

static const char TOOLS_TEMPLATE[] =
    "{% for t in tools or [] %}[{{ t | tojson }}]{% endfor %}{% for m in messages %}<{{ m.role }}>"
    "{% if m.content is none %}(none){% elif m.content is string %}{{ m.content }}{% else %}"
    "{% for p in m.content or [] %}{{ p.text }}/{% endfor %}{% endif %}"
    "{% for c in m.tool_calls or [] %}({{ c.function.name }} {{ c.function.arguments | tojson }} {{ c.n }})"
    "{% endfor %}{% if m.weight is defined %} x{{ m.weight + 1 }}{{ m.ok }}{% endif %}</s>{% endfor %}";
#define CALL "{\"function\": {\"name\": \"f\", \"arguments\": "
#define ASKS                                                                                                 \
    "[{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"how\\ncold\"}, {\"text\": "        \
    "\"?\"}]}, "
#define CALLS                                                                                                \
    "{\"content\": null, \"role\": \"assistant\", \"tool_calls\": [" CALL                                    \
    "{\"b\": [1, -2.50, 1e21], \"a\": {}}},"                                                                 \
    " \"n\": null}, " CALL                                                                                   \
    "\"{\\\"b\\\": 1}\"}}]}, {\"role\": \"tool\", \"content\": \"-3\", \"weight\": 0.5, "                    \
    "\"ok\": true}, {\"role\": \"assistant\", \"weight\": 1, \"content\": \"very\"}]"
#define F "{\"name\": \"f\", \"strict\": false, \"p\": [{\"q\": \"\\u00e9\\ud83d\\ude42\\\"\"}, null]}"

static char *contents(const char *path, size_t *bytes) {
    struct stat about;
    FILE *file = fopen(path, "rb");
    assert_true(file && fstat(fileno(file), &about) == 0);
    char *data = malloc((size_t)about.st_size + 1);
    *bytes = fread(data, 1, (size_t)about.st_size, file);
    fclose(file);
    return data;
}

static void put(const char *path, const char *words_of) { scratch_write(path, words_of, strlen(words_of)); }

/* The directory "m", with a golden tokenizer. `told`: its tokenizer_config.json; NULL: there is a template in
 * a file of its own. */
static void make_tools_model(const char *kind, const char *told, const char *jinja) {
    char from[512];
    size_t bytes;
    snprintf(from, sizeof from, "%s/tests/text/golden/%s.json", SNUG_ROOT, kind);
    char *vocabulary = contents(from, &bytes);
    scratch_write("m/tokenizer.json", vocabulary, bytes);
    free(vocabulary);
    put("m/tokenizer_config.json", told ? told : "{\"eos_token\": \"</s>\"}");
    remove("m/chat_template.jinja");
    if (jinja) put("m/chat_template.jinja", jinja);
}

static void make(const char *data, const char *rest, const char *out) {
    char call[512];
    remove(out);
    snprintf(call, sizeof call, "tokenize m --data %s --out %s --quiet %s", data, out, rest);
    command_expect(0, call);
}

/* What a file of tokens holds, and a tokenizer to compare with. */
typedef struct {
    tokenizer *tokenizer;
    tokenizer_work *work;
    uint16_t *tokens;
    uint64_t *ends;
    uint64_t documents, at; /* at: of the next one */
} checker;

static void *read_entry(const safetensors *s, const char *name, uint64_t *count) {
    const safetensors_entry *e = safetensors_find(s, name);
    void *data = calloc(1, e->bytes + 1);
    *count = (uint64_t)e->dim[0];
    assert_int_equal(safetensors_read_bytes(s, e, 0, data, e->bytes), STATUS_OK);
    return data;
}

static void open_checker(const char *path, checker *c) {
    safetensors s;
    bool there;
    uint64_t tokens;
    assert_int_equal(tokenizer_of_open("m", &c->tokenizer, &there), STATUS_OK);
    assert_int_equal(tokenizer_take_whole(c->tokenizer), STATUS_OK);
    assert_int_equal(tokenizer_work_open(c->tokenizer, &c->work), STATUS_OK);
    if (safetensors_open(path, &s) != STATUS_OK) fail_msg("%s", status_message());
    assert_string_equal(safetensors_find(&s, "tokens")->dtype, "U16");
    c->tokens = read_entry(&s, "tokens", &tokens);
    c->ends = read_entry(&s, "ends", &c->documents);
    c->at = 0;
    safetensors_close(&s);
}

static void close_checker(checker *c) {
    assert_int_equal(c->at, c->documents);
    free(c->tokens), free(c->ends);
    tokenizer_work_close(c->work);
    tokenizer_close(c->tokenizer);
}

/* The next document is this text. */
static void expect_document(checker *c, const char *said, size_t bytes) {
    tokenizer_ids ids;
    assert_int_equal(tokenizer_encode(c->tokenizer, c->work, said, bytes, false, &ids), STATUS_OK);
    assert_true(c->at < c->documents);
    uint64_t first = c->at ? c->ends[c->at - 1] : 0;
    if (c->ends[c->at] - first != ids.count)
        fail_msg("document %llu has %llu tokens and not %zu", (unsigned long long)c->at,
                 (unsigned long long)(c->ends[c->at] - first), ids.count);
    for (size_t i = 0; i < ids.count; i++) assert_int_equal(c->tokens[first + i], ids.id[i]);
    c->at++;
}

static void same_files(const char *a, const char *b) {
    size_t bytes[2];
    char *data[2] = { contents(a, &bytes[0]), contents(b, &bytes[1]) };
    assert_int_equal(bytes[0], bytes[1]);
    assert_memory_equal(data[0], data[1], bytes[0]);
    free(data[0]), free(data[1]);
}

static void expect_chat(const char *name, const char *data, const char *rest, const char *said) {
    checker c = { 0 };
    put(name, data);
    make(name, rest, "tools.safetensors");
    open_checker("tools.safetensors", &c);
    expect_document(&c, said, strlen(said));
    close_checker(&c);
}

static void chats_with_tools_by_hand(void **state) {
    (void)state;
    static const char tool[] =
        "[{\"name\": \"f\", \"strict\": false, \"p\": [{\"q\": \"\u00e9\U0001f642\\\"\"}, null]}]";
    static const char chat_said[] =
        "<user>how\ncold/?/</s><assistant>(none)(f {\"b\": [1, -2.5, 1e+21], \"a\": {}} None)"
        "(f \"{\\\"b\\\": 1}\" )</s><tool>-3 x1.5True</s><assistant>very x2</s>";
    char said[1024];
    snprintf(said, sizeof said, "%s%s", tool, chat_said);
    make_tools_model("gpt2", NULL, TOOLS_TEMPLATE);
    expect_chat("c.jsonl", "{\"tools\": [" F "], \"messages\": " ASKS CALLS "}\n", "", said);
    expect_chat("c.jsonl", "{\"messages\": " ASKS CALLS ", \"id\": [{}], \"tools\": [" F "]}\n", "", said);
    expect_chat("c.json", "[\n{\n\"messages\":\n" ASKS CALLS ",\n\"tools\": [\n" F "\n]}]", "", said);
    expect_chat("c.jsonl", "{\"functions\": [" F "], \"messages\": " ASKS CALLS ", \"tools\": 7}\n",
                "--columns tools=functions", said);
    expect_chat("c.jsonl", "{\"talk\": " ASKS CALLS ", \"functions\": [" F "]}\n",
                "--columns messages=talk,tools=functions", said);
    assert_true(command_says(
        "tokenize m --data c.jsonl --columns tools=functions,messages=talk --out says.safetensors", 0,
        "Data: 1 chat, 1 with tools, "));
    /* a string that holds them */
    expect_chat("c.jsonl", "{\"tools\": \"[{\\\"name\\\": \\\"f\\\"}, {}]\", \"messages\": " ASKS CALLS "}\n",
                "", strcat(strcpy(said, "[{\"name\": \"f\"}][{}]"), chat_said));
    static const char *const none[] = { "",
                                        "\"tools\": null, ",
                                        "\"tools\": \"\", ",
                                        "\"tools\": [], ",
                                        "\"tools\": \"null\", ",
                                        "\"tools\": \"[]\", " };
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        char data[1024];
        snprintf(data, sizeof data, "{%s\"messages\": " ASKS CALLS "}\n", none[i]);
        expect_chat("c.jsonl", data, "", chat_said);
    }
    expect_chat("c.jsonl", "{\"tools\": " ASKS CALLS "}\n", "--columns messages=tools", chat_said);
    /* where role or content are named other members pass, whatever they are */
    expect_chat("c.jsonl",
                "{\"messages\": [{\"from\": \"human\", \"value\": [{\"text\": 7}], \"tool_calls\": [[]]}]}",
                "--columns messages=messages,role=from,content=value --learn all", "<user>7/</s>");
}

static const char *const words[] = { "snow", "is",         "Zwölf", "\u8aad\u3080", "42",
                                     "\\t",  "\U0001f642", "\\n",   "\\\\" };

static void add_words(FILE *file, uint64_t *random, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        fprintf(file, "%s%s", i ? " " : "", words[scratch_random(random) % (sizeof words / sizeof *words)]);
}

static void add_json(FILE *file, uint64_t *random, int depth) {
    static const char *const scalars[] = { "null", "true", "0", "-7", "1.50", "1E-7", "9007199254740993" };
    uint32_t kind = scratch_random(random) % (depth < 4 ? 5 : 3), n = scratch_random(random) % 4;
    if (kind == 0) {
        fputs(scalars[scratch_random(random) % 7], file);
    } else if (kind < 3) {
        fputc('"', file);
        add_words(file, random, 1 + n);
        fputs(n == 2 ? "\\u00e9\\\"\"" : "\"", file);
    } else {
        fputc(kind == 3 ? '[' : '{', file);
        for (uint32_t i = 0; i < n; i++) {
            fprintf(file, "%s", i ? ", " : " ");
            if (kind == 4) fprintf(file, "\"k%u\": ", i);
            add_json(file, random, depth + 1);
        }
        fputc(kind == 3 ? ']' : '}', file);
    }
}

static void add_tools(FILE *file, uint64_t *random) {
    fprintf(file, "\"tools\": [{\"f\": ");
    add_json(file, random, 0);
    fprintf(file, "}]");
}

static void add_messages(FILE *file, uint64_t *random, uint32_t messages) {
    uint32_t count = 2 + scratch_random(random) % (messages - 1); /* one is answered */
    fprintf(file, "\"messages\": [");
    for (uint32_t m = 0; m < count; m++) {
        fprintf(file, "%s{\"role\": \"%s\", \"content\": ", m ? ", " : "", m % 2 ? "assistant" : "user");
        add_json(file, random, 0);
        fprintf(file, ", \"other\": ");
        add_json(file, random, 0);
        fprintf(file, "}");
    }
    fprintf(file, "]");
}

/* Every value of a chat is drawn; tools stand before the messages, behind them, or not at all. */
static void make_drawn(const char *path, int records, uint32_t messages) {
    FILE *file = fopen(path, "wb");
    uint64_t random = 11;
    for (int d = 0; d < records; d++) {
        uint32_t where = scratch_random(&random) % 4;
        fprintf(file, "{");
        if (where == 0) add_tools(file, &random), fprintf(file, ", ");
        add_messages(file, &random, messages);
        if (where == 1) fprintf(file, ", "), add_tools(file, &random);
        fprintf(file, "}\n");
    }
    assert_int_equal(fclose(file), 0);
}

/* As `generate --chat-file` reads a chat: the whole at once, into values. */
static void render_at_once(chat *c, const char *words_of, template_output *out) {
    json_source source = json_source_memory(words_of, strlen(words_of), "chat", "the chat");
    template_json *j;
    if (template_json_open(&source, UINT64_MAX, &j) != STATUS_OK) fail_msg("%s", status_message());
    const template_value *all = template_json_value(j);
    if (chat_render(c, template_value_member(all, "messages"), template_value_member(all, "tools"), false,
                    out) != STATUS_OK)
        fail_msg("%s", status_message());
    template_json_close(j);
}

static const char EVERYTHING[] =
    "{{ tools }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ m | tojson }}</s>{% endfor %}";

static char line[1 << 20];

static void drawn_chats_are_as_read_at_once(void **state) {
    (void)state;
    checker c = { 0 };
    chat *with;
    bool there;
    uint64_t count = 0;
    make_tools_model("llama3", NULL, EVERYTHING);
    make_drawn("drawn.jsonl", 400, 6);
    make("drawn.jsonl", "--threads 2", "drawn.safetensors");
    open_checker("drawn.safetensors", &c);
    assert_int_equal(chat_open("m", &with, &there), STATUS_OK);
    FILE *file = fopen("drawn.jsonl", "rb");
    for (; fgets(line, sizeof line, file); count++) {
        template_output out;
        render_at_once(with, line, &out);
        expect_document(&c, out.text, out.length);
        template_output_close(&out);
    }
    assert_int_equal(count, 400);
    fclose(file);
    chat_close(with);
    close_checker(&c);
    make("drawn.jsonl", "--threads 1", "one.safetensors");
    same_files("one.safetensors", "drawn.safetensors");
}

/* The commands themselves: a model is trained on a chat, and asked with the same chat. */
static void a_prompt_is_what_was_trained_on(void **state) {
    (void)state;
    static const char config[] =
        "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 8, "
        "\"intermediate_size\": 8, \"num_hidden_layers\": 1, \"num_attention_heads\": 1, \"rms_norm_eps\": "
        "1e-6, "
        "\"num_key_value_heads\": 1, \"max_position_embeddings\": 256, \"vocab_size\": 4096}";
    static const char chat_line[] = "{\"tools\": [" F "], \"messages\": " ASKS CALLS "}\n";
    make_tools_model("gpt2", NULL, TOOLS_TEMPLATE);
    put("m/config.json", config);
    put("c.json", chat_line);
    FILE *file = fopen("many.jsonl", "wb");
    for (int i = 0; i < 30; i++) fputs(chat_line, file);
    assert_int_equal(fclose(file), 0);
    command_expect(0, "train m --data many.jsonl --batch 1 --steps 2 --threads 1 --out tuned --quiet");
    command_result r = command_run("generate tuned --chat-file c.json --tokens 1 --json --threads 1");
    json_document d;
    checker c = { 0 };
    assert_int_equal(r.exit, 0);
    assert_int_equal(json_parse("it", r.out, strlen(r.out), &d), STATUS_OK);
    const char *prompt;
    assert_int_equal(json_as_string(command_value(&d, "prompt"), &prompt), STATUS_OK);
    open_checker("tuned/data/train.safetensors", &c);
    for (int i = 0; i < 30; i++) expect_document(&c, prompt, strlen(prompt));
    close_checker(&c);
    json_close(&d);
    command_free(&r);
}

/* The largest record counts, not how many there are. */
static void memory_does_not_grow_with_the_data(void **state) {
    (void)state;
    static const char chat_line[] = "{\"tools\": [" F "], \"messages\": " ASKS CALLS "}\n";
    uint64_t planned[2];
    make_tools_model("gpt2", NULL, TOOLS_TEMPLATE);
    for (int i = 0; i < 2; i++) {
        FILE *file = fopen("copies.jsonl", "wb");
        for (int k = 0; k < (i ? 500 : 1); k++) fputs(chat_line, file);
        assert_int_equal(fclose(file), 0);
        remove("copies.safetensors");
        planned[i] = command_asked(
            "tokenize m --data copies.jsonl --out copies.safetensors --threads 1 --json", "planned_bytes");
    }
    assert_int_equal(planned[0], planned[1]);
}

/* A template that takes much and says little: what it takes is planned, and not in what others leave over. */
static void what_a_template_takes_is_planned(void **state) {
    (void)state;
    make_tools_model(
        "gpt2", NULL,
        "{% for m in messages %}{% for i in range(20) %}{{ (m.content ~ i) | length }}{% endfor %}</s>"
        "{% endfor %}");
    FILE *file = fopen("long.jsonl", "wb");
    fprintf(file,
            "{\"messages\": [{\"role\": \"user\", \"content\": \"%0*d\"}, {\"role\": \"assistant\"}]}\n",
            1000000, 7);
    assert_int_equal(fclose(file), 0);
    command_result r =
        command_run("tokenize m --data long.jsonl --out long.safetensors --learn all --json --threads 1");
    json_document d;
    assert_int_equal(r.exit, 0);
    assert_int_equal(json_parse("it", r.out, strlen(r.out), &d), STATUS_OK);
    assert_int_equal(command_number(&d, "planned_again"), 0);
    assert_true(command_number(&d, "peak_bytes") <= command_number(&d, "planned_bytes"));
    json_close(&d);
    command_free(&r);
}

/* transformers takes the template of this name where there are tools, even none of them. */
static void a_template_for_tools_is_taken(void **state) {
    (void)state;
    static const char told[] =
        "{\"eos_token\": \"</s>\", \"chat_template\": [{\"name\": \"default\", \"template\": \"plain</s>\"}, "
        "{\"name\": \"tool_use\", \"template\": \"{{ tools | length }} tools</s>\"}]}";
    make_tools_model("gpt2", told, NULL);
    expect_chat("c.jsonl", "{\"messages\": [{}]}", "--learn all", "plain</s>");
    expect_chat("c.jsonl", "{\"messages\": [{}], \"tools\": null}", "--learn all", "plain</s>");
    expect_chat("c.jsonl", "{\"messages\": [{}], \"tools\": []}", "--learn all", "0 tools</s>");
    expect_chat("c.jsonl", "{\"messages\": [{}], \"tools\": [{}, {}]}", "--learn all", "2 tools</s>");
}

static void tools_that_are_wrong_are_said(void **state) {
    (void)state;
    static const struct {
        const char *data, *columns, *says;
    } cases[] = {
        { "{\"messages\": [{}], \"tools\": \"[1\"}", "",
          "w.jsonl, record 1: tools: its JSON is wrong at byte 2" },
        { "{\"messages\": [{\"a\": {\"b\" 1}}]}", "", "w.jsonl, record 1: a: its JSON is wrong at byte 5" },
        { "{\"messages\": [{\"a\": nul}]}", "", "record 1: a: its JSON is wrong" },
        { "{\"messages\": [{\"a\": NaN}]}", "", "record 1: a: its JSON is wrong" },
        { "{\"messages\": [{\"a\": 9223372036854775808}]}", "", "record 1: a: its JSON is wrong" },
        { "{\"messages\": [{\"a\": [}]}", "", "w.jsonl, line 1: brackets do not agree" },
        { "{\"messages\": [{}], \"tools\": {}}", "", "record 1: the tools of a chat are a list" },
        { "{\"messages\": [{}], \"tools\": 7}", "", "record 1: the tools of a chat are a list" },
        { "{\"messages\": [{}], \"tools\": [[]]}", "", "record 1: tool 0 of a chat is no object" },
        { "{\"messages\": [{}]}", "--columns tools=functions", "no record has functions" },
        { "{\"messages\": [{}], \"functions\": null}", "--columns messages=messages,tools=functions",
          "no record has functions" },
        { "{\"text\": \"a\", \"functions\": []}", "--columns text=text,tools=functions",
          "role, content and tools are of messages" },
        { "{\"text\": \"a\", \"functions\": []}", "--columns tools=functions", "tools are of messages" },
        { "{\"messages\": [{}]}", "--columns tools=a,tools=b", "a word stands twice" },
    };
    make_tools_model("gpt2", NULL, EVERYTHING);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char call[256];
        put("w.jsonl", cases[i].data);
        snprintf(call, sizeof call, "tokenize m --data w.jsonl --out bad.safetensors %s", cases[i].columns);
        assert_true(command_says(call, 2, cases[i].says));
        assert_true(access("bad.safetensors", F_OK) != 0 && access("bad.safetensors.partial", F_OK) != 0);
    }
}

/* A chat whose text is many times as long as what it says is planned for anew, as far as the budget goes. */
static void what_a_template_makes_long_is_planned(void **state) {
    (void)state;
    static const char wide[] = "{% for m in messages %}{{ (m | tojson(indent=40)) * 40 }}{% endfor %}";
    make_tools_model("gpt2", NULL, wide);
    make_drawn("drawn.jsonl", 40, 30);
    command_result r = command_run("tokenize m --data drawn.jsonl --out w.safetensors --json --threads 2");
    json_document d;
    assert_int_equal(r.exit, 0);
    assert_int_equal(json_parse("it", r.out, strlen(r.out), &d), STATUS_OK);
    assert_true(command_number(&d, "planned_again") > 0);
    assert_true(command_number(&d, "peak_bytes") <= command_number(&d, "planned_bytes"));
    json_close(&d);
    command_free(&r);
    assert_true(
        command_says("tokenize m --data drawn.jsonl --out f.safetensors --memory 14MiB --threads 1 --quiet",
                     3, "and --memory is 14.0 MiB"));
    make("drawn.jsonl", "--threads 1", "f.safetensors");
    same_files("w.safetensors", "f.safetensors");
    /* no memory is enough for this one */
    make_tools_model("gpt2", NULL, "{% for m in messages %}{{ 'x' * 100000000 }}{% endfor %}");
    r = command_run("tokenize m --data drawn.jsonl --out never.safetensors --quiet --memory 200MiB");
    assert_int_equal(r.exit, 3);
    command_free(&r);
}

static void memory_is_as_planned(void **state) {
    (void)state;
    make_tools_model("llama3", NULL, EVERYTHING);
    make_drawn("drawn.jsonl", 200, 200);
    for (int threads = 1; threads < 3; threads++) {
        char call[128];
        json_document d;
        snprintf(call, sizeof call, "tokenize m --data drawn.jsonl --out p%d.safetensors --json --threads %d",
                 threads, threads);
        command_result r = command_run(call);
        assert_int_equal(r.exit, 0);
        assert_int_equal(json_parse("it", r.out, strlen(r.out), &d), STATUS_OK);
        assert_true(command_number(&d, "peak_bytes") <= command_number(&d, "planned_bytes"));
        json_close(&d);
        command_free(&r);
    }
}

static int open_folder(void **state) {
    int result = scratch_open(state);
    return result ? result : mkdir("m", 0700);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chats_with_tools_by_hand),
        cmocka_unit_test(drawn_chats_are_as_read_at_once),
        cmocka_unit_test(a_prompt_is_what_was_trained_on),
        cmocka_unit_test(memory_does_not_grow_with_the_data),
        cmocka_unit_test(what_a_template_takes_is_planned),
        cmocka_unit_test(a_template_for_tools_is_taken),
        cmocka_unit_test(tools_that_are_wrong_are_said),
        cmocka_unit_test(what_a_template_makes_long_is_planned),
        cmocka_unit_test(memory_is_as_planned),
    };
    return cmocka_run_group_tests_name("tool chats", tests, open_folder, scratch_close);
}
