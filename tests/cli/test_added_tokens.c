/* --add-token: the tokenizer's files have the token and are otherwise what they were; tables of the
 * vocabulary have a row more, the mean of the others; plans count it; and what can't be is refused. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "cli/command.h"
#include "io/safetensors.h"
#include "io/scratch.h"
#include "language/tokenizer_of.h"

static void put(const char *path, const char *words) { scratch_write(path, words, strlen(words)); }

static void run(int code, const char *format, ...) {
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    command_expect(code, line);
}

/* ---- models ---- */

/* Words, a list of added tokens, and what stands in front of the model and behind it. */
#define TOKENIZER(before, behind)                                                                            \
    "{" before "\"pre_tokenizer\": {\"type\": \"WhitespaceSplit\"}, "                                        \
    "\"model\": {\"type\": \"WordLevel\", \"vocab\": {\"[U]\": 0, \"the\": 1, \"fox\": 2, \"saw\": 3, "      \
    "\"sea\": 4, \"and\": 5, \"[E]\": 6}, \"unk_token\": \"[U]\"}" behind "}"
#define ENTRY(id, content)                                                                                   \
    "{\"id\": " #id ", \"content\": \"" content "\", \"single_word\": false, \"lstrip\": false, "            \
    "\"rstrip\": false, \"normalized\": false, \"special\": true}"
#define LISTED ", \"added_tokens\": [" ENTRY(6, "[E]") "]"

enum { WORDS = 7, WIDTH = 16 };

static const char DECODER[] =
    "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 16, "
    "\"intermediate_size\": 32, \"num_hidden_layers\": 1, \"num_attention_heads\": 2, "
    "\"max_position_embeddings\": 64, \"vocab_size\": %d, \"tie_word_embeddings\": %s}";
static const char ENCODER[] =
    "{\"model_type\": \"bert\", \"architectures\": [\"BertForMaskedLM\"], \"hidden_size\": 16, "
    "\"intermediate_size\": 32, \"num_hidden_layers\": 1, \"num_attention_heads\": 2, "
    "\"max_position_embeddings\": 64, \"vocab_size\": %d, \"mask_token_id\": 5}";

#define COURSE " --data text.jsonl --context 16 --batch 4 --quiet "
#define STILL COURSE "--lr 0 --schedule constant --warmup 0 --weight-decay 0 --steps 1 "

/* Weights that differ from row to row. */
static void make_model(const char *name, const char *format, int size, const char *tied) {
    char config[600], path[64];
    command_shell("rm -rf made %s && mkdir made", name);
    snprintf(config, sizeof config, format, size, tied);
    put("made/config.json", config);
    put("made/tokenizer.json", TOKENIZER("", LISTED));
    run(0, "train made" COURSE "--lr 1e-2 --steps 12 --out %s", name);
    command_shell("rm -r %s/data", name);
    snprintf(path, sizeof path, "%s/tokenizer_config.json", name);
    put(path,
        "{\"eos_token\": \"[E]\",\n \"added_tokens_decoder\": {\"6\": {\"content\": \"[E]\"}}, \"x\": 1}");
}

static int make_models(void **state) {
    if (scratch_open(state) != 0) return -1;
    FILE *file = fopen("text.jsonl", "w");
    static const char *const words[] = { "the", "fox", "saw", "sea", "and", "<a>", "<b>" };
    uint64_t seed = 1;
    for (int i = 0; i < 60; i++) {
        fprintf(file, "{\"text\": \"the");
        for (int k = 0; k < 20; k++) fprintf(file, " %s", words[scratch_random(&seed) % 7]);
        fprintf(file, "\"}\n");
    }
    fclose(file);
    make_model("llama", DECODER, WORDS, "false");
    make_model("tied", DECODER, WORDS, "true");
    make_model("padded", DECODER, 12, "false");
    make_model("bert", ENCODER, WORDS, "");
    return 0;
}

/* ---- what was written ---- */

