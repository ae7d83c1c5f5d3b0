/* Optimizer state of 8 bits: its values and codes against the paper's definition (tools/goldens.py computes
 * it apart from this code), state that drifts by less at a time than codes are apart, and the instructions
 * that read and write many codes at a time against the formulas of one. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/half.h"
#include "base/instructions.h"
#include "base/threads.h"
#include "golden/golden.h"
#include "ops/adamw/adamw.h"
#include "ops/fast.h"
#include "ops/lion/lion.h"
#include "ops/state.h"
#include "ops/state_math.h"
#include "ops/state_vectors.h"

enum { N = 5000, SCALES = 3 };

static const golden_tensor *table(const golden *g, const char *of, const char *what) {
    char name[64];
    snprintf(name, sizeof name, "%s.%s", of, what);
    const golden_tensor *t = golden_gradient(g, name);
    if (!t) fail_msg("no table %s", name);
    return t;
}

static void values_are_the_papers(void **state) {
    (void)state;
    golden g;
    assert_true(golden_open(&g, "state-codes"));
    for (int positive = 0; positive < 2; positive++) {
        const golden_tensor *t = table(&g, positive ? "second" : "first", "values");
        assert_int_equal(t->count, STATE_CODES);
        for (int k = 0; k < STATE_CODES; k++)
            if (!(fabs((double)state_map(positive)[k] - t->value[k]) <= 1e-7 * fabs(t->value[k])))
                fail_msg("code %d is %.9g, in the paper %.9g", k, (double)state_map(positive)[k],
                         t->value[k]);
    }
    golden_close(&g);
}

#define ARG(array, type) ((op_arg){ array, { { sizeof(array) / sizeof *(array) }, 1 }, type })

static void run(const op_def *op, const op_call *c, bool reference) {
    const op_kernel *k = op->cpu;
    while (reference ? k[1].name != NULL : k->accepts && !k->accepts(c)) k++;
    k->run(c);
}

/* A code may be another one where both are equally near. */
static void check_codes(const golden *g, const char *of, bool positive, const uint8_t *codes,
                        const float *scales, const float *x) {
    const golden_tensor *should = table(g, of, "codes"), *scale = table(g, of, "scales");
    const float *map = state_map(positive);
    assert_int_equal(should->count, N);
    assert_int_equal(scale->count, SCALES);
    for (int i = 0; i < SCALES; i++)
        assert_true(fabs((double)scales[i] - scale->value[i]) <= 1e-7 * scale->value[i]);
    for (int i = 0; i < N; i++) {
        double part = (double)x[i] / (double)scales[i / STATE_BLOCK];
        double is = fabs((double)map[codes[i]] - part),
               best = fabs((double)map[(int)should->value[i]] - part);
        if (positive && codes[i] == 1 && should->value[i] == 0) continue; /* never 0, see state.h */
        if (!(is <= best + 1e-6 * fabs(part)))
            fail_msg("%s: code of %g is %d, should be %g", of, part, codes[i], should->value[i]);
    }
}

/* With betas of 0 AdamW's first moment is the gradient, and its second the gradient's square. */
static void codes_are_the_papers(void **state) {
    (void)state;
    static float w[N], g[N], squares[N], lr[1] = { 1e-3f }, m_scales[SCALES], v_scales[SCALES];
    static uint8_t m[N], v[N];
    int32_t t[1] = { 1 };
    golden numbers;
    assert_true(golden_open(&numbers, "state-codes"));
    for (int i = 0; i < N; i++) {
        double x = (double)golden_weight("state", 1, i);
        g[i] = (float)(x * x * x * 1000), squares[i] = (float)((double)g[i] * (double)g[i]);
    }
    for (int reference = 0; reference < 2; reference++) {
        memset(m, 127, sizeof m), memset(v, 0, sizeof v); /* 0 */
        op_arg in[] = { ARG(w, DTYPE_F32),
                        ARG(g, DTYPE_F32),
                        ARG(m, DTYPE_U8),
                        ARG(v, DTYPE_U8),
                        ARG(lr, DTYPE_F32),
                        ARG(t, DTYPE_I32),
                        { 0 },
                        { 0 },
                        ARG(m_scales, DTYPE_F32),
                        ARG(v_scales, DTYPE_F32) };
        op_arg out[] = { in[0], in[2], in[3], in[8], in[9] };
        op_call c = { .in = in,
                      .out = out,
                      .in_count = 10,
                      .out_count = 5,
                      .attributes = &(adamw_attributes){ 0, 0, 1e-8f, 0, 7 } };
        run(&op_adamw, &c, reference);
        check_codes(&numbers, "first", false, m, m_scales, g);
        check_codes(&numbers, "second", true, v, v_scales, squares);
    }
    golden_close(&numbers);
}

