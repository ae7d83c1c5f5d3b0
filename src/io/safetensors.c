#include "io/safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/finite.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/utf8.h"
#include "io/file.h"
#include "io/safetensors_header.h"
#include "io/safetensors_index.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "safetensors data is little-endian");

/* Opens a file and finds its header. */
static status find_header(const char *path, safetensors_header *h) {
    uint64_t size, length;
    *h = (safetensors_header){ .path = path, .handle = -1 };
    TRY(io_open(path, &h->handle, &size));
    if (size < 8)
        return status_set(STATUS_INVALID, "%s has %" PRIu64 " bytes; the length of the header alone takes 8",
                          path, size);
    TRY(io_read_at(h->handle, path, 0, &length, 8));
    if (length > SAFETENSORS_HEADER_LIMIT)
        return status_set(STATUS_INVALID, "%s: the header has %" PRIu64 " bytes; at most %d are read", path,
                          length, SAFETENSORS_HEADER_LIMIT);
    if (length > size - 8)
        return status_set(STATUS_INVALID,
                          "%s: the header has %" PRIu64 " bytes, after its length are only %" PRIu64, path,
                          length, size - 8);
    h->start = 8, h->bytes = length;
    h->data_start = 8 + length;
    h->data_bytes = size - h->data_start;
    return STATUS_OK;
}

/* Opens one file of the set and reads its header. What is open is in `s`, so safetensors_close undoes it. */
static status open_file(const char *path, safetensors *s) {
    safetensors_file *file = &s->files[s->file_count++];
    safetensors_header h;
    *file = (safetensors_file){ .handle = -1 };
    if (!(file->path = memory_text(path))) return status_set(STATUS_FAILED, "%s: no memory to open it", path);
    status result = find_header(file->path, &h);
    file->handle = h.handle;
    h.file = s->file_count - 1;
    return result == STATUS_OK ? safetensors_header_read(&h, s, &file->names) : result;
}

/* ---- shards ---- */

typedef struct {
    const char *index;
    safetensors *set;
    bool held;      /* only what opening would hold is wanted */
    uint64_t bytes; /* of it */
} shards;

/* The path of a file beside the index; memory_free it. */
static char *beside(const char *index, const char *name) {
    const char *slash = strrchr(index, '/');
    size_t folder = slash ? (size_t)(slash - index) + 1 : 0, bytes = strlen(name) + 1;
    char *path = memory_new(folder + bytes, 1);
    if (!path) return NULL;
    memcpy(path, index, folder);
    memcpy(path + folder, name, bytes);
    return path;
}

static status held_by(const char *path, uint64_t *bytes) {
    safetensors_header h;
    *bytes = 0;
    status result = find_header(path, &h);
    if (result == STATUS_OK) result = safetensors_header_held(&h, bytes);
    if (h.handle >= 0) close(h.handle);
    return result;
}

/* What is only counted has its names in the set, so that it is counted once. */
static status count_shard(shards *of, const char *path) {
    uint64_t bytes;
    safetensors_file *file = &of->set->files[of->set->file_count++];
    *file = (safetensors_file){ .handle = -1, .path = memory_text(path) };
    if (!file->path) return status_set(STATUS_FAILED, "%s: no memory to open it", path);
    TRY(held_by(path, &bytes));
    of->bytes += bytes;
    return STATUS_OK;
}

/* Opens the shard beside the index unless it is open already. */
static status open_shard(void *context, const char *tensor, const char *name) {
    shards *of = context;
    safetensors *s = of->set;
    const char *slash = strrchr(of->index, '/');
    size_t folder = slash ? (size_t)(slash - of->index) + 1 : 0;
    (void)tensor;
    for (uint32_t i = s->file_count; i-- > 0;) /* mostly that of the tensor before it */
        if (strcmp(s->files[i].path + folder, name) == 0) return STATUS_OK;
    if (s->file_count == SAFETENSORS_MAX_SHARDS)
        return status_set(STATUS_INVALID, "%s names more than %d shards", of->index, SAFETENSORS_MAX_SHARDS);
    char *path = beside(of->index, name);
    if (!path) return status_set(STATUS_FAILED, "%s: no memory to open it", name);
    status result = of->held ? count_shard(of, path) : open_file(path, s);
    memory_free(path);
    return result;
}

