/* Codes of 4 bits in groups, and products on them beyond what the harness asks of every op: numbers come back
 * as near as a group's scale lets them; a row's bits are the same alone and among others, from every set of
 * instructions and on any number of threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/threads.h"
#include "harness_memory.h"
#include "ops/matmul_int4/matmul_int4_kernel.h"

/* ---- codes ---- */

enum { OUTPUTS = 21, DEPTH = 96, GROUPS = DEPTH / CODES4_GROUP };

typedef struct {
    float x[OUTPUTS][DEPTH], again[OUTPUTS][DEPTH];
    uint8_t codes[OUTPUTS * DEPTH / 2];
    uint16_t scales[OUTPUTS * GROUPS];
} matrix;

static void encode(matrix *m) {
    for (int64_t first = 0; first < OUTPUTS; first += CODES4_PANEL) {
        codes4_place at = codes4_at(OUTPUTS, GROUPS, first, 0);
        codes4_encode_panel(&(codes4_numbers){ m->x[first], DEPTH, 1, at.lanes, DEPTH }, m->codes + at.code,
                            m->scales + at.scale);
    }
    for (int64_t o = 0; o < OUTPUTS; o++)
        for (int64_t g = 0; g < GROUPS; g++) {
            codes4_place at = codes4_at(OUTPUTS, GROUPS, o, g);
            codes4_decode(m->codes, m->scales, &at, &m->again[o][g * CODES4_GROUP]);
        }
}

static matrix *matrix_new(void) {
    matrix *m = memory_new(1, sizeof *m);
    philox_normal_list list = { 3, 5, 0, 0.7f };
    assert_non_null(m);
    philox_normal(&list, 0, OUTPUTS * DEPTH, m->x[0]);
    return m;
}

static double squares(const float *x, const float *y) {
    double sum = 0;
    for (int i = 0; i < CODES4_GROUP; i++)
        sum += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
    return sum;
}

/* With the scale that gives the largest number the code -8, each number the nearest code. */
static double squares_of_one_scale(const float *x) {
    double extreme = 0, sum = 0;
    for (int i = 0; i < CODES4_GROUP; i++)
        if (fabs((double)x[i]) > fabs(extreme)) extreme = (double)x[i];
    double scale = extreme / -8;
    for (int i = 0; i < CODES4_GROUP; i++) {
        double code = fmin(7, fmax(-8, rint((double)x[i] / scale)));
        sum += ((double)x[i] - scale * code) * ((double)x[i] - scale * code);
    }
    return sum;
}

static void numbers_come_back(void **state) {
    (void)state;
    matrix *m = matrix_new();
    double all = 0, plain = 0;
    for (int i = 0; i < CODES4_GROUP; i++) m->x[2][i] = 0;
    for (int i = 0; i < CODES4_GROUP; i++) m->x[17][32 + i] = 0.25f * (float)(i % 16 - 8); /* exactly codes */
    encode(m);
    for (int o = 0; o < OUTPUTS; o++)
        for (int g = 0; g < GROUPS; g++) {
            const float *x = &m->x[o][g * CODES4_GROUP], *again = &m->again[o][g * CODES4_GROUP];
            double scale = fabs((double)half_from_f16(m->scales[codes4_at(OUTPUTS, GROUPS, o, g).scale]));
            for (int i = 0; i < CODES4_GROUP; i++)
                if (fabs((double)(x[i] - again[i])) > 1.01 * scale)
                    fail_msg("%d, %d: %g became %g", o, g, (double)x[i], (double)again[i]);
            all += squares(x, again);
            if (o != 2 || g != 0) plain += squares_of_one_scale(x);
        }
    for (int i = 0; i < CODES4_GROUP; i++) {
        assert_true(m->again[2][i] == 0);
        assert_true(m->again[17][32 + i] == m->x[17][32 + i]);
    }
    if (all > 0.93 * plain) fail_msg("errors of %g, and of %g by one scale", all, plain);
    memory_free(m);
}

