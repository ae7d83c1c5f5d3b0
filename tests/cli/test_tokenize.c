/* snug tokenize from outside: the file holds what the tokenizer makes of each document, whatever the threads;
 * it goes on after any kill and a full disk; and trainings take it. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "cli/command.h"
#include "io/safetensors.h"
#include "io/scratch.h"
#include "language/chat.h"
#include "language/tokenizer_of.h"
#include "tokenize/tokenize.h"

enum { MOST_TOKENS = 3 << 20, MOST_DOCUMENTS = 1 << 15 };

static void shell(const char *format, ...) {
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (system(line) != 0) fail_msg("%s", line);
}

/* ---- model directories ---- */

static const char CONFIG[] =
    "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 16, "
    "\"intermediate_size\": 32, \"num_hidden_layers\": 1, \"num_attention_heads\": 2, "
    "\"num_key_value_heads\": 2, \"max_position_embeddings\": 256, \"rms_norm_eps\": 1e-6, "
    "\"vocab_size\": 4096, \"tie_word_embeddings\": true}";
static const char TEMPLATE[] = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{% endfor %}"
                               "{% if add_generation_prompt %}<assistant>{% endif %}";

static void make_model(const char *folder, const char *kind) {
    char path[256], told[] = "{\"eos_token\": \"</s>\"}";
    shell("rm -rf %s && mkdir %s && cp %s/tests/text/golden/%s.json %s/tokenizer.json", folder, folder,
          SNUG_ROOT, kind, folder);
    snprintf(path, sizeof path, "%s/config.json", folder);
    scratch_write(path, CONFIG, sizeof CONFIG - 1);
    snprintf(path, sizeof path, "%s/tokenizer_config.json", folder);
    scratch_write(path, told, sizeof told - 1);
    snprintf(path, sizeof path, "%s/chat_template.jinja", folder);
    scratch_write(path, TEMPLATE, sizeof TEMPLATE - 1);
}

/* ---- documents ---- */

static const char *const words[] = { "snow",  "is",   "cold", "Zwölf", "naïve", "読む",  "42",
                                     "don't", "  ",   "\t",   "a",     "…",     "Größe", "\n",
                                     "x = 1", "मौसम", "I'll", "🙂",  "end.",  "of" };

static void add_words(FILE *file, uint64_t *random, uint32_t count, bool json) {
    for (uint32_t i = 0; i < count; i++) {
        const char *word = words[scratch_random(random) % (sizeof words / sizeof *words)];
        if (json && *word == '\t') word = "\\t";
        if (json && *word == '\n') word = "\\n";
        fprintf(file, "%s%s", i ? " " : "", word);
    }
}

static void make_texts(const char *path, uint64_t count, uint32_t longest, uint64_t seed) {
    FILE *file = fopen(path, "wb");
    for (uint64_t d = 0; d < count; d++) {
        fprintf(file, "{\"id\": \"%llu\", \"text\": \"", (unsigned long long)d);
        add_words(file, &seed, scratch_random(&seed) % longest, true);
        fprintf(file, "\"}\n");
    }
    assert_int_equal(fclose(file), 0);
}

/* Texts of `letters` of them without a blank, between short ones. */
static void make_unbroken(const char *path, const char *const *letters, uint32_t kinds, uint32_t bytes) {
    FILE *file = fopen(path, "wb");
    uint64_t random = 5;
    for (uint32_t d = 0; d < 12; d++) {
        fprintf(file, "{\"text\": \"");
        if (d % 4 == 2)
            for (uint32_t n = 0; n < bytes; n += (uint32_t)strlen(letters[0]))
                fputs(letters[scratch_random(&random) % kinds], file);
        else
            add_words(file, &random, 20, true);
        fprintf(file, "\"}\n");
    }
    assert_int_equal(fclose(file), 0);
}

static void make_pairs(const char *path, uint64_t records, uint64_t seed) {
    FILE *file = fopen(path, "wb");
    for (uint64_t d = 0; d < records; d++) {
        fprintf(file, d % 2 ? "{\"completion\": \"" : "{\"prompt\": \"");
        add_words(file, &seed, 1 + scratch_random(&seed) % 9, true);
        fprintf(file, d % 2 ? "\", \"prompt\": \"" : "\", \"completion\": \"");
        add_words(file, &seed, 1 + scratch_random(&seed) % 9, true);
        fprintf(file, "\"}\n");
    }
    assert_int_equal(fclose(file), 0);
}

