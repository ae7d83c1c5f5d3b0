/* The form of the eight tile registers, as LDTILECFG reads it. A thread loads one before its first product in
 * tiles and lets go of them behind the last: what is kept there is saved at every switch of threads. Forms
 * are constants, as gcc 12 takes the instruction for one that reads eight bytes. */
#pragma once

#include <stdint.h>

typedef struct {
    uint8_t palette, start, none[14]; /* palette 1: eight registers of at most 16 rows of 64 bytes */
    uint16_t row_bytes[16];           /* by register; those behind the eighth are 0 */
    uint8_t rows[16];
} tile_form; /* 64 bytes */

/* Eight whole registers. */
#define TILE_FORM_WHOLE                                                                                      \
    {                                                                                                        \
        .palette = 1, .row_bytes = { 64, 64, 64, 64, 64, 64, 64, 64 }, .rows = {                             \
            16,                                                                                              \
            16,                                                                                              \
            16,                                                                                              \
            16,                                                                                              \
            16,                                                                                              \
            16,                                                                                              \
            16,                                                                                              \
            16                                                                                               \
        }                                                                                                    \
    }
