/* Tokenizers of all kinds against what the tokenizers library made of the same texts
 * (tools/tokenizer_goldens.py), and files that are wrong. */
#include "text/tokenizer/tokenizer.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/file.h"
#include "io/json_file.h"

enum { LINE = 1 << 14, IDS = 4096 };
static const char golden[] = SNUG_ROOT "/tests/text/golden";

/* ---- goldens ---- */

typedef struct {
    char text[LINE], decoded[LINE], whole[LINE];
    uint64_t bytes, decoded_bytes, whole_bytes;
    uint32_t ids[IDS], special[IDS];
    size_t count, special_count;
} golden_case;

static tokenizer *open_file(const char *path) {
    int file;
    uint64_t bytes;
    tokenizer *t;
    tokenizer_counted *c;
    assert_int_equal(io_open(path, &file, &bytes), STATUS_OK);
    json_source source = json_file_source(&file, path, "the tokenizer", 0, bytes);
    assert_int_equal(tokenizer_count(&source, &c), STATUS_OK);
    assert_int_equal(tokenizer_open_counted(c, &t), STATUS_OK);
    assert_int_equal(tokenizer_bytes(t), tokenizer_counted_bytes(c));
    tokenizer_counted_close(c);
    close(file);
    return t;
}

static void read_ids(json_reader *r, uint32_t *ids, size_t *count) {
    uint64_t id;
    bool more;
    *count = 0;
    assert_int_equal(json_reader_expect(r, '['), STATUS_OK);
    for (more = !json_reader_take(r, ']'); more;) {
        assert_int_equal(json_reader_whole(r, &id), STATUS_OK);
        ids[(*count)++] = (uint32_t)id;
        assert_true(*count < IDS);
        assert_int_equal(json_reader_another(r, ']', &more), STATUS_OK);
    }
}

static void read_key(json_reader *r, const char *key) {
    char name[JSON_READER_STRING];
    assert_true(json_reader_take(r, '{') || json_reader_take(r, ','));
    assert_int_equal(json_reader_string(r, name), STATUS_OK);
    assert_string_equal(name, key);
    assert_int_equal(json_reader_expect(r, ':'), STATUS_OK);
}

static void read_case(const char *line, size_t bytes, golden_case *c) {
    json_reader r;
    json_source source = json_source_memory(line, bytes, "golden", "a line");
    json_reader_begin(&r, &source);
    read_key(&r, "text");
    assert_int_equal(json_reader_text(&r, c->text, LINE, &c->bytes), STATUS_OK);
    read_key(&r, "ids");
    read_ids(&r, c->ids, &c->count);
    read_key(&r, "special");
    read_ids(&r, c->special, &c->special_count);
    read_key(&r, "decoded");
    assert_int_equal(json_reader_text(&r, c->decoded, LINE, &c->decoded_bytes), STATUS_OK);
    read_key(&r, "whole");
    assert_int_equal(json_reader_text(&r, c->whole, LINE, &c->whole_bytes), STATUS_OK);
}

static void compare_ids(tokenizer_ids ids, const uint32_t *expected, size_t count) {
    for (size_t i = 0; i < count && i < ids.count; i++) assert_int_equal(ids.id[i], expected[i]);
    assert_int_equal(ids.count, count);
}

static void compare_text(tokenizer_text text, const char *expected, uint64_t bytes) {
    assert_int_equal(text.bytes, bytes);
    if (bytes) assert_memory_equal(text.data, expected, bytes);
}

static void compare_stream(const tokenizer *t, tokenizer_work *w, const golden_case *c) {
    static char said[LINE];
    tokenizer_stream s = { .special = true };
    tokenizer_text text;
    size_t used = 0;
    for (size_t i = 0; i <= c->special_count; i++) {
        if (i < c->special_count)
            assert_int_equal(tokenizer_stream_add(t, w, &s, c->special[i], &text), STATUS_OK);
        else
            assert_int_equal(tokenizer_stream_end(t, w, &s, &text), STATUS_OK);
        memcpy(said + used, text.data, text.bytes);
        used += text.bytes;
    }
    compare_text((tokenizer_text){ said, used }, c->whole, c->whole_bytes);
}

