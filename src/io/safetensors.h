/* safetensors: named arrays in a file, or in a set of files (shards) with an index.
 * Format: 8 bytes little-endian length N of the header; N bytes of JSON, name -> {dtype, shape,
 * data_offsets}, perhaps with a "__metadata__" of strings; the data. https://huggingface.co/docs/safetensors
 *
 * Files come from strangers, so all of the header is checked before anything is believed: its length, that no
 * name occurs twice, that shape times dtype is what the offsets say (with overflow looked for), and that the
 * tensors cover the data without a hole, an overlap or a rest. Headers and indexes are read through a small
 * buffer (base/json_reader.h) instead of json-c: that keeps whole numbers exact, sees repeated keys, and
 * holds nothing but a name and an entry for each tensor, however the files are made; safetensors_held says
 * how much that is before it is taken. What is wrong is said in one sentence with the file, the tensor and
 * the number, as STATUS_INVALID.
 *
 * Data is read with pread into memory of the caller's, never mapped. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/shape.h"
#include "base/status.h"
#include "io/file.h"

enum {
    SAFETENSORS_HEADER_LIMIT = 100 << 20,
    SAFETENSORS_MAX_RANK = 8,
    SAFETENSORS_MAX_SHARDS = 512, /* all are open at the same time */
};

typedef struct {
    const char *name;  /* UTF-8 */
    const char *dtype; /* "F32", "BF16" … as in the file; static */
    int64_t dim[SAFETENSORS_MAX_RANK];
    uint32_t rank;          /* 0: a scalar, one element */
    uint32_t file;          /* which of the set */
    uint64_t offset, bytes; /* in that file */
} safetensors_entry;

typedef struct {
    int handle;
    char *path, *names; /* names: those of the entries */
} safetensors_file;

typedef struct {
    safetensors_entry *entries; /* sorted by name */
    uint32_t count;
    safetensors_file *files;
    uint32_t file_count;
    void
        *more_names; /* of entries that are called otherwise in the files (io/timm_files.h); NULL: none are */
} safetensors;

/* `path`: a .safetensors file, an index (….json) that names shards beside it, or a folder with
 * model.safetensors or model.safetensors.index.json. On failure nothing stays open. */
status safetensors_open(const char *path, safetensors *s);
/* The memory that an open set holds, counted in next to none; fails as opening does. */
status safetensors_held(const char *path, uint64_t *bytes);
void safetensors_close(safetensors *s); /* fine on a zeroed or closed set */

const safetensors_entry *safetensors_find(const safetensors *s, const char *name); /* NULL: none */

/* All of a tensor; `bytes` must be entry->bytes. Numbers that are not finite are STATUS_INVALID: nothing that
 * is computed from them is. */
status safetensors_read(const safetensors *s, const safetensors_entry *entry, void *into, uint64_t bytes);
/* `bytes` of it from byte `first` on, for streaming through a small buffer. Both are thread-safe. */
status safetensors_read_part(const safetensors *s, const safetensors_entry *entry, uint64_t first, void *into,
                             uint64_t bytes);
/* The same bytes as they are, whatever numbers they make. */
status safetensors_read_bytes(const safetensors *s, const safetensors_entry *entry, uint64_t first,
                              void *into, uint64_t bytes);

/* Bytes of an element of the type with this name, 0 for an unknown one. */
uint32_t safetensors_dtype_bytes(const char *name);
/* Between these names and ours; NULL and DTYPE_NONE where there is no counterpart. */
const char *safetensors_dtype_name(dtype t);
dtype safetensors_dtype(const char *name);
/* Does the entry have this shape? */
bool safetensors_has_shape(const safetensors_entry *entry, const shape *s);

/* What to write. `data` stays the caller's and is written from where it is. What is in no memory has
 * `part` instead: it gives the bytes from `first` on, some or all of them, until it is called again. */
typedef struct {
    const char *name;
    const char *dtype; /* "F32" … */
    shape shape;
    const void *data;
    status (*part)(void *context, uint64_t first, const void **data, uint64_t *bytes);
    void *context;
    uint64_t bytes;
} safetensors_item;

/* Writes all of it to a temporary file beside `path`, syncs, renames (io/file.h): the old file stays until
 * the new one is whole. Wide types come first, so every tensor is aligned to its element. A number that is
 * not finite is never saved: STATUS_FAILED names its tensor, and nothing is renamed. */
status safetensors_write(const char *path, const safetensors_item *items, uint32_t count);
/* The same, and says what is in the file now. */
status safetensors_write_summed(const char *path, const safetensors_item *items, uint32_t count, io_sum *sum);

/* Length of the file that safetensors_write would make; STATUS_INVALID for what it would refuse. */
status safetensors_file_bytes(const char *path, const safetensors_item *items, uint32_t count,
                              uint64_t *bytes);