static void make_chats(const char *path, uint64_t records, const char *const names[3], uint64_t seed) {
    FILE *file = fopen(path, "wb");
    for (uint64_t d = 0; d < records; d++) {
        uint32_t turns = 1 + scratch_random(&seed) % 4;
        fprintf(file, "{\"%s\": [", names[0]);
        for (uint32_t t = 0; t < 2 * turns; t++) {
            const char *role = *names[1] == 'r' ? (t % 2 ? "assistant" : "user") : (t % 2 ? "gpt" : "human");
            fprintf(file, "%s{\"%s\": \"%s\", \"%s\": \"", t ? ", " : "", names[1], role, names[2]);
            add_words(file, &seed, 1 + scratch_random(&seed) % 9, true);
            fprintf(file, "\"}");
        }
        fprintf(file, "]}\n");
    }
    assert_int_equal(fclose(file), 0);
}

/* ---- what was made ---- */

typedef struct {
    uint32_t *tokens;
    uint8_t *learned;
    uint64_t *ends;
    uint64_t count, documents, at; /* at: of the next document */
    bool masks;
} made;

static void read_made(const char *path, made *m) {
    safetensors s;
    if (safetensors_open(path, &s) != STATUS_OK) fail_msg("%s", status_message());
    const safetensors_entry *tokens = safetensors_find(&s, "tokens"), *ends = safetensors_find(&s, "ends"),
                            *learned = safetensors_find(&s, "learned");
    *m = (made){ .count = (uint64_t)tokens->dim[0], .documents = (uint64_t)ends->dim[0], .masks = learned };
    m->tokens = calloc(m->count, 4), m->learned = calloc(m->count, 1), m->ends = calloc(m->documents, 8);
    assert_int_equal(safetensors_read_bytes(&s, tokens, 0, m->tokens, tokens->bytes), STATUS_OK);
    assert_int_equal(safetensors_read_bytes(&s, ends, 0, m->ends, ends->bytes), STATUS_OK);
    if (learned)
        assert_int_equal(safetensors_read_bytes(&s, learned, 0, m->learned, learned->bytes), STATUS_OK);
    if (strcmp(tokens->dtype, "U16") == 0)
        for (uint64_t i = m->count; i-- > 0;) m->tokens[i] = ((uint16_t *)m->tokens)[i];
    safetensors_close(&s);
}

static void free_made(made *m) { free(m->tokens), free(m->learned), free(m->ends); }

typedef struct {
    tokenizer *tokenizer;
    tokenizer_work *work;
    uint32_t end;
    made made;
    bool whole; /* all is learned */
} checker;

static void open_checker(const char *folder, const char *path, checker *c) {
    bool there;
    if (tokenizer_of_open(folder, &c->tokenizer, &there) != STATUS_OK) fail_msg("%s", status_message());
    assert_int_equal(tokenizer_take_whole(c->tokenizer), STATUS_OK);
    assert_int_equal(tokenizer_work_open(c->tokenizer, &c->work), STATUS_OK);
    c->end = tokenizer_id(c->tokenizer, "</s>", 4);
    read_made(path, &c->made);
    c->made.at = 0;
}

static void close_checker(checker *c) {
    assert_int_equal(c->made.at, c->made.documents);
    free_made(&c->made);
    tokenizer_work_close(c->work);
    tokenizer_close(c->tokenizer);
}

/* The next document: these ids, of which those from `learned` on are learned. */
static void expect_document(checker *c, const uint32_t *ids, size_t count, size_t learned) {
    made *m = &c->made;
    if (!count) return;
    assert_true(m->at < m->documents);
    uint64_t first = m->at ? m->ends[m->at - 1] : 0;
    assert_int_equal(m->ends[m->at] - first, count);
    for (size_t i = 0; i < count; i++) {
        if (m->tokens[first + i] != ids[i])
            fail_msg("token %zu of document %llu is %u and not %u", i, (unsigned long long)m->at,
                     m->tokens[first + i], ids[i]);
        if (m->masks) assert_int_equal(m->learned[first + i], i >= learned);
    }
    m->at++;
}

