#include "io/safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"
#include "base/utf8.h"
#include "io/file.h"
#include "io/json.h"
#include "io/safetensors_header.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "safetensors data is little-endian");

/* Opens one file of the set and reads its header. What is open is in `s`, so safetensors_close undoes it. */
static status open_file(const char *path, safetensors *s) {
    safetensors_file *file = &s->files[s->file_count++];
    *file = (safetensors_file){ .handle = -1 };
    if (!(file->path = memory_text(path))) return status_set(STATUS_FAILED, "%s: no memory to open it", path);
    uint64_t size, length;
    TRY(io_open(path, &file->handle, &size));
    if (size < 8)
        return status_set(STATUS_INVALID, "%s has %" PRIu64 " bytes; the length of the header alone takes 8",
                          path, size);
    TRY(io_read_at(file->handle, path, 0, &length, 8));
    if (length > SAFETENSORS_HEADER_LIMIT)
        return status_set(STATUS_INVALID, "%s: the header has %" PRIu64 " bytes; at most %d are read", path,
                          length, SAFETENSORS_HEADER_LIMIT);
    if (length > size - 8)
        return status_set(STATUS_INVALID,
                          "%s: the header has %" PRIu64 " bytes, after its length are only %" PRIu64, path,
                          length, size - 8);
    if (!(file->names = memory_new((size_t)length + 1, 1)))
        return status_set(STATUS_FAILED, "%s: no memory for a header of %" PRIu64 " bytes", path, length);
    TRY(io_read_at(file->handle, path, 8, file->names, length));
    safetensors_header h = { .path = file->path, .header = file->names, .bytes = length };
    h.file = s->file_count - 1;
    h.data_start = 8 + length;
    h.data_bytes = size - h.data_start;
    return safetensors_header_read(&h, s);
}

/* A shard is named by strangers and must lie beside the index. */
static status check_shard_name(json_value v, const char **name) {
    TRY(json_as_string(v, name));
    const char *at = *name;
    for (size_t length; *at; at += length) {
        length = utf8_length(at, strlen(at));
        if (length == 0 || (unsigned char)*at < 0x20 || *at == '/')
            return json_wrong(v, "is not the plain name of a file");
    }
    if (at == *name || strcmp(*name, ".") == 0 || strcmp(*name, "..") == 0)
        return json_wrong(v, "is not the plain name of a file");
    return STATUS_OK;
}

/* Opens the shard beside the index unless it is open already; `*file` is its number. */
static status open_shard(const char *index_path, const char *name, safetensors *s, uint32_t *file) {
    const char *slash = strrchr(index_path, '/');
    size_t folder = slash ? (size_t)(slash - index_path) + 1 : 0, bytes = folder + strlen(name) + 1;
    for (*file = 0; *file < s->file_count; (*file)++)
        if (strcmp(s->files[*file].path + folder, name) == 0) return STATUS_OK;
    if (s->file_count == SAFETENSORS_MAX_SHARDS)
        return status_set(STATUS_INVALID, "%s names more than %d shards", index_path, SAFETENSORS_MAX_SHARDS);
    char *path = memory_new(bytes, 1);
    if (!path) return status_set(STATUS_FAILED, "%s: no memory to open it", name);
    memcpy(path, index_path, folder);
    memcpy(path + folder, name, bytes - folder);
    status result = open_file(path, s);
    memory_free(path);
    return result;
}

static status check_map(const char *path, json_value map, const safetensors *s) {
    char quoted[UTF8_QUOTE_BYTES];
    json_value member;
    for (void *cursor = NULL; json_next(map, &cursor, &member);) {
        const char *shard;
        TRY(json_as_string(member, &shard));
        const safetensors_entry *e = safetensors_find(s, member.key);
        const char *slash = e ? strrchr(s->files[e->file].path, '/') : NULL;
        const char *there = !e ? "" : slash ? slash + 1 : s->files[e->file].path;
        if (strcmp(there, shard) != 0)
            return status_set(STATUS_INVALID, "%s: tensor '%s' is not in its shard %s", path,
                              utf8_quote(member.key, quoted), shard);
    }
    return STATUS_OK;
}

static status open_index(const char *path, safetensors *s) {
    json_document d;
    json_value map, member;
    status result;
    TRY(json_open(path, &d));
    TRY_OR(done, json_get(d.root, "weight_map", &map));
    TRY_OR(done, json_as_object(map));
    for (void *cursor = NULL; json_next(map, &cursor, &member);) {
        const char *name;
        uint32_t file;
        TRY_OR(done, check_shard_name(member, &name));
        TRY_OR(done, open_shard(path, name, s, &file));
    }
    TRY_OR(done, safetensors_sort(path, s));
    result = check_map(path, map, s);
done:
    json_close(&d);
    return result;
}

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

status safetensors_open(const char *path, safetensors *s) {
    *s = (safetensors){ 0 };
    struct stat about;
    char *inside = NULL;
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode)) {
        TRY(in_folder(path, &inside));
        path = inside;
    }
    bool index = text_ends_with(path, ".json");
    status result = STATUS_OK;
    if (!(s->files = memory_new(index ? SAFETENSORS_MAX_SHARDS : 1, sizeof *s->files))) {
        result = status_set(STATUS_FAILED, "%s: no memory to open it", path);
    } else if (index) {
        result = open_index(path, s);
    } else {
        result = open_file(path, s);
        if (result == STATUS_OK) result = safetensors_sort(path, s);
    }
    memory_free(inside);
    if (result != STATUS_OK) safetensors_close(s);
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
    *s = (safetensors){ 0 };
}

static int compare_name(const void *name, const void *entry) {
    return strcmp(name, ((const safetensors_entry *)entry)->name);
}

const safetensors_entry *safetensors_find(const safetensors *s, const char *name) {
    return s->count ? bsearch(name, s->entries, s->count, sizeof *s->entries, compare_name) : NULL;
}

status safetensors_read_part(const safetensors *s, const safetensors_entry *entry, uint64_t first, void *into,
                             uint64_t bytes) {
    const safetensors_file *file = &s->files[entry->file];
    char name[UTF8_QUOTE_BYTES];
    if (first > entry->bytes || bytes > entry->bytes - first)
        return status_set(STATUS_INVALID,
                          "%s: tensor '%s' has %" PRIu64 " bytes, not %" PRIu64 " from byte %" PRIu64,
                          file->path, utf8_quote(entry->name, name), entry->bytes, bytes, first);
    return io_read_at(file->handle, file->path, entry->offset + first, into, bytes);
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
