/* Products of floats of 8 bits on tensor cores, emulated, by warps, by groups of warps and in tensor memory.
 * Along a row: the bits of parts of FP8_TILE depths, scaled and added one after the other, whatever the tile
 * and the address; rows alone and among others. Over rows: those of the product of 16 bits on what codes
 * stand for, also where it is cut at whole slices.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#ifdef SNUG_CUDA_EMULATED

#include <math.h>
#include <string.h>

#include "base/instructions.h"
#include "base/least.h"
#include "base/memory.h"
#include "base/threads.h"
#include "harness_memory.h"
#include "ops/encode_fp8/encode_fp8.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul_fp8/matmul_fp8.h"

enum { SLICE = THREADS_ROW_TILE, MMA = 32 /* depths */ };

/* Products that are tested: as instructions_pin has it, and on what GPU. */
typedef struct {
    const char *pin, *kernel;
    uint32_t capability;
} kind;
static const kind kinds[] = {
    { INSTRUCTIONS_TENSOR, "matmul_fp8_cuda_tensor", 89 },
    { INSTRUCTIONS_GROUPS, "matmul_fp8_cuda_group", 90 },
    { INSTRUCTIONS_GROUPS, "matmul_fp8_cuda_tmem", 100 },
};
static const kind *tested = kinds;

/* The first of the list that takes a call; NULL: none. */
static const op_kernel *first_of(const op_kernel *k, const op_call *c) {
    while (k->name && !k->accepts(c)) k++;
    return k->name ? k : NULL;
}

static op_arg room(dtype type, shape s) {
    op_arg x = { .shape = s, .dtype = type };
    x.data = memory_new((size_t)shape_elements(&s) + 8, dtype_bytes(type));
    assert_non_null(x.data);
    return x;
}

static size_t bytes_of(const op_arg *x) { return (size_t)shape_elements(&x->shape) * dtype_bytes(x->dtype); }

static op_arg drawn(dtype type, shape s, double low, double high) {
    op_arg x = room(type, s);
    harness_fill(&x, low, high, 0x8f + (uint64_t)shape_elements(&s));
    return x;
}

/* Codes, and their scales. */
typedef struct {
    op_arg codes, scales;
    fp8_form form;
} coded;

static coded coded_of(const op_arg *x, fp8_form form) {
    encode_fp8_attributes a = { .form = (int32_t)form };
    op_arg out[] = { room(DTYPE_U8, x->shape), room(DTYPE_U8, encode_fp8_scales(&x->shape)) };
    op_call c = { .in = x, .out = out, .in_count = 1, .out_count = 2, .attributes = &a };
    assert_true(harness_run_kernel(&encode_fp8_cpu[0], &c));
    return (coded){ out[0], out[1], form };
}

/* Every row with a scale of its own, and every tile of it. */
static coded coded_rows(int64_t rows, int64_t width, fp8_form form) {
    op_arg x = drawn(DTYPE_F32, SHAPE(rows, width), -1, 1);
    for (int64_t i = 0; i < rows * width; i++)
        ((float *)x.data)[i] *= (float)ldexp(1, (int)((i / width * 3 + i % width / FP8_TILE * 5) % 11) - 5);
    coded y = coded_of(&x, form);
    memory_free(x.data);
    return y;
}

static void coded_free(coded *x) { memory_free(x->codes.data), memory_free(x->scales.data); }

static float number_of(const coded *x, int64_t row, int64_t column) {
    int64_t width = shape_last(&x->codes.shape);
    uint8_t scale = ((const uint8_t *)x->scales.data)[row * fp8_blocks(width) + column / FP8_TILE];
    return fp8_decode(x->form, ((const uint8_t *)x->codes.data)[row * width + column]) *
           fp8_scale_value(scale);
}

static coded rows_of(const coded *x, int64_t first, int64_t count) {
    coded y = *x;
    int64_t width = shape_last(&x->codes.shape), blocks = shape_last(&x->scales.shape);
    y.codes.shape = SHAPE(count, width), y.codes.data = (uint8_t *)x->codes.data + first * width;
    y.scales.shape = SHAPE(count, blocks), y.scales.data = (uint8_t *)x->scales.data + first * blocks;
    return y;
}

