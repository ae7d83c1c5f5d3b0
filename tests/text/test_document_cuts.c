/* Long documents are cut where nothing shows: tokenizers that would notice a careless cut, window by window
 * beside the whole text. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/scratch.h"
#include "text/in_windows.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/tokenizer_internal.h"

enum { TEXT = 6000, ROWS = 60000, JSON = 64 << 10 };

/* ---- tokenizers ---- */

typedef struct {
    const char *added, *normalizer, *before, *model; /* JSON; model NULL: a BPE of bytes without merges */
    const char *words[8];                            /* that texts are of */
    bool cuts;                                       /* some windows are used before the text's end */
} kind;

#define WORDS(LIST) "{\"type\": \"WordLevel\", \"unk_token\": \"?\", \"vocab\": {\"?\": 0, " LIST "}}"
#define ADDED(ID, TEXT_OF, NORMALIZED)                                                                       \
    "{\"id\": " ID ", \"content\": \"" TEXT_OF "\", \"single_word\": false, \"lstrip\": false, \"rstrip\": " \
    "false, \"normalized\": " NORMALIZED ", \"special\": false}"
#define STRIPPED(SIDES)                                                                                      \
    "{\"id\": 5, \"content\": \"zz\", \"single_word\": false, " SIDES ", \"normalized\": false, "            \
    "\"special\": false}"
#define UNPREFIXED                                                                                           \
    "{\"type\": \"Metaspace\", \"replacement\": \"_\", \"prepend_scheme\": \"never\", \"split\": true}"
#define PREFIX "{\"type\": \"ByteLevel\", \"add_prefix_space\": true, \"trim_offsets\": true, "
#define CHINESE                                                                                              \
    "{\"type\": \"BertNormalizer\", \"clean_text\": true, \"handle_chinese_chars\": true, "                  \
    "\"strip_accents\": null, \"lowercase\": false}"
#define SPLIT                                                                                                \
    "{\"type\": \"Split\", \"pattern\": {\"Regex\": \" ?\\\\p{L}+| "                                         \
    "?\\\\p{N}+|\\\\s+|[^\\\\s\\\\p{L}\\\\p{N}]+\"}, "                                                       \
    "\"behavior\": \"Isolated\", \"invert\": false}"