/* A text as the tokenizer frames it; the model's end behind it where it puts nothing there. */
static size_t frame(checker *c, const char *words_of, size_t bytes, uint32_t *out) {
    tokenizer_ids ids;
    if (tokenizer_encode(c->tokenizer, c->work, words_of, bytes, true, &ids) != STATUS_OK)
        fail_msg("%s", status_message());
    memcpy(out, ids.id, ids.count * sizeof *out);
    size_t count = ids.count;
    assert_int_equal(tokenizer_encode(c->tokenizer, c->work, "a", 1, true, &ids), STATUS_OK);
    uint32_t last = ids.id[ids.count - 1];
    assert_int_equal(tokenizer_encode(c->tokenizer, c->work, "a", 1, false, &ids), STATUS_OK);
    if (last == ids.id[ids.count - 1] && c->end != TOKENIZER_NONE) out[count++] = c->end;
    return count;
}

/* The value of a string member in a line that this test has written, its escapes undone. */
static size_t member(const char *line, const char *name, char *out) {
    char key[40];
    snprintf(key, sizeof key, "\"%s\": \"", name);
    const char *at = strstr(line, key) + strlen(key);
    size_t n = 0;
    for (; *at != '"'; at++) {
        out[n] = *at;
        if (*at == '\\') out[n] = *++at == 't' ? '\t' : '\n';
        n++;
    }
    return n;
}

static uint32_t expected[MOST_TOKENS];
static char line[4 << 20], value[4 << 20];

static void check_texts(const char *folder, const char *data, const char *path) {
    checker c = { 0 };
    FILE *file = fopen(data, "rb");
    open_checker(folder, path, &c);
    while (fgets(line, sizeof line, file)) {
        size_t bytes = member(line, "text", value);
        expect_document(&c, expected, frame(&c, value, bytes, expected), 0);
    }
    fclose(file);
    close_checker(&c);
}

static void make(const char *folder, const char *data, const char *rest, const char *out) {
    char call[512];
    snprintf(call, sizeof call, "tokenize %s --data %s --out %s --quiet %s", folder, data, out, rest);
    command_expect(0, call);
}

static void every_kind_of_tokenizer(void **state) {
    (void)state;
    static const char *const kinds[] = { "albert_bytes", "bert",   "bert_cased", "characters",    "clip",
                                         "deepseek",     "gemma",  "gpt2",       "letters_first", "llama2",
                                         "llama2_first", "llama3", "o200k",      "prefix",        "qwen2",
                                         "roberta",      "t5",     "word_level", "xlmr" };
    make_texts("texts.jsonl", 300, 60, 5);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        make_model("m", kinds[k]);
        shell("rm -f o.safetensors");
        make("m", "texts.jsonl", "--threads 2", "o.safetensors");
        check_texts("m", "texts.jsonl", "o.safetensors");
    }
}

/* More than a slot, and documents that are longer than one. */
/* The tokens of a file that holds one document. */
static void expect_tokens(const char *path, const uint32_t *ids, uint64_t count) {
    made m;
    read_made(path, &m);
    assert_int_equal(m.documents, 1);
    assert_int_equal(m.count, count);
    for (uint64_t i = 0; i < count; i++) assert_int_equal(m.tokens[i], ids[i]);
    free_made(&m);
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
    make_model("mute", "word_level");
    scratch_write("b.txt", "b a b", 5);
    make_mute(cls, sep);
    make("mute", "b.txt", "", "b.safetensors");
    expect_tokens("b.safetensors", (uint32_t[]){ 0, 3, 3, 1 }, 4);
    make_mute(cls, "");
    make("mute", "b.txt", "", "b.safetensors");
    expect_tokens("b.safetensors", (uint32_t[]){ 0, 3, 3, 2 }, 4); /* and the model's own end */
    make_mute("", sep);
    make("mute", "b.txt", "", "b.safetensors");
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
    make_model("mute", "word_level");
    make_mute("", "");
    shell("rm mute/tokenizer_config.json mute/config.json mute/chat_template.jinja; rm -f b.safetensors");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[64];
        snprintf(path, sizeof path, "mute/%s", cases[i].file);
        scratch_write(path, cases[i].says, strlen(cases[i].says));
        make("mute", "b.txt", "", "b.safetensors");
        expect_tokens("b.safetensors", (uint32_t[]){ 3, 3, cases[i].end },
                      cases[i].end == TOKENIZER_NONE ? 2 : 3);
    }
    /* one that is special anyhow, since it stands before each text */
    shell("rm mute/*config.json");
    make_mute("{\"SpecialToken\": {\"id\": \"[CLS]\", \"type_id\": 0}}, ", "");
    make("mute", "b.txt", "", "b.safetensors");
    expect_tokens("b.safetensors", (uint32_t[]){ 0, 3, 3 }, 3);
    scratch_write("mute/config.json", "{\"eos_token_id\": 0}", 19);
    make("mute", "b.txt", "", "b.safetensors");
    expect_tokens("b.safetensors", (uint32_t[]){ 0, 3, 3, 0 }, 4);
    scratch_write("mute/generation_config.json", "{\"eos_token_id\": \"x\"}", 21);
    assert_true(command_says("tokenize mute --data b.txt --out b.safetensors", 2, "generation_config.json"));
}

