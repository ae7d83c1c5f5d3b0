/* Pictures out of a Parquet file, each as a file in the folder of its class. */
#pragma once

#include "data/documents/documents.h"

/* Told of each picture; what is read again by its cell is the same, which is looked at on the way. */
typedef void extracted_each(void *context, const document_piece *bytes, const char *class, const char *path);
void extracted_visit(const char *parquet, extracted_each *each, void *context);

/* Writes FOLDER/CLASS/NAME of each; the columns image and label, and of the first the members are there. */
void extracted_pictures(const char *parquet, const char *folder);
