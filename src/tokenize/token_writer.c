#include "tokenize/token_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/memory.h"
#include "io/file.h"
#include "io/json.h"

enum { TOKENS, ENDS, LEARNED };

/* The header with its length; the text in it is filled up with blanks, which the format allows. */
enum { HEADER_BYTES = 4096, LENGTH_BYTES = 8 };

static const char *const suffixes[TOKEN_WRITER_FILES] = { ".partial", ".ends", ".learned" };
static const char progress_suffix[] = ".progress", lock_suffix[] = ".lock";
static const char FORMAT[] = "snug tokens 1";

/* ---- names and files ---- */

static char *beside(const char *path, const char *suffix) {
    size_t bytes = strlen(path) + strlen(suffix) + 1;
    char *name = memory_new(bytes, 1);
    if (name) snprintf(name, bytes, "%s%s", path, suffix);
    return name;
}

static status name_files(token_writer *w) {
    bool all = (w->progress = beside(w->path, progress_suffix));
    for (int i = 0; i < TOKEN_WRITER_FILES; i++) all = (w->names[i] = beside(w->path, suffixes[i])) && all;
    return all ? STATUS_OK : status_set(STATUS_FAILED, "%s: no memory for the names beside it", w->path);
}

/* What was written is kept, also where the disk is full. */
static status cannot(const char *what, const char *path) {
    bool full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;
    return status_set(STATUS_FAILED, "cannot %s %s: %s%s", what, path, strerror(errno),
                      full ? "; make room, and the same command goes on from there" : "");
}

static bool is_used(const token_writer *w, int i) { return i != LEARNED || w->masks; }

