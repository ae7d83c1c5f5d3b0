/* Codes of 8 bits and products on them beyond what the harness asks of every op: the bits of a product are
 * the same from every micro-kernel, on any number of threads, and however the batch is cut at whole tiles;
 * rounding stochastically is right in the mean; what is not finite stays so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/threads.h"
#include "harness_memory.h"
#include "ops/codes.h"
#include "ops/compress/compress.h"
#include "ops/matmul_int8/matmul_int8.h"
#include "ops/matmul_int8/matmul_int8_kernel.h"
#include "ops/quantize/quantize.h"

/* ---- products to try ---- */

typedef struct {
    const char *name;
    int64_t samples, rows, columns, depth; /* rows of a sample; with ta: depth of one */
    matmul_int8_attributes attributes;
    dtype b, type; /* type: of a and y */
} form;

static const form forms[] = {
    { "stored", 2, 300, 70, 131, { .tb = 0 }, DTYPE_I8, DTYPE_F32 },
    { "stored, transposed", 1, 17, 33, 1000, { .tb = 1 }, DTYPE_I8, DTYPE_F32 },
    { "folded", 1, 1100, 45, 130, { .tb = 1, .folded = 1 }, DTYPE_I8, DTYPE_BF16 },
    { "floats", 3, 5, 515, 66, { .tb = 0 }, DTYPE_F32, DTYPE_F32 },
    { "floats, transposed", 1, 40, 31, 67, { .tb = 1 }, DTYPE_BF16, DTYPE_F32 },
    { "over rows", 6, 33, 290, 256, { .ta = 1, .stream = 5 }, DTYPE_F32, DTYPE_F32 },
    { "over rows, narrow", 4, 20, 31, 300, { .ta = 1, .stream = 5 }, DTYPE_F32, DTYPE_BF16 },
};
enum { FORMS = sizeof forms / sizeof *forms };

typedef struct {
    op_call call;
    op_arg in[MATMUL_INT8_INPUTS], out;
    philox_key key;
} product;

static op_arg filled(dtype type, shape s, double low, double high) {
    op_arg x = { .shape = s, .dtype = type };
    x.data = memory_new((size_t)shape_elements(&s), dtype_bytes(type));
    assert_non_null(x.data);
    harness_fill(&x, low, high, 0xc0de + (uint64_t)shape_elements(&s));
    return x;
}

static product product_new(const form *f) {
    const matmul_int8_attributes *t = &f->attributes;
    product p = { .key = { 1, 2, 3, 4 } };
    shape b = t->ta   ? SHAPE(f->samples, f->depth, f->columns)
              : t->tb ? SHAPE(f->columns, f->depth)
                      : SHAPE(f->depth, f->columns);
    p.in[MATMUL_INT8_A] = filled(
        f->type, t->ta ? SHAPE(f->samples, f->depth, f->rows) : SHAPE(f->samples, f->rows, f->depth), -1, 2);
    p.in[MATMUL_INT8_B] = filled(f->b, b, f->b == DTYPE_I8 ? -127 : -2, f->b == DTYPE_I8 ? 128 : 1);
    if (f->b == DTYPE_I8)
        p.in[MATMUL_INT8_SCALES] = filled(DTYPE_F32, SHAPE(t->folded ? f->depth : f->columns), 0.001, 0.01);
    p.out =
        filled(f->type, t->ta ? SHAPE(f->rows, f->columns) : SHAPE(f->samples, f->rows, f->columns), 0, 0);
    p.call = (op_call){ .in_count = MATMUL_INT8_INPUTS, .out_count = 1, .attributes = t };
    return p;
}

static void product_free(product *p) {
    for (int i = 0; i < MATMUL_INT8_INPUTS; i++) memory_free(p->in[i].data);
    memory_free(p->out.data);
}

enum { STREAM, PACKED }; /* kernels of the product, in their order */

/* With a key of the product's own where it sums over rows. */
static void run(product *p, const op_kernel *kernel) {
    op_arg in[MATMUL_INT8_INPUTS];
    memcpy(in, p->in, sizeof in);
    if (((const matmul_int8_attributes *)p->call.attributes)->ta)
        in[MATMUL_INT8_KEY] = (op_arg){ &p->key, SHAPE(4), DTYPE_I32 };
    p->call.in = in, p->call.out = &p->out;
    assert_true(harness_run_kernel(kernel, &p->call));
}

