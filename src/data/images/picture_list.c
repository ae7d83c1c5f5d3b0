#include "data/images/picture_list.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "base/units.h"
#include "data/documents/documents.h"
#include "data/folder.h"

enum { DEEPEST = 16, PATH_BYTES = 4096, WORD_BYTES = 4096, ALIGNMENT = 64 };

static bool is_folder(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

static bool is_table(const char *path) {
    return !is_folder(path) && document_format_of(path) != DOCUMENT_TEXT;
}

/* ---- tables ---- */

/* A string of a record, which ends in a zero. */
typedef struct {
    char bytes[WORD_BYTES];
    uint64_t count;
} word;

static void append(word *w, const char *bytes, uint32_t count) {
    uint64_t room = WORD_BYTES - 1 - (w->count < WORD_BYTES ? w->count : WORD_BYTES - 1),
             some = count < room ? count : room;
    memcpy(w->bytes + (w->count < WORD_BYTES ? w->count : WORD_BYTES - 1), bytes, some);
    w->count += count;
    w->bytes[w->count < WORD_BYTES ? w->count : WORD_BYTES - 1] = 0;
}

/* What stands in a table is meant from its folder on. */
static status hand_over(const char *table, const picture_visitor *v, const word words[2]) {
    char path[PATH_BYTES];
    const char *slash = strrchr(table, '/');
    int folder = words[0].bytes[0] == '/' || !slash ? 0 : (int)(slash - table + 1);
    if (v->image &&
        (!words[0].count || memchr(words[0].bytes, 0, words[0].count < WORD_BYTES ? words[0].count : 0)))
        return status_set(STATUS_INVALID, "the column '%s' names no file", v->image);
    if (words[0].count >= WORD_BYTES ||
        snprintf(path, sizeof path, "%.*s%s", folder, table, words[0].bytes) >= PATH_BYTES)
        return status_set(STATUS_INVALID, "the path '%.60s...' is too long", words[0].bytes);
    return v->picture(v->context, path, words[1].bytes,
                      words[1].count < WORD_BYTES ? words[1].count : WORD_BYTES - 1);
}

static status read_record(documents *d, const char *table, const picture_visitor *v, word words[2]) {
    uint64_t number = documents_place(d).record + 1;
    uint32_t first = v->image ? 0 : 1; /* of the columns that are asked for */
    document_piece p;
    for (int i = 0; i < 2; i++) words[i].count = 0, words[i].bytes[0] = 0;
    do {
        TRY(documents_next(d, &p));
        if (p.event == DOCUMENT_STRING) append(&words[p.column + first], p.bytes, p.count);
    } while (p.event != DOCUMENT_RECORD_END);
    status result = hand_over(table, v, words);
    return result == STATUS_OK ? result : status_prefix(result, "%s, record %" PRIu64, table, number);
}

static status read_records(documents *d, const char *table, const picture_visitor *v, word words[2]) {
    document_piece p;
    for (;;) {
        TRY(documents_next(d, &p));
        if (p.event == DOCUMENT_END) return STATUS_OK;
        if (p.event == DOCUMENT_RECORD) TRY(read_record(d, table, v, words));
    }
}

static status read_table(const char *table, const picture_visitor *v) {
    document_column columns[2] = { { .name = v->image ? v->image : v->label }, { .name = v->label } };
    document_options o = {
        .path = table, .columns = columns, .column_count = v->image ? 2 : 1, .plain = UINT32_MAX
    };
    documents *d = NULL;
    uint64_t bytes, own = units_align(2 * sizeof(word), ALIGNMENT);
    char most[UNITS_TEXT_BYTES];
    TRY(documents_need(&o, &bytes));
    if (bytes + own + ALIGNMENT > v->most)
        return status_set(STATUS_NO_FIT,
                          "%s: its reader doesn't fit; reading the list of pictures may take %s of "
                          "the memory",
                          table, units_bytes_text(v->most, most));
    char *block = memory_new(bytes + own + ALIGNMENT, 1);
    if (!block) return status_set(STATUS_FAILED, "%s: no memory to read it", table);
    char *room = block + (ALIGNMENT - (uintptr_t)block % ALIGNMENT) % ALIGNMENT;
    status result = documents_open(&o, room + own, bytes, &d);
    if (result == STATUS_OK) result = read_records(d, table, v, (word *)room);
    documents_close(d);
    memory_free(block);
    return result;
}

/* ---- folders ---- */

typedef struct {
    const picture_visitor *v;
    const char *data;
    uint32_t depth;
    uint64_t folders, tables, others; /* in the data's own folder */
    uint64_t pictures;                /* of the class */
    char *loose;                      /* one of the others */
} walk;

static status count_kind(void *context, char *path) {
    walk *w = context;
    if (is_folder(path)) {
        w->folders++;
    } else if (is_table(path)) {
        w->tables++;
    } else if (!w->others++) {
        w->loose = path;
        return STATUS_OK;
    }
    memory_free(path);
    return STATUS_OK;
}

static status take_file(void *context, char *path);

static status take_inside(walk *w, const char *path) {
    if (++w->depth > DEEPEST)
        return status_set(STATUS_INVALID, "%s: pictures lie in more than %d folders", path, DEEPEST);
    status result = folder_list(path, take_file, w);
    w->depth--;
    return result;
}

static status take_file(void *context, char *path) {
    walk *w = context;
    status result = STATUS_OK;
    if (is_folder(path))
        result = take_inside(w, path);
    else if (w->pictures++, w->v->image)
        result = w->v->picture(w->v->context, path, NULL, 0);
    memory_free(path);
    return result;
}

static status read_class(walk *w, const char *path) {
    const char *name = strrchr(path, '/');
    w->pictures = 0;
    if (w->v->class_folder) TRY(w->v->class_folder(w->v->context, name ? name + 1 : path));
    TRY(take_inside(w, path));
    return w->pictures ? STATUS_OK
                       : status_set(STATUS_INVALID,
                                    "%s: the class has no pictures; add some, or remove the folder", path);
}

static status take_entry(void *context, char *path) {
    walk *w = context;
    status result = STATUS_OK;
    if (w->tables)
        result = is_table(path) ? read_table(path, w->v) : STATUS_OK;
    else
        result = read_class(w, path);
    memory_free(path);
    return result;
}

/* Folders are classes where there is no table, and pictures of tables else. */
static status read_folder(const char *path, const picture_visitor *v) {
    walk w = { .v = v, .data = path };
    status result = folder_list(path, count_kind, &w);
    if (result == STATUS_OK && !w.tables && !w.folders)
        result = w.others
                     ? status_set(STATUS_INVALID,
                                  "%s has files and no folder for each class, and no table that says what "
                                  "class they are of; put the pictures of each class into a folder of their "
                                  "own",
                                  path)
                     : status_set(STATUS_INVALID, "%s is empty: there is no folder for each class", path);
    else if (result == STATUS_OK && !w.tables && w.others)
        result = status_set(
            STATUS_INVALID,
            "%s lies beside the folders of classes, so it has none; move it into one, or away", w.loose);
    if (result == STATUS_OK) result = folder_list(path, take_entry, &w);
    memory_free(w.loose);
    return result;
}

status picture_list(const char *path, const picture_visitor *v) {
    struct stat about;
    if (stat(path, &about) != 0)
        return status_set(STATUS_INVALID, "cannot open %s: %s", path, strerror(errno));
    if (S_ISDIR(about.st_mode)) return read_folder(path, v);
    if (is_table(path)) return read_table(path, v);
    return status_set(
        STATUS_INVALID,
        "%s is no table by its name, and no folder; pictures are a folder for each class, or JSON "
        "lines (.jsonl), CSV or Parquet with columns '%s' and '%s'",
        path, v->image ? v->image : "image", v->label);
}