static void compare_case(const tokenizer *t, tokenizer_work *w, const golden_case *c) {
    tokenizer_ids ids;
    tokenizer_text text;
    for (int i = 0; i < 2; i++) { /* the second time words come from the cache */
        assert_int_equal(tokenizer_encode(t, w, c->text, c->bytes, false, &ids), STATUS_OK);
        compare_ids(ids, c->ids, c->count);
    }
    assert_int_equal(tokenizer_encode(t, w, c->text, c->bytes, true, &ids), STATUS_OK);
    compare_ids(ids, c->special, c->special_count);
    ids = (tokenizer_ids){ c->special, c->special_count };
    assert_int_equal(tokenizer_decode(t, w, ids, false, &text), STATUS_OK);
    compare_text(text, c->decoded, c->decoded_bytes);
    assert_int_equal(tokenizer_decode(t, w, ids, true, &text), STATUS_OK);
    compare_text(text, c->whole, c->whole_bytes);
    compare_stream(t, w, c);
}

static int compare_file(const char *name) {
    static golden_case c;
    char path[512];
    char *text;
    uint64_t bytes;
    int cases = 0;
    tokenizer_work *w;
    snprintf(path, sizeof path, "%s/%s", golden, name);
    tokenizer *t = open_file(path);
    assert_int_equal(tokenizer_work_open(t, &w), STATUS_OK);
    snprintf(path, sizeof path, "%s/%sl", golden, name);
    assert_int_equal(io_read_file(path, 1 << 20, &text, &bytes), STATUS_OK);
    for (uint64_t at = 0, end; at < bytes; at = end + 1, cases++) {
        end = (uint64_t)((const char *)memchr(text + at, '\n', bytes - at) - text);
        read_case(text + at, end - at, &c);
        compare_case(t, w, &c);
    }
    free(text);
    tokenizer_work_close(w);
    tokenizer_close(t);
    return cases;
}

static void test_goldens(void **state) {
    (void)state;
    struct dirent *item;
    int files = 0, cases = 0;
    DIR *folder = opendir(golden);
    assert_non_null(folder);
    while ((item = readdir(folder))) {
        size_t n = strlen(item->d_name);
        if (n < 5 || strcmp(item->d_name + n - 5, ".json") != 0) continue;
        print_message("%s\n", item->d_name);
        cases += compare_file(item->d_name);
        files++;
    }
    closedir(folder);
    assert_true(files >= 19 && cases >= 12 * files);
}

/* ---- long documents ---- */

/* The golden texts of a tokenizer, one behind the other, `times` times. */
static char *long_document(const char *name, int times, size_t *bytes) {
    static golden_case c;
    char path[512], *lines, *all = malloc((size_t)1 << 22);
    uint64_t size;
    assert_non_null(all);
    *bytes = 0;
    snprintf(path, sizeof path, "%s/%s.jsonl", golden, name);
    assert_int_equal(io_read_file(path, 1 << 20, &lines, &size), STATUS_OK);
    for (int i = 0; i < times; i++)
        for (uint64_t at = 0, end; at < size; at = end + 1) {
            end = (uint64_t)((const char *)memchr(lines + at, '\n', size - at) - lines);
            read_case(lines + at, end - at, &c);
            memcpy(all + *bytes, c.text, c.bytes);
            *bytes += c.bytes;
        }
    free(lines);
    return all;
}

