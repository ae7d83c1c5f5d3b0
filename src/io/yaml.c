#include "io/yaml.h"

#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "base/memory.h"
#include "io/file.h"

enum { LARGEST_FILE = 256 << 10, MOST_ENTRIES = 1024, MOST_VALUES = 1024 };

typedef struct {
    yaml_parser_t parser;
    yaml_event_t event;
    bool held; /* event is filled */
    const char *name;
    yaml_file *file;
} reading;

static uint32_t line_of(const reading *r) { return (uint32_t)r->event.start_mark.line + 1; }

#define REFUSE(r, format, ...)                                                                               \
    status_set(STATUS_INVALID, "%s:%u: " format, (r)->name, line_of(r), __VA_ARGS__)

/* The next event, in place of the one before. */
static status next(reading *r) {
    if (r->held) yaml_event_delete(&r->event);
    r->held = yaml_parser_parse(&r->parser, &r->event);
    if (r->held) return STATUS_OK;
    const yaml_parser_t *p = &r->parser;
    if (p->error == YAML_MEMORY_ERROR) return status_set(STATUS_FAILED, "no memory to read %s", r->name);
    size_t line = p->problem_mark.line > p->context_mark.line ? p->problem_mark.line : p->context_mark.line;
    if (p->error == YAML_READER_ERROR) { /* the bytes are no text: there is a place, but no line */
        return status_set(STATUS_INVALID, "%s: byte %zu is no UTF-8 text: %s", r->name, p->problem_offset,
                          p->problem ? p->problem : "it can't be read");
    }
    return status_set(STATUS_INVALID, "%s:%zu: this is no YAML: %s", r->name, line + 1,
                      p->problem ? p->problem : "it can't be read");
}

/* ---- values ---- */

static status check_plain(const reading *r, const char *key) {
    const yaml_event_t *e = &r->event;
    const yaml_char_t *anchor = e->type == YAML_ALIAS_EVENT            ? e->data.alias.anchor
                                : e->type == YAML_SCALAR_EVENT         ? e->data.scalar.anchor
                                : e->type == YAML_SEQUENCE_START_EVENT ? e->data.sequence_start.anchor
                                                                       : e->data.mapping_start.anchor;
    const yaml_char_t *tag = e->type == YAML_ALIAS_EVENT            ? NULL
                             : e->type == YAML_SCALAR_EVENT         ? e->data.scalar.tag
                             : e->type == YAML_SEQUENCE_START_EVENT ? e->data.sequence_start.tag
                                                                    : e->data.mapping_start.tag;
    if (anchor)
        return REFUSE(r, "%s: anchors and aliases (%c%.40s) are not taken; write the value out", key,
                      e->type == YAML_ALIAS_EVENT ? '*' : '&', (const char *)anchor);
    if (tag)
        return REFUSE(r, "%s: tags (%.40s) are not taken; write the value alone", key, (const char *)tag);
    return STATUS_OK;
}

/* The scalar that the event holds, as a copy. */
static status take_text(const reading *r, const char *key, char **out) {
    const char *value = (const char *)r->event.data.scalar.value;
    if (strlen(value) != r->event.data.scalar.length)
        return REFUSE(r, "%s: a value can't hold a zero byte", key);
    *out = memory_text(value);
    return *out ? STATUS_OK : status_set(STATUS_FAILED, "no memory to read %s", r->name);
}

static bool says_nothing(const yaml_event_t *e) {
    static const char *const words[] = { "", "~", "null", "Null", "NULL" };
    if (e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE) return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp((const char *)e->data.scalar.value, words[i]) == 0) return true;
    return false;
}

static status add_value(reading *r, yaml_entry *x) {
    if (x->count == MOST_VALUES) return REFUSE(r, "%s: a list has at most %d values", x->key, MOST_VALUES);
    if (x->count == x->room) {
        uint32_t room = x->room ? 2 * x->room : 4;
        char **more = memory_resize(x->values, room, sizeof *more);
        if (!more) return status_set(STATUS_FAILED, "no memory to read %s", r->name);
        x->values = more, x->room = room;
    }
    TRY(check_plain(r, x->key));
    x->empty = x->empty || says_nothing(&r->event);
    TRY(take_text(r, x->key, &x->values[x->count]));
    x->count++;
    return STATUS_OK;
}

