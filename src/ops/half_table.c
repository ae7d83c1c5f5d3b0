#include "ops/half_table.h"

#include "base/instructions.h"

static bool is_looked_up(dtype type, int64_t elements) {
    if (type == DTYPE_BF16) return elements >= HALF_TABLE_LEAST_BF16;
    return type == DTYPE_F16 && elements >= HALF_TABLE_LEAST_F16;
}

bool half_table_accepts(const op_call *c) {
    dtype type = c->in[0].dtype;
    return is_looked_up(type, shape_elements(&c->out[0].shape)) && fast_is_all(c, type);
}

double half_table_flops(const graph *g, const node *n, double flops) {
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    return is_looked_up((dtype)x->dtype, shape_elements(&x->shape)) ? flops / 2 : flops;
}

/* ---- places in the table ---- */

/* Those of f16 are the numbers themselves. Of bf16 place 0 is that of zero, then come the numbers from
 * SMALLEST on; those with a sign stand MINUS further. */
enum {
    PLACES_F16 = 1 << 16,
    PLACES_BF16 = 8192,
    MINUS = PLACES_BF16 / 2,
    SMALLEST = (127 - 23) << 7,
    NUMBERS = 31 << 7,
    PART = 1024 /* elements at a time; the table's size is a multiple of it */
};

static int places_of(const op_call *c) { return c->in[0].dtype == DTYPE_F16 ? PLACES_F16 : PLACES_BF16; }

static float number_at(dtype type, int place) {
    if (type == DTYPE_F16) return half_from_f16((uint16_t)place);
    int size = place % MINUS;
    return half_from_bf16((uint16_t)((size ? SMALLEST + size - 1 : 0) | (place / MINUS) << 15));
}

/* Places of n numbers of bf16; false: one of them has none. */
VECTOR_CLONES static bool find_places(const uint16_t *restrict x, int64_t n, uint16_t *restrict place) {
    uint16_t lost = 0;
    for (int64_t i = 0; i < n; i++) {
        uint16_t size = x[i] & 0x7fff, from = (uint16_t)(size - SMALLEST);
        uint16_t inside = from < NUMBERS ? 0xffff : 0;
        place[i] = (uint16_t)(((from + 1) & inside) | (x[i] >> 3 & MINUS));
        lost |= (uint16_t)(size & ~inside);
    }
    return lost == 0;
}

/* ---- filling ---- */

/* Of a map the results as they are stored. Of a product f32: with the other operands 1, what they are to be
 * multiplied with. Of gradients f32, those of both outputs side by side. */
enum { MOST_IN = 3, MOST_OUT = 2, MORE = 64 /* bytes behind it that are read along */ };

uint64_t half_table_map_scratch(const op_call *c, int threads) {
    (void)threads;
    return (uint64_t)places_of(c) * sizeof(uint16_t) + MORE;
}

uint64_t half_table_product_scratch(const op_call *c, int threads) {
    (void)threads;
    return (uint64_t)places_of(c) * sizeof(float);
}

uint64_t half_table_gradients_scratch(const op_call *c, int threads) {
    (void)threads;
    return (uint64_t)places_of(c) * 2 * sizeof(float);
}

typedef struct {
    const op_call *call;
    fast_body wide;
} work;

/* The f32 kernel's outputs for the numbers of PART places. */
static void compute_part(const work *w, int first, float out[MOST_OUT][PART]) {
    float x[PART], ones[PART];
    op_arg in[MOST_IN], to[MOST_OUT];
    op_call wide = *w->call;
    for (int i = 0; i < PART; i++) x[i] = number_at(w->call->in[0].dtype, first + i), ones[i] = 1;
    wide.in = in, wide.out = to;
    for (uint32_t i = 0; i < wide.in_count; i++) in[i] = (op_arg){ i ? ones : x, SHAPE(PART), DTYPE_F32 };
    for (uint32_t o = 0; o < wide.out_count; o++) to[o] = (op_arg){ out[o], SHAPE(PART), DTYPE_F32 };
    w->wide(&wide, 0, PART);
}

static void fill_narrow(void *context, int64_t part, int thread) {
    const work *w = context;
    float out[MOST_OUT][PART];
    (void)thread;
    compute_part(w, (int)part * PART, out);
    half_narrow(w->call->out[0].dtype, out[0], PART, (uint16_t *)w->call->scratch + part * PART);
}

