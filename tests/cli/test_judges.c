/* Heads that judge texts, from the command line: --head, data with labels, accuracy, what is written. */
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
#include "cli/labels_language.h"
#include "io/scratch.h"
#include "sanitized.h" /* what those take is more than any budget here */

#define SHORT "--steps 30 --batch 8 --context 24 --lr 1e-2 --threads 2 --warmup 2 --dropout 0 "

static const char llama[] = "{\"model_type\":\"llama\",\"vocab_size\":256,\"hidden_size\":16,"
                            "\"num_hidden_layers\":1,\"num_attention_heads\":2,\"intermediate_size\":24,"
                            "\"max_position_embeddings\":32}";
static const char bert[] = "{\"model_type\":\"bert\",\"vocab_size\":256,\"hidden_size\":16,"
                           "\"num_hidden_layers\":1,\"num_attention_heads\":2,\"intermediate_size\":24,"
                           "\"max_position_embeddings\":32,\"mask_token_id\":4}";

static void write_text(const char *path, const char *words) { scratch_write(path, words, strlen(words)); }

/* Texts of some lengths whose letters tell their label: 200 records in three forms. Labels of "numbers" are
 * 9, 10 and 100, which bytes would put in another order. */
static void write_data(void) {
    static const char *const names[] = { "plum", "fig", "apple" };
    static const int numbers[] = { 9, 10, 100 };
    FILE *json = fopen("named.jsonl", "w"), *csv = fopen("scores.csv", "w"), *ids = fopen("ids.jsonl", "w");
    fprintf(csv, "said,value\n");
    for (int i = 0; i < 200; i++) {
        int kind = (i * 7 + i / 11) % 3, length = 1 + i * 5 % 30;
        char said[32] = { 0 };
        for (int k = 0; k < length; k++) said[k] = (char)('a' + 8 * kind + (i + k) % 5);
        fprintf(json, "{\"label\": \"%s\", \"text\": \"%s\", \"more\": [1, {\"x\": 2}]}\n", names[kind],
                said);
        fprintf(ids, "{\"text\": \"%s\", \"label\": %d}\n", said, numbers[kind]);
        fprintf(csv, "%s,%g\n", said, kind - 0.5);
    }
    fclose(json);
    fclose(csv);
    fclose(ids);
}

static int open_files(void **state) {
    if (scratch_open(state) != 0) return -1;
    command_make_files();
    write_text("llama.json", llama);
    write_text("bert.json", bert);
    write_data();
    return 0;
}

static double number_of(const char *line, const char *key) {
    double value = -1;
    json_document d;
    command_result r = command_run(line);
    if (r.exit) fail_msg("snug %s: %s", line, r.err);
    assert_int_equal(json_parse("evaluation", r.out, strlen(r.out), &d), STATUS_OK);
    assert_int_equal(json_get_number(command_value(&d, "evaluation"), key, 0, 1e9, &value), STATUS_OK);
    json_close(&d);
    command_free(&r);
    return value;
}

static bool config_has(const char *directory, const char *words) {
    char path[64], said[4096] = { 0 };
    snprintf(path, sizeof path, "%s/config.json", directory);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    size_t n = fread(said, 1, sizeof said - 1, f), to = 0;
    fclose(f);
    for (size_t i = 0; i < n; i++) /* without blanks */
        if (!strchr(" \n", said[i])) said[to++] = said[i];
    said[to] = 0;
    return strstr(said, words) != NULL;
}

