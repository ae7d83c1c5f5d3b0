/* The header of a safetensors file: read and checked, nothing else. */
#pragma once

#include "io/safetensors.h"

/* Reads `bytes` of JSON at `header` and adds its tensors to the set as those of file `file`, offsets counted
 * from `data_start`, where `data_bytes` follow. Names are decoded in place, so `header` must live as long as
 * the entries. `path` is for sentences. The entries are added in the order of their offsets. */
typedef struct {
    const char *path;
    char *header;
    uint64_t bytes, data_start, data_bytes;
    uint32_t file;
} safetensors_header;

status safetensors_header_read(const safetensors_header *h, safetensors *s);

/* Sorts the entries by name and refuses a name that occurs twice. */
status safetensors_sort(const char *path, safetensors *s);
