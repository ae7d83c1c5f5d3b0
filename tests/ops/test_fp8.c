/* Floats of 8 bits beyond what the harness asks of every op: codes and numbers are PyTorch's, for three
 * million numbers and all codes; products are those of bf16 on what codes stand for, bit for bit, with every
 * micro-kernel, on any number of threads, of rows alone and however a batch is cut at whole tiles; a layer
 * and its gradients are those of PyTorch on numbers that are rounded alike (tools/goldens_fp8.py); what is
 * not finite stays seen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/threads.h"
#include "fp8_goldens.h"
#include "harness_memory.h"
#include "ops/encode_fp8/encode_fp8.h"
#include "ops/matmul/matmul_kernel.h"
#include "ops/matmul_fp8/matmul_fp8.h"

static const double most[] = { [FP8_E4M3] = 448, [FP8_E5M2] = 57344 };

/* ---- codes ---- */

/* As tools/goldens_fp8.py has it. */
static uint64_t weighted(uint64_t sum, uint64_t place, uint64_t value) {
    return sum + (value + 1) * (place * 0x9e3779b97f4a7c15u | 1);
}

static void codes_are_rounded_as_elsewhere(void **state) {
    static const uint32_t low_bits[] = { 0x000, 0x001, 0xfff };
    (void)state;
    for (fp8_form form = FP8_E4M3; form <= FP8_E5M2; form++) {
        uint64_t sum = 0;
        for (uint32_t low = 0; low < 3; low++)
            for (uint32_t high = 0; high < 1u << 20; high++)
                sum =
                    weighted(sum, low << 20 | high, fp8_encode(form, half_float(high << 12 | low_bits[low])));
        assert_int_equal(sum, golden_codes[form]);
    }
}

/* By the formats' definition: sign, exponent, fraction. */
static double defined(fp8_form form, int code) {
    int fraction = form == FP8_E4M3 ? 3 : 2, bias = form == FP8_E4M3 ? 7 : 15;
    int exponent = (code & 0x7f) >> fraction, last = code & ((1 << fraction) - 1);
    double size = exponent ? ldexp(last + (1 << fraction), exponent - bias - fraction)
                           : ldexp(last, 1 - bias - fraction);
    return code & 0x80 ? -size : size;
}

static void numbers_are_those_of_the_formats(void **state) {
    (void)state;
    for (fp8_form form = FP8_E4M3; form <= FP8_E5M2; form++) {
        uint64_t sum = 0;
        for (int code = 0; code < 256; code++) {
            float x = fp8_decode(form, (uint8_t)code);
            sum = weighted(sum, (uint64_t)code, x != x ? 0x7fc00000u : half_bits(x));
            if ((code & 0x7f) >= (int)fp8_special(form)) continue;
            assert_true((double)x == defined(form, code));
            assert_int_equal(fp8_encode(form, x), code);
        }
        assert_int_equal(sum, golden_numbers[form]);
    }
}

static void what_is_too_large_saturates(void **state) {
    (void)state;
    for (fp8_form form = FP8_E4M3; form <= FP8_E5M2; form++) {
        uint32_t largest = fp8_special(form) - 1;
        float above[] = { (float)most[form], (float)most[form] * 1.04f, (float)most[form] * 2, 3e38f,
                          INFINITY };
        for (size_t i = 0; i < sizeof above / sizeof *above; i++) {
            assert_int_equal(fp8_encode(form, above[i]), largest);
            assert_int_equal(fp8_encode(form, -above[i]), largest | 0x80);
        }
        assert_int_equal(fp8_encode(form, NAN), 0x7f);
    }
}

/* ---- scales ---- */

static void scales_are_the_least_that_fit(void **state) {
    (void)state;
    for (fp8_form form = FP8_E4M3; form <= FP8_E5M2; form++)
        for (uint32_t bits = 1; bits < 0x7f800000u; bits += 65521) {
            double x = (double)half_float(bits);
            uint8_t scale = fp8_scale(form, (int32_t)bits);
            double unit = ldexp(1, scale - 127);
            assert_true(x <= most[form] * unit && scale >= FP8_LEAST_SCALE && scale < FP8_NAN_SCALE);
            assert_true(scale == FP8_LEAST_SCALE || x > most[form] * unit / 2);
        }
}

