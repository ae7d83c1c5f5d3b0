/* The loops over blocks for one query, compiled once for each type of cache: a template. Its includer defines
 * PAGED_NAME(of) and PAGED_TYPE (a dtype). Several blocks, and several vectors of values, go side by side:
 * one by one each multiply-add would wait for the one before it. */

/* Scores of the keys of PAGED_BLOCKS blocks, less their scales: number d of all keys of a block lies side by
 * side. */
VECTOR_CLONES static void PAGED_NAME(scores)(const paged_batch *b, const int64_t block[PAGED_BLOCKS],
                                             const float *q, float *scores) {
    int64_t from[PAGED_BLOCKS];
    float sum[PAGED_BLOCKS][CACHE_BLOCK] = { 0 }, key[CACHE_BLOCK];
    for (int k = 0; k < PAGED_BLOCKS; k++) from[k] = cache_place(&b->keys_lie, block[k], b->head, 0, 0);
    for (int64_t d = 0; d < b->size; d++)
        for (int k = 0; k < PAGED_BLOCKS; k++) {
            paged_load(PAGED_TYPE, b->keys, from[k] + d * CACHE_BLOCK, key);
            for (int j = 0; j < CACHE_BLOCK; j++) sum[k][j] = vector_fused(q[d], key[j], sum[k][j]);
        }
    for (int k = 0; k < PAGED_BLOCKS; k++)
        for (int j = 0; j < CACHE_BLOCK; j++) scores[k * CACHE_BLOCK + j] = sum[k][j];
}

/* Adds the values at places [first, last) of a block, each times its weight, to y. */
VECTOR_CLONES static void PAGED_NAME(values)(const paged_batch *b, int64_t block, const float *weights,
                                             int first, int last, float *y) {
    int64_t from = cache_place(&b->values_lie, block, b->head, 0, 0), d = 0;
    float value[CACHE_BLOCK];
    for (; d + PAGED_BLOCKS * CACHE_BLOCK <= b->size; d += PAGED_BLOCKS * CACHE_BLOCK) {
        float sum[PAGED_BLOCKS][CACHE_BLOCK];
        for (int k = 0; k < PAGED_BLOCKS; k++)
            for (int i = 0; i < CACHE_BLOCK; i++) sum[k][i] = y[d + k * CACHE_BLOCK + i];
        for (int j = first; j < last; j++)
            for (int k = 0; k < PAGED_BLOCKS; k++) {
                paged_load(PAGED_TYPE, b->values, from + j * b->size + d + k * CACHE_BLOCK, value);
                for (int i = 0; i < CACHE_BLOCK; i++)
                    sum[k][i] = vector_fused(weights[j], value[i], sum[k][i]);
            }
        for (int k = 0; k < PAGED_BLOCKS; k++)
            for (int i = 0; i < CACHE_BLOCK; i++) y[d + k * CACHE_BLOCK + i] = sum[k][i];
    }
    for (; d + CACHE_BLOCK <= b->size; d += CACHE_BLOCK) {
        float sum[CACHE_BLOCK];
        for (int i = 0; i < CACHE_BLOCK; i++) sum[i] = y[d + i];
        for (int j = first; j < last; j++) {
            paged_load(PAGED_TYPE, b->values, from + j * b->size + d, value);
            for (int i = 0; i < CACHE_BLOCK; i++) sum[i] = vector_fused(weights[j], value[i], sum[i]);
        }
        for (int i = 0; i < CACHE_BLOCK; i++) y[d + i] = sum[i];
    }
    for (; d < b->size; d++)
        for (int j = first; j < last; j++)
            y[d] =
                vector_fused(weights[j], paged_number(PAGED_TYPE, b->values, from + j * b->size + d), y[d]);
}

#undef PAGED_NAME
#undef PAGED_TYPE