static void fill_wide(void *context, int64_t part, int thread) {
    const work *w = context;
    int outputs = w->call->out_count;
    float out[MOST_OUT][PART], *table = (float *)w->call->scratch + part * PART * outputs;
    (void)thread;
    compute_part(w, (int)part * PART, out);
    for (int i = 0; i < PART; i++)
        for (int o = 0; o < outputs; o++) table[i * outputs + o] = out[o][i];
}

/* ---- looking up: elements first .. first + n - 1, whose places are found ---- */

typedef void lookup(const op_call *c, const uint16_t *place, int64_t first, int64_t n);

static void map_plain(const op_call *c, const uint16_t *place, int64_t first, int64_t n) {
    const uint16_t *table = c->scratch;
    uint16_t *y = (uint16_t *)c->out[0].data + first;
    for (int64_t i = 0; i < n; i++) y[i] = table[place[i]];
}

VECTOR_INLINE void product_typed(const op_call *c, const uint16_t *place, int64_t first, int64_t n,
                                 const dtype type) {
    const void *other = fast_at(c->in[1].data, first, type);
    const float *table = c->scratch;
    uint16_t *y = (uint16_t *)c->out[0].data + first;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) fast_put(y, i, fast_get(other, i, type) * table[place[i]], type);
}

VECTOR_INLINE void gradients_typed(const op_call *c, const uint16_t *place, int64_t first, int64_t n,
                                   const dtype type) {
    const void *other = fast_at(c->in[1].data, first, type), *dy = fast_at(c->in[2].data, first, type);
    const float *table = c->scratch;
    uint16_t *dx = (uint16_t *)c->out[0].data + first, *dother = (uint16_t *)c->out[1].data + first;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) {
        float d = fast_get(dy, i, type), by_x = d * fast_get(other, i, type) * table[2 * place[i]];
        fast_put(dother, i, d * table[2 * place[i] + 1], type);
        fast_put(dx, i, by_x, type);
    }
}

#define PLAIN(name, body, type)                                                                              \
    VECTOR_CLONES static void name(const op_call *c, const uint16_t *place, int64_t first, int64_t n) {      \
        body(c, place, first, n, type);                                                                      \
    }
PLAIN(product_plain_bf16, product_typed, DTYPE_BF16)
PLAIN(product_plain_f16, product_typed, DTYPE_F16)
PLAIN(gradients_plain_bf16, gradients_typed, DTYPE_BF16)
PLAIN(gradients_plain_f16, gradients_typed, DTYPE_F16)

static void product_plain(const op_call *c, const uint16_t *place, int64_t first, int64_t n) {
    (c->in[0].dtype == DTYPE_F16 ? product_plain_f16 : product_plain_bf16)(c, place, first, n);
}

static void gradients_plain(const op_call *c, const uint16_t *place, int64_t first, int64_t n) {
    (c->in[0].dtype == DTYPE_F16 ? gradients_plain_f16 : gradients_plain_bf16)(c, place, first, n);
}

/* ---- the same by vectors ---- */

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl")))
#define INLINE inline __attribute__((always_inline))
enum { LANES = 16 };

/* On AMD's processors the instructions that look up some numbers at once are slow. */
static bool by_vectors(void) { return instructions_usable(INSTRUCTIONS_AVX512) && __builtin_cpu_is("intel"); }

TARGET static INLINE __m512i words_at(const uint16_t *x) {
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)x));
}

TARGET static INLINE __m512 wide_at(const uint16_t *x, const dtype type) {
    if (type == DTYPE_F16) return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)x));
    return _mm512_castsi512_ps(_mm512_slli_epi32(words_at(x), 16));
}

/* Sixteen numbers, bf16 as half_to_bf16 has them. */
TARGET static INLINE void put(uint16_t *y, __m512 x, const dtype type) {
    if (type == DTYPE_F16) {
        _mm256_storeu_si256((void *)y, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
        return;
    }
    __m512i bits = _mm512_castps_si512(x);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    rounded = _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000));
    _mm256_storeu_si256((void *)y, _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
}

/* Words at even places and those at odd ones are looked up apart. */
TARGET static void map_vectors(const op_call *c, const uint16_t *place, int64_t first, int64_t n) {
    uint16_t *y = (uint16_t *)c->out[0].data + first;
    const uint16_t *table = c->scratch;
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        __m512i two = _mm512_loadu_si512(place + i);
        __m512i even = _mm512_i32gather_epi32(_mm512_and_si512(two, _mm512_set1_epi32(0xffff)), table, 2);
        __m512i odd = _mm512_i32gather_epi32(_mm512_srli_epi32(two, 16), table, 2);
        _mm512_storeu_si512(y + i, _mm512_mask_blend_epi16(0xaaaaaaaa, even, _mm512_slli_epi32(odd, 16)));
    }
    map_plain(c, place + i, first + i, n - i);
}

