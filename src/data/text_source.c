#include "data/text_source.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

/* One file of the text. So many stay open; beyond that each read opens its file. */
enum { OPEN_FILES = 128 };
typedef struct {
    char *path;
    uint64_t start, bytes; /* place in the whole, size */
    int handle;            /* -1: opened for each read */
} text_file;

typedef struct {
    text_file *files; /* in order of start */
    uint32_t count, capacity;
    data_kind kind;
    uint32_t width; /* bytes of a token */
    uint32_t context, vocabulary;
    uint64_t bytes;         /* of all files */
    uint64_t first, tokens; /* of the part */
} text_state;

static const struct {
    const char *name;
    uint32_t width;
} kinds[] = { [DATA_KIND_AUTO] = { "auto", 0 },
              [DATA_KIND_BYTES] = { "bytes", 1 },
              [DATA_KIND_U16] = { "u16", 2 },
              [DATA_KIND_U32] = { "u32", 4 } };

status data_kind_parse(const char *word, const char *name, data_kind *kind) {
    for (unsigned k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (strcmp(word, kinds[k].name) == 0) {
            *kind = (data_kind)k;
            return STATUS_OK;
        }
    return status_set(STATUS_INVALID, "%s: '%s' is none of auto, bytes, u16 and u32", name, word);
}

const char *data_kind_name(data_kind kind) { return kinds[kind].name; }

static data_kind kind_by_name(const char *path) {
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    if (!dot) return DATA_KIND_BYTES;
    if (strcmp(dot, ".bin") == 0 || strcmp(dot, ".u16") == 0) return DATA_KIND_U16;
    return strcmp(dot, ".u32") == 0 ? DATA_KIND_U32 : DATA_KIND_BYTES;
}

/* Files that people hand over by mistake: they are neither text nor tokens. */
static status refuse_packed(const text_file *f) {
    static const struct {
        const char *magic;
        size_t bytes;
        const char *what;
    } known[] = { { "\x93NUMPY", 6, "a NumPy array" },
                  { "PAR1", 4, "a Parquet table" },
                  { "\x1f\x8b", 2, "gzip-compressed" },
                  { "PK\x03\x04", 4, "a zip archive" },
                  { "\x28\xb5\x2f\xfd", 4, "zstd-compressed" },
                  { "ARROW1", 6, "an Arrow table" },
                  { "\xfd"
                    "7zXZ",
                    5, "xz-compressed" } };
    char head[8] = { 0 };
    if (pread(f->handle, head, sizeof head, 0) < 0)
        return status_set(STATUS_INVALID, "cannot read %s: %s", f->path, strerror(errno));
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (memcmp(head, known[i].magic, known[i].bytes) == 0)
            return status_set(STATUS_INVALID,
                              "%s is %s, not text; unpack it, or ask for its bytes with --data-kind bytes",
                              f->path, known[i].what);
    return STATUS_OK;
}

static status check_file(text_state *t, data_kind wanted, const text_file *f) {
    data_kind kind = wanted == DATA_KIND_AUTO ? kind_by_name(f->path) : wanted;
    if (t->kind == DATA_KIND_AUTO) t->kind = kind;
    if (kind != t->kind)
        return status_set(STATUS_INVALID,
                          "%s holds %s but %s holds %s by their names; choose one data type for all",
                          t->files[0].path, kinds[t->kind].name, f->path, kinds[kind].name);
    t->width = kinds[kind].width;
    if (f->bytes % t->width != 0)
        return status_set(STATUS_INVALID,
                          "%s has %" PRIu64 " bytes, which is no multiple of %u: it is cut off or does "
                          "not hold %s tokens",
                          f->path, f->bytes, t->width, kinds[kind].name);
    return wanted == DATA_KIND_AUTO && kind == DATA_KIND_BYTES ? refuse_packed(f) : STATUS_OK;
}

/* Adds the file behind the others. Takes `path`, also when it fails; leaves out what is empty, and in a
 * folder
 * (`inside`) what is not a regular file. */
static status add_file(text_state *t, data_kind wanted, char *path, bool inside) {
    text_file f = { .path = path, .start = t->bytes, .handle = -1 };
    struct stat about;
    status result = STATUS_OK;
    bool keep = false;
    if (t->count == t->capacity) {
        uint32_t larger = t->capacity ? t->capacity * 2 : 4;
        text_file *files = memory_resize(t->files, larger, sizeof *files);
        if (!files) {
            result = status_set(STATUS_FAILED, "%s: no memory for %u files", path, larger);
            goto done;
        }
        t->files = files;
        t->capacity = larger;
    }
    /* Not blocking: a pipe would wait for its other end. */
    f.handle = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f.handle < 0 || fstat(f.handle, &about) != 0) {
        result = status_set(STATUS_INVALID, "cannot open the data file %s: %s", path, strerror(errno));
    } else if (!S_ISREG(about.st_mode)) {
        if (!inside) result = status_set(STATUS_INVALID, "%s is neither a regular file nor a folder", path);
    } else if (about.st_size > 0) {
        f.bytes = (uint64_t)about.st_size;
        result = check_file(t, wanted, &f);
        keep = result == STATUS_OK;
    }
done:
    if (f.handle >= 0 && (!keep || t->count >= OPEN_FILES)) {
        close(f.handle);
        f.handle = -1;
    }
    if (keep) {
        t->files[t->count++] = f;
        t->bytes += f.bytes;
    } else {
        memory_free(path);
    }
    return result;
}

