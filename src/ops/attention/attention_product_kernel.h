/* The loops of attention_multiply, for one instruction set: a template that attention_product.c includes once
 * per set, with NAME(x) and TARGET for the functions, VECTOR of LANES floats, ROWS (8 or 4) rows of c held in
 * registers at a time, and LOAD, STORE, LOAD_PART, STORE_PART (the first `count` lanes), SPREAD,
 * MULTIPLY_ADD.
 *
 * A block of ROWS rows and two vectors of c stays in registers over all of k. */

/* `vectors` (1 or 2) vectors of `rows` rows of c from element (i,j); the last vector has `count` lanes. */
TARGET static inline __attribute__((always_inline)) void NAME(block)(const attention_product *p, int64_t i,
                                                                     int64_t j, const int rows,
                                                                     const int vectors, const int count) {
    const float *a = p->a + i * p->a_row, *b = p->b + j;
    float *c = p->c + i * p->c_row + j;
    const bool part = count != LANES;
    const int last = vectors - 1;
    VECTOR sum[ROWS][2];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
            float *from = c + r * p->c_row + v * LANES;
            sum[r][v] = !p->accumulate      ? SPREAD(0.0f)
                        : part && v == last ? LOAD_PART(from, count)
                                            : LOAD(from);
        }
    for (int64_t x = 0; x < p->k; x++, a += p->a_column, b += p->b_row) {
        VECTOR right[2];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
            right[v] = part && v == last ? LOAD_PART(b + v * LANES, count) : LOAD(b + v * LANES);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            VECTOR left = SPREAD(a[r * p->a_row]);
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++) sum[r][v] = MULTIPLY_ADD(left, right[v], sum[r][v]);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
            float *to = c + r * p->c_row + v * LANES;
            if (part && v == last)
                STORE_PART(to, sum[r][v], count);
            else
                STORE(to, sum[r][v]);
        }
}

/* All rows of a panel of c from column j. */
TARGET static inline __attribute__((always_inline)) void NAME(panel)(const attention_product *p, int64_t j,
                                                                     const int vectors, const int count) {
    int64_t i = 0;
    for (; i + ROWS <= p->m; i += ROWS) NAME(block)(p, i, j, ROWS, vectors, count);
    if (p->m - i >= 4) {
        NAME(block)(p, i, j, 4, vectors, count);
        i += 4;
    }
    if (p->m - i >= 2) {
        NAME(block)(p, i, j, 2, vectors, count);
        i += 2;
    }
    if (i < p->m) NAME(block)(p, i, j, 1, vectors, count);
}

/* The product is copied: no store through c can change it, so it stays in registers. */
TARGET static void NAME(multiply)(const attention_product *given) {
    const attention_product own = *given, *p = &own;
    int64_t j = 0;
    for (; j + 2 * LANES <= p->n; j += 2 * LANES) NAME(panel)(p, j, 2, LANES);
    int rest = (int)(p->n - j);
    if (rest > LANES)
        NAME(panel)(p, j, 2, rest - LANES);
    else if (rest > 0)
        NAME(panel)(p, j, 1, rest);
}

#undef NAME
#undef TARGET
#undef VECTOR
#undef LANES
#undef ROWS
#undef LOAD
#undef STORE
#undef LOAD_PART
#undef STORE_PART
#undef SPREAD
#undef MULTIPLY_ADD
