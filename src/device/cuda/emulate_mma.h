/* Twins of the instructions in mma.h. What reads and writes memory stands here, so that who watches each
 * access sees it (emulate_watch.h); the rest is in emulate_mma.cpp. */
#pragma once

#include "base/half.h"
#include "device/cuda/emulate.h"

namespace emulate {
typedef uint16_t eight __attribute__((vector_size(16), may_alias));

/* d += a b by a warp; `wide` are the numbers of 16 bits in f32. */
void mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], float (*wide)(uint16_t), site at);

/* The same of floats of 8 bits: a has so many bits of exponent, b four. */
void mma_floats(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], int exponent_bits, site at);

/* The same of codes of 8 bits. */
void mma_codes(int32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], site at);

/* A copy that this thread has begun, and that lands at a wait. */
struct copy {
    eight *to;
    eight bytes;
    unsigned group;
};
void copy_begins(const copy &c);
void copies_commit();
/* The oldest of this thread's that is in none of the `left` youngest groups; false: there is none. */
bool copy_lands(unsigned left, copy *c);

/* The running thread wrote sixteen bytes, of shared memory or elsewhere: tensor cores that read shared memory
 * by themselves haven't seen it yet (emulate_mma_group.h). */
void shared_written(const void *at);

/* What a float of 8 bits stands for, by its code; so many bits of exponent. */
const double *small_floats_of(int exponent_bits);
} // namespace emulate

inline void gpu_mma(gpu_bf16, float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], EMULATE_SITE) {
    emulate::mma(d, a, b, half_from_bf16, { "mma", file, line });
}
inline void gpu_mma(gpu_f16, float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], EMULATE_SITE) {
    emulate::mma(d, a, b, half_from_f16, { "mma", file, line });
}

inline void gpu_mma(gpu_e4m3, float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], EMULATE_SITE) {
    emulate::mma_floats(d, a, b, 4, { "mma", file, line });
}
inline void gpu_mma(gpu_e5m2, float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], EMULATE_SITE) {
    emulate::mma_floats(d, a, b, 5, { "mma", file, line });
}

inline void gpu_mma_codes(int32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], EMULATE_SITE) {
    emulate::mma_codes(d, a, b, { "mma", file, line });
}

/* The number of the m-th matrix at this row and column, of rows as their lanes gave them. */
inline uint32_t emulate_matrix_at(const unsigned char *rows, int m, unsigned row, unsigned column) {
    uint16_t bits;
    memcpy(&bits, rows + (8 * (unsigned)m + row) * emulate::SLOT + column * sizeof bits, sizeof bits);
    return bits;
}
inline void gpu_ldmatrix(uint32_t (&r)[4], const void *row, EMULATE_SITE) {
    emulate::eight mine = *emulate::wide<emulate::eight>((void *)row);
    const unsigned char *rows = emulate::exchange(~0u, &mine, sizeof mine, { "ldmatrix", file, line });
    unsigned g = emulate::here.lane / 4, t = emulate::here.lane % 4;
    for (int m = 0; m < 4; m++)
        r[m] = emulate_matrix_at(rows, m, g, 2 * t) | emulate_matrix_at(rows, m, g, 2 * t + 1) << 16;
}
inline void gpu_ldmatrix_across(uint32_t (&r)[4], const void *row, EMULATE_SITE) {
    emulate::eight mine = *emulate::wide<emulate::eight>((void *)row);
    const unsigned char *rows = emulate::exchange(~0u, &mine, sizeof mine, { "ldmatrix.trans", file, line });
    unsigned g = emulate::here.lane / 4, t = emulate::here.lane % 4;
    for (int m = 0; m < 4; m++)
        r[m] = emulate_matrix_at(rows, m, 2 * t, g) | emulate_matrix_at(rows, m, 2 * t + 1, g) << 16;
}

/* The first bytes of `from`, two of them in an access, but the last of an odd number. */
inline void emulate_some_of(emulate::eight &to, const void *from, int bytes) {
    bool pairs = (uintptr_t)from % 2 == 0;
    for (int i = 0; i < bytes; i += 2) {
        const unsigned char *at = (const unsigned char *)from + i;
        if (pairs && i + 1 < bytes)
            to[i / 2] = *(const uint16_t *)at;
        else
            to[i / 2] = (uint16_t)(at[0] | (i + 1 < bytes ? at[1] << 8 : 0));
    }
}

/* Until it lands its place is NaN: a wait or a barrier that is missing shows. */
inline void gpu_copy16(void *shared, const void *from, int bytes) {
    emulate::copy c = { emulate::wide<emulate::eight>(shared), {}, 0 };
    if (bytes == 16)
        c.bytes = *emulate::wide<emulate::eight>((void *)from);
    else
        emulate_some_of(c.bytes, from, bytes);
    *c.to = emulate::eight{} - 1;
    emulate::copy_begins(c);
}
inline void gpu_copies_commit() { emulate::copies_commit(); }
template <int LEFT>
inline void gpu_copies_wait() {
    emulate::copy c;
    while (emulate::copy_lands(LEFT, &c)) {
        emulate::aside(true);
        *c.to = c.bytes;
        emulate::aside(false);
        emulate::shared_written(c.to);
    }
}

struct gpu_bytes {
    emulate::eight x;
};
inline gpu_bytes gpu_bytes_read(const void *at, int bytes) {
    gpu_bytes e = {};
    emulate_some_of(e.x, at, bytes < 16 ? bytes : 16);
    return e;
}
inline void gpu_bytes_words(const gpu_bytes &e, int, uint32_t (&w)[4]) { memcpy(w, &e.x, sizeof w); }
inline void gpu_set16(void *at, const uint32_t (&w)[4]) {
    emulate::eight all;
    memcpy(&all, w, sizeof all);
    *emulate::wide<emulate::eight>(at) = all;
    emulate::shared_written(at);
}
inline void gpu_get16(const void *at, uint32_t (&w)[4]) {
    emulate::eight all = *emulate::wide<emulate::eight>((void *)at);
    memcpy(w, &all, sizeof all);
}

/* Rounded once, if the C library's is. */
inline float gpu_exp2(float x) {
    float y = (float)exp2((double)x);
    return y < 0x1p-126f ? 0.0f : y;
}

inline uint32_t gpu_pack(gpu_bf16, float low, float high) {
    return half_to_bf16(low) | (uint32_t)half_to_bf16(high) << 16;
}
inline uint32_t gpu_pack(gpu_f16, float low, float high) {
    return half_to_f16(low) | (uint32_t)half_to_f16(high) << 16;
}
