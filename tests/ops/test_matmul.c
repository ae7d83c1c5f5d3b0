/* The matrix product beyond what the harness asks of every op: its sums have one order, so the bits of an
 * element are the same from every micro-kernel, on any number of threads, and however the product is cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "autodiff/autodiff.h"
#include "base/memory.h"
#include "base/philox.h"
#include "base/threads.h"
#include "ir/op.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul/matmul_kernel.h"
#include "ops/sum_rows/sum_rows.h"

/* ---- products to try ---- */

typedef struct {
    int64_t rows, columns, depth;
    bool ta, tb;
} form;

typedef struct {
    form form;
    matmul_problem problem; /* without extras */
    float *a, *b, *bias, *extra, *y;
} product;

/* `lead` floats lie before the first: an address that is aligned to nothing else. */
static float *floats(int64_t n, uint32_t stream, int64_t lead) {
    float *x = memory_new((size_t)(n + lead), sizeof *x);
    assert_non_null(x);
    for (int64_t i = 0; i < n; i++)
        x[lead + i] =
            philox_uniform(philox_draw(7, (philox_block){ { (uint32_t)i, stream, 0, 0 } }).word[0]) - 0.5f;
    return x + lead;
}

static product product_new(form f, int64_t lead) {
    product p = { .form = f,
                  .a = floats(f.rows * f.depth, 1, lead),
                  .b = floats(f.depth * f.columns, 2, lead),
                  .bias = floats(f.columns, 3, lead),
                  .extra = floats(f.rows * f.columns, 4, lead),
                  .y = floats(f.rows * f.columns, 5, lead) };
    p.problem = (matmul_problem){ .rows = f.rows,
                                  .columns = f.columns,
                                  .depth = f.depth,
                                  .a = { p.a, f.ta ? f.rows : f.depth, f.ta },
                                  .b = { p.b, f.tb ? f.depth : f.columns, !f.tb },
                                  .y = p.y };
    return p;
}

static void product_free(product *p, int64_t lead) {
    float *all[] = { p->a, p->b, p->bias, p->extra, p->y };
    for (int i = 0; i < 5; i++) memory_free(all[i] - lead);
}

/* Scratch begins as NaN, and nothing beyond it may change. */
static void run(const matmul_problem *p) {
    enum { WALL = 64 };
    uint64_t bytes = matmul_packed_scratch(p, p->residual != NULL, threads_count());
    unsigned char *raw = memory_new(bytes + 2 * WALL, 1);
    assert_non_null(raw);
    unsigned char *scratch = raw + (WALL - (uintptr_t)raw % WALL);
    memset(scratch, 0xFF, bytes);
    memset(scratch + bytes, 0xA5, (size_t)(raw + 2 * WALL - scratch));
    matmul_packed_run(p, scratch);
    for (unsigned char *at = scratch + bytes; at < raw + bytes + 2 * WALL; at++) assert_int_equal(*at, 0xA5);
    memory_free(raw);
}

static float *run_to_new(const matmul_problem *p) {
    matmul_problem q = *p;
    float *y = memory_new((size_t)(p->rows * p->columns), sizeof *y);
    assert_non_null(y);
    q.y = y;
    run(&q);
    return y;
}

static void assert_same_bits(const float *is, const float *should, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        if (memcmp(&is[i], &should[i], sizeof is[i]) == 0 || (isnan(is[i]) && isnan(should[i]))) continue;
        print_error("element %lld of %lld is %a, not %a\n", (long long)i, (long long)n, (double)is[i],
                    (double)should[i]);
        fail();
    }
}

static int64_t elements(const product *p) { return p->form.rows * p->form.columns; }

/* Shapes around the edges of blocks, panels, tiles and steps; all four ways to transpose. */
static const int64_t sizes[][3] = { { 1, 1, 1 },    { 1, 130, 600 }, { 2, 33, 257 },  { 3, 31, 15 },
                                    { 4, 300, 40 }, { 5, 17, 9 },    { 6, 16, 256 },  { 13, 64, 255 },
                                    { 14, 32, 8 },  { 15, 47, 300 }, { 29, 95, 513 }, { 70, 129, 7 },
                                    { 65, 1, 64 },  { 130, 70, 31 } };
enum { SIZES = sizeof sizes / sizeof sizes[0], FORMS = SIZES * 4 };

static form form_of(int i) {
    const int64_t *s = sizes[i / 4];
    return (form){ s[0], s[1], s[2], (i & 1) != 0, (i & 2) != 0 };
}

