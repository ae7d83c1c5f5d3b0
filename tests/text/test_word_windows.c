/* Long documents without blanks, in which words are longer than windows: WordPiece, WordLevel and Unigram,
 * window by window beside the whole text. */
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

#include "io/file.h"
#include "io/json_file.h"
#include "io/scratch.h"
#include "sanitized.h"
#include "text/in_windows.h"
#include "text/tokenizer/tokenizer.h"

enum { TEXT = 40000, JSON = 64 << 10 };

/* ---- windows ---- */

/* How much of the text was used before the last window. */
static size_t compare(const tokenizer *t, tokenizer_work *w, const char *text, size_t bytes, uint32_t step,
                      uint64_t *random) {
    return in_windows(t, w, &(in_windows_options){ { text, bytes }, 1, step }, random).bytes;
}

static size_t make_text(const char *const *words, uint32_t count, size_t room, char *text, uint64_t *random) {
    size_t n = 0;
    while (n < room - 256) {
        const char *word = words[scratch_random(random) % count];
        uint32_t times = scratch_random(random) % 16 ? 1 : scratch_random(random) % 40;
        for (; times > 0 && n < room - 256; times--) n += (size_t)sprintf(text + n, "%s", word);
    }
    return n;
}

/* ---- the vocabularies of tests/text/golden ---- */

static const char *const plain[] = { "人",  "生而自由", "すべて", "の",     "カ", "한국", "어",
                                     "ไทย", "การ",      "human",  "beings", "x",  "Q",    "é",
                                     "1",   "234",      "，",     "。",     "!",  ".",    "的",
                                     "和",  "equal",    "right",  "in",     "ß" };
static const char *const hard[] = { "人",
                                    "a",
                                    "e",
                                    "e\xcc\x81",
                                    "\xcc\x81",
                                    "\xcc\xa3",
                                    "か\xe3\x82\x99",
                                    "\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab",
                                    "\xe1\x86\xa8",
                                    "가",
                                    "😀",
                                    "👩\xe2\x80\x8d💻",
                                    "🇩🇪",
                                    "\xe2\x80\x8d",
                                    "ﬁ",
                                    "ﷺ",
                                    "\xe2\x80\x8b",
                                    "\x01",
                                    "ำ",
                                    "ﾞ",
                                    "<unk>",
                                    "<pad>",
                                    "[MASK]",
                                    "▁",
                                    "…",
                                    "½",
                                    "=\xcc\xb8",
                                    "क्ष",
                                    "ก็",
                                    "😀😀😀😀😀😀😀😀😀😀😀😀😀😀",
                                    "\xf4\x8f\xbf\xbf",
                                    "humanbeings",
                                    "İ",
                                    "\n",
                                    "\r\n",
                                    "\r" };
static const char *const unknown[] = { "😀", "ෆ", "ꙮ", "\xf4\x8f\xbf\xbf", "x" };

static tokenizer *open_golden(const char *name) {
    char path[512];
    int file;
    uint64_t bytes;
    tokenizer *t;
    snprintf(path, sizeof path, SNUG_ROOT "/tests/text/golden/%s.json", name);
    assert_int_equal(io_open(path, &file, &bytes), STATUS_OK);
    json_source source = json_file_source(&file, path, "the tokenizer", 0, bytes);
    assert_int_equal(tokenizer_open(&source, &t), STATUS_OK);
    assert_int_equal(tokenizer_take_whole(t), STATUS_OK);
    close(file);
    return t;
}

#define COUNT(OF) (sizeof(OF) / sizeof *(OF))

static void golden_vocabularies(void **unused) {
    (void)unused;
    static const char *const names[] = { "xlmr", "t5", "albert_bytes", "bert", "bert_cased", "prefix" };
    static char text[TEXT];
    uint64_t random = 5;
    for (size_t i = 0; i < COUNT(names); i++) {
        tokenizer *t = open_golden(names[i]);
        tokenizer_work *w;
        assert_int_equal(tokenizer_work_open(t, &w), STATUS_OK);
        for (int round = 0; round < (SANITIZED ? 4 : 12); round++) {
            uint32_t step = round % 2 ? 20000 : 1000;
            size_t bytes = make_text(plain, COUNT(plain), TEXT, text, &random);
            size_t early = compare(t, w, text, bytes, step, &random);
            if (i != 2 && i != 5 && early < bytes / 4)
                fail_msg("%s: of %zu bytes %zu", names[i], bytes, early);
            bytes = make_text(hard, COUNT(hard), TEXT, text, &random);
            compare(t, w, text, bytes, step, &random);
            bytes = make_text(hard, COUNT(hard), 2000, text, &random);
            compare(t, w, text, bytes, 60, &random);
            bytes = make_text(unknown, COUNT(unknown) - (uint32_t)round % 2, TEXT, text, &random);
            early = compare(t, w, text, bytes, step, &random);
            if (i != 2 && i != 5 && early < bytes / 4)
                fail_msg("%s: of %zu unknown bytes %zu", names[i], bytes, early);
        }
        tokenizer_work_close(w);
        tokenizer_close(t);
    }
}

