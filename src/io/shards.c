#include "io/shards.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "io/file.h"
#include "io/json.h"
#include "io/safetensors.h"
#include "io/safetensors_index.h"

enum { PATH_BYTES = 4096 };

/* docs/design.md, "Each rank writes files of its own" */
static const uint64_t LEAST = 16 << 20; /* bytes of a file */

int shards_files(uint64_t bytes, uint64_t tensors, int writers) {
    uint64_t most = bytes / LEAST < tensors ? bytes / LEAST : tensors;
    if (writers > SHARDS_MOST) writers = SHARDS_MOST;
    if (most > (uint64_t)writers) most = (uint64_t)writers;
    return most > 1 ? (int)most : 1;
}

const char *shards_name(const char *stem, int k, int files, char name[SHARDS_NAME_BYTES]) {
    if (files < 2)
        snprintf(name, SHARDS_NAME_BYTES, "%.40s.safetensors", stem);
    else
        snprintf(name, SHARDS_NAME_BYTES, "%.40s-%05d-of-%05d.safetensors", stem, k + 1, files);
    return name;
}

const char *shards_all(const char *stem, int files, char name[SHARDS_NAME_BYTES]) {
    snprintf(name, SHARDS_NAME_BYTES, "%.40s.safetensors%s", stem, files > 1 ? ".index.json" : "");
    return name;
}

int shards_next(shards_division *d, uint64_t bytes) {
    int least = 0;
    for (int k = 1; k < d->files; k++)
        if (d->filled[k] < d->filled[least]) least = k;
    d->filled[least] += bytes;
    return least;
}

static status path_of(const char *folder, const char *name, char path[PATH_BYTES]) {
    if (snprintf(path, PATH_BYTES, "%s/%s", folder, name) < PATH_BYTES) return STATUS_OK;
    return status_set(STATUS_INVALID, "the path '%.60s...' is too long", folder);
}

/* ---- the index ---- */

static status list_file(json_writer *w, const char *path, const char *name, uint64_t *bytes) {
    safetensors s;
    TRY(safetensors_open(path, &s));
    for (uint32_t i = 0; i < s.count && w; i++) json_put_string(w, s.entries[i].name, name);
    for (uint32_t i = 0; i < s.count; i++) *bytes += s.entries[i].bytes;
    safetensors_close(&s);
    return STATUS_OK;
}

static status list_all(json_writer *w, const char *folder, const char *stem, int files, uint64_t *bytes) {
    char path[PATH_BYTES], name[SHARDS_NAME_BYTES];
    for (int k = 0; k < files; k++) {
        TRY(path_of(folder, shards_name(stem, k, files, name), path));
        TRY(list_file(w, path, name, bytes));
    }
    return STATUS_OK;
}

status shards_index(const char *folder, const char *stem, int files) {
    char path[PATH_BYTES], name[SHARDS_NAME_BYTES];
    text out = { 0 };
    json_writer w = { .out = &out, .lines = true };
    uint64_t bytes = 0, again = 0;
    TRY(path_of(folder, shards_all(stem, files, name), path));
    TRY(list_all(NULL, folder, stem, files, &bytes));
    json_begin_object(&w, NULL);
    json_begin_object(&w, "metadata");
    json_put_unsigned(&w, "total_size", bytes);
    json_end_object(&w);
    json_begin_object(&w, "weight_map");
    status result = list_all(&w, folder, stem, files, &again);
    json_end_object(&w);
    json_end_object(&w);
    text_add(&out, "\n");
    if (result == STATUS_OK && out.failed) result = status_set(STATUS_FAILED, "%s: no memory for it", path);
    if (result == STATUS_OK) result = io_write_file(path, out.data, out.length);
    text_close(&out);
    return result;
}

/* ---- in the place of others ---- */

static status remove_file(const char *folder, const char *name) {
    char path[PATH_BYTES];
    TRY(path_of(folder, name, path));
    if (unlink(path) == 0 || errno == ENOENT) return STATUS_OK;
    return status_set(STATUS_FAILED, "cannot remove %s: %s", path, strerror(errno));
}

/* Files of an index that are to go, but for those that are named as one of `files`, and for one that is whole
 * by itself: some write an index beside it. */
typedef struct {
    const char *folder, *stem;
    int files;
} doomed;