static size_t bytes_of(const op_arg *x) { return (size_t)shape_elements(&x->shape) * dtype_bytes(x->dtype); }

static void assert_same(const op_arg *is, const void *should, const char *which, const char *how) {
    if (memcmp(is->data, should, bytes_of(is)) != 0) fail_msg("%s: other bits with %s", which, how);
}

static void *copy_of(const op_arg *x) {
    void *copy = memory_new(bytes_of(x), 1);
    assert_non_null(copy);
    memcpy(copy, x->data, bytes_of(x));
    return copy;
}

/* ---- tests ---- */

static void check_kernel(product *p, const matmul_int8_kernel *kernel, const void *should, const char *of) {
    matmul_int8_kernel_choose(kernel);
    for (int threads = 1; threads <= 3; threads++) {
        threads_set(threads);
        memset(p->out.data, 0xff, bytes_of(&p->out));
        run(p, &matmul_int8_cpu[PACKED]);
        assert_same(&p->out, should, of, kernel->name);
    }
}

static void test_kernels_agree(void **state) {
    (void)state;
    for (int i = 0; i < FORMS; i++) {
        product p = product_new(&forms[i]);
        threads_set(1);
        matmul_int8_kernel_choose(&matmul_int8_kernel_portable);
        run(&p, &matmul_int8_cpu[PACKED]);
        void *should = copy_of(&p.out);
        for (const matmul_int8_kernel *const *k = matmul_int8_kernels; *k; k++)
            if ((*k)->available()) check_kernel(&p, *k, should, forms[i].name);
        check_kernel(&p, &matmul_int8_kernel_amx_twin, should, forms[i].name);
        memory_free(should);
        product_free(&p);
    }
    matmul_int8_kernel_choose(NULL);
    threads_set(1);
}

/* The samples first .. first + count - 1 of an input. */
static op_arg part(const op_arg *x, int64_t first, int64_t count) {
    op_arg y = *x;
    int64_t each = shape_elements(&x->shape) / x->shape.dim[0];
    y.shape.dim[0] = count;
    y.data = (char *)x->data + (uint64_t)(first * each) * dtype_bytes(x->dtype);
    return y;
}

static void test_cutting_changes_no_bit(void **state) {
    (void)state;
    const form *f = &forms[5];
    product whole = product_new(f), cut = product_new(f);
    run(&whole, &matmul_int8_cpu[PACKED]);
    for (int64_t first = 0, count; first < f->samples; first += count) {
        count = first ? f->samples - first : 1;
        product p = { .call = cut.call, .out = cut.out, .key = cut.key };
        p.key.first_sample += (uint32_t)first;
        p.in[MATMUL_INT8_A] = part(&cut.in[MATMUL_INT8_A], first, count);
        p.in[MATMUL_INT8_B] = part(&cut.in[MATMUL_INT8_B], first, count);
        if (first) p.in[MATMUL_INT8_ACCUMULATOR] = cut.out;
        run(&p, &matmul_int8_cpu[PACKED]);
    }
    assert_same(&cut.out, whole.out.data, f->name, "micro-batches");
    product_free(&cut);
    product_free(&whole);
}

/* A row's result is its own: other rows of the batch don't show in it. */
static void test_rows_are_alone(void **state) {
    (void)state;
    const form *f = &forms[0];
    product p = product_new(f);
    run(&p, &matmul_int8_cpu[PACKED]);
    char *should = copy_of(&p.out);
    op_arg a = p.in[MATMUL_INT8_A], y = p.out;
    p.in[MATMUL_INT8_A] = part(&a, 1, 1), p.out = part(&y, 1, 1);
    memset(p.out.data, 0xff, bytes_of(&p.out));
    run(&p, &matmul_int8_cpu[PACKED]);
    assert_same(&p.out, should + bytes_of(&p.out), f->name, "one sample");
    p.in[MATMUL_INT8_A] = a, p.out = y;
    memory_free(should);
    product_free(&p);
}