/* ---- parts that would notice a careless cut ---- */

typedef struct {
    const char *added, *normalizer, *before; /* JSON */
    const char *words[10];
    bool cuts;
} kind;

#define ADDED(TEXT_OF, LEFT, RIGHT, NORMALIZED)                                                              \
    "{\"id\": 8, \"content\": \"" TEXT_OF "\", \"single_word\": false, \"lstrip\": " LEFT                    \
    ", \"rstrip\": " RIGHT ", \"normalized\": " NORMALIZED ", \"special\": false}"
#define SINGLE(TEXT_OF)                                                                                      \
    "{\"id\": 8, \"content\": \"" TEXT_OF "\", \"single_word\": true, \"lstrip\": false, "                   \
    "\"rstrip\": false, \"normalized\": false, \"special\": false}"
/* A map of "\r\n", "\r", "\n", U+0600 "a", "e" U+0301 and U+0301 to "b", "a", " ", "b!", "a" and "bb": see
 * precompiled.c. */
#define PRECOMPILED "{\"type\": \"Precompiled\", \"precompiled_charsmap\": \"" MAP "\"}"
#define MAP                                                                                                  \
    "AAQAAAAEAAAAAACAAgAAgAQAAIAGAACACQAAgAsAAIAAAAAACiUAAAAAAAAAAAAACiEAAA05AAAAAAAAAAAAAAAAAA"             \
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"             \
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"             \
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"             \
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"             \
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAGGRAQAAAAAAAAAAAAAAAABl"             \
    "mAEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"             \
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAgRUCAIAAAgAAAAAAgRUCAAAAAAAAAAAA"             \
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"             \
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"             \
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"             \
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"             \
    "AAAAAAAAAAAAAAAAAADMPAMAzDwDAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAADYYAMAAA"             \
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"             \
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"             \
    "AAAAAAAAAAAAAAAAAAAABiAGEAIABiIQBhAGJiAA=="
#define LIST(ITEMS) "{\"type\": \"Sequence\", \"normalizers\": [" ITEMS "]}"
#define REGEX(PATTERN, BY)                                                                                   \
    "{\"type\": \"Replace\", \"pattern\": {\"Regex\": \"" PATTERN "\"}, \"content\": \"" BY "\"}"
#define STRING(PATTERN, BY)                                                                                  \
    "{\"type\": \"Replace\", \"pattern\": {\"String\": \"" PATTERN "\"}, \"content\": \"" BY "\"}"
#define STRIP "{\"type\": \"Strip\", \"strip_left\": true, \"strip_right\": true}"
#define TYPE(NAME) "{\"type\": \"" NAME "\"}"
#define META                                                                                                 \
    "{\"type\": \"Metaspace\", \"replacement\": \"\xe2\x96\x81\", \"prepend_scheme\": \"always\", "          \
    "\"split\": true}"
#define WORDS_META "{\"type\": \"Sequence\", \"pretokenizers\": [" TYPE("WhitespaceSplit") ", " META "]}"