static void threads_change_nothing(void **state) {
    (void)state;
    make_model("m", "llama3");
    make_texts("many.jsonl", 9000, 150, 6);
    make("m", "many.jsonl", "--threads 1", "one.safetensors");
    check_texts("m", "many.jsonl", "one.safetensors");
    make("m", "many.jsonl", "--threads 3", "three.safetensors");
    shell("cmp one.safetensors three.safetensors");
    make_texts("long.jsonl", 3, 90000, 8);
    make("m", "long.jsonl", "--threads 1", "long.safetensors");
    check_texts("m", "long.jsonl", "long.safetensors");
    make("m", "long.jsonl", "--threads 4", "again.safetensors");
    shell("cmp long.safetensors again.safetensors");
}

/* What no tokenizer of its kind can cut takes more than was planned: it is planned for then, and refused only
 * where the budget is smaller. */
static void what_can_not_be_cut(void **state) {
    (void)state;
    static const char *const kinds[] = { "albert_bytes", "bert",   "clip",   "deepseek", "gemma", "gpt2",
                                         "llama2_first", "llama2", "prefix", "t5",       "xlmr" };
    static const char *const chinese[] = { "\u96ea", "\u51b7", "\u8aad", "\u6c34" }, *const wide[] = {
        "\ufdfa"
    };
    make_unbroken("snow.jsonl", chinese, 4, 700000);
    make_unbroken("wide.jsonl", wide, 1, 150000);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        make_model("m", kinds[k]);
        for (int i = 0; i < 2; i++) {
            const char *data = i ? "wide.jsonl" : "snow.jsonl";
            shell("rm -f u.safetensors");
            make("m", data, "--threads 2", "u.safetensors");
            check_texts("m", data, "u.safetensors");
        }
    }
    make_model("m", "xlmr");
    make("m", "snow.jsonl", "", "all.safetensors");
    assert_true(command_says("tokenize m --data snow.jsonl --out few.safetensors --memory 10MiB --threads 1 "
                             "--quiet",
                             3, "snow.jsonl, record 3: "));
    assert_true(command_says("tokenize m --data snow.jsonl --out few.safetensors --memory 10MiB --threads 1 "
                             "--quiet",
                             3, "no room for more; making tokens with one thread takes "));
    make("m", "snow.jsonl", "--memory 60MiB", "few.safetensors");
    shell("cmp all.safetensors few.safetensors");
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
    make_model("m", "word_level");
    shell("yes 'the snow is cold' | head -c 20000000 > snow.txt; rm -f snow.safetensors");
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

static void a_pair_is_never_cut(void **state) {
    (void)state;
    make_model("m", "llama3");
    FILE *file = fopen("large.jsonl", "wb");
    for (int i = 0; i < 2; i++) {
        fprintf(file, "{\"prompt\": \"%0*d\", \"completion\": \"", 2000000, i);
        fprintf(file, "%0*d\"}\n", 1500000, i);
    }
    assert_int_equal(fclose(file), 0);
    make("m", "large.jsonl", "--learn all", "large.safetensors");
    make("m", "large.jsonl", "", "masked.safetensors");
    made all, masked;
    read_made("large.safetensors", &all), read_made("masked.safetensors", &masked);
    assert_int_equal(all.documents, 2);
    assert_int_equal(all.count, masked.count);
    assert_memory_equal(all.tokens, masked.tokens, all.count * sizeof *all.tokens);
    free_made(&all), free_made(&masked);
}

