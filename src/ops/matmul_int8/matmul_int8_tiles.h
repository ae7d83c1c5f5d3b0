/* Blocks of 28 x 32 sums in four registers of tiles: a template, which is included with the instructions or
 * with their twins. The instruction wants one operand with its lines as rows, and has the other as panels
 * are: b, of which a panel serves many blocks, is arranged so once. Sums come out with b's lines as rows, and
 * are turned. What includes it defines
 *   BLOCK                          how functions are compiled
 *   TILE(t)                        declares a register t
 *   ZERO(t), STORE(t, to)          16 rows of 64 bytes, one behind the other
 *   LOAD_A(t, from)                16 rows of 14 words, one behind the other
 *   LOAD_B(t, from)                16 rows of 16 words
 *   MULTIPLY(c, b, a)              c = c + b a, b signed, a unsigned
 *   TURN_WORDS(x)                  16 x 16 words, rows become columns
 *   ADD_ROWS(x, start, sum, rows)  these rows of x[16][16], each plus start, go to rows of sum */
#pragma once

enum { TILE_WORDS = 16, SQUARE_WORDS = TILE_WORDS * TILE_WORDS, ROWS = MATMUL_INT8_ROWS };
_Static_assert((int)MATMUL_INT8_COLUMNS == 2 * (int)TILE_WORDS && (int)MATMUL_INT8_FILL == (int)TILE_WORDS,
               "two tiles of b");

/* [four][column] becomes, for 16 fours at a time, [column][four]. */
BLOCK static void arrange(int64_t fours, uint32_t *b) {
    uint32_t square[2][SQUARE_WORDS] __attribute__((aligned(64)));
    for (int64_t f = 0; f < fours; f += TILE_WORDS, b += 2 * SQUARE_WORDS) {
        for (int64_t i = 0; i < TILE_WORDS; i++)
            for (int64_t half = 0; half < 2; half++)
                memcpy(square[half] + i * TILE_WORDS, b + (2 * i + half) * TILE_WORDS,
                       TILE_WORDS * sizeof *b);
        TURN_WORDS(square[0]);
        TURN_WORDS(square[1]);
        memcpy(b, square, sizeof square);
    }
}

BLOCK static void end_panel(uint32_t (*x)[SQUARE_WORDS], int64_t rows, const int32_t *start, int32_t *sum) {
    for (int64_t half = 0; half < 2; half++) {
        TURN_WORDS(x[half]);
        ADD_ROWS(x[half], start + half * TILE_WORDS, sum + half * TILE_WORDS, rows);
    }
}

BLOCK static void one_panel(int64_t fours, const uint32_t *a, const uint32_t *b,
                            uint32_t (*x)[SQUARE_WORDS]) {
    TILE(0) TILE(1) TILE(4) TILE(5) TILE(6) ZERO(0);
    ZERO(1);
    for (int64_t f = 0; f < fours; f += TILE_WORDS, a += TILE_WORDS * ROWS, b += 2 * SQUARE_WORDS) {
        LOAD_A(6, a);
        LOAD_B(4, b);
        MULTIPLY(0, 4, 6);
        LOAD_B(5, b + SQUARE_WORDS);
        MULTIPLY(1, 5, 6);
    }
    STORE(0, x[0]);
    STORE(1, x[1]);
}

BLOCK static void two_panels(int64_t fours, const uint32_t *a, const uint32_t *b,
                             uint32_t (*x)[SQUARE_WORDS]) {
    TILE(0) TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) TILE(6) TILE(7) const uint32_t *second = a + fours * ROWS;
    ZERO(0);
    ZERO(1);
    ZERO(2);
    ZERO(3);
    for (int64_t f = 0; f < fours; f += TILE_WORDS, a += TILE_WORDS * ROWS, second += TILE_WORDS * ROWS) {
        LOAD_A(6, a);
        LOAD_B(4, b);
        MULTIPLY(0, 4, 6);
        LOAD_B(5, b + SQUARE_WORDS);
        MULTIPLY(1, 5, 6);
        LOAD_A(7, second);
        MULTIPLY(2, 4, 7);
        MULTIPLY(3, 5, 7);
        b += 2 * SQUARE_WORDS;
    }
    STORE(0, x[0]);
    STORE(1, x[1]);
    STORE(2, x[2]);
    STORE(3, x[3]);
}

BLOCK static void block(int64_t fours, int64_t rows, const uint32_t *a, const uint32_t *b,
                        const int32_t *start, int32_t *sum) {
    uint32_t x[4][SQUARE_WORDS] __attribute__((aligned(64)));
    if (rows <= ROWS) {
        one_panel(fours, a, b, x);
        end_panel(x, rows, start, sum);
        return;
    }
    two_panels(fours, a, b, x);
    end_panel(x, ROWS, start, sum);
    end_panel(x + 2, rows - ROWS, start, sum + ROWS * MATMUL_INT8_COLUMNS);
}