static status check_place(void *context, const char *tensor, const char *shard) {
    const shards *of = context;
    const safetensors_entry *e = safetensors_find(of->set, tensor);
    const char *path = e ? of->set->files[e->file].path : "", *slash = strrchr(path, '/');
    char quoted[UTF8_QUOTE_BYTES];
    if (strcmp(slash ? slash + 1 : path, shard) == 0) return STATUS_OK;
    return status_set(STATUS_INVALID, "%s: tensor '%s' is not in its shard %s", of->index,
                      utf8_quote(tensor, quoted), shard);
}

static status open_index(const char *path, safetensors *s) {
    shards of = { .index = path, .set = s };
    TRY(safetensors_index_walk(path, open_shard, &of));
    TRY(safetensors_sort(path, s));
    return safetensors_index_walk(path, check_place, &of);
}

/* ---- opening ---- */

/* The file of a model directory, single or index; memory_free it. */
static status in_folder(const char *folder, char **path) {
    static const char *const names[] = { "model.safetensors", "model.safetensors.index.json" };
    size_t bytes = strlen(folder) + 64;
    if (!(*path = memory_new(bytes, 1))) return status_set(STATUS_FAILED, "%s: no memory to open it", folder);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(*path, bytes, "%s/%s", folder, names[i]);
        struct stat about;
        if (stat(*path, &about) == 0) return STATUS_OK;
    }
    memory_free(*path);
    *path = NULL;
    return status_set(STATUS_INVALID,
                      "the folder %s has no model.safetensors and no model.safetensors.index.json", folder);
}

/* The file that `path` stands for; memory_free `*inside`, which may hold it. */
static status find_file(const char **path, char **inside) {
    struct stat about;
    *inside = NULL;
    if (stat(*path, &about) != 0 || !S_ISDIR(about.st_mode)) return STATUS_OK;
    TRY(in_folder(*path, inside));
    *path = *inside;
    return STATUS_OK;
}

static status open_set(const char *path, safetensors *s) {
    bool index = text_ends_with(path, ".json");
    s->files = memory_new(index ? SAFETENSORS_MAX_SHARDS : 1, sizeof *s->files);
    if (!s->files) return status_set(STATUS_FAILED, "%s: no memory to open it", path);
    if (index) return open_index(path, s);
    TRY(open_file(path, s));
    return safetensors_sort(path, s);
}

status safetensors_open(const char *path, safetensors *s) {
    char *inside;
    *s = (safetensors){ 0 };
    TRY(find_file(&path, &inside));
    status result = open_set(path, s);
    memory_free(inside);
    if (result != STATUS_OK) safetensors_close(s);
    return result;
}

status safetensors_held(const char *path, uint64_t *bytes) {
    char *inside;
    safetensors counted = { 0 };
    shards of = { .set = &counted, .held = true };
    *bytes = 0;
    TRY(find_file(&path, &inside));
    of.index = path;
    status result = STATUS_OK;
    if (!text_ends_with(path, ".json"))
        result = held_by(path, &of.bytes);
    else if (!(counted.files = memory_new(SAFETENSORS_MAX_SHARDS, sizeof *counted.files)))
        result = status_set(STATUS_FAILED, "%s: no memory to open it", path);
    else
        result = safetensors_index_walk(path, open_shard, &of);
    *bytes = of.bytes;
    safetensors_close(&counted);
    memory_free(inside);
    return result;
}

void safetensors_close(safetensors *s) {
    for (uint32_t i = 0; i < s->file_count; i++) {
        if (s->files[i].handle >= 0) close(s->files[i].handle);
        memory_free(s->files[i].path);
        memory_free(s->files[i].names);
    }
    memory_free(s->files);
    memory_free(s->entries);
    memory_free(s->more_names);
    *s = (safetensors){ 0 };
}

