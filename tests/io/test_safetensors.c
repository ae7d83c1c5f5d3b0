#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/memory.h"
#include "io/file.h"
#include "io/json.h"
#include "io/safetensors.h"
#include "io/scratch.h"

static const float weights[6] = { 1, -2, 3.5f, 0, 1e-30f, 7 };
static const double moment[1] = { 0.1 };
static const int32_t steps[3] = { 1, 2, -3 };
static const uint8_t odd[5] = { 9, 8, 7, 6, 5 };

static const safetensors_item items[] = {
    { "odd", "U8", { { 5 }, 1 }, .data = odd, .bytes = sizeof odd },
    { "block.0.weight", "F32", { { 2, 3 }, 2 }, .data = weights, .bytes = sizeof weights },
    { "quote\" \\ \n \xc3\xa9", "I32", { { 3 }, 1 }, .data = steps, .bytes = sizeof steps },
    { "moment", "F64", { { 1, 1, 1, 1 }, 4 }, .data = moment, .bytes = sizeof moment },
    { "half", "BF16", { { 2 }, 1 }, .data = odd, .bytes = 4 },
    { "scalar", "F32", { { 0 }, 0 }, .data = weights + 2, .bytes = 4 },
    { "empty", "F32", { { 0, 4 }, 2 }, .data = weights, .bytes = 0 },
};
enum { ITEMS = sizeof items / sizeof *items };

/* ---- a disk that fails ---- */

static long reads, fails_at = -1; /* so far; the one that fails, -1: none */

ssize_t __real_pread(int file, void *data, size_t bytes, off_t at);
ssize_t __wrap_pread(int file, void *data, size_t bytes, off_t at);
ssize_t __wrap_pread(int file, void *data, size_t bytes, off_t at) {
    if (reads++ != fails_at) return __real_pread(file, data, bytes, at);
    errno = EIO;
    return -1;
}

static void what_is_written_is_read(void **state) {
    (void)state;
    safetensors s;
    uint64_t bytes, length;
    int handle;
    assert_int_equal(safetensors_write("a.safetensors", items, ITEMS), STATUS_OK);
    assert_int_equal(safetensors_file_bytes("a.safetensors", items, ITEMS, &bytes), STATUS_OK);
    assert_int_equal(io_open("a.safetensors", &handle, &length), STATUS_OK);
    close(handle);
    assert_int_equal(length, bytes);
    assert_int_equal(safetensors_open("a.safetensors", &s), STATUS_OK);
    assert_int_equal(s.count, ITEMS);
    for (int i = 0; i < ITEMS; i++) {
        const safetensors_entry *e = safetensors_find(&s, items[i].name);
        char read[64] = { 0 };
        assert_non_null(e);
        assert_string_equal(e->dtype, items[i].dtype);
        assert_true(safetensors_has_shape(e, &items[i].shape));
        assert_int_equal(e->bytes, items[i].bytes);
        assert_int_equal(e->offset % safetensors_dtype_bytes(e->dtype), 0);
        assert_int_equal(safetensors_read(&s, e, read, e->bytes), STATUS_OK);
        assert_memory_equal(read, items[i].data, items[i].bytes);
        assert_int_equal(safetensors_read(&s, e, read, e->bytes + 1), STATUS_INVALID);
        assert_non_null(strstr(status_message(), "safetensors: tensor '"));
    }
    float part[2];
    const safetensors_entry *e = safetensors_find(&s, "block.0.weight");
    assert_int_equal(safetensors_read_part(&s, e, 8, part, 8), STATUS_OK);
    assert_memory_equal(part, weights + 2, 8);
    assert_int_equal(safetensors_read_part(&s, e, 20, part, 8), STATUS_INVALID);
    assert_int_equal(safetensors_read_part(&s, e, UINT64_MAX, part, 8), STATUS_INVALID);
    assert_null(safetensors_find(&s, "block.0"));
    safetensors_close(&s);
    safetensors_close(&s);
}

static void no_tensors_are_a_file_too(void **state) {
    (void)state;
    safetensors s;
    assert_int_equal(safetensors_write("none.safetensors", NULL, 0), STATUS_OK);
    assert_int_equal(safetensors_open("none.safetensors", &s), STATUS_OK);
    assert_int_equal(s.count, 0);
    assert_null(safetensors_find(&s, "x"));
    safetensors_close(&s);
}

