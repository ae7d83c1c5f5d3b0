/* Which pictures data is made of, and of what class each is: from folders, or from tables. */
#pragma once

#include "data/documents/documents.h"

/* A picture as it is met. Of a file alone there is its path; of one that lies inside of a Parquet file its
 * bytes, and where they are read again. */
typedef struct {
    const char *path;  /* of the file that it is or lies in */
    const char *class; /* NULL: of the folder that was told last */
    uint64_t class_bytes;
    const uint8_t *bytes; /* NULL: it is a file */
    parquet_cell cell;
    data_stamp stamp; /* of the Parquet file */
    uint64_t group, row;
} picture_found;

/* Told of each class as it is met, with what is between tables and folders alike; strings last for the call.
 */
typedef struct {
    status (*class_folder)(void *context, const char *name); /* before its pictures; NULL: not wanted */
    status (*picture)(void *context, const picture_found *found);
    /* Of a table, in place of its pictures, where it names its classes itself (data/classes.h); NULL: not
     * wanted and pictures are told. */
    status (*classes)(void *context, const document_options *label, bool *told);
    void *context;
    const char *image, *label; /* columns; `image` NULL: paths are not wanted */
    /* Bytes that reading a table may take, together with what the visitor holds before it. Meanwhile
     * `*reading` says what it takes, which is to be counted where the visitor takes more; else it is 0. */
    uint64_t most;
    uint64_t (*held)(const void *context);
    uint64_t *reading;
} picture_visitor;

/* Ends with the first that fails. STATUS_INVALID where there is nothing of the kind, or a class has none. */
status picture_list(const char *path, const picture_visitor *v);