/* Without a gradient Lion's mean loses a hundredth in each step, but where the block's largest one is held:
 * codes that are rounded to the nearest keep what they are, drawn ones go along in the mean. */
static double left_of_mean(bool drawn, int steps) {
    static float w[N], g[N], lr[1] = { 1e-3f }, scales[SCALES];
    static uint8_t m[N];
    int32_t key[4] = { 1, 2, 3, 0 };
    for (int i = 0; i < N; i++) m[i] = (uint8_t)(i % STATE_BLOCK ? 128 + i % 100 : 255);
    for (int i = 0; i < N; i++) g[i] = i % STATE_BLOCK ? 0 : 1;
    for (int i = 0; i < SCALES; i++) scales[i] = 1;
    op_arg in[] = {
        ARG(w, DTYPE_F32),      ARG(g, DTYPE_F32),  ARG(m, DTYPE_U8), ARG(lr, DTYPE_F32), { 0 }, { 0 },
        ARG(scales, DTYPE_F32), ARG(key, DTYPE_I32)
    };
    op_arg out[] = { in[0], in[2], in[6] };
    op_call c = { .in = in,
                  .out = out,
                  .in_count = drawn ? 8 : 7,
                  .out_count = 3,
                  .attributes = &(lion_attributes){ 0.9f, 0.99f, 0, 7 } };
    double before = 0, after = 0;
    for (int i = 0; i < N; i++)
        if (g[i] == 0) before += (double)(scales[i / STATE_BLOCK] * state_map(false)[m[i]]);
    for (int step = 0; step < steps; step++) {
        key[2] = step;
        run(&op_lion, &c, false);
    }
    for (int i = 0; i < N; i++)
        if (g[i] == 0) after += (double)(scales[i / STATE_BLOCK] * state_map(false)[m[i]]);
    return after / before;
}

static void what_drifts_is_not_lost(void **state) {
    (void)state;
    double drawn = left_of_mean(true, 100), nearest = left_of_mean(false, 100), should = pow(0.99, 100);
    if (!(fabs(drawn - should) < 0.03)) fail_msg("%g of the mean is left, should be %g", drawn, should);
    assert_true(fabs(nearest - should) > 0.06); /* or the case says nothing */
}

/* ---- vectors of codes, which have to be the formulas ---- */

static void vectors_decode_as_formulas(void **state) {
    (void)state;
    static const float scales[] = { 0, 0x1p-149f, 0x1p-126f, 0.37f, 1, 3e38f, INFINITY };
    uint8_t codes[STATE_CODES];
    float x[STATE_CODES];
    if (!state_vectors_usable()) skip();
    for (int k = 0; k < STATE_CODES; k++) codes[k] = (uint8_t)(k * 91);
    for (size_t s = 0; s < sizeof scales / sizeof *scales; s++)
        for (int positive = 0; positive < 2; positive++) {
            state_vectors_decode(positive, codes, scales[s], STATE_CODES, x);
            for (int k = 0; k < STATE_CODES; k++) {
                float should = scales[s] * state_decoded(codes[k], positive);
                if (memcmp(&should, &x[k], sizeof should) != 0 && !(isnan(should) && isnan(x[k])))
                    fail_msg("code %d is %a, should be %a", codes[k], (double)x[k], (double)should);
            }
        }
}

/* Compares the codes of STATE_VECTOR numbers. */
static void check_encoded(const float *x, float inverse) {
    uint8_t codes[STATE_VECTOR];
    for (int positive = 0; positive < 2; positive++) {
        state_vectors_encode(positive, x, inverse, STATE_VECTOR, codes);
        for (int k = 0; k < STATE_VECTOR; k++) {
            uint8_t should =
                positive ? state_coded_positive(x[k], inverse) : state_coded_signed(x[k], inverse);
            if (codes[k] != should)
                fail_msg("%a by %a is code %d, should be %d", (double)x[k], (double)inverse, codes[k],
                         should);
        }
    }
}

