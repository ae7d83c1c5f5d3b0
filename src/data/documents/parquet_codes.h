/* How Parquet writes small numbers: runs and packed bits (levels, places in a dictionary), and packed
 * differences (lengths). Decoders give one number after the other out of a page and hold nothing of it; all
 * of them say false where the page is damaged.
 *
 * https://parquet.apache.org/docs/file-format/data-pages/encodings/ */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* RLE / bit-packed hybrid. */
typedef struct {
    const unsigned char *at, *end;
    uint64_t left;  /* numbers of the run */
    uint32_t width; /* bits of a number, at most 32 */
    uint32_t value; /* of a run of equal ones */
    uint64_t bit;   /* of packed ones: the next bit, counted from `at` */
    bool packed;
} parquet_hybrid;

parquet_hybrid parquet_hybrid_of(const unsigned char *at, const unsigned char *end, uint32_t width);
bool parquet_hybrid_next(parquet_hybrid *h, uint32_t *value);

/* Bits that a number up to `largest` takes. */
uint32_t parquet_width(uint32_t largest);

/* DELTA_BINARY_PACKED, of numbers in [0, most]. Of more than `values` numbers there is none. */
typedef struct {
    const unsigned char *at, *end; /* at: behind the part that is read */
    const unsigned char *widths;   /* of the block's miniblocks */
    const unsigned char *packed;   /* the miniblock that is read */
    uint64_t total, given;
    uint32_t miniblocks, in_each; /* in a block; numbers in a miniblock */
    uint32_t miniblock, in;       /* which one is read; numbers of it that came */
    int64_t least_step, value, most;
} parquet_delta;

bool parquet_delta_of(parquet_delta *d, const unsigned char *at, const unsigned char *end, int64_t most,
                      uint64_t values);
bool parquet_delta_next(parquet_delta *d, uint32_t *value);
/* The same of any numbers: of a column of 32 bits the lowest 32 are it. */
bool parquet_delta_whole(parquet_delta *d, int64_t *value);
/* Where the part ends, and the sum of the numbers that it has not given yet. */
bool parquet_delta_pass(parquet_delta d, const unsigned char **end, uint64_t *sum);