/* Both kinds learn what is easy, and say so when they are asked again. */
static void classes_are_learned(void **state) {
    (void)state;
    static const struct {
        const char *model, *class;
    } models[] = { { "llama", "LlamaForSequenceClassification" },
                   { "bert", "BertForSequenceClassification" } };
    for (int i = 0; i < 2; i++) {
        char line[256], out[32];
        snprintf(out, sizeof out, "judge-%s", models[i].model);
        snprintf(line, sizeof line, "train %s.json --head classes --data named.jsonl " SHORT "--out %s",
                 models[i].model, out);
        assert_true(command_says(line, 0, "Classes: 3: 0 'apple', 1 'fig', 2 'plum'"));
        assert_true(config_has(out, "\"id2label\":{\"0\":\"apple\",\"1\":\"fig\",\"2\":\"plum\"}"));
        assert_true(config_has(out, "\"label2id\":{\"apple\":0,\"fig\":1,\"plum\":2}"));
        assert_true(config_has(out, "\"problem_type\":\"single_label_classification\""));
        assert_true(config_has(out, models[i].class));
        snprintf(
            line, sizeof line,
            "train %s --eval-data named.jsonl --eval-only --eval-samples 200 --context 24 --json --quiet",
            out);
        double accuracy = number_of(line, "accuracy");
        if (accuracy < 0.9) fail_msg("%s: accuracy %g", out, accuracy);
    }
    assert_true(command_says("train judge-bert --data named.jsonl --eval-only --context 24", 0, "F1 "));
    assert_true(command_says("generate judge-bert --prompt x", 2, "its head tells classes of texts"));
}

/* What the second text says is all that tells the class; the first one is the same for many, and longer than
 * a sample with some. */
static void write_pairs(void) {
    FILE *file = fopen("pairs.jsonl", "w");
    for (int i = 0; i < 200; i++) {
        fprintf(file, "{\"one\": \"");
        for (int k = 0; k < 1 + i % 40; k++) fprintf(file, "the wind is cold ");
        fprintf(file, "\", \"kind\": \"%s\", \"two\": \"%s\"}\n", i % 3 ? "yes" : "no",
                i % 3 ? "rights" : "born free");
    }
    assert_int_equal(fclose(file), 0);
}

