/* Tokens that are added: which of them the files of a tokenizer have, and what is put into each of them. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <unistd.h>

#include "io/scratch.h"
#include "io/wanted_tokens.h"

#define WORDS "{\"model\": {\"type\": \"WordLevel\", \"vocab\": {\"the\": 0, \"fox\": 1}}"
#define ADDED(ID, TEXT) ", \"added_tokens\": [{\"id\": " ID ", \"content\": \"" TEXT "\"}]"
#define TOKENIZER WORDS ADDED("2", "<|endoftext|>") "}"

static void put(const char *path, const char *words) { scratch_write(path, words, strlen(words)); }

/* Of the folder "m", with what it holds besides tokenizer.json; NULL: nothing. */
static void make(const char *tokenizer, const char *config, const char *map) {
    unlink("m/tokenizer_config.json"), unlink("m/added_tokens.json");
    put("m/tokenizer.json", tokenizer);
    if (config) put("m/tokenizer_config.json", config);
    if (map) put("m/added_tokens.json", map);
}

static status find(const char *a, const char *b, wanted_tokens *w) {
    text_list list = { .items = { a, b }, .count = b ? 2 : 1 };
    return wanted_tokens_find("m", &list, w);
}

static const char *copied(const char *path) {
    static char text[4096];
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("there is no %s", path);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    return text;
}

static uint32_t count(const char *text, const char *word) {
    uint32_t n = 0;
    for (; (text = strstr(text, word)); text += strlen(word)) n++;
    return n;
}

/* Each file gets what it lacks. */
static void none_is_put_twice(void **state) {
    (void)state;
    static const struct {
        const char *config, *map;
    } cases[] = { { "{\"added_tokens_decoder\": {}}", "{}" },
                  { "{\"added_tokens_decoder\": {\"3\": {\"content\": \"<a>\"}}}", "{\"<a>\": 3}" },
                  { "{\"added_tokens_decoder\": {\"4\": {\"content\": \"<b>\"}}}", "{\"<b>\": 4}" },
                  { "{\"added_tokens_decoder\": {\"3\": \"<a>\"}}", "{\"<b>\": 4, \"<|endoftext|>\": 2}" } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static const char *const files[] = { "to/tokenizer.json", "to/tokenizer_config.json",
                                             "to/added_tokens.json" };
        wanted_tokens w;
        make(TOKENIZER, cases[i].config, cases[i].map);
        if (find("<a>", "<b>", &w) != STATUS_OK) fail_msg("%s", status_message());
        assert_true(w.count == 2 && w.items[0].id == 3 && w.items[1].id == 4 && w.size == 5);
        uint64_t bytes = 0;
        for (uint32_t f = 0; f < w.file_count; f++) bytes += w.files[f].splice.bytes;
        assert_in_range(w.bytes, bytes, 8 * bytes);
        assert_int_equal(tokenizer_files_copy_changed("m", "to", w.files, w.file_count), STATUS_OK);
        for (int f = 0; f < 3; f++) {
            assert_int_equal(count(copied(files[f]), "\"<a>\""), 1);
            assert_int_equal(count(copied(files[f]), "\"<b>\""), 1);
        }
        wanted_tokens_close(&w);
    }
}

/* One that another begins with is not that one. */
static void tokens_are_compared_whole(void **state) {
    (void)state;
    static const char *const parts[] = { "<|endof", "<|endoftext|>>", "th", "thee" };
    wanted_tokens w;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        make(TOKENIZER, "{\"added_tokens_decoder\": {\"2\": {\"content\": \"<|endoftext|>\"}}}",
             "{\"<|endoftext|>\": 2}");
        if (find(parts[i], NULL, &w) != STATUS_OK) fail_msg("%s", status_message());
        assert_int_equal(w.items[0].state, WANTED_TOKEN_NEW);
        assert_int_equal(w.items[0].id, 3);
        wanted_tokens_close(&w);
    }
    assert_int_equal(find("<|endoftext|>", "the", &w), STATUS_OK);
    assert_int_equal(w.items[0].state, WANTED_TOKEN_THERE);
    assert_int_equal(w.items[1].state, WANTED_TOKEN_WORD);
    wanted_tokens_close(&w);
}

