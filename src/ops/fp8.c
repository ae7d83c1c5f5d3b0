#include "ops/fp8.h"

/* The form is a constant in each of these loops. */
VECTOR_INLINE void encode(fp8_form form, const float *restrict x, float inverse, int64_t n,
                          uint8_t *restrict codes) {
    for (int64_t i = 0; i < n; i++) codes[i] = fp8_encode(form, x[i] * inverse);
}

VECTOR_CLONES static void encode_e4m3(const float *x, float inverse, int64_t n, uint8_t *codes) {
    encode(FP8_E4M3, x, inverse, n, codes);
}

VECTOR_CLONES static void encode_e5m2(const float *x, float inverse, int64_t n, uint8_t *codes) {
    encode(FP8_E5M2, x, inverse, n, codes);
}

void fp8_encode_run(fp8_form form, const float *x, uint8_t scale, int64_t n, uint8_t *codes) {
    (form == FP8_E4M3 ? encode_e4m3 : encode_e5m2)(x, fp8_inverse(scale), n, codes);
}

VECTOR_INLINE void decode(fp8_form form, const uint8_t *restrict codes, float scale, int64_t n,
                          float *restrict x) {
    for (int64_t i = 0; i < n; i++) x[i] = fp8_decode(form, codes[i]) * scale;
}

VECTOR_CLONES static void decode_e4m3(const uint8_t *codes, float scale, int64_t n, float *x) {
    decode(FP8_E4M3, codes, scale, n, x);
}

VECTOR_CLONES static void decode_e5m2(const uint8_t *codes, float scale, int64_t n, float *x) {
    decode(FP8_E5M2, codes, scale, n, x);
}

void fp8_decode_run(fp8_form form, const uint8_t *codes, uint8_t scale, int64_t n, float *x) {
    (form == FP8_E4M3 ? decode_e4m3 : decode_e5m2)(codes, fp8_scale_value(scale), n, x);
}

VECTOR_INLINE void decode_narrow(fp8_form form, const uint8_t *restrict codes, float scale, int64_t n,
                                 uint16_t *restrict x) {
    for (int64_t i = 0; i < n; i++) x[i] = half_to_bf16(fp8_decode(form, codes[i]) * scale);
}

VECTOR_CLONES static void narrow_e4m3(const uint8_t *codes, float scale, int64_t n, uint16_t *x) {
    decode_narrow(FP8_E4M3, codes, scale, n, x);
}

VECTOR_CLONES static void narrow_e5m2(const uint8_t *codes, float scale, int64_t n, uint16_t *x) {
    decode_narrow(FP8_E5M2, codes, scale, n, x);
}

void fp8_decode_bf16(fp8_form form, const uint8_t *codes, uint8_t scale, int64_t n, uint16_t *x) {
    (form == FP8_E4M3 ? narrow_e4m3 : narrow_e5m2)(codes, fp8_scale_value(scale), n, x);
}
