/* Numbers as they stand in a page of Parquet, and as the letters that people and JSON write. */
#pragma once

#include "data/documents/parquet_file.h"

enum { PARQUET_LETTERS = 40 };

/* Bytes of one; 0 of strings, and of what is true or false, which are bits. */
uint32_t parquet_number_bytes(parquet_kind kind);

/* A number of the bytes, the lowest first. */
int64_t parquet_number_at(parquet_kind kind, const unsigned char *bytes);

/* What a number of 64 bits is in this kind: itself, or its lower half. */
int64_t parquet_number_as(parquet_kind kind, int64_t value);

/* Is it a whole number, and no bit? */
bool parquet_number_whole(parquet_kind kind);

/* The letters of a number of its kind, of a fraction its bits: the fewest digits that are read as it again.
 * How many. */
uint32_t parquet_number_letters(parquet_kind kind, int64_t value, char letters[PARQUET_LETTERS]);
