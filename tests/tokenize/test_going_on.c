/* Making tokens stops where it is asked to, at any place of the data, and goes on to the same file; and data
 * that are others at the second reading are no data. */
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
#include "tokenize/tokenize.h"

static const char TOKENIZER[] =
    "{\"pre_tokenizer\": {\"type\": \"WhitespaceSplit\"}, \"model\": {\"type\": \"WordLevel\", \"vocab\": "
    "{\"[U]\": 0, \"the\": 1, \"fox\": 2, \"saw\": 3, \"sea\": 4}, \"unk_token\": \"[U]\"}}";

/* ---- data ---- */

static void add_text(FILE *file, uint32_t words, uint64_t *random) {
    static const char *const all[] = { "the", "fox", "saw", "sea" };
    fprintf(file, "{\"text\": \"");
    for (uint32_t i = 0; i < words; i++) fprintf(file, "%s ", all[scratch_random(random) % 4]);
    fprintf(file, "\"}\n");
}

/* So many texts without a word, and then with some. */
static void make_texts(const char *path, uint32_t empty, uint32_t others, uint32_t words) {
    uint64_t random = 3;
    FILE *file = fopen(path, "wb");
    for (uint32_t i = 0; i < empty; i++) add_text(file, 0, &random);
    for (uint32_t i = 0; i < others; i++) add_text(file, 1 + i % words, &random);
    assert_int_equal(fclose(file), 0);
}

/* Two that take several rounds, with short ones around them. */
static void make_long(const char *path) {
    static const uint32_t words[] = { 3, 5, 700000, 2, 9, 400000, 1 };
    uint64_t random = 5;
    FILE *file = fopen(path, "wb");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) add_text(file, words[i], &random);
    assert_int_equal(fclose(file), 0);
}

/* ---- running ---- */

static volatile sig_atomic_t stop;
static uint32_t stop_at, told; /* stop_at: how often it is told how far it is; 0: it runs to its end */

static void progressed(void *context, const tokenize_progress *p) {
    (void)context;
    if (p->bytes && ++told == stop_at) stop = 1; /* the second reading */
}

static tokenize *opened(const char *data, const char *out, int threads) {
    tokenize *t;
    static tokenize_options o;
    o = (tokenize_options){
        .model = "m", .out = out, .threads = threads, .progress = progressed, .stop = &stop
    };
    o.data.paths[0] = data, o.data.count = 1;
    if (tokenize_open(&o, &t) != STATUS_OK) fail_msg("%s", status_message());
    return t;
}

static status run(const char *data, const char *out, uint32_t at, int threads, tokenize_result *r) {
    stop = 0, told = 0, stop_at = at;
    tokenize *t = opened(data, out, threads);
    *r = (tokenize_result){ 0 };
    status result = tokenize_run(t, r);
    tokenize_close(t);
    return result;
}

static char *content(const char *path, size_t *bytes) {
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("there is no %s", path);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *bytes = (size_t)ftell(file);
    rewind(file);
    char *all = malloc(*bytes);
    assert_int_equal(fread(all, 1, *bytes, file), *bytes);
    fclose(file);
    return all;
}

/* Stopped at every place, it goes on to the same file. How many places there were. */
static uint32_t stop_everywhere(const char *data, int threads) {
    tokenize_result whole, r;
    size_t bytes, n;
    uint32_t places;
    if (run(data, "whole.safetensors", 0, threads, &whole) != STATUS_OK) fail_msg("%s", status_message());
    places = told;
    char *expected = content("whole.safetensors", &bytes);
    for (uint32_t at = 1; at < places; at++) {
        unlink("o.safetensors");
        assert_int_equal(run(data, "o.safetensors", at, threads, &r), STATUS_INTERRUPTED);
        assert_int_not_equal(access("o.safetensors", F_OK), 0);
        if (run(data, "o.safetensors", 0, threads, &r) != STATUS_OK) fail_msg("%s", status_message());
        assert_true(r.documents == whole.documents && r.tokens == whole.tokens && r.empty == whole.empty &&
                    r.longest == whole.longest && r.resumed <= whole.documents);
        char *now = content("o.safetensors", &n);
        assert_int_equal(n, bytes);
        assert_memory_equal(now, expected, bytes);
        free(now);
    }
    free(expected);
    return places;
}

/* ---- tests ---- */

static void texts_without_a_token_are_gone_over_once(void **state) {
    (void)state;
    make_texts("empty.jsonl", 20000, 300, 9);
    assert_true(stop_everywhere("empty.jsonl", 1) > 2);
    make_texts("few.jsonl", 10, 30000, 4);
    assert_true(stop_everywhere("few.jsonl", 2) > 2);
}

static void a_long_text_is_begun_again(void **state) {
    (void)state;
    make_long("long.jsonl");
    assert_true(stop_everywhere("long.jsonl", 1) > 3);
    assert_true(stop_everywhere("long.jsonl", 3) > 1);
}

static void data_that_change_are_no_data(void **state) {
    (void)state;
    static const uint32_t counts[] = { 299, 301 };
    tokenize_result r;
    stop_at = 0;
    for (int i = 0; i < 2; i++) {
        make_texts("moved.jsonl", 0, 300, 9);
        tokenize *t = opened("moved.jsonl", "never.safetensors", 1);
        make_texts("moved.jsonl", 0, counts[i], 9);
        assert_int_equal(tokenize_run(t, &r), STATUS_FAILED);
        assert_non_null(strstr(status_message(), "moved.jsonl has changed since it was first read"));
        tokenize_close(t);
        assert_int_not_equal(access("never.safetensors", F_OK), 0);
    }
}

static int make_model(void **state) {
    if (scratch_open(state) != 0 || mkdir("m", 0700) != 0) return -1;
    scratch_write("m/tokenizer.json", TOKENIZER, sizeof TOKENIZER - 1);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_without_a_token_are_gone_over_once),
        cmocka_unit_test(a_long_text_is_begun_again),
        cmocka_unit_test(data_that_change_are_no_data),
    };
    return cmocka_run_group_tests_name("going_on", tests, make_model, scratch_close);
}