/* A call on tensor cores; inputs that are not given are absent. */
static op_arg product(op_arg in[MATMUL_FP8_INPUTS], const matmul_fp8_attributes *t, op_arg y) {
    op_call c = { .in = in,
                  .out = &y,
                  .in_count = MATMUL_FP8_INPUTS,
                  .out_count = 1,
                  .capability = tested->capability,
                  .attributes = t };
    const op_kernel *k = first_of(op_matmul_fp8.tensor, &c);
    assert_non_null(k);
    assert_string_equal(k->name, tested->kernel);
    assert_true(harness_run_kernel(k, &c));
    return y;
}

/* ---- along rows ---- */

typedef struct {
    int64_t rows, columns, depth;
    bool tb;
    fp8_form a_form;
    dtype w;
} form;

typedef struct {
    form f;
    coded a;
    op_arg w, bias, y;
} along;

static op_arg along_product(const along *p, const coded *a, bool biased, dtype type) {
    matmul_fp8_attributes t = { .tb = p->f.tb, .type = (int32_t)type, .a_form = (int32_t)p->f.a_form };
    op_arg in[MATMUL_FP8_INPUTS] = {
        [MATMUL_FP8_A] = a->codes, [MATMUL_FP8_A_SCALES] = a->scales, [MATMUL_FP8_B] = p->w
    };
    if (biased) in[MATMUL_FP8_BIAS] = p->bias;
    return product(in, &t, room(type, SHAPE(a->codes.shape.dim[0], p->f.columns)));
}

static void along_open(along *p, const form *f) {
    *p = (along){ .f = *f,
                  .a = coded_rows(f->rows, f->depth, f->a_form),
                  .w = drawn(f->w, f->tb ? SHAPE(f->columns, f->depth) : SHAPE(f->depth, f->columns), -1, 2),
                  .bias = drawn(DTYPE_F32, SHAPE(f->columns), -3, 3) };
    p->y = along_product(p, &p->a, true, DTYPE_F32);
}

static void along_close(along *p) {
    coded_free(&p->a);
    memory_free(p->w.data), memory_free(p->bias.data), memory_free(p->y.data);
}

static float weight_at(const along *p, int64_t depth, int64_t column) {
    int64_t at = p->f.tb ? column * p->f.depth + depth : depth * p->f.columns + column;
    return p->w.dtype == DTYPE_F32 ? ((const float *)p->w.data)[at]
                                   : half_from_bf16(((const uint16_t *)p->w.data)[at]);
}

/* Of the square where this is. */
static uint8_t square_of(const along *p, int64_t depth, int64_t column) {
    int32_t largest = 0;
    int64_t d = depth / FP8_TILE * FP8_TILE, c = column / FP8_TILE * FP8_TILE;
    for (int64_t i = d; i < least(p->f.depth, d + FP8_TILE); i++)
        for (int64_t j = c; j < least(p->f.columns, c + FP8_TILE); j++) {
            int32_t size = (int32_t)half_bits(fabsf(weight_at(p, i, j)));
            largest = size > largest ? size : largest;
        }
    return fp8_scale(FP8_E4M3, largest);
}

/* A sum as its header has it: each mma rounds once, and each part is added with its scales. */
static float sum_at(const along *p, int64_t row, int64_t column) {
    int64_t depth = p->f.depth;
    float sum = 0;
    for (int64_t k = 0; k < depth; k += FP8_TILE) {
        uint8_t square = square_of(p, k, column);
        const uint8_t *codes = (const uint8_t *)p->a.codes.data + row * depth;
        uint8_t scale = ((const uint8_t *)p->a.scales.data)[row * fp8_blocks(depth) + k / FP8_TILE];
        float part = 0;
        for (int64_t m = k; m < least(depth, k + FP8_TILE); m += MMA) {
            double exact = (double)part;
            for (int64_t d = m; d < least(depth, m + MMA); d++) {
                uint8_t code = fp8_encode(FP8_E4M3, weight_at(p, d, column) * fp8_inverse(square));
                exact += (double)fp8_decode(p->f.a_form, codes[d]) * (double)fp8_decode(FP8_E4M3, code);
            }
            part = (float)exact;
        }
        sum = fmaf(part, fp8_scale_value(scale) * fp8_scale_value(square), sum);
    }
    return sum;
}

