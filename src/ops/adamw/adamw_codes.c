#include "ops/adamw/adamw_codes.h"

#include "ops/adamw/adamw_math.h"
#include "ops/fast.h"
#include "ops/state_math.h"
#include "ops/state_vectors_avx512.h"

static bool is_read(dtype type) { return type == DTYPE_F32 || type == DTYPE_BF16; }

bool adamw_accepts_codes(const op_call *c) {
    return is_read(c->in[0].dtype) && is_read(c->in[1].dtype) && c->in[2].dtype == DTYPE_U8 &&
           c->in[3].dtype == DTYPE_U8 && state_vectors_usable();
}

#if defined(__x86_64__)

/* A block: what is read, and where it goes in f32. */
typedef struct {
    const void *w, *g;
    const uint8_t *m, *v;
    float m_scale, v_scale;
    float *w_out, *m_out, *v_out;
    int64_t n;
} block;

VECTOR_INLINE void update_range(const adamw_step *f, const block *b, int64_t first, const int64_t n,
                                const dtype w_type, const dtype g_type) {
#pragma GCC ivdep
    for (int64_t i = first; i < first + n; i++) {
        adamw_element x = { fast_get(b->w, i, w_type), b->m_out[i], b->v_out[i] };
        x = adamw_update(f, x, fast_get(b->g, i, g_type));
        b->w_out[i] = x.w, b->m_out[i] = x.m, b->v_out[i] = x.v;
    }
}

/* Asks for what comes a block later. */
VECTOR_INLINE void fetch(const block *b, int64_t i, const dtype w_type, const dtype g_type) {
    enum { LINE = 64 };
    __builtin_prefetch(b->m + i + STATE_BLOCK);
    __builtin_prefetch(b->v + i + STATE_BLOCK);
    for (int64_t k = 0; k < STATE_VECTOR * fast_bytes(w_type); k += LINE)
        __builtin_prefetch((const char *)fast_at(b->w, i + STATE_BLOCK, w_type) + k);
    for (int64_t k = 0; k < STATE_VECTOR * fast_bytes(g_type); k += LINE)
        __builtin_prefetch((const char *)fast_at(b->g, i + STATE_BLOCK, g_type) + k);
}

STATE_TARGET static inline __attribute__((always_inline)) void
update_typed(const adamw_step *given, const block *b, const dtype w_type, const dtype g_type) {
    const adamw_step f = *given;
    const uint8_t *m_bytes = state_vectors_bytes(false), *v_bytes = state_vectors_bytes(true);
    const __m512 m_scale = _mm512_set1_ps(b->m_scale), v_scale = _mm512_set1_ps(b->v_scale);
    int64_t i = 0;
    for (; i + STATE_VECTOR <= b->n; i += STATE_VECTOR) {
        fetch(b, i, w_type, g_type);
        state_vectors_decode_64(m_bytes, _mm512_loadu_si512(b->m + i), m_scale, b->m_out + i);
        state_vectors_decode_64(v_bytes, _mm512_loadu_si512(b->v + i), v_scale, b->v_out + i);
        update_range(&f, b, i, STATE_VECTOR, w_type, g_type);
    }
    for (int64_t k = i; k < b->n; k++) {
        b->m_out[k] = b->m_scale * state_decoded(b->m[k], false);
        b->v_out[k] = b->v_scale * state_decoded(b->v[k], true);
    }
    update_range(&f, b, i, b->n - i, w_type, g_type);
}

#define UPDATE(name, w_type, g_type)                                                                         \
    STATE_TARGET static void name(const adamw_step *f, const block *b) { update_typed(f, b, w_type, g_type); }
UPDATE(update_f32, DTYPE_F32, DTYPE_F32)
UPDATE(update_f32_bf16, DTYPE_F32, DTYPE_BF16)
UPDATE(update_bf16_f32, DTYPE_BF16, DTYPE_F32)
UPDATE(update_bf16, DTYPE_BF16, DTYPE_BF16)

static void update(const adamw_step *f, const block *b, dtype w_type, dtype g_type) {
    if (w_type == DTYPE_F32)
        (g_type == DTYPE_F32 ? update_f32 : update_f32_bf16)(f, b);
    else
        (g_type == DTYPE_F32 ? update_bf16_f32 : update_bf16)(f, b);
}

static void run_block(const op_call *c, const adamw_step *f, int64_t first, int64_t n) {
    float w[STATE_BLOCK], m[STATE_BLOCK], v[STATE_BLOCK];
    bool wide = c->out[0].dtype == DTYPE_F32;
    block b = { .w = fast_at(c->in[0].data, first, c->in[0].dtype),
                .g = fast_at(c->in[1].data, first, c->in[1].dtype),
                .m = (const uint8_t *)c->in[2].data + first,
                .v = (const uint8_t *)c->in[3].data + first,
                .m_scale = ((const float *)c->in[8].data)[first / STATE_BLOCK],
                .v_scale = ((const float *)c->in[9].data)[first / STATE_BLOCK],
                .w_out = wide ? (float *)c->out[0].data + first : w,
                .m_out = m,
                .v_out = v,
                .n = n };
    update(f, &b, c->in[0].dtype, c->in[1].dtype);
    if (!wide) state_store_half(c, &op_adamw, 0, first, n, w);
    state_store_codes(c, &op_adamw, 1, first, n, m);
    state_store_codes(c, &op_adamw, 2, first, n, v);
}

static void piece(const op_call *c, int64_t first, int64_t last) {
    adamw_step f = adamw_step_of(c->attributes, *(const float *)c->in[4].data,
                                 *(const int32_t *)c->in[5].data, fast_number(op_in(c, 6), 1));
    for (int64_t i = first; i < last; i += STATE_BLOCK)
        run_block(c, &f, i, last - i < STATE_BLOCK ? last - i : STATE_BLOCK);
}

void adamw_run_codes(const op_call *c) { fast_for_elements(c, piece); }

#else
void adamw_run_codes(const op_call *c) { (void)c; }
#endif