static void test_stochastic_rounding_is_right_in_the_mean(void **state) {
    (void)state;
    enum { COLUMNS = 600, ROWS = 400 };
    op_arg x = filled(DTYPE_F32, SHAPE(ROWS, COLUMNS), 0, 0), out[2];
    float *value = x.data;
    for (int64_t i = 0; i < ROWS * COLUMNS; i++) value[i] = i % COLUMNS ? 10.0009765625f : 127;
    out[0] = filled(DTYPE_I8, x.shape, 0, 0), out[1] = filled(DTYPE_F32, SHAPE(ROWS), 0, 0);
    philox_key key = { 5, 6, 7, 8 };
    op_arg in[2] = { x, { &key, SHAPE(4), DTYPE_I32 } };
    op_call c = {
        .in = in, .out = out, .in_count = 2, .out_count = 2, .attributes = &(quantize_attributes){ 0 }
    };
    assert_true(harness_run_kernel(&quantize_cpu[0], &c));
    const int8_t *codes = out[0].data;
    int64_t above = 0, n = ROWS * (COLUMNS - 1);
    for (int64_t i = 0; i < ROWS * COLUMNS; i++) {
        if (i % COLUMNS == 0) {
            assert_int_equal(codes[i], 127);
            continue;
        }
        assert_true(codes[i] == 10 || codes[i] == 11);
        above += codes[i] == 11;
    }
    /* 234 are expected, give or take 15: one in 1,024, less than an eighth of what the nearest code would
     * lose */
    assert_true(fabs((double)above - (double)n / 1024) < 75);
    for (int i = 0; i < 2; i++) memory_free(out[i].data);
    memory_free(x.data);
}

/* Eight bits are enough for sums of many: what is lost in the mean is at most 1/512 of a code, to either
 * side. Draws of different numbers, samples and streams have nothing to do with each other. */
static void test_coarse_rounding_is_right_in_the_mean(void **state) {
    (void)state;
    enum { DRAWS = 400 };
    static const double fractions[] = { 0, 0.1, 0.25, 0.5, 0.9 };
    for (size_t f = 0; f < sizeof fractions / sizeof *fractions; f++) {
        double sum = 0, pairs = 0;
        for (uint32_t d = 0; d < DRAWS; d++) {
            float x[CODES_DRAWN], inverse[CODES_DRAWN];
            uint8_t bytes[2][CODES_DRAWN];
            int8_t codes[CODES_DRAWN];
            codes_draw draw = { .random = { { 5, 6, 7, 8 }, 9 }, .sample = d % 20 };
            codes_draw_bytes(&draw, d / 20, bytes[0]);
            draw.random.stream++;
            codes_draw_bytes(&draw, d / 20, bytes[1]);
            for (int i = 0; i < CODES_DRAWN; i++) x[i] = (float)(10 + fractions[f]), inverse[i] = 1;
            codes_encode_each_coarse(x, inverse, bytes[0], CODES_DRAWN, codes);
            for (int i = 0; i < CODES_DRAWN; i++) {
                sum += codes[i];
                pairs += (bytes[0][i] - 127.5) * (bytes[1][i] - 127.5);
            }
        }
        double n = (double)DRAWS * CODES_DRAWN, off = fabs(sum / n - 10 - fractions[f]);
        if (!(off < 1.0 / 512 + 4 * 0.5 / sqrt(n))) fail_msg("%g is %g off in the mean", fractions[f], off);
        assert_true(fabs(pairs / n) < 5 * 74 * 74 / sqrt(n)); /* bytes have a deviation of 73.9 */
        if (f == 0) assert_true(off == 0);
    }
}

static void test_what_is_not_finite_stays_so(void **state) {
    (void)state;
    float scale = 0.01f; /* found by calibration */
    for (int fixed = 0; fixed < 2; fixed++) {
        product p = product_new(&forms[0]);
        float *a = p.in[MATMUL_INT8_A].data, *y = p.out.data;
        int64_t columns = forms[0].columns, depth = forms[0].depth;
        if (fixed) p.in[MATMUL_INT8_FIXED] = (op_arg){ &scale, SHAPE(1), DTYPE_F32 };
        a[5] = NAN, a[depth + 7] = INFINITY, a[2 * depth] = -INFINITY;
        run(&p, &matmul_int8_cpu[PACKED]);
        for (int64_t row = 0; row < 4; row++)
            for (int64_t j = 0; j < columns; j++)
                assert_int_equal(isfinite(y[row * columns + j]) != 0, row == 3);
        if (fixed) p.in[MATMUL_INT8_FIXED] = (op_arg){ 0 };
        product_free(&p);
    }
}