static const kind kinds[] = {
    /* an added token ends with the blank that would be cut before */
    { ADDED("4", "a ", "false"),
      "null",
      "{\"type\": \"WhitespaceSplit\"}",
      WORDS("\"a\": 1, \"xa\": 2, \"b\": 3"),
      { "a", "xa", "b" },
      true },
    { ADDED("4", "a ", "false"),
      "null",
      "{\"type\": \"WhitespaceSplit\"}",
      WORDS("\"a\": 1, \"xa\": 2, \"b\": 3"),
      { "b", "xb" },
      true },
    /* one is parted by it, or takes it with it */
    { ADDED("4", "a b", "false"),
      "null",
      "{\"type\": \"WhitespaceSplit\"}",
      WORDS("\"a\": 1, \"b\": 2, \"x\": 3"),
      { "a", "b", "x" },
      true },
    { STRIPPED("\"lstrip\": false, \"rstrip\": true"),
      "null",
      UNPREFIXED,
      WORDS("\"a\": 1, \"_a\": 2, \"x\": 3, \"_x\": 4"),
      { "a", "zz", "x" },
      true },
    { STRIPPED("\"lstrip\": true, \"rstrip\": false"),
      "null",
      UNPREFIXED,
      WORDS("\"a\": 1, \"_a\": 2, \"x\": 3, \"_x\": 4"),
      { "a", "zz", "x" },
      true },
    /* a normalizer looks across it */
    { "",
      "{\"type\": \"Replace\", \"pattern\": {\"String\": \"a b\"}, \"content\": \"c\"}",
      "{\"type\": \"WhitespaceSplit\"}",
      WORDS("\"a\": 1, \"b\": 2, \"c\": 3, \"x\": 4"),
      { "a", "b", "x" },
      false },
    /* one that begins with it is whole behind the cut */
    { ADDED("4", " a", "false"),
      "null",
      "{\"type\": \"WhitespaceSplit\"}",
      WORDS("\"a\": 1, \"xa\": 2, \"b\": 3"),
      { "a", "xa", "b" },
      true },
    /* it is looked for in normalized text, which has a mark before the blank */
    { ADDED("3", "e\xcc\x81 x", "true"),
      "{\"type\": \"NFD\"}",
      "{\"type\": \"WhitespaceSplit\"}",
      WORDS("\"e\xcc\x81\": 1, \"x\": 2"),
      { "\xc3\xa9", "x", "y" },
      true },
    /* which has two blanks between two ideographs */
    { ADDED("2", "  ", "true"),
      CHINESE,
      "{\"type\": \"BertPreTokenizer\"}",
      WORDS("\"\xe4\xb8\xad\": 1"),
      { "\xe4\xb8\xad\xe5\x9b\xbd", "\xe5\x9b\xbd", "y" },
      true },
    { "",
      CHINESE,
      "{\"type\": \"BertPreTokenizer\"}",
      WORDS("\"\xe4\xb8\xad\": 1"),
      { "\xe4\xb8\xad\xe5\x9b\xbd", "\xe5\x9b\xbd", "y" },
      true },
    /* a blank is put before the text, whose places stay those of the text */
    { "", "null", PREFIX "\"use_regex\": true}", NULL, { "hello", "b", "12", "\xc3\xa9" }, true },
    { "",
      "{\"type\": \"NFC\"}",
      PREFIX "\"use_regex\": true}",
      NULL,
      { "cafe\xcc\x81", "b", "!c", "\xe4\xb8\xad\xe5\x9b\xbd" },
      true },
    { "",
      "{\"type\": \"NFD\"}",
      PREFIX "\"use_regex\": true}",
      NULL,
      { "caf\xc3\xa9", "b", "!c", "12" },
      true },
    /* and before each piece of an earlier stage */
    { "",
      "null",
      "{\"type\": \"Sequence\", \"pretokenizers\": [" SPLIT ", " PREFIX "\"use_regex\": false}]}",
      NULL,
      { "xa", "b", "12", "!c", "\xc3\xa9" },
      true },
    { "",
      "{\"type\": \"NFC\"}",
      "{\"type\": \"Sequence\", \"pretokenizers\": [" SPLIT ", " PREFIX "\"use_regex\": true}]}",
      NULL,
      { "cafe\xcc\x81", "b", "12", "!c" },
      true },
};

/* Each byte is a token, and each two that are side by side in `row`. Of these the last merge first. */
static size_t bytes_model(char *to, const char *row) {
    size_t n = (size_t)sprintf(to, "{\"type\": \"BPE\", \"merges\": ["), pairs = strlen(row);
    for (size_t i = pairs ? pairs - 1 : 0; i-- > 0;)
        n += (size_t)sprintf(to + n, "[\"%c\", \"%c\"]%s", row[i], row[i + 1], i ? ", " : "");
    n += (size_t)sprintf(to + n, "], \"vocab\": {");
    for (int b = 0; b < 256; b++) {
        char letter[2];
        size_t length = byte_letters_write((unsigned char)b, letter);
        bool quoted = length == 1 && (*letter == '"' || *letter == '\\');
        n += (size_t)sprintf(to + n, "%s\"%s%.*s\": %d", b ? ", " : "", quoted ? "\\" : "", (int)length,
                             letter, b);
    }
    for (size_t i = 0; i + 1 < pairs; i++) n += (size_t)sprintf(to + n, ", \"%.2s\": %zu", row + i, 256 + i);
    return n + (size_t)sprintf(to + n, "}}");
}

static tokenizer *open_one(const kind *k, const char *row) {
    static char text[JSON];
    tokenizer *t;
    int n =
        snprintf(text, sizeof text,
                 "{\"version\": \"1.0\", \"truncation\": null, \"padding\": null, \"added_tokens\": [%s], "
                 "\"normalizer\": %s, \"pre_tokenizer\": %s, \"post_processor\": null, \"decoder\": null, "
                 "\"model\": %s",
                 k->added, k->normalizer, k->before, k->model ? k->model : "");
    size_t bytes = (size_t)n;
    if (!k->model) bytes += bytes_model(text + n, row);
    bytes += (size_t)sprintf(text + bytes, "}");
    json_source source = json_source_memory(text, bytes, "t.json", "the tokenizer");
    if (tokenizer_open(&source, &t) != STATUS_OK) fail_msg("%s", status_message());
    return t;
}