static void prompts_are_not_learned(void **state) {
    (void)state;
    checker c = { 0 };
    tokenizer_ids ids;
    const tokenizer_span *spans;
    make_model("m", "gpt2");
    make_pairs("pairs.jsonl", 500, 4);
    make("m", "pairs.jsonl", "", "pairs.safetensors");
    open_checker("m", "pairs.safetensors", &c);
    assert_true(c.made.masks);
    FILE *file = fopen("pairs.jsonl", "rb");
    while (fgets(line, sizeof line, file)) {
        size_t prompt = member(line, "prompt", value),
               bytes = prompt + member(line, "completion", value + prompt);
        size_t learned = 0, count = frame(&c, value, bytes, expected);
        assert_int_equal(tokenizer_encode_spans(c.tokenizer, c.work, (tokenizer_text){ value, bytes }, false,
                                                &ids, &spans),
                         STATUS_OK);
        while (learned < ids.count && spans[learned].end <= prompt) learned++;
        expect_document(&c, expected, count, learned);
    }
    fclose(file);
    close_checker(&c);
    make("m", "pairs.jsonl", "--learn all", "all.safetensors");
    read_made("all.safetensors", &c.made);
    assert_false(c.made.masks);
    free_made(&c.made);
}

/* What stands between <assistant> and the next < is learned, with the mark of its end. */
static void answers_of_chats_are_learned(void **state) {
    (void)state;
    static const char *const names[][3] = { { "messages", "role", "content" },
                                            { "conversations", "from", "value" } };
    make_model("m", "gpt2");
    make_chats("chats.jsonl", 300, names[0], 3);
    make_chats("share.jsonl", 300, names[1], 3);
    make("m", "chats.jsonl", "--threads 2", "chats.safetensors");
    make("m", "share.jsonl", "--columns messages=conversations,role=from,content=value", "share.safetensors");
    made a, b;
    read_made("chats.safetensors", &a);
    read_made("share.safetensors", &b);
    assert_int_equal(a.count, b.count);
    assert_memory_equal(a.tokens, b.tokens, a.count * 4);
    assert_memory_equal(a.learned, b.learned, a.count);
    assert_int_equal(a.documents, 300);
    uint64_t learned = 0;
    for (uint64_t i = 0; i < a.count; i++) learned += a.learned[i];
    assert_true(learned > a.count / 5 && learned < a.count * 3 / 4);
    free_made(&a), free_made(&b);
}

static void one_chat_by_hand(void **state) {
    (void)state;
    static const char chat_line[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"how cold\"}, "
                                    "{\"role\": \"assistant\", \"content\": \"very, so wear a coat\"}]}\n";
    static const char said[] = "<user>how cold</s><assistant>very, so wear a coat</s>";
    checker c = { 0 };
    tokenizer_ids ids;
    const tokenizer_span *spans;
    make_model("m", "gpt2");
    scratch_write("one.jsonl", chat_line, sizeof chat_line - 1);
    make("m", "one.jsonl", "", "chat.safetensors");
    open_checker("m", "chat.safetensors", &c);
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
    close_checker(&c);
}

static void forms_and_folders(void **state) {
    (void)state;
    make_model("m", "gpt2");
    shell(
        "mkdir folder && printf 'snow is cold' > folder/a.txt && printf 'so is ice' > folder/b.txt && printf "
        "'body,n\\nsnow is cold,1\\nso is ice,2\\n' > t.csv && printf '[{\"text\": \"snow is cold\"}, "
        "{\"text\": "
        "\"so is ice\"}]' > t.json && printf 'snow is cold' > c.txt && printf 'so is ice' > d.txt && gzip -k "
        "t.json");
    make("m", "folder", "", "f.safetensors");
    make("m", "t.csv", "--columns text=body", "csv.safetensors");
    make("m", "t.json", "", "json.safetensors");
    make("m", "c.txt --data d.txt", "", "two.safetensors");
    made f;
    read_made("f.safetensors", &f);
    assert_int_equal(f.documents, 2);
    static const char *const same[] = { "csv", "json", "two" };
    for (size_t i = 0; i < 3; i++) {
        char path[64];
        made other;
        snprintf(path, sizeof path, "%s.safetensors", same[i]);
        read_made(path, &other);
        assert_int_equal(other.count, f.count);
        assert_memory_equal(other.tokens, f.tokens, f.count * 4);
        assert_memory_equal(other.ends, f.ends, 16);
        free_made(&other);
    }
    free_made(&f);
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
    shell("mkdir -p bare && printf '\\351t\\351' > latin.txt && : > empty.txt && echo body > empty.csv && "
          "printf '{\"messages\": "
          "[]}\\n' > "
          "none.jsonl");
    make_model("raises", "gpt2");
    scratch_write("raises/chat_template.jinja", "{{ raise_exception('no users here') }}", 38);
    make_model("silent", "gpt2");
    shell("rm silent/chat_template.jinja");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(command_says(cases[i].call, 2, cases[i].says));
        shell("! ls bad.* > list 2>&1");
    }
    assert_true(
        command_says("tokenize m --data folder --out bad.safetensors --memory 1MiB", 3, "--memory is"));
    make("m", "latin.txt", "--replace", "latin.safetensors");
}