static status open_files(token_writer *w) {
    for (int i = 0; i < TOKEN_WRITER_FILES; i++) {
        if (!is_used(w, i)) continue;
        w->files[i] = open(w->names[i], O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (w->files[i] < 0) return cannot("write", w->names[i]);
    }
    return STATUS_OK;
}

static uint64_t bytes_of(const token_writer *w, int i) {
    switch (i) {
    case TOKENS: return HEADER_BYTES + w->at.tokens * w->width;
    case ENDS: return w->at.documents * sizeof(uint64_t);
    default: return w->at.tokens;
    }
}

static void close_all(token_writer *w) {
    for (int i = 0; i < TOKEN_WRITER_FILES; i++) {
        if (w->files[i] >= 0) close(w->files[i]);
        memory_free(w->names[i]);
        w->files[i] = -1, w->names[i] = NULL;
    }
    memory_free(w->progress);
    w->progress = NULL;
    lock_close(&w->owned);
}

/* ---- marks ---- */

/* What the header says beside the lengths of its lists: all in it is text. */
#define MADE_FIELDS(DO) DO(tokens) DO(documents) DO(learned) DO(empty) DO(longest)

/* Each number of a mark and its name in the file. */
#define MARK_FIELDS(DO)                                                                                      \
    DO(tokens, at.tokens)                                                                                    \
    DO(documents, at.documents)                                                                              \
    DO(learned, at.learned)                                                                                  \
    DO(empty, at.empty)                                                                                      \
    DO(longest, at.longest)                                                                                  \
    DO(read, at.read)                                                                                        \
    DO(record, at.next.in.record)                                                                            \
    DO(offset, at.next.in.offset)                                                                            \
    DO(line, at.next.in.line)                                                                                \
    DO(file, at.next.file)

status token_writer_mark(token_writer *w, source_place next) {
    text t = { 0 };
    json_writer j = { .out = &t, .lines = true };
    char digits[DIGEST_TEXT_BYTES];
    w->at.next = next;
    for (int i = 0; i < TOKEN_WRITER_FILES; i++)
        if (is_used(w, i) && fdatasync(w->files[i]) != 0) return cannot("write", w->names[i]);
    json_begin_object(&j, NULL);
    json_put_string(&j, "format", FORMAT);
    json_put_string(&j, "identity", digest_text_of(w->identity, digits));
#define PUT(name, member) json_put_unsigned(&j, #name, w->member);
    MARK_FIELDS(PUT)
#undef PUT
    json_end_object(&j);
    text_add(&t, "\n");
    status result = t.failed ? status_set(STATUS_FAILED, "%s: no memory to write it", w->progress)
                             : io_write_file(w->progress, t.data, t.length);
    text_close(&t);
    return result;
}

static status read_mark(json_value root, token_mark *m) {
    struct {
        token_mark at;
    } found = { 0 };
    int64_t number;
#define GET(name, member)                                                                                    \
    TRY(json_get_integer(root, #name, 0, INT64_MAX, &number));                                               \
    found.member = (__typeof__(found.member))number;
    MARK_FIELDS(GET)
#undef GET
    *m = found.at;
    return STATUS_OK;
}

typedef enum { MARK_NONE, MARK_OURS, MARK_OF_ANOTHER } mark_kind; /* by its identity */

static mark_kind find_mark(const token_writer *w, token_mark *m) {
    json_document d = { 0 };
    char digits[DIGEST_TEXT_BYTES];
    const char *format, *identity;
    mark_kind kind = MARK_NONE;
    if (json_open(w->progress, &d) == STATUS_OK && json_get_string(d.root, "format", &format) == STATUS_OK &&
        strcmp(format, FORMAT) == 0 && json_get_string(d.root, "identity", &identity) == STATUS_OK &&
        read_mark(d.root, m) == STATUS_OK)
        kind = strcmp(identity, digest_text_of(w->identity, digits)) == 0 ? MARK_OURS : MARK_OF_ANOTHER;
    json_close(&d);
    return kind;
}

static bool has_bytes(int file, uint64_t bytes) {
    struct stat about;
    return fstat(file, &about) == 0 && about.st_size >= 0 && (uint64_t)about.st_size >= bytes;
}

/* From a mark of this identity, whose files have what it says; whatever else lies there is begun anew. What a
 * killed process wrote behind the mark goes. */
static status go_on(token_writer *w) {
    token_mark found;
    bool good = find_mark(w, &found) == MARK_OURS;
    if (good) w->at = found;
    for (int i = 0; i < TOKEN_WRITER_FILES && good; i++)
        good = !is_used(w, i) || has_bytes(w->files[i], bytes_of(w, i));
    if (!good) w->at = (token_mark){ .next = { .in = { .line = 1 } } };
    if (!good && unlink(w->progress) != 0 && errno != ENOENT) return cannot("remove", w->progress);
    for (int i = 0; i < TOKEN_WRITER_FILES; i++)
        if (is_used(w, i) && ftruncate(w->files[i], (off_t)bytes_of(w, i)) != 0)
            return cannot("write", w->names[i]);
    return STATUS_OK;
}

/* The lock and the names. */
static status own(token_writer *w) {
    for (int i = 0; i < TOKEN_WRITER_FILES; i++) w->files[i] = -1;
    char *name = beside(w->path, lock_suffix);
    if (!name) return status_set(STATUS_FAILED, "%s: no memory for the names beside it", w->path);
    status result = lock_open(name, &w->owned);
    memory_free(name);
    if (result == STATUS_OK) result = name_files(w);
    if (result != STATUS_OK) close_all(w);
    return result;
}

status token_writer_open(token_writer *w, const char *path, uint32_t width, bool masks, uint64_t identity) {
    status result;
    *w = (token_writer){ .path = path, .width = width, .masks = masks, .identity = identity };
    TRY(own(w));
    TRY_OR(failed, open_files(w));
    TRY_OR(failed, go_on(w));
    return STATUS_OK;
failed:
    close_all(w);
    return result;
}

/* ---- writing ---- */

uint64_t token_writer_disk(const token_mark *all, uint32_t width, bool masks, uint64_t special_count) {
    const token_writer w = { .width = width, .masks = masks, .at = *all };
    uint64_t bytes = bytes_of(&w, TOKENS) + special_count * sizeof *w.special;
    for (int i = ENDS; i < TOKEN_WRITER_FILES; i++)
        if (is_used(&w, i)) bytes += 2 * bytes_of(&w, i);
    return bytes;
}

static status write_at(int file, const char *path, uint64_t offset, const void *data, uint64_t bytes) {
    for (const char *from = data; bytes > 0;) {
        ssize_t n = pwrite(file, from, bytes, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return cannot("write", path);
        from += n, offset += (uint64_t)n, bytes -= (uint64_t)n;
    }
    return STATUS_OK;
}

static status append(const token_writer *w, int i, const void *data, uint64_t bytes) {
    return write_at(w->files[i], w->names[i], bytes_of(w, i), data, bytes);
}

status token_writer_add(token_writer *w, const token_batch *b) {
    TRY(append(w, TOKENS, b->tokens, b->count * w->width));
    if (w->masks) TRY(append(w, LEARNED, b->learned, b->count));
    TRY(append(w, ENDS, b->ends, b->end_count * sizeof *b->ends));
    for (uint64_t i = 0; w->masks && i < b->count; i++) w->at.learned += b->learned[i];
    if (!w->masks) w->at.learned += b->count;
    w->at.tokens += b->count, w->at.documents += b->end_count;
    return STATUS_OK;
}

/* ---- putting it together ---- */

/* Copies a list behind what is in the file of tokens. */
static status put_behind(token_writer *w, int i, uint64_t offset) {
    enum { BLOCK = 32 << 10 };
    char block[BLOCK];
    for (uint64_t at = 0, n; at < bytes_of(w, i); at += n) {
        n = bytes_of(w, i) - at < BLOCK ? bytes_of(w, i) - at : BLOCK;
        TRY(io_read_at(w->files[i], w->names[i], at, block, n));
        TRY(write_at(w->files[TOKENS], w->names[TOKENS], offset + at, block, n));
    }
    return STATUS_OK;
}

static void add_list(json_writer *j, const char *name, const char *type, uint64_t count, uint64_t first,
                     uint64_t bytes) {
    json_begin_object(j, name);
    json_put_string(j, "dtype", type);
    json_begin_array(j, "shape");
    json_put_unsigned(j, NULL, count);
    json_end_array(j);
    json_begin_array(j, "data_offsets");
    json_put_unsigned(j, NULL, first);
    json_put_unsigned(j, NULL, first + bytes);
    json_end_array(j);
    json_end_object(j);
}

static uint64_t special_bytes(const token_writer *w) { return w->special_count * sizeof *w->special; }

static void put_digits(json_writer *j, const char *name, uint64_t number) {
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRIu64, number);
    json_put_string(j, name, digits);
}

static void header_text(const token_writer *w, const char *const *about, text *t) {
    json_writer j = { .out = t };
    char digits[DIGEST_TEXT_BYTES];
    uint64_t tokens = bytes_of(w, TOKENS) - HEADER_BYTES, ends = bytes_of(w, ENDS);
    json_begin_object(&j, NULL);
    json_begin_object(&j, "__metadata__");
    json_put_string(&j, "format", FORMAT);
    json_put_string(&j, "identity", digest_text_of(w->identity, digits));
    for (; *about; about += 2) json_put_string(&j, about[0], about[1]);
#define PUT(name) put_digits(&j, #name, w->at.name);
    MADE_FIELDS(PUT)
#undef PUT
    json_end_object(&j);
    add_list(&j, "tokens", w->width == 2 ? "U16" : "U32", w->at.tokens, 0, tokens);
    add_list(&j, "ends", "U64", w->at.documents, tokens, ends);
    uint64_t learned = w->masks ? w->at.tokens : 0;
    if (w->masks) add_list(&j, "learned", "U8", learned, tokens + ends, learned);
    if (w->special_count)
        add_list(&j, "special", "U32", w->special_count, tokens + ends + learned, special_bytes(w));
    json_end_object(&j);
}

static status write_header(token_writer *w, const char *const *about) {
    char header[HEADER_BYTES];
    text t = { 0 };
    header_text(w, about, &t);
    uint64_t length = HEADER_BYTES - LENGTH_BYTES;
    bool fits = !t.failed && t.length <= length;
    memset(header, ' ', sizeof header);
    memcpy(header, &length, LENGTH_BYTES);
    if (fits) memcpy(header + LENGTH_BYTES, t.data, t.length);
    text_close(&t);
    if (!fits)
        return status_set(STATUS_FAILED, "%s: its header does not fit %d bytes", w->path, HEADER_BYTES);
    return write_at(w->files[TOKENS], w->names[TOKENS], 0, header, sizeof header);
}

static status put_together(token_writer *w, const char *const *about, uint64_t *bytes) {
    uint64_t at = bytes_of(w, TOKENS);
    for (int i = ENDS; i < TOKEN_WRITER_FILES; i++) {
        if (!is_used(w, i)) continue;
        TRY(put_behind(w, i, at));
        at += bytes_of(w, i);
    }
    if (w->special_count) TRY(write_at(w->files[TOKENS], w->names[TOKENS], at, w->special, special_bytes(w)));
    at += special_bytes(w);
    TRY(write_header(w, about));
    if (fsync(w->files[TOKENS]) != 0) return cannot("write", w->names[TOKENS]);
    *bytes = at;
    return io_rename(w->names[TOKENS], w->path);
}

static void remove_beside(token_writer *w) {
    unlink(w->progress); /* first: what is left without it is begun anew */
    for (int i = 0; i < TOKEN_WRITER_FILES; i++)
        if (is_used(w, i)) unlink(w->names[i]);
}

status token_writer_finish(token_writer *w, const char *const *about, uint64_t *file_bytes) {
    status result = put_together(w, about, file_bytes);
    if (result == STATUS_OK) remove_beside(w);
    close_all(w);
    return result;
}

void token_writer_keep(token_writer *w) { close_all(w); }

void token_writer_discard(token_writer *w) {
    remove_beside(w);
    close_all(w);
}

static bool is_beside(const char *path, const char *suffix) {
    char *name = beside(path, suffix);
    bool there = name && access(name, F_OK) == 0;
    memory_free(name);
    return there;
}

void token_writer_tidy(const char *path, uint64_t identity) {
    token_writer w = { .path = path, .masks = true, .identity = identity };
    token_mark found;
    bool any = is_beside(path, progress_suffix) || is_beside(path, lock_suffix);
    for (int i = 0; i < TOKEN_WRITER_FILES; i++) any = any || is_beside(path, suffixes[i]);
    if (!any || own(&w) != STATUS_OK) return; /* another process is at it */
    if (find_mark(&w, &found) != MARK_OF_ANOTHER) remove_beside(&w);
    close_all(&w);
}

/* ---- what is there ---- */

static bool read_digits(json_value about, const char *name, int base, uint64_t *number) {
    const char *digits;
    char *end;
    if (json_get_string(about, name, &digits) != STATUS_OK || !*digits) return false;
    *number = strtoull(digits, &end, base);
    return *end == 0;
}

/* Where the last list ends, behind the header. */
static bool read_end(json_value root, uint64_t *end) {
    static const char *const lists[] = { "tokens", "ends", "learned", "special" };
    *end = 0;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        json_value list, offsets;
        size_t count;
        int64_t at;
        if (!json_find(root, lists[i], &list)) continue;
        if (json_get(list, "data_offsets", &offsets) != STATUS_OK ||
            json_as_array(offsets, &count) != STATUS_OK || count != 2 ||
            json_as_integer(json_item(offsets, 1), 0, INT64_MAX, &at) != STATUS_OK)
            return false;
        if ((uint64_t)at > *end) *end = (uint64_t)at;
    }
    return true;
}

static bool read_header(const char *path, const char *header, token_made *m) {
    json_document d = { 0 };
    json_value about;
    const char *format;
    uint64_t end;
    bool good = json_parse(path, header, HEADER_BYTES - LENGTH_BYTES, &d) == STATUS_OK &&
                json_get(d.root, "__metadata__", &about) == STATUS_OK &&
                json_get_string(about, "format", &format) == STATUS_OK && strcmp(format, FORMAT) == 0 &&
                read_digits(about, "identity", 16, &m->identity) && read_end(d.root, &end);
    m->whole = good && m->bytes == HEADER_BYTES + end;
#define GET(name) good = good && read_digits(about, #name, 10, &m->at.name);
    MADE_FIELDS(GET)
#undef GET
    json_close(&d);
    return good;
}

bool token_writer_made(const char *path, token_made *m) {
    char header[HEADER_BYTES];
    uint64_t length;
    int file;
    *m = (token_made){ 0 };
    if (io_open(path, &file, &m->bytes) != STATUS_OK) return false;
    bool good = m->bytes >= HEADER_BYTES && io_read_at(file, path, 0, header, sizeof header) == STATUS_OK;
    close(file);
    memcpy(&length, header, sizeof length);
    return good && length == HEADER_BYTES - LENGTH_BYTES && read_header(path, header + LENGTH_BYTES, m);
}
