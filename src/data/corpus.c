#include "data/corpus.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "data/folder.h"

/* So many files of all corpora stay open, whatever their number: a process may have no more than 1,024, and
 * needs others. Beyond that each read opens its file. */
enum { OPEN_FILES = 128 };
static _Atomic uint32_t open_files;

static bool stay_open(void) {
    if (atomic_fetch_add(&open_files, 1) < OPEN_FILES) return true;
    atomic_fetch_sub(&open_files, 1);
    return false;
}

/* Listing a folder holds the names of all its files. Of a few the runtime reserve has room for that; of more
 * it is planned like what is held to the end. */
enum { FEW_FILES = 1024, LISTED_BYTES = 128 };

/* All files are of one kind, and the first that is kept says which. */
static status inspect(corpus *c, data_kind wanted, data_file *f) {
    data_kind kind = wanted == DATA_KIND_AUTO ? format_by_name(f->path) : wanted;
    if (c->count == 0) c->kind = kind;
    if (kind != c->kind)
        return status_set(STATUS_INVALID,
                          "%s holds %s but %s holds %s by their names; choose one with --data-kind",
                          c->files[0].path, data_kind_name(c->kind), f->path, data_kind_name(kind));
    c->format = format_of(kind);
    TRY(c->format->inspect(f, wanted != DATA_KIND_AUTO));
    if (f->tokens > INT64_MAX - c->tokens)
        return status_set(STATUS_INVALID, "%s: all files together have too many tokens to count", f->path);
    f->start = c->tokens, f->first_document = c->documents;
    c->tokens += f->tokens;
    c->documents += f->documents;
    if (c->width < f->width) c->width = f->width;
    if (c->ceiling < f->ceiling) c->ceiling = f->ceiling;
    if (c->longest < f->longest) c->longest = f->longest;
    c->learns_some = c->learns_some || f->learned;
    c->says_special = c->says_special || f->special_count;
    c->held_bytes += sizeof *f + strlen(f->path) + 1 + f->mark_count * sizeof *f->marks +
                     f->special_count * sizeof *f->special;
    if (c->count >= FEW_FILES) c->held_bytes += LISTED_BYTES;
    return STATUS_OK;
}

static status make_room(corpus *c, const char *path) {
    if (c->count < c->capacity) return STATUS_OK;
    uint32_t larger = c->capacity ? c->capacity * 2 : 4;
    data_file *files = memory_resize(c->files, larger, sizeof *files);
    if (!files) return status_set(STATUS_FAILED, "%s: no memory for %u files", path, larger);
    c->files = files;
    c->capacity = larger;
    return STATUS_OK;
}

/* Opens and inspects; `*keep`: it is a file with tokens. Not blocking: a pipe would wait for its other end.
 */
static status open_file(corpus *c, data_kind wanted, bool inside, data_file *f, bool *keep) {
    struct stat about;
    *keep = false;
    f->handle = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f->handle < 0 || fstat(f->handle, &about) != 0)
        return status_set(STATUS_INVALID, "cannot open the data file %s: %s", f->path, strerror(errno));
    if (!S_ISREG(about.st_mode) && inside) return STATUS_OK;
    if (!S_ISREG(about.st_mode))
        return status_set(
            STATUS_INVALID,
            "%s is neither a regular file nor a folder; data is read at any place and more than "
            "once, so write it to a file (cat > FILE) and name that",
            f->path);
    if (!format_stamp(f->handle, &f->stamp))
        return status_set(STATUS_INVALID, "cannot look at the data file %s: %s", f->path, strerror(errno));
    f->bytes = f->stamp.bytes;
    if (f->bytes > 0) TRY(inspect(c, wanted, f));
    *keep = f->tokens > 0;
    return STATUS_OK;
}

/* Adds the file behind the others. Takes `path`, also when it fails; leaves out what is empty, and in a
 * folder (`inside`) what is not a regular file. */
static status add_file(corpus *c, data_kind wanted, char *path, bool inside) {
    data_file f = { .path = path, .handle = -1 };
    bool keep = false;
    status result = make_room(c, path);
    if (result == STATUS_OK) result = open_file(c, wanted, inside, &f, &keep);
    if (f.handle >= 0 && (!keep || !stay_open())) {
        close(f.handle);
        f.handle = -1;
    }
    if (keep) {
        c->files[c->count++] = f;
    } else {
        memory_free(f.marks);
        memory_free(f.special);
        memory_free(path);
    }
    return result;
}

typedef struct {
    corpus *to;
    data_kind wanted;
} listing;

static status add_inside(void *context, char *path) {
    const listing *l = context;
    return add_file(l->to, l->wanted, path, true);
}