static void sums_are_those_of_parts(const along *p) {
    const form *f = &p->f;
    for (int64_t i = 0; i < f->rows; i += 1 + f->rows / 5)
        for (int64_t j = 0; j < f->columns; j += 1 + f->columns / 7) {
            float is = ((const float *)p->y.data)[i * f->columns + j];
            float should = sum_at(p, i, j) + ((const float *)p->bias.data)[j];
            if (half_bits(is) != half_bits(should))
                fail_msg("%lld, %lld: %.9g, not %.9g", (long long)i, (long long)j, (double)is,
                         (double)should);
        }
}

static void rows_alone_are_the_same(const along *p, int64_t first, int64_t count) {
    coded some = rows_of(&p->a, first, count);
    op_arg y = along_product(p, &some, true, DTYPE_F32);
    assert_memory_equal(y.data, (const float *)p->y.data + first * p->f.columns,
                        (size_t)(count * p->f.columns) * sizeof(float));
    memory_free(y.data);
}

/* By `shift` bytes. */
static coded moved(const coded *x, int shift) {
    coded y = { room(DTYPE_U8, x->codes.shape), room(DTYPE_U8, x->scales.shape), x->form };
    y.codes.data = memcpy((char *)y.codes.data + shift, x->codes.data, bytes_of(&x->codes));
    y.scales.data = memcpy((char *)y.scales.data + shift, x->scales.data, bytes_of(&x->scales));
    return y;
}
static void moved_free(coded *x, int shift) {
    memory_free((char *)x->codes.data - shift), memory_free((char *)x->scales.data - shift);
}

static void other_addresses_are_the_same(const along *p) {
    for (int shift = 1; shift < 8; shift += 2) {
        coded a = moved(&p->a, shift);
        op_arg y = along_product(p, &a, true, DTYPE_F32);
        assert_memory_equal(y.data, p->y.data, (size_t)(p->f.rows * p->f.columns) * sizeof(float));
        memory_free(y.data), moved_free(&a, shift);
    }
}

static void narrowed_is_rounded_once(const along *p) {
    op_arg y = along_product(p, &p->a, true, DTYPE_BF16);
    for (int64_t i = 0; i < p->f.rows * p->f.columns; i++)
        assert_int_equal(((const uint16_t *)y.data)[i], half_to_bf16(((const float *)p->y.data)[i]));
    memory_free(y.data);
}

/* Small tiles and large ones, depths that end within a word, a copy, a tile. */
static void a_row_has_its_bits(void **state) {
    (void)state;
    static const form forms[] = {
        { 70, 136, 512, false, FP8_E4M3, DTYPE_F32 },   { 33, 130, 301, true, FP8_E4M3, DTYPE_F32 },
        { 129, 64, 144, true, FP8_E5M2, DTYPE_BF16 },   { 40, 67, 37, false, FP8_E5M2, DTYPE_BF16 },
        { 1290, 1282, 272, true, FP8_E4M3, DTYPE_F32 }, { 1, 200, 645, false, FP8_E5M2, DTYPE_F32 },
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        along p;
        along_open(&p, &forms[i]);
        sums_are_those_of_parts(&p);
        rows_alone_are_the_same(&p, 0, 1), rows_alone_are_the_same(&p, p.f.rows / 2, (p.f.rows + 1) / 2);
        if (p.f.rows < 1000) other_addresses_are_the_same(&p), narrowed_is_rounded_once(&p);
        along_close(&p);
    }
}

/* ---- over rows ---- */

typedef struct {
    coded a, b;
    op_arg y;
} over;