/* A tensor of F32; free it. */
static float *tensor(const char *folder, const char *name, int64_t *rows, int64_t *columns) {
    safetensors s;
    if (safetensors_open(folder, &s) != STATUS_OK) fail_msg("%s", status_message());
    const safetensors_entry *e = safetensors_find(&s, name);
    if (!e) fail_msg("%s has no %s", folder, name);
    float *x = malloc(e->bytes);
    *rows = e->dim[0], *columns = e->rank > 1 ? e->dim[1] : 1;
    assert_int_equal(safetensors_read_bytes(&s, e, 0, x, e->bytes), STATUS_OK);
    safetensors_close(&s);
    return x;
}

/* The old rows bit for bit, and `more` behind them that are their mean. */
static void expect_grown(const char *from, const char *to, const char *name, int64_t more) {
    int64_t had, has, columns, width;
    float *old = tensor(from, name, &had, &columns), *now = tensor(to, name, &has, &width);
    assert_int_equal(has, had + more);
    assert_int_equal(width, columns);
    assert_memory_equal(now, old, (size_t)(had * columns) * sizeof *old);
    for (int64_t c = 0; c < columns; c++) {
        double sum = 0;
        for (int64_t r = 0; r < had; r++) sum += (double)old[r * columns + c];
        float mean = (float)(sum / (double)had);
        for (int64_t r = had; r < has; r++) assert_memory_equal(&now[r * columns + c], &mean, sizeof mean);
    }
    free(old), free(now);
}

static char *file_of(const char *path) {
    FILE *file = fopen(path, "rb");
    static char content[8][1 << 16];
    static int next;
    char *out = content[next++ % 8];
    if (!file) fail_msg("there is no %s", path);
    out[fread(out, 1, (1 << 16) - 1, file)] = 0;
    fclose(file);
    return out;
}

/* Is `now` what was there with something put into it at one place? Returns it. */
static const char *put_into(const char *was, const char *now) {
    static char between[1 << 16];
    size_t first = 0, n = strlen(was), m = strlen(now), last = 0;
    while (first < n && was[first] == now[first]) first++;
    while (last < n - first && was[n - 1 - last] == now[m - 1 - last]) last++;
    if (first + last != n) fail_msg("more has changed: %s", now);
    snprintf(between, sizeof between, "%.*s", (int)(m - n), now + first);
    return between;
}

static uint32_t id_of(const char *folder, const char *token, bool *special) {
    tokenizer *t;
    bool there;
    if (tokenizer_of_open(folder, &t, &there) != STATUS_OK) fail_msg("%s", status_message());
    uint32_t id = tokenizer_id(t, token, strlen(token));
    *special = id != TOKENIZER_NONE && tokenizer_is_special(t, id);
    tokenizer_close(t);
    return id;
}

static void expect_token(const char *folder, const char *token, uint32_t id) {
    bool special;
    assert_int_equal(id_of(folder, token, &special), id);
    assert_true(special);
}

/* ---- what it does ---- */

static void new_rows_are_the_mean_of_the_others(void **state) {
    (void)state;
    static const struct {
        const char *model, *tables[3];
    } cases[] = { { "llama", { "model.embed_tokens.weight", "lm_head.weight" } },
                  { "tied", { "model.embed_tokens.weight" } },
                  { "bert", { "bert.embeddings.word_embeddings.weight", "cls.predictions.bias" } } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run(0, "train %s" STILL "--add-token <a> --add-token <b> --out o --overwrite", cases[i].model);
        for (int t = 0; t < 3 && cases[i].tables[t]; t++)
            expect_grown(cases[i].model, "o", cases[i].tables[t], 2);
        expect_grown(cases[i].model, "o",
                     i == 2 ? "bert.embeddings.position_embeddings.weight" : "model.norm.weight", 0);
        expect_token("o", "<a>", WORDS);
        expect_token("o", "<b>", WORDS + 1);
        assert_non_null(strstr(file_of("o/config.json"), "\"vocab_size\": 9"));
    }
}

