#include "ops/adamw/adamw_codes.h"

#include "base/half_avx512.h"
#include "base/philox_avx512.h"
#include "ops/adamw/adamw_avx512.h"
#include "ops/fast.h"
#include "ops/state_vectors_avx512.h"

#if defined(__x86_64__)

#define TARGET STATE_TARGET
#define INLINE inline __attribute__((always_inline))
enum { LANES = 16, VECTORS = STATE_VECTOR / LANES };

static bool is_read(dtype type) { return type == DTYPE_F32 || type == DTYPE_BF16; }

bool adamw_accepts_codes(const op_call *c) {
    return is_read(c->in[0].dtype) && is_read(c->in[1].dtype) && c->in[2].dtype == DTYPE_U8 &&
           c->in[3].dtype == DTYPE_U8 && state_vectors_usable();
}

/* Moments of a block, whose codes wait for its largest. */
typedef struct {
    _Alignas(64) float m[STATE_BLOCK], v[STATE_BLOCK];
    float m_inverse, v_inverse;
    uint8_t *m_codes, *v_codes;
} moments;

/* A whole block. While it is updated the one before is encoded. */
typedef struct {
    adamw_step step;
    const state_tables *of_m, *of_v;
    const void *w, *g;
    const uint8_t *m, *v;
    float m_scale, v_scale;
    void *w_out;
    moments *now, *before;     /* before: NULL where there is none */
    const half_random *random; /* NULL: weights are rounded to the nearest */
    const philox_keys *keys;
    int64_t element;      /* that the block begins with, of the whole weight */
    const uint16_t *bits; /* where that is amidst what is drawn at a time: all of the block; else NULL */
} block;

/* ---- STATE_VECTOR elements at a time ---- */

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