static op_arg over_rows(const coded *a, const coded *b, op_arg *accumulator) {
    matmul_fp8_attributes t = {
        .ta = 1, .type = DTYPE_F32, .a_form = (int32_t)a->form, .b_form = (int32_t)b->form
    };
    op_arg in[MATMUL_FP8_INPUTS] = { [MATMUL_FP8_A] = a->codes,
                                     [MATMUL_FP8_A_SCALES] = a->scales,
                                     [MATMUL_FP8_B] = b->codes,
                                     [MATMUL_FP8_B_SCALES] = b->scales };
    shape s = SHAPE(shape_last(&a->codes.shape), shape_last(&b->codes.shape));
    if (accumulator) in[MATMUL_FP8_ACCUMULATOR] = *accumulator;
    return product(in, &t, accumulator ? *accumulator : room(DTYPE_F32, s));
}

static op_arg widened(const coded *x) {
    op_arg y = room(DTYPE_BF16, x->codes.shape);
    int64_t width = shape_last(&y.shape);
    for (int64_t i = 0; i < shape_elements(&y.shape); i++)
        ((uint16_t *)y.data)[i] = half_to_bf16(number_of(x, i / width, i % width));
    return y;
}

static void is_the_product_of_bf16(const over *p) {
    op_arg in[] = { widened(&p->a), widened(&p->b) }, y = room(DTYPE_F32, p->y.shape);
    matmul_attributes t = { .ta = 1, .type = DTYPE_F32 };
    op_call c = {
        .in = in, .out = &y, .in_count = 2, .out_count = 1, .capability = tested->capability, .attributes = &t
    };
    const op_kernel *k = first_of(op_matmul.tensor, &c);
    assert_non_null(k);
    k->run(&c);
    assert_memory_equal(y.data, p->y.data, (size_t)shape_elements(&y.shape) * sizeof(float));
    memory_free(in[0].data), memory_free(in[1].data), memory_free(y.data);
}

static bool cut_is_the_same(const over *p, int64_t cut) {
    int64_t rows = p->a.codes.shape.dim[0];
    coded first[] = { rows_of(&p->a, 0, cut), rows_of(&p->b, 0, cut) };
    coded rest[] = { rows_of(&p->a, cut, rows - cut), rows_of(&p->b, cut, rows - cut) };
    op_arg y = over_rows(&first[0], &first[1], NULL);
    over_rows(&rest[0], &rest[1], &y);
    bool same = memcmp(y.data, p->y.data, (size_t)shape_elements(&y.shape) * sizeof(float)) == 0;
    memory_free(y.data);
    return same;
}

static void sums_over_rows_are_those_of_bf16(void **state) {
    (void)state;
    static const struct {
        int64_t depth, rows, columns;
        fp8_form a, b;
    } forms[] = { { 3 * SLICE + 40, 72, 56, FP8_E4M3, FP8_E5M2 },
                  { 2 * SLICE + 3, 67, 139, FP8_E5M2, FP8_E4M3 },
                  { 40, 300, 130, FP8_E4M3, FP8_E4M3 },
                  { SLICE + 16, 1290, 1288, FP8_E4M3, FP8_E5M2 } };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        over p = { .a = coded_rows(forms[i].depth, forms[i].rows, forms[i].a),
                   .b = coded_rows(forms[i].depth, forms[i].columns, forms[i].b) };
        p.y = over_rows(&p.a, &p.b, NULL);
        is_the_product_of_bf16(&p);
        for (int64_t cut = SLICE; cut < forms[i].depth; cut += SLICE) assert_true(cut_is_the_same(&p, cut));
        if (i == 0) assert_false(cut_is_the_same(&p, SLICE + 48)); /* which shows that bits depend on it */
        coded_free(&p.a), coded_free(&p.b), memory_free(p.y.data);
    }
}

/* ---- what is not finite, and what is not asked for ---- */

static void what_is_not_finite_is_seen(void **state) {
    (void)state;
    op_arg x = drawn(DTYPE_F32, SHAPE(5, 300), -1, 1);
    ((float *)x.data)[2 * 300 + 130] = INFINITY;
    along p = { .f = { 5, 70, 300, true, FP8_E4M3, DTYPE_F32 },
                .a = coded_of(&x, FP8_E4M3),
                .w = drawn(DTYPE_F32, SHAPE(70, 300), -1, 1) };
    op_arg y = along_product(&p, &p.a, false, DTYPE_F32), dw = over_rows(&p.a, &p.a, NULL);
    for (int i = 0; i < 5 * 70; i++) assert_int_equal(isnan(((float *)y.data)[i]) != 0, i / 70 == 2);
    for (int i = 0; i < 300 * 300; i++) /* the whole tile has no numbers */
        assert_int_equal(isnan(((float *)dw.data)[i]) != 0,
                         i / 300 / FP8_TILE == 1 || i % 300 / FP8_TILE == 1);
    memory_free(x.data), memory_free(y.data), memory_free(dw.data), memory_free(p.w.data);
    coded_free(&p.a);
}