/* And so products of bf16 multiply what codes stand for. */
static void numbers_are_exact_in_bf16(void **state) {
    (void)state;
    uint8_t codes[256];
    float wide[256];
    uint16_t narrow[256];
    for (int i = 0; i < 256; i++) codes[i] = (uint8_t)i;
    for (fp8_form form = FP8_E4M3; form <= FP8_E5M2; form++)
        for (int scale = FP8_LEAST_SCALE; scale < 256 - (int)fp8_most_exponent(form); scale++) {
            fp8_decode_run(form, codes, (uint8_t)scale, 256, wide);
            fp8_decode_bf16(form, codes, (uint8_t)scale, 256, narrow);
            for (int i = 0; i < 256; i++) {
                float x = half_from_bf16(narrow[i]);
                bool small = x != 0 && fabsf(x) < 0x1p-126f; /* some instructions take these for 0 */
                if ((i & 0x7f) < (int)fp8_special(form) && (x != wide[i] || small))
                    fail_msg("code %d, scale %d: %g, in bf16 %g", i, scale, (double)wide[i], (double)x);
            }
        }
}

/* ---- calls ---- */

typedef struct {
    op_arg in[MATMUL_FP8_INPUTS], out;
    matmul_fp8_attributes attributes;
} product;

static op_arg room(dtype type, shape s) {
    op_arg x = { .shape = s, .dtype = type };
    x.data = memory_new((size_t)shape_elements(&s), dtype_bytes(type));
    assert_non_null(x.data);
    return x;
}

static op_arg drawn(dtype type, shape s, double low, double high) {
    op_arg x = room(type, s);
    harness_fill(&x, low, high, 0xf8 + (uint64_t)shape_elements(&s));
    return x;
}

/* codes, scales */
static void encode(const op_arg *x, fp8_form form, op_arg out[2]) {
    encode_fp8_attributes a = { .form = (int32_t)form };
    out[0] = room(DTYPE_U8, x->shape), out[1] = room(DTYPE_U8, encode_fp8_scales(&x->shape));
    assert_true(harness_run_kernel(
        &encode_fp8_cpu[0],
        &(op_call){ .in = x, .out = out, .in_count = 1, .out_count = 2, .attributes = &a }));
}

static void run(const product *p) {
    op_call c = { .in = p->in,
                  .out = &p->out,
                  .in_count = MATMUL_FP8_INPUTS,
                  .out_count = 1,
                  .attributes = &p->attributes };
    assert_true(harness_run_kernel(&matmul_fp8_cpu[0], &c));
}

/* y = x W and both gradients, in the forms that they have; inputs are x, W (in, out) or (out, in), and dy. */
enum { Y, DX, DW, PRODUCTS };
static product product_of(int which, const op_arg *x, const op_arg *w, const op_arg *dy, bool turned,
                          dtype type) {
    product p = { .attributes = { .tb = (which == DX) != turned, .type = (int32_t)type } };
    op_arg a[2], b[2] = { *w, { 0 } };
    bool swapped = which == DW && turned;
    encode(which == DX || swapped ? dy : x, which == DX || swapped ? FP8_E5M2 : FP8_E4M3, a);
    if (which == DX || swapped) p.attributes.a_form = FP8_E5M2;
    if (which == DW) {
        p.attributes.ta = 1, p.attributes.tb = 0;
        p.attributes.b_form = swapped ? FP8_E4M3 : FP8_E5M2;
        encode(swapped ? x : dy, (fp8_form)p.attributes.b_form, b);
    }
    p.in[MATMUL_FP8_A] = a[0], p.in[MATMUL_FP8_A_SCALES] = a[1];
    p.in[MATMUL_FP8_B] = b[0], p.in[MATMUL_FP8_B_SCALES] = b[1];
    matmul_fp8_sizes s;
    assert_true(matmul_fp8_sizes_of(&a[0].shape, &b[0].shape, &p.attributes, &s));
    p.out = room(type, SHAPE(s.rows, s.columns));
    return p;
}

static void product_free(product *p, const op_arg *w) {
    for (int i = 0; i < MATMUL_FP8_INPUTS; i++)
        if (p->in[i].data != w->data) memory_free(p->in[i].data);
    memory_free(p->out.data);
}

/* ---- beside PyTorch ---- */

static op_arg golden_input(int64_t rows, int64_t columns, int64_t of) {
    op_arg x = room(DTYPE_F32, SHAPE(rows, columns));
    for (int64_t i = 0; i < rows * columns; i++) {
        int exponent = (int)((i / columns * 5 + i % columns / 40 * 3) % 7 - 3);
        ((float *)x.data)[i] = (float)ldexp((double)((i * 7919 + of) % 2003 - 1001), exponent - 10);
    }
    return x;
}

static void assert_golden(const op_arg *y, const double golden[9], bool turned) {
    const float *x = y->data;
    int64_t n = shape_elements(&y->shape), rows = y->shape.dim[0], columns = y->shape.dim[1];
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += fabs((double)x[i]);
    assert_true(fabs(sum - golden[0]) < 1e-6 * golden[0]);
    for (int64_t k = 0; k < 8; k++) {
        int64_t i = k * 7907 % n;
        if (turned) i = i % rows * columns + i / rows;
        if (fabs((double)x[i] - golden[k + 1]) > 1e-3) fail_msg("%g, not %g", (double)x[i], golden[k + 1]);
    }
}

