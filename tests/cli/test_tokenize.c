/* snug tokenize from outside: the file holds what the tokenizer makes of each document, whatever the threads.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/token_data.h"
#include "device/device.h"
#include "io/scratch.h"
#include "language/chat.h"
#include "tokenize/tokenize.h"

static uint32_t expected[TOKENS_MOST];
static char line[1 << 20], value[1 << 20];

static void every_kind_of_tokenizer(void **state) {
    (void)state;
    static const char *const kinds[] = { "albert_bytes", "bert",   "bert_cased", "characters",    "clip",
                                         "deepseek",     "gemma",  "gpt2",       "letters_first", "llama2",
                                         "llama2_first", "llama3", "o200k",      "prefix",        "qwen2",
                                         "roberta",      "t5",     "word_level", "xlmr" };
    tokens_texts("texts.jsonl", 300, 60, 5);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        tokens_model("m", kinds[k]);
        command_shell("rm -f o.safetensors");
        tokens_make("m", "texts.jsonl", "--threads 2", "o.safetensors");
        tokens_check("m", "texts.jsonl", "o.safetensors");
    }
}

/* The tokens of a file that holds one document. */
static void expect_tokens(const char *path, const uint32_t *ids, uint64_t count) {
    tokens_made m;
    tokens_read(path, &m);
    assert_int_equal(m.documents, 1);
    assert_int_equal(m.count, count);
    for (uint64_t i = 0; i < count; i++) assert_int_equal(m.tokens[i], ids[i]);
    tokens_free(&m);
}

static void make_mute(const char *before, const char *behind) {
    FILE *file = fopen("mute/tokenizer.json", "wb");
    fprintf(file,
            "{\"version\": \"1.0\", \"truncation\": null, \"padding\": null, \"added_tokens\": [], "
            "\"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, \"content\": \"\"}, "
            "\"pre_tokenizer\": {\"type\": \"WhitespaceSplit\"}, \"decoder\": null, "
            "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [%s"
            "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}%s], \"pair\": [{\"Sequence\": {\"id\": \"A\", "
            "\"type_id\": 0}}, {\"Sequence\": {\"id\": \"B\", \"type_id\": 0}}], \"special_tokens\": "
            "{\"[CLS]\": {\"id\": \"[CLS]\", \"ids\": [0], \"tokens\": [\"[CLS]\"]}, "
            "\"[SEP]\": {\"id\": \"[SEP]\", \"ids\": [1], \"tokens\": [\"[SEP]\"]}}}, "
            "\"model\": {\"type\": \"WordLevel\", \"vocab\": {\"[CLS]\": 0, \"[SEP]\": 1, \"</s>\": 2, "
            "\"b\": 3, \"?\": 4}, \"unk_token\": \"?\"}}",
            before, behind);
    assert_int_equal(fclose(file), 0);
}

/* A tokenizer that makes nothing of the letter a says as well as others what it puts before and behind a
 * text.
 */
static void what_stands_around_does_not_depend_on_a_letter(void **state) {
    (void)state;
    static const char cls[] = "{\"SpecialToken\": {\"id\": \"[CLS]\", \"type_id\": 0}}, ",
                      sep[] = ", {\"SpecialToken\": {\"id\": \"[SEP]\", \"type_id\": 0}}";
    tokens_model("mute", "word_level");
    scratch_write("b.txt", "b a b", 5);
    make_mute(cls, sep);
    tokens_make("mute", "b.txt", "", "b.safetensors");
    expect_tokens("b.safetensors", (uint32_t[]){ 0, 3, 3, 1 }, 4);
    make_mute(cls, "");
    tokens_make("mute", "b.txt", "", "b.safetensors");
    expect_tokens("b.safetensors", (uint32_t[]){ 0, 3, 3, 2 }, 4); /* and the model's own end */
    make_mute("", sep);
    tokens_make("mute", "b.txt", "", "b.safetensors");
    expect_tokens("b.safetensors", (uint32_t[]){ 3, 3, 1 }, 3);
}

/* What ends a document: eos_token, else the first of the model's ends that the tokenizer has. Another one
 * makes another file, wherever it is said. */
