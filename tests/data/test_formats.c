/* Each format gives the tokens that are in the file, and one sentence for a file that is damaged. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "data/formats/jsonl_reader.h"
#include "data/text_source.h"
#include "io/scratch.h"

enum { T = 10, MOST = 300000 };

static data_source opened(const text_source_options *o) {
    data_source s;
    if (text_source_open(o, &s) != STATUS_OK) fail_msg("%s", status_message());
    return s;
}

/* All windows of the file, in an order that jumps, hold the expected tokens. */
static void check_all(const char *path, uint32_t context, const uint8_t *expected, uint64_t count) {
    text_source_options o = { .path = path, .context = context, .vocabulary = 256 };
    data_source s = opened(&o);
    int32_t *tokens = calloc(context, 4), *labels = calloc(context, 4);
    char *scratch = aligned_alloc(64, (s.scratch_bytes + 63) / 64 * 64);
    void *fields[] = { tokens, labels };
    assert_int_equal(text_source_tokens(&s), count);
    assert_int_equal(s.samples, (count - 1) / context);
    assert_int_equal(data_source_check(&s), STATUS_OK);
    assert_true(s.held_bytes > 0);
    for (uint64_t k = 0; k < s.samples; k++) {
        uint64_t sample = k * 7919 % s.samples;
        if (s.read(&s, sample, scratch, fields) != STATUS_OK) fail_msg("%s", status_message());
        for (uint64_t i = 0; i < context; i++) {
            assert_int_equal(tokens[i], expected[sample * context + i]);
            assert_int_equal(labels[i], expected[sample * context + i + 1]);
        }
    }
    data_source_close(&s);
    free(scratch), free(tokens), free(labels);
}

/* ---- NumPy ---- */

/* Writes a .npy of version `version` with this dictionary, then the data. */
static void write_npy(const char *path, int version, const char *dictionary, const void *data, size_t bytes) {
    static uint8_t file[8192];
    size_t length = strlen(dictionary), at = version == 1 ? 10 : 12;
    memcpy(file, "\x93NUMPY", 6);
    file[6] = (uint8_t)version, file[7] = 0, file[10] = file[11] = 0;
    file[8] = (uint8_t)length, file[9] = (uint8_t)(length >> 8);
    memcpy(file + at, dictionary, length);
    memcpy(file + at + length, data, bytes);
    scratch_write(path, file, at + length + bytes);
}

static void arrays_are_read(void **state) {
    (void)state;
    static const struct {
        const char *type;
        size_t width;
    } types[] = { { "|u1", 1 }, { "<u2", 2 }, { "<u4", 4 }, { "<u8", 8 },
                  { "<i2", 2 }, { "<i4", 4 }, { "<i8", 8 } };
    uint8_t expected[103], data[103 * 8];
    for (int i = 0; i < 103; i++) expected[i] = (uint8_t)(i * 7);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int version = 1; version <= 3; version++) {
            char dictionary[128];
            memset(data, 0, sizeof data);
            for (size_t i = 0; i < 103; i++) data[i * types[t].width] = expected[i];
            snprintf(dictionary, sizeof dictionary,
                     version == 3 ? "{\"shape\":(103,),\"descr\":\"%s\",\"fortran_order\":True}     \n"
                                  : "{'descr': '%s', 'fortran_order': False, 'shape': (103,), }\n",
                     types[t].type);
            write_npy("a.npy", version, dictionary, data, 103 * types[t].width);
            check_all("a.npy", T, expected, 103);
        }
}