static void dtypes_have_names(void **state) {
    (void)state;
    for (int t = DTYPE_NONE + 1; t < DTYPE_COUNT; t++) {
        const char *name = safetensors_dtype_name((dtype)t);
        if (!name) continue;
        assert_int_equal(safetensors_dtype(name), t);
        assert_int_equal(safetensors_dtype_bytes(name), dtype_bytes((dtype)t));
    }
    assert_int_equal(safetensors_dtype("F17"), DTYPE_NONE);
    assert_int_equal(safetensors_dtype_bytes("F17"), 0);
}

static void make(const char *path, const char *header, uint64_t length, size_t data_bytes) {
    static char bytes[4096];
    size_t n = strlen(header);
    assert_true(8 + n + data_bytes <= sizeof bytes);
    memset(bytes, 0, sizeof bytes);
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, header, n);
    scratch_write(path, bytes, 8 + n + data_bytes);
}

/* Headers of others that are unusual and right. */
static void unusual_headers_are_read(void **state) {
    (void)state;
    static const struct {
        const char *header;
        size_t data;
        uint32_t count;
    } good[] = {
        { "{}", 0, 0 },
        { "{}   \n", 0, 0 },
        { " { } ", 0, 0 },
        { "{\"__metadata__\":{}}", 0, 0 },
        { "{\"__metadata__\":{\"a\":\"\\ud83d\\ude00\",\"b\":\"\"}}", 0, 0 },
        { "{\"a\":{\"data_offsets\":[0,4],\"shape\":[1],\"dtype\":\"F32\"}}", 4, 1 },
        { "{\n\"a\" : { \"dtype\" : \"F8_E4M3\" , \"shape\" : [ 2 , 2 ] , \"data_offsets\" : [ 0 , 4 ] } }",
          4, 1 },
        { "{\"\\u0061\":{\"dtype\":\"BOOL\",\"shape\":[],\"data_offsets\":[0,1]}}", 1, 1 },
        { "{\"\\u00fF\\uABCD\\uafaf\":{\"dtype\":\"BOOL\",\"shape\":[],\"data_offsets\":[0,1]}}", 1, 1 },
        { "{\"\\ud7ff\\ue000\\uffff\":{\"dtype\":\"BOOL\",\"shape\":[],\"data_offsets\":[0,1]}}", 1, 1 },
        { "{\"b\":{\"dtype\":\"I8\",\"shape\":[2],\"data_offsets\":[1,3]},\"__metadata__\":{\"x\":\"y\"},"
          "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
          3, 2 },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[4,4]},"
          "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
          4, 2 },
        { "{\"\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1, 1 },
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        safetensors s;
        make("good.safetensors", good[i].header, strlen(good[i].header), good[i].data);
        if (safetensors_open("good.safetensors", &s) != STATUS_OK)
            fail_msg("case %zu: %s", i, status_message());
        assert_int_equal(s.count, good[i].count);
        safetensors_close(&s);
    }
}

/* Whichever read fails, that is what is said. */
static void a_read_that_fails_is_said(void **state) {
    (void)state;
    bool reached = true;
    long at = 0;
    assert_int_equal(safetensors_write("failing.safetensors", items, ITEMS), STATUS_OK);
    for (; reached; at++) {
        safetensors s;
        reads = 0, fails_at = at;
        status result = safetensors_open("failing.safetensors", &s);
        reached = reads > at;
        fails_at = -1;
        assert_int_equal(result, reached ? STATUS_FAILED : STATUS_OK);
        if (reached && !strstr(status_message(), strerror(EIO))) fail_msg("%s", status_message());
        safetensors_close(&s);
    }
    assert_true(at > 3);
}

#define ONE(name, dtype, shape, offsets)                                                                     \
    "{\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
#define TWO(first, second)                                                                                   \
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":" first                                         \
    "},\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":" second "}}"
#define BODY "\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]"

