/* The header of a safetensors file: read and checked, nothing else. */
#pragma once

#include "io/safetensors.h"

/* `bytes` of JSON from `start` on of an open file; tensors' offsets count from `data_start`, where
 * `data_bytes` follow. `path` is for sentences, `file` the number in the set. */
typedef struct {
    const char *path;
    int handle;
    uint64_t start, bytes, data_start, data_bytes;
    uint32_t file;
} safetensors_header;

/* Adds its tensors to the set, in the order of their offsets. `*names` holds their names then, as long as the
 * entries live; memory_free it, also after a failure. */
status safetensors_header_read(const safetensors_header *h, safetensors *s, char **names);

/* What that would hold, counted in no memory. */
status safetensors_header_held(const safetensors_header *h, uint64_t *bytes);

/* Sorts the entries by name and refuses a name that occurs twice. */
status safetensors_sort(const char *path, safetensors *s);