static void they_are_asked_for(void **state) {
    (void)state;
    static const struct {
        const char *pin;
        uint32_t capability;
        bool over_rows;
        const char *taken; /* NULL: none */
    } cases[] = { { INSTRUCTIONS_TENSOR, 90, false, NULL },
                  { INSTRUCTIONS_TENSOR, 90, true, "matmul_fp8_cuda_tensor" },
                  { INSTRUCTIONS_TENSOR, 89, false, "matmul_fp8_cuda_tensor" },
                  { INSTRUCTIONS_TENSOR, 86, false, NULL },
                  { INSTRUCTIONS_TENSOR, 100, false, NULL },
                  { INSTRUCTIONS_TENSOR, 100, true, "matmul_fp8_cuda_tensor" },
                  { INSTRUCTIONS_TENSOR, 120, false, "matmul_fp8_cuda_tensor" },
                  { INSTRUCTIONS_TENSOR, 80, true, "matmul_fp8_cuda_tensor" },
                  { INSTRUCTIONS_TENSOR, 75, true, NULL },
                  { INSTRUCTIONS_GROUPS, 90, false, "matmul_fp8_cuda_group" },
                  { INSTRUCTIONS_GROUPS, 90, true, "matmul_fp8_cuda_group" },
                  { INSTRUCTIONS_GROUPS, 89, false, "matmul_fp8_cuda_tensor" },
                  { INSTRUCTIONS_GROUPS, 100, false, "matmul_fp8_cuda_tmem" },
                  { INSTRUCTIONS_GROUPS, 100, true, "matmul_fp8_cuda_tmem" },
                  { INSTRUCTIONS_GROUPS, 103, false, NULL }, /* which can't run that code */
                  { INSTRUCTIONS_GROUPS, 103, true, "matmul_fp8_cuda_tensor" },
                  { "auto", 90, false, NULL }, /* until a GPU has confirmed them */
                  { "widened", 90, true, NULL } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        matmul_fp8_attributes t = { .ta = cases[i].over_rows, .type = DTYPE_F32 };
        op_arg in[MATMUL_FP8_INPUTS] = {
            [MATMUL_FP8_A] = { .dtype = DTYPE_U8 }, [MATMUL_FP8_B] = { .dtype = t.ta ? DTYPE_U8 : DTYPE_BF16 }
        };
        op_arg y = { .dtype = DTYPE_F32 };
        op_call c = { .in = in,
                      .out = &y,
                      .in_count = MATMUL_FP8_INPUTS,
                      .out_count = 1,
                      .capability = cases[i].capability,
                      .attributes = &t };
        assert_int_equal(instructions_pin(cases[i].pin), STATUS_OK);
        const op_kernel *k = first_of(op_matmul_fp8.tensor, &c);
        assert_int_equal(k != NULL, cases[i].taken != NULL);
        if (k) assert_string_equal(k->name, cases[i].taken);
    }
    assert_int_equal(instructions_pin(tested->pin), STATUS_OK);
}

/* With an argument, the test of that name only. */
int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_are_asked_for),
        cmocka_unit_test(a_row_has_its_bits),
        cmocka_unit_test(sums_over_rows_are_those_of_bf16),
        cmocka_unit_test(what_is_not_finite_is_seen),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    int failed = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        tested = kinds + i;
        if (instructions_pin(tested->pin) != STATUS_OK) return 1;
        failed += cmocka_run_group_tests_name(tested->kernel, tests, NULL, NULL);
    }
    return failed;
}

#else

#include "emulation_left_out.h"

int main(void) { return emulation_left_out("products of floats of 8 bits on tensor cores"); }

#endif