/* lint: long because it is a table of headers */
static void damaged_headers_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *header;
        size_t data;
        const char *sentence;
    } bad[] = {
        { "", 0, "expected '{'" },
        { "[]", 0, "expected '{'" },
        { "{", 0, "expected '\"'" },
        { "{}x", 0, "something follows" },
        { "{}{}", 0, "something follows" },
        { "null", 0, "expected '{'" },
        { "{\"a\"}", 0, "expected ':'" },
        { "{\"a\":1}", 0, "expected '{'" },
        { "{\"a\":{}}", 0, "'a' has no dtype" },
        { "{\"a\":{" BODY "},}", 2, "expected '\"'" },
        { "{\"a\":{" BODY ",}}", 2, "expected '\"'" },
        { "{\"a\":{" BODY "}", 2, "expected '}'" },
        { "{\"a\":{" BODY "} \"b\":{" BODY "}}", 2, "expected '}'" },
        { "{\"a\":{" BODY "},\"a\":{" BODY "}}", 2, "before the end of the one" },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
          "\"\\u0061\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
          2, "'a' is there twice" },
        { "{\"a\":{\"dtype\":\"U8\"," BODY "}}", 2, "twice" },
        { "{\"a\":{\"shape\":[2],\"shape\":[2],\"dtype\":\"U8\"}}", 2, "twice" },
        { "{\"a\":{" BODY ",\"extra\":1}}", 2, "none of dtype" },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[2]}}", 2, "lacks one of" },
        { "{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,2]}}", 2, "lacks one of" },
        { "{\"a\":{\"shape\":[2],\"data_offsets\":[0,2]}}", 2, "lacks one of" },
        { "{\"__metadata__\":{},\"__metadata__\":{}}", 0, "__metadata__ is there twice" },
        { "{\"__metadata__\":{\"a\":1}}", 0, "expected '\"'" },
        { "{\"__metadata__\":\"a\"}", 0, "expected '{'" },
        { ONE("a", "F33", "[1]", "[0,4]"), 4, "unknown dtype 'F33'" },
        { ONE("a", "f32", "[1]", "[0,4]"), 4, "unknown dtype 'f32'" },
        { ONE("a", "", "[1]", "[0,4]"), 4, "unknown dtype ''" },
        { ONE("a", "F32", "[1]", "[0,5]"), 5, "has 5 bytes of data, its shape and F32 need 4" },
        { ONE("a", "F32", "[2]", "[0,4]"), 4, "need 8" },
        { ONE("a", "F32", "[]", "[0,8]"), 8, "need 4" },
        { ONE("a", "F32", "[1]", "[4,0]"), 4, "at bytes 4 to 0 of 4" },
        { ONE("a", "F32", "[1]", "[0,4]"), 3, "at bytes 0 to 4 of 3" },
        { ONE("a", "F32", "[1]", "[18446744073709551612,18446744073709551615]"), 4, "of 4 bytes" },
        { ONE("a", "F32", "[1]", "[18446744073709551616,4]"), 4, "64 bits" },
        { ONE("a", "F32", "[4611686018427387904,4]", "[0,0]"), 0, "dimension 0 is 4611686018427387904" },
        { ONE("a", "F32", "[4294967296,4294967296]", "[0,0]"), 0, "dimension 1 is 4294967296" },
        { ONE("a", "U8", "[9223372036854775808]", "[0,4]"), 4, "too large" },
        { ONE("a", "F32", "[-1]", "[0,4]"), 4, "expected a whole number" },
        { ONE("a", "F32", "[1.0]", "[0,4]"), 4, "expected ']'" },
        { ONE("a", "F32", "[1e0]", "[0,4]"), 4, "expected ']'" },
        { ONE("a", "F32", "[01]", "[0,4]"), 4, "begins with 0" },
        { ONE("a", "F32", "[\"1\"]", "[0,4]"), 4, "expected a whole number" },
        { ONE("a", "F32", "[1,]", "[0,4]"), 4, "expected a whole number" },
        { ONE("a", "F32", "1", "[0,4]"), 4, "expected '['" },
        { ONE("a", "F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, "more than 8 dimensions" },
        { ONE("a", "F32", "[1]", "[0]"), 4, "expected ','" },
        { ONE("a", "F32", "[1]", "[0,4,4]"), 4, "expected ']'" },
        { ONE("a", "F32", "[1]", "[]"), 4, "expected a whole number" },
        { ONE("a", "F32", "[1]", "[0,4]"), 8, "the tensors end at byte 4 of the data" },
        { ONE("a", "F32", "[1]", "[4,8]"), 8, "'a' begins at byte 4 of the data, after the end" },
        { TWO("[0,2]", "[1,3]"), 3, "'b' begins at byte 1 of the data, before the end" },
        { TWO("[0,2]", "[3,5]"), 5, "'b' begins at byte 3 of the data, after the end" },
        { TWO("[0,2]", "[0,2]"), 2, "before the end" },
        { "{\"a", 0, "expected '\"'" },
        { "{\"\\x\":{" BODY "}}", 2, "unknown escape" },
        { "{\"\\u00g0\":{" BODY "}}", 2, "hexadecimal" },
        { "{\"\\ud83d\\ude0g\":{" BODY "}}", 2, "hexadecimal" },
        { "{\"\\ud83d\\u", 0, "ends inside" },
        { "{\"\\u0000\":{" BODY "}}", 2, "zero byte" },
        { "{\"\\ud800\":{" BODY "}}", 2, "half a surrogate" },
        { "{\"\\ud800\\u0041\":{" BODY "}}", 2, "half a surrogate" },
        { "{\"\\udc00\":{" BODY "}}", 2, "half a surrogate" },
        { "{\"\\udc00\\udc00\":{" BODY "}}", 2, "half a surrogate" },
        { "{\"\\ud800\\udbff\":{" BODY "}}", 2, "half a surrogate" },
        { "{\"\\udbff\\ue000\":{" BODY "}}", 2, "half a surrogate" },
        { "{\"\\u12", 0, "ends inside" },
        { "{\"\\", 0, "ends inside" },
        { "{\"a\nb\":{" BODY "}}", 2, "control character" },
        { "{\"\xff\":{" BODY "}}", 2, "not UTF-8" },
        { "{\"\xc3\":{" BODY "}}", 2, "not UTF-8" },
        { "{\"\xed\xa0\x80\":{" BODY "}}", 2, "not UTF-8" },
        { "{\"\\u001b[2J\":{\"dtype\":\"F\"}}", 0, "tensor '?[2J'" },
    };
    assert_true(sizeof bad / sizeof *bad >= 40);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        safetensors s;
        make("bad.safetensors", bad[i].header, strlen(bad[i].header), bad[i].data);
        assert_int_equal(safetensors_open("bad.safetensors", &s), STATUS_INVALID);
        if (!strstr(status_message(), bad[i].sentence) || !strstr(status_message(), "bad.safetensors"))
            fail_msg("case %zu: '%s' has no '%s'", i, status_message(), bad[i].sentence);
        assert_null(s.entries);
        /* counting does not look at how tensors lie beside each other, and at nothing less */
        uint64_t held;
        bool beside = strstr(status_message(), "the end of the one before") ||
                      strstr(status_message(), "the tensors end") ||
                      strstr(status_message(), "'a' is there twice");
        assert_int_equal(safetensors_held("bad.safetensors", &held), beside ? STATUS_OK : STATUS_INVALID);
    }
}

