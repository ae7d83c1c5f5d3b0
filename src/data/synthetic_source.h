/* Samples that nobody has to bring: random numbers, the same for the same seed. For measuring, where what is
 * computed does not matter but its shapes do. */
#pragma once

#include <stdbool.h>

#include "data/source.h"

typedef struct {
    uint64_t samples;
    uint32_t field_count;
    uint64_t field_bytes[DATA_MAX_FIELDS]; /* of one sample: whole 32-bit items */
    bool integers[DATA_MAX_FIELDS];        /* i32 in [0, below); else f32 in (0, 1) */
    bool zeros[DATA_MAX_FIELDS];           /* or nothing but 0 */
    int32_t always[DATA_MAX_FIELDS];       /* or nothing but this; 0: not so */
    uint32_t below[DATA_MAX_FIELDS];
    int32_t label_field;    /* as in data_source */
    uint64_t scratch_bytes; /* reserved for each read, and not used: as a source of real data would */
    uint64_t seed;
} synthetic_options;

status synthetic_source_open(const synthetic_options *options, data_source *source);