static void memory_is_as_planned(void **state) {
    (void)state;
    static const char *const calls[] = {
        "tokenize m --data many.jsonl --out p0.safetensors --json --threads 2",
        "tokenize m --data pairs.jsonl --out p1.safetensors --json --threads 1",
        "tokenize m --data chats.jsonl --out p2.safetensors --json --threads 2",
        "tokenize m --data long.jsonl --out p3.safetensors --json --threads 2",
    };
    make_model("m", "llama3");
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
    make_model("m", "gpt2");
    for (size_t i = 0; i < 8; i++) {
        shell("rm -f j.safetensors");
        first[i] = command_asked(call, same[i]);
    }
    assert_true(first[0] > 1 && first[2] > 0 && first[2] < first[1]);
    for (size_t i = 0; i < 8; i++) assert_int_equal(command_asked(call, same[i]), first[i]);
    assert_int_equal(command_asked(call, "resumed"), first[0]);
    command_result r = command_run(call);
    assert_non_null(strstr(r.out, "\"made\": false"));
    command_free(&r);
    shell("rm j.safetensors");
    r = command_run(call);
    assert_non_null(strstr(r.out, "\"made\": true"));
    command_free(&r);
}

static void one_is_one(void **state) {
    (void)state;
    scratch_write("one.jsonl", "{\"text\": \"b\"}", 13);
    shell("rm -f one.safetensors; rm -f mute/*config.json");
    make_mute("", "");
    assert_true(command_says("tokenize mute --data one.jsonl --out one.safetensors", 0, "Data: 1 text, "));
    shell("rm one.safetensors");
    assert_true(command_says("tokenize mute --data one.jsonl --out one.safetensors", 0,
                             "if every byte were a token\n1 token of 1 document, the longest 1\n"));
}

/* ---- going on ---- */

static int start(const char *call, long at) {
    char all[1024];
    snprintf(all, sizeof all, "KILL_CALL=%ld KILL_COUNT=calls exec %s %s >said 2>&1", at,
             SNUG_BUILD "/snug-killed", call);
    int how = system(all);
    if (WIFSIGNALED(how)) return -1;
    return WEXITSTATUS(how) == 128 + SIGKILL ? -1 : WEXITSTATUS(how);
}

static long calls_made(void) {
    long calls = 0;
    FILE *file = fopen("calls", "r");
    assert_true(file && fscanf(file, "%ld", &calls) == 1);
    fclose(file);
    return calls;
}

static void kills_change_nothing(void **state) {
    (void)state;
    static const char call[] = "tokenize m --data many.jsonl --out k.safetensors --threads 1 --quiet";
    make_model("m", "gpt2");
    make("m", "many.jsonl", "--threads 2", "whole.safetensors");
    assert_int_equal(start(call, -1), 0);
    long calls = calls_made();
    assert_true(calls > 20);
    bool went_on = false;
    for (long at = 0; at < calls; at += at < 12 || at > calls - 16 ? 1 : 5) {
        shell("rm -f k.safetensors*");
        assert_int_equal(start(call, at), -1);
        command_result r = command_run("tokenize m --data many.jsonl --out k.safetensors --threads 3");
        assert_int_equal(r.exit, 0);
        went_on = went_on || command_has_words(r.out, "were there already");
        command_free(&r);
        shell("cmp whole.safetensors k.safetensors");
        if (at < calls - 6) shell("test \"$(ls k.safetensors*)\" = k.safetensors");
    }
    assert_true(went_on);
}

static void a_full_disk_loses_nothing(void **state) {
    (void)state;
    make_model("m", "gpt2");
    shell("rm -f d.safetensors*");
    shell("(ulimit -f 900; exec %s/snug tokenize m --data many.jsonl --out d.safetensors --threads 1 >said "
          "2>&1); "
          "test $? = 1 && grep -q 'cannot write' said && test ! -e d.safetensors",
          SNUG_BUILD);
    make("m", "many.jsonl", "", "d.safetensors");
    shell("cmp whole.safetensors d.safetensors && test \"$(ls d.safetensors*)\" = d.safetensors");
}