static int compare_name(const void *name, const void *entry) {
    return strcmp(name, ((const safetensors_entry *)entry)->name);
}

const safetensors_entry *safetensors_find(const safetensors *s, const char *name) {
    return s->count ? bsearch(name, s->entries, s->count, sizeof *s->entries, compare_name) : NULL;
}

status safetensors_read_bytes(const safetensors *s, const safetensors_entry *entry, uint64_t first,
                              void *into, uint64_t bytes) {
    const safetensors_file *file = &s->files[entry->file];
    char name[UTF8_QUOTE_BYTES];
    if (first > entry->bytes || bytes > entry->bytes - first)
        return status_set(STATUS_INVALID,
                          "%s: tensor '%s' has %" PRIu64 " bytes, not %" PRIu64 " from byte %" PRIu64,
                          file->path, utf8_quote(entry->name, name), entry->bytes, bytes, first);
    return io_read_at(file->handle, file->path, entry->offset + first, into, bytes);
}

enum { LOOKED_AT = 256 << 10 }; /* bytes at a time, which are still in a cache then */

/* Elements that are in `bytes` only in part are left to who reads them whole. */
static status check_finite(const safetensors *s, const safetensors_entry *entry, uint64_t first,
                           const void *data, uint64_t bytes) {
    dtype type = safetensors_dtype(entry->dtype);
    uint64_t each = dtype_bytes(type), skipped = each ? (each - first % each) % each : 0;
    if (!each || bytes < skipped) return STATUS_OK;
    int64_t at = finite_find(type, (const char *)data + skipped, (int64_t)((bytes - skipped) / each));
    if (at < 0) return STATUS_OK;
    char name[UTF8_QUOTE_BYTES];
    return status_set(
        STATUS_INVALID,
        "%s: tensor '%s' is not finite: its number %" PRIu64 " is NaN or infinite; take weights "
        "from before that",
        s->files[entry->file].path, utf8_quote(entry->name, name), (first + skipped) / each + (uint64_t)at);
}

status safetensors_read_part(const safetensors *s, const safetensors_entry *entry, uint64_t first, void *into,
                             uint64_t bytes) {
    for (uint64_t done = 0, n; done < bytes; done += n) {
        n = bytes - done < LOOKED_AT ? bytes - done : LOOKED_AT;
        if (first > entry->bytes || bytes > entry->bytes - first) n = bytes; /* which is refused as it is */
        TRY(safetensors_read_bytes(s, entry, first + done, (char *)into + done, n));
        TRY(check_finite(s, entry, first + done, (char *)into + done, n));
    }
    return STATUS_OK;
}

status safetensors_read(const safetensors *s, const safetensors_entry *entry, void *into, uint64_t bytes) {
    char name[UTF8_QUOTE_BYTES];
    if (bytes != entry->bytes)
        return status_set(STATUS_INVALID, "%s: tensor '%s' has %" PRIu64 " bytes; %" PRIu64 " are wanted",
                          s->files[entry->file].path, utf8_quote(entry->name, name), entry->bytes, bytes);
    return safetensors_read_part(s, entry, 0, into, bytes);
}

static const char *const ours[DTYPE_COUNT] = {
    [DTYPE_F32] = "F32",   [DTYPE_F64] = "F64", [DTYPE_I32] = "I32", [DTYPE_F16] = "F16",
    [DTYPE_BF16] = "BF16", [DTYPE_I8] = "I8",   [DTYPE_U8] = "U8"
};

const char *safetensors_dtype_name(dtype t) { return ours[t]; }

dtype safetensors_dtype(const char *name) {
    for (int t = 0; t < DTYPE_COUNT; t++)
        if (ours[t] && strcmp(ours[t], name) == 0) return (dtype)t;
    return DTYPE_NONE;
}

bool safetensors_has_shape(const safetensors_entry *entry, const shape *s) {
    if (entry->rank != s->rank) return false;
    for (uint32_t i = 0; i < s->rank; i++)
        if (entry->dim[i] != s->dim[i]) return false;
    return true;
}