static void wrong_files_are_refused(void **state) {
    (void)state;
    safetensors s;
    assert_int_equal(safetensors_open("missing.safetensors", &s), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "missing.safetensors: No such file"));
    scratch_write("short.safetensors", "1234567", 7);
    assert_int_equal(safetensors_open("short.safetensors", &s), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "has 7 bytes"));
    make("long.safetensors", "{}", 3, 0);
    assert_int_equal(safetensors_open("long.safetensors", &s), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "header has 3 bytes, after its length are only 2"));
    make("huge.safetensors", "{}", UINT64_MAX, 0);
    assert_int_equal(safetensors_open("huge.safetensors", &s), STATUS_INVALID);
    make("huge.safetensors", "{}", SAFETENSORS_HEADER_LIMIT + 1, 0);
    assert_int_equal(safetensors_open("huge.safetensors", &s), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "at most 104857600"));
    assert_int_equal(mkfifo("pipe.safetensors", 0600), 0);
    assert_int_equal(safetensors_open("pipe.safetensors", &s), STATUS_INVALID);
    assert_int_equal(mkdir("empty", 0700), 0);
    assert_int_equal(safetensors_open("empty", &s), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "no model.safetensors"));
}

/* However a header is filled: what it holds is what was counted before, and of metadata that is nothing.
 * Names of many lengths end at many places of the buffer that they are read through. */
