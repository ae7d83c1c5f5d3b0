/* Which files data is made of: a path and a weight as people write them, and the files of a folder. */
#pragma once

#include "data/documents/documents.h"

/* "a.jsonl:0.7": the path and a weight above 0; 1 where there is none. What stands behind the last colon is a
 * weight when it is a number and the whole names no file. STATUS_INVALID where it is no number and what
 * stands before it is there. The path goes to `path`, which has `bytes` bytes.
 */
status document_files_weight(const char *word, const char *name, char *path, uint64_t bytes, double *weight);

typedef struct {
    char **paths; /* in the order in which they are read */
    uint32_t count, capacity;
    document_format format; /* of all of them */
    uint64_t held_bytes;    /* to be planned for */
} document_files;

/* The file, or the regular files of the folder and of those in it: in the order of their names, folder by
 * folder (bytewise); hidden ones are left out. STATUS_INVALID where there is none, where a folder lies too
 * deep, or where names say that files are of several formats and `format` is AUTO. */
status document_files_open(const char *path, document_format format, document_files *files);
void document_files_close(document_files *files); /* fine on a zeroed or closed one */