static void two_do_not_write_one_file(void **state) {
    (void)state;
    shell("rm -f l.safetensors*; flock l.safetensors.lock sleep 2 &");
    shell("sleep 0.3");
    assert_true(command_says("tokenize m --data t.json --out l.safetensors", 2, "l.safetensors.lock"));
    shell("sleep 2.2");
}

static void an_interrupt_keeps_what_is_there(void **state) {
    (void)state;
    shell("rm -f i.safetensors*; for i in 1 2 3 4 5 6 7 8; do cat many.jsonl; done > lots.jsonl");
    make("m", "lots.jsonl", "", "lots.safetensors");
    pid_t pid =
        command_start("tokenize m --data lots.jsonl --out i.safetensors --threads 1 --quiet", NULL, -1);
    for (int i = 0; i < 500 && access("i.safetensors.progress", F_OK) != 0; i++) usleep(10000);
    kill(pid, SIGINT);
    command_result r = command_wait(pid);
    assert_int_equal(r.exit, STATUS_INTERRUPTED);
    assert_true(command_has_words(r.err, "goes on from there"));
    command_free(&r);
    r = command_run("tokenize m --data lots.jsonl --out i.safetensors");
    assert_int_equal(r.exit, 0);
    assert_true(command_has_words(r.out, "were there already"));
    command_free(&r);
    shell("cmp lots.safetensors i.safetensors");
}

/* ---- trainings ---- */

#define SHORT "--batch 4 --steps 3 --eval-samples 2 --threads 1 --overwrite "

static long changed(const char *path) {
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    return about.st_mtim.tv_sec * 1000000000 + about.st_mtim.tv_nsec;
}

static void trainings_make_their_own(void **state) {
    (void)state;
    make_model("m", "gpt2");
    make("m", "chats.jsonl", "", "by_hand.safetensors");
    shell("rm -rf tuned");
    assert_true(
        command_says("train m --data chats.jsonl --out tuned " SHORT, 0, "300 documents, each by itself"));
    shell("cmp by_hand.safetensors tuned/data/train.safetensors && test -e tuned/tokenizer.json && test -e "
          "tuned/chat_template.jinja");
    long made_at = changed("tuned/data/train.safetensors");
    command_expect(0, "train m --data chats.jsonl --out tuned " SHORT);
    assert_int_equal(changed("tuned/data/train.safetensors"), made_at);
    command_expect(0, "train m --data chats.jsonl --learn all --out tuned " SHORT);
    assert_true(changed("tuned/data/train.safetensors") > made_at);
    made all;
    read_made("tuned/data/train.safetensors", &all);
    assert_false(all.masks);
    free_made(&all);
    /* the same samples from the file that was made by hand */
    command_expect(0, "train m --data chats.jsonl --out tuned " SHORT);
    command_expect(0, "train m --data by_hand.safetensors --out other " SHORT);
    shell("cmp tuned/model.safetensors other/model.safetensors");
    assert_true(
        command_says("train tuned --eval-only --data by_hand.safetensors --eval-samples 4", 0, "loss"));
}

/* `jsonl` is what a file holds, whatever it is called. */
static void the_kind_that_is_said_counts(void **state) {
    (void)state;
    make_texts("few.jsonl", 40, 30, 9);
    shell(
        "cp few.jsonl few.txt; cp few.jsonl few.bin; rm -rf few.made; mkdir -p fews; cp few.jsonl fews/part");
    make("m", "few.jsonl", "", "few.safetensors");
    static const char *const names[] = { "few.txt", "few.bin", "fews" };
    for (size_t i = 0; i < 3; i++) {
        char call[256];
        shell("rm -rf few.made");
        snprintf(call, sizeof call, "train m --data %s --data-kind jsonl --context 32 --out few.made " SHORT,
                 names[i]);
        command_expect(0, call);
        shell("cmp few.safetensors few.made/data/train.safetensors");
    }
    command_expect(2, "train m --data latin.txt --data-kind jsonl --context 32 --out few.made " SHORT);
}

/* Ctrl-C reaches both processes, a batch system's signal the one that it knows: either way both end, it is
 * said, and the same command goes on. */
