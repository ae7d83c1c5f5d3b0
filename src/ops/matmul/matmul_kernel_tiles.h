/* Blocks of 32 x 32 sums in four registers of tiles: a template, which is included with the instructions or
 * with their twins. What includes it defines
 *   TILE(t)                    declares a register t
 *   LOAD(t, from, stride)      its 16 rows of 64 bytes from there
 *   ZERO(t), STORE(t, to, stride)
 *   MULTIPLY(c, a, b)          c = c + a b
 * and has MATMUL_PAIRS_ROWS rows and columns. Two tiles of a and two of b give four products, so that a load
 * serves two of them, and a sum waits for the three beside it and not for itself. A block of up to 16 rows
 * has one tile of a. */
#pragma once

enum { TILE_WORDS = 16, TILE_DEPTHS = 32, SIDE = 32, ROW_BYTES = 64, SUM_BYTES = SIDE * 4 };

#define STEP_A (SIDE * ROW_BYTES)           /* bytes of 32 rows, */
#define STEP_B (TILE_DEPTHS / 2 * SIDE * 4) /* and of 32 columns, of one step along the depth */
#define SECOND_A (TILE_WORDS * ROW_BYTES)   /* where rows 16 .. 31 begin, */
#define SECOND_B (TILE_WORDS * 4)           /* and columns 16 .. 31 */
#define SECOND_SUM (TILE_WORDS * SUM_BYTES)

BLOCK static void block_of_16(int64_t depth, const char *a, const char *b, char *sum, matmul_prefetch *ask) {
    TILE(0) TILE(1) TILE(4) TILE(6) TILE(7) ZERO(0);
    ZERO(1);
    for (int64_t p = 0; p < depth; p += TILE_DEPTHS, a += STEP_A, b += STEP_B) {
        matmul_ask_once(ask);
        matmul_ask_once(ask);
        LOAD(4, a, ROW_BYTES);
        LOAD(6, b, SUM_BYTES);
        LOAD(7, b + SECOND_B, SUM_BYTES);
        MULTIPLY(0, 4, 6);
        MULTIPLY(1, 4, 7);
    }
    STORE(0, sum, SUM_BYTES);
    STORE(1, sum + SECOND_B, SUM_BYTES);
}

BLOCK static void block_of_32(int64_t depth, const char *a, const char *b, char *sum, matmul_prefetch *ask) {
    TILE(0) TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) TILE(6) TILE(7) ZERO(0);
    ZERO(1);
    ZERO(2);
    ZERO(3);
    for (int64_t p = 0; p < depth; p += TILE_DEPTHS, a += STEP_A, b += STEP_B) {
        matmul_ask_once(ask);
        matmul_ask_once(ask);
        LOAD(4, a, ROW_BYTES);
        LOAD(6, b, SUM_BYTES);
        MULTIPLY(0, 4, 6);
        LOAD(7, b + SECOND_B, SUM_BYTES);
        MULTIPLY(1, 4, 7);
        LOAD(5, a + SECOND_A, ROW_BYTES);
        MULTIPLY(2, 5, 6);
        MULTIPLY(3, 5, 7);
    }
    STORE(0, sum, SUM_BYTES);
    STORE(1, sum + SECOND_B, SUM_BYTES);
    STORE(2, sum + SECOND_SUM, SUM_BYTES);
    STORE(3, sum + SECOND_SUM + SECOND_B, SUM_BYTES);
}

BLOCK static void block(int64_t depth, int64_t rows, const void *a, const void *b, float *sum,
                        matmul_prefetch *ask) {
    if (rows > TILE_WORDS)
        block_of_32(depth, a, b, (char *)sum, ask);
    else
        block_of_16(depth, a, b, (char *)sum, ask);
}