static void headers_hold_what_was_counted(void **state) {
    (void)state;
    enum { TENSORS = 3000, METADATA = 3 << 20, LETTERS = 200 };
    char *header = memory_new(METADATA + TENSORS * (LETTERS + 100), 1), *at = header + 8;
    uint64_t bytes, held = 0, names = 0;
    safetensors s;
    at += sprintf(at, "{\"__metadata__\":{\"notes\":\"%*s\"}", METADATA, "");
    for (int i = 0; i < TENSORS; i++) {
        int letters = i % LETTERS;
        at += sprintf(at, ",\"%d-", i);
        for (int k = 0; k < letters / 2; k++) at += sprintf(at, k % 9 ? "\xc3\xa9" : "\\n\\u00e9");
        at += sprintf(at, "\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}", i, i + 1);
    }
    *at++ = '}';
    bytes = (uint64_t)(at - header - 8);
    memcpy(header, &bytes, 8);
    assert_int_equal(io_write_file("many.safetensors", header, 8 + bytes), STATUS_OK);
    memory_free(header);
    assert_int_equal(truncate("many.safetensors", (off_t)(8 + bytes + TENSORS)), 0);

    assert_int_equal(safetensors_held("many.safetensors", &held), STATUS_OK);
    size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    assert_int_equal(safetensors_open("many.safetensors", &s), STATUS_OK);
    size_t taken = mallinfo2().uordblks + mallinfo2().hblkhd - before;
    assert_int_equal(s.count, TENSORS);
    for (uint32_t i = 0; i < s.count; i++) {
        names += strlen(s.entries[i].name) + 1;
        assert_int_equal(atoi(s.entries[i].name), s.entries[i].offset - 8 - bytes);
    }
    assert_true(held > s.count * sizeof *s.entries + names);
    assert_true(taken < held + 1024);
    assert_true(held < METADATA / 2);
    safetensors_close(&s);
}

static void long_names_are_refused(void **state) {
    (void)state;
    char header[2048];
    safetensors s;
    int n = sprintf(header, "{\"");
    memset(header + n, 'x', 1024);
    strcpy(header + n + 1024, "\":{" BODY "}}");
    make("long.safetensors", header, strlen(header), 2);
    assert_int_equal(safetensors_open("long.safetensors", &s), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "too long for a name"));
}

/* Opens what may be damaged and reads all of it. */
static void try_file(const char *path) {
    safetensors s;
    char read[64];
    status result = safetensors_open(path, &s);
    if (result != STATUS_OK) {
        assert_int_equal(result, STATUS_INVALID);
        assert_non_null(strstr(status_message(), path));
        return;
    }
    for (uint32_t i = 0; i < s.count; i++) {
        assert_true(s.entries[i].bytes <= sizeof read);
        assert_int_equal(safetensors_read(&s, &s.entries[i], read, s.entries[i].bytes), STATUS_OK);
        assert_ptr_equal(safetensors_find(&s, s.entries[i].name), &s.entries[i]);
    }
    safetensors_close(&s);
}

static void random_damage_does_no_harm(void **state) {
    (void)state;
    uint64_t random = 1, bytes;
    char *whole, damaged[4096];
    assert_int_equal(safetensors_write("f.safetensors", items, ITEMS), STATUS_OK);
    assert_int_equal(io_read_file("f.safetensors", sizeof damaged, &whole, &bytes), STATUS_OK);
    uint64_t header = bytes - 50; /* most of the damage goes to the header */
    for (int round = 0; round < 4000; round++) {
        uint64_t n = bytes;
        memcpy(damaged, whole, bytes);
        if (round % 4 == 0) n = scratch_random(&random) % bytes;
        for (uint32_t flips = scratch_random(&random) % 5; flips > 0; flips--) {
            char *at = &damaged[scratch_random(&random) % (round % 8 ? header : bytes)];
            if (round % 2)
                *at = "0123456789\"\\{}[]:,u -"[scratch_random(&random) % 21];
            else
                *at = (char)(*at ^ (1 << scratch_random(&random) % 8));
        }
        scratch_write("g.safetensors", damaged, n);
        try_file("g.safetensors");
    }
    free(whole);
}