/* ---- windows ---- */

static size_t make_text(const kind *k, char *text, uint64_t *random) {
    uint32_t count = 0;
    size_t n = 0;
    while (count < 8 && k->words[count]) count++;
    while (n < TEXT - 32) n += (size_t)sprintf(text + n, "%s ", k->words[scratch_random(random) % count]);
    return n;
}

static void cuts_do_not_show(void **unused) {
    (void)unused;
    static char text[TEXT];
    uint64_t random = 3;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        tokenizer *t = open_one(&kinds[i], "");
        tokenizer_work *w;
        uint32_t used = 0;
        assert_int_equal(tokenizer_work_open(t, &w), STATUS_OK);
        for (int round = 0; round < 20; round++)
            used += in_windows(t, w,
                               &(in_windows_options){ { text, make_text(&kinds[i], text, &random) }, 1, 400 },
                               &random)
                        .windows;
        if ((used > 0) != kinds[i].cuts) fail_msg("kind %zu: %u windows were used early", i, used);
        tokenizer_work_close(w);
        tokenizer_close(t);
    }
}

/* Each letter of a row may merge with the next one, and the row's end says which do: back to its beginning
 * nothing of it is certain before. */
static void ends_of_rows_say_what_merges(void **unused) {
    (void)unused;
    static const char row[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    static const kind k = {
        "",   "null",   "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": true}",
        NULL, { NULL }, true
    };
    static char text[ROWS];
    uint64_t random = 5;
    uint32_t used = 0;
    tokenizer_work *w;
    tokenizer *t = open_one(&k, row);
    assert_int_equal(tokenizer_work_open(t, &w), STATUS_OK);
    for (int round = 0; round < 8; round++) {
        for (size_t n = 0; n < ROWS;) {
            size_t letters = 2 + scratch_random(&random) % 299, at = scratch_random(&random) % 52;
            for (; letters > 0 && n < ROWS; letters--) text[n++] = row[at++ % 52];
        }
        used += in_windows(t, w, &(in_windows_options){ { text, ROWS }, 500, 9000 }, &random).windows;
    }
    assert_true(used > 0);
    tokenizer_work_close(w);
    tokenizer_close(t);
}

/* A part of a word is no token because the word would be one. */
static void words_are_looked_up_whole(void **unused) {
    (void)unused;
    static const kind k = { "",
                            "null",
                            "null",
                            "{\"type\": \"BPE\", \"ignore_merges\": true, \"unk_token\": \"?\", \"vocab\": "
                            "{\"?\": 0, \"a\": 1, \"b\": 2, \"c\": 3, \"d\": 4, \"ab\": 5, \"cd\": 6}, "
                            "\"merges\": [[\"c\", \"d\"]]}",
                            { NULL },
                            false };
    static const uint32_t expected[] = { 1, 2, 6 };
    char text[240];
    tokenizer_work *w;
    tokenizer_ids ids;
    tokenizer *t = open_one(&k, "");
    assert_int_equal(tokenizer_work_open(t, &w), STATUS_OK);
    for (size_t i = 0; i < sizeof text; i += 4) memcpy(text + i, "abcd", 4);
    assert_int_equal(tokenizer_encode(t, w, text, sizeof text, false, &ids), STATUS_OK);
    assert_int_equal(ids.count, 180);
    for (size_t i = 0; i < ids.count; i++) assert_int_equal(ids.id[i], expected[i % 3]);
    assert_int_equal(tokenizer_encode(t, w, "ab", 2, false, &ids), STATUS_OK);
    assert_int_equal(ids.count, 1);
    tokenizer_work_close(w);
    tokenizer_close(t);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(cuts_do_not_show),
                                        cmocka_unit_test(ends_of_rows_say_what_merges),
                                        cmocka_unit_test(words_are_looked_up_whole) };
    return cmocka_run_group_tests_name("document cuts", tests, NULL, NULL);
}