static void files_keep_everything_else(void **state) {
    (void)state;
    run(0, "train llama" STILL "--add-token <a> --out o --overwrite --save-every 1");
    static const char *const folders[] = { "o", "o/checkpoint-1" };
    for (int i = 0; i < 2; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s/tokenizer.json", folders[i]);
        assert_non_null(strstr(put_into(file_of("llama/tokenizer.json"), file_of(path)), "\"<a>\""));
        snprintf(path, sizeof path, "%s/tokenizer_config.json", folders[i]);
        const char *more = put_into(file_of("llama/tokenizer_config.json"), file_of(path));
        assert_non_null(strstr(more, "\"7\": {"));
        assert_non_null(strstr(more, "\"special\": true"));
    }
}

static void a_padded_table_has_room(void **state) {
    (void)state;
    run(0, "train padded" STILL "--add-token <a> --add-token <b> --out o --overwrite");
    expect_grown("padded", "o", "model.embed_tokens.weight", 0);
    expect_token("o", "<b>", WORDS + 1);
    /* and where it is not enough */
    run(0, "train padded" STILL "--add-token 1 --add-token 2 --add-token 3 --add-token 4 --add-token 5 "
           "--add-token 6 --out o --overwrite");
    expect_grown("padded", "o", "model.embed_tokens.weight", 1);
    expect_token("o", "6", 12);
}

static void what_is_there_is_taken(void **state) {
    (void)state;
    /* [E] is an added token, "fox" a word; <a> is said twice. */
    json_document d;
    command_result r = command_run(
        "plan llama --context 16 --json --add-token [E] --add-token <a> --add-token fox --add-token <a>");
    assert_int_equal(r.exit, 0);
    assert_true(command_has_words(r.err, "'[E]' is there already, as token 6"));
    assert_true(command_has_words(r.err, "'fox' is a word of the vocabulary"));
    assert_true(command_has_words(r.err, "'<a>' is added as token 7"));
    assert_true(command_has_words(r.err, "note: the vocabulary grows from 7 to 8; new rows begin as the"));
    assert_int_equal(json_parse("plan", r.out, strlen(r.out), &d), STATUS_OK);
    assert_int_equal(command_number(&d, "vocabulary"), WORDS + 1);
    json_value list = command_value(&d, "added_tokens");
    size_t listed;
    assert_int_equal(json_as_array(list, &listed), STATUS_OK);
    assert_int_equal(listed, 3);
    const char *state_of;
    static const char *const states[] = { "there", "new", "word" };
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(json_get_string(json_item(list, i), "state", &state_of), STATUS_OK);
        assert_string_equal(state_of, states[i]);
    }
    json_close(&d);
    command_free(&r);
    r = command_run("plan llama --context 16 --json --add-token [E] --add-token fox");
    assert_int_equal(r.exit, 0);
    assert_false(command_has_words(r.err, "the vocabulary grows"));
    command_free(&r);
    run(0, "train llama" STILL "--add-token [E] --add-token fox --out o --overwrite");
    expect_grown("llama", "o", "model.embed_tokens.weight", 0);
    expect_token("o", "fox", 2);
    expect_token("o", "[E]", 6);
    run(0, "train llama" STILL "--add-token [E] --lora rank=2 --out o2");
}

static void the_plan_counts_them(void **state) {
    (void)state;
    static const char weights[] = "predicted.by_category.weights";
    uint64_t before = command_asked("plan llama --context 16 --json --quiet", weights);
    uint64_t behind =
        command_asked("plan llama --context 16 --json --quiet --add-token <a> --add-token <b>", weights);
    assert_int_equal(behind - before, 2 * 2 * WIDTH * sizeof(float));
}

