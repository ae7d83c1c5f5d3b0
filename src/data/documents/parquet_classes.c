#include "data/documents/parquet_classes.h"

#include <string.h>

#include "base/json_reader.h"
#include "models/label_names.h"

static status read_file(const void *from, const char *path, uint64_t offset, void *into, uint64_t bytes) {
    (void)path;
    return format_pread(from, offset, into, bytes);
}

/* Goes to the value of a key of the object that comes; `*found` is false where there is none of it. */
static status enter(json_reader *r, const char *key, bool *found) {
    char name[DOCUMENT_NAME];
    uint64_t bytes;
    bool more;
    *found = false;
    if (json_reader_peek(r) != '{') return STATUS_OK;
    TRY(json_reader_expect(r, '{'));
    if (json_reader_take(r, '}')) return STATUS_OK;
    do {
        TRY(json_reader_text(r, name, sizeof name, &bytes));
        TRY(json_reader_expect(r, ':'));
        *found = bytes == strlen(key) && bytes < sizeof name && memcmp(name, key, bytes) == 0;
        if (*found) return STATUS_OK;
        TRY(json_reader_skip(r));
        TRY(json_reader_another(r, '}', &more));
    } while (more);
    return STATUS_OK;
}

static status read_names(json_reader *r, document_class *each, void *context) {
    char name[LABEL_NAMES_BYTES];
    uint64_t bytes;
    bool more = true;
    if (json_reader_peek(r) != '[') return STATUS_OK;
    TRY(json_reader_expect(r, '['));
    if (json_reader_take(r, ']')) return STATUS_OK;
    for (uint32_t count = 0; more; count++) {
        TRY(json_reader_text(r, name, sizeof name, &bytes));
        if (!bytes || bytes > sizeof name || memchr(name, 0, bytes))
            return json_reader_wrong(r, "the name of a class has not 1 to 255 bytes, or holds a zero");
        if (count == LABEL_NAMES_MOST) return json_reader_wrong(r, "there are more than 1048576 classes");
        TRY(each(context, name, bytes));
        TRY(json_reader_another(r, ']', &more));
    }
    return STATUS_OK;
}

status parquet_classes_each(const parquet_file *p, const char *column, document_class *each, void *context) {
    const char *const way[] = { "info", "features", column, "names" };
    json_source source = { .read = read_file,
                           .from = &p->of->file,
                           .path = p->of->file.path,
                           .what = "the text 'huggingface' of the footer",
                           .start = p->classes,
                           .bytes = p->classes_end - p->classes };
    json_reader r;
    bool found = p->classes_end > p->classes;
    if (!found) return STATUS_OK;
    json_reader_begin(&r, &source);
    for (size_t i = 0; i < sizeof way / sizeof *way && found; i++) TRY(enter(&r, way[i], &found));
    return found ? read_names(&r, each, context) : STATUS_OK;
}

/* ---- in memory ---- */

static status count_name(void *context, const char *name, uint64_t bytes) {
    parquet_classes *c = context;
    (void)name;
    c->count++, c->bytes += bytes;
    return STATUS_OK;
}

status parquet_classes_measure(const parquet_file *p, const char *column, parquet_classes *c) {
    *c = (parquet_classes){ 0 };
    return parquet_classes_each(p, column, count_name, c);
}

typedef struct {
    parquet_classes *to;
    uint64_t count, bytes;
} filling;

static status keep_name(void *context, const char *name, uint64_t bytes) {
    filling *f = context;
    if (f->count == f->to->count || bytes > f->to->bytes - f->bytes)
        return status_set(STATUS_FAILED, "the names of the classes have changed while they were read");
    memcpy(f->to->text + f->bytes, name, bytes);
    f->bytes += bytes;
    f->to->ends[f->count++] = f->bytes;
    return STATUS_OK;
}

status parquet_classes_read(const parquet_file *p, const char *column, document_room *room,
                            parquet_classes *c) {
    filling f = { .to = c };
    c->ends = document_room_take(room, c->count * sizeof *c->ends);
    c->text = document_room_take(room, c->bytes);
    return c->ends && c->text ? parquet_classes_each(p, column, keep_name, &f) : STATUS_OK;
}
