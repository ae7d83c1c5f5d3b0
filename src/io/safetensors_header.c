/* A reader for the one kind of JSON that a safetensors header is. It walks the text once, decodes strings
 * where they stand (decoded they are never longer) and keeps nothing but the entries. */
#include "io/safetensors_header.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"

typedef struct {
    const char *path;
    char *start, *at, *end;
} reader;

/* A tensor as the header tells it, before it is believed. */
typedef struct {
    char *name, *dtype;
    uint64_t dim[SAFETENSORS_MAX_RANK];
    uint32_t rank;
    uint64_t begin, end;
    unsigned seen; /* which of the three keys */
} description;

static status header_wrong(const reader *r, const char *what) {
    return status_set(STATUS_INVALID, "%s: the header is wrong at byte %zu: %s", r->path,
                      (size_t)(r->at - r->start), what);
}

static status tensor_wrong(const reader *r, const char *name, const char *what) {
    char quoted[UTF8_QUOTE_BYTES];
    return status_set(STATUS_INVALID, "%s: tensor '%s' %s", r->path, utf8_quote(name, quoted), what);
}

static void skip_space(reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\r' || *r->at == '\t')) r->at++;
}

/* Is the next character this one? Then it is taken. */
static bool take(reader *r, char c) {
    skip_space(r);
    if (r->at >= r->end || *r->at != c) return false;
    r->at++;
    return true;
}

static status expect(reader *r, char c) {
    if (take(r, c)) return STATUS_OK;
    char what[] = "expected ' '";
    what[sizeof what - 3] = c;
    return header_wrong(r, what);
}

/* After an item of a list or object: is there another one? */
static status another(reader *r, char close, bool *more) {
    *more = take(r, ',');
    return *more ? STATUS_OK : expect(r, close);
}

static status read_hex(reader *r, unsigned long *value) {
    *value = 0;
    if (r->end - r->at < 4) return header_wrong(r, "the text ends inside \\u");
    for (int i = 0; i < 4; i++, r->at++) {
        char c = *r->at;
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
                                                : 16;
        if (digit == 16) return header_wrong(r, "\\u wants four hexadecimal digits");
        *value = *value << 4 | digit;
    }
    return STATUS_OK;
}

/* \u0061, or a pair of surrogates; `at` is behind the u. */
static status read_point(reader *r, char **to) {
    unsigned long point, low;
    TRY(read_hex(r, &point));
    if (point == 0) return header_wrong(r, "a zero byte in a string");
    if (point >= 0xd800 && point < 0xdc00) {
        if (r->end - r->at < 2 || r->at[0] != '\\' || r->at[1] != 'u')
            return header_wrong(r, "half a surrogate");
        r->at += 2;
        TRY(read_hex(r, &low));
        if (low < 0xdc00 || low > 0xdfff) return header_wrong(r, "half a surrogate");
        point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
    } else if (point >= 0xdc00 && point < 0xe000) {
        return header_wrong(r, "half a surrogate");
    }
    *to += utf8_encode(point, *to);
    return STATUS_OK;
}

static status read_escape(reader *r, char **to) {
    static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    if (r->at >= r->end) return header_wrong(r, "the text ends inside a string");
    char c = *r->at++;
    if (c == 'u') return read_point(r, to);
    const char *known = c ? strchr(letters, c) : NULL;
    if (!known) return header_wrong(r, "an unknown escape in a string");
    *(*to)++ = values[known - letters];
    return STATUS_OK;
}

/* A string, decoded in place and ended by a zero, which falls at the latest on its closing quote. */
static status read_string(reader *r, char **out) {
    TRY(expect(r, '"'));
    char *to = *out = r->at;
    while (r->at < r->end && *r->at != '"') {
        size_t length = utf8_length(r->at, (size_t)(r->end - r->at));
        if (length == 0) return header_wrong(r, "a string is not UTF-8");
        if ((unsigned char)*r->at < 0x20) return header_wrong(r, "a control character in a string");
        if (*r->at == '\\') {
            r->at++;
            TRY(read_escape(r, &to));
            continue;
        }
        memmove(to, r->at, length);
        to += length, r->at += length;
    }
    TRY(expect(r, '"'));
    *to = '\0';
    return STATUS_OK;
}

static status read_whole(reader *r, uint64_t *out) {
    skip_space(r);
    const char *first = r->at;
    uint64_t value = 0;
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*r->at - '0'), &value))
            return header_wrong(r, "a number does not fit in 64 bits");
    if (r->at == first) return header_wrong(r, "expected a whole number, 0 or more");
    if (*first == '0' && r->at - first > 1) return header_wrong(r, "a number begins with 0");
    *out = value;
    return STATUS_OK;
}

/* Strings by name, for which there is no use here. */
static status skip_metadata(reader *r) {
    char *unused;
    TRY(expect(r, '{'));
    if (take(r, '}')) return STATUS_OK;
    for (bool more = true; more;) {
        TRY(read_string(r, &unused));
        TRY(expect(r, ':'));
        TRY(read_string(r, &unused));
        TRY(another(r, '}', &more));
    }
    return STATUS_OK;
}

static status read_shape(reader *r, description *d) {
    TRY(expect(r, '['));
    if (take(r, ']')) return STATUS_OK;
    for (bool more = true; more;) {
        if (d->rank == SAFETENSORS_MAX_RANK) return tensor_wrong(r, d->name, "has more than 8 dimensions");
        TRY(read_whole(r, &d->dim[d->rank]));
        d->rank++;
        TRY(another(r, ']', &more));
    }
    return STATUS_OK;
}