static void the_end_is_looked_for(void **state) {
    (void)state;
    static const struct {
        const char *file, *says;
        uint32_t end; /* TOKENIZER_NONE: nothing */
    } cases[] = {
        { "config.json", "{}", TOKENIZER_NONE },
        { "config.json", "{\"model_type\": \"of tomorrow\", \"eos_token_id\": 4}", 4 },
        { "config.json", "{\"eos_token_id\": 2}", 2 },
        { "generation_config.json", "{\"eos_token_id\": [70000, 4, 3]}", 4 },
        { "tokenizer_config.json", "{\"eos_token\": null}", 4 },
        { "tokenizer_config.json", "{\"eos_token\": \"</s>\"}", 2 },
    };
    tokens_model("mute", "word_level");
    make_mute("", "");
    command_shell(
        "rm mute/tokenizer_config.json mute/config.json mute/chat_template.jinja; rm -f b.safetensors");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[64];
        snprintf(path, sizeof path, "mute/%s", cases[i].file);
        scratch_write(path, cases[i].says, strlen(cases[i].says));
        tokens_make("mute", "b.txt", "", "b.safetensors");
        expect_tokens("b.safetensors", (uint32_t[]){ 3, 3, cases[i].end },
                      cases[i].end == TOKENIZER_NONE ? 2 : 3);
    }
    /* one that is special anyhow, since it stands before each text */
    command_shell("rm mute/*config.json");
    make_mute("{\"SpecialToken\": {\"id\": \"[CLS]\", \"type_id\": 0}}, ", "");
    tokens_make("mute", "b.txt", "", "b.safetensors");
    expect_tokens("b.safetensors", (uint32_t[]){ 0, 3, 3 }, 3);
    scratch_write("mute/config.json", "{\"eos_token_id\": 0}", 19);
    tokens_make("mute", "b.txt", "", "b.safetensors");
    expect_tokens("b.safetensors", (uint32_t[]){ 0, 3, 3, 0 }, 4);
    scratch_write("mute/generation_config.json", "{\"eos_token_id\": \"x\"}", 21);
    assert_true(command_says("tokenize mute --data b.txt --out b.safetensors", 2, "generation_config.json"));
}

/* More than a slot, and documents that are longer than one. */
static void threads_change_nothing(void **state) {
    (void)state;
    tokens_model("m", "llama3");
    tokens_texts("many.jsonl", 9000, 150, 6);
    tokens_make("m", "many.jsonl", "--threads 1", "one.safetensors");
    tokens_check("m", "many.jsonl", "one.safetensors");
    tokens_make("m", "many.jsonl", "--threads 3", "three.safetensors");
    command_shell("cmp one.safetensors three.safetensors");
    tokens_texts("long.jsonl", 3, 90000, 8);
    tokens_make("m", "long.jsonl", "--threads 1", "long.safetensors");
    tokens_check("m", "long.jsonl", "long.safetensors");
    tokens_make("m", "long.jsonl", "--threads 4", "again.safetensors");
    command_shell("cmp long.safetensors again.safetensors");
}

/* What no tokenizer of its kind can cut takes more than was planned: it is planned for then, and refused only
 * where the budget is smaller. */
static void what_can_not_be_cut(void **state) {
    (void)state;
    static const char *const kinds[] = { "albert_bytes", "bert",   "clip",   "deepseek", "gemma", "gpt2",
                                         "llama2_first", "llama2", "prefix", "t5",       "xlmr" };
    static const char *const chinese[] = { "\u96ea", "\u51b7", "\u8aad", "\u6c34" },
                             *const wide[] = { "\ufdfa" }, *const marked[] = { "e\u0301" };
    tokens_unbroken("snow.jsonl", chinese, 4, 700000);
    tokens_unbroken("wide.jsonl", wide, 1, 150000);
    tokens_unbroken("marks.jsonl", marked, 1, 700000);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        tokens_model("m", kinds[k]);
        for (int i = 0; i < 2; i++) {
            const char *data = i ? "wide.jsonl" : "snow.jsonl";
            command_shell("rm -f u.safetensors");
            tokens_make("m", data, "--threads 2", "u.safetensors");
            tokens_check("m", data, "u.safetensors");
        }
    }
    tokens_model("m", "xlmr");
    tokens_make("m", "marks.jsonl", "", "all.safetensors");
    device_runtime own = device_runtime_reserve(1);
    uint64_t program = own.code + own.threads;
    char call[256], memory[64];
    snprintf(call, sizeof call,
             "tokenize m --data marks.jsonl --out few.safetensors --memory %llu --threads 1 --quiet",
             (unsigned long long)(program + (10 << 20)));
    assert_true(command_says(call, 3, "marks.jsonl, record 3: "));
    assert_true(command_says(call, 3, "no room for more; making tokens with one thread takes "));
    snprintf(memory, sizeof memory, "--memory %llu", (unsigned long long)(program + (60 << 20)));
    tokens_make("m", "marks.jsonl", memory, "few.safetensors");
    command_shell("cmp all.safetensors few.safetensors");
}