/* The floats around a size, up to what rounding lets a size be, and the same below 0. */
static void check_around(float size) {
    float x[STATE_VECTOR];
    for (int k = 0; k < STATE_VECTOR; k++) {
        uint32_t bits = half_bits(size);
        uint32_t near = bits + (uint32_t)(k / 2) < STATE_VECTOR / 4 ? 0 : bits + (uint32_t)(k / 2) - 16;
        x[k] = half_float(near);
        if (x[k] > 1.0000004f) x[k] = 1;
        if (k % 2) x[k] = -x[k];
    }
    check_encoded(x, 1);
    for (int k = 0; k < STATE_VECTOR; k++) x[k] *= 0.37f;
    check_encoded(x, 1 / 0.37f);
}

/* Where codes, decades and octaves meet, and every STRIDE-th of all sizes and NaN. */
static void vectors_encode_as_formulas(void **state) {
    (void)state;
    enum { STRIDE = 4099 };
    float x[STATE_VECTOR];
    uint32_t one = half_bits(1);
    if (!state_vectors_usable()) skip();
    for (int positive = 0; positive < 2; positive++)
        for (int k = 0; k < STATE_CODES; k++) {
            float value = fabsf(state_map(positive)[k]);
            check_around(value);
            if (k + 1 < STATE_CODES) check_around(0.5f * (value + fabsf(state_map(positive)[k + 1])));
        }
    for (int octave = 0; octave <= 127; octave++) check_around(half_float((uint32_t)octave << 23));
    for (uint32_t bits = 0; bits <= one - STRIDE * STATE_VECTOR; bits += STRIDE * STATE_VECTOR) {
        for (uint32_t k = 0; k < STATE_VECTOR; k++)
            x[k] = half_float((bits + k * STRIDE) | (k % 3 == 0 ? 0x80000000u : 0));
        check_encoded(x, 1);
    }
    for (uint32_t k = 0; k < STATE_VECTOR; k++) x[k] = half_float(0x7f800001u + k * 0x1ffffu);
    check_encoded(x, 1);
    static const float ends[] = { INFINITY, -INFINITY, NAN, -NAN };
    for (uint32_t k = 0; k < STATE_VECTOR; k++) x[k] = k % 8 < 4 ? ends[k % 4] : 0.1f * (float)(k % 8);
    for (int i = 0; i < 2; i++) check_encoded(x, (float)i); /* 0 is of a block that is not finite */
}

/* ---- AdamW in one loop, which has to be that of blocks ---- */

/* Two pieces, the second of which ends amidst a block. */
enum { MANY = FAST_PIECE + N, MANY_SCALES = (MANY + STATE_BLOCK - 1) / STATE_BLOCK };

typedef struct {
    float w[MANY], g[MANY], m_scales[MANY_SCALES], v_scales[MANY_SCALES];
    uint16_t w_half[MANY], g_half[MANY], m_half[MANY], v_half[MANY];
    uint8_t m[MANY], v[MANY];
} held;

static void fill(held *h) {
    memset(h, 0, sizeof *h);
    for (int i = 0; i < MANY; i++) {
        h->w[i] = (float)golden_weight("state", 2, i), h->g[i] = (float)golden_weight("state", 3, i);
        h->m[i] = (uint8_t)(i * 91), h->v[i] = (uint8_t)(i * 37);
    }
    h->g[7] = 0, h->m[7] = STATE_ZERO, h->v[7] = 0;
    h->w[9] = 0x1p-130f, h->w[10] = INFINITY;
    h->g[4000] = INFINITY;
    h->g[MANY - 1] = NAN;
    half_narrow(DTYPE_BF16, h->w, MANY, h->w_half);
    half_narrow(DTYPE_BF16, h->g, MANY, h->g_half);
    half_narrow(DTYPE_BF16, h->g + 1, MANY - 1, h->m_half);
    for (int i = 0; i < MANY; i++) h->v_half[i] = h->m_half[i] & 0x7fff;
    for (int i = 0; i < MANY_SCALES; i++) h->m_scales[i] = 0.01f, h->v_scales[i] = 1e-4f;
}

