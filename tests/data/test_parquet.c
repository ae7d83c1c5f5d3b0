/* Parquet as pyarrow writes it: the committed files of every form (tools/goldens_parquet.py), drawn ones
 * where a Python with pyarrow is at hand, and sentences for what is damaged. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <string.h>

#include "base/text.h"
#include "data/documents/parquet_codes.h"
#include "data/transcript.h"
#include "io/scratch.h"

enum { LARGEST = 64 << 20 };

static const document_column text_column[] = { { "text", false, NULL } };
static const document_column pair_columns[] = { { "prompt", false, NULL }, { "completion", false, NULL } };
static const document_column chat_column[] = { { "messages", true, NULL } };

static const document_column tools_columns[] = { { "messages", true, NULL }, { "tools", false, NULL } };

static const document_column turns_columns[] = { { "prompt", true, NULL }, { "completion", true, NULL } };

static const document_column numbers_columns[] = { { .name = "n0" }, { .name = "n1" }, { .name = "n2" },
                                                   { .name = "n3" }, { .name = "n4" }, { .name = "n5" },
                                                   { .name = "n6" }, { .name = "n7" }, { .name = "n8" },
                                                   { .name = "n9" }, { .name = "n10" } };
static const document_column class_column[] = { { .name = "label" } };

static bool begins(const char *all, const char *with) { return strncmp(all, with, strlen(with)) == 0; }

static document_options options_of(const char *path, const char *name) {
    document_options o = { .path = path, .columns = text_column, .column_count = 1 };
    if (begins(name, "chat")) o.columns = chat_column;
    if (begins(name, "pair")) o.columns = pair_columns, o.column_count = 2;
    if (begins(name, "tools")) o.columns = tools_columns, o.column_count = 2, o.json = 3, o.optional = 2;
    if (begins(name, "number"))
        o.columns = numbers_columns, o.column_count = 11, o.plain = o.optional = UINT32_MAX;
    if (begins(name, "class")) o.columns = class_column, o.plain = o.classes = 1;
    if (begins(name, "turns")) o.columns = turns_columns, o.column_count = 2;
    return o;
}

static char *contents(const char *path, size_t *bytes) {
    FILE *file = fopen(path, "rb");
    char *data = calloc(1, LARGEST);
    if (!file || !data) fail_msg("cannot read %s", path);
    *bytes = fread(data, 1, LARGEST - 1, file);
    fclose(file);
    return realloc(data, *bytes + 1);
}

/* What begins with "un" is there for a test of its own. */
static int is_parquet(const struct dirent *item) {
    return text_ends_with(item->d_name, ".parquet") && !begins(item->d_name, "un");
}

/* Is it packed by what this program was built without? Then a sentence says so before anything is read. */
static bool left_out(const char *path, const char *name) {
    uint64_t bytes;
    document_options o = options_of(path, name);
    bool without =
        documents_need(&o, &bytes) == STATUS_INVALID && strstr(status_message(), "was built without");
    if (without) print_message("left out: %s\n", status_message());
#if defined(SNUG_ZLIB) && defined(SNUG_ZSTD) && defined(SNUG_SNAPPY)
    assert_false(without);
#endif
    return without;
}

/* Each NAME-*.parquet of the folder holds what NAME.expected says. */
static int check_folder(const char *folder) {
    struct dirent **items;
    int count = scandir(folder, &items, is_parquet, alphasort);
    for (int i = 0; i < count; i++) {
        char path[512], wanted[512];
        const char *name = items[i]->d_name;
        size_t bytes;
        snprintf(path, sizeof path, "%s/%s", folder, name);
        snprintf(wanted, sizeof wanted, "%s/%.*s.expected", folder, (int)strcspn(name, "-"), name);
        char *expected = contents(wanted, &bytes);
        if (!left_out(path, name)) transcript_check(options_of(path, name), expected);
        free(expected), free(items[i]);
    }
    if (count >= 0) free(items);
    return count;
}

static void every_form_is_read(void **state) {
    (void)state;
    assert_true(check_folder(SNUG_ROOT "/tests/data/parquet") > 50);
}

/* ---- the same, drawn ---- */