static const struct {
    const char *dictionary, *says;
} bad_arrays[] = {
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (12,), }\n",
      "items of type '<f4'; token ids are whole" },
    { "{'descr': '|b1', 'fortran_order': False, 'shape': (12,), }\n", "items of type '|b1'" },
    { "{'descr': '|O', 'fortran_order': False, 'shape': (12,), }\n", "items of type '|O'" },
    { "{'descr': '', 'fortran_order': False, 'shape': (12,), }\n", "items of type ''" },
    { "{'descr': '<u16', 'fortran_order': False, 'shape': (12,), }\n", "items of type '<u16'" },
    { "{'descr': '>u4', 'fortran_order': False, 'shape': (12,), }\n",
      "big-endian ('>u4'); save ids.astype('<u4')" },
    { "{'descr': '?u4', 'fortran_order': False, 'shape': (12,), }\n", "the order of its bytes" },
    { "{'descr': [('a', '<u4')], 'fortran_order': False, 'shape': (12,), }\n", "several fields" },
    { "{'descr': '<u4', 'fortran_order': False, 'shape': (3, 4), }\n",
      "has 2 dimensions; token ids stand in one row" },
    { "{'descr': '<u4', 'fortran_order': False, 'shape': (), }\n", "has 0 dimensions" },
    { "{'descr': '<u4', 'fortran_order': False, 'shape': (13,), }\n", "should have 13 ids of 4 bytes" },
    { "{'descr': '<u4', 'fortran_order': False, 'shape': (11,), }\n", "should have 11 ids of 4 bytes" },
    { "{'descr': '<u4', 'fortran_order': False, 'shape': (4611686018427387916,), }\n",
      "should have 4611686018427387916 ids" },
    { "{'descr': '<u4', 'fortran_order': False, 'shape': (18446744073709551616,), }\n", "64 bits" },
    { "{'descr': '<u4', 'fortran_order': False, 'shape': (-1,), }\n", "whole numbers" },
    { "{'descr': '<u4', 'fortran_order': False, 'shape': (12", "does not end" },
    { "{'descr': '<u4', 'fortran_order': False, 'shape': 12, }\n", "does not begin with (" },
    { "{'descr': '<u4', 'fortran_order': Maybe, 'shape': (12,), }\n", "order is unknown" },
    { "{'descr': '<u4', 'fortran_order': False}\n", "lacks descr" },
    { "{'descr': '<u4', 'descr': '<u4', 'fortran_order': False, 'shape': (12,)}\n", "a key twice" },
    { "{'descr': '<u4', 'fortran_order': False, 'shape': (12,), 'more': 1}\n", "another key" },
    { "{'descr': '<u4, 'fortran_order': False, 'shape': (12,)}\n", "header" },
    { "{'descr' '<u4'}\n", "colon" },
    { "{'descr': '<u4', 'fortran_order': False, 'shape': (12,), } and\n", "follows the dictionary" },
    { "[]\n", "no dictionary" },
    { "", "no dictionary" },
    { "{'descr': '<u4", "too long or does not end" },
};

static void damaged_arrays_are_refused(void **state) {
    (void)state;
    uint32_t data[12] = { 0 };
    text_source_options o = { .path = "bad.npy", .context = T, .vocabulary = 256 };
    data_source s;
    for (size_t i = 0; i < sizeof bad_arrays / sizeof *bad_arrays; i++) {
        write_npy("bad.npy", 1, bad_arrays[i].dictionary, data, sizeof data);
        assert_int_equal(text_source_open(&o, &s), STATUS_INVALID);
        if (!strstr(status_message(), bad_arrays[i].says))
            fail_msg("%s: '%s'", bad_arrays[i].dictionary, status_message());
    }
    static const char *const heads[] = { "\x93NUMPY",
                                         "\x93NUMPY\1",
                                         "\x93NUMPY\1\0\x10",
                                         "\x93NUMPZ\1\0ab",
                                         "x",
                                         "\x93NUMPY\4\0ab",
                                         "\x93NUMPY\2\0\xff\xff\xff\xff" };
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        scratch_write("bad.npy", heads[i], i == 6 ? 12 : strlen(heads[i]) + 1);
        assert_int_equal(text_source_open(&o, &s), STATUS_INVALID);
        if (!strstr(status_message(), "no NumPy array that can be read")) fail_msg("%s", status_message());
    }
    int64_t negative[12] = { 0, 1, 2, -3 };
    write_npy("bad.npy", 1, "{'descr': '<i8', 'fortran_order': False, 'shape': (12,), }\n", negative,
              sizeof negative);
    s = opened(&o);
    assert_int_equal(data_source_check(&s), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "bad.npy: token 3 is -3, but the vocabulary has 256 ids"));
    data_source_close(&s);
}

