/* Codes of 8 bits for optimizer state, 64 at a time by AVX-512 and its byte permutations (VBMI): the codes
 * and numbers of ops/state_math.h, bit for bit. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { STATE_VECTOR = 64 }; /* codes that are read or written at a time */

/* Has the processor what these take, and may it be used? Else they must not be called. */
bool state_vectors_usable(void);

/* x[i] = scale times the value of codes[i]. n is a multiple of STATE_VECTOR. */
void state_vectors_decode(bool positive, const uint8_t *codes, float scale, int64_t n, float *x);

/* The nearest codes of x[i] * inverse, whose size is at most 1 and some rounding, or NaN. n as above. */
void state_vectors_encode(bool positive, const float *x, float inverse, int64_t n, uint8_t *codes);
