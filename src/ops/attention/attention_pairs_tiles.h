/* Products on tiles: a template, which is included with the instructions or with their twins. What includes
 * it defines
 *   TARGET, INLINE             attributes of the function, and of those that are a part of it
 *   TILE(t)                    declares register t
 *   ZERO(t), LOAD(t, from, stride), STORE(t, to, stride)   rows of 64 bytes, `stride` bytes apart
 *   MULTIPLY(c, a, b)          c = c + a b
 * Blocks are of up to 2 x 2 tiles: four sums, so that a load serves two products. */
#pragma once

/* Bytes between rows. */
typedef struct {
    int64_t a, b, c;
} strides;

INLINE static inline void block(const attention_pairs_product *p, const strides *by, int64_t i, int64_t j,
                                const bool tall, const bool broad) {
    enum { NEXT = ATTENTION_PAIRS_TILE, WORD = 4 };
    const char *a = (const char *)(p->a + i * p->a_row), *b = (const char *)(p->b + j);
    char *c = (char *)(p->c + i * p->c_row + j);
    TILE(0);
    TILE(1);
    TILE(2);
    TILE(3);
    TILE(4);
    TILE(5);
    TILE(6);
    TILE(7);
    if (p->accumulate) {
        LOAD(0, c, by->c);
        if (broad) LOAD(1, c + NEXT * WORD, by->c);
        if (tall) LOAD(2, c + NEXT * by->c, by->c);
        if (tall && broad) LOAD(3, c + NEXT * by->c + NEXT * WORD, by->c);
    } else {
        ZERO(0);
        if (broad) ZERO(1);
        if (tall) ZERO(2);
        if (tall && broad) ZERO(3);
    }
    for (int64_t k = 0; k < p->k; k += ATTENTION_PAIRS_STEP) {
        LOAD(4, a, by->a);
        LOAD(6, b, by->b);
        MULTIPLY(0, 4, 6);
        if (broad) LOAD(7, b + NEXT * WORD, by->b);
        if (broad) MULTIPLY(1, 4, 7);
        if (tall) LOAD(5, a + NEXT * by->a, by->a);
        if (tall) MULTIPLY(2, 5, 6);
        if (tall && broad) MULTIPLY(3, 5, 7);
        a += ATTENTION_PAIRS_STEP * sizeof *p->a;
        b += ATTENTION_PAIRS_STEP / 2 * by->b;
    }
    STORE(0, c, by->c);
    if (broad) STORE(1, c + NEXT * WORD, by->c);
    if (tall) STORE(2, c + NEXT * by->c, by->c);
    if (tall && broad) STORE(3, c + NEXT * by->c + NEXT * WORD, by->c);
}

TARGET static void multiply(const attention_pairs_product *p) {
    enum { BOTH = 2 * ATTENTION_PAIRS_TILE };
    const strides by = { p->a_row * (int64_t)sizeof *p->a, p->b_row * (int64_t)sizeof *p->b,
                         p->c_row * (int64_t)sizeof *p->c };
    for (int64_t i = 0; i < p->m; i += BOTH)
        for (int64_t j = 0; j < p->n; j += BOTH) {
            bool tall = p->m - i >= BOTH, broad = p->n - j >= BOTH;
            if (tall && broad)
                block(p, &by, i, j, true, true);
            else if (tall)
                block(p, &by, i, j, true, false);
            else if (broad)
                block(p, &by, i, j, false, true);
            else
                block(p, &by, i, j, false, false);
        }
}
