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

/* ---- few rows ---- */

/* Forms of n rows of a, at most 32: those behind the sixteenth are in tiles of their own, which are not there
 * where there are none. `ACROSS`: b's rows run along the columns, and it comes woven. 0 and 1: sums of the
 * lower rows, 2 and 3: of the upper; 4 and 5: a; 6 and 7: b. `ALONG`: lines of b are a tile as they lie. 0
 * and 1: sums of 32 lines by the lower rows, 2 and 3: by the upper; 4 and 5: b; 6 and 7: a. */
#define TILE_FORM_LOWER(n) (uint8_t)((n) < 16 ? (n) : 16)
#define TILE_FORM_UPPER(n) (uint8_t)((n) > 16 ? (n)-16 : 0)
#define TILE_FORM_IF_UPPER(n, x) (uint8_t)((n) > 16 ? (x) : 0)
#define TILE_FORM_ACROSS(n)                                                                                  \
    [n] = { .palette = 1,                                                                                    \
            .row_bytes = { 64, 64, TILE_FORM_IF_UPPER(n, 64), TILE_FORM_IF_UPPER(n, 64), 64,                 \
                           TILE_FORM_IF_UPPER(n, 64), 64, 64 },                                              \
            .rows = { TILE_FORM_LOWER(n), TILE_FORM_LOWER(n), TILE_FORM_UPPER(n), TILE_FORM_UPPER(n),        \
                      TILE_FORM_LOWER(n), TILE_FORM_UPPER(n), 16, 16 } }
#define TILE_FORM_ALONG(n)                                                                                   \
    [n] = { .palette = 1,                                                                                    \
            .row_bytes = { 4 * TILE_FORM_LOWER(n), 4 * TILE_FORM_LOWER(n), 4 * TILE_FORM_UPPER(n),           \
                           4 * TILE_FORM_UPPER(n), 64, 64, 4 * TILE_FORM_LOWER(n), 4 * TILE_FORM_UPPER(n) }, \
            .rows = { 16, 16, TILE_FORM_IF_UPPER(n, 16), TILE_FORM_IF_UPPER(n, 16), 16, 16, 16,              \
                      TILE_FORM_IF_UPPER(n, 16) } }
