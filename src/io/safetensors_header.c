/* A reader for the one kind of JSON that a safetensors header is, in two walks over it: the first believes
 * nothing, checks all of it and counts; the second fills exactly as much memory as was counted. */
#include "io/safetensors_header.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_reader.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "io/json_file.h"

/* A tensor as the header tells it, before it is believed. */
typedef struct {
    char name[JSON_READER_STRING], dtype[JSON_READER_STRING];
    uint64_t dim[SAFETENSORS_MAX_RANK];
    uint32_t rank;
    uint64_t begin, end;
    unsigned seen; /* which of the three keys */
} description;

/* One walk. */
typedef struct {
    json_reader text;
    const safetensors_header *header;
    description d;
    uint64_t count, names; /* tensors so far, and bytes of their names with a zero behind each */
    /* Where they go, with room for so many; NULL: they are counted. */
    safetensors_entry *entries;
    char *names_to;
    uint64_t count_room, names_room;
} walk;

static status tensor_wrong(const walk *w, const char *what) {
    char quoted[UTF8_QUOTE_BYTES];
    return status_set(STATUS_INVALID, "%s: tensor '%s' %s", w->text.source.path,
                      utf8_quote(w->d.name, quoted), what);
}

/* Strings by name, for which there is no use here. */
static status skip_metadata(json_reader *s) {
    TRY(json_reader_expect(s, '{'));
    if (json_reader_take(s, '}')) return STATUS_OK;
    for (bool more = true; more;) {
        TRY(json_reader_skip_string(s));
        TRY(json_reader_expect(s, ':'));
        TRY(json_reader_skip_string(s));
        TRY(json_reader_another(s, '}', &more));
    }
    return STATUS_OK;
}

static status read_shape(walk *w) {
    json_reader *s = &w->text;
    description *d = &w->d;
    TRY(json_reader_expect(s, '['));
    if (json_reader_take(s, ']')) return STATUS_OK;
    for (bool more = true; more;) {
        if (d->rank == SAFETENSORS_MAX_RANK) return tensor_wrong(w, "has more than 8 dimensions");
        TRY(json_reader_whole(s, &d->dim[d->rank]));
        d->rank++;
        TRY(json_reader_another(s, ']', &more));
    }
    return STATUS_OK;
}

static status read_offsets(walk *w) {
    json_reader *s = &w->text;
    TRY(json_reader_expect(s, '['));
    TRY(json_reader_whole(s, &w->d.begin));
    TRY(json_reader_expect(s, ','));
    TRY(json_reader_whole(s, &w->d.end));
    return json_reader_expect(s, ']');
}

static status read_member(walk *w) {
    enum { DTYPE = 1, SHAPE_KEY = 2, OFFSETS = 4 };
    char key[JSON_READER_STRING];
    description *d = &w->d;
    TRY(json_reader_string(&w->text, key));
    unsigned bit = strcmp(key, "dtype") == 0          ? DTYPE
                   : strcmp(key, "shape") == 0        ? SHAPE_KEY
                   : strcmp(key, "data_offsets") == 0 ? OFFSETS
                                                      : 0;
    if (bit == 0) return tensor_wrong(w, "has a key that is none of dtype, shape and data_offsets");
    if (d->seen & bit) return tensor_wrong(w, "has dtype, shape or data_offsets twice");
    d->seen |= bit;
    TRY(json_reader_expect(&w->text, ':'));
    return bit == DTYPE       ? json_reader_string(&w->text, d->dtype)
           : bit == SHAPE_KEY ? read_shape(w)
                              : read_offsets(w);
}

static status read_description(walk *w) {
    TRY(json_reader_expect(&w->text, '{'));
    w->d.seen = 0, w->d.rank = 0;
    if (json_reader_take(&w->text, '}')) return tensor_wrong(w, "has no dtype, shape and data_offsets");
    for (bool more = true; more;) {
        TRY(read_member(w));
        TRY(json_reader_another(&w->text, '}', &more));
    }
    return w->d.seen == 7 ? STATUS_OK : tensor_wrong(w, "lacks one of dtype, shape and data_offsets");
}