static bool find_python(char python[256]) {
    const char *named = getenv("SNUG_PYTHON");
    char list[2048], command[512], *rest = list;
    snprintf(list, sizeof list, "%s", named && *named ? named : "python3");
    for (char *one; (one = strsep(&rest, ":"));) {
        snprintf(python, 256, "%s", one);
        snprintf(command, sizeof command, "'%s' -c 'import pyarrow.parquet' >probe 2>&1", python);
        if (system(command) == 0) return true;
    }
    print_message("skipped: no Python here has pyarrow; SNUG_PYTHON names interpreters that do\n");
    return false;
}

static void drawn_files_are_read(void **state) {
    (void)state;
    char python[256], command[1024];
    int count = getenv("SNUG_TEST_LONG") ? 500 : 20;
    const char *seed = getenv("SNUG_TEST_SEED");
    if (!find_python(python)) skip();
    assert_int_equal(mkdir("drawn", 0700), 0);
    snprintf(command, sizeof command, "'%s' '%s/tools/goldens_parquet.py' --random %s %d drawn", python,
             SNUG_ROOT, seed ? seed : "1", count);
    assert_int_equal(system(command), 0);
    assert_int_equal(check_folder("drawn"), count);
}

/* ---- what is wrong ---- */

static void refused(const char *path, document_options o, const char *says) {
    text out;
    o.path = path;
    if (transcript(&o, NULL, &out) != STATUS_INVALID) fail_msg("%s: not refused (%s)", path, says);
    if (!strstr(status_message(), says)) fail_msg("'%s' does not say '%s'", status_message(), says);
    assert_non_null(strstr(status_message(), path));
    text_close(&out);
}

static const char *golden(const char *name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/tests/data/parquet/%s", SNUG_ROOT, name);
    return path;
}

static void columns_that_are_not_there_are_named(void **state) {
    (void)state;
    static const document_column other[] = { { "body", false, NULL } },
                                 number[] = { { "before", false, NULL } },
                                 structure[] = { { "behind", false, NULL } },
                                 list[] = { { "text", true, NULL } },
                                 flat[] = { { "messages", false, NULL } };
    document_options o = options_of(NULL, "text");
    o.columns = other;
    refused(golden("text-fallback.parquet"), o, "the column body is not in it");
    o.columns = number;
    refused(golden("text-fallback.parquet"), o, "the column before holds no strings");
    o.columns = structure;
    refused(golden("text-fallback.parquet"), o, "the column behind holds no strings");
    o.columns = list;
    refused(golden("text-fallback.parquet"), o, "the column text is no list of structs");
    o.columns = flat;
    refused(golden("chat-item.parquet"), o, "the column messages holds no strings");
    o = options_of(NULL, "tools");
    o.optional = 0;
    refused(golden("chat-item.parquet"), o, "the column tools is not in it");
    refused(golden("tools-v1.parquet"), o, "tools is null");
    static const document_column as_json[] = { { "messages", true, NULL }, { "behind", false, NULL } };
    o.columns = as_json;
    refused(golden("tools-v1.parquet"), o, "the column behind holds no strings; write it as JSON in strings");
    o = options_of(NULL, "text");
    o.packing = DOCUMENT_GZIP;
    refused(golden("text-fallback.parquet"), o, "is packed by itself");
}

/* Without a wish for names, or for letters, numbers are what they are. */
static void classes_are_named_where_they_are_wanted(void **state) {
    (void)state;
    text out;
    document_options o = options_of(golden("class-i8.parquet"), "class");
    o.classes = 0;
    assert_int_equal(transcript(&o, NULL, &out), STATUS_OK);
    assert_string_equal(out.data, "#0 0:\"2\"\n#1 0:\"0\"\n#2 0:\"1\"\n#3 0:\"1\"\n#4 0:\"2\"\n");
    text_close(&out);
    o.plain = 0;
    refused(golden("class-i8.parquet"), o, "the column label holds no strings");
    o = options_of(NULL, "class");
    refused(golden("unlabelled-i64.parquet"), o, "label is -1, and the file names classes from 0 to 2");
}

/* Where no record has an optional column the others are as without it. */
static void columns_may_be_missing(void **state) {
    (void)state;
    text with, without;
    document_options o = options_of(golden("chat-item.parquet"), "chat");
    assert_int_equal(transcript(&o, NULL, &without), STATUS_OK);
    o = options_of(golden("chat-item.parquet"), "tools");
    assert_int_equal(transcript(&o, NULL, &with), STATUS_OK);
    assert_string_equal(with.data, without.data);
    text_close(&with), text_close(&without);
}