static status read_offsets(reader *r, description *d) {
    TRY(expect(r, '['));
    TRY(read_whole(r, &d->begin));
    TRY(expect(r, ','));
    TRY(read_whole(r, &d->end));
    return expect(r, ']');
}

static status read_member(reader *r, description *d) {
    enum { DTYPE = 1, SHAPE_KEY = 2, OFFSETS = 4 };
    char *key;
    TRY(read_string(r, &key));
    unsigned bit = strcmp(key, "dtype") == 0          ? DTYPE
                   : strcmp(key, "shape") == 0        ? SHAPE_KEY
                   : strcmp(key, "data_offsets") == 0 ? OFFSETS
                                                      : 0;
    if (bit == 0) return tensor_wrong(r, d->name, "has a key that is none of dtype, shape and data_offsets");
    if (d->seen & bit) return tensor_wrong(r, d->name, "has dtype, shape or data_offsets twice");
    d->seen |= bit;
    TRY(expect(r, ':'));
    return bit == DTYPE       ? read_string(r, &d->dtype)
           : bit == SHAPE_KEY ? read_shape(r, d)
                              : read_offsets(r, d);
}

static status read_description(reader *r, description *d) {
    TRY(expect(r, '{'));
    if (take(r, '}')) return tensor_wrong(r, d->name, "has no dtype, shape and data_offsets");
    for (bool more = true; more;) {
        TRY(read_member(r, d));
        TRY(another(r, '}', &more));
    }
    return d->seen == 7 ? STATUS_OK : tensor_wrong(r, d->name, "lacks one of dtype, shape and data_offsets");
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

/* Believes the description, or says what is wrong with it. */
static status check_description(const reader *r, const safetensors_header *h, const description *d,
                                safetensors_entry *e) {
    char name[UTF8_QUOTE_BYTES], unknown[UTF8_QUOTE_BYTES];
    utf8_quote(d->name, name);
    int type = type_index(d->dtype);
    if (type < 0)
        return status_set(STATUS_INVALID, "%s: tensor '%s' has the unknown dtype '%s'", r->path, name,
                          utf8_quote(d->dtype, unknown));
    *e = (safetensors_entry){ .name = d->name, .dtype = types[type].name, .rank = d->rank, .file = h->file };
    uint64_t bytes = types[type].bytes;
    for (uint32_t i = 0; i < d->rank; i++) {
        if (d->dim[i] > INT64_MAX || __builtin_mul_overflow(bytes, d->dim[i], &bytes))
            return status_set(STATUS_INVALID, "%s: tensor '%s' is too large: dimension %u is %" PRIu64,
                              r->path, name, i, d->dim[i]);
        e->dim[i] = (int64_t)d->dim[i];
    }
    if (d->begin > d->end || d->end > h->data_bytes)
        return status_set(STATUS_INVALID,
                          "%s: tensor '%s' is at bytes %" PRIu64 " to %" PRIu64 " of %" PRIu64
                          " bytes of data",
                          r->path, name, d->begin, d->end, h->data_bytes);
    if (d->end - d->begin != bytes)
        return status_set(STATUS_INVALID,
                          "%s: tensor '%s' has %" PRIu64 " bytes of data, its shape and %s need %" PRIu64,
                          r->path, name, d->end - d->begin, e->dtype, bytes);
    e->offset = h->data_start + d->begin;
    e->bytes = bytes;
    return STATUS_OK;
}

static status add_entry(const reader *r, safetensors *s, uint32_t *capacity, const safetensors_entry *e) {
    if (s->count == *capacity) {
        uint32_t larger = *capacity ? *capacity * 2 : 64;
        safetensors_entry *entries = memory_resize(s->entries, larger, sizeof *entries);
        if (!entries) return status_set(STATUS_FAILED, "%s: no memory for %u tensors", r->path, larger);
        s->entries = entries;
        *capacity = larger;
    }
    s->entries[s->count++] = *e;
    return STATUS_OK;
}

/* The members of the header, one after the other. */
static status read_members(reader *r, const safetensors_header *h, safetensors *s) {
    bool metadata = false;
    uint32_t capacity = s->count; /* full: the first addition grows it */
    for (bool more = true; more;) {
        description d = { 0 };
        safetensors_entry e;
        TRY(read_string(r, &d.name));
        TRY(expect(r, ':'));
        if (strcmp(d.name, "__metadata__") == 0) {
            if (metadata) return header_wrong(r, "__metadata__ is there twice");
            metadata = true;
            TRY(skip_metadata(r));
        } else {
            TRY(read_description(r, &d));
            TRY(check_description(r, h, &d, &e));
            TRY(add_entry(r, s, &capacity, &e));
        }
        TRY(another(r, '}', &more));
    }
    return STATUS_OK;
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

status safetensors_header_read(const safetensors_header *h, safetensors *s) {
    reader r = { .path = h->path, .start = h->header, .at = h->header, .end = h->header + h->bytes };
    uint32_t before = s->count;
    TRY(expect(&r, '{'));
    if (!take(&r, '}')) TRY(read_members(&r, h, s));
    skip_space(&r);
    if (r.at != r.end) return header_wrong(&r, "something follows its end");
    if (s->count > before) qsort(s->entries + before, s->count - before, sizeof *s->entries, by_offset);
    return check_cover(h, s->entries ? s->entries + before : NULL, s->count - before);
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