/* Codes that are read where they lie give the bits of those in panels. */
static void test_streams_agree(void **state) {
    (void)state;
    for (int tb = 0; tb < 2; tb++)
        for (int64_t rows = 1; rows <= MATMUL_INT8_STREAM_ROWS; rows++) {
            form f = { "few", 1, rows, 700, 1103, { .tb = tb }, DTYPE_I8, DTYPE_F32 };
            product p = product_new(&f);
            p.in[MATMUL_INT8_BIAS] = filled(DTYPE_F32, SHAPE(700), -1, 1);
            p.in[MATMUL_INT8_RESIDUAL] = filled(DTYPE_F32, SHAPE(1, rows, 700), -1, 1);
            if (rows == 2) p.in[MATMUL_INT8_FIXED] = filled(DTYPE_F32, SHAPE(1), 0.005, 0.01);
            run(&p, &matmul_int8_cpu[PACKED]);
            void *should = copy_of(&p.out);
            for (int threads = 1; threads <= 3; threads++) {
                threads_set(threads);
                memset(p.out.data, 0xff, bytes_of(&p.out));
                run(&p, &matmul_int8_cpu[STREAM]);
                assert_same(&p.out, should, "few rows", "codes where they lie");
            }
            memory_free(should);
            product_free(&p);
        }
    threads_set(1);
}

/* More rows than a wave, and scratch that does not grow with them. */
static void test_scratch_is_fixed(void **state) {
    (void)state;
    form few = { "few", 1, 2000, 64, 64, { 0 }, DTYPE_I8, DTYPE_F32 }, many = few;
    many.rows = 9000;
    product p = product_new(&few), q = product_new(&many);
    p.call.in = p.in, p.call.out = &p.out, q.call.in = q.in, q.call.out = &q.out;
    assert_int_equal(matmul_int8_cpu[PACKED].scratch(&p.call, 2),
                     matmul_int8_cpu[PACKED].scratch(&q.call, 2));
    product_free(&p);
    product_free(&q);
}

/* A block of activations with such a number comes back without any that is finite; its neighbours as they
 * were.
 */
static void test_compressing_hides_nothing(void **state) {
    (void)state;
    enum { WIDTH = 2 * COMPRESS_BLOCK };
    float x[WIDTH], scales[2], y[WIDTH];
    int8_t codes[WIDTH];
    static const float bad[] = { NAN, INFINITY, -INFINITY };
    for (int b = 0; b < 3; b++) {
        for (int i = 0; i < WIDTH; i++) x[i] = 0.25f;
        x[COMPRESS_BLOCK + 3] = bad[b];
        op_arg in = { .data = x, .shape = SHAPE(1, WIDTH), .dtype = DTYPE_F32 };
        op_arg out[] = { { .data = codes, .shape = SHAPE(1, WIDTH), .dtype = DTYPE_I8 },
                         { .data = scales, .shape = SHAPE(2), .dtype = DTYPE_F32 } };
        op_arg back = { .data = y, .shape = SHAPE(1, WIDTH), .dtype = DTYPE_F32 };
        compress_cpu[0].run(&(op_call){ .in = &in, .in_count = 1, .out = out, .out_count = 2 });
        decompress_cpu[0].run(&(op_call){ .in = out, .in_count = 2, .out = &back, .out_count = 1 });
        for (int i = 0; i < WIDTH; i++) assert_int_equal(isfinite(y[i]) != 0, i < COMPRESS_BLOCK);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernels_agree),
        cmocka_unit_test(test_cutting_changes_no_bit),
        cmocka_unit_test(test_rows_are_alone),
        cmocka_unit_test(test_coarse_rounding_is_right_in_the_mean),
        cmocka_unit_test(test_stochastic_rounding_is_right_in_the_mean),
        cmocka_unit_test(test_what_is_not_finite_stays_so),
        cmocka_unit_test(test_streams_agree),
        cmocka_unit_test(test_compressing_hides_nothing),
        cmocka_unit_test(test_scratch_is_fixed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