/* ---- tests ---- */

static void for_every_kernel(void (*check)(form f, const char *name)) {
    int tried = 0;
    for (const matmul_kernel *const *k = matmul_kernels; *k; k++) {
        if (!(*k)->available()) continue;
        matmul_kernel_choose(*k);
        assert_ptr_equal(matmul_kernel_chosen(), *k);
        for (int i = 0; i < FORMS; i++) check(form_of(i), (*k)->name);
        tried++;
    }
    matmul_kernel_choose(NULL);
    assert_true(tried > 0);
}

/* ((0 + tile) + tile ...), each tile from 0, one fused multiply-add after the other. */
static float defined_element(const product *p, int64_t row, int64_t column) {
    const form *f = &p->form;
    float sum = 0;
    for (int64_t first = 0; first < f->depth; first += THREADS_ROW_TILE) {
        float tile = 0;
        for (int64_t k = first; k < f->depth && k < first + THREADS_ROW_TILE; k++)
            tile = fmaf(p->a[f->ta ? k * f->rows + row : row * f->depth + k],
                        p->b[f->tb ? column * f->depth + k : k * f->columns + column], tile);
        sum = sum + tile;
    }
    return sum;
}

static void check_definition(form f, const char *name) {
    (void)name;
    product p = product_new(f, 0);
    run(&p.problem);
    for (int64_t i = 0; i < elements(&p); i++) {
        float should = defined_element(&p, i / f.columns, i % f.columns);
        assert_same_bits(&p.y[i], &should, 1);
    }
    product_free(&p, 0);
}

static void every_kernel_gives_the_defined_bits(void **state) {
    (void)state;
    for_every_kernel(check_definition);
}

/* Random bits: all exponents, subnormal numbers, now and then infinity and NaN. */
static void extreme_numbers_have_the_same_bits(void **state) {
    (void)state;
    product p = product_new((form){ 40, 96, 5, false, false }, 0);
    for (int64_t i = 0; i < 40 * 5; i++) {
        philox_block b = philox_draw(8, (philox_block){ { (uint32_t)i, 0, 0, 0 } });
        memcpy(&p.a[i], &b.word[0], sizeof p.a[i]);
    }
    for (int64_t i = 0; i < 96 * 5; i++) {
        philox_block b = philox_draw(9, (philox_block){ { (uint32_t)i, 0, 0, 0 } });
        memcpy(&p.b[i], &b.word[0], sizeof p.b[i]);
        if (i % 3) p.b[i] = p.a[i % 200] > 0 ? 1 / p.a[i % 200] : p.b[i]; /* products of a common size */
    }
    for (const matmul_kernel *const *k = matmul_kernels; *k; k++) {
        if (!(*k)->available()) continue;
        matmul_kernel_choose(*k);
        run(&p.problem);
        for (int64_t i = 0; i < elements(&p); i++) {
            float should = defined_element(&p, i / 96, i % 96);
            assert_same_bits(&p.y[i], &should, 1);
        }
    }
    matmul_kernel_choose(NULL);
    product_free(&p, 0);
}

/* Sums so near the middle between two floats that rounding twice goes wrong, and products that vanish. */
static void sums_are_rounded_once(void **state) {
    (void)state;
    enum { N = 64 };
    product p = product_new((form){ N, N, 2, false, false }, 0);
    int64_t tried = 0;
    for (int64_t left = (1 << 23) + 12345; tried < N - 8; left += 7) {
        int64_t right = ((INT64_C(1) << 47) + left / 2) / left, beside = left * right - (INT64_C(1) << 47);
        if (beside == 0 || beside > 1 << 17 || beside < -(1 << 17)) continue; /* not near enough */
        float sign = tried & 1 ? -1 : 1, base = tried & 2 ? 1 : 1 + 0x1p-23f;
        p.a[tried * 2] = sign * base, p.b[tried] = 1;
        p.a[tried * 2 + 1] = sign * (float)left * 0x1p-35f, p.b[N + tried] = (float)right * 0x1p-36f;
        tried++;
    }
    for (; tried < N; tried++) {
        p.a[tried * 2] = p.a[tried * 2 + 1] = -1e-30f;
        p.b[tried] = p.b[N + tried] = 1e-30f;
    }
    int64_t twice = 0;
    for (int64_t i = 0; i < N - 8; i++) {
        double a = (double)p.a[i * 2 + 1] * (double)p.b[N + i] + (double)p.a[i * 2];
        twice += (float)a != defined_element(&p, i, i);
    }
    assert_true(twice > 8); /* the numbers are what they are meant to be */
    for (const matmul_kernel *const *k = matmul_kernels; *k; k++) {
        if (!(*k)->available()) continue;
        matmul_kernel_choose(*k);
        run(&p.problem);
        for (int64_t i = 0; i < elements(&p); i++) {
            float should = defined_element(&p, i / N, i % N);
            assert_same_bits(&p.y[i], &should, 1);
        }
    }
    matmul_kernel_choose(NULL);
    product_free(&p, 0);
}