static void sets_of_shards_are_read(void **state) {
    (void)state;
    safetensors s;
    char read[32];
    assert_int_equal(io_make_folder("set/deep/"), STATUS_OK);
    assert_int_equal(safetensors_write("set/deep/m-1.safetensors", items, 2), STATUS_OK);
    assert_int_equal(safetensors_write("set/deep/m-2.safetensors", items + 3, 1), STATUS_OK);
    static const char index[] =
        "{\"metadata\":{\"total_size\":37},\"weight_map\":{\"moment\":\"m-2.safetensors\","
        "\"odd\":\"m-1.safetensors\",\"block.0.weight\":\"m-1.safetensors\"}}";
    scratch_write("set/deep/model.safetensors.index.json", index, sizeof index - 1);
    assert_int_equal(safetensors_open("set/deep", &s), STATUS_OK);
    assert_int_equal(s.count, 3);
    assert_int_equal(s.file_count, 2);
    for (int i = 0; i < 4; i++) {
        const safetensors_entry *e = safetensors_find(&s, items[i].name);
        if (i == 2) continue;
        assert_non_null(e);
        assert_int_equal(safetensors_read(&s, e, read, items[i].bytes), STATUS_OK);
        assert_memory_equal(read, items[i].data, items[i].bytes);
    }
    safetensors_close(&s);
    assert_int_equal(chdir("set/deep"), 0);
    assert_int_equal(safetensors_open("model.safetensors.index.json", &s), STATUS_OK);
    safetensors_close(&s);
    assert_int_equal(chdir("../.."), 0);
}

#define DEEP8 "[[[[[[[["
#define DEEP DEEP8 DEEP8 DEEP8 DEEP8 DEEP8 DEEP8 DEEP8 DEEP8 "["

static void damaged_sets_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *index, *sentence;
    } bad[] = {
        { "", "the index is wrong at byte 0: expected '{'" },
        { "[]", "expected '{'" },
        { "{}", "'weight_map' is missing" },
        { "{\"weight_map\":[]}", "expected '{'" },
        { "{\"weight_map\":{\"odd\":1}}", "expected '\"'" },
        { "{\"weight_map\":{\"odd\":\"../m-1.safetensors\"}}", "not the plain name" },
        { "{\"weight_map\":{\"odd\":\"/etc/passwd\"}}", "not the plain name" },
        { "{\"weight_map\":{\"odd\":\"\"}}", "not the plain name" },
        { "{\"weight_map\":{\"odd\":\"..\"}}", "not the plain name" },
        { "{\"weight_map\":{\"odd\":\"a\\u0000b\"}}", "zero byte" },
        { "{\"weight_map\":{\"odd\":\"a\\nb\"}}", "not the plain name" },
        { "{\"weight_map\":{\"odd\":\"m-3.safetensors\"}}", "m-3.safetensors: No such file" },
        { "{\"weight_map\":{\"odd\":\"m-2.safetensors\"}}", "'odd' is not in its shard m-2.safetensors" },
        { "{\"weight_map\":{\"odd\":\"m-1.safetensors\",\"moment\":\"m-1.safetensors\"}}",
          "'moment' is not in" },
        { "{\"weight_map\":{\"odd\":\"m-1.safetensors\",\"moment\":\"same.safetensors\"}}",
          "is there twice" },
        { "{\"weight_map\":{},\"weight_map\":{}}", "weight_map is there twice" },
        { "{\"weight_map\":{}} x", "something follows" },
        { "{\"metadata\":[1,{\"a\":-1.5e+3,\"b\":[true,null]}]}", "'weight_map' is missing" },
        { "{\"metadata\":[1}", "brackets do not agree" },
        { "{\"metadata\":}", "brackets do not agree" },
        { "{\"metadata\":,}", "expected a value" },
        { "{\"metadata\":" DEEP "}", "nested more than 64 deep" },
    };
    assert_int_equal(io_make_folder("bad-set"), STATUS_OK);
    assert_int_equal(safetensors_write("bad-set/m-1.safetensors", items, 2), STATUS_OK);
    assert_int_equal(safetensors_write("bad-set/m-2.safetensors", items + 3, 1), STATUS_OK);
    assert_int_equal(safetensors_write("bad-set/same.safetensors", items, 4), STATUS_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        safetensors s;
        scratch_write("bad-set/model.safetensors.index.json", bad[i].index, strlen(bad[i].index));
        assert_int_equal(safetensors_open("bad-set", &s), STATUS_INVALID);
        if (!strstr(status_message(), bad[i].sentence))
            fail_msg("case %zu: '%s' has no '%s'", i, status_message(), bad[i].sentence);
    }
}