/* What the process takes is within the least budget that is named. */
static void a_run_keeps_to_its_budget(void **state) {
    (void)state;
    static const char course[] =
        "llama --data made.safetensors --context 16 --batch 4 --steps 1 --add-token <a>";
    char line[512];
    command_shell("rm -rf o");
    run(0, "tokenize llama --data text.jsonl --add-token <a> --out made.safetensors --quiet");
    snprintf(line, sizeof line, "plan %s --json", course);
    uint64_t least = command_least_budget(line);
    snprintf(line, sizeof line, "train %s --quiet --out o --memory %llu", course, (unsigned long long)least);
    command_result r = command_run(line);
    if (r.exit != 0) fail_msg("%s", r.err);
    assert_true(r.resident_peak <= least);
    command_free(&r);
    expect_token("o", "<a>", WORDS);
}

/* Tokens are those of the tokenizer that is written. */
static void tokenize_knows_them(void **state) {
    (void)state;
    run(0, "tokenize llama --data text.jsonl --add-token <a> --add-token <b> --out here.safetensors --quiet");
    run(0, "train llama" STILL "--add-token <a> --add-token <b> --out o --overwrite");
    run(0, "tokenize o --data text.jsonl --out there.safetensors --quiet");
    run(0, "tokenize llama --data text.jsonl --out without.safetensors --quiet");
    int64_t n, m, one;
    float *x = tensor("here.safetensors", "tokens", &n, &one),
          *y = tensor("there.safetensors", "tokens", &m, &one),
          *z = tensor("without.safetensors", "tokens", &m, &one),
          *w = tensor("o/data/train.safetensors", "tokens", &m, &one);
    bool same = memcmp(x, z, (size_t)m * 2) == 0, seen = false;
    assert_int_equal(n, m);
    assert_memory_equal(x, y, (size_t)n * 2);
    assert_memory_equal(x, w, (size_t)n * 2);
    for (int64_t i = 0; i < n; i++) seen |= ((uint16_t *)(void *)x)[i] == WORDS + 1;
    assert_true(seen && !same);
    free(x), free(y), free(z), free(w);
    /* a training takes the file where it knows the tokens, and not without */
    run(0, "train llama --data here.safetensors --context 16 --batch 4 --steps 1 --quiet --out o3 "
           "--add-token <a> "
           "--add-token <b>");
    assert_true(command_says("train llama --data here.safetensors --context 16 --batch 4 --steps 1 --out o4",
                             2, "but the vocabulary has 7 ids"));
}

static void judges_know_them(void **state) {
    (void)state;
    FILE *file = fopen("labels.jsonl", "w");
    for (int i = 0; i < 40; i++)
        fprintf(file, "{\"text\": \"the %s sea\", \"label\": \"%c\"}\n", i / 2 % 2 ? "<a>" : "<b>",
                i / 2 % 2 ? 'x' : 'y');
    fclose(file);
    /* what tells the classes is nothing but the tokens: without them both are unknown words */
    command_result r = command_run("train bert --head classes --data labels.jsonl --eval-data labels.jsonl "
                                   "--context 8 --batch 8 --steps 60 "
                                   "--lr 1e-2 --add-token <a> --add-token <b> --out judge");
    if (r.exit != 0 || !command_has_words(r.out, "accuracy 100.00 %")) fail_msg("%s%s", r.out, r.err);
    command_free(&r);
    r = command_run("train bert --head classes --data labels.jsonl --eval-data labels.jsonl --context 8 "
                    "--batch 8 --steps 60 --lr 1e-2 "
                    "--out judge2");
    assert_true(command_has_words(r.out, "accuracy 50.00 %"));
    command_free(&r);
}