static void layers_are_those_of_elsewhere(void **state) {
    static const double *const golden[] = { golden_y, golden_dx, golden_dw };
    (void)state;
    op_arg x = golden_input(40, 300, 1), w = golden_input(300, 150, 2), dy = golden_input(40, 150, 3);
    op_arg turned = room(DTYPE_F32, SHAPE(150, 300));
    for (int i = 0; i < 300 * 150; i++)
        ((float *)turned.data)[i % 150 * 300 + i / 150] = ((const float *)w.data)[i];
    for (int way = 0; way < 2; way++)
        for (int which = 0; which < PRODUCTS; which++) {
            const op_arg *weight = way ? &turned : &w;
            product p = product_of(which, &x, weight, &dy, way != 0, DTYPE_F32);
            run(&p);
            assert_golden(&p.out, golden[which], way && which == DW);
            product_free(&p, weight);
        }
    memory_free(x.data), memory_free(w.data), memory_free(dy.data), memory_free(turned.data);
}

/* ---- beside bf16 ---- */

static op_arg widened(const op_arg *codes, const op_arg *scales, fp8_form form) {
    op_arg y = room(DTYPE_BF16, codes->shape);
    int64_t width = shape_last(&codes->shape), blocks = fp8_blocks(width);
    for (int64_t i = 0; i < shape_elements(&codes->shape); i++)
        fp8_decode_bf16(form, (const uint8_t *)codes->data + i,
                        ((const uint8_t *)scales->data)[i / width * blocks + i % width / FP8_TILE], 1,
                        (uint16_t *)y.data + i);
    return y;
}

/* A weight, rounded by squares: each is a row of numbers to the op that rounds rows. */
static op_arg weight_widened(const op_arg *w) {
    int64_t rows = shape_rows(&w->shape), width = shape_last(&w->shape);
    op_arg y = room(DTYPE_BF16, w->shape);
    const float *x = w->data;
    for (int64_t r = 0; r < rows; r += FP8_TILE)
        for (int64_t k = 0; k < width; k += FP8_TILE) {
            float largest = 0;
            for (int64_t i = r; i < rows && i < r + FP8_TILE; i++)
                for (int64_t j = k; j < width && j < k + FP8_TILE; j++)
                    largest = fmaxf(largest, fabsf(x[i * width + j]));
            uint8_t code, scale = fp8_scale(FP8_E4M3, (int32_t)half_bits(largest));
            for (int64_t i = r; i < rows && i < r + FP8_TILE; i++)
                for (int64_t j = k; j < width && j < k + FP8_TILE; j++) {
                    fp8_encode_run(FP8_E4M3, x + i * width + j, scale, 1, &code);
                    fp8_decode_bf16(FP8_E4M3, &code, scale, 1, (uint16_t *)y.data + i * width + j);
                }
        }
    return y;
}

static void check_against_bf16(product *p, const char *name) {
    const matmul_fp8_attributes *t = &p->attributes;
    op_arg a = widened(&p->in[MATMUL_FP8_A], &p->in[MATMUL_FP8_A_SCALES], (fp8_form)t->a_form);
    op_arg b = t->ta ? widened(&p->in[MATMUL_FP8_B], &p->in[MATMUL_FP8_B_SCALES], (fp8_form)t->b_form)
                     : weight_widened(&p->in[MATMUL_FP8_B]);
    op_arg in[] = { a, b }, should = room((dtype)t->type, p->out.shape);
    matmul_attributes of = { .ta = t->ta, .tb = t->tb, .type = t->type };
    op_call c = { .in = in, .out = &should, .in_count = 2, .out_count = 1, .attributes = &of };
    uint64_t bytes = (uint64_t)shape_elements(&should.shape) * dtype_bytes(should.dtype);
    assert_true(harness_run_kernel(&matmul_cpu[0], &c));
    for (int threads = 1; threads <= 3; threads++) {
        threads_set(threads);
        memset(p->out.data, 0xff, bytes);
        run(p);
        if (memcmp(p->out.data, should.data, bytes) != 0) fail_msg("%s: other bits than bf16's", name);
    }
    threads_set(1);
    memory_free(a.data), memory_free(b.data), memory_free(should.data);
}