static void members_that_are_wanted_come_alone(void **state) {
    (void)state;
    static const char *const just_role[] = { "role", NULL }, *const none[] = { "name", NULL };
    static const document_column roles[] = { { "messages", true, just_role } },
                                 nothing[] = { { "messages", true, none } };
    document_options o = options_of(golden("chat-item.parquet"), "chat");
    text out;
    o.columns = roles;
    assert_int_equal(transcript(&o, NULL, &out), STATUS_OK);
    assert_non_null(strstr(out.data, "0[0.role]"));
    assert_null(strstr(out.data, "content"));
    text_close(&out);
    o.columns = nothing;
    refused(golden("chat-item.parquet"), o, "none of the members");
}

/* Cut anywhere, a file is refused; with any byte changed it is read or refused, and nothing else. */
static void damaged_files_are_refused(void **state) {
    (void)state;
    static const char *const names[] = { "text-v1-plain-none.parquet",
                                         "text-v2-delta_byte_array-snappy.parquet",
                                         "chat-v1-dictionary.parquet",
                                         "text-fallback.parquet",
                                         "number-v1-delta_binary_packed.parquet",
                                         "number-v2-delta_binary_packed.parquet",
                                         "number-v1-dictionary.parquet",
                                         "class-i64.parquet" };
    uint64_t seed = 3;
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        size_t bytes;
        char *data = contents(golden(names[n]), &bytes);
        for (size_t at = 0; at < bytes; at += bytes / 40 + 1) {
            scratch_write("cut.parquet", data, at);
            refused("cut.parquet", options_of(NULL, names[n]), at < 12 ? "too short" : "PAR1");
        }
        for (int i = 0; i < 400; i++) {
            size_t at = scratch_random(&seed) % bytes;
            char was = data[at];
            uint64_t need;
            text out = { 0 };
            data[at] = (char)scratch_random(&seed);
            scratch_write("odd.parquet", data, bytes);
            data[at] = was;
            document_options o = options_of("odd.parquet", names[n]);
            if (documents_need(&o, &need) != STATUS_OK || need > LARGEST) continue;
            if (transcript(&o, NULL, &out) != STATUS_OK)
                assert_non_null(strstr(status_message(), "odd.parquet"));
            text_close(&out);
        }
        free(data);
    }
}

/* Numbers of no bits take no room, so their count is held to that of the page: 128 a block, 4 miniblocks,
 * 2^40 of them. */
static void more_numbers_than_the_page_has_are_refused(void **state) {
    static const unsigned char many[] = { 0x80, 1, 4, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20, 0 };
    static const unsigned char few[] = { 0x80, 1, 4, 10, 0 };
    parquet_delta d;
    (void)state;
    assert_false(parquet_delta_of(&d, many, many + sizeof many, 100, 10));
    assert_true(parquet_delta_of(&d, few, few + sizeof few, 100, 10));
    assert_false(parquet_delta_of(&d, few, few + sizeof few, 100, 9));
}

static void other_files_are_refused(void **state) {
    (void)state;
    scratch_write("a.parquet", "PAR1 this is none PAR", 21);
    refused("a.parquet", options_of(NULL, "text"), "is no Parquet");
    scratch_write("a.parquet", "PAR1\xff\0\0\0PAR1", 12);
    refused("a.parquet", options_of(NULL, "text"), "its footer has 255 bytes");
    scratch_write("a.parquet", "PAR1\1\0\0\0PARE", 12);
    refused("a.parquet", options_of(NULL, "text"), "encrypted");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_is_read),
        cmocka_unit_test(drawn_files_are_read),
        cmocka_unit_test(columns_that_are_not_there_are_named),
        cmocka_unit_test(classes_are_named_where_they_are_wanted),
        cmocka_unit_test(columns_may_be_missing),
        cmocka_unit_test(members_that_are_wanted_come_alone),
        cmocka_unit_test(damaged_files_are_refused),
        cmocka_unit_test(more_numbers_than_the_page_has_are_refused),
        cmocka_unit_test(other_files_are_refused),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