/* Lists of every form, and the files beside it. */
static void every_form_of_the_files_is_taken(void **state) {
    (void)state;
    static const char unigram[] = "{\"model\": {\"type\": \"Unigram\", \"unk_id\": 0, \"vocab\": [[\"[U]\", "
                                  "0], [\"the\", -1.5], [\"fox\", -2]]}}";
    static const struct {
        const char *tokenizer;
        uint32_t id;
    } forms[] = { { TOKENIZER("", ""), WORDS },
                  { TOKENIZER("", ", \"added_tokens\": null"), WORDS },
                  { TOKENIZER("", ", \"added_tokens\": [ ]"), WORDS },
                  { TOKENIZER("\"added_tokens\": [" ENTRY(7, "\\\"\\u0061") " ], ", ""), WORDS + 1 },
                  { unigram, 3 } };
    command_shell("rm -rf form && cp -r llama form && rm form/tokenizer_config.json form/model.safetensors");
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        put("form/tokenizer.json", forms[i].tokenizer);
        run(0, "train form" STILL "--add-token <\"\\é> --out o --overwrite");
        expect_token("o", "<\"\\é>", forms[i].id);
        put_into(strcmp(forms[i].tokenizer + strlen(forms[i].tokenizer) - 6, " null}") == 0
                     ? ""
                     : forms[i].tokenizer,
                 file_of("o/tokenizer.json"));
    }
    put("form/tokenizer.json", TOKENIZER("", LISTED));
    put("form/tokenizer_config.json", "{\"added_tokens_decoder\": {}}");
    put("form/added_tokens.json", "{\"[E]\": 6}");
    run(0, "train form" STILL "--add-token <a> --add-token <b> --out o --overwrite");
    put_into(file_of("form/tokenizer_config.json"), file_of("o/tokenizer_config.json"));
    const char *more = put_into(file_of("form/added_tokens.json"), file_of("o/added_tokens.json"));
    assert_string_equal(more, ",\n  \"<a>\": 7,\n  \"<b>\": 8");
    /* what one of them knows already is not put there twice */
    put("form/tokenizer_config.json", "{\"added_tokens_decoder\": {\"7\": {\"content\": \"<a>\"}}}");
    run(0, "train form" STILL "--add-token <a> --out o --overwrite");
    assert_string_equal(file_of("form/tokenizer_config.json"), file_of("o/tokenizer_config.json"));
}

/* ---- going on ---- */

static void a_resumed_run_is_the_same(void **state) {
    (void)state;
    static const char line[] = COURSE "--steps 6 --save-every 2 --keep 9 --schedule constant ";
    static const char *const models[] = { "llama", "padded" };
    for (int i = 0; i < 2; i++) {
        command_shell("rm -rf whole cut");
        run(0, "train %s%s--add-token <a> --out whole --threads 1", models[i], line);
        command_shell("cp -r whole cut && rm -r cut/checkpoint-4 cut/checkpoint-6 cut/*.safetensors "
                      "cut/tokenizer.json");
        run(0, "train %s%s--add-token <a> --out cut --resume --threads 2", models[i], line);
        command_shell("cmp whole/model.safetensors cut/model.safetensors && cmp whole/tokenizer.json "
                      "cut/tokenizer.json");
        char without[300], other[300];
        snprintf(without, sizeof without, "train %s%s--out cut --resume", models[i], line);
        snprintf(other, sizeof other, "train %s%s--out cut --resume --add-token <b>", models[i], line);
        assert_true(command_says(without, 2, "and is absent; resume with the same model"));
        assert_true(command_says(other, 2, "added_tokens was"));
        /* one that is there is no other run */
        run(0, "train %s%s--add-token <a> --add-token [E] --out cut --resume", models[i], line);
    }
}

/* ---- what is refused ---- */

static void expect_refusal(const char *says, const char *format, ...) {
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (!command_says(line, 2, says)) fail_msg("%s", line);
}

