#include "ops/row_tiles.h"

#include <string.h>

#include "ops/vector_math.h"

enum { SHARES = THREADS_ROW_TILE / ROW_TILES_SHARE, COLUMNS = 512 };

typedef struct {
    const row_tiles *r;
    int64_t first_row, last_row; /* of the wave */
} wave;

uint64_t row_tiles_scratch(int64_t rows, int64_t width, uint32_t count) {
    int64_t shares = (rows + ROW_TILES_SHARE - 1) / ROW_TILES_SHARE;
    if (shares > SHARES * ROW_TILES_WAVE) shares = SHARES * ROW_TILES_WAVE;
    return (uint64_t)(shares * width) * count * sizeof(float);
}

static void run_share(void *context, int64_t share, int thread) {
    const wave *w = context;
    int64_t first = w->first_row + share * ROW_TILES_SHARE, last = first + ROW_TILES_SHARE;
    int64_t items = w->r->width * w->r->count;
    float *sums = (float *)w->r->call->scratch + share * items;
    memset(sums, 0, (size_t)items * sizeof *sums);
    w->r->body(w->r->call, first, last < w->last_row ? last : w->last_row, sums, thread);
}

/* Columns first .. last-1 of sum s: shares to tiles, tiles into the output. */
VECTOR_CLONES static void gather_columns(const wave *w, uint32_t s, int64_t first, int64_t last) {
    const row_tiles *r = w->r;
    const float *shares = (const float *)r->call->scratch + s * r->width;
    float *out = r->sum[s].out;
    float tile_sum[COLUMNS];
    int64_t n = last - first, rows = w->last_row - w->first_row;
    for (int64_t row = 0; row < rows; row += THREADS_ROW_TILE) {
        const float *before = row + w->first_row == 0 ? r->sum[s].accumulator : out;
        for (int64_t j = 0; j < n; j++) tile_sum[j] = 0;
        for (int64_t i = row; i < rows && i < row + THREADS_ROW_TILE; i += ROW_TILES_SHARE) {
            const float *part = shares + i / ROW_TILES_SHARE * r->width * r->count + first;
            for (int64_t j = 0; j < n; j++) tile_sum[j] += part[j];
        }
        for (int64_t j = 0; j < n; j++) out[first + j] = (before ? before[first + j] : 0) + tile_sum[j];
    }
}

static void gather_piece(void *context, int64_t piece, int thread) {
    (void)thread;
    const wave *w = context;
    int64_t pieces = (w->r->width + COLUMNS - 1) / COLUMNS, first = piece % pieces * COLUMNS;
    int64_t last = first + COLUMNS < w->r->width ? first + COLUMNS : w->r->width;
    gather_columns(w, (uint32_t)(piece / pieces), first, last);
}

void row_tiles_run(const row_tiles *r) {
    int64_t step = THREADS_ROW_TILE * ROW_TILES_WAVE;
    for (int64_t row = 0; row < r->rows; row += step) {
        wave w = { r, row, row + step < r->rows ? row + step : r->rows };
        threads_for((w.last_row - row + ROW_TILES_SHARE - 1) / ROW_TILES_SHARE, run_share, &w);
        threads_for((r->width + COLUMNS - 1) / COLUMNS * r->count, gather_piece, &w);
    }
}