/* What is read of a header or an index with one character left out or another in its place is JSON to a
 * reader that shares no code with this one. */
static void only_json_is_read(void **state) {
    (void)state;
    static const char others[] = "{}],:\"x";
    static const char *const texts[] = {
        "{\"__metadata__\":{\"k\":\"v\",\"l\":\"w\"},\"a\":{\"dtype\":\"U8\",\"shape\":[1,2],\"data_"
        "offsets\":[0,2]}}",
        "{\"before\":\"x\",\"weight_map\":{\"odd\":\"m.safetensors\",\"half\":\"m.safetensors\"},\"more\":"
        "\"x\"}",
    };
    const safetensors_item both[] = { items[0], items[4] };
    int taken = 0;
    assert_int_equal(io_make_folder("json"), STATUS_OK);
    assert_int_equal(safetensors_write("json/m.safetensors", both, 2), STATUS_OK);
    for (size_t i = 0; i < strlen(texts[0]) + strlen(texts[1]); i++) {
        bool index = i >= strlen(texts[0]);
        const char *json = texts[index], *path = index ? "json/x.index.json" : "json/x.safetensors";
        size_t at = index ? i - strlen(texts[0]) : i;
        for (size_t k = 0; k < sizeof others; k++) { /* the last is the zero: left out */
            char changed[256];
            safetensors s;
            json_document d;
            int length =
                snprintf(changed, sizeof changed, "%.*s%.1s%s", (int)at, json, &others[k], json + at + 1);
            if (index)
                scratch_write(path, changed, (size_t)length);
            else
                make(path, changed, (uint64_t)length, 2);
            if (safetensors_open(path, &s) != STATUS_OK) continue;
            safetensors_close(&s);
            if (json_parse("it", changed, (size_t)length, &d) != STATUS_OK)
                fail_msg("%s: %s", changed, status_message());
            json_close(&d);
            taken++;
        }
    }
    assert_true(taken > 100); /* with other letters in names, and as they are */
}

/* Every range of a tensor's bytes is read, and no other; a read that is refused writes nothing. */
static void only_ranges_inside_are_read(void **state) {
    (void)state;
    enum { PIECE = 256 << 10 };
    static uint8_t from[PIECE], into[PIECE + 1];
    safetensors s;
    const safetensors_item all[] = { items[0],
                                     { "piece", "U8", { { PIECE }, 1 }, .data = from, .bytes = PIECE } };
    assert_int_equal(safetensors_write("ranges.safetensors", all, 2), STATUS_OK);
    assert_int_equal(safetensors_open("ranges.safetensors", &s), STATUS_OK);
    const safetensors_entry *odd_one = safetensors_find(&s, "odd"), *piece = safetensors_find(&s, "piece");
    for (uint64_t first = 0; first < 9; first++)
        for (uint64_t bytes = 0; bytes < 9; bytes++) {
            status expected = first + bytes <= sizeof odd ? STATUS_OK : STATUS_INVALID;
            if (safetensors_read_bytes(&s, odd_one, first, into, bytes) != expected)
                fail_msg("%d bytes from %d", (int)bytes, (int)first);
            if (bytes) assert_int_equal(safetensors_read_part(&s, odd_one, first, into, bytes), expected);
        }
    memset(into, 0xee, sizeof into);
    assert_int_equal(safetensors_read_part(&s, piece, 0, into, PIECE + 1), STATUS_INVALID);
    assert_int_equal(into[0], 0xee);
    safetensors_close(&s);
}