/* Window by window, in which nothing but the last may be left over; how many windows there were. */
static size_t compare_windows(const tokenizer *t, tokenizer_work *w, tokenizer_text text, size_t window) {
    tokenizer_document d = { 0 };
    tokenizer_ids ids;
    assert_int_equal(tokenizer_encode(t, w, text.data, text.bytes, false, &ids), STATUS_OK);
    size_t count = ids.count, done = 0, windows = 0;
    uint32_t *whole = malloc(count * sizeof *whole);
    assert_non_null(whole);
    memcpy(whole, ids.id, count * sizeof *whole);
    for (size_t at = 0, held = 0; at < text.bytes; at += d.used, held -= d.used, windows++) {
        held += d.used || held == 0 ? window - (held < window ? held : window)
                                    : window; /* longer where nothing came */
        bool last = held >= text.bytes - at;
        if (last) held = text.bytes - at;
        tokenizer_window part = { text.data + at, held, last };
        assert_int_equal(tokenizer_encode_window(t, w, &d, part, &ids), STATUS_OK);
        assert_true(done + ids.count <= count && d.used <= held);
        if (ids.count) assert_memory_equal(ids.id, whole + done, ids.count * sizeof *whole);
        done += ids.count;
    }
    assert_int_equal(done, count);
    free(whole);
    return windows;
}

static void test_windows(void **state) {
    (void)state;
    static const char *const names[] = { "gpt2", "llama3", "qwen2", "o200k", "deepseek", "llama2", "gemma" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[512];
        size_t bytes;
        tokenizer_work *w;
        char *text = long_document(names[i], 20, &bytes);
        snprintf(path, sizeof path, "%s/%s.json", golden, names[i]);
        tokenizer *t = open_file(path);
        assert_true(tokenizer_takes_windows(t));
        assert_int_equal(tokenizer_work_open(t, &w), STATUS_OK);
        for (size_t window = 64; window <= 4096; window = window * 3 / 2 + 1)
            assert_true(compare_windows(t, w, (tokenizer_text){ text, bytes }, window) >= bytes / window / 2);
        tokenizer_work_close(w);
        tokenizer_close(t);
        free(text);
    }
}

/* ---- files that are wrong ---- */

#define HEAD "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,"
#define VOCAB "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2}"
#define BPE "\"model\":{\"type\":\"BPE\"," VOCAB ",\"merges\":[\"a b\"]}}"
#define MODEL(inside) HEAD "\"model\":{" inside "}}"

static status open_text(const char *text, tokenizer **t) {
    json_source source = json_source_memory(text, strlen(text), "t.json", "the tokenizer");
    return tokenizer_open(&source, t);
}

static const struct {
    const char *text, *sentence;
} wrong[] = {
    { "{}", "there is no model" },
    { HEAD BPE "x", "something follows its end" },
    { "{\"version\":\"2.0\"," BPE, "the version is '2.0' and not 1.0" },
    { MODEL("\"type\":\"Other\"," VOCAB), "the model 'Other' is not known" },
    { MODEL("\"type\":\"BPE\"," VOCAB), "the model 'BPE' has no 'merges'" },
    { MODEL("\"type\":\"BPE\"," VOCAB ",\"merges\":[\"a c\"]"),
      "a merge has 'c', which is no token of the vocabulary" },
    { MODEL("\"type\":\"BPE\"," VOCAB ",\"merges\":[[\"b\",\"a\"]]"), "a merge has 'ba', which is no token" },
    { MODEL("\"type\":\"BPE\"," VOCAB ",\"merges\":[\"a  b\"]"),
      "a merge is two tokens with one blank between them" },
    { MODEL("\"type\":\"BPE\"," VOCAB ",\"merges\":[],\"dropout\":0.1"), "'dropout' is 0.1" },
    { MODEL("\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]"), "two tokens have the id 0" },
    { MODEL("\"type\":\"BPE\",\"vocab\":{\"a\":99999999},\"merges\":[]"), "an id is above" },
    { MODEL("\"type\":\"WordPiece\"," VOCAB ",\"unk_token\":\"a\""), "has no 'continuing_subword_prefix'" },
    { MODEL("\"type\":\"Unigram\",\"unk_id\":7,\"vocab\":[[\"a\",-1]]"),
      "'unk_id' is larger than the vocabulary" },
    { MODEL("\"type\":\"Unigram\"," VOCAB), "is a list of tokens with scores" },
    { HEAD "\"normalizer\":{\"type\":\"Odd\"}," BPE, "the normalizer 'Odd' is not known" },
    { HEAD "\"pre_tokenizer\":{\"type\":\"Odd\"}," BPE, "the pre-tokenizer 'Odd' is not known" },
    { HEAD "\"decoder\":{\"type\":\"CTC\"}," BPE, "the decoder 'CTC'" },
    { HEAD "\"post_processor\":{\"type\":\"Odd\"}," BPE, "the post-processor 'Odd' is not known" },
    { HEAD
      "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a&&b]\"},\"behavior\":\"Isolated\","
      "\"invert\":false}," BPE,
      "the pattern has && in a class at byte 2" },
    { HEAD "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Odd\","
           "\"invert\":false}," BPE,
      "'behavior' is not known as 'Odd'" },
    { HEAD "\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"/////w==\"}," BPE,
      "the map of characters ends within its trie" },
    { HEAD "\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"?\"}," BPE, "is not base64" },
    { HEAD
      "\"added_tokens\":[{\"id\":9,\"content\":\"x\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
      "\"normalized\":false,\"special\":false}]," BPE,
      "the added token 'x' has the id 9, but its place is 3" },
};

