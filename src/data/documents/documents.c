#include "data/documents/documents.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "base/utf8.h"
#include "data/documents/reader.h"

static const document_reader *const readers[DOCUMENT_FORMATS] = { NULL, &document_reader_text,
                                                                  &document_reader_json, &document_reader_csv,
                                                                  &document_reader_parquet };
static const unpacker *const unpackers[DOCUMENT_PACKINGS] = {
    [DOCUMENT_GZIP] = &unpack_gzip, [DOCUMENT_ZSTD] = &unpack_zstd
};
static const char *const packed_suffixes[DOCUMENT_PACKINGS] = {
    [DOCUMENT_GZIP] = ".gz", [DOCUMENT_ZSTD] = ".zst"
};

/* ---- names ---- */

status document_format_parse(const char *word, const char *name, document_format *format) {
    for (int f = 0; f < DOCUMENT_FORMATS; f++)
        if (strcmp(word, document_format_name((document_format)f)) == 0) {
            *format = (document_format)f;
            return STATUS_OK;
        }
    return status_set(STATUS_INVALID, "%s: '%s' is none of auto, text, json, csv and parquet", name, word);
}

const char *document_format_name(document_format format) {
    return format == DOCUMENT_AUTO ? "auto" : readers[format]->name;
}

document_packing document_packing_of(const char *path) {
    for (int p = DOCUMENT_GZIP; p < DOCUMENT_PACKINGS; p++)
        if (text_ends_with(path, packed_suffixes[p])) return (document_packing)p;
    return DOCUMENT_UNPACKED;
}

/* Does the name end so, before the ending of its packing? */
static bool ends_with(const char *path, size_t length, const char *suffix) {
    size_t bytes = strlen(suffix);
    return length > bytes && memcmp(path + length - bytes, suffix, bytes) == 0;
}

/* The name's length without the ending of its packing. */
static size_t bare_length(const char *path) {
    document_packing packing = document_packing_of(path);
    return strlen(path) - (packing == DOCUMENT_UNPACKED ? 0 : strlen(packed_suffixes[packing]));
}

document_format document_format_of(const char *path) {
    size_t length = bare_length(path);
    for (int f = DOCUMENT_TEXT; f < DOCUMENT_FORMATS; f++)
        for (const char *const *s = readers[f]->suffixes; *s; s++)
            if (ends_with(path, length, *s)) return (document_format)f;
    return DOCUMENT_TEXT;
}

char document_separator_of(const char *path) {
    return ends_with(path, bare_length(path), ".tsv") ? '\t' : ',';
}

int document_column_find(const documents *d, const char *name, bool *is_list) {
    for (uint32_t i = 0; i < d->options.column_count; i++)
        if (strcmp(d->options.columns[i].name, name) == 0) {
            *is_list = d->options.columns[i].is_list;
            return (int)i;
        }
    return -1;
}

bool document_member_wanted(const document_column *column, const char *name) {
    if (!column->members) return true;
    for (const char *const *m = column->members; *m; m++)
        if (strcmp(*m, name) == 0) return true;
    return false;
}

input document_input(const documents *d) {
    return (input){ .file = &d->file,
                    .unpack = unpackers[d->options.packing],
                    .window = d->options.window,
                    .capacity = d->options.piece_bytes };
}

