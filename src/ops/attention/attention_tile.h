/* Tiles of attention: up to 64 keys against up to 64 queries of one head. What the fast kernels of both ops
 * share.
 *
 * A tile lies with its keys as rows and its queries side by side, so that whatever belongs to a query (its
 * maximum, its sum, its gradient) is a vector and no sum runs across lanes. */
#pragma once

#include "ops/attention/attention_view.h"

/* Queries t .. of head h, no keys yet. */
attention_tile attention_tile_queries(const attention_view *v, int64_t b, int64_t h, int64_t t);

/* attention_sight_next */
bool attention_tile_next(const attention_view *v, attention_tile *tile, int64_t from);

/* Rows of an operand at the tile's queries or keys. */
float *attention_tile_at_queries(const attention_view *v, const attention_tile *tile,
                                 const attention_place *p);
float *attention_tile_at_keys(const attention_view *v, const attention_tile *tile, const attention_place *p);

/* out[c][r] = in[r][c] */
typedef struct {
    const float *in;
    int64_t in_stride;
    float *out;
    int64_t out_stride;
    int64_t rows, columns;
} attention_transposition;
void attention_tile_transpose(const attention_transposition *t);

/* `rows` rows of `columns` numbers, made contiguous. */
void attention_tile_pack(const float *in, int64_t stride, int rows, int64_t columns, float *out);

/* The tile's queries, times the scale, transposed: (D,64). */
void attention_tile_scaled_queries(const attention_view *v, const attention_tile *tile, float *out);

/* Scores of the tile from those, capped or with their bias; minus infinity where a query does not see a key.
 */
void attention_tile_scores(const attention_view *v, const attention_tile *tile, const float *scaled,
                           float *scores);

/* The same from scaled scores, in place. */
void attention_tile_finish_scores(const attention_view *v, const attention_tile *tile, float *scores);

/* Writes `value` where a query does not see a key. */
void attention_tile_hide(const attention_view *v, const attention_tile *tile, float *x, float value);

/* Turns capped scores into what gradients of scores lose to the cap: 0 where a query does not see a key. */
void attention_tile_cap_slopes(const attention_view *v, const attention_tile *tile, float *scores);

/* x *= y over the tile. */
void attention_tile_scale(const attention_tile *tile, float *x, const float *y);

/* Carves scratch: returns the start and moves on by `count` numbers, rounded up to a cache line. With a NULL
 * base it measures. */
float *attention_tile_take(float *base, uint64_t *used, int64_t count);