/* The matrix may lie as (outputs, depth) or as (depth, outputs): the codes are the same. */
static void either_way(void **state) {
    (void)state;
    matrix *m = matrix_new();
    static float turned[DEPTH][OUTPUTS];
    uint8_t codes[CODES4_PANEL * DEPTH / 2];
    uint16_t scales[CODES4_PANEL * GROUPS];
    for (int o = 0; o < OUTPUTS; o++)
        for (int d = 0; d < DEPTH; d++) turned[d][o] = m->x[o][d];
    encode(m);
    codes4_encode_panel(&(codes4_numbers){ turned[0], 1, OUTPUTS, CODES4_PANEL, DEPTH }, codes, scales);
    assert_memory_equal(codes, m->codes, sizeof codes);
    assert_memory_equal(scales, m->scales, sizeof scales);
    memory_free(m);
}

static void what_has_no_scale_is_seen(void **state) {
    (void)state;
    static const float wrong[] = { NAN, INFINITY, -INFINITY, 1e6f };
    for (int i = 0; i < 4; i++) {
        matrix *m = matrix_new();
        encode(m);
        assert_true(codes4_finite(m->scales, OUTPUTS * GROUPS));
        m->x[20][95] = wrong[i];
        encode(m);
        assert_false(codes4_finite(m->scales, OUTPUTS * GROUPS));
        memory_free(m);
    }
}

static void rows_become_codes(void **state) {
    (void)state;
    enum { N = 64 };
    float x[N], scales[2];
    int8_t codes[N];
    int32_t starts[2];
    for (int i = 0; i < N; i++) x[i] = i < 32 ? (float)(i - 20) : 0;
    codes4_encode_row(x, N, codes, scales, starts);
    int32_t sum = 0;
    for (int i = 0; i < 32; i++) {
        assert_true(fabsf(x[i] - scales[0] * (float)codes[i]) <= 0.51f * scales[0]);
        sum += codes[i];
    }
    assert_true(codes[0] == -127 && starts[0] == -8 * sum && scales[1] == 0 && starts[1] == 0);
}

/* ---- products ---- */

enum { MOST = 300 };
static const int64_t sizes[][2] = { /* outputs, depth */
                                    { 1, 32 },    { 16, 256 }, { 17, 288 }, { 70, 768 },
                                    { 1100, 64 }, { 48, 544 }, { 64, 32 }
};
enum { SIZES = sizeof sizes / sizeof *sizes };

typedef struct {
    op_call call;
    op_arg in[MATMUL_INT4_INPUTS], out;
} product;

static op_arg filled(dtype type, shape s, double low, double high) {
    op_arg x = { .shape = s, .dtype = type };
    x.data = memory_new((size_t)shape_elements(&s), dtype_bytes(type));
    assert_non_null(x.data);
    harness_fill(&x, low, high, 0xc0de + (uint64_t)shape_elements(&s));
    return x;
}

static const matmul_int4_attributes as_it_is = { 0 };

static product product_new(int64_t outputs, int64_t depth) {
    product p = { .call = { .in_count = MATMUL_INT4_INPUTS, .out_count = 1, .attributes = &as_it_is } };
    p.in[MATMUL_INT4_A] = filled(DTYPE_F32, SHAPE(MOST, depth), -1, 2);
    p.in[MATMUL_INT4_CODES] = filled(DTYPE_U8, codes4_shape(outputs, depth), 0, 256);
    p.in[MATMUL_INT4_SCALES] = filled(DTYPE_F16, codes4_scales_shape(outputs, depth), -0.02, 0.02);
    p.in[MATMUL_INT4_BIAS] = filled(DTYPE_F32, SHAPE(outputs), -1, 1);
    p.in[MATMUL_INT4_RESIDUAL] = filled(DTYPE_F32, SHAPE(MOST, outputs), -1, 1);
    p.out = filled(DTYPE_F32, SHAPE(MOST, outputs), 0, 0);
    return p;
}

static void product_free(product *p) {
    for (int i = 0; i < MATMUL_INT4_INPUTS; i++) memory_free(p->in[i].data);
    memory_free(p->out.data);
}