static status remove_shard(void *context, const char *tensor, const char *shard) {
    const doomed *d = context;
    char name[SHARDS_NAME_BYTES];
    (void)tensor;
    if (!text_ends_with(shard, ".safetensors")) return STATUS_OK; /* whatever it is, no shard */
    if (strcmp(shard, shards_name(d->stem, 0, 1, name)) == 0) return STATUS_OK;
    for (int k = 0; k < d->files; k++)
        if (strcmp(shard, shards_name(d->stem, k, d->files, name)) == 0) return STATUS_OK;
    return remove_file(d->folder, shard);
}

static status is_there(const char *folder, const char *name, bool *there) {
    char path[PATH_BYTES];
    TRY(path_of(folder, name, path));
    *there = access(path, F_OK) == 0;
    return STATUS_OK;
}

/* Where it was not moved already. */
static status move_file(const char *from, const char *folder, const char *name) {
    char old[PATH_BYTES], new[PATH_BYTES];
    bool left;
    TRY(is_there(from, name, &left));
    TRY(path_of(from, name, old));
    TRY(path_of(folder, name, new));
    return left ? io_rename(old, new) : STATUS_OK;
}

static const char BEFORE[] = "before.json";

/* The index that was there is kept under another name for as long as its files are to be known; where there
 * was none a file without names says that moving has begun. An index that is there when the new one has left
 * is the new one. */
static status set_aside(const char *from, const char *folder, const char *index) {
    static const char none[] = "{}\n";
    char path[PATH_BYTES], kept[PATH_BYTES];
    bool is, left, set;
    TRY(is_there(folder, index, &is));
    TRY(is_there(from, index, &left));
    TRY(is_there(from, BEFORE, &set));
    TRY(path_of(folder, index, path));
    TRY(path_of(from, BEFORE, kept));
    if (!left || set) return STATUS_OK;
    return is ? io_rename(path, kept) : io_write_file(kept, none, sizeof none - 1);
}

status shards_replace(const char *from, const char *folder, const char *stem, int files) {
    char index[SHARDS_NAME_BYTES], name[SHARDS_NAME_BYTES], kept[PATH_BYTES];
    doomed before = { folder, stem, files };
    TRY(set_aside(from, folder, shards_all(stem, files, index)));
    for (int k = 0; k < files; k++) TRY(move_file(from, folder, shards_name(stem, k, files, name)));
    TRY(move_file(from, folder, index));
    TRY(remove_file(folder, shards_all(stem, 1, name)));
    TRY(path_of(from, BEFORE, kept));
    /* One that can't be read names nothing that is to go. */
    STATUS_IGNORED(safetensors_index_walk(kept, remove_shard, &before));
    return io_remove_folder(from);
}

/* "model-00002-of-00004.safetensors" is one of 4. */
static status count_of(void *context, const char *tensor, const char *shard) {
    int *files = context, of = 0;
    const char *end = strstr(shard, "-of-");
    (void)tensor;
    if (end && sscanf(end, "-of-%5d.safetensors", &of) == 1 && of > 1 && of <= SHARDS_MOST) *files = of;
    return STATUS_OK;
}

status shards_finish(const char *from, const char *folder, const char *stem) {
    char path[PATH_BYTES], index[SHARDS_NAME_BYTES];
    bool left, set;
    int files = 0;
    TRY(is_there(from, shards_all(stem, 2, index), &left));
    TRY(is_there(from, BEFORE, &set));
    TRY(path_of(left ? from : folder, index, path));
    /* One that can't be read was cut short, and its files are none. */
    if (left || set) STATUS_IGNORED(safetensors_index_walk(path, count_of, &files));
    return files ? shards_replace(from, folder, stem, files) : io_remove_folder(from);
}

status shards_remove(const char *folder, const char *stem) {
    char index[SHARDS_NAME_BYTES], path[PATH_BYTES];
    TRY(path_of(folder, shards_all(stem, 2, index), path));
    if (access(path, F_OK) != 0) return STATUS_OK;
    /* One that can't be read names nothing that is to go. */
    STATUS_IGNORED(safetensors_index_walk(path, remove_shard, &(doomed){ .folder = folder, .stem = stem }));
    return remove_file(folder, index);
}