static void ids_are_bounded(void **state) {
    (void)state;
    static const struct {
        const char *tokenizer, *config, *map, *says;
    } cases[] = {
        { WORDS ADDED("16777214", "x") "}", NULL, NULL, NULL },
        { WORDS ADDED("16777215", "x") "}", NULL, NULL, "there is none for a new token" },
        { WORDS ADDED("16777216", "x") "}", NULL, NULL, "an id is too large" },
        { "{\"model\": {\"vocab\": {\"the\": 16777216}}}", NULL, NULL, "an id is too large" },
        { TOKENIZER, NULL, "{\"x\": 16777216}", "an id is too large" },
        { TOKENIZER, NULL, "{\"x\": 16777215}", NULL },
        { TOKENIZER, "{\"added_tokens_decoder\": {\"16777215\": \"x\"}}", NULL, NULL },
        { TOKENIZER, "{\"added_tokens_decoder\": {\"16777216\": \"x\"}}", NULL, "is no id" },
        /* which would be 3 again, the new one's */
        { TOKENIZER, "{\"added_tokens_decoder\": {\"18446744073709551619\": \"<a>\"}}", NULL, "is no id" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        wanted_tokens w;
        make(cases[i].tokenizer, cases[i].config, cases[i].map);
        status result = find("<a>", NULL, &w);
        if (result != (cases[i].says ? STATUS_INVALID : STATUS_OK)) fail_msg("case %zu: %d", i, result);
        if (cases[i].says && !strstr(status_message(), cases[i].says)) fail_msg("%s", status_message());
        wanted_tokens_close(&w);
    }
}

/* Places are those of the file that was looked at. */
static void a_file_that_grows_is_refused(void **state) {
    (void)state;
    wanted_tokens w;
    make(TOKENIZER, NULL, NULL);
    assert_int_equal(find("<a>", NULL, &w), STATUS_OK);
    put("m/tokenizer.json", TOKENIZER "\n");
    assert_int_equal(tokenizer_files_copy_changed("m", "to", w.files, w.file_count), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "m/tokenizer.json was changed since the run began"));
    put("m/tokenizer.json", TOKENIZER);
    assert_int_equal(tokenizer_files_copy_changed("m", "to", w.files, w.file_count), STATUS_OK);
    assert_int_equal(count(copied("to/tokenizer.json"), "\"<a>\""), 1);
    wanted_tokens_close(&w);
}

static int make_folders(void **state) {
    return scratch_open(state) == 0 && mkdir("m", 0700) == 0 && mkdir("to", 0700) == 0 ? 0 : -1;
}

/* In front of the splice, too, what is not there any more can't be read. */
static void a_file_that_shrinks_is_said(void **state) {
    (void)state;
    char bytes[8];
    spliced_file f;
    put("shrinks", "0123456789");
    const file_splice splice = { .at = 6, .gone = 1, .put = "x", .bytes = 1, .of = 10 };
    assert_int_equal(spliced_file_open("shrinks", &splice, &f), STATUS_OK);
    assert_int_equal(spliced_file_read(&f, 3, bytes, 4), STATUS_OK);
    assert_memory_equal(bytes, "345x", 4);
    assert_int_equal(truncate("shrinks", 4), 0);
    assert_int_not_equal(spliced_file_read(&f, 3, bytes, 4), STATUS_OK);
    assert_non_null(strstr(status_message(), "shrinks"));
    spliced_file_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none_is_put_twice),
        cmocka_unit_test(tokens_are_compared_whole),
        cmocka_unit_test(ids_are_bounded),
        cmocka_unit_test(a_file_that_grows_is_refused),
        cmocka_unit_test(a_file_that_shrinks_is_said),
    };
    return cmocka_run_group_tests_name("wanted_tokens", tests, make_folders, scratch_close);
}