static void check_extras(form f, const char *name) {
    (void)name;
    product p = product_new(f, 0);
    float *plain = run_to_new(&p.problem);
    for (int with = 1; with < 8; with++) { /* bias, residual, and y in the residual */
        bool bias = with & 1, residual = with & 6;
        matmul_problem q = p.problem;
        if (bias) q.bias = p.bias;
        if (residual) q.residual = p.extra;
        if (with & 4) {
            memcpy(p.y, p.extra, (size_t)elements(&p) * sizeof *p.y);
            q.residual = q.y;
        }
        run(&q);
        for (int64_t i = 0; i < elements(&p); i++) {
            float should = plain[i];
            if (bias) should = should + p.bias[i % f.columns];
            if (residual) should = should + p.extra[i];
            assert_same_bits(&p.y[i], &should, 1);
        }
    }
    memory_free(plain);
    product_free(&p, 0);
}

static void fused_additions_are_additions(void **state) {
    (void)state;
    for_every_kernel(check_extras);
}

/* Step by step through the accumulator, in place and not, is the product at once. */
static void check_steps(form f, const char *name) {
    (void)name;
    product p = product_new(f, 0);
    float *whole = run_to_new(&p.problem), *other = run_to_new(&p.problem);
    for (int64_t step = THREADS_ROW_TILE; step <= 2 * THREADS_ROW_TILE; step += THREADS_ROW_TILE) {
        float *from = other, *to = p.y;
        for (int64_t first = 0; first < f.depth; first += step) {
            matmul_problem q = p.problem;
            q.a = matmul_operand_at(&q.a, 0, first), q.b = matmul_operand_at(&q.b, 0, first);
            q.depth = f.depth - first < step ? f.depth - first : step;
            q.accumulator = first ? from : NULL;
            q.y = step == THREADS_ROW_TILE ? to : from; /* from one to the other, or in place */
            run(&q);
            if (step == THREADS_ROW_TILE) to = from, from = q.y;
        }
        assert_same_bits(from, whole, elements(&p));
    }
    memory_free(whole);
    memory_free(other);
    product_free(&p, 0);
}

static void the_summed_dimension_can_be_cut_at_tiles(void **state) {
    (void)state;
    for_every_kernel(check_steps);
}

/* Rows and columns by themselves, in groups that take other paths: few rows, ends of panels. */
static void check_cuts(form f, const char *name) {
    (void)name;
    product p = product_new(f, 0);
    run(&p.problem);
    static const int64_t groups[] = { 1, 3, 11, 40 };
    for (int g = 0; g < 4; g++) {
        for (int64_t row = 0; row < f.rows; row += groups[g]) {
            matmul_problem q = p.problem;
            q.rows = f.rows - row < groups[g] ? f.rows - row : groups[g];
            q.a = matmul_operand_at(&q.a, row, 0);
            float *part = run_to_new(&q);
            assert_same_bits(part, p.y + row * f.columns, q.rows * f.columns);
            memory_free(part);
        }
        int64_t column = f.columns * g / 4;
        matmul_problem q = p.problem;
        q.columns = f.columns - column < groups[g] ? f.columns - column : groups[g];
        q.b = matmul_operand_at(&q.b, column, 0);
        float *part = run_to_new(&q);
        for (int64_t row = 0; row < f.rows; row++)
            assert_same_bits(part + row * q.columns, p.y + row * f.columns + column, q.columns);
        memory_free(part);
    }
    product_free(&p, 0);
}

static void rows_and_columns_can_be_cut_anywhere(void **state) {
    (void)state;
    for_every_kernel(check_cuts);
}