static void two_texts_are_judged_together(void **state) {
    (void)state;
#define COURSE "--steps 100 --batch 8 --context 24 --lr 1e-2 --threads 2 --warmup 2 --dropout 0 "
#define PAIRS "--data pairs.jsonl --text-column one --label-column kind --pair-column two "
    static const char *const kinds[] = { "bert", "roberta", "gpt2" };
    write_pairs();
    for (int i = 0; i < 3; i++) {
        char line[512];
        snprintf(line, sizeof line,
                 "rm -rf two judge-two && mkdir two && cp " SNUG_ROOT "/tests/text/golden/%s.json "
                 "two/tokenizer.json && sed 's/\"vocab_size\":256/\"vocab_size\":600/;s/\"bert\"/\"%s\"/"
                 "%s' %s.json > two/config.json",
                 kinds[i], i == 1 ? "roberta" : "bert", i == 1 ? ";s/,/,\"type_vocab_size\":1,/" : "",
                 i == 2 ? "llama" : "bert");
        command_shell("%s", line);
        command_expect(0, "train two --head classes " PAIRS COURSE "--out judge-two --quiet");
        double accuracy =
            number_of("train judge-two " PAIRS "--eval-only --context 24 --json --quiet", "accuracy");
        if (accuracy < 0.9) fail_msg("%s: accuracy %g", kinds[i], accuracy);
    }
    static const struct {
        const char *line, *says;
    } bad[] = {
        { "train bert.json --head classes --out n " PAIRS, "bytes have nothing to stand between two texts" },
        { "train two --head classes --out n --data pairs.jsonl --text-column one --label-column kind "
          "--pair-column three",
          "the record has no \"three\"" },
        { "train llama.json --out n --data named.jsonl --pair-column two",
          "--pair-column is of data for a head" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_true(command_says(bad[i].line, 2, bad[i].says));
    command_shell("sed 's/\"vocab_size\":256/\"vocab_size\":600/' bert.json > two/config.json");
    static const char *const where[] = { "", "\\[SEP\\]\"," }; /* everywhere, and behind the texts alone */
    for (int i = 0; i < 2; i++) {
        char line[512];
        snprintf(line, sizeof line,
                 "sed 's/\\(%s\"type_id\": *\\)1/\\12/g' %s/tests/text/golden/bert.json > two/tokenizer.json",
                 where[i], SNUG_ROOT);
        command_shell("%s", line);
        assert_true(command_says("train two --head classes --out n " PAIRS, 2,
                                 "gives tokens the type 2, and type_vocab_size is 2"));
    }
#undef PAIRS
#undef COURSE
}

static void labels_of_numbers_are_sorted_as_such(void **state) {
    (void)state;
    command_expect(0, "train llama.json --head classes:3 --data ids.jsonl " SHORT "--out numbers --quiet");
    assert_true(config_has("numbers", "\"id2label\":{\"0\":\"9\",\"1\":\"10\",\"2\":\"100\"}"));
    assert_true(config_has("numbers", "\"pad_token_id\":0"));
}

static void scores_are_learned(void **state) {
    (void)state;
    command_expect(
        0, "train bert.json --head score --data scores.csv --text-column said --label-column value " SHORT
           "--out scores --quiet");
    assert_true(config_has("scores", "\"problem_type\":\"regression\""));
    assert_true(config_has("scores", "\"id2label\":{\"0\":\"LABEL_0\"}"));
    double away =
        number_of("train scores --eval-data scores.csv --eval-only --text-column said --label-column "
                  "value --context 24 --json --quiet",
                  "mean_squared_error");
    if (!(away < 0.3)) fail_msg("mean squared error %g, where the mean alone has 0.67", away);
}

/* A language model gets a head, which alone is new; a head of other classes begins anew. */
static void a_new_head_is_said(void **state) {
    (void)state;
    command_expect(0, "train llama.json --data text --out words --steps 3 --batch 4 --context 24 --quiet");
    assert_true(command_says("train words --head classes --data named.jsonl " SHORT "--out headed", 0,
                             "New weights, which the model has none of: score.weight"));
    assert_true(command_says("train headed --data named.jsonl --context 24 --out again --lr 1e-9 --steps 1",
                             0, "accuracy"));
    assert_true(command_says("train headed --head score --data scores.csv --text-column said --label-column "
                             "value " SHORT "--out other",
                             0, "New weights, which the model has none of: score.weight"));
    assert_true(
        command_says("train words --head classes --data named.jsonl --eval-only", 2, "has no such head"));
    assert_true(command_says("train headed --data ids.jsonl " SHORT "--out o", 2,
                             "ids.jsonl, record 1: the label '9' is none of the 3"));
}

static void another_head_is_another_run(void **state) {
    (void)state;
    command_expect(0,
                   "train llama.json --head classes --data named.jsonl " SHORT "--save-every 10 --out went "
                   "--quiet");
    assert_true(command_says("train llama.json --head classes --data named.jsonl " SHORT
                             "--save-every 10 --out went --resume --pack cross",
                             0, "resuming"));
    assert_int_equal(system("grep -q '\"pack\": *\"cross\"' went/checkpoint-*/trainer_state.json"), 0);
    assert_true(command_says("train llama.json --head score --data scores.csv --text-column said "
                             "--label-column value " SHORT "--out went --resume",
                             2, "head was classes:3 and is score"));
}

static void what_makes_no_sense_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *rest, *says;
    } cases[] = { { "--head maybe --data named.jsonl", "'maybe' is no head" },
                  { "--head classes:1 --data named.jsonl", "--head classes:N" },
                  { "--head classes:5 --data named.jsonl", "has 3 labels; say classes:3" },
                  { "--head score --data named.jsonl",
                    "named.jsonl, record 1: the label 'plum' is no number" },
                  { "--head score --data text", "a head wants records with a label each" },
                  { "--head classes --data named.jsonl --label-column none", "has no \"none\"" },
                  { "--head classes --data one.jsonl", "'label' says 1 label" },
                  { "--head classes --data none.jsonl", "\"label\" is neither a string nor a number" },
                  { "--head classes --data empty.jsonl", "empty.jsonl, record 2: the text has no token" },
                  { "--head classes --data named.jsonl --data-kind u16", "--data-kind u16 is of tokens" },
                  { "--head classes --data named.jsonl --pack documents", "--pack documents: a head" },
                  { "--head classes --data named.jsonl --pack whole", "--pack whole: a head" },
                  { "--head classes --data named.jsonl --pack pad", "--pack pad: a head" },
                  { "--head classes --data named.jsonl --lora rank=2", "brings none" },
                  { "--data text --label-column x", "--label-column is of data for a head" } };
    write_text("one.jsonl", "{\"text\": \"a\", \"label\": \"x\"}\n{\"text\": \"b\", \"label\": \"x\"}\n");
    write_text("none.jsonl", "{\"text\": \"a\", \"label\": null}\n");
    write_text("empty.jsonl", "{\"text\": \"a\", \"label\": \"x\"}\n{\"text\": \"\", \"label\": \"y\"}\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[256];
        snprintf(line, sizeof line, "train llama.json %s " SHORT "--out never", cases[i].rest);
        assert_true(command_says(line, 2, cases[i].says));
    }
    assert_int_not_equal(system("test -e never"), 0);
    assert_true(command_says("plan llama.json --head classes", 2, "say how many"));
    assert_true(command_says("plan char-small --head classes:3", 0, "peak"));
    assert_true(command_says("plan vit-base --head classes:3", 0, "peak")); /* of pictures */
    assert_true(
        command_says("plan vit-base --head score", 2, "vit-base sees images, and its head tells classes"));
}

