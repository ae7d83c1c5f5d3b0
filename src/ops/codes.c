#include "ops/codes.h"

#include <stdio.h>
#include <string.h>

static const char ending[] = "_scale";

const char *codes_scales_name(const char *weight, char name[CODES_NAME_BYTES]) {
    snprintf(name, CODES_NAME_BYTES, "%s%s", weight, ending);
    return name;
}

size_t codes_scales_of(const char *name) {
    size_t length = strlen(name), end = sizeof ending - 1;
    return length > end && strcmp(name + length - end, ending) == 0 ? length - end : 0;
}

VECTOR_CLONES static int32_t largest_of(const float *x, int64_t n) {
    int32_t largest = 0;
    for (int64_t i = 0; i < n; i++) {
        int32_t size = codes_size(x[i]);
        largest = size > largest ? size : largest;
    }
    return largest;
}

int32_t codes_largest(const float *x, int64_t n) { return largest_of(x, n); }

VECTOR_CLONES static void largest_each(const float *restrict x, int64_t n, int32_t *restrict largest) {
    for (int64_t i = 0; i < n; i++) {
        int32_t size = codes_size(x[i]);
        largest[i] = size > largest[i] ? size : largest[i];
    }
}

void codes_largest_each(const float *x, int64_t n, int32_t *largest) { largest_each(x, n, largest); }

/* ---- random bits ---- */

/* A block of Philox is eight elements; the blocks of a draw stand side by side, word by word and half by
 * half, for the vectors. */
enum { PER = 8, BLOCKS = CODES_DRAWN / PER };

static void draw_words(const codes_draw *d, int64_t number, int blocks, uint32_t *word) {
    uint64_t seed = (uint64_t)d->random.key.seed_high << 32 | d->random.key.seed_low;
    uint32_t first = (uint32_t)(number * blocks), sample = d->random.key.first_sample + d->sample;
    philox_draw_apart(seed, &(philox_block){ { first, sample, d->random.key.step, d->random.stream } },
                      blocks, word);
}

VECTOR_CLONES static void draw_bits(const codes_draw *d, int64_t number, uint16_t bits[CODES_DRAWN]) {
    uint32_t word[4][BLOCKS];
    draw_words(d, number, BLOCKS, word[0]);
    for (int w = 0; w < 4; w++)
        for (int b = 0; b < BLOCKS; b++) {
            bits[2 * w * BLOCKS + b] = (uint16_t)word[w][b];
            bits[(2 * w + 1) * BLOCKS + b] = (uint16_t)(word[w][b] >> 16);
        }
}

void codes_draw_bits(const codes_draw *d, int64_t number, uint16_t bits[CODES_DRAWN]) {
    draw_bits(d, number, bits);
}

VECTOR_CLONES static void draw_bytes(const codes_draw *d, int64_t number, uint8_t bytes[CODES_DRAWN]) {
    enum { BLOCKS_OF_BYTES = CODES_DRAWN / 16 };
    uint32_t word[4][BLOCKS_OF_BYTES];
    draw_words(d, number, BLOCKS_OF_BYTES, word[0]);
    for (int w = 0; w < 4; w++)
        for (int k = 0; k < 4; k++)
            for (int b = 0; b < BLOCKS_OF_BYTES; b++)
                bytes[(4 * w + k) * BLOCKS_OF_BYTES + b] = (uint8_t)(word[w][b] >> 8 * k);
}

void codes_draw_bytes(const codes_draw *d, int64_t number, uint8_t bytes[CODES_DRAWN]) {
    draw_bytes(d, number, bytes);
}

/* ---- codes ---- */

VECTOR_CLONES static void encode_nearest(const float *restrict x, float inverse, int64_t n,
                                         int8_t *restrict codes) {
    for (int64_t i = 0; i < n; i++) codes[i] = (int8_t)codes_nearest(x[i], inverse);
}

