/* The names that Hugging Face's datasets give to numbers of a column: JSON in the footer,
 *
 *   { "info": { "features": { "label": { "names": [ "cat", "dog" ], "_type": "ClassLabel" } } } }
 *
 * of which all else is passed over (https://huggingface.co/docs/datasets/about_dataset_features). */
#pragma once

#include "data/documents/parquet_file.h"

/* Tells the names of a column one by one; none where the file says none. STATUS_INVALID where that JSON is
 * damaged, or a name has not 1 to 255 bytes. */
status parquet_classes_each(const parquet_file *p, const char *column, document_class *each, void *context);

/* The names of a column in memory. */
typedef struct {
    char *text;
    uint64_t *ends; /* of each name in the text */
    uint64_t count, bytes;
} parquet_classes;

/* How many there are, and how long together. */
status parquet_classes_measure(const parquet_file *p, const char *column, parquet_classes *c);
/* Takes the room for them; with memory they are read into it. */
status parquet_classes_read(const parquet_file *p, const char *column, document_room *room,
                            parquet_classes *c);