static void threads_and_addresses_do_not_matter(void **state) {
    (void)state;
    static const form forms[] = { { 600, 700, 520, false, false },
                                  { 1030, 40, 30, true, false },
                                  { 3, 1100, 300, false, true },
                                  { 20, 2000, 65, true, true } };
    for (int i = 0; i < 4; i++) {
        product p = product_new(forms[i], 0), shifted = product_new(forms[i], 1);
        p.problem.residual = p.extra, p.problem.bias = p.bias;
        shifted.problem.residual = shifted.extra, shifted.problem.bias = shifted.bias;
        run(&p.problem);
        for (int threads = 1; threads <= 3; threads++) {
            threads_set(threads);
            float *y = run_to_new(&p.problem);
            assert_same_bits(y, p.y, elements(&p));
            memory_free(y);
            run(&shifted.problem);
            assert_same_bits(shifted.y, p.y, elements(&p));
        }
        threads_set(1);
        product_free(&p, 0);
        product_free(&shifted, 1);
    }
}

/* What is not a number stays in its row or column, also where panels are filled up. */
static void infinity_does_not_spread(void **state) {
    (void)state;
    for (int t = 0; t < 4; t++) {
        product p = product_new((form){ 31, 45, 20, t & 1, t & 2 }, 0);
        for (int64_t k = 0; k < 20; k++) p.a[p.form.ta ? k * 31 + 30 : 30 * 20 + k] = INFINITY;
        for (int64_t k = 0; k < 20; k++) p.b[p.form.tb ? 44 * 20 + k : k * 45 + 44] = NAN;
        run(&p.problem);
        for (int64_t i = 0; i < elements(&p); i++)
            assert_int_equal(isfinite(p.y[i]) != 0, i / 45 != 30 && i % 45 != 44);
        product_free(&p, 0);
    }
}

static void scratch_is_bounded(void **state) {
    (void)state;
    static const int64_t big[][3] = {
        { 256, 768, 768 }, { 1024, 50257, 768 }, { 1024, 768, 50257 },         { 50257, 768, 1024 },
        { 511, 513, 257 }, { 1, 50257, 768 },    { 1 << 20, 1 << 20, 1 << 20 }
    };
    for (int i = 0; i < 7; i++) {
        matmul_problem p = { .rows = big[i][0], .columns = big[i][1], .depth = big[i][2] };
        for (int threads = 1; threads <= 40; threads++)
            for (int residual = 0; residual < 2; residual++) {
                uint64_t bytes = matmul_packed_scratch(&p, residual, threads);
                assert_true(bytes <= (uint64_t)threads * 2 << 20);
                assert_true(bytes % 64 == 0);
                /* what was planned serves a run with fewer threads */
                assert_true(threads == 1 || bytes >= matmul_packed_scratch(&p, residual, threads - 1));
            }
    }
}

/* ---- the op in a graph ---- */

static tensor_id source(graph *g, const char *name, shape s, dtype type, bool trainable) {
    return graph_add_source(g, &(graph_source){ .name = name,
                                                .shape = s,
                                                .dtype = type,
                                                .role = trainable ? ROLE_PARAMETER : ROLE_INPUT,
                                                .flags = trainable ? TENSOR_TRAINABLE : 0 });
}

static void assert_refused(matmul_inputs in, shape extra, dtype type, const char *word) {
    graph g;
    assert_int_equal(graph_open(&g), STATUS_OK);
    tensor_id a = source(&g, "a", SHAPE(2, 3, 8), DTYPE_F32, false);
    tensor_id b = source(&g, "b", SHAPE(8, 5), DTYPE_F32, false);
    tensor_id c = source(&g, "c", extra, type, false);
    in.a = a, in.b = b;
    if (in.bias) in.bias = c;
    if (in.residual) in.residual = c;
    if (in.accumulator) in.accumulator = c;
    assert_int_equal(matmul_apply(&g, &in), 0);
    assert_int_equal(graph_status(&g), STATUS_INVALID);
    if (!strstr(status_message(), word)) fail_msg("'%s' does not say '%s'", status_message(), word);
    graph_close(&g);
}

static void what_does_not_fit_is_refused(void **state) {
    (void)state;
    assert_refused((matmul_inputs){ .tb = true }, SHAPE(5), DTYPE_F32, "(8,5)");
    assert_refused((matmul_inputs){ .ta = true }, SHAPE(5), DTYPE_F32, "(2,3,8)");
    assert_refused((matmul_inputs){ .bias = 1 }, SHAPE(4), DTYPE_F32, "bias");
    assert_refused((matmul_inputs){ .bias = 1 }, SHAPE(5), DTYPE_F64, "f64");
    assert_refused((matmul_inputs){ .residual = 1 }, SHAPE(6, 5), DTYPE_F32, "(6,5)");
    assert_refused((matmul_inputs){ .accumulator = 1 }, SHAPE(2, 3, 4), DTYPE_F32, "(2,3,4)");
    assert_refused((matmul_inputs){ .accumulator = 1, .residual = 1 }, SHAPE(2, 3, 5), DTYPE_F32,
                   "accumulator");
}