TARGET static INLINE void product_wide(const op_call *c, const uint16_t *place, int64_t first, int64_t n,
                                       const dtype type) {
    const uint16_t *other = (const uint16_t *)c->in[1].data + first;
    uint16_t *y = (uint16_t *)c->out[0].data + first;
    const float *table = c->scratch;
    for (int64_t i = 0; i < n; i += LANES) {
        __m512 by = _mm512_i32gather_ps(words_at(place + i), table, 4);
        put(y + i, _mm512_mul_ps(wide_at(other + i, type), by), type);
    }
}

TARGET static INLINE void gradients_wide(const op_call *c, const uint16_t *place, int64_t first, int64_t n,
                                         const dtype type) {
    const uint16_t *other = (const uint16_t *)c->in[1].data + first;
    const uint16_t *dy = (const uint16_t *)c->in[2].data + first;
    uint16_t *dx = (uint16_t *)c->out[0].data + first, *dother = (uint16_t *)c->out[1].data + first;
    const float *table = c->scratch;
    for (int64_t i = 0; i < n; i += LANES) {
        __m512i at = words_at(place + i);
        __m512 slope = _mm512_i32gather_ps(at, table, 8), value = _mm512_i32gather_ps(at, table + 1, 8);
        __m512 d = wide_at(dy + i, type),
               by_x = _mm512_mul_ps(_mm512_mul_ps(d, wide_at(other + i, type)), slope);
        put(dother + i, _mm512_mul_ps(d, value), type);
        put(dx + i, by_x, type);
    }
}

#define VECTORS(name, body, plain)                                                                           \
    TARGET static void name(const op_call *c, const uint16_t *place, int64_t first, int64_t n) {             \
        int64_t whole = n / LANES * LANES;                                                                   \
        if (c->in[0].dtype == DTYPE_F16)                                                                     \
            body(c, place, first, whole, DTYPE_F16);                                                         \
        else                                                                                                 \
            body(c, place, first, whole, DTYPE_BF16);                                                        \
        plain(c, place + whole, first + whole, n - whole);                                                   \
    }
VECTORS(product_vectors, product_wide, product_plain)
VECTORS(gradients_vectors, gradients_wide, gradients_plain)
#else
static bool by_vectors(void) { return false; }
#define map_vectors map_plain
#define product_vectors product_plain
#define gradients_vectors gradients_plain
#endif

/* ---- calls ---- */

typedef struct {
    const op_call *call;
    fast_body direct;
    lookup *look_up;
} pieces;

static void run_piece(void *context, int64_t piece, int thread) {
    const pieces *p = context;
    int64_t n = shape_elements(&p->call->out[0].shape), first = piece * FAST_PIECE, last = first + FAST_PIECE;
    const uint16_t *x = p->call->in[0].data;
    uint16_t place[PART];
    (void)thread;
    if (last > n) last = n;
    for (; first < last; first += PART) {
        int64_t count = last - first < PART ? last - first : PART;
        if (p->call->in[0].dtype == DTYPE_F16)
            p->look_up(p->call, x + first, first, count);
        else if (find_places(x + first, count, place))
            p->look_up(p->call, place, first, count);
        else
            p->direct(p->call, first, first + count);
    }
}

static void run(const op_call *c, half_table_bodies of, threads_body fill, lookup *look_up) {
    pieces p = { c, of.direct, look_up };
    threads_for(places_of(c) / PART, fill, &(work){ c, of.wide });
    threads_for((shape_elements(&c->out[0].shape) + FAST_PIECE - 1) / FAST_PIECE, run_piece, &p);
}

void half_table_map(const op_call *c, half_table_bodies of) {
    run(c, of, fill_narrow, by_vectors() ? map_vectors : map_plain);
}

void half_table_product(const op_call *c, half_table_bodies of) {
    run(c, of, fill_wide, by_vectors() ? product_vectors : product_plain);
}

void half_table_gradients(const op_call *c, half_table_bodies of) {
    run(c, of, fill_wide, by_vectors() ? gradients_vectors : gradients_plain);
}