TARGET static INLINE __m512 load(const void *x, int64_t i, const dtype type) {
    if (type == DTYPE_F32) return _mm512_loadu_ps((const float *)x + i);
    const __m256i halves = _mm256_loadu_si256((const void *)((const uint16_t *)x + i));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

/* The larger size; of NaN and a number the number. */
TARGET static INLINE __m512 larger(__m512 x, __m512 size) {
    enum { LARGER_SIZE = 3, WITHOUT_SIGN = 2 << 2 };
    return _mm512_range_ps(x, size, LARGER_SIZE | WITHOUT_SIGN);
}

/* Random bits of the step's elements, drawn round by round beside other work. */
enum { PER_BLOCK = 8 }; /* of Philox */

TARGET static INLINE void draw_begin(const block *b, int64_t i, philox_lanes *l) {
    uint64_t number = (uint64_t)(b->element + i) / PER_BLOCK;
    const philox_block first = { { (uint32_t)number, (uint32_t)(number >> 32), b->random->key.step,
                                   b->random->stream } };
    philox_lanes_begin(l, &first, philox_lanes_woven());
}

TARGET static INLINE void draw_quarter(const block *b, const int quarter, philox_lanes *l) {
    const int begin = quarter * PHILOX_ROUNDS / VECTORS, end = (quarter + 1) * PHILOX_ROUNDS / VECTORS;
#pragma GCC unroll 3
    for (int r = begin; r < end; r++) philox_lanes_round(l, b->keys, r);
}

TARGET static INLINE void draw_end(const block *b, int64_t i, const philox_lanes *l, __m512i random[2]) {
    philox_lanes_weave(l, random);
    for (int k = 0; k < 2 && b->bits; k++) random[k] = _mm512_loadu_si512(b->bits + i + k * 2 * LANES);
}

TARGET static INLINE void store_weights(const block *b, int64_t i, const __m512 w[VECTORS], const dtype type,
                                        const bool drawn, const philox_lanes *l) {
    __m512i random[2];
    if (drawn) draw_end(b, i, l, random);
#pragma GCC unroll 4
    for (int k = 0; k < VECTORS; k++)
        if (type == DTYPE_F32) _mm512_storeu_ps((float *)b->w_out + i + k * LANES, w[k]);
#pragma GCC unroll 2
    for (int k = 0; k < VECTORS && type == DTYPE_BF16; k += 2)
        _mm512_storeu_si512((uint16_t *)b->w_out + i + k * LANES,
                            drawn ? half_bf16_drawn(w[k], w[k + 1], random[k / 2])
                                  : half_bf16_of_words(w[k], w[k + 1]));
}

/* What differs between blocks, as constants. */
typedef struct {
    dtype w, g;
    bool drawn, encodes;
} kind;

/* The largest sizes so far. */
typedef struct {
    __m512 m, v;
} sizes;

TARGET static INLINE void update_some(const block *b, int64_t i, const kind of, sizes *largest) {
    const moments *before = b->before;
    moments *now = b->now;
    __m512i m_codes[VECTORS], v_codes[VECTORS];
    __m512 w[VECTORS];
    philox_lanes random;
    fetch(b, i, of.w, of.g);
    state_vectors_decode_64(b->of_m, _mm512_loadu_si512(b->m + i), _mm512_set1_ps(b->m_scale), now->m + i);
    state_vectors_decode_64(b->of_v, _mm512_loadu_si512(b->v + i), _mm512_set1_ps(b->v_scale), now->v + i);
    if (of.drawn) draw_begin(b, i, &random);
#pragma GCC unroll 4
    for (int k = 0; k < VECTORS; k++) {
        const int64_t at = i + k * LANES;
        adamw_vector x = { load(b->w, at, of.w), _mm512_load_ps(now->m + at), _mm512_load_ps(now->v + at) };
        x = adamw_update_vector(&b->step, x, load(b->g, at, of.g));
        _mm512_store_ps(now->m + at, x.m), _mm512_store_ps(now->v + at, x.v);
        w[k] = x.w;
        largest->m = larger(x.m, largest->m), largest->v = larger(x.v, largest->v);
        if (of.drawn) draw_quarter(b, k, &random);
        if (!of.encodes) continue;
        m_codes[k] = state_vectors_codes(b->of_m, false, _mm512_load_ps(before->m + at),
                                         _mm512_set1_ps(before->m_inverse));
        v_codes[k] = state_vectors_codes(b->of_v, true, _mm512_load_ps(before->v + at),
                                         _mm512_set1_ps(before->v_inverse));
    }
    store_weights(b, i, w, of.w, of.drawn, &random);
    if (!of.encodes) return;
    _mm512_storeu_si512(before->m_codes + i, state_vectors_packed(m_codes));
    _mm512_storeu_si512(before->v_codes + i, state_vectors_packed(v_codes));
}

/* ---- blocks ---- */

TARGET static INLINE sizes update_typed(const block *b, const kind of) {
    sizes largest = { _mm512_setzero_ps(), _mm512_setzero_ps() };
    for (int64_t i = 0; i < STATE_BLOCK; i += STATE_VECTOR) update_some(b, i, of, &largest);
    return largest;
}

/* Updates the block, and says what its scales are. */
#define UPDATE(name, w_type, g_type, is_drawn)                                                               \
    TARGET static void name(const block *b, float scales[2]) {                                               \
        sizes s = b->before ? update_typed(b, (kind){ w_type, g_type, is_drawn, true })                      \
                            : update_typed(b, (kind){ w_type, g_type, is_drawn, false });                    \
        scales[0] = state_scale(_mm512_reduce_max_ps(s.m));                                                  \
        scales[1] = state_scale(_mm512_reduce_max_ps(s.v));                                                  \
    }
UPDATE(update_f32, DTYPE_F32, DTYPE_F32, false)
UPDATE(update_f32_bf16, DTYPE_F32, DTYPE_BF16, false)
UPDATE(update_bf16_f32, DTYPE_BF16, DTYPE_F32, false)
UPDATE(update_bf16, DTYPE_BF16, DTYPE_BF16, false)
UPDATE(update_drawn_f32, DTYPE_BF16, DTYPE_F32, true)
UPDATE(update_drawn, DTYPE_BF16, DTYPE_BF16, true)

static void update(const block *b, dtype w, dtype g, float scales[2]) {
    if (w == DTYPE_F32)
        (g == DTYPE_F32 ? update_f32 : update_f32_bf16)(b, scales);
    else if (b->random)
        (g == DTYPE_F32 ? update_drawn_f32 : update_drawn)(b, scales);
    else
        (g == DTYPE_F32 ? update_bf16_f32 : update_bf16)(b, scales);
}

static void encode(const moments *x) {
    state_vectors_encode(false, x->m, x->m_inverse, STATE_BLOCK, x->m_codes);
    state_vectors_encode(true, x->v, x->v_inverse, STATE_BLOCK, x->v_codes);
}

/* ---- a call ---- */

typedef struct {
    const op_call *call;
    block of; /* what its blocks have in common */
    half_random random;
    philox_keys keys;
} work;

/* The block from element `first` on. */
static block block_at(const work *j, int64_t first) {
    const op_call *c = j->call;
    block b = j->of;
    b.w = fast_at(c->in[0].data, first, c->in[0].dtype), b.g = fast_at(c->in[1].data, first, c->in[1].dtype);
    b.m = (const uint8_t *)c->in[2].data + first, b.v = (const uint8_t *)c->in[3].data + first;
    b.m_scale = ((const float *)c->in[8].data)[first / STATE_BLOCK];
    b.v_scale = ((const float *)c->in[9].data)[first / STATE_BLOCK];
    b.w_out = (char *)c->out[0].data + first * fast_bytes(c->out[0].dtype);
    b.element = c->first + first;
    return b;
}

static void run_block(const work *j, block *b, int64_t first) {
    const op_call *c = j->call;
    uint16_t bits[STATE_BLOCK];
    float scales[2];
    if (b->random && b->element % STATE_VECTOR) {
        half_draw(b->random, b->element, STATE_BLOCK, bits);
        b->bits = bits;
    }
    update(b, c->in[0].dtype, c->in[1].dtype, scales);
    ((float *)c->out[3].data)[first / STATE_BLOCK] = scales[0];
    ((float *)c->out[4].data)[first / STATE_BLOCK] = scales[1];
    b->now->m_inverse = state_inverse(scales[0]), b->now->v_inverse = state_inverse(scales[1]);
}

/* The last n elements: behind them come zeros, which stay what they are. */
static void run_rest(const work *j, int64_t first, int64_t n, moments *now) {
    const op_call *c = j->call;
    float w[STATE_BLOCK] = { 0 }, g[STATE_BLOCK] = { 0 };
    uint8_t m[STATE_BLOCK], v[STATE_BLOCK];
    const size_t count = (size_t)n, of_w = (size_t)fast_bytes(c->in[0].dtype) * count;
    block b = block_at(j, first);
    void *w_out = b.w_out;
    memcpy(w, b.w, of_w), memcpy(g, b.g, (size_t)fast_bytes(c->in[1].dtype) * count);
    memset(m, STATE_ZERO, sizeof m), memset(v, 0, sizeof v);
    memcpy(m, b.m, count), memcpy(v, b.v, count);
    b.w = b.w_out = w, b.g = g, b.m = m, b.v = v, b.now = now, b.before = NULL;
    now->m_codes = m, now->v_codes = v;
    run_block(j, &b, first);
    encode(now);
    memcpy(w_out, w, of_w);
    memcpy((uint8_t *)c->out[1].data + first, m, count);
    memcpy((uint8_t *)c->out[2].data + first, v, count);
}

static void run_piece(void *context, int64_t piece, int thread) {
    const work *j = context;
    const op_call *c = j->call;
    int64_t n = shape_elements(&c->out[0].shape), first = piece * FAST_PIECE, last = first + FAST_PIECE;
    moments both[2], *before = NULL;
    (void)thread;
    if (last > n) last = n;
    for (; first + STATE_BLOCK <= last; first += STATE_BLOCK) {
        block b = block_at(j, first);
        b.now = before == both ? both + 1 : both, b.before = before;
        b.now->m_codes = (uint8_t *)c->out[1].data + first;
        b.now->v_codes = (uint8_t *)c->out[2].data + first;
        run_block(j, &b, first);
        before = b.now;
    }
    if (before) encode(before);
    if (first < last) run_rest(j, first, last - first, both);
}

_Static_assert(FAST_PIECE % STATE_BLOCK == 0, "pieces have whole blocks");

void adamw_run_codes(const op_call *c) {
    work j = { .call = c };
    j.of.step = adamw_step_of(c->attributes, *(const float *)c->in[4].data, *(const int32_t *)c->in[5].data,
                              fast_number(op_in(c, 6), 1));
    j.of.of_m = state_vectors_tables(false), j.of.of_v = state_vectors_tables(true);
    if (c->in[0].dtype == DTYPE_BF16 && state_rounding(c, &op_adamw, 0, &j.random)) {
        j.keys = philox_keys_of((uint64_t)j.random.key.seed_high << 32 | j.random.key.seed_low);
        j.of.random = &j.random, j.of.keys = &j.keys;
    }
    threads_for((shape_elements(&c->out[0].shape) + FAST_PIECE - 1) / FAST_PIECE, run_piece, &j);
}

#else
bool adamw_accepts_codes(const op_call *c) {
    (void)c;
    return false;
}
void adamw_run_codes(const op_call *c) { (void)c; }
#endif