static void test_wrong_files(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tokenizer *t;
        assert_int_equal(open_text(wrong[i].text, &t), STATUS_INVALID);
        assert_null(t);
        if (!strstr(status_message(), wrong[i].sentence)) print_message("%s\n", status_message());
        assert_non_null(strstr(status_message(), wrong[i].sentence));
        assert_non_null(strstr(status_message(), "t.json: the tokenizer is wrong at byte "));
    }
}

static void test_wrong_text(void **state) {
    (void)state;
    tokenizer *t;
    tokenizer_work *w;
    tokenizer_ids ids;
    assert_int_equal(open_text(HEAD BPE, &t), STATUS_OK);
    assert_int_equal(tokenizer_work_open(t, &w), STATUS_OK);
    assert_int_equal(tokenizer_encode(t, w, "ab\xff", 3, false, &ids), STATUS_INVALID);
    assert_string_equal(status_message(), "the text is not UTF-8 at byte 2");
    assert_int_equal(tokenizer_encode(t, w, "abba", 4, false, &ids), STATUS_OK);
    compare_ids(ids, (uint32_t[]){ 2, 1, 0 }, 3);
    size_t bytes;
    assert_int_equal(tokenizer_id(t, "ab", 2), 2);
    assert_int_equal(tokenizer_id(t, "x", 1), TOKENIZER_NONE);
    assert_int_equal(tokenizer_size(t), 3);
    assert_memory_equal(tokenizer_token(t, 2, &bytes), "ab", 2);
    assert_null(tokenizer_token(t, 3, &bytes));
    tokenizer_work_close(w);
    tokenizer_close(t);
}

/* A word of a million characters that all merge: neither slow nor deep. */
static void test_long_word(void **state) {
    (void)state;
    enum { LONG = 1000000 };
    tokenizer *t;
    tokenizer_work *w;
    tokenizer_ids ids;
    char *text = malloc(LONG);
    assert_non_null(text);
    for (int i = 0; i < LONG; i++) text[i] = "ab"[i & 1];
    assert_int_equal(open_text(HEAD BPE, &t), STATUS_OK);
    assert_int_equal(tokenizer_work_open(t, &w), STATUS_OK);
    assert_int_equal(tokenizer_encode(t, w, text, LONG, false, &ids), STATUS_OK);
    assert_int_equal(ids.count, LONG / 2);
    for (size_t i = 0; i < ids.count; i++) assert_int_equal(ids.id[i], 2);
    tokenizer_work_close(w);
    tokenizer_close(t);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),     cmocka_unit_test(test_windows),
        cmocka_unit_test(test_wrong_files), cmocka_unit_test(test_wrong_text),
        cmocka_unit_test(test_long_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
