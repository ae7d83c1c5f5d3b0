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

enum { LABEL, IMAGE, COLUMNS }; /* as they are asked for: where that is the order, the class comes first */
enum { SPLIT_BYTES = 64, DEEPEST = 16, PATH_BYTES = 4096, WORD_BYTES = 4096, ALIGNMENT = 64 };

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

static void take_class(picture_found *found, const word *label) {
    found->class = label->bytes;
    found->class_bytes = label->count < WORD_BYTES ? label->count : WORD_BYTES - 1;
}

/* "TABLE, record 3: ", or of Parquet the row group and the row in it. */
static status named(const char *table, document_place place, status result) {
    if (result == STATUS_OK) return STATUS_OK;
    if (document_format_of(table) == DOCUMENT_PARQUET)
        return status_prefix(result, "%s, row group %" PRIu64 ", row %" PRIu64, table, place.offset,
                             place.line);
    return status_prefix(result, "%s, record %" PRIu64, table, place.record + 1);
}

/* What stands in a table is meant from its folder on. */
static status hand_over(const char *table, const picture_visitor *v, const word words[COLUMNS]) {
    char path[PATH_BYTES];
    const word *image = &words[IMAGE];
    const char *slash = strrchr(table, '/');
    int folder = image->bytes[0] == '/' || !slash ? 0 : (int)(slash - table + 1);
    if (v->image && (!image->count || memchr(image->bytes, 0, image->count < WORD_BYTES ? image->count : 0)))
        return status_set(STATUS_INVALID, "the column '%s' %s", v->image,
                          document_format_of(table) == DOCUMENT_PARQUET
                              ? "has neither the bytes of a picture nor the path of its file"
                              : "names no file");
    if (image->count >= WORD_BYTES ||
        snprintf(path, sizeof path, "%.*s%s", folder, table, image->bytes) >= PATH_BYTES)
        return status_set(STATUS_INVALID, "the path '%.60s...' is too long", image->bytes);
    picture_found found = { .path = path };
    take_class(&found, &words[LABEL]);
    return v->picture(v->context, &found);
}

/* A picture inside of the table. The class is known: its column comes first. */
static status hand_over_bytes(const documents *d, const picture_visitor *v, const word words[COLUMNS],
                              const document_piece *p) {
    document_place place = documents_place(d);
    picture_found found = { .path = documents_file(d)->path,
                            .bytes = (const uint8_t *)p->bytes,
                            .cell = documents_cell(d),
                            .stamp = documents_file(d)->stamp,
                            .group = place.offset,
                            .row = place.line };
    take_class(&found, &words[LABEL]);
    return v->picture(v->context, &found);
}

/* `*inside`: the picture was in the table, and was handed over. */
static status read_columns(documents *d, const picture_visitor *v, word words[COLUMNS], bool *inside) {
    document_piece p;
    *inside = false;
    for (int i = 0; i < COLUMNS; i++) words[i].count = 0, words[i].bytes[0] = 0;
    for (;;) {
        TRY(documents_next(d, &p));
        if (p.event == DOCUMENT_RECORD_END) return STATUS_OK;
        if (p.event != DOCUMENT_STRING) continue;
        if (p.member && strcmp(p.member, "bytes") == 0) {
            TRY(named(documents_file(d)->path, documents_place(d), hand_over_bytes(d, v, words, &p)));
            *inside = true;
        } else {
            append(&words[p.column], p.bytes, p.count);
        }
    }
}

static status read_records(documents *d, const char *table, const picture_visitor *v, word words[COLUMNS]) {
    document_piece p;
    bool inside;
    for (;;) {
        TRY(documents_next(d, &p));
        if (p.event == DOCUMENT_END) return STATUS_OK;
        if (p.event != DOCUMENT_RECORD) continue;
        document_place place = documents_place(d);
        TRY(read_columns(d, v, words, &inside));
        if (!inside) TRY(named(table, place, hand_over(table, v, words)));
    }
}

