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

/* So many files stay open; beyond that each read opens its file. */
enum { OPEN_FILES = 128 };

/* Listing a folder holds the names of all its files. Of a few the runtime reserve has room for that; of more
 * it is planned like what is held to the end. */
enum { FEW_FILES = 1024, LISTED_BYTES = 128 };

/* The files, shared by the parts of them that are open. */
typedef struct {
    data_file *files; /* in order of start */
    uint32_t count, capacity, users;
    data_kind kind;
    const data_format *format;
    uint32_t width;   /* of the widest token */
    uint64_t ceiling; /* every id is below */
    uint64_t tokens, documents, held_bytes;
} corpus;

typedef struct {
    corpus *of;
    uint32_t context, vocabulary;
    uint64_t first, tokens;
    bool packed;
    text_source_packing packing;
} text_state;

status data_kind_parse(const char *word, const char *name, data_kind *kind) {
    for (int k = 0; k < DATA_KINDS; k++)
        if (strcmp(word, data_kind_name((data_kind)k)) == 0) {
            *kind = (data_kind)k;
            return STATUS_OK;
        }
    return status_set(STATUS_INVALID, "%s: '%s' is none of auto, bytes, u16, u32, npy and jsonl", name, word);
}

const char *data_kind_name(data_kind kind) { return kind == DATA_KIND_AUTO ? "auto" : format_of(kind)->name; }
const char *data_kind_about(data_kind kind) {
    return kind == DATA_KIND_AUTO ? "tokens" : format_of(kind)->about;
}

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
    f->start = c->tokens;
    c->tokens += f->tokens;
    c->documents += f->documents;
    if (c->width < f->width) c->width = f->width;
    if (c->ceiling < f->ceiling) c->ceiling = f->ceiling;
    c->held_bytes += sizeof *f + strlen(f->path) + 1 + f->mark_count * sizeof *f->marks;
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
    if (f.handle >= 0 && (!keep || c->count >= OPEN_FILES)) {
        close(f.handle);
        f.handle = -1;
    }
    if (keep) {
        c->files[c->count++] = f;
    } else {
        memory_free(f.marks);
        memory_free(path);
    }
    return result;
}

static int visible(const struct dirent *item) { return item->d_name[0] != '.'; }
static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static status add_folder(corpus *c, data_kind wanted, const char *folder) {
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
            result = add_file(c, wanted, path, true);
        } else if (result == STATUS_OK) {
            result = status_set(STATUS_FAILED, "%s: no memory for the names of its files", folder);
        }
        memory_free(items[i]);
    }
    memory_free(items);
    return result;
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
        TRY(add_folder(c, wanted, path));
        if (c->count == 0)
            return status_set(STATUS_INVALID,
                              "the folder %s has no file with anything in it; put the texts right into it",
                              path);
        return STATUS_OK;
    }
    char *copy = memory_text(path);
    if (!copy) return status_set(STATUS_FAILED, "%s: no memory to open it", path);
    TRY(add_file(c, wanted, copy, false));
    return c->count ? STATUS_OK
                    : status_set(STATUS_INVALID, "the data file %s is empty; give it some text", path);
}