/* Rows first .. first + rows - 1 by themselves. */
static void run(product *p, int64_t first, int64_t rows) {
    op_arg in[MATMUL_INT4_INPUTS], out = p->out;
    int64_t depth = shape_last(&p->in[MATMUL_INT4_A].shape), outputs = shape_last(&out.shape);
    memcpy(in, p->in, sizeof in);
    in[MATMUL_INT4_A].data = (float *)in[MATMUL_INT4_A].data + first * depth;
    in[MATMUL_INT4_RESIDUAL].data = (float *)in[MATMUL_INT4_RESIDUAL].data + first * outputs;
    in[MATMUL_INT4_A].shape = SHAPE(rows, depth);
    in[MATMUL_INT4_RESIDUAL].shape = out.shape = SHAPE(rows, outputs);
    out.data = (float *)out.data + first * outputs;
    p->call.in = in, p->call.out = &out;
    assert_true(harness_run_kernel(&matmul_int4_cpu[0], &p->call));
}

static void check_rows(product *p, const float *should, const char *kernel) {
    static const int64_t rows[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 31, 257 };
    int64_t outputs = shape_last(&p->out.shape);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t first = (int64_t)i * 3 % (MOST - rows[i] + 1);
        memset(p->out.data, 0xff, (size_t)(MOST * outputs) * sizeof(float));
        run(p, first, rows[i]);
        if (memcmp((float *)p->out.data + first * outputs, should + first * outputs,
                   (size_t)(rows[i] * outputs) * sizeof(float)) != 0)
            fail_msg("%s, %lld rows of %lld outputs, depth %lld: other bits than among all", kernel,
                     (long long)rows[i], (long long)outputs,
                     (long long)shape_last(&p->in[MATMUL_INT4_A].shape));
    }
}

static void bits_are_the_same(void **state) {
    (void)state;
    int checked = 0;
    for (size_t s = 0; s < SIZES; s++) {
        product p = product_new(sizes[s][0], sizes[s][1]);
        size_t bytes = (size_t)(MOST * sizes[s][0]) * sizeof(float);
        float *should = memory_new(bytes, 1);
        assert_non_null(should);
        threads_set(1);
        matmul_int4_kernel_choose(&matmul_int4_kernel_portable);
        run(&p, 0, MOST);
        memcpy(should, p.out.data, bytes);
        for (const matmul_int4_kernel *const *k = matmul_int4_kernels; *k; k++) {
            if (!(*k)->available()) continue;
            matmul_int4_kernel_choose(*k);
            for (int threads = 1; threads <= 3; threads++) {
                threads_set(threads);
                check_rows(&p, should, (*k)->name);
            }
            checked++;
        }
        memory_free(should);
        product_free(&p);
    }
    matmul_int4_kernel_choose(NULL);
    threads_set(1);
    assert_true(checked >= SIZES);
}

/* The largest codes on both sides: sums of 16 bits hold a group. */
static void extremes_fit(void **state) {
    (void)state;
    product p = product_new(16, 32);
    for (int sign = -1; sign < 2; sign += 2)
        for (const matmul_int4_kernel *const *k = matmul_int4_kernels; *k; k++) {
            if (!(*k)->available()) continue;
            matmul_int4_kernel_choose(*k);
            memset(p.in[MATMUL_INT4_CODES].data, 0xff, 16 * 16);
            for (int i = 0; i < 16; i++) ((uint16_t *)p.in[MATMUL_INT4_SCALES].data)[i] = half_to_f16(1);
            for (int i = 0; i < 32; i++) ((float *)p.in[MATMUL_INT4_A].data)[i] = (float)sign;
            memset(p.in[MATMUL_INT4_BIAS].data, 0, 16 * sizeof(float));
            memset(p.in[MATMUL_INT4_RESIDUAL].data, 0, 16 * sizeof(float));
            run(&p, 0, 1);
            for (int i = 0; i < 16; i++)
                if (fabsf(((float *)p.out.data)[i] - (float)(sign * 7 * 32)) > 1e-3f)
                    fail_msg("%s: %g", (*k)->name, (double)((float *)p.out.data)[i]);
        }
    matmul_int4_kernel_choose(NULL);
    product_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_come_back),         cmocka_unit_test(either_way),
        cmocka_unit_test(what_has_no_scale_is_seen), cmocka_unit_test(rows_become_codes),
        cmocka_unit_test(bits_are_the_same),         cmocka_unit_test(extremes_fit)
    };
    return cmocka_run_group_tests_name("int4", tests, NULL, NULL);
}