typedef struct {
    uint32_t first, second; /* calls while the data are looked at, and made into tokens */
} told;

static void count_call(void *context, const tokenize_progress *p) {
    told *t = context;
    assert_true(!p->bytes || p->read <= p->bytes);
    ++*(p->bytes ? &t->second : &t->first);
}

static void progress_tells_the_readings_apart(void **state) {
    (void)state;
    told t = { 0 };
    tokenize *making;
    tokenize_result r;
    tokens_model("m", "word_level");
    command_shell("yes 'the snow is cold' | head -c 20000000 > snow.txt; rm -f snow.safetensors");
    tokenize_options o = { .model = "m",
                           .data = { .paths = { "snow.txt" }, .count = 1 },
                           .out = "snow.safetensors",
                           .progress = count_call,
                           .context = &t };
    assert_int_equal(tokenize_open(&o, &making), STATUS_OK);
    assert_true(t.first > 0 && t.second == 0);
    uint32_t before = t.first;
    assert_int_equal(tokenize_run(making, &r), STATUS_OK);
    assert_true(t.first == before && t.second > 0);
    tokenize_close(making);
}

static volatile sig_atomic_t stopping;

static void stop_now(void *context, const tokenize_progress *p) {
    (void)p;
    ++*(int *)context;
    stopping = 1;
}

/* The digest of a file is told of and stopped within it: what is wrong with its first record, which would be
 * read next, is never seen. */
static void the_digest_is_stopped_within_a_file(void **state) {
    (void)state;
    tokenize *making;
    int calls = 0;
    tokens_model("m", "word_level");
    command_shell("printf '\\351' > caf.txt; yes 'the snow is cold' | head -c 40000000 >> caf.txt");
    tokenize_options o = { .model = "m",
                           .data = { .paths = { "caf.txt" }, .count = 1 },
                           .out = "caf.safetensors",
                           .progress = stop_now,
                           .context = &calls,
                           .stop = &stopping };
    assert_int_equal(tokenize_open(&o, &making), STATUS_INTERRUPTED);
    assert_int_equal(calls, 1);
    tokenize_close(making);
    stopping = 0;
    o.progress = NULL;
    assert_int_equal(tokenize_open(&o, &making), STATUS_INVALID);
    tokenize_close(making);
}

static void a_pair_is_never_cut(void **state) {
    (void)state;
    tokens_model("m", "llama3");
    FILE *file = fopen("large.jsonl", "wb");
    for (int i = 0; i < 2; i++) {
        fprintf(file, "{\"prompt\": \"%0*d\", \"completion\": \"", 2000000, i);
        fprintf(file, "%0*d\"}\n", 1500000, i);
    }
    assert_int_equal(fclose(file), 0);
    tokens_make("m", "large.jsonl", "--learn all", "large.safetensors");
    tokens_make("m", "large.jsonl", "", "masked.safetensors");
    tokens_made all, masked;
    tokens_read("large.safetensors", &all), tokens_read("masked.safetensors", &masked);
    assert_int_equal(all.documents, 2);
    assert_int_equal(all.count, masked.count);
    assert_memory_equal(all.tokens, masked.tokens, all.count * sizeof *all.tokens);
    tokens_free(&all), tokens_free(&masked);
}