/* What is planned for texts in memory is in the plan, and a budget below is refused. */
static void texts_are_planned_for(void **state) {
    (void)state;
    FILE *f = fopen("many.jsonl", "w");
    for (int i = 0; i < 60000; i++) fprintf(f, "{\"text\": \"%024d\", \"label\": %d}\n", i, i % 2);
    fclose(f);
    assert_true(command_says(
        "train llama.json --head classes --data many.jsonl " SHORT "--memory 4MiB --out never", 3, "fit"));
    command_result r = command_run("train llama.json --head classes --data many.jsonl " SHORT
                                   "--eval-samples 8 --out many --json --quiet");
    json_document d;
    assert_int_equal(r.exit, 0);
    assert_int_equal(json_parse("run", r.out, strlen(r.out), &d), STATUS_OK);
    assert_true(r.resident_peak <= command_number(&d, "predicted.peak_bytes"));
    json_close(&d);
    command_free(&r);
}

/* After the records were read: what they come to is said, and they are given back once. */
static void what_records_come_to_is_refused(void **state) {
    (void)state;
    static const char *const nothing = "nothing validates, since every tenth record does";
    FILE *f = fopen("five.jsonl", "w");
    for (int i = 0; i < 5; i++) fprintf(f, "{\"text\": \"%d\", \"label\": \"%c\"}\n", i, 'a' + i % 2);
    fclose(f);
    f = fopen("list.jsonl", "w");
    for (int i = 0; i < 40000; i++) fprintf(f, "{\"text\": \"%016d\", \"label\": %d}\n", i, i % 2);
    fclose(f);
    command_expect(0, "train llama.json --head classes:2 --data five.jsonl --steps 2 --batch 2 --context 24 "
                      "--out five --quiet");
    assert_true(
        command_says("train five --eval-only --data five.jsonl", 2, "five.jsonl has fewer than ten records"));
    assert_true(
        command_says("plan five --eval-only --data five.jsonl", 2, "five.jsonl has fewer than ten records"));
    assert_true(command_says("train llama.json --head classes --data five.jsonl " SHORT
                             "--eval-every 1 --keep-best --out never",
                             2, nothing));
    assert_true(command_says("train llama.json --head classes --data five.jsonl " SHORT
                             "--eval-every 1 --patience 2 --out never",
                             2, nothing));
    if (SANITIZED) return;
    assert_true(command_says("plan llama.json --head classes --data list.jsonl --context 24 --threads 8 "
                             "--memory 16MiB",
                             3, "reading the model and its data does not fit"));
    /* what validates has the rest of the memory and not all of it again */
    assert_true(command_says("plan llama.json --head classes --data list.jsonl --eval-data list.jsonl "
                             "--context 24 --threads 1 --memory 18MiB",
                             3, "reading texts with labels may take 4."));
}

/* What stands around a text is known whatever the tokenizer makes of a letter, and its own length of samples
 * is not taken: they are as long as --context. */