static status too_short(const text_source_options *o, const text_state *t) {
    return status_set(STATUS_INVALID,
                      "%s%s has %" PRIu64 " tokens; a context of %u needs at least %" PRIu64
                      ": use a shorter --context or more text",
                      o->hold_out ? "the training part (first nine tenths) of " : "", o->path, t->tokens,
                      t->context, (uint64_t)t->context + 1);
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
static status read_tokens(const corpus *c, uint64_t token, uint64_t count, data_window *to) {
    for (const data_file *f = file_at(c, token); count > 0; f++) {
        uint64_t first = token - f->start, n = f->tokens - first < count ? f->tokens - first : count;
        if (first == 0 && c->documents) format_begin(to);
        TRY(c->format->read(f, first, n, to));
        token += n, count -= n;
    }
    return STATUS_OK;
}

static data_window window_of(const data_source *s, void *scratch) {
    const text_state *t = s->state;
    return (data_window){ .context = t->context,
                          .vocabulary = t->vocabulary,
                          .scratch = scratch,
                          .scratch_bytes = s->scratch_bytes };
}

static status source_read(const data_source *s, uint64_t sample, void *scratch, void *const fields[]) {
    const text_state *t = s->state;
    data_window w = window_of(s, scratch);
    w.tokens = fields[0], w.labels = fields[1]; /* (T), (T) */
    if (t->packed) w.segments = fields[2], w.first_position = t->packing.first_position;
    if (t->packed && t->packing.positions) w.positions = fields[3];
    return read_tokens(t->of, t->first + sample * t->context, (uint64_t)t->context + 1, &w);
}

/* Without fields ids are only compared with the vocabulary. */
static status source_check(const data_source *s) {
    enum { BLOCK = 64 << 10 };
    const text_state *t = s->state;
    if (t->of->ceiling <= t->vocabulary) return STATUS_OK;
    void *block = memory_new(BLOCK, 1);
    if (!block) return status_set(STATUS_FAILED, "no memory to look through the data");
    data_window w = window_of(s, block);
    w.scratch_bytes = BLOCK;
    status result = read_tokens(t->of, t->first, t->tokens, &w);
    memory_free(block);
    return result;
}

static void corpus_free(corpus *c) {
    for (uint32_t i = 0; i < c->count; i++) {
        if (c->files[i].handle >= 0) close(c->files[i].handle);
        memory_free(c->files[i].marks);
        memory_free(c->files[i].path);
    }
    memory_free(c->files);
    memory_free(c);
}

static void source_close(data_source *s) {
    text_state *t = s->state;
    if (--t->of->users == 0) corpus_free(t->of);
    memory_free(t);
}

/* A source of some of the tokens; the corpus has one user more. */
static status open_part(corpus *c, const text_state *part, data_source *s) {
    uint64_t field = (uint64_t)part->context * sizeof(int32_t);
    text_state *t = memory_new(1, sizeof *t);
    if (!t) return status_set(STATUS_FAILED, "no memory to open a part of the data");
    *t = *part;
    t->of = c;
    *s = (data_source){ .samples = t->tokens ? (t->tokens - 1) / t->context : 0,
                        .field_count = 2,
                        .label_field = 1,
                        .field_bytes = { field, field },
                        .scratch_bytes = c->format->scratch_bytes,
                        .held_bytes = c->users++ ? sizeof *t : sizeof *t + sizeof *c + c->held_bytes,
                        .read = source_read,
                        .check = source_check,
                        .close = source_close,
                        .state = t };
    if (!s->scratch_bytes) s->scratch_bytes = ((uint64_t)t->context + 1) * c->width;
    return STATUS_OK;
}

status text_source_open(const text_source_options *o, data_source *s) {
    *s = (data_source){ 0 };
    if (o->context < 1 || o->context > INT32_MAX / 8 || o->vocabulary < 1 || o->vocabulary > INT32_MAX)
        return status_set(STATUS_INVALID,
                          "data needs a context and a vocabulary of at least 1, not %u and %u", o->context,
                          o->vocabulary);
    corpus *c = memory_new(1, sizeof *c);
    if (!c) return status_set(STATUS_FAILED, "%s: no memory to open it", o->path);
    text_state t = { .context = o->context, .vocabulary = o->vocabulary };
    status result = add_path(c, o->kind, o->path);
    t.tokens = o->hold_out ? c->tokens - c->tokens / 10 : c->tokens;
    if (result == STATUS_OK && t.tokens <= o->context) result = too_short(o, &t);
    if (result == STATUS_OK) result = open_part(c, &t, s);
    if (result != STATUS_OK) corpus_free(c);
    return result;
}

status text_source_held_out(const data_source *training, data_source *s) {
    text_state t = *(const text_state *)training->state;
    *s = (data_source){ 0 };
    t.packed = false;
    t.first += t.tokens;
    t.tokens = t.of->tokens - t.first;
    return open_part(t.of, &t, s);
}

void text_source_pack(data_source *s, const text_source_packing *p) {
    text_state *t = s->state;
    t->packed = true, t->packing = *p;
    s->field_count = p->positions ? 4 : 3;
    for (uint32_t f = 2; f < s->field_count; f++) s->field_bytes[f] = s->field_bytes[0];
}

uint64_t text_source_documents(const data_source *s) { return ((const text_state *)s->state)->of->documents; }

uint64_t text_source_tokens(const data_source *s) { return ((const text_state *)s->state)->tokens; }

data_kind text_source_kind(const data_source *s) { return ((const text_state *)s->state)->of->kind; }

bool text_source_is_text(const data_source *s) { return ((const text_state *)s->state)->of->format->is_text; }

const char *text_source_path(const data_source *s) {
    return ((const text_state *)s->state)->of->files[0].path;
}