/* ---- token files of llm.c ---- */

static void headers_of_token_files_are_known(void **state) {
    (void)state;
    int32_t file[256 + 103] = { 20240520, 1, 103 };
    uint8_t expected[103];
    for (int i = 0; i < 103; i++) {
        uint16_t id = expected[i] = (uint8_t)(i * 5);
        memcpy((char *)(file + 256) + 2 * i, &id, 2);
    }
    scratch_write("h.bin", file, 1024 + 206);
    check_all("h.bin", T, expected, 103);
    text_source_options o = { .path = "h.bin", .kind = DATA_KIND_U16, .context = T, .vocabulary = 256 };
    data_source s = opened(&o); /* as asked: the header is tokens as well */
    assert_int_equal(text_source_tokens(&s), 512 + 103);
    data_source_close(&s);
    o.kind = DATA_KIND_AUTO;
    scratch_write("h.bin", file, 1024 + 200);
    assert_int_equal(text_source_open(&o, &s), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "should have 103 tokens by its header and has 100"));
    file[1] = 2;
    scratch_write("h.bin", file, 1024 + 206);
    assert_int_equal(text_source_open(&o, &s), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "of version 2; version 1 is known"));
    file[0] = 20240801, file[1] = 7;
    for (int i = 0; i < 103; i++) file[256 + i] = expected[i];
    scratch_write("h.bin", file, sizeof file);
    check_all("h.bin", T, expected, 103);
}

/* ---- JSON lines ---- */

static void texts_of_lines_are_read(void **state) {
    (void)state;
    static const char lines[] =
        "\xef\xbb\xbf{\"text\": \"plain \xc3\xa9 text\"}\n"
        "\n  \t\r\n"
        "{ \"id\": 3, \"meta\": {\"text\": \"not this\", \"a\": [1, {\"b\": null}, \"]}\"]}, \"text\" : "
        "\"a\\\"b\\\\c\\/d\\b\\f\\n\\r\\t\\u0041\\u00e9\\ud83d\\ude00\\u0000z\" , \"after\": -1.5e+3 }\r\n"
        "{\"te\\u0078t\":\"\"}\n"
        "{\"texts\":\"x\",\"tex\":\"y\",\"\":\"z\",\"text\":\"last\"}";
    static const char expected[] =
        "plain \xc3\xa9 text\na\"b\\c/d\b\f\n\r\tA\xc3\xa9\xf0\x9f\x98\x80\0z\n\nlast\n";
    scratch_write("t.jsonl", lines, sizeof lines - 1);
    check_all("t.jsonl", 3, (const uint8_t *)expected, sizeof expected - 1);
    check_all("t.jsonl", T, (const uint8_t *)expected, sizeof expected - 1);
}

/* Texts far longer than the buffer and the stretches between marks, escapes and characters at every place of
 * the buffer's end. */
static void long_texts_are_reached_anywhere(void **state) {
    (void)state;
    static char file[2 * MOST];
    static uint8_t expected[MOST];
    size_t at = 0;
    uint64_t count = 0, draw = 3;
    while (count + 70000 < MOST) {
        uint64_t length =
            scratch_random(&draw) % 3 ? scratch_random(&draw) % 40 : scratch_random(&draw) % 60000;
        at += (size_t)sprintf(file + at, "{\"n\": %u, \"text\": \"", scratch_random(&draw) % 1000);
        for (uint64_t i = 0; i < length; i++) {
            switch (scratch_random(&draw) % 16) {
            case 0: memcpy(file + at, "\\n", 2), at += 2, expected[count++] = '\n'; break;
            case 1: memcpy(file + at, "\\u0007", 6), at += 6, expected[count++] = 7; break;
            case 2:
                memcpy(file + at, "\xf0\x9f\x98\x80", 4), at += 4;
                memcpy(expected + count, "\xf0\x9f\x98\x80", 4), count += 4;
                i += 3;
                break;
            default:
                expected[count] = (uint8_t)('a' + scratch_random(&draw) % 26),
                file[at++] = (char)expected[count++];
            }
        }
        at += (size_t)sprintf(file + at, "\"}\n");
        expected[count++] = '\n';
    }
    assert_true(count > 2 * (64 << 10) && at < sizeof file);
    scratch_write("long.ndjson", file, at);
    check_all("long.ndjson", 100, expected, count);
    check_all("long.ndjson", 70000, expected, count);
}