static void tokenizers_frame_texts(void **state) {
    (void)state;
    static const char json[] =
        "{\"version\": \"1.0\", \"truncation\": {\"direction\": \"Right\", \"max_length\": 4, \"strategy\": "
        "\"LongestFirst\", \"stride\": 0}, \"padding\": {\"strategy\": {\"Fixed\": 6}, \"direction\": "
        "\"Right\", "
        "\"pad_to_multiple_of\": null, \"pad_id\": 0, \"pad_type_id\": 0, \"pad_token\": \"[CLS]\"}, "
        "\"added_tokens\": [], \"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, "
        "\"content\": \"\"}, \"pre_tokenizer\": {\"type\": \"WhitespaceSplit\"}, \"decoder\": null, "
        "\"post_processor\": {\"type\": \"BertProcessing\", \"sep\": [\"[SEP]\", 1], \"cls\": [\"[CLS]\", "
        "0]}, "
        "\"model\": {\"type\": \"WordLevel\", \"vocab\": {\"[CLS]\": 0, \"[SEP]\": 1, \"b\": 2}, "
        "\"unk_token\": \"[CLS]\"}}";
    static const uint32_t expected[] = { 0, 2, 2, 2, 2, 1 };
    static char many[20000];
    labelled_tokens t = { 0 };
    const uint32_t *ids;
    uint64_t count;
    void *words;
    for (size_t i = 0; i < sizeof many; i++) many[i] = "b "[i % 2];
    assert_int_equal(system("mkdir framed"), 0);
    scratch_write("framed/tokenizer.json", json, sizeof json - 1);
    if (labels_language.open("framed", NULL, &words, &t) != STATUS_OK) fail_msg("%s", status_message());
    assert_true(t.before == 1 && t.behind == 1);
    assert_int_equal(t.encode(t.context, "b b a b b", 9, &ids, &count), STATUS_OK);
    assert_int_equal(count, 6);
    assert_memory_equal(ids, expected, sizeof expected);
    assert_int_equal(t.encode(t.context, "a", 1, &ids, &count), STATUS_OK);
    assert_int_equal(count, 2);
    t.limit(t.context, t.held(t.context)); /* and from now on no more */
    assert_int_equal(t.encode(t.context, many, sizeof many, &ids, &count), STATUS_NO_FIT);
    t.limit(t.context, t.held(t.context) + (1 << 20));
    assert_int_equal(t.encode(t.context, many, sizeof many, &ids, &count), STATUS_OK);
    assert_int_equal(count, sizeof many / 2 + 2);
    labels_language.close(words);
}

/* A text that is longer than the memory: of bytes no more is kept than a sample has, and a tokenizer wants
 * all of it. */
static void long_texts_stay_within_memory(void **state) {
    (void)state;
    static const char rest[] =
        "--head classes --data long.jsonl --steps 1 --batch 1 --context 24 --threads 1 "
        "--eval-samples 1 --memory 50MiB --quiet --overwrite --out long";
    static const char *const models[] = { "llama.json", "framed" };
    enum { LETTERS = 52 << 20, MEMORY = 50 << 20 };
    if (SANITIZED) skip();
    FILE *f = fopen("long.jsonl", "w");
    for (int i = 0; i < 11; i++) {
        fprintf(f, "{\"label\": %d, \"text\": \"", i % 2);
        for (int k = 0; k < (i == 7 ? LETTERS : 2); k += 2) fputs("b ", f);
        fprintf(f, "\"}\n");
    }
    fclose(f);
    write_text("framed/config.json", llama);
    for (int i = 0; i < 2; i++) {
        char line[256];
        snprintf(line, sizeof line, "train %s %s", models[i], rest);
        command_result r = command_run(line);
        if (r.exit != (i ? 3 : 0)) fail_msg("snug %s: exit %d: %s", line, r.exit, r.err);
        if (i && !command_has_words(r.err, "long.jsonl, record 8: its text doesn't fit"))
            fail_msg("snug %s: %s", line, r.err);
        assert_true(r.resident_peak <= MEMORY);
        command_free(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(classes_are_learned),
                                        cmocka_unit_test(two_texts_are_judged_together),
                                        cmocka_unit_test(labels_of_numbers_are_sorted_as_such),
                                        cmocka_unit_test(scores_are_learned),
                                        cmocka_unit_test(a_new_head_is_said),
                                        cmocka_unit_test(another_head_is_another_run),
                                        cmocka_unit_test(what_makes_no_sense_is_refused),
                                        cmocka_unit_test(texts_are_planned_for),
                                        cmocka_unit_test(what_records_come_to_is_refused),
                                        cmocka_unit_test(tokenizers_frame_texts),
                                        cmocka_unit_test(long_texts_stay_within_memory) };
    return cmocka_run_group_tests_name("judges", tests, open_files, scratch_close);
}