static void prompts_are_not_learned(void **state) {
    (void)state;
    tokens_checker c = { 0 };
    tokenizer_ids ids;
    const tokenizer_span *spans;
    tokens_model("m", "gpt2");
    tokens_pairs("pairs.jsonl", 500, 4);
    tokens_make("m", "pairs.jsonl", "", "pairs.safetensors");
    tokens_open("m", "pairs.safetensors", &c);
    assert_true(c.made.masks);
    FILE *file = fopen("pairs.jsonl", "rb");
    while (fgets(line, sizeof line, file)) {
        size_t prompt = tokens_member(line, "prompt", value),
               bytes = prompt + tokens_member(line, "completion", value + prompt);
        size_t learned = 0, count = tokens_frame(&c, value, bytes, expected);
        assert_int_equal(tokenizer_encode_spans(c.tokenizer, c.work, (tokenizer_text){ value, bytes }, false,
                                                &ids, &spans),
                         STATUS_OK);
        while (learned < ids.count && spans[learned].end <= prompt) learned++;
        tokens_expect(&c, expected, count, learned);
    }
    fclose(file);
    tokens_close(&c);
    tokens_make("m", "pairs.jsonl", "--learn all", "all.safetensors");
    tokens_read("all.safetensors", &c.made);
    assert_false(c.made.masks);
    tokens_free(&c.made);
}

/* What stands between <assistant> and the next < is learned, with the mark of its end. */
static void answers_of_chats_are_learned(void **state) {
    (void)state;
    static const char *const names[][3] = { { "messages", "role", "content" },
                                            { "conversations", "from", "value" } };
    tokens_model("m", "gpt2");
    tokens_chats("chats.jsonl", 300, names[0], 3);
    tokens_chats("share.jsonl", 300, names[1], 3);
    tokens_make("m", "chats.jsonl", "--threads 2", "chats.safetensors");
    tokens_make("m", "share.jsonl", "--columns messages=conversations,role=from,content=value",
                "share.safetensors");
    tokens_made a, b;
    tokens_read("chats.safetensors", &a);
    tokens_read("share.safetensors", &b);
    assert_int_equal(a.count, b.count);
    assert_memory_equal(a.tokens, b.tokens, a.count * 4);
    assert_memory_equal(a.learned, b.learned, a.count);
    assert_int_equal(a.documents, 300);
    uint64_t learned = 0;
    for (uint64_t i = 0; i < a.count; i++) learned += a.learned[i];
    assert_true(learned > a.count / 5 && learned < a.count * 3 / 4);
    tokens_free(&a), tokens_free(&b);
}