static void trainings_are_stopped_while_they_make_tokens(void **state) {
    (void)state;
    static const char call[] = "train m --data lots.jsonl --context 32 --out halted --quiet " SHORT;
    static const struct {
        int number;
        bool all; /* processes of the group */
    } signals[] = {
        { SIGINT, true }, { SIGINT, false }, { SIGTERM, false }, { SIGTERM, true }, { SIGUSR1, false }
    };
    make("m", "lots.jsonl", "", "lots.safetensors");
    assert_int_equal(setpgid(0, 0), 0);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        shell("rm -rf halted");
        void (*before)(int) = signal(signals[i].number, SIG_IGN);
        pid_t pid = command_start(call, NULL, -1);
        for (int k = 0; k < 1000 && access("halted/data/train.safetensors.progress", F_OK) != 0; k++)
            usleep(5000);
        assert_int_equal(kill(signals[i].all ? 0 : pid, signals[i].number), 0);
        command_result r = command_wait(pid);
        signal(signals[i].number, before);
        assert_int_equal(r.exit, STATUS_INTERRUPTED);
        assert_true(command_has_words(r.err, "stopped; the same command goes on from there"));
        command_free(&r);
        shell("test -e halted/data/train.safetensors.progress && test ! -e halted/data/train.safetensors && "
              "flock -n halted/data/train.safetensors.lock true");
    }
    assert_true(command_says(call, 0, ""));
    shell("cmp lots.safetensors halted/data/train.safetensors");
}

static void ways_to_pack(void **state) {
    (void)state;
    static const struct {
        const char *rest, *says;
    } cases[] = {
        { "--pack auto", "each by itself and whole" },
        { "--pack pad", "one a sample" },
        { "--pack documents", "each by itself" },
        { "--pack cross", "train" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char call[256];
        snprintf(call, sizeof call, "train m --data by_hand.safetensors --context 96 --out p%zu %s " SHORT, i,
                 cases[i].rest);
        assert_true(command_says(call, 0, cases[i].says));
        snprintf(call, sizeof call, "p%zu/run.json", i);
        json_document d;
        assert_int_equal(json_open(call, &d), STATUS_OK);
        json_close(&d);
    }
    shell("for i in 0 1 2; do ! cmp -s p$i/model.safetensors p$((i+1))/model.safetensors || exit 1; done");
}

static void data_that_changed_are_made_anew(void **state) {
    (void)state;
    make_texts("few.jsonl", 40, 30, 9);
    command_expect(0, "train m --data few.jsonl --context 32 --out fresh " SHORT);
    long made_at = changed("fresh/data/train.safetensors");
    make_texts("few.jsonl", 40, 30, 10);
    command_expect(0, "train m --data few.jsonl --context 32 --out fresh " SHORT);
    assert_true(changed("fresh/data/train.safetensors") > made_at);
    check_texts("m", "few.jsonl", "fresh/data/train.safetensors");
    assert_true(command_says("train m --data latin.txt --out bad " SHORT, 2, "latin.txt"));
    assert_true(command_says("train m --data few.jsonl --eval-only", 2, "--out; name one"));
    command_expect(0, "train m --data few.jsonl --data-kind bytes --context 32 --out bytes " SHORT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_tokenizer),
        cmocka_unit_test(what_stands_around_does_not_depend_on_a_letter),
        cmocka_unit_test(the_end_is_looked_for),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(what_can_not_be_cut),
        cmocka_unit_test(progress_tells_the_readings_apart),
        cmocka_unit_test(a_pair_is_never_cut),
        cmocka_unit_test(prompts_are_not_learned),
        cmocka_unit_test(answers_of_chats_are_learned),
        cmocka_unit_test(one_chat_by_hand),
        cmocka_unit_test(forms_and_folders),
        cmocka_unit_test(what_can_not_be_is_said),
        cmocka_unit_test(memory_is_as_planned),
        cmocka_unit_test(json_is_there_each_time),
        cmocka_unit_test(one_is_one),
        cmocka_unit_test(kills_change_nothing),
        cmocka_unit_test(a_full_disk_loses_nothing),
        cmocka_unit_test(two_do_not_write_one_file),
        cmocka_unit_test(an_interrupt_keeps_what_is_there),
        cmocka_unit_test(trainings_make_their_own),
        cmocka_unit_test(the_kind_that_is_said_counts),
        cmocka_unit_test(trainings_are_stopped_while_they_make_tokens),
        cmocka_unit_test(ways_to_pack),
        cmocka_unit_test(data_that_changed_are_made_anew),
    };
    return cmocka_run_group_tests_name("tokenize", tests, scratch_open, scratch_close);
}
