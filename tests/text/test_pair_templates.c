/* What a tokenizer puts around two texts, and the types of their tokens: as the tokenizers library 0.23.3 has
 * it for encode("a b", "c"), kind by kind. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "io/file.h"
#include "io/json_file.h"
#include "io/scratch.h"
#include "text/tokenizer/tokenizer.h"

enum { MOST = 12 };

static tokenizer *open_at(const char *path) {
    int file;
    uint64_t bytes;
    tokenizer *t = NULL;
    assert_int_equal(io_open(path, &file, &bytes), STATUS_OK);
    json_source source = json_file_source(&file, path, "the file", 0, bytes);
    if (tokenizer_open(&source, &t) != STATUS_OK) fail_msg("%s", status_message());
    return t;
}

static void add(const tokenizer_typed *run, uint32_t *ids, uint32_t *types, size_t *count) {
    for (size_t i = 0; i < run->count; i++) ids[*count] = run->id[i], types[(*count)++] = run->type[i];
}

static void add_text(const tokenizer *t, const char *said, uint32_t type, uint32_t *ids, uint32_t *types,
                     size_t *count) {
    tokenizer_work *w;
    tokenizer_ids found;
    assert_int_equal(tokenizer_work_open(t, &w), STATUS_OK);
    assert_int_equal(tokenizer_encode(t, w, said, strlen(said), false, &found), STATUS_OK);
    for (size_t i = 0; i < found.count; i++) ids[*count] = found.id[i], types[(*count)++] = type;
    tokenizer_work_close(w);
}

static void pairs_are_the_librarys(void **state) {
    (void)state;
    static const struct {
        const char *kind;
        size_t count;
        uint32_t ids[MOST], types[MOST];
    } cases[] = { { "bert", 6, { 2, 26, 27, 3, 28, 3 }, { 0, 0, 0, 0, 1, 1 } },
                  { "clip", 6, { 0, 288, 1, 1, 346, 1 }, { 0, 0, 0, 0, 1, 1 } },
                  { "gemma", 5, { 1, 270, 424, 1, 272 }, { 0, 0, 0, 1, 1 } },
                  { "gpt2", 3, { 65, 307, 67 }, { 0, 0, 1 } },
                  { "llama2", 5, { 1, 412, 423, 1, 452 }, { 0, 0, 0, 1, 1 } },
                  { "llama3", 4, { 380, 64, 306, 66 }, { 0, 0, 0, 0 } },
                  { "roberta", 7, { 0, 274, 310, 2, 2, 378, 2 }, { 0, 0, 0, 0, 0, 0, 0 } },
                  { "t5", 8, { 3, 11, 3, 80, 1, 3, 36, 1 }, { 0, 0, 0, 0, 0, 0, 0, 0 } },
                  { "characters", 3, { 0, 175, 0 }, { 0, 0, 1 } } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[256];
        uint32_t ids[64], types[64];
        size_t count = 0;
        tokenizer_pair p;
        snprintf(path, sizeof path, SNUG_ROOT "/tests/text/golden/%s.json", cases[i].kind);
        tokenizer *t = open_at(path);
        assert_int_equal(tokenizer_take_whole(t), STATUS_OK);
        assert_true(tokenizer_around_pair(t, &p));
        add(&p.before, ids, types, &count);
        add_text(t, "a b", p.first, ids, types, &count);
        add(&p.between, ids, types, &count);
        add_text(t, "c", p.second, ids, types, &count);
        add(&p.behind, ids, types, &count);
        if (count != cases[i].count) fail_msg("%s: %zu ids", cases[i].kind, count);
        for (size_t k = 0; k < count; k++)
            if (ids[k] != cases[i].ids[k] || types[k] != cases[i].types[k])
                fail_msg("%s: id %zu is %u of type %u", cases[i].kind, k, ids[k], types[k]);
        tokenizer_close(t);
    }
}

#define TOKEN(type) "{\"SpecialToken\": {\"id\": \"x\", \"type_id\": " type "}}"
#define TEXT(name, type) "{\"Sequence\": {\"id\": \"" name "\", \"type_id\": " type "}}"

static tokenizer *with_pair(const char *pair) {
    char data[2048];
    snprintf(
        data, sizeof data,
        "{\"model\": {\"type\": \"WordLevel\", \"unk_token\": \"x\", \"vocab\": {\"x\": 0, \"y\": 1}}, "
        "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [" TEXT(
            "A",
            "0") "], "
                 "\"pair\": [%s], \"special_tokens\": {\"x\": {\"id\": \"x\", \"ids\": [1, 0], \"tokens\": "
                 "[\"y\", \"x\"]}}}}",
        pair);
    scratch_write("pair.json", data, strlen(data));
    return open_at("pair.json");
}

/* A special token may be several ids; texts in another order, twice, or not at all are none of ours, and such
 * a file is read all the same. */
static void templates_of_other_forms(void **state) {
    (void)state;
    static const char *const odd[] = { TEXT("B", "0") ", " TEXT("A", "0"), TEXT("A", "0"), "",
                                       TEXT("A", "0") ", " TEXT("A", "1"),
                                       TEXT("A", "0") ", " TEXT("B", "1") ", " TEXT("B", "1") };
    tokenizer_pair p;
    tokenizer *t = with_pair(TOKEN("4") ", " TEXT("A", "2") ", " TEXT("B", "3") ", " TOKEN("5"));
    assert_true(tokenizer_around_pair(t, &p));
    assert_true(p.before.count == 2 && p.between.count == 0 && p.behind.count == 2);
    assert_true(p.before.id[0] == 1 && p.before.id[1] == 0 && p.before.type[1] == 4);
    assert_true(p.behind.id[0] == 1 && p.behind.type[0] == 5 && p.behind.type[1] == 5);
    assert_true(p.first == 2 && p.second == 3);
    tokenizer_close(t);
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        t = with_pair(odd[i]);
        if (tokenizer_around_pair(t, &p)) fail_msg("%s", odd[i]);
        assert_int_equal(tokenizer_around(t).before.count, 0);
        tokenizer_close(t);
    }
}

/* The library fails where a text would have to be cut and is no second one. */
static void a_text_alone_is_not_cut_as_a_second_one(void **state) {
    (void)state;
    static const char data[] =
        "{\"truncation\": {\"direction\": \"Right\", \"max_length\": 3, \"strategy\": \"OnlySecond\", "
        "\"stride\": 0}, \"pre_tokenizer\": {\"type\": \"Whitespace\"}, \"model\": {\"type\": \"WordLevel\", "
        "\"unk_token\": \"x\", \"vocab\": {\"x\": 0}}}";
    tokenizer_work *w;
    tokenizer_ids ids;
    scratch_write("second.json", data, strlen(data));
    tokenizer *t = open_at("second.json");
    assert_int_equal(tokenizer_work_open(t, &w), STATUS_OK);
    assert_int_equal(tokenizer_encode(t, w, "x x x", 5, true, &ids), STATUS_OK);
    assert_int_equal(ids.count, 3);
    assert_int_equal(tokenizer_encode(t, w, "x x x x", 7, true, &ids), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "the text has 4 tokens, and the tokenizer takes 3"));
    tokenizer_work_close(w);
    tokenizer_close(t);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(pairs_are_the_librarys),
                                        cmocka_unit_test(templates_of_other_forms),
                                        cmocka_unit_test(a_text_alone_is_not_cut_as_a_second_one) };
    return cmocka_run_group_tests_name("templates of pairs", tests, scratch_open, scratch_close);
}
