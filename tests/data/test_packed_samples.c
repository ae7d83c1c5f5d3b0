/* Documents that stand one behind the other in a sample: which token belongs to which, where in it the token
 * stands, and that no label leads from one into another; in samples of any length, read in any order. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/text_source.h"
#include "io/scratch.h"

enum { MOST = 1 << 17, FIRST_POSITION = 2 };

/* What the texts come to: a token, and whether it begins a document. */
static uint8_t tokens[MOST];
static bool begins[MOST];
static uint64_t count;

static void expect_document(const char *words, size_t length) {
    for (size_t i = 0; i < length; i++) begins[count] = i == 0, tokens[count++] = (uint8_t)words[i];
}

static void compare(const data_source *s, uint64_t sample, uint32_t context, int32_t *const fields[4]) {
    int32_t segment = 0, position = FIRST_POSITION;
    for (uint32_t i = 0; i < context; i++) {
        uint64_t at = sample * context + i;
        if (i && begins[at]) segment++, position = FIRST_POSITION;
        assert_int_equal(fields[0][i], tokens[at]);
        assert_int_equal(fields[1][i], begins[at + 1] ? DATA_IGNORED_LABEL : tokens[at + 1]);
        assert_int_equal(fields[2][i], segment);
        if (s->field_count > 3) assert_int_equal(fields[3][i], position);
        position++;
    }
}

static void check(const char *path, uint32_t context, bool positions) {
    data_source s;
    text_source_options o = { .path = path, .context = context, .vocabulary = 256 };
    text_source_packing p = { .positions = positions, .first_position = FIRST_POSITION };
    if (text_source_open(&o, &s) != STATUS_OK) fail_msg("%s", status_message());
    assert_int_equal(text_source_pack(&s, &p), STATUS_OK);
    assert_int_equal(text_source_tokens(&s), count);
    assert_int_equal(s.field_count, positions ? 4 : 3);
    int32_t *fields[4];
    for (uint32_t f = 0; f < 4; f++) {
        if (f < s.field_count) assert_int_equal(s.field_bytes[f], context * sizeof(int32_t));
        fields[f] = malloc(context * sizeof(int32_t));
    }
    void *scratch = aligned_alloc(64, (s.scratch_bytes + 63) / 64 * 64);
    memset(scratch, 0, s.scratch_bytes);
    for (uint64_t k = 0; k < s.samples; k++) {
        uint64_t sample = k * 7919 % s.samples;
        if (s.read(&s, sample, scratch, (void *const *)fields) != STATUS_OK) fail_msg("%s", status_message());
        compare(&s, sample, context, fields);
    }
    for (int f = 0; f < 4; f++) free(fields[f]);
    free(scratch);
    data_source_close(&s);
}

static void records_are_documents(void **state) {
    (void)state;
    static const char lines[] =
        "{\"text\": \"one\"}\n{\"text\": \"\"}\n\n{\"text\": \"three and \\u00e4\", \"n\": 1}\n"
        "{\"text\": \"4\"}\n{\"text\": \"five is the last\"}";
    count = 0;
    expect_document("one\n", 4);
    expect_document("\n", 1);
    expect_document("three and \xc3\xa4\n", 13);
    expect_document("4\n", 2);
    expect_document("five is the last\n", 17);
    scratch_write("d.jsonl", lines, sizeof lines - 1);
    for (uint32_t context = 1; context < 36; context++) check("d.jsonl", context, context % 2);
    data_source s;
    assert_int_equal(
        text_source_open(&(text_source_options){ .path = "d.jsonl", .context = 4, .vocabulary = 256 }, &s),
        STATUS_OK);
    assert_int_equal(text_source_documents(&s), 5);
    data_source_close(&s);
}

/* More than one stretch, so that samples are read from marks in the middle of documents. */
static void long_records_too(void **state) {
    (void)state;
    static char line[MOST + 64];
    count = 0;
    FILE *f = fopen("long.jsonl", "w");
    for (int i = 0; count < 100000; i++) {
        static char words[5000];
        size_t length = (size_t)(i * 977 % 4000);
        for (size_t k = 0; k < length; k++) words[k] = (char)('a' + (k * 7 + (size_t)i) % 26);
        words[length] = '\n';
        expect_document(words, length + 1);
        words[length] = 0;
        snprintf(line, sizeof line, "{\"text\": \"%s\"}\n", words);
        fputs(line, f);
    }
    fclose(f);
    check("long.jsonl", 64, true);
    check("long.jsonl", 1000, false);
}

static void files_are_documents(void **state) {
    (void)state;
    count = 0;
    assert_int_equal(mkdir("texts", 0777), 0);
    scratch_write("texts/a", "first text", 10);
    scratch_write("texts/b", "2nd", 3);
    scratch_write("texts/c", "and the third", 13);
    expect_document("first text", 10);
    expect_document("2nd", 3);
    expect_document("and the third", 13);
    for (uint32_t context = 1; context < 25; context++) check("texts", context, true);
}

/* Files of ids hold streams: where one ends is no end of a document. What was held out is told apart anew. */
static void others_have_none(void **state) {
    (void)state;
    data_source s, held;
    assert_int_equal(mkdir("ids", 0777), 0);
    scratch_write("ids/a.u16", "a\0b\0c\0d\0", 8);
    scratch_write("ids/b.u16", "e\0f\0g\0h\0", 8);
    text_source_options o = { .path = "ids", .kind = DATA_KIND_U16, .context = 2, .vocabulary = 256 };
    assert_int_equal(text_source_open(&o, &s), STATUS_OK);
    assert_int_equal(text_source_documents(&s), 0);
    data_source_close(&s);
    o = (text_source_options){ .path = "texts", .context = 1, .vocabulary = 256, .hold_out = true };
    assert_int_equal(text_source_open(&o, &s), STATUS_OK);
    assert_int_equal(text_source_pack(&s, &(text_source_packing){ 0 }), STATUS_OK);
    assert_int_equal(text_source_held_out(&s, &held), STATUS_OK);
    assert_int_equal(s.field_count, 3);
    assert_int_equal(held.field_count, 2);
    data_source_close(&held);
    data_source_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_are_documents),
        cmocka_unit_test(long_records_too),
        cmocka_unit_test(files_are_documents),
        cmocka_unit_test(others_have_none),
    };
    return cmocka_run_group_tests_name("packed_samples", tests, scratch_open, scratch_close);
}