static void one_chat_by_hand(void **state) {
    (void)state;
    static const char chat_line[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"how cold\"}, "
                                    "{\"role\": \"assistant\", \"content\": \"very, so wear a coat\"}]}\n";
    static const char said[] = "<user>how cold</s><assistant>very, so wear a coat</s>";
    tokens_checker c = { 0 };
    tokenizer_ids ids;
    const tokenizer_span *spans;
    tokens_model("m", "gpt2");
    scratch_write("one.jsonl", chat_line, sizeof chat_line - 1);
    tokens_make("m", "one.jsonl", "", "chat.safetensors");
    tokens_open("m", "chat.safetensors", &c);
    assert_int_equal(tokenizer_encode_spans(c.tokenizer, c.work, (tokenizer_text){ said, sizeof said - 1 },
                                            false, &ids, &spans),
                     STATUS_OK);
    assert_int_equal(c.made.count, ids.count);
    size_t first = (size_t)(strstr(said, "very") - said);
    for (size_t i = 0; i < ids.count; i++) {
        assert_int_equal(c.made.tokens[i], ids.id[i]);
        assert_int_equal(c.made.learned[i], spans[i].end > first);
    }
    c.made.at = 1;
    tokens_close(&c);
}

static void forms_and_folders(void **state) {
    (void)state;
    tokens_model("m", "gpt2");
    command_shell(
        "mkdir folder && printf 'snow is cold' > folder/a.txt && printf 'so is ice' > folder/b.txt && printf "
        "'body,n\\nsnow is cold,1\\nso is ice,2\\n' > t.csv && printf '[{\"text\": \"snow is cold\"}, "
        "{\"text\": "
        "\"so is ice\"}]' > t.json && printf 'snow is cold' > c.txt && printf 'so is ice' > d.txt && gzip -k "
        "t.json");
    tokens_make("m", "folder", "", "f.safetensors");
    tokens_make("m", "t.csv", "--columns text=body", "csv.safetensors");
    tokens_make("m", "t.json", "", "json.safetensors");
    tokens_make("m", "c.txt --data d.txt", "", "two.safetensors");
    tokens_made f;
    tokens_read("f.safetensors", &f);
    assert_int_equal(f.documents, 2);
    static const char *const same[] = { "csv", "json", "two" };
    for (size_t i = 0; i < 3; i++) {
        char path[64];
        tokens_made other;
        snprintf(path, sizeof path, "%s.safetensors", same[i]);
        tokens_read(path, &other);
        assert_int_equal(other.count, f.count);
        assert_memory_equal(other.tokens, f.tokens, f.count * 4);
        assert_memory_equal(other.ends, f.ends, 16);
        tokens_free(&other);
    }
    tokens_free(&f);
}

static void what_can_not_be_is_said(void **state) {
    (void)state;
    static const struct {
        const char *call, *says;
    } cases[] = {
        { "tokenize m --out bad.safetensors", "tokenize wants --data" },
        { "tokenize m --data t.csv", "tokenize wants --out" },
        { "tokenize m --data t.csv --out bad.bin", "let its name end in .safetensors" },
        { "tokenize nowhere --data t.csv --out bad.safetensors", "nowhere" },
        { "tokenize bare --data t.csv --out bad.safetensors", "has no tokenizer.json" },
        { "tokenize m --data nothing.txt --out bad.safetensors", "nothing.txt" },
        { "tokenize m --data t.csv --out bad.safetensors", "its columns are body, n" },
        { "tokenize m --data t.csv --columns text=title --out bad.safetensors", "title" },
        { "tokenize m --data t.csv --columns words=body --out bad.safetensors", "none of text, prompt" },
        { "tokenize m --data t.csv --columns text=body,prompt=n --out bad.safetensors",
          "a record is a text" },
        { "tokenize m --data t.csv --columns text=body,role=n --out bad.safetensors", "are of messages" },
        { "tokenize m --data t.csv --columns body --out bad.safetensors", "no list of WORD=NAME" },
        { "tokenize m --data t.csv --columns text=body --data t.json --out bad.safetensors",
          "has no \"body\"" },
        { "tokenize m --data latin.txt --out bad.safetensors", "latin.txt" },
        { "tokenize m --data empty.txt --out bad.safetensors", "no token in all of the data" },
        { "tokenize m --data empty.csv --columns text=body --out bad.safetensors",
          "empty.csv holds no record" },
        { "tokenize m --data pairs.jsonl --data t.json --out bad.safetensors", "different kinds" },
        { "tokenize m --data none.jsonl --out bad.safetensors",
          "none.jsonl, record 1: the chat has no message" },
        { "tokenize raises --data chats.jsonl --out bad.safetensors", "chats.jsonl, record 1: " },
        { "tokenize silent --data chats.jsonl --out bad.safetensors", "has no chat template" },
    };
    command_shell(
        "mkdir -p bare && printf '\\351t\\351' > latin.txt && : > empty.txt && echo body > empty.csv && "
        "printf '{\"messages\": "
        "[]}\\n' > "
        "none.jsonl");
    tokens_model("raises", "gpt2");
    scratch_write("raises/chat_template.jinja", "{{ raise_exception('no users here') }}", 38);
    tokens_model("silent", "gpt2");
    command_shell("rm silent/chat_template.jinja");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(command_says(cases[i].call, 2, cases[i].says));
        command_shell("! ls bad.* > list 2>&1");
    }
    assert_true(
        command_says("tokenize m --data folder --out bad.safetensors --memory 1MiB", 3, "--memory is"));
    tokens_make("m", "latin.txt", "--replace", "latin.safetensors");
}

static void link_into(char *path, size_t length, const char *name) {
    strcpy(path + length, name);
    assert_int_equal(link(name, path), 0);
}

/* However long a path is, the sentence says what is wrong with the record and what it needs. */
static void long_paths_leave_the_reason(void **state) {
    (void)state;
    enum { PATH = 3000, FOLDER = 200 };
    static char path[PATH + FOLDER], call[PATH + 512];
    static const size_t lengths[] = { 480, 900, 1400, 2600 };
    device_runtime own = device_runtime_reserve(1);
    unsigned long long least = own.code + own.threads + (10 << 20);
    tokens_model("m", "xlmr");
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        size_t length = 0;
        while (length < lengths[i]) {
            length += (size_t)sprintf(path + length, "%0*zu/", FOLDER, length);
            mkdir(path, 0777);
        }
        link_into(path, length, "chats.jsonl"), link_into(path, length, "marks.jsonl");
        path[length] = 0;
        snprintf(call, sizeof call, "tokenize raises --data %schats.jsonl --out bad.safetensors", path);
        assert_true(command_says(call, 2, "no users here"));
        snprintf(call, sizeof call,
                 "tokenize m --data %smarks.jsonl --out bad.safetensors --quiet --threads 1 --memory %llu",
                 path, least);
        assert_true(command_says(call, 3, "no room for more; making tokens with one thread takes "));
        assert_true(command_says(call, 3, ", and --memory is "));
    }
}