static status read_value(reading *r, yaml_entry *x) {
    TRY(next(r));
    if (r->event.type == YAML_SCALAR_EVENT) return add_value(r, x);
    TRY(check_plain(r, x->key));
    if (r->event.type == YAML_MAPPING_START_EVENT)
        return REFUSE(r, "%s: maps in maps are not taken; options stand side by side as name: value", x->key);
    x->list = true;
    for (;;) {
        TRY(next(r));
        if (r->event.type == YAML_SEQUENCE_END_EVENT) return STATUS_OK;
        if (r->event.type == YAML_ALIAS_EVENT) TRY(check_plain(r, x->key));
        if (r->event.type != YAML_SCALAR_EVENT) return REFUSE(r, "%s: a list holds values only", x->key);
        TRY(add_value(r, x));
    }
}

/* ---- the map ---- */

static status make_room(const reading *r) {
    yaml_file *f = r->file;
    if (f->count < f->room) return STATUS_OK;
    if (f->count >= MOST_ENTRIES) return REFUSE(r, "more than %u keys", f->count);
    uint32_t room = f->room ? 2 * f->room : 16;
    yaml_entry *more = memory_resize(f->entries, room, sizeof *more);
    if (!more) return status_set(STATUS_FAILED, "no memory to read %s", r->name);
    f->entries = more, f->room = room;
    return STATUS_OK;
}

static status read_key(reading *r, yaml_entry **out) {
    yaml_file *f = r->file;
    if (r->event.type != YAML_SCALAR_EVENT) return REFUSE(r, "%s", "a key is the name of an option");
    TRY(check_plain(r, "a key"));
    char *key;
    TRY(take_text(r, "a key", &key));
    for (uint32_t i = 0; i < f->count; i++)
        if (strcmp(f->entries[i].key, key) == 0) {
            status twice = REFUSE(r, "%.60s is given twice, first in line %u", key, f->entries[i].line);
            memory_free(key);
            return twice;
        }
    status room = make_room(r); /* before the key is handed over */
    if (room != STATUS_OK) {
        memory_free(key);
        return room;
    }
    *out = &f->entries[f->count++];
    **out = (yaml_entry){ .key = key, .line = line_of(r) };
    return STATUS_OK;
}

static status read_map(reading *r) {
    if (r->event.type != YAML_MAPPING_START_EVENT)
        return REFUSE(r, "%s", "a configuration is lines of the form name: value, as in batch: 16");
    TRY(check_plain(r, "the file"));
    for (;;) {
        yaml_entry *x = NULL;
        TRY(next(r));
        if (r->event.type == YAML_MAPPING_END_EVENT) return STATUS_OK;
        TRY(read_key(r, &x));
        TRY(read_value(r, x));
    }
}

static status read_documents(reading *r) {
    TRY(next(r)); /* the stream begins */
    TRY(next(r));
    if (r->event.type == YAML_STREAM_END_EVENT) return STATUS_OK; /* nothing but comments */
    TRY(next(r));
    if (r->event.type == YAML_SCALAR_EVENT && says_nothing(&r->event))
        TRY(check_plain(r, "the file"));
    else
        TRY(read_map(r));
    TRY(next(r)); /* the document ends */
    TRY(next(r));
    if (r->event.type != YAML_STREAM_END_EVENT)
        return REFUSE(r, "%s", "a second document begins here; a configuration is one");
    return STATUS_OK;
}

status yaml_read(const char *name, const char *bytes, size_t count, yaml_file *file) {
    reading r = { .name = name, .file = file };
    *file = (yaml_file){ 0 };
    if (!yaml_parser_initialize(&r.parser)) return status_set(STATUS_FAILED, "no memory to read %s", name);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)bytes, count);
    status result = read_documents(&r);
    if (r.held) yaml_event_delete(&r.event);
    yaml_parser_delete(&r.parser);
    if (result != STATUS_OK) yaml_close(file);
    return result;
}

void yaml_close(yaml_file *file) {
    for (uint32_t i = 0; i < file->count; i++) {
        yaml_entry *x = &file->entries[i];
        for (uint32_t k = 0; k < x->count; k++) memory_free(x->values[k]);
        memory_free(x->values);
        memory_free(x->key);
    }
    memory_free(file->entries);
    *file = (yaml_file){ 0 };
}

status yaml_open(const char *path, yaml_file *file) {
    char *bytes;
    uint64_t count;
    *file = (yaml_file){ 0 };
    TRY(io_read_file(path, LARGEST_FILE, &bytes, &count));
    status result = yaml_read(path, bytes, count, file);
    memory_free(bytes);
    return result;
}