static int visible(const struct dirent *item) { return item->d_name[0] != '.'; }
static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static status add_folder(text_state *t, data_kind wanted, const char *folder) {
    struct dirent **items;
    int count = scandir(folder, &items, visible, by_name);
    if (count < 0)
        return status_set(STATUS_INVALID, "cannot read the folder %s: %s", folder, strerror(errno));
    status result = STATUS_OK;
    for (int i = 0; i < count; i++) {
        size_t bytes = strlen(folder) + strlen(items[i]->d_name) + 2;
        char *path = result == STATUS_OK ? memory_new(bytes, 1) : NULL;
        if (path) {
            snprintf(path, bytes, "%s/%s", folder, items[i]->d_name);
            result = add_file(t, wanted, path, true);
        } else if (result == STATUS_OK) {
            result = status_set(STATUS_FAILED, "%s: no memory for the names of its files", folder);
        }
        memory_free(items[i]);
    }
    memory_free(items);
    return result;
}

static status add_path(text_state *t, data_kind wanted, const char *path) {
    struct stat about;
    if (stat(path, &about) != 0)
        return status_set(STATUS_INVALID, "cannot open the data %s: %s", path, strerror(errno));
    if (S_ISDIR(about.st_mode)) {
        TRY(add_folder(t, wanted, path));
        if (t->count == 0)
            return status_set(STATUS_INVALID, "the folder %s has no files with text in it", path);
        return STATUS_OK;
    }
    char *copy = memory_text(path);
    if (!copy) return status_set(STATUS_FAILED, "%s: no memory to open it", path);
    TRY(add_file(t, wanted, copy, false));
    return t->count ? STATUS_OK : status_set(STATUS_INVALID, "the data file %s is empty", path);
}

/* The tokens of the part, and whether they make a sample. */
static status choose_part(text_state *t, const text_source_options *o) {
    static const char *const names[] = { "", "the training part (first nine tenths) of ",
                                         "the validation part (last tenth) of " };
    uint64_t all = t->bytes / t->width, last = all / 10;
    t->first = o->part == DATA_PART_VALIDATION ? all - last : 0;
    t->tokens = o->part == DATA_PART_ALL ? all : o->part == DATA_PART_TRAIN ? all - last : last;
    if (t->tokens > o->context) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "%s%s has %" PRIu64 " tokens; a context of %u needs at least %" PRIu64
                      ": use a shorter context or "
                      "%s",
                      names[o->part], o->path, t->tokens, o->context, (uint64_t)o->context + 1,
                      o->part == DATA_PART_VALIDATION ? "a file of its own for validation" : "more text");
}

/* The last file that starts at or before byte `at` of the whole. */
static const text_file *file_at(const text_state *t, uint64_t at) {
    uint32_t low = 0, high = t->count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (t->files[middle].start <= at)
            low = middle;
        else
            high = middle;
    }
    return &t->files[low];
}