/* A weight used twice has one gradient, in one place; data used twice takes no addition afterwards. */
static void gradients_are_gathered_in_the_products(void **state) {
    (void)state;
    graph g;
    assert_int_equal(graph_open(&g), STATUS_OK);
    tensor_id x = source(&g, "x", SHAPE(2, 3, 8), DTYPE_F32, false);
    tensor_id w = source(&g, "w", SHAPE(8, 5), DTYPE_F32, true),
              v = source(&g, "v", SHAPE(8, 8), DTYPE_F32, true);
    tensor_id h = matmul_apply(&g, &(matmul_inputs){ .a = x, .b = v });
    tensor_id y1 = matmul_apply(&g, &(matmul_inputs){ .a = h, .b = w });
    tensor_id y2 = matmul_apply(&g, &(matmul_inputs){ .a = h, .b = w });
    tensor_id d1 = source(&g, "d1", SHAPE(2, 3, 5), DTYPE_F32, false);
    tensor_id d2 = source(&g, "d2", SHAPE(2, 3, 5), DTYPE_F32, false);
    uint32_t before = g.nodes.count;
    tensor_id gradient[64] = { 0 };
    autodiff_seed seeds[] = { { y1, d1 }, { y2, d2 } };
    assert_int_equal(autodiff_run(&g, seeds, 2, NULL, gradient), STATUS_OK);
    for (node_id n = before; n < g.nodes.count; n++)
        assert_string_equal(graph_node(&g, n)->op->name, "matmul");
    assert_int_equal(g.nodes.count - before, 5); /* w and h twice, v once */
    assert_true(graph_tensor(&g, gradient[w])->base != 0);
    assert_true(graph_tensor(&g, gradient[w])->flags & TENSOR_GRADIENT);
    assert_true(shape_equal(graph_shape(&g, gradient[h]), graph_shape(&g, h)));
    assert_int_equal(gradient[x], 0);
    graph_close(&g);
}

/* ---- sums over rows ---- */

static void run_sum_rows(float *x, int64_t rows, int64_t width, float *accumulator, float *out) {
    op_arg in[] = { { x, SHAPE(rows, width), DTYPE_F32 },
                    { accumulator, SHAPE(width), accumulator ? DTYPE_F32 : DTYPE_NONE } };
    op_arg to = { out, SHAPE(width), DTYPE_F32 };
    op_call c = { .in = in, .out = &to, .in_count = 2, .out_count = 1 };
    c.scratch_bytes = sum_rows_cpu[0].scratch(&c, threads_count());
    char *raw = memory_new(c.scratch_bytes + 64, 1);
    assert_non_null(raw);
    c.scratch = raw + (64 - (uintptr_t)raw % 64);
    sum_rows_cpu[0].run(&c);
    memory_free(raw);
}

static void sums_over_rows_can_be_cut_at_tiles(void **state) {
    (void)state;
    enum { ROWS = 1300, WIDTH = 77 };
    float *x = floats(ROWS * WIDTH, 6, 0), whole[WIDTH], parts[WIDTH];
    run_sum_rows(x, ROWS, WIDTH, NULL, whole);
    for (int threads = 1; threads <= 3; threads++)
        for (int64_t step = THREADS_ROW_TILE; step < ROWS; step += THREADS_ROW_TILE) {
            threads_set(threads);
            for (int64_t row = 0; row < ROWS; row += step)
                run_sum_rows(x + row * WIDTH, ROWS - row < step ? ROWS - row : step, WIDTH,
                             row ? parts : NULL, parts);
            assert_same_bits(parts, whole, WIDTH);
        }
    threads_set(1);
    memory_free(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kernel_gives_the_defined_bits),
        cmocka_unit_test(extreme_numbers_have_the_same_bits),
        cmocka_unit_test(sums_are_rounded_once),
        cmocka_unit_test(fused_additions_are_additions),
        cmocka_unit_test(the_summed_dimension_can_be_cut_at_tiles),
        cmocka_unit_test(rows_and_columns_can_be_cut_anywhere),
        cmocka_unit_test(threads_and_addresses_do_not_matter),
        cmocka_unit_test(infinity_does_not_spread),
        cmocka_unit_test(scratch_is_bounded),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(gradients_are_gathered_in_the_products),
        cmocka_unit_test(sums_over_rows_can_be_cut_at_tiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
