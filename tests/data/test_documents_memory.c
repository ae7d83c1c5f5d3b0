/* Reading takes the memory that was planned and no other: while documents are read, nobody calls malloc or
 * its kin, neither the reader nor what it unpacks with. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <malloc.h>
#include <string.h>

#include "base/text.h"
#include "data/documents/documents.h"
#include "io/scratch.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define COUNTS 0 /* they have a malloc of their own */
#else
#define COUNTS 1
#endif

static uint64_t calls;

#if COUNTS
/* glibc's own, which it lets be called by these names. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void *malloc(size_t bytes) { return calls++, __libc_malloc(bytes); }
void *calloc(size_t count, size_t bytes) { return calls++, __libc_calloc(count, bytes); }
void *realloc(void *block, size_t bytes) { return calls++, __libc_realloc(block, bytes); }
void *memalign(size_t alignment, size_t bytes) { return calls++, __libc_memalign(alignment, bytes); }
void *aligned_alloc(size_t alignment, size_t bytes) { return calls++, __libc_memalign(alignment, bytes); }
#endif

static const document_column text_column[] = { { "text", false, NULL } };
static const document_column chat_columns[] = { { "messages", true, NULL }, { "tools", false, NULL } };

static const document_column turn_columns[] = { { "prompt", true, NULL }, { "completion", true, NULL } };

/* The room is exactly what was planned, with a page behind it that must stay as it is. */
static void read_counted(const document_options *o) {
    enum { GUARD = 4096 };
    uint64_t bytes, pieces = 0;
    documents *d;
    document_piece p = { 0 };
    if (documents_need(o, &bytes) != STATUS_OK) fail_msg("%s", status_message());
    unsigned char *room = aligned_alloc(64, (bytes + GUARD + 63) / 64 * 64);
    memset(room + bytes, 0x5a, GUARD);
    assert_true(!COUNTS || calls > 0);
    uint64_t before = calls;
    status result = documents_open(o, room, bytes, &d);
    while (result == STATUS_OK && (!pieces++ || p.event != DOCUMENT_END)) result = documents_next(d, &p);
    uint64_t made = calls - before;
    if (result != STATUS_OK) fail_msg("%s", status_message());
    documents_close(d);
    assert_int_equal(made, 0);
    for (int i = 0; i < GUARD; i++) assert_int_equal(room[bytes + (uint64_t)i], 0x5a);
    free(room);
}

/* Some say by their names that there is something wrong with them. */
static int is_parquet(const struct dirent *item) {
    return text_ends_with(item->d_name, ".parquet") && strncmp(item->d_name, "un", 2) != 0 &&
           strncmp(item->d_name, "odd", 3) != 0;
}

static const document_column number_columns[] = {
    { .name = "n0" }, { .name = "n5" }, { .name = "n8" }, { .name = "n9" }, { .name = "n10" }
};
static const document_column class_columns[] = { { .name = "label" }, { .name = "image" } };

static document_options options_of(const char *path, const char *name) {
    bool tools = strncmp(name, "tools", 5) == 0, chat = tools || strncmp(name, "chat", 4) == 0;
    document_options o = { .path = path, .columns = chat ? chat_columns : text_column, .column_count = 1 };
    if (tools) o.column_count = 2, o.optional = 2;
    if (strncmp(name, "turns", 5) == 0) o.columns = turn_columns, o.column_count = 2;
    if (strncmp(name, "number", 6) == 0)
        o.columns = number_columns, o.column_count = 5, o.plain = o.optional = UINT32_MAX;
    if (strncmp(name, "class", 5) == 0) o.columns = class_columns, o.plain = o.classes = 1;
    if (name[0] == 'v') o.columns = class_columns, o.column_count = 2, o.plain = o.classes = 1, o.bytes = 2;
    return o;
}

static int read_folder(const char *folder) {
    struct dirent **items;
    int count = scandir(folder, &items, is_parquet, alphasort);
    for (int i = 0; i < count; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", folder, items[i]->d_name);
        document_options o = options_of(path, items[i]->d_name);
        uint64_t bytes;
        bool pair = strncmp(items[i]->d_name, "pair", 4) == 0;
        bool without =
            documents_need(&o, &bytes) != STATUS_OK && strstr(status_message(), "was built without");
        if (!pair && !without) read_counted(&o);
        free(items[i]);
    }
    if (count >= 0) free(items);
    return count;
}

static void parquet_takes_what_is_planned(void **state) {
    (void)state;
    assert_true(read_folder(SNUG_ROOT "/tests/data/parquet") > 50);
    assert_true(read_folder(SNUG_ROOT "/tests/data/parquet_images") > 8);
}

/* What is no string comes as JSON, through the same buffer. */
static void values_take_what_is_planned(void **state) {
    (void)state;
    FILE *file = fopen("v.jsonl", "w");
    for (int k = 0; k < 3000; k++)
        fprintf(
            file,
            "{\"tools\":[{\"f\":%d}],\"messages\":[{\"n\":-1.5e3,\"c\":[{\"a\":\"\\u00e9\\n\"},[null]]}]}\n",
            k);
    fclose(file);
    document_options o = {
        .path = "v.jsonl", .columns = chat_columns, .column_count = 2, .json = 3, .optional = 2
    };
    read_counted(&o);
}

/* Packed by the programs themselves; where one is not there, so much is left out. */
static void texts_take_what_is_planned(void **state) {
    (void)state;
    static const char *const names[] = { "a.txt", "a.jsonl", "a.json", "a.csv" };
    static const char *const packing[] = { "gzip -kf %s", "zstd -qkf %s" };
    static const char *const suffixes[] = { ".gz", ".zst" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        FILE *file = fopen(names[i], "w");
        if (i == 2) fputs("[", file);
        if (i == 3) fputs("text\n", file);
        for (int k = 0; k < 20000; k++)
            fprintf(file, i == 1 || i == 2 ? "%s{\"text\":\"%d \\u00e9 \\\" and more\"}\n" : "%s\"%d\"\n",
                    i == 2 && k ? "," : "", k);
        if (i == 2) fputs("]", file);
        fclose(file);
        document_options o = { .path = names[i], .columns = text_column, .column_count = 1 };
        read_counted(&o);
        for (size_t p = 0; p < 2; p++) {
            char command[64], path[64];
            snprintf(command, sizeof command, packing[p], names[i]);
            snprintf(path, sizeof path, "%s%s", names[i], suffixes[p]);
            o.path = path;
            uint64_t bytes;
            if (system(command) != 0 || documents_need(&o, &bytes) != STATUS_OK)
                print_message("left out: %s\n", path);
            else
                read_counted(&o);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parquet_takes_what_is_planned),
        cmocka_unit_test(values_take_what_is_planned),
        cmocka_unit_test(texts_take_what_is_planned),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