static void damaged_lines_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *lines, *says;
    } bad[] = {
        { "{\"text\": \"good\"}\n{\"txt\": \"a\"}\n", "bad.jsonl, line 2: it has no 'text'; each line is" },
        { "{}\n", "line 1: it has no 'text'" },
        { "\n\n{\"text\": 5}\n", "line 3: its 'text' is no text" },
        { "{\"text\": null}\n", "its 'text' is no text" },
        { "{\"text\": \"a\", \"text\": \"b\"}\n", "'text' comes twice" },
        { "[{\"text\": \"a\"}]\n", "line 1: '{' is missing" },
        { "{\n\"text\": \"a\"}\n", "line 1: '\"' is missing" },
        { "{\"a\": 1\n}", "line 1: it has no 'text'" },
        { "{\"a\": \n1}", "an object does not end in its line" },
        { "{\"text\": \"a\n\"}\n", "a text does not end in its line" },
        { "{\"text\": \"a", "a text does not end" },
        { "{\"text\": \"a\"", "'}' is missing" },
        { "{\"text\": \"a\"} {\"text\": \"b\"}\n", "something follows the object" },
        { "{\"text\": \"\xff\"}\n", "a text is not UTF-8" },
        { "{\"text\": \"\xe2\x82\"}\n", "a text is not UTF-8" },
        { "{\"text\": \"\\x\"}\n", "an unknown escape" },
        { "{\"text\": \"\\u12g4\"}\n", "four hexadecimal digits" },
        { "{\"text\": \"\\ud83d\"}\n", "half a surrogate" },
        { "{\"text\": \"\\ud83d\\u0041\"}\n", "half a surrogate" },
        { "{\"text\": \"\\ude00\"}\n", "half a surrogate" },
        { "{\"text\": \"\\udc00\\udc00\"}\n", "half a surrogate" },
        { "{\"text\": \"\\ud800\\udbff\"}\n", "half a surrogate" },
        { "{\"text\": \"\\udbff\\ue000\"}\n", "half a surrogate" },
        { "{\"text\": \"\\u12", "four hexadecimal digits" },
        { "{\"text\": \"\t\"}\n", "a control character" },
        { "{\"a\": [1, 2}, \"text\": \"a\"}\n", "brackets do not agree" },
        { "{\"a\": , \"text\": \"a\"}\n", "a value is missing" },
        { "{\"a\" 1, \"text\": \"a\"}\n", "':' is missing" },
        { "plain text\n", "'{' is missing" },
        { "\xff\xfe{\0\"\0", "'{' is missing" },
    };
    text_source_options o = { .path = "bad.jsonl", .context = T, .vocabulary = 256 };
    data_source s;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        scratch_write("bad.jsonl", bad[i].lines, strlen(bad[i].lines));
        assert_int_equal(text_source_open(&o, &s), STATUS_INVALID);
        if (!strstr(status_message(), bad[i].says)) fail_msg("%s: '%s'", bad[i].lines, status_message());
    }
    char deep[400] = "{\"a\": ";
    for (int i = 0; i < 65; i++) strcat(deep, "[");
    scratch_write("bad.jsonl", deep, strlen(deep));
    assert_int_equal(text_source_open(&o, &s), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "nested more than 64 deep"));
    scratch_write("bad.jsonl", "\n\n", 2);
    assert_int_equal(text_source_open(&o, &s), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "bad.jsonl is empty"));
}

