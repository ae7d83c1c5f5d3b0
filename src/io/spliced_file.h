/* A file that is read as if other bytes stood at one place of it: a large file with a small change needs no
 * memory for a copy, and all of it but that place stays as it is, to the byte. */
#pragma once

#include "base/json_reader.h"

/* `gone` bytes from `at` on are left out, and `put` stands there. */
typedef struct {
    uint64_t at, gone;
    const char *put; /* the caller's */
    uint64_t bytes;  /* of it */
    uint64_t of;     /* how long the file was when the place was found */
} file_splice;

typedef struct {
    const char *path; /* the caller's, as the bytes of the splice are */
    int file;
    file_splice splice;
} spliced_file;

/* `splice` NULL: the file as it is. STATUS_INVALID where it can't be opened, or has another length than it
 * had. Close it where it was opened. */
status spliced_file_open(const char *path, const file_splice *splice, spliced_file *f);
void spliced_file_close(spliced_file *f);

uint64_t spliced_file_bytes(const spliced_file *f);
/* Exactly `bytes` bytes from `offset` on, which must be there. */
status spliced_file_read(const spliced_file *f, uint64_t offset, void *into, uint64_t bytes);

/* For who reads it as JSON; `*f` must stay. */
json_source spliced_file_source(const spliced_file *f, const char *what);