status document_wrong_line(const documents *d, uint64_t line, const char *format, ...) {
    char why[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    return status_set(STATUS_INVALID, "%s, line %" PRIu64 ": %s", d->file.path, line, why);
}

/* ---- opening ---- */

/* Not blocking: a pipe would wait for its other end. */
static status open_file(documents *d) {
    struct stat about;
    d->file = (data_file){ .path = (char *)d->options.path, .handle = -1 }; /* it is only read */
    d->file.handle = open(d->options.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (d->file.handle < 0 || fstat(d->file.handle, &about) != 0)
        return status_set(STATUS_INVALID, "cannot open the data file %s: %s", d->options.path,
                          strerror(errno));
    if (!S_ISREG(about.st_mode))
        return status_set(STATUS_INVALID, "%s is no regular file; write the data to one and name that",
                          d->options.path);
    if (!format_stamp(d->file.handle, &d->file.stamp))
        return status_set(STATUS_INVALID, "cannot look at the data file %s: %s", d->options.path,
                          strerror(errno));
    d->file.bytes = d->file.stamp.bytes;
    return STATUS_OK;
}

static void close_file(documents *d) {
    if (d->file.handle >= 0) close(d->file.handle);
    d->file.handle = -1;
}

static status check_columns(const document_options *o) {
    if ((o->column_count == 0 && !o->see) || o->column_count > DOCUMENT_COLUMNS)
        return status_set(STATUS_INVALID, "%s: %u columns are asked for; 1 to %d can be read at once",
                          o->path, o->column_count, DOCUMENT_COLUMNS);
    for (uint32_t i = 0; i < o->column_count; i++) {
        const char *name = o->columns[i].name;
        if (!*name || strlen(name) >= DOCUMENT_NAME)
            return status_set(STATUS_INVALID, "%s: the name of a column has 1 to %d bytes", o->path,
                              DOCUMENT_NAME - 1);
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(o->columns[k].name, name) == 0)
                return status_set(STATUS_INVALID, "%s: the column %s is asked for twice", o->path, name);
    }
    return STATUS_OK;
}

static status decide(documents *d, const document_options *o) {
    *d = (documents){ .options = *o, .file = { .handle = -1 } };
    document_options *of = &d->options;
    if (of->format == DOCUMENT_AUTO) of->format = document_format_of(o->path);
    if (of->packing == DOCUMENT_PACKING_AUTO) of->packing = document_packing_of(o->path);
    if (!of->piece_bytes) of->piece_bytes = DOCUMENT_PIECE;
    if (!of->window) of->window = DOCUMENT_WINDOW;
    if (!of->separator) of->separator = document_separator_of(o->path);
    d->reader = readers[of->format];
    TRY(check_columns(o));
    if (of->piece_bytes < INPUT_LEAST || of->piece_bytes > INT32_MAX)
        return status_set(STATUS_INVALID, "%s: pieces have %d bytes to 2 GiB, not %u", o->path, INPUT_LEAST,
                          of->piece_bytes);
    if (of->window < 1 << 10 || of->window > 1u << 31)
        return status_set(STATUS_INVALID, "%s: a window has 1 KiB to 2 GiB, not %" PRIu64 " bytes", o->path,
                          of->window);
    if (d->reader->packs && of->packing != DOCUMENT_UNPACKED)
        return status_set(STATUS_INVALID, "%s: %s is packed by itself and read at any place; unpack the file",
                          o->path, d->reader->name);
    const unpacker *unpack = unpackers[of->packing];
    if (unpack && unpack->there() != STATUS_OK) return status_prefix(STATUS_INVALID, "%s", o->path);
    return open_file(d);
}

/* The parts of the room, the reader itself the first of them. */
static status lay_out(documents *d, document_room *room) {
    document_room_take(room, sizeof *d);
    return d->reader->inspect(d, room);
}

status documents_need(const document_options *o, uint64_t *bytes) {
    documents d;
    document_room room = { 0 };
    status result = decide(&d, o);
    if (result == STATUS_OK) result = lay_out(&d, &room);
    close_file(&d);
    *bytes = room.used;
    return result;
}

status documents_open(const document_options *o, void *room, uint64_t bytes, documents **d) {
    documents *into = room;
    document_room parts = { .base = room, .bytes = bytes };
    *d = NULL;
    if (bytes < sizeof *into)
        return status_set(STATUS_INVALID, "%s: %" PRIu64 " bytes are too few to read it", o->path, bytes);
    status result = decide(into, o);
    if (result == STATUS_OK) result = lay_out(into, &parts);
    if (result == STATUS_OK && parts.used > bytes)
        result =
            status_set(STATUS_INVALID, "%s: reading it takes %" PRIu64 " bytes, and %" PRIu64 " are planned",
                       o->path, parts.used, bytes);
    if (result == STATUS_OK) result = into->reader->begin(into);
    if (result != STATUS_OK) close_file(into);
    if (result == STATUS_OK) *d = into;
    return result;
}

status documents_classes(const document_options *o, uint32_t column, document_class *each, void *context) {
    documents d;
    status result = decide(&d, o);
    if (result == STATUS_OK && d.reader->classes) result = d.reader->classes(&d, column, each, context);
    close_file(&d);
    return result;
}

void documents_close(documents *d) {
    if (d) close_file(d);
}

/* ---- pieces ---- */

/* How many of the bytes could begin one character: 1 to n, at most 3 (Unicode, 3.9: a maximal subpart). */
static uint32_t subpart(const char *s, uint32_t n) {
    const unsigned char *b = (const unsigned char *)s;
    uint32_t length = b[0] >= 0xc2 && b[0] < 0xe0 ? 2 : b[0] >= 0xe0 && b[0] < 0xf0 ? 3 : 4;
    if (b[0] < 0xc2 || b[0] > 0xf4 || n < 2) return 1;
    unsigned char low = b[0] == 0xe0 ? 0xa0 : b[0] == 0xf0 ? 0x90 : 0x80;
    unsigned char high = b[0] == 0xed ? 0x9f : b[0] == 0xf4 ? 0x8f : 0xbf;
    if (b[1] < low || b[1] > high) return 1;
    uint32_t good = 2;
    while (good < length && good < n && (b[good] & 0xc0) == 0x80) good++;
    return good;
}

/* May more bytes make a character of these? */
static bool is_torn(const char *s, uint32_t n) {
    unsigned char first = (unsigned char)s[0];
    uint32_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    return first >= 0xc2 && first <= 0xf4 && n < length && subpart(s, n) == n;
}

static uint32_t good_prefix(const char *s, uint32_t n) {
    uint32_t at = 0;
    while (at < n) {
        if ((signed char)s[at] >= 0) {
            at++;
            continue;
        }
        uint32_t length = (uint32_t)utf8_length(s + at, n - at);
        if (!length) break;
        at += length;
    }
    return at;
}

static status no_utf8(const documents *d, const char *bytes) {
    char name[UTF8_QUOTE_BYTES];
    return status_set(
        STATUS_INVALID,
        "%s: %s %" PRIu64 " (%s %" PRIu64 "): %s holds the byte 0x%02x, which is no UTF-8 there; "
        "convert it, or, where tokens are made of it, say --replace",
        d->file.path, d->reader->packs ? "row group" : "record",
        d->reader->packs ? d->place.offset : d->place.record, d->reader->packs ? "row" : "line",
        d->place.line, utf8_quote(d->options.columns[d->raw.column].name, name), (unsigned char)bytes[0]);
}

/* Gives `count` of the raw bytes on, or U+FFFD in their place. */
static void give(documents *d, document_piece *p, const char *bytes, uint32_t count, bool replaced) {
    *p = d->raw;
    p->bytes = replaced ? "\xef\xbf\xbd" : bytes;
    p->count = replaced ? 3 : count;
    p->last = d->raw.last && !d->raw.count && !d->torn_count;
    d->pending = !p->last && (d->raw.count || d->raw.last);
}

static void drop(documents *d, uint32_t count) { d->raw.bytes += count, d->raw.count -= count; }

/* A character that began in an earlier piece; `*given`: the piece is made. */
static status join(documents *d, document_piece *p, bool *given) {
    char whole[4];
    uint32_t n = d->torn_count;
    *given = false;
    memcpy(whole, d->torn, n);
    while (d->raw.count && is_torn(whole, n)) {
        whole[n++] = *d->raw.bytes;
        drop(d, 1);
    }
    if (is_torn(whole, n) && !d->raw.last) {
        memcpy(d->torn, whole, n);
        d->torn_count = n;
        d->pending = false;
        return STATUS_OK;
    }
    bool good = utf8_length(whole, n) != 0;
    uint32_t back = good ? 0 : n - subpart(whole, n); /* at most the one that was taken last */
    if (!good && !d->options.replace) return no_utf8(d, whole);
    d->raw.bytes -= back, d->raw.count += back;
    d->torn_count = 0;
    memcpy(d->torn, whole, n);
    give(d, p, d->torn, n, !good);
    *given = true;
    return STATUS_OK;
}

/* The next good piece of the raw bytes, where there is one. */
static status check(documents *d, document_piece *p, bool *given) {
    if (d->torn_count) return join(d, p, given);
    const char *bytes = d->raw.bytes;
    uint32_t good = good_prefix(bytes, d->raw.count), left = d->raw.count - good;
    *given = true;
    if (good || !left) {
        if (left && !d->raw.last && is_torn(bytes + good, left)) {
            memcpy(d->torn, bytes + good, left);
            d->torn_count = left;
            d->raw.count = good;
        }
        drop(d, good);
        give(d, p, bytes, good, false);
        return STATUS_OK;
    }
    if (is_torn(bytes, left) && !d->raw.last) {
        memcpy(d->torn, bytes, left);
        d->torn_count = left;
        *given = d->pending = false;
        return STATUS_OK;
    }
    if (!d->options.replace) return no_utf8(d, bytes);
    drop(d, subpart(bytes, left));
    give(d, p, bytes, 0, true);
    return STATUS_OK;
}

/* These are looked at by nobody. */
static bool is_bytes(const documents *d) {
    return d->options.bytes >> d->raw.column & 1 && d->raw.member && strcmp(d->raw.member, "bytes") == 0;
}

static status next_piece(documents *d, document_piece *p) {
    for (bool given = false; !given;) {
        if (!d->pending) {
            TRY(d->reader->next(d, &d->raw));
            d->pending = d->raw.event == DOCUMENT_STRING && !is_bytes(d);
            if (!d->pending) {
                *p = d->raw;
                return STATUS_OK;
            }
        }
        TRY(check(d, p, &given));
    }
    return STATUS_OK;
}

status documents_next(documents *d, document_piece *p) {
    if (d->failed) return status_set(d->why, "%s", d->sentence);
    status result = next_piece(d, p);
    if (result != STATUS_OK) {
        d->failed = true;
        d->why = result;
        snprintf(d->sentence, sizeof d->sentence, "%s", status_message());
    }
    return result;
}

parquet_cell documents_cell(const documents *d) { return d->cell; }

const data_file *documents_file(const documents *d) { return &d->file; }

document_place documents_place(const documents *d) { return d->place; }

status documents_seek(documents *d, document_place place) {
    d->failed = d->pending = false;
    d->torn_count = 0;
    status result = d->reader->seek(d, place);
    if (result != STATUS_OK) {
        d->failed = true;
        d->why = result;
        snprintf(d->sentence, sizeof d->sentence, "%s", status_message());
    }
    return result;
}