static const struct {
    const char *name;
    uint32_t bytes;
} types[] = { { "F32", 4 },     { "F16", 2 },     { "BF16", 2 },    { "F64", 8 }, { "I64", 8 }, { "I32", 4 },
              { "I16", 2 },     { "I8", 1 },      { "U64", 8 },     { "U32", 4 }, { "U16", 2 }, { "U8", 1 },
              { "F8_E4M3", 1 }, { "F8_E5M2", 1 }, { "F8_E8M0", 1 }, { "C64", 8 }, { "BOOL", 1 } };

static int type_index(const char *name) {
    for (int i = 0; i < (int)(sizeof types / sizeof *types); i++)
        if (strcmp(name, types[i].name) == 0) return i;
    return -1;
}

uint32_t safetensors_dtype_bytes(const char *name) {
    int type = type_index(name);
    return type < 0 ? 0 : types[type].bytes;
}

/* Believes the description, or says what is wrong with it. The entry has no name yet. */
static status check_description(const walk *w, safetensors_entry *e) {
    const safetensors_header *h = w->header;
    const description *d = &w->d;
    char name[UTF8_QUOTE_BYTES], unknown[UTF8_QUOTE_BYTES];
    utf8_quote(d->name, name);
    int type = type_index(d->dtype);
    if (type < 0)
        return status_set(STATUS_INVALID, "%s: tensor '%s' has the unknown dtype '%s'", h->path, name,
                          utf8_quote(d->dtype, unknown));
    *e = (safetensors_entry){ .dtype = types[type].name, .rank = d->rank, .file = h->file };
    uint64_t bytes = types[type].bytes;
    for (uint32_t i = 0; i < d->rank; i++) {
        if (d->dim[i] > INT64_MAX || __builtin_mul_overflow(bytes, d->dim[i], &bytes))
            return status_set(STATUS_INVALID, "%s: tensor '%s' is too large: dimension %u is %" PRIu64,
                              h->path, name, i, d->dim[i]);
        e->dim[i] = (int64_t)d->dim[i];
    }
    if (d->begin > d->end || d->end > h->data_bytes)
        return status_set(STATUS_INVALID,
                          "%s: tensor '%s' is at bytes %" PRIu64 " to %" PRIu64 " of %" PRIu64
                          " bytes of data",
                          h->path, name, d->begin, d->end, h->data_bytes);
    if (d->end - d->begin != bytes)
        return status_set(STATUS_INVALID,
                          "%s: tensor '%s' has %" PRIu64 " bytes of data, its shape and %s need %" PRIu64,
                          h->path, name, d->end - d->begin, e->dtype, bytes);
    e->offset = h->data_start + d->begin;
    e->bytes = bytes;
    return STATUS_OK;
}

static status add_entry(walk *w, safetensors_entry *e) {
    size_t length = strlen(w->d.name) + 1;
    if (w->entries) {
        if (w->count >= w->count_room || length > w->names_room - w->names)
            return status_set(STATUS_FAILED, "%s was changed while it was read", w->text.source.path);
        e->name = memcpy(w->names_to + w->names, w->d.name, length);
        w->entries[w->count] = *e;
    }
    w->count++;
    w->names += length;
    return STATUS_OK;
}

/* The members of the header, one after the other. */
static status read_members(walk *w) {
    bool metadata = false;
    for (bool more = true; more;) {
        safetensors_entry e;
        TRY(json_reader_string(&w->text, w->d.name));
        TRY(json_reader_expect(&w->text, ':'));
        if (strcmp(w->d.name, "__metadata__") == 0) {
            if (metadata) return json_reader_wrong(&w->text, "__metadata__ is there twice");
            metadata = true;
            TRY(skip_metadata(&w->text));
        } else {
            TRY(read_description(w));
            TRY(check_description(w, &e));
            TRY(add_entry(w, &e));
        }
        TRY(json_reader_another(&w->text, '}', &more));
    }
    return STATUS_OK;
}