static void memory_is_as_planned(void **state) {
    (void)state;
    static const char *const calls[] = {
        "tokenize m --data many.jsonl --out p0.safetensors --json --threads 2",
        "tokenize m --data pairs.jsonl --out p1.safetensors --json --threads 1",
        "tokenize m --data chats.jsonl --out p2.safetensors --json --threads 2",
        "tokenize m --data long.jsonl --out p3.safetensors --json --threads 2",
    };
    tokens_model("m", "llama3");
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        command_result r = command_run(calls[i]);
        json_document d;
        assert_int_equal(r.exit, 0);
        assert_int_equal(json_parse("it", r.out, strlen(r.out), &d), STATUS_OK);
        uint64_t planned = command_number(&d, "planned_bytes"), peak = command_number(&d, "peak_bytes");
        if (peak > planned)
            fail_msg("%s: planned %llu, taken %llu", calls[i], (unsigned long long)planned,
                     (unsigned long long)peak);
        json_close(&d);
        command_free(&r);
    }
}

/* JSON comes also where there is nothing to make, and says so. */
static void json_is_there_each_time(void **state) {
    (void)state;
    static const char call[] = "tokenize m --data pairs.jsonl --out j.safetensors --json --quiet";
    static const char *const same[] = { "documents", "tokens",     "learned", "longest",
                                        "records",   "text_bytes", "empty",   "file_bytes" };
    uint64_t first[8];
    tokens_model("m", "gpt2");
    for (size_t i = 0; i < 8; i++) {
        command_shell("rm -f j.safetensors");
        first[i] = command_asked(call, same[i]);
    }
    assert_true(first[0] > 1 && first[2] > 0 && first[2] < first[1]);
    for (size_t i = 0; i < 8; i++) assert_int_equal(command_asked(call, same[i]), first[i]);
    assert_int_equal(command_asked(call, "resumed"), first[0]);
    command_result r = command_run(call);
    assert_non_null(strstr(r.out, "\"made\": false"));
    command_free(&r);
    command_shell("rm j.safetensors");
    r = command_run(call);
    assert_non_null(strstr(r.out, "\"made\": true"));
    command_free(&r);
}

static void one_is_one(void **state) {
    (void)state;
    scratch_write("one.jsonl", "{\"text\": \"b\"}", 13);
    command_shell("rm -f one.safetensors; rm -f mute/*config.json");
    make_mute("", "");
    assert_true(command_says("tokenize mute --data one.jsonl --out one.safetensors", 0, "Data: 1 text, "));
    command_shell("rm one.safetensors");
    assert_true(command_says("tokenize mute --data one.jsonl --out one.safetensors", 0,
                             "if every byte were a token\n1 token of 1 document, the longest 1\n"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_tokenizer),
        cmocka_unit_test(what_stands_around_does_not_depend_on_a_letter),
        cmocka_unit_test(the_end_is_looked_for),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(what_can_not_be_cut),
        cmocka_unit_test(progress_tells_the_readings_apart),
        cmocka_unit_test(the_digest_is_stopped_within_a_file),
        cmocka_unit_test(a_pair_is_never_cut),
        cmocka_unit_test(prompts_are_not_learned),
        cmocka_unit_test(answers_of_chats_are_learned),
        cmocka_unit_test(one_chat_by_hand),
        cmocka_unit_test(forms_and_folders),
        cmocka_unit_test(what_can_not_be_is_said),
        cmocka_unit_test(long_paths_leave_the_reason),
        cmocka_unit_test(memory_is_as_planned),
        cmocka_unit_test(json_is_there_each_time),
        cmocka_unit_test(one_is_one),
    };
    return cmocka_run_group_tests_name("tokenize", tests, scratch_open, scratch_close);
}