static status add_path(corpus *c, data_kind wanted, const char *path) {
    struct stat about;
    if (stat(path, &about) != 0 && strcmp(path, "-") == 0)
        return status_set(
            STATUS_INVALID,
            "the data is read at any place and more than once, so it can't come through a pipe: "
            "write it to a file (cat > FILE) and name that");
    if (stat(path, &about) != 0)
        return status_set(STATUS_INVALID, "cannot open the data %s: %s", path, strerror(errno));
    if (S_ISDIR(about.st_mode)) {
        TRY(folder_list(path, add_inside, &(listing){ c, wanted }));
        if (c->count == 0)
            return status_set(STATUS_INVALID,
                              "the folder %s has no file with anything in it; put the texts right into it",
                              path);
        return STATUS_OK;
    }
    char *copy = memory_text(path);
    if (!copy) return status_set(STATUS_FAILED, "%s: no memory to open it", path);
    TRY(add_file(c, wanted, copy, false));
    if (c->count) return STATUS_OK;
    data_kind kind = wanted == DATA_KIND_AUTO ? format_by_name(path) : wanted;
    return status_set(STATUS_INVALID, "the data file %s is empty; %s", path,
                      kind == DATA_KIND_TOKENS                             ? "make it with snug tokenize"
                      : kind == DATA_KIND_BYTES || kind == DATA_KIND_JSONL ? "give it some text"
                                                                           : "give it some tokens");
}

static status note_kind(void *context, char *path) {
    data_kind *kind = context;
    struct stat about;
    bool first = *kind == DATA_KIND_AUTO && stat(path, &about) == 0;
    if (first && S_ISREG(about.st_mode) && about.st_size > 0) *kind = format_by_name(path);
    memory_free(path);
    return STATUS_OK;
}

status corpus_kind(const char *path, data_kind wanted, data_kind *kind) {
    struct stat about;
    *kind = wanted;
    if (wanted != DATA_KIND_AUTO) return STATUS_OK;
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode)) return folder_list(path, note_kind, kind);
    *kind = format_by_name(path);
    return STATUS_OK;
}

bool corpus_says_ends(const corpus *c) { return c->files[0].ends > 0; }

status corpus_ends(const corpus *c, uint64_t first, uint32_t count, uint64_t *ends) {
    const data_file *f = c->files;
    while (f->first_document + f->documents <= first) f++;
    for (uint32_t n; count > 0; f++, first += n, ends += n, count -= n) {
        uint64_t left = f->first_document + f->documents - first;
        n = left < count ? (uint32_t)left : count;
        TRY(format_ends(f, first - f->first_document, n, ends));
        for (uint32_t i = 0; i < n; i++) ends[i] += f->start;
    }
    return STATUS_OK;
}

/* The last file that starts at or before the token. */
static const data_file *file_at(const corpus *c, uint64_t token) {
    uint32_t low = 0, high = c->count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (c->files[middle].start <= token)
            low = middle;
        else
            high = middle;
    }
    return &c->files[low];
}

/* `count` tokens from `token` on of the whole, over as many files as that takes. */
status corpus_read(const corpus *c, uint64_t token, uint64_t count, data_window *to) {
    for (const data_file *f = file_at(c, token); count > 0; f++) {
        uint64_t first = token - f->start, n = f->tokens - first < count ? f->tokens - first : count;
        if (first == 0 && c->documents) format_begin(to);
        TRY(c->format->read(f, first, n, to));
        token += n, count -= n;
    }
    return STATUS_OK;
}

status corpus_read_documents(const corpus *c, uint64_t document, uint64_t token, uint64_t count,
                             data_window *to) {
    for (const data_file *f = file_at(c, token); count > 0; f++) {
        uint64_t left = f->start + f->tokens - token, n = left < count ? left : count;
        TRY(format_read_documents(f, document - f->first_document, token - f->start, n, to));
        token += n, count -= n, document = f->first_document + f->documents;
    }
    return STATUS_OK;
}

void corpus_close(corpus *c) {
    if (!c || --c->users) return;
    for (uint32_t i = 0; i < c->count; i++) {
        if (c->files[i].handle >= 0) {
            close(c->files[i].handle);
            atomic_fetch_sub(&open_files, 1);
        }
        memory_free(c->files[i].marks);
        memory_free(c->files[i].special);
        memory_free(c->files[i].path);
    }
    memory_free(c->files);
    memory_free(c->path);
    memory_free(c);
}

status corpus_open(const char *path, data_kind kind, corpus **out) {
    corpus *c = *out = memory_new(1, sizeof *c);
    if (!c) return status_set(STATUS_FAILED, "%s: no memory to open it", path);
    c->users = 1;
    c->path = memory_text(path);
    status result =
        c->path ? add_path(c, kind, path) : status_set(STATUS_FAILED, "%s: no memory to open it", path);
    if (result == STATUS_OK) return result;
    corpus_close(c);
    *out = NULL;
    return result;
}
