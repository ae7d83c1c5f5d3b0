/* Sums over the rows of a batch, such as gradients of the parameters of a normalisation, in their one order
 * (docs/design.md): tile after tile of THREADS_ROW_TILE rows, `out = accumulator + tile_sum`.
 *
 * Inside a tile the sums of ROW_TILES_SHARE rows each are added one after the other; shares are what threads
 * take. Work goes in waves of ROW_TILES_WAVE tiles, so the scratch has a fixed number of rows. */
#pragma once

#include "base/threads.h"
#include "ir/op.h"

enum { ROW_TILES_SHARE = 32, ROW_TILES_WAVE = 4 };

typedef struct {
    const float *accumulator; /* (width); NULL: zeros; may be `out` */
    float *out;               /* (width) */
} row_tiles_sum;

/* Adds rows first .. last-1 to `sums` (count,width), zeroed before. Called once for every row. */
typedef void row_tiles_body(const op_call *c, int64_t first, int64_t last, float *sums, int thread);

enum { ROW_TILES_SUMS = 2 };
typedef struct {
    const op_call *call; /* its scratch is used from the start */
    int64_t rows, width;
    uint32_t count; /* of sums */
    row_tiles_sum sum[ROW_TILES_SUMS];
    row_tiles_body *body;
} row_tiles;

void row_tiles_run(const row_tiles *r);
uint64_t row_tiles_scratch(int64_t rows, int64_t width, uint32_t count); /* bytes */