static status walk_through(walk *w, const safetensors_header *h) {
    w->header = h;
    json_source source = json_file_source(&h->handle, h->path, "the header", h->start, h->bytes);
    json_reader_begin(&w->text, &source);
    TRY(json_reader_expect(&w->text, '{'));
    if (!json_reader_take(&w->text, '}')) TRY(read_members(w));
    return json_reader_end(&w->text);
}

static int by_offset(const void *left, const void *right) {
    const safetensors_entry *a = left, *b = right;
    if (a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
    return (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

static int by_name(const void *left, const void *right) {
    return strcmp(((const safetensors_entry *)left)->name, ((const safetensors_entry *)right)->name);
}

/* Together the tensors must be the data: no hole, no overlap, no rest. */
static status check_cover(const safetensors_header *h, const safetensors_entry *entries, uint32_t count) {
    char name[UTF8_QUOTE_BYTES];
    uint64_t end = h->data_start;
    for (uint32_t i = 0; i < count; i++) {
        if (entries[i].offset != end)
            return status_set(STATUS_INVALID,
                              "%s: tensor '%s' begins at byte %" PRIu64
                              " of the data, %s the end of the one before "
                              "it (%" PRIu64 ")",
                              h->path, utf8_quote(entries[i].name, name), entries[i].offset - h->data_start,
                              entries[i].offset < end ? "before" : "after", end - h->data_start);
        end += entries[i].bytes;
    }
    if (end - h->data_start == h->data_bytes) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "%s: the tensors end at byte %" PRIu64 " of the data, the file has %" PRIu64
                      " bytes of it",
                      h->path, end - h->data_start, h->data_bytes);
}

/* Room for what the first walk has counted, behind what the set has. */
static status make_room(const walk *counted, safetensors *s, char **names) {
    uint64_t all = s->count + counted->count;
    if (all > UINT32_MAX)
        return status_set(STATUS_INVALID, "%s has too many tensors", counted->text.source.path);
    safetensors_entry *entries = memory_resize(s->entries, (size_t)all, sizeof *entries);
    if (entries) s->entries = entries;
    *names = memory_room((size_t)counted->names, 1);
    if (entries && *names) return STATUS_OK;
    return status_set(STATUS_FAILED, "%s: no memory for %" PRIu64 " tensors", counted->text.source.path, all);
}

static status fill(const walk *counted, const safetensors_header *h, safetensors *s, char **names) {
    TRY(make_room(counted, s, names));
    walk w = { .entries = s->entries + s->count,
               .names_to = *names,
               .count_room = counted->count,
               .names_room = counted->names };
    TRY(walk_through(&w, h));
    if (w.count) qsort(w.entries, w.count, sizeof *w.entries, by_offset);
    TRY(check_cover(h, w.entries, (uint32_t)w.count));
    s->count += (uint32_t)w.count;
    return STATUS_OK;
}

status safetensors_header_read(const safetensors_header *h, safetensors *s, char **names) {
    walk w = { 0 };
    TRY(walk_through(&w, h));
    return fill(&w, h, s, names);
}

/* Sorting takes a pointer and room for another for each entry. */
status safetensors_header_held(const safetensors_header *h, uint64_t *bytes) {
    walk w = { 0 };
    TRY(walk_through(&w, h));
    *bytes = w.count * (sizeof(safetensors_entry) + 2 * sizeof(void *)) + w.names;
    return STATUS_OK;
}

status safetensors_sort(const char *path, safetensors *s) {
    char name[UTF8_QUOTE_BYTES];
    if (s->count > 0) qsort(s->entries, s->count, sizeof *s->entries, by_name);
    for (uint32_t i = 1; i < s->count; i++)
        if (strcmp(s->entries[i - 1].name, s->entries[i].name) == 0)
            return status_set(STATUS_INVALID, "%s: the name '%s' is there twice", path,
                              utf8_quote(s->entries[i].name, name));
    return STATUS_OK;
}