static status read_pictures(const document_options *o, const picture_visitor *v) {
    documents *d = NULL;
    uint64_t bytes, own = units_align(COLUMNS * sizeof(word), ALIGNMENT);
    char most[UNITS_TEXT_BYTES];
    TRY(documents_need(o, &bytes));
    uint64_t reading = bytes + own + ALIGNMENT;
    if (v->held(v->context) + reading > v->most)
        return status_set(STATUS_NO_FIT,
                          "%s: its reader doesn't fit; reading the list of pictures may take %s of "
                          "the memory",
                          o->path, units_bytes_text(v->most, most));
    char *block = memory_new(reading, 1);
    if (!block) return status_set(STATUS_FAILED, "%s: no memory to read it", o->path);
    char *room = block + (ALIGNMENT - (uintptr_t)block % ALIGNMENT) % ALIGNMENT;
    *v->reading = reading;
    status result = documents_open(o, room + own, bytes, &d);
    if (result == STATUS_OK) result = read_records(d, o->path, v, (word *)room);
    documents_close(d);
    memory_free(block);
    *v->reading = 0;
    return result;
}

/* Bytes come whole: where they are read they stand in memory already. */
static document_options options_of(const char *table, const picture_visitor *v,
                                   const document_column columns[COLUMNS]) {
    return (document_options){ .path = table,
                               .columns = columns,
                               .column_count = v->image ? COLUMNS : 1,
                               .plain = UINT32_MAX,
                               .classes = 1u << LABEL,
                               .bytes = 1u << IMAGE,
                               .piece_bytes = document_format_of(table) == DOCUMENT_PARQUET ? INT32_MAX : 0 };
}

static status read_table(const char *table, const picture_visitor *v) {
    document_column columns[COLUMNS] = { [LABEL] = { .name = v->label }, [IMAGE] = { .name = v->image } };
    document_options o = options_of(table, v, columns);
    bool told = false;
    if (v->classes) TRY(v->classes(v->context, &o, &told));
    return told ? STATUS_OK : read_pictures(&o, v);
}

/* ---- folders ---- */

typedef struct {
    const picture_visitor *v;
    const char *data;
    uint32_t depth;
    uint64_t folders, tables, others; /* in the data's own folder */
    uint64_t pictures;                /* of the class */
    char *loose;                      /* one of the others */
    char split[SPLIT_BYTES];          /* of the first table whose name says one */
} walk;

/* Of "FOLDER/train-00000-of-00003.parquet", as data sets are published, "train"; of other names nothing. */
static void split_of(const char *path, char split[SPLIT_BYTES]) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *of = strstr(name, "-of-");
    split[0] = 0;
    const char *end = of;
    while (end && end > name && end[-1] >= '0' && end[-1] <= '9') end--;
    if (!end || end == of || end - name < 2 || end[-1] != '-' || end - name > SPLIT_BYTES) return;
    memcpy(split, name, (size_t)(end - name - 1));
    split[end - name - 1] = 0;
}

/* What is there to be tested with would be trained on. */
static status check_split(walk *w, const char *path) {
    char split[SPLIT_BYTES];
    split_of(path, split);
    if (!w->split[0]) memcpy(w->split, split, sizeof split);
    if (!split[0] || strcmp(split, w->split) == 0) return STATUS_OK;
    return status_set(
        STATUS_INVALID,
        "%s holds '%s' and '%s', by the names of its files; put the files of each into a folder "
        "of its own, or name one file",
        w->data, w->split, split);
}

static status count_kind(void *context, char *path) {
    walk *w = context;
    status result = STATUS_OK;
    if (is_folder(path)) {
        w->folders++;
    } else if (is_table(path)) {
        w->tables++;
        result = check_split(w, path);
    } else if (!w->others++) {
        w->loose = path;
        return STATUS_OK;
    }
    memory_free(path);
    return result;
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
    else if (is_table(path))
        result = status_set(STATUS_INVALID,
                            "%s is a table in a folder for a class; where tables say what pictures are, name "
                            "the table or its own folder as the data",
                            path);
    else if (w->pictures++, w->v->image)
        result = w->v->picture(w->v->context, &(picture_found){ .path = path });
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