/* Exactly `bytes` from `offset` on of one file. */
static status read_file(const text_file *f, uint64_t offset, char *into, uint64_t bytes) {
    int handle = f->handle >= 0 ? f->handle : open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (handle < 0) return status_set(STATUS_FAILED, "cannot open %s again: %s", f->path, strerror(errno));
    status result = STATUS_OK;
    while (bytes > 0) {
        ssize_t n = pread(handle, into, bytes, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            result = status_set(STATUS_FAILED, "cannot read %s at byte %" PRIu64 ": %s", f->path, offset,
                                n < 0 ? strerror(errno) : "it has become shorter");
            break;
        }
        into += n, offset += (uint64_t)n, bytes -= (uint64_t)n;
    }
    if (f->handle < 0) close(handle);
    return result;
}

/* `bytes` from byte `at` on of the whole, over as many files as that takes. */
static status read_bytes(const text_state *t, uint64_t at, char *into, uint64_t bytes) {
    for (const text_file *f = file_at(t, at); bytes > 0; f++) {
        uint64_t offset = at - f->start, n = f->bytes - offset < bytes ? f->bytes - offset : bytes;
        TRY(read_file(f, offset, into, n));
        at += n, into += n, bytes -= n;
    }
    return STATUS_OK;
}

static status wrong_token(const text_state *t, uint64_t token, uint32_t id) {
    const text_file *f = file_at(t, token * t->width);
    return status_set(STATUS_INVALID, "%s: token %" PRIu64 " is %u, but the vocabulary has %u ids (0 to %u)",
                      f->path, token - f->start / t->width, id, t->vocabulary, t->vocabulary - 1);
}

static uint32_t token_at(const void *raw, uint32_t width, uint32_t i) {
    if (width == 1) return ((const uint8_t *)raw)[i];
    return width == 2 ? ((const uint16_t *)raw)[i] : ((const uint32_t *)raw)[i];
}

static status source_read(const data_source *s, uint64_t sample, void *scratch, void *const fields[]) {
    const text_state *t = s->state;
    int32_t *tokens = fields[0], *labels = fields[1]; /* (T), (T) */
    uint64_t first = t->first + sample * t->context;
    TRY(read_bytes(t, first * t->width, scratch, ((uint64_t)t->context + 1) * t->width));
    for (uint32_t i = 0; i <= t->context; i++) {
        uint32_t id = token_at(scratch, t->width, i);
        if (id >= t->vocabulary) return wrong_token(t, first + i, id);
        if (i < t->context) tokens[i] = (int32_t)id;
        if (i > 0) labels[i - 1] = (int32_t)id;
    }
    return STATUS_OK;
}

static void state_free(text_state *t) {
    for (uint32_t i = 0; i < t->count; i++) {
        if (t->files[i].handle >= 0) close(t->files[i].handle);
        memory_free(t->files[i].path);
    }
    memory_free(t->files);
    memory_free(t);
}

static void source_close(data_source *s) { state_free(s->state); }

status text_source_open(const text_source_options *o, data_source *s) {
    *s = (data_source){ 0 };
    if (o->context < 1 || o->context > INT32_MAX / 8 || o->vocabulary < 1 || o->vocabulary > INT32_MAX)
        return status_set(STATUS_INVALID,
                          "data needs a context and a vocabulary of at least 1, not %u and %u", o->context,
                          o->vocabulary);
    text_state *t = memory_new(1, sizeof *t);
    if (!t) return status_set(STATUS_FAILED, "%s: no memory to open it", o->path);
    t->context = o->context;
    t->vocabulary = o->vocabulary;
    status result = add_path(t, o->kind, o->path);
    if (result == STATUS_OK) result = choose_part(t, o);
    if (result != STATUS_OK) {
        state_free(t);
        return result;
    }
    uint64_t field = (uint64_t)t->context * sizeof(int32_t);
    *s = (data_source){ .samples = (t->tokens - 1) / t->context,
                        .field_count = 2,
                        .label_field = 1,
                        .field_bytes = { field, field },
                        .scratch_bytes = ((uint64_t)t->context + 1) * t->width,
                        .read = source_read,
                        .close = source_close,
                        .state = t };
    return STATUS_OK;
}

uint64_t text_source_tokens(const data_source *s) { return ((const text_state *)s->state)->tokens; }

data_kind text_source_kind(const data_source *s) { return ((const text_state *)s->state)->kind; }