/* Numbers are looked at piece by piece: at a piece's border no byte is read twice, left out or beyond. */
static void pieces_meet(void **state) {
    (void)state;
    enum { PIECE = 256 << 10 };
    static uint8_t from[2 * PIECE + 2], into[2 * PIECE + 3];
    for (size_t i = 0; i < sizeof from; i++) from[i] = (uint8_t)(i * 7 + (i >> 8));
    for (int64_t bytes = PIECE - 1; bytes <= 2 * PIECE + 1; bytes += bytes == PIECE + 1 ? PIECE - 2 : 1) {
        const safetensors_item item = { "a", "U8", { { bytes }, 1 }, .data = from, .bytes = (uint64_t)bytes };
        safetensors s;
        memset(into, 0xee, sizeof into);
        assert_int_equal(safetensors_write("pieces.safetensors", &item, 1), STATUS_OK);
        assert_int_equal(safetensors_open("pieces.safetensors", &s), STATUS_OK);
        if (safetensors_read(&s, safetensors_find(&s, "a"), into, (uint64_t)bytes) != STATUS_OK)
            fail_msg("%s", status_message());
        assert_memory_equal(from, into, (size_t)bytes);
        assert_int_equal(into[bytes], 0xee);
        safetensors_close(&s);
    }
}

static void wrong_items_are_not_written(void **state) {
    (void)state;
    uint64_t bytes;
    static const safetensors_item bad[] = {
        { "a", "F32", { { 2 }, 1 }, .data = weights, .bytes = 4 },
        { "a", "F31", { { 1 }, 1 }, .data = weights, .bytes = 4 },
        { "", "F32", { { 1 }, 1 }, .data = weights, .bytes = 4 },
        { "__metadata__", "F32", { { 1 }, 1 }, .data = weights, .bytes = 4 },
        { "\xff", "F32", { { 1 }, 1 }, .data = weights, .bytes = 4 },
        { "a", "F32", { { -1 }, 1 }, .data = weights, .bytes = 4 },
        { "a", "F32", { { INT64_MAX, INT64_MAX }, 2 }, .data = weights, .bytes = 4 },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(safetensors_write("w.safetensors", &bad[i], 1), STATUS_INVALID);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(safetensors_file_bytes("w.safetensors", &bad[i], 1, &bytes), STATUS_INVALID);
    const safetensors_item twice[] = { items[0], items[1], items[0] }, both[] = { items[0], items[0] };
    for (int i = 0; i < 2; i++) {
        assert_int_equal(safetensors_write("w.safetensors", i ? both : twice, i ? 2 : 3), STATUS_INVALID);
        assert_int_equal(safetensors_file_bytes("w.safetensors", i ? both : twice, i ? 2 : 3, &bytes),
                         STATUS_INVALID);
        assert_non_null(strstr(status_message(), "two tensors have the name 'odd'"));
    }
    assert_int_not_equal(access("w.safetensors", F_OK), 0);
    assert_int_not_equal(access("w.safetensors.partial", F_OK), 0);
}

static void a_full_disk_leaves_the_old_file(void **state) {
    (void)state;
    static float large[65536];
    const safetensors_item item = { "large", "F32", { { 65536 }, 1 }, .data = large, .bytes = sizeof large };
    struct rlimit old, small = { 100000, 0 };
    assert_int_equal(safetensors_write("d.safetensors", items, ITEMS), STATUS_OK);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    status result = safetensors_write("d.safetensors", &item, 1);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(result, STATUS_FAILED);
    assert_non_null(strstr(status_message(), "d.safetensors: File too large"));
    assert_int_not_equal(access("d.safetensors.partial", F_OK), 0);
    safetensors s;
    assert_int_equal(safetensors_open("d.safetensors", &s), STATUS_OK);
    assert_int_equal(s.count, ITEMS);
    safetensors_close(&s);
    assert_int_equal(safetensors_write("no-folder/d.safetensors", items, 1), STATUS_FAILED);
    assert_non_null(strstr(status_message(), "no-folder/d.safetensors.partial: No such file"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(no_tensors_are_a_file_too),
        cmocka_unit_test(dtypes_have_names),
        cmocka_unit_test(unusual_headers_are_read),
        cmocka_unit_test(a_read_that_fails_is_said),
        cmocka_unit_test(damaged_headers_are_refused),
        cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(headers_hold_what_was_counted),
        cmocka_unit_test(long_names_are_refused),
        cmocka_unit_test(random_damage_does_no_harm),
        cmocka_unit_test(sets_of_shards_are_read),
        cmocka_unit_test(damaged_sets_are_refused),
        cmocka_unit_test(only_json_is_read),
        cmocka_unit_test(only_ranges_inside_are_read),
        cmocka_unit_test(pieces_meet),
        cmocka_unit_test(wrong_items_are_not_written),
        cmocka_unit_test(a_full_disk_leaves_the_old_file),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