static const kind kinds[] = {
    { ADDED("ba", "false", "false", "false"),
      "null",
      TYPE("WhitespaceSplit"),
      { "a", "b", "ba", "c", "\n" },
      true },
    { ADDED("a\xc3\xa9", "false", "false", "true"),
      TYPE("NFC"),
      WORDS_META,
      { "a", "e", "\xcc\x81", "b" },
      true },
    { ADDED("d!", "false", "false", "false"),
      "null",
      TYPE("BertPreTokenizer"),
      { "d", "!", "a", "b", "c" },
      true },
    { ADDED("c", "true", "false", "false"), "null", WORDS_META, { "a", "b", "c", " ", "\n", "ab" }, true },
    { ADDED("c", "false", "true", "false"), "null", WORDS_META, { "a", "b", "c", " ", "\n", "ab" }, true },
    { ADDED("c", "true", "true", "false"), "null", META, { "a", "b", "c", " ", "  ", "ab" }, true },
    { ADDED("c", "true", "false", "false"),
      "null",
      TYPE("Whitespace"),
      { "a", "!", " ", "\n", "c", "a !" },
      true },
    { ADDED(";", "true", "false", "false"), "null", TYPE("Punctuation"), { "a", " ", ";", "ab", "d" }, true },
    { "", TYPE("NFKC"), "null", { "\xe3\x85\x8e", "\xe3\x85\x8f", "a", "b" }, true },
    { "", LIST(STRING("c", "\xcc\x81") ", " TYPE("NFC")), "null", { "e", "c", "a", "b" }, true },
    { "", LIST(STRING("c", " d ") ", " STRIP), "null", { "a", "c", "ab", "b" }, true },
    { "",
      PRECOMPILED,
      TYPE("BertPreTokenizer"),
      { "\xd8\x80", "a", "b", "ab",
        "\xd8\x80"
        "a" },
      true },
    { ADDED("c", "true", "false", "true"), "null", META, { "a", " ", "\n", "c", "ab" }, true },
    { SINGLE("ba"), "null", WORDS_META, { "a", "b", "ba", "\n", "d" }, false },
    { "", LIST(STRIP), "null", { "a", "  ", "\n", "ab" }, true },
    { "", LIST(STRIP ", " STRING(" ", "d")), "null", { "a", "  ", " ", "ab" }, true },
    { "", TYPE("NFC"), "null", { "e\xcc\x81", "e", "\xcc\x81", "a" }, true },
    { "",
      TYPE("NFKC"),
      "null",
      { "\xea\xb0\x80", "\xe1\x86\xa8", "\xe1\x84\x80", "\xe1\x85\xa1", "a" },
      true },
    { "", PRECOMPILED, "null", { "\r", "\n", "\r\n", "a", "\xe0\xb8\xb3", "\xe0\xb8\x81", "b" }, true },
    { "", PRECOMPILED, WORDS_META, { "\r", "\n", "\r\n", "a", "e\xcc\x81", "\xcc\x81", "b" }, true },
    { "", LIST(STRIP), META, { "a", "b", "  ", "\n", "ab" }, true },
    { "", LIST(REGEX(" {2,}", "d")), META, { "a", "b", "  ", " ", "ab" }, true },
    { "", LIST(STRING("ab", "d") ", " TYPE("NFKD")), META, { "a", "b", "ab", "c", "d" }, true },
    { "",
      LIST(STRING("``", "c") ", " STRING("''", "d") ", " TYPE("NFKD") ", " TYPE("StripAccents") ", " TYPE(
          "Lowercase")),
      WORDS_META,
      { "a", "b", "`", "''", "A", "\xc3\xa1", "\xcc\x81", "\n" },
      true },
    { "", LIST(REGEX("a+", "d")), META, { "a", "b", "c" }, false },
    { "",
      TYPE("NFKC"),
      WORDS_META,
      { "a", "b", "e", "\xcc\x81", "\xef\xbd\xb6", "\xef\xbe\x9e", "\xe1\x84\x92", "\xe1\x85\xa1",
        "\xe1\x86\xab" },
      true },
    { "",
      LIST(TYPE("Nmt") ", " TYPE("NFC")),
      WORDS_META,
      { "a", "\x01", "e", "\xcc\x81", "b", "\xe2\x80\x8b" },
      true },
    { "", LIST(TYPE("NFC") ", " TYPE("NFKC")), META, { "a", "b" }, false },
    { "",
      LIST("{\"type\": \"Prepend\", \"prepend\": \"d\"}, " STRING(" ", "c")),
      "null",
      { "a", "b", " ", "ab" },
      true },
    { "", "null", TYPE("Whitespace"), { "a", "!", "ab", "\n", "," }, true },
    { "", TYPE("NFC"), TYPE("BertPreTokenizer"), { "a", "=", "\xcc\xb8", "b" }, true },
    { "", "null", "{\"type\": \"Digits\", \"individual_digits\": false}", { "a", "1", "23", "b" }, true },
    { "",
      "null",
      "{\"type\": \"Punctuation\", \"behavior\": \"MergedWithPrevious\"}",
      { "a", "!", "ab", "b" },
      true },
    { "",
      "null",
      "{\"type\": \"Punctuation\", \"behavior\": \"MergedWithNext\"}",
      { "a", "!", "ab", "b" },
      true },
    { "",
      "null",
      "{\"type\": \"Sequence\", \"pretokenizers\": [" META ", " TYPE("BertPreTokenizer") "]}",
      { "a", "!", "ab" },
      false },
    { "",
      "null",
      "{\"type\": \"Metaspace\", \"replacement\": \"\xe2\x96\x81\", \"prepend_scheme\": \"always\", "
      "\"split\": false}",
      { "a", "b", " ", "c" },
      false },
};