static void changed_files_are_noticed(void **state) {
    (void)state;
    static const char line[] = "{\"text\": \"0123456789 0123456789\"}\n";
    text_source_options o = { .path = "c.jsonl", .context = T, .vocabulary = 256 };
    _Alignas(64) static char scratch[JSONL_BUFFER];
    int32_t a[T], b[T];
    void *fields[] = { a, b };
    scratch_write("c.jsonl", line, sizeof line - 1);
    data_source s = opened(&o);
    assert_int_equal(s.read(&s, 1, scratch, fields), STATUS_OK);
    static const char other[] = "{\"text\": \"0123456789 0\"}123456789\n";
    scratch_write("c.jsonl", other, sizeof other - 1);
    assert_int_equal(s.read(&s, 1, scratch, fields), STATUS_FAILED);
    assert_non_null(strstr(status_message(), "c.jsonl has changed since it was opened"));
    assert_int_equal(truncate("c.jsonl", 15), 0);
    assert_int_equal(s.read(&s, 1, scratch, fields), STATUS_FAILED);
    assert_non_null(strstr(status_message(), "it has become shorter"));
    data_source_close(&s);
}

/* A file without tokens neither counts nor decides of which kind the others are. */
static void empty_files_are_left_out(void **state) {
    (void)state;
    assert_int_equal(mkdir("mixed", 0700), 0);
    scratch_write("mixed/a.jsonl", "\n", 1);
    scratch_write("mixed/b.txt", "0123456789012345", 16);
    check_all("mixed", T, (const uint8_t *)"0123456789012345", 16);
    scratch_write("mixed/c.jsonl", "{\"text\": \"a\"}\n", 14);
    data_source s;
    text_source_options o = { .path = "mixed", .context = T, .vocabulary = 256 };
    assert_int_equal(text_source_open(&o, &s), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "mixed/b.txt holds bytes but mixed/c.jsonl holds jsonl"));
}

/* What a folder of many files takes is planned, with the names that are held while it is listed. */
static void many_files_are_counted(void **state) {
    (void)state;
    uint64_t held[2];
    text_source_options o = { .path = "many", .context = T, .vocabulary = 256 };
    assert_int_equal(mkdir("many", 0700), 0);
    for (int i = 0; i < 1200; i++) {
        char path[32];
        snprintf(path, sizeof path, "many/%04d.txt", i);
        scratch_write(path, "abcdefgh", 8);
        if (i != 1099 && i != 1199) continue;
        data_source s = opened(&o);
        held[i == 1199] = s.held_bytes;
        data_source_close(&s);
    }
    assert_true(held[1] - held[0] >= 100 * (sizeof(data_file) + sizeof "many/0000.txt" + 120));
}

static void ids_are_checked_before_a_run(void **state) {
    (void)state;
    scratch_write("small.txt", "aaaaaaaaaaaaaaaaaaaz", 20);
    text_source_options o = { .path = "small.txt", .context = T, .vocabulary = 'b' };
    data_source s = opened(&o), rest;
    assert_int_equal(data_source_check(&s), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "small.txt: token 19 is 122"));
    data_source_close(&s);
    o.hold_out = true;
    s = opened(&o);
    assert_int_equal(text_source_held_out(&s, &rest), STATUS_OK);
    assert_int_equal(rest.samples, 0);
    assert_int_equal(data_source_check(&s), STATUS_OK);
    assert_int_equal(data_source_check(&rest), STATUS_INVALID);
    data_source_close(&rest);
    data_source_close(&s);
    scratch_write("small.jsonl", "{\"text\":\"aaaaaaaaaaaaaaaaaaaz\"}", 31);
    o = (text_source_options){ .path = "small.jsonl", .context = T, .vocabulary = 'b' };
    s = opened(&o);
    assert_int_equal(data_source_check(&s), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "small.jsonl: token 19 is 122"));
    data_source_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_are_read),
        cmocka_unit_test(damaged_arrays_are_refused),
        cmocka_unit_test(headers_of_token_files_are_known),
        cmocka_unit_test(texts_of_lines_are_read),
        cmocka_unit_test(long_texts_are_reached_anywhere),
        cmocka_unit_test(damaged_lines_are_refused),
        cmocka_unit_test(changed_files_are_noticed),
        cmocka_unit_test(empty_files_are_left_out),
        cmocka_unit_test(many_files_are_counted),
        cmocka_unit_test(ids_are_checked_before_a_run),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