static void what_can_not_be_is_refused(void **state) {
    (void)state;
    char long_one[300] = "";
    memset(long_one, 'x', 256);
    expect_refusal("is not UTF-8", "train llama" STILL "--out o5 --add-token \xc3");
    expect_refusal("has 256 bytes", "train llama" STILL "--out o5 --add-token %s", long_one);
    expect_refusal("an adapter leaves the embedding as it is",
                   "train llama" STILL "--out o5 --add-token <a> --lora rank=2");
    expect_refusal("an adapter leaves the embedding as it is",
                   "train padded" STILL "--out o5 --add-token fox --lora rank=2");
    expect_refusal("--eval-only trains nothing",
                   "train llama --data made.safetensors --add-token <a> --eval-only");
    expect_refusal("with --data-kind bytes none is used",
                   "train llama" STILL "--out o5 --add-token <a> --data-kind bytes");
    expect_refusal("is the model's own folder",
                   "train llama --data made.safetensors --steps 1 --out llama --overwrite --add-token <a>");
    expect_refusal("is no model directory with a tokenizer.json", "plan gpt2 --add-token <a>");
    expect_refusal("is no model directory with a tokenizer.json", "plan llama/config.json --add-token <a>");
    command_shell("rm -rf other && cp -r llama other");
    put("other/tokenizer_config.json", "{\"added_tokens_decoder\": {\"7\": {\"content\": \"<x>\"}}}");
    expect_refusal("gives the id 7 to a token that", "plan other --add-token <a>");
    put("other/tokenizer_config.json", "{\"added_tokens_decoder\": {\"9\": {\"content\": \"<x>\"}}}");
    expect_refusal("gives the token '<x>' the id 9", "plan other --add-token <b> --add-token <x>");
    put("other/tokenizer_config.json", "{\"added_tokens_decoder\": {\"seven\": {}}}");
    expect_refusal("is no id", "plan other --add-token <a>");
    put("other/tokenizer.json", "{\"model\": {\"vocab\": {\"a\" 0}}}");
    expect_refusal("other/tokenizer.json: the tokenizer is wrong at byte", "plan other --add-token <a>");
    run(0, "quantize llama --to int8 --out codes --quiet");
    expect_refusal("to which no rows of new tokens can be added",
                   "train codes" STILL "--out o5 --precision int8 --add-token <a>");
}

/* Products on 8 bits hold the head as codes: its new row is one of them. */
static void codes_are_made_of_new_rows_too(void **state) {
    (void)state;
    run(0, "train llama" STILL "--add-token <a> --precision int8 --out o --overwrite");
    int64_t had, has, columns, one;
    safetensors s;
    float *old = tensor("llama", "lm_head.weight", &had, &columns),
          *scale = tensor("o", "lm_head.weight_scale", &has, &one);
    assert_int_equal(safetensors_open("o", &s), STATUS_OK);
    const safetensors_entry *e = safetensors_find(&s, "lm_head.weight");
    int8_t codes[(WORDS + 1) * WIDTH];
    assert_int_equal(e->bytes, sizeof codes);
    assert_int_equal(safetensors_read_bytes(&s, e, 0, codes, sizeof codes), STATUS_OK);
    safetensors_close(&s);
    assert_int_equal(has, WORDS + 1);
    for (int64_t c = 0; c < columns; c++) {
        double sum = 0;
        for (int64_t r = 0; r < had; r++) sum += (double)old[r * columns + c];
        double apart = sum / (double)had - (double)codes[had * columns + c] * (double)scale[had];
        if (apart < 0) apart = -apart;
        assert_true(apart <= 0.51 * (double)scale[had]);
    }
    free(old), free(scale);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(new_rows_are_the_mean_of_the_others),
        cmocka_unit_test(files_keep_everything_else),
        cmocka_unit_test(a_padded_table_has_room),
        cmocka_unit_test(what_is_there_is_taken),
        cmocka_unit_test(the_plan_counts_them),
        cmocka_unit_test(a_run_keeps_to_its_budget),
        cmocka_unit_test(tokenize_knows_them),
        cmocka_unit_test(judges_know_them),
        cmocka_unit_test(every_form_of_the_files_is_taken),
        cmocka_unit_test(a_resumed_run_is_the_same),
        cmocka_unit_test(what_can_not_be_is_refused),
        cmocka_unit_test(codes_are_made_of_new_rows_too),
    };
    return cmocka_run_group_tests(tests, make_models, scratch_close);
}