VECTOR_CLONES static void encode_stochastic(const float *restrict x, float inverse,
                                            const uint16_t *restrict bits, int64_t n,
                                            int8_t *restrict codes) {
    for (int64_t i = 0; i < n; i++) codes[i] = (int8_t)codes_stochastic(x[i], inverse, bits[i]);
}

VECTOR_CLONES static void encode_each_nearest(const float *restrict x, const float *restrict inverse,
                                              int64_t n, int8_t *restrict codes) {
    for (int64_t i = 0; i < n; i++) codes[i] = (int8_t)codes_nearest(x[i], inverse[i]);
}

VECTOR_CLONES static void encode_each_stochastic(const float *restrict x, const float *restrict inverse,
                                                 const uint16_t *restrict bits, int64_t n,
                                                 int8_t *restrict codes) {
    for (int64_t i = 0; i < n; i++) codes[i] = (int8_t)codes_stochastic(x[i], inverse[i], bits[i]);
}

VECTOR_CLONES static void encode_each_coarse(const float *restrict x, const float *restrict inverse,
                                             const uint8_t *restrict bytes, int64_t n,
                                             int8_t *restrict codes) {
    for (int64_t i = 0; i < n; i++) codes[i] = (int8_t)codes_stochastic_coarse(x[i], inverse[i], bytes[i]);
}

void codes_encode_each_coarse(const float *x, const float *inverse, const uint8_t *bytes, int64_t n,
                              int8_t *codes) {
    encode_each_coarse(x, inverse, bytes, n, codes);
}

void codes_encode(const float *x, float inverse, const uint16_t *bits, int64_t n, int8_t *codes) {
    if (bits)
        encode_stochastic(x, inverse, bits, n, codes);
    else
        encode_nearest(x, inverse, n, codes);
}

void codes_encode_each(const float *x, const float *inverse, const uint16_t *bits, int64_t n, int8_t *codes) {
    if (bits)
        encode_each_stochastic(x, inverse, bits, n, codes);
    else
        encode_each_nearest(x, inverse, n, codes);
}

/* ---- a matrix in parts ---- */

enum { RUN = 256 };

/* Neighbours in a row, from element `at` on: how many there are up to its end, at most RUN. */
static int64_t run_at(const codes_matrix *m, int64_t at, int64_t left) {
    int64_t run = m->columns - at % m->columns;
    if (run > left) run = left;
    return run < RUN ? run : RUN;
}

/* Until all is seen the scales hold the largest sizes, as bits. */
void codes_matrix_look(const codes_matrix *m, const float *x, int64_t first, int64_t n) {
    int32_t largest[RUN];
    for (int64_t i = 0, run; i < n; i += run) {
        float *at = m->scales + (m->by_rows ? (first + i) / m->columns : (first + i) % m->columns);
        run = run_at(m, first + i, n - i);
        int64_t lanes = m->by_rows ? 1 : run;
        memcpy(largest, at, (size_t)lanes * sizeof *at);
        if (!m->by_rows)
            codes_largest_each(x + i, run, largest);
        else if (codes_largest(x + i, run) > largest[0])
            largest[0] = codes_largest(x + i, run);
        memcpy(at, largest, (size_t)lanes * sizeof *at);
    }
}

void codes_matrix_scale(const codes_matrix *m) {
    int64_t lanes = m->by_rows ? m->rows : m->columns;
    for (int64_t i = 0; i < lanes; i++) m->scales[i] = codes_scale(codes_size(m->scales[i]));
}

void codes_matrix_encode(const codes_matrix *m, const float *x, int64_t first, int64_t n, int8_t *codes) {
    float inverse[RUN];
    for (int64_t i = 0, run; i < n; i += run) {
        int64_t at = first + i;
        run = run_at(m, at, n - i);
        for (int64_t k = 0; k < run; k++)
            inverse[k] = codes_inverse(m->scales[m->by_rows ? at / m->columns : (at + k) % m->columns]);
        codes_encode_each(x + i, inverse, NULL, run, codes + i);
    }
}