static void products_are_those_of_bf16(void **state) {
    static const dtype types[] = { DTYPE_F32, DTYPE_BF16 };
    (void)state;
    op_arg x = drawn(DTYPE_F32, SHAPE(2, 270, 333), -2, 1),
           dy = drawn(DTYPE_F32, SHAPE(2, 270, 200), -1e-6, 1e-6);
    for (int i = 0; i < 2 * 2 * PRODUCTS; i++) {
        bool turned = i / PRODUCTS % 2;
        op_arg w = drawn(DTYPE_F32, turned ? SHAPE(200, 333) : SHAPE(333, 200), -0.1, 0.2);
        product p = product_of(i % PRODUCTS, &x, &w, &dy, turned, types[i / (2 * PRODUCTS)]);
        for (const matmul_kernel *const *k = matmul_kernels_pairs; *k; k++) {
            if (!(*k)->available()) continue;
            matmul_kernel_choose(*k);
            check_against_bf16(&p, (*k)->name);
        }
        const matmul_kernel *twins[] = { &matmul_kernel_avx512_bf16_twin, &matmul_kernel_amx_twin };
        for (int k = 0; k < 2; k++) matmul_kernel_choose(twins[k]), check_against_bf16(&p, twins[k]->name);
        matmul_kernel_choose(NULL);
        product_free(&p, &w);
        memory_free(w.data);
    }
    memory_free(x.data), memory_free(dy.data);
}

/* ---- parts ---- */

static op_arg rows_of(const op_arg *x, int64_t first, int64_t count) {
    op_arg y = *x;
    y.shape = SHAPE(count, shape_last(&x->shape));
    y.data = (char *)x->data + (uint64_t)(first * shape_last(&x->shape)) * dtype_bytes(x->dtype);
    return y;
}

static void parts_have_the_bits_of_the_whole(void **state) {
    static const int64_t cuts[] = { 0, 256, 768, 900 };
    (void)state;
    op_arg x = drawn(DTYPE_BF16, SHAPE(900, 150), -2, 1), dy = drawn(DTYPE_F32, SHAPE(900, 135), -1, 1);
    op_arg w = drawn(DTYPE_F32, SHAPE(150, 135), -0.1, 0.2);
    product y = product_of(Y, &x, &w, &dy, false, DTYPE_F32),
            dw = product_of(DW, &x, &w, &dy, false, DTYPE_F32);
    op_arg sum = room(DTYPE_F32, dw.out.shape);
    run(&y), run(&dw);
    for (int k = 0; k < 3; k++) {
        op_arg some = rows_of(&x, cuts[k], cuts[k + 1] - cuts[k]),
               back = rows_of(&dy, cuts[k], cuts[k + 1] - cuts[k]);
        product p = product_of(DW, &some, &w, &back, false, DTYPE_F32);
        memory_free(p.out.data);
        p.out = sum;
        if (k) p.in[MATMUL_FP8_ACCUMULATOR] = sum;
        run(&p);
        p.in[MATMUL_FP8_ACCUMULATOR] = p.out = (op_arg){ 0 };
        product_free(&p, &w);
        op_arg alone = rows_of(&x, cuts[k], 1);
        product row = product_of(Y, &alone, &w, &back, false, DTYPE_F32);
        run(&row);
        assert_memory_equal(row.out.data, rows_of(&y.out, cuts[k], 1).data, 135 * sizeof(float));
        product_free(&row, &w);
    }
    assert_memory_equal(sum.data, dw.out.data, 150 * 135 * sizeof(float));
    product_free(&y, &w), product_free(&dw, &w);
    memory_free(x.data), memory_free(dy.data), memory_free(w.data), memory_free(sum.data);
}

/* ---- what is not finite ---- */

static void what_is_not_finite_is_seen(void **state) {
    static const float bad[] = { INFINITY, -INFINITY, NAN };
    (void)state;
    op_arg x = drawn(DTYPE_F32, SHAPE(3, 300), -1, 1), w = drawn(DTYPE_F32, SHAPE(300, 8), -1, 1);
    for (int i = 0; i < 6; i++) {
        op_arg *in = i < 3 ? &x : &w;
        float *at = (float *)in->data + (i < 3 ? 300 + 130 : 131 * 8), was = *at;
        *at = bad[i % 3];
        product p = product_of(Y, &x, &w, &x, false, DTYPE_F32);
        run(&p);
        for (int k = 0; k < 24; k++) {
            float y = ((const float *)p.out.data)[k];
            assert_true((y != y) == (i >= 3 || k / 8 == 1)); /* rows of their own; all have that weight */
        }
        *at = was;
        product_free(&p, &w);
    }
    memory_free(x.data), memory_free(w.data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_are_rounded_as_elsewhere), cmocka_unit_test(numbers_are_those_of_the_formats),
        cmocka_unit_test(what_is_too_large_saturates),    cmocka_unit_test(scales_are_the_least_that_fit),
        cmocka_unit_test(numbers_are_exact_in_bf16),      cmocka_unit_test(layers_are_those_of_elsewhere),
        cmocka_unit_test(products_are_those_of_bf16),     cmocka_unit_test(parts_have_the_bits_of_the_whole),
        cmocka_unit_test(what_is_not_finite_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
