#include "ops/nf4.h"

#include <math.h>

#include "ops/vector_math.h"

const float nf4_value[NF4_CODES] = NF4_VALUES;

/* ---- encoding ---- */

/* How many of the middles between two values lie below. */
static uint8_t code_of(float x) {
    int code = 0;
    for (int i = 0; i + 1 < NF4_CODES; i++) code += x > 0.5f * (nf4_value[i] + nf4_value[i + 1]);
    return (uint8_t)code;
}

static float largest(const float *x, int64_t n) {
    float most = 0;
    for (int64_t i = 0; i < n; i++) most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    return most;
}

void nf4_encode_row(const float *x, int64_t columns, uint8_t *codes, float *scales) {
    for (int64_t first = 0; first < columns; first += NF4_BLOCK) {
        int64_t n = columns - first < NF4_BLOCK ? columns - first : NF4_BLOCK;
        float scale = scales[first / NF4_BLOCK] = largest(x + first, n);
        for (int64_t i = first; i < first + n; i += 2) {
            uint8_t low = code_of(scale > 0 ? x[i] / scale : 0),
                    high = code_of(scale > 0 ? x[i + 1] / scale : 0);
            codes[i / 2] = (uint8_t)(low | high << 4);
        }
    }
}

/* ---- decoding ---- */

/* Within one block. */
VECTOR_INLINE void decode_part(const uint8_t *codes, float scale, int64_t n, float *x) {
    for (int64_t i = 0; i < n / 2; i++) {
        x[2 * i] = nf4_value[codes[i] & 15] * scale;
        x[2 * i + 1] = nf4_value[codes[i] >> 4] * scale;
    }
}

VECTOR_CLONES static void decode(const uint8_t *codes, const float *scales, int64_t first, int64_t n,
                                 float *x) {
    for (int64_t at = first, end = first + n; at < end;) {
        int64_t block = at / NF4_BLOCK, part = (block + 1) * NF4_BLOCK - at;
        if (part > end - at) part = end - at;
        decode_part(codes + at / 2, scales[block], part, x + (at - first));
        at += part;
    }
}

void nf4_decode(const uint8_t *codes, const float *scales, int64_t first, int64_t n, float *x) {
    decode(codes, scales, first, n, x);
}