static const char *const models[] = {
    "{\"type\": \"Unigram\", \"unk_id\": 0, \"vocab\": [[\"?\", 0], [\"a\", -2], [\"b\", -2.5], [\"ab\", "
    "-3], [\"d\", -3.5], "
    "[\"\xe2\x96\x81\", -4], [\"\xe2\x96\x81"
    "a\", -4], [\"aab\", -5]]}",
    "{\"type\": \"WordPiece\", \"unk_token\": \"?\", \"continuing_subword_prefix\": \"#\", "
    "\"max_input_chars_per_word\": 5, "
    "\"vocab\": {\"?\": 0, \"a\": 1, \"b\": 2, \"#a\": 3, \"#b\": 4, \"d\": 5, \"#d\": 6, \"!\": 7}}",
    "{\"type\": \"WordLevel\", \"unk_token\": \"?\", \"vocab\": {\"?\": 0, \"a\": 1, \"b\": 2, \"ab\": 3, "
    "\"d\": 4, \"!\": 5, "
    "\"aba\": 6, \"\xe2\x96\x81"
    "a\": 7}}",
};

static tokenizer *open_json(const kind *k, const char *model) {
    static char text[JSON];
    tokenizer *t;
    int n =
        snprintf(text, sizeof text,
                 "{\"version\": \"1.0\", \"truncation\": null, \"padding\": null, \"added_tokens\": [%s], "
                 "\"normalizer\": %s, \"pre_tokenizer\": %s, \"post_processor\": null, \"decoder\": null, "
                 "\"model\": %s}",
                 k->added, k->normalizer, k->before, model);
    json_source source = json_source_memory(text, (size_t)n, "t.json", "the tokenizer");
    if (tokenizer_open(&source, &t) != STATUS_OK) fail_msg("%s: %s", status_message(), text);
    return t;
}

static uint32_t count_words(const kind *k) {
    uint32_t count = 0;
    while (count < COUNT(k->words) && k->words[count]) count++;
    return count;
}

static void parts_of_tokenizers(void **unused) {
    (void)unused;
    static char text[2000];
    uint64_t random = 7;
    for (size_t i = 0; i < COUNT(kinds); i++)
        for (size_t m = 0; m < COUNT(models); m++) {
            tokenizer *t = open_json(&kinds[i], models[m]);
            tokenizer_work *w;
            size_t early = 0;
            assert_int_equal(tokenizer_work_open(t, &w), STATUS_OK);
            for (int round = 0; round < (SANITIZED ? 10 : 40); round++) {
                size_t bytes = make_text(kinds[i].words, count_words(&kinds[i]), sizeof text, text, &random);
                early += compare(t, w, text, bytes, round % 2 ? 20 : 200, &random);
            }
            if ((early > 0) != kinds[i].cuts)
                fail_msg("kind %zu, model %zu: %zu bytes were used early", i, m, early);
            tokenizer_work_close(w);
            tokenizer_close(t);
        }
}

/* ---- Unigrams at random ---- */

/* Few letters and few scores, so that ways tie; `x` and `é` are often unknown. */
static size_t random_model(char *to, bool bytes, bool all_bytes, uint64_t *random) {
    static const char *const letters[] = { "a", "b", "c", "x", "\xc3\xa9" };
    static const char *const scores[] = { "-1", "-1.1", "-2", "-2.2", "-3", "-0.1", "50", "20" };
    char seen[64][32];
    uint32_t count = 0, most = 3 + scratch_random(random) % 16, odd = scratch_random(random) % 4 ? 6 : 8;
    size_t n = (size_t)sprintf(
        to, "{\"type\": \"Unigram\", \"unk_id\": 0, \"byte_fallback\": %s, \"vocab\": [[\"?\", 0]",
        bytes ? "true" : "false");
    for (int b = all_bytes ? 0 : 'x' - 1; bytes && b < (all_bytes ? 256 : 'x' + 1); b++)
        n += (size_t)sprintf(to + n, ", [\"<0x%02X>\", -9]", b);
    for (uint32_t tries = 0; tries < 60 && count < most; tries++) {
        char token[32] = "";
        bool known = false;
        for (uint32_t left = 1 + scratch_random(random) % 4; left > 0; left--)
            strcat(token, letters[scratch_random(random) % (tries % 4 ? 3 : COUNT(letters))]);
        for (uint32_t i = 0; i < count; i++) known |= strcmp(seen[i], token) == 0;
        if (known) continue;
        strcpy(seen[count++], token);
        n += (size_t)sprintf(to + n, ", [\"%s\", %s]", token, scores[scratch_random(random) % odd]);
    }
    return n + (size_t)sprintf(to + n, "]}");
}