typedef struct {
    bool narrow_w, narrow_g, narrow_moments, drawn;
    int64_t first;
} kind;

/* By the kernel of that name. */
static void update_by(const char *name, held *h, const kind *of) {
    float lr[1] = { 1e-3f }, scale[1] = { 0.7f };
    int32_t t[1] = { 5 }, ok[1] = { 1 }, key[4] = { 1, 2, 3, 0 };
    const bool halves = of->narrow_moments;
    op_arg in[] = { of->narrow_w ? ARG(h->w_half, DTYPE_BF16) : ARG(h->w, DTYPE_F32),
                    of->narrow_g ? ARG(h->g_half, DTYPE_BF16) : ARG(h->g, DTYPE_F32),
                    halves ? ARG(h->m_half, DTYPE_BF16) : ARG(h->m, DTYPE_U8),
                    halves ? ARG(h->v_half, DTYPE_BF16) : ARG(h->v, DTYPE_U8),
                    ARG(lr, DTYPE_F32),
                    ARG(t, DTYPE_I32),
                    ARG(scale, DTYPE_F32),
                    ARG(ok, DTYPE_I32),
                    ARG(h->m_scales, DTYPE_F32),
                    ARG(h->v_scales, DTYPE_F32),
                    ARG(key, DTYPE_I32) };
    op_arg out[] = { in[0], in[2], in[3], in[8], in[9] };
    op_call c = { .in = in,
                  .out = out,
                  .in_count = of->drawn ? 11 : 10,
                  .out_count = halves ? 3 : 5,
                  .attributes = &(adamw_attributes){ 0.9f, 0.999f, 1e-8f, 0.1f, 7 },
                  .first = of->first };
    if (halves) in[8] = in[9] = (op_arg){ 0 };
    const op_kernel *k = op_adamw.cpu;
    while (strcmp(k->name, name) != 0) k++;
    assert_true(k->accepts(&c));
    k->run(&c);
}

/* Where an update begins: with what is drawn at a time, and amidst it. */
static const int64_t firsts[] = { 0, 3 * STATE_BLOCK, 12345 };
enum { FIRSTS = sizeof firsts / sizeof *firsts };

static void one_loop_is_that_of_blocks(void **state) {
    (void)state;
    static held one, blocks;
    if (!state_vectors_usable()) skip();
    for (int types = 0; types < 8; types++)
        for (int f = 0; f < FIRSTS; f++) {
            kind of = { types & 1, types & 2, false, types & 4, firsts[f] };
            fill(&one), fill(&blocks);
            update_by("adamw_cpu_codes", &one, &of);
            update_by("adamw_cpu_blocks", &blocks, &of);
            assert_memory_equal(&one, &blocks, sizeof one);
        }
}

static void halves_by_vectors_are_those_of_plain_loops(void **state) {
    (void)state;
    static held vectors, plain;
    for (int drawn = 0; drawn < 2; drawn++)
        for (int f = 0; f < FIRSTS; f++) {
            kind of = { true, true, true, drawn, firsts[f] };
            fill(&vectors), fill(&plain);
            update_by("adamw_cpu_bf16", &vectors, &of);
            assert_int_equal(instructions_pin("plain"), STATUS_OK);
            update_by("adamw_cpu_bf16", &plain, &of);
            assert_int_equal(instructions_pin("auto"), STATUS_OK);
            assert_memory_equal(&vectors, &plain, sizeof plain);
        }
}

int main(void) {
    threads_set(2);
    const struct CMUnitTest tests[] = { cmocka_unit_test(values_are_the_papers),
                                        cmocka_unit_test(codes_are_the_papers),
                                        cmocka_unit_test(what_drifts_is_not_lost),
                                        cmocka_unit_test(vectors_decode_as_formulas),
                                        cmocka_unit_test(vectors_encode_as_formulas),
                                        cmocka_unit_test(one_loop_is_that_of_blocks),
                                        cmocka_unit_test(halves_by_vectors_are_those_of_plain_loops) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
