/* The loops over blocks, compiled once for each type of cache and number of queries: a template. Its includer
 * defines PAGED_NAME(of), PAGED_TYPE (a dtype) and PAGED_QUERIES.
 *
 * Queries of one text and one head of keys go through a block together, which is read from memory once. */

/* Scores of CACHE_BLOCK keys: number d of all of them lies side by side. */
VECTOR_CLONES static void PAGED_NAME(scores)(const paged_batch *b, int64_t block, int64_t at) {
    int64_t from = cache_place(&b->keys_lie, block, b->head, 0, 0);
    float sum[PAGED_QUERIES][CACHE_BLOCK] = { 0 }, key[CACHE_BLOCK];
    for (int64_t d = 0; d < b->size; d++) {
        paged_load(PAGED_TYPE, b->keys, from + d * CACHE_BLOCK, key);
        for (int r = 0; r < PAGED_QUERIES; r++)
            for (int j = 0; j < CACHE_BLOCK; j++)
                sum[r][j] = vector_fused(b->query[r].q[d], key[j], sum[r][j]);
    }
    for (int r = 0; r < PAGED_QUERIES; r++)
        for (int j = 0; j < CACHE_BLOCK; j++) {
            float scale = PAGED_TYPE == DTYPE_I8
                              ? b->key_scales[cache_scale_place(b->keys_lie.heads, block, b->head, j)]
                              : 1;
            b->query[r].scores[at - b->base + j] = sum[r][j] * scale;
        }
}

/* Adds values at places [first, last) of a block, which all queries see, times their probabilities. */
VECTOR_CLONES static void PAGED_NAME(values)(const paged_batch *b, int64_t block, int64_t at, int first,
                                             int last) {
    int64_t from = cache_place(&b->values_lie, block, b->head, 0, 0), d = 0;
    float p[PAGED_QUERIES][CACHE_BLOCK];
    for (int r = 0; r < PAGED_QUERIES; r++)
        for (int j = first; j < last; j++) {
            float scale = PAGED_TYPE == DTYPE_I8
                              ? b->value_scales[cache_scale_place(b->keys_lie.heads, block, b->head, j)]
                              : 1;
            p[r][j] = b->query[r].scores[at - b->base + j] * scale;
        }
    for (; d + CACHE_BLOCK <= b->size; d += CACHE_BLOCK) {
        float sum[PAGED_QUERIES][CACHE_BLOCK], value[CACHE_BLOCK];
        for (int r = 0; r < PAGED_QUERIES; r++)
            for (int i = 0; i < CACHE_BLOCK; i++) sum[r][i] = b->query[r].y[d + i];
        for (int j = first; j < last; j++) {
            paged_load(PAGED_TYPE, b->values, from + j * b->size + d, value);
            for (int r = 0; r < PAGED_QUERIES; r++)
                for (int i = 0; i < CACHE_BLOCK; i++) sum[r][i] = vector_fused(p[r][j], value[i], sum[r][i]);
        }
        for (int r = 0; r < PAGED_QUERIES; r++)
            for (int i = 0; i < CACHE_BLOCK; i++) b->query[r].y[d + i] = sum[r][i];
    }
    for (; d < b->size; d++)
        for (int r = 0; r < PAGED_QUERIES; r++) {
            float sum = b->query[r].y[d];
            for (int j = first; j < last; j++)
                sum = vector_fused(p[r][j], paged_number(PAGED_TYPE, b->values, from + j * b->size + d), sum);
            b->query[r].y[d] = sum;
        }
}

#undef PAGED_NAME
#undef PAGED_TYPE
#undef PAGED_QUERIES