static void unigrams_at_random(void **unused) {
    (void)unused;
    static char model[JSON / 2], text[3000];
    static const kind pieces[] = {
        { "", "null", "null", { "a", "b", "c", "a", "b", "c", "ab", "xxxxxxxxx", "\xc3\xa9", "x" }, true },
        { "",
          "null",
          "null",
          { "x", "\xc3\xa9", "x\xc3\xa9", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "a" },
          true },
        { "", "null", WORDS_META, { "a", "b", "c", "abc", "bca", "x", "ab", "ac", "cb", "\n" }, true },
    };
    uint64_t random = 9;
    size_t all = 0, early = 0;
    for (int round = 0; round < (SANITIZED ? 150 : 600); round++) {
        const kind *k = &pieces[round % 3];
        random_model(model, round % 2, round % 4 == 1, &random);
        tokenizer *t = open_json(k, model);
        tokenizer_work *w;
        assert_int_equal(tokenizer_work_open(t, &w), STATUS_OK);
        for (int i = 0; i < 4; i++) {
            size_t bytes = make_text(k->words, count_words(k), sizeof text, text, &random);
            early += compare(t, w, text, bytes, i % 2 ? 30 : 400, &random);
            all += bytes;
        }
        tokenizer_work_close(w);
        tokenizer_close(t);
    }
    if (early < all / 2) fail_msg("of %zu bytes %zu were used early", all, early);
}

/* Two ways of equal scores: the first one offered stays, also behind a window's end; and sums of scores are
 * those of the whole word, which are rounded. */
static void ties(void **unused) {
    (void)unused;
    static const kind k = { "", "null", "null", { "ab", "a", "b", "ba", "aab", "c" }, true };
    static const char *const model[] = {
        "{\"type\": \"Unigram\", \"unk_id\": 0, \"vocab\": [[\"?\", 0], [\"a\", -1], [\"b\", -1], [\"ab\", "
        "-2], "
        "[\"ba\", -2], [\"aba\", -3], [\"c\", -1]]}",
        "{\"type\": \"Unigram\", \"unk_id\": 0, \"vocab\": [[\"?\", 0], [\"a\", -0.1], [\"b\", -0.2], "
        "[\"ab\", -0.3], [\"ba\", -0.30000000000000004], [\"aba\", -0.4], [\"c\", -1000000.3]]}",
        /* unknown letters are better than their tokens, but a row of them is looked up */
        "{\"type\": \"Unigram\", \"unk_id\": 0, \"vocab\": [[\"?\", 100], [\"a\", 100], [\"bb\", 50], "
        "[\"cc\", 50], [\"bbb\", 60], [\"bcb\", 60]]}",
    };
    static char text[TEXT];
    uint64_t random = 11;
    for (size_t i = 0; i < COUNT(model); i++) {
        tokenizer *t = open_json(&k, model[i]);
        tokenizer_work *w;
        size_t early = 0;
        assert_int_equal(tokenizer_work_open(t, &w), STATUS_OK);
        for (int round = 0; round < (SANITIZED ? 10 : 40); round++) {
            size_t bytes = make_text(k.words, count_words(&k), round % 2 ? TEXT : 2000, text, &random);
            early += compare(t, w, text, bytes, round % 2 ? 2000 : 40, &random);
        }
        assert_true(early > TEXT);
        tokenizer_work_close(w);
        tokenizer_close(t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(golden_vocabularies),
                                        cmocka_unit_test(parts_of_tokenizers),
                                        cmocka_unit_test(unigrams_at_random), cmocka_unit_test(ties) };
    return cmocka_run_group_tests_name("word windows", tests, NULL, NULL);
}
