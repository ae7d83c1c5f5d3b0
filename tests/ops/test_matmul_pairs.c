/* Products of bf16 by instructions that multiply it as it is: what they do is what their twins in plain C do,
 * and whole products have the bits of the twins' products, wherever they are cut and however many threads
 * there are. Instructions that this machine lacks are tried by their twins alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/instructions.h"
#include "base/memory.h"
#include "base/philox.h"
#include "base/threads.h"
#include "ops/matmul/matmul_kernel.h"
#include "ops/native.h"

static uint32_t word_at(uint32_t stream, int64_t i) {
    return philox_draw(11, (philox_block){ { (uint32_t)(i / 4), stream, 0, 0 } }).word[i % 4];
}

/* ---- the instruction ---- */

static bool same(float x, float y) { return memcmp(&x, &y, sizeof x) == 0 || (isnan(x) && isnan(y)); }

#if defined(__x86_64__)
#include <immintrin.h>

enum { LANES = 16 };

__attribute__((target("avx512f,avx512bf16"))) static void by_processor(const float *sum, const uint32_t *a,
                                                                       const uint32_t *b, float *y) {
    __m512bh of_a = (__m512bh)_mm512_loadu_si512(a), of_b = (__m512bh)_mm512_loadu_si512(b);
    _mm512_storeu_ps(y, _mm512_dpbf16_ps(_mm512_loadu_ps(sum), of_a, of_b));
}

static void check_lanes(const float *sum, const uint32_t *a, const uint32_t *b) {
    float y[LANES];
    by_processor(sum, a, b, y);
    for (int i = 0; i < LANES; i++) {
        float twin = native_dpbf16ps(sum[i], a[i], b[i]);
        if (!same(y[i], twin))
            fail_msg("%a + %08x * %08x is %a, its twin says %a", (double)sum[i], a[i], b[i], (double)y[i],
                     (double)twin);
    }
}

/* Zeros, the least and largest subnormal and normal numbers, infinities, NaN, and numbers whose products lie
 * at the end of the exponents. */
static const uint16_t edges[] = { 0,      0x8000, 1,      0x8001, 0x7f,   0x80,   0x8080, 0x81,
                                  0x7f80, 0xff80, 0x7fc0, 0x7f81, 0x7f7f, 0xff7f, 0x3f80, 0xbf80,
                                  0x3f81, 0x2000, 0xa000, 0x1f80, 0x2080, 0x1fff, 0x0100, 0x4000 };
enum { EDGES = sizeof edges / sizeof *edges, KINDS = 4 };

static uint16_t half_of(uint32_t word, int kind) {
    switch (kind) {
    case 0: return (uint16_t)word;
    case 1: return edges[word % EDGES];
    case 2: return (uint16_t)((word & 0x80ff) | (30 + (word >> 8) % 4) << 8);
    default: return (uint16_t)(0x3f00 + (word & 0x80ff));
    }
}

static float sum_of(uint32_t word, int kind) {
    uint32_t bits = word;
    if (kind == 1) bits = (uint32_t)edges[word % EDGES] << 16 | (word % 3 ? 0 : word >> 16);
    if (kind == 2) bits = (word & 0x80ffffff) | (word >> 24 & 3) << 23;
    if (kind == 3) bits = (word & 0x80ffffff) | 0x3f000000;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void the_twin_does_what_the_instruction_does(void **state) {
    (void)state;
    if (!instructions_present(INSTRUCTIONS_AVX512_BF16)) skip();
    for (int64_t k = 0; k < 100000; k++) {
        float sum[LANES];
        uint32_t a[LANES], b[LANES];
        for (int i = 0; i < LANES; i++) {
            int64_t at = (k * LANES + i) * 4;
            int kind = (int)(k % KINDS);
            uint32_t x = word_at(1, at), y = word_at(1, at + 1);
            a[i] = half_of(x, kind) | (uint32_t)half_of(x >> 16, kind) << 16;
            b[i] = half_of(y, kind) | (uint32_t)half_of(y >> 16, kind) << 16;
            sum[i] = sum_of(word_at(1, at + 2), kind);
        }
        check_lanes(sum, a, b);
    }
}

/* Just below the smallest normal number, where what is too small shows only before it is rounded. */
static void the_smallest_numbers_are_flushed_as_there(void **state) {
    (void)state;
    if (!instructions_present(INSTRUCTIONS_AVX512_BF16)) skip();
    int64_t kept = 0, flushed = 0;
    for (uint32_t shift = 0; shift < 8; shift++)
        for (uint32_t m = 0; m < 128; m++) {
            float sum[LANES];
            uint32_t a[LANES], b[LANES];
            for (int i = 0; i < LANES; i++) {
                int up = i % 2 ? 16 : 0;
                sum[i] = i & 2 ? -0x1p-126f : 0x1p-126f;
                a[i] = (0x1a00u | m) << up, b[i] = ((i & 2 ? 0x1a80u : 0x9a80u) - shift * 0x80u) << up;
            }
            check_lanes(sum, a, b);
            float y = native_dpbf16ps(sum[0], a[0], b[0]);
            kept += y > 0, flushed += y == 0;
        }
    assert_true(kept > 100 && flushed > 100);
}
#endif

/* ---- packing ---- */

typedef struct {
    int64_t lines, depth, width;
    bool across;
} packing;

static void check_packing(matmul_pack *fast, matmul_pack *plain, const packing *f) {
    int64_t runs = f->across ? f->depth : f->lines, run = f->across ? f->lines : f->depth, stride = run + 3;
    int64_t filled = (f->depth + MATMUL_PAIRS_FILL - 1) / MATMUL_PAIRS_FILL * MATMUL_PAIRS_FILL;
    int64_t panels = (f->lines + f->width - 1) / f->width, words = panels * f->width * filled / 2;
    int64_t count = (runs - 1) * stride + run;
    uint16_t *data = malloc((size_t)count * sizeof *data);
    uint32_t *is = malloc((size_t)words * sizeof *is), *should = malloc((size_t)words * sizeof *should);
    assert_true(data && is && should);
    for (int64_t i = 0; i < count; i++) data[i] = (uint16_t)word_at(2, i);
    memset(is, 0xA5, (size_t)words * sizeof *is);
    memset(should, 0xA5, (size_t)words * sizeof *should);
    matmul_operand o = { .data = data, .stride = stride, .across = f->across, .type = DTYPE_BF16 };
    fast(&o, f->lines, f->depth, f->width, is);
    plain(&o, f->lines, f->depth, f->width, should);
    bool rows = plain == matmul_pack_rows, pairs = plain == matmul_pack_pairs;
    int64_t deep = pairs ? (f->depth + 1) / 2 : filled / 2;
    for (int64_t i = 0; i < words; i++) {
        int64_t at = i % (f->width * deep), panel = i / (f->width * deep);
        int64_t line = panel * f->width + (rows ? at / 16 % f->width : at % f->width);
        if (line >= f->lines || is[i] == should[i]) continue;
        fail_msg("%lld lines of %lld %s in panels of %lld: word %lld is %08x, not %08x", (long long)f->lines,
                 (long long)f->depth, f->across ? "across" : "along", (long long)f->width, (long long)i,
                 is[i], should[i]);
    }
    free(data);
    free(is);
    free(should);
}

static void vectors_pack_as_plain_c_does(void **state) {
    (void)state;
    if (!instructions_present(INSTRUCTIONS_AVX512)) skip();
#if defined(__x86_64__)
    static const int64_t lines[] = { 1, 5, 14, 15, 16, 17, 31, 32, 33, 70 };
    static const int64_t depths[] = { 1, 2, 7, 30, 31, 32, 33, 64, 97, 256 };
    for (size_t l = 0; l < sizeof lines / sizeof *lines; l++)
        for (size_t d = 0; d < sizeof depths / sizeof *depths; d++)
            for (int across = 0; across < 2; across++) {
                packing f = { lines[l], depths[d], 14, across };
                check_packing(matmul_pack_pairs_avx512, matmul_pack_pairs, &f);
                f.width = 32;
                check_packing(matmul_pack_pairs_avx512, matmul_pack_pairs, &f);
                check_packing(matmul_pack_pairs_filled_avx512, matmul_pack_pairs_filled, &f);
                check_packing(matmul_pack_rows_avx512, matmul_pack_rows, &f);
                f.width = 18;
                check_packing(matmul_pack_pairs_avx512, matmul_pack_pairs, &f);
            }
#endif
}

/* What plain C packs, told apart by place. */
static void plain_c_packs_pairs(void **state) {
    (void)state;
    enum { LINES = 35, DEPTH = 33, FILLED = 64, WIDTH = 32 };
    static uint16_t data[LINES * DEPTH];
    static uint32_t pairs[2 * WIDTH * (DEPTH + 1) / 2], filled[2 * WIDTH * FILLED / 2],
        rows[2 * WIDTH * FILLED / 2];
    for (int i = 0; i < LINES * DEPTH; i++) data[i] = (uint16_t)(i + 1);
    for (int across = 0; across < 2; across++) {
        matmul_operand o = {
            .data = data, .stride = across ? LINES : DEPTH, .across = across, .type = DTYPE_BF16
        };
        matmul_pack_pairs(&o, LINES, DEPTH, WIDTH, pairs);
        matmul_pack_pairs_filled(&o, LINES, DEPTH, WIDTH, filled);
        matmul_pack_rows(&o, LINES, DEPTH, WIDTH, rows);
        for (int line = 0; line < LINES; line++)
            for (int p = 0; p < FILLED; p += 2) {
                uint32_t want = 0;
                for (int k = 0; k < 2 && p + k < DEPTH; k++)
                    want |= (uint32_t)(across ? (p + k) * LINES + line + 1 : line * DEPTH + p + k + 1)
                            << 16 * k;
                int panel = line / WIDTH, at = line % WIDTH;
                if (p < DEPTH) assert_int_equal(pairs[(panel * (DEPTH + 1) / 2 + p / 2) * WIDTH + at], want);
                assert_int_equal(filled[(panel * FILLED / 2 + p / 2) * WIDTH + at], want);
                assert_int_equal(rows[((panel * FILLED / 32 + p / 32) * WIDTH + at) * 16 + p % 32 / 2], want);
            }
    }
}

/* ---- products ---- */

typedef struct {
    int64_t rows, columns, depth;
    bool ta, tb;
} form;

typedef struct {
    form form;
    uint16_t *a, *b;
    float *before, *y;
    matmul_problem problem;
} product;

static void *numbers(int64_t n, size_t bytes) {
    void *x = memory_new((size_t)n, bytes);
    assert_non_null(x);
    return x;
}

static product product_new(form f, dtype type) {
    int64_t elements = f.rows * f.columns;
    product p = { .form = f,
                  .a = numbers(f.rows * f.depth, 2),
                  .b = numbers(f.columns * f.depth, 2),
                  .before = numbers(elements, 4),
                  .y = numbers(elements, 4) };
    for (int64_t i = 0; i < f.rows * f.depth; i++)
        p.a[i] = half_to_bf16(philox_uniform(word_at(3, i)) - 0.5f);
    for (int64_t i = 0; i < f.columns * f.depth; i++)
        p.b[i] = half_to_bf16(philox_uniform(word_at(4, i)) - 0.5f);
    for (int64_t i = 0; i < elements; i++) p.before[i] = philox_uniform(word_at(5, i)) - 0.5f;
    p.problem = (matmul_problem){ .rows = f.rows,
                                  .columns = f.columns,
                                  .depth = f.depth,
                                  .a = { p.a, f.ta ? f.rows : f.depth, f.ta, DTYPE_BF16 },
                                  .b = { p.b, f.tb ? f.depth : f.columns, !f.tb, DTYPE_BF16 },
                                  .y = p.y,
                                  .type = type };
    return p;
}

static void product_free(product *p) {
    memory_free(p->a);
    memory_free(p->b);
    memory_free(p->before);
    memory_free(p->y);
}

/* Scratch begins as NaN, and nothing beyond it may change. */
static void run(const matmul_problem *p, const matmul_kernel *kernel) {
    enum { WALL = 64 };
    uint64_t bytes = matmul_packed_scratch(p, p->residual != NULL, threads_count());
    unsigned char *raw = memory_new(bytes + 2 * WALL, 1);
    assert_non_null(raw);
    unsigned char *scratch = raw + (WALL - (uintptr_t)raw % WALL);
    memset(scratch, 0xFF, bytes);
    memset(scratch + bytes, 0xA5, (size_t)(raw + 2 * WALL - scratch));
    matmul_kernel_choose(kernel);
    matmul_packed_run(p, scratch);
    matmul_kernel_choose(NULL);
    for (unsigned char *at = scratch + bytes; at < raw + bytes + 2 * WALL; at++) assert_int_equal(*at, 0xA5);
    memory_free(raw);
}

static float *run_to_new(const matmul_problem *p, const matmul_kernel *kernel) {
    matmul_problem q = *p;
    q.y = numbers(p->rows * p->columns, sizeof(float));
    run(&q, kernel);
    return q.y;
}

static void assert_same_bits(const float *is, const float *should, int64_t n, const char *name) {
    for (int64_t i = 0; i < n; i++)
        if (!same(is[i], should[i]))
            fail_msg("%s: element %lld of %lld is %a, not %a", name, (long long)i, (long long)n,
                     (double)is[i], (double)should[i]);
}

static const int64_t sizes[][3] = { { 1, 1, 1 },    { 2, 33, 257 },  { 3, 31, 15 },  { 5, 17, 9 },
                                    { 14, 32, 8 },  { 15, 47, 300 }, { 16, 16, 32 }, { 17, 64, 33 },
                                    { 32, 33, 64 }, { 33, 95, 513 }, { 70, 129, 7 }, { 66, 1, 64 } };
enum { FORMS = sizeof sizes / sizeof sizes[0] * 4 };

static form form_of(int i) {
    const int64_t *s = sizes[i / 4];
    return (form){ s[0], s[1], s[2], (i & 1) != 0, (i & 2) != 0 };
}

/* A kernel with the order in which it is said to add, and its twin. */
typedef struct {
    const matmul_kernel *kernel, *twin;
    float (*tile)(const product *p, int64_t row, int64_t column, int64_t from, int64_t depths);
} way;

static uint32_t pair_of(const product *p, bool of_a, int64_t line, int64_t at, int64_t end) {
    const matmul_operand *o = of_a ? &p->problem.a : &p->problem.b;
    const uint16_t *x = o->data;
    uint32_t word = 0;
    for (int k = 0; k < 2 && at + k < end; k++)
        word |= (uint32_t)x[o->across ? (at + k) * o->stride + line : line * o->stride + at + k] << 16 * k;
    return word;
}

/* Pair after pair, the later number of each first. */
static float by_pairs(const product *p, int64_t row, int64_t column, int64_t from, int64_t depths) {
    float sum = 0;
    for (int64_t k = from; k < from + depths; k += 2)
        sum = native_dpbf16ps(sum, pair_of(p, true, row, k, from + depths),
                              pair_of(p, false, column, k, from + depths));
    return sum;
}

/* 32 depths at a time: a sum of the even ones and one of the odd ones, added to each other and then to what
 * there is.
 */
static float by_tiles(const product *p, int64_t row, int64_t column, int64_t from, int64_t depths) {
    float sum = 0;
    for (int64_t first = from; first < from + depths; first += 32) {
        float part[2] = { 0, 0 };
        for (int64_t k = first; k < first + 32 && k < from + depths; k += 2)
            for (int place = 0; place < 2; place++)
                part[place] =
                    fmaf(native_bf16(pair_of(p, true, row, k, from + depths), place),
                         native_bf16(pair_of(p, false, column, k, from + depths), place), part[place]);
        sum = sum + (part[0] + part[1]);
    }
    return sum;
}

static const way ways[] = {
#if defined(__x86_64__)
    { &matmul_kernel_avx512_bf16, &matmul_kernel_avx512_bf16_twin, by_pairs },
    { &matmul_kernel_amx, &matmul_kernel_amx_twin, by_tiles },
#endif
    { &matmul_kernel_avx512_bf16_twin, &matmul_kernel_avx512_bf16_twin, by_pairs },
    { &matmul_kernel_amx_twin, &matmul_kernel_amx_twin, by_tiles },
};

static void for_every_way(void (*check)(form f, const way *w)) {
    for (size_t k = 0; k < sizeof ways / sizeof *ways; k++)
        for (int i = 0; i < FORMS && ways[k].kernel->available(); i++) check(form_of(i), &ways[k]);
}

static void check_definition(form f, const way *w) {
    product p = product_new(f, DTYPE_F32);
    run(&p.problem, w->kernel);
    float *twin = run_to_new(&p.problem, w->twin);
    assert_same_bits(p.y, twin, f.rows * f.columns, w->kernel->name);
    for (int64_t i = 0; i < f.rows * f.columns; i++) {
        float sum = 0;
        for (int64_t from = 0; from < f.depth; from += MATMUL_DEPTH)
            sum = sum + w->tile(&p, i / f.columns, i % f.columns, from,
                                f.depth - from < MATMUL_DEPTH ? f.depth - from : MATMUL_DEPTH);
        assert_same_bits(&p.y[i], &sum, 1, w->kernel->name);
    }
    memory_free(twin);
    product_free(&p);
}

static void sums_have_the_order_of_their_instruction(void **state) {
    (void)state;
    for_every_way(check_definition);
}

static void check_cuts(form f, const way *w) {
    product p = product_new(f, DTYPE_F32);
    run(&p.problem, w->kernel);
    for (int64_t group = 1; group < 40; group += 12) {
        for (int64_t row = 0; row < f.rows; row += group) {
            matmul_problem q = p.problem;
            q.rows = f.rows - row < group ? f.rows - row : group;
            q.a = matmul_operand_at(&q.a, row, 0);
            float *part = run_to_new(&q, w->kernel);
            assert_same_bits(part, p.y + row * f.columns, q.rows * f.columns, w->kernel->name);
            memory_free(part);
        }
        int64_t column = f.columns / group;
        matmul_problem q = p.problem;
        if (column >= f.columns) continue;
        q.columns = f.columns - column;
        q.b = matmul_operand_at(&q.b, column, 0);
        float *part = run_to_new(&q, w->kernel);
        for (int64_t row = 0; row < f.rows; row++)
            assert_same_bits(part + row * q.columns, p.y + row * f.columns + column, q.columns,
                             w->kernel->name);
        memory_free(part);
    }
    product_free(&p);
}

static void rows_and_columns_can_be_cut_anywhere(void **state) {
    (void)state;
    for_every_way(check_cuts);
}

static void check_steps(form f, const way *w) {
    product p = product_new(f, DTYPE_F32);
    p.problem.accumulator = p.before;
    run(&p.problem, w->kernel);
    float *y = numbers(f.rows * f.columns, sizeof *y);
    memcpy(y, p.before, (size_t)(f.rows * f.columns) * sizeof *y);
    for (int64_t from = 0; from < f.depth; from += MATMUL_DEPTH) {
        matmul_problem q = p.problem;
        q.a = matmul_operand_at(&q.a, 0, from), q.b = matmul_operand_at(&q.b, 0, from);
        q.depth = f.depth - from < MATMUL_DEPTH ? f.depth - from : MATMUL_DEPTH;
        q.accumulator = q.y = y;
        run(&q, w->kernel);
    }
    assert_same_bits(y, p.y, f.rows * f.columns, w->kernel->name);
    memory_free(y);
    product_free(&p);
}

static void sums_over_rows_can_be_cut_at_tiles(void **state) {
    (void)state;
    for_every_way(check_steps);
}

/* bf16 in, bf16 out, several tiles and threads: sums wait in scratch and are rounded once. */
static void threads_do_not_matter(void **state) {
    (void)state;
    static const form forms[] = { { 530, 300, 520, false, false }, { 70, 1040, 300, true, true } };
    for (size_t k = 0; k < sizeof ways / sizeof *ways; k++)
        for (int i = 0; i < 2 && ways[k].kernel->available(); i++) {
            form f = forms[i];
            if (ways[k].kernel == ways[k].twin) f.rows = (f.rows + 2) / 3, f.columns = (f.columns + 2) / 3;
            product whole = product_new(f, DTYPE_F32), p = product_new(f, DTYPE_BF16);
            threads_set(1);
            run(&whole.problem, ways[k].kernel);
            for (int threads = 1; threads <= 3; threads++) {
                threads_set(threads);
                run(&p.problem, ways[k].kernel);
                for (int64_t j = 0; j < f.rows * f.columns; j++)
                    assert_int_equal(((uint16_t *)(void *)p.y)[j], half_to_bf16(whole.y[j]));
            }
            threads_set(1);
            product_free(&whole);
            product_free(&p);
        }
}

/* ---- which one is used ---- */

static const char *kind_pinned(const char *name) {
    assert_int_equal(instructions_pin(name), STATUS_OK);
    return instructions_kind();
}

static void a_set_can_be_pinned(void **state) {
    (void)state;
    assert_string_equal(kind_pinned("plain"), "widened");
    assert_null(matmul_kernel_chosen_pairs());
    assert_ptr_equal(matmul_kernel_chosen(), &matmul_kernel_portable);
#if defined(__x86_64__)
    if (instructions_present(INSTRUCTIONS_AVX512)) {
        assert_string_equal(kind_pinned("avx512"), "widened");
        assert_ptr_equal(matmul_kernel_chosen(), &matmul_kernel_avx512);
        assert_null(matmul_kernel_chosen_pairs());
    }
    if (instructions_present(INSTRUCTIONS_AVX512_BF16)) {
        assert_string_equal(kind_pinned("avx512-bf16"), "avx512-bf16");
        assert_ptr_equal(matmul_kernel_chosen_pairs(), &matmul_kernel_avx512_bf16);
    }
    if (instructions_present(INSTRUCTIONS_AMX)) assert_string_equal(kind_pinned("amx"), "amx");
#endif
    if (!instructions_present(INSTRUCTIONS_AMX)) {
        assert_int_equal(instructions_pin("amx"), STATUS_INVALID);
        assert_non_null(strstr(status_message(), "has no instructions 'amx'"));
    }
    assert_int_equal(instructions_pin("mmx"), STATUS_INVALID);
    assert_int_equal(instructions_pin("auto"), STATUS_OK);
}

/* Only bf16 by bf16 is multiplied as it is: whatever else is widened, whoever could do more. */
static void other_types_are_widened(void **state) {
    (void)state;
    product p = product_new((form){ 20, 40, 50, false, false }, DTYPE_F32);
    p.problem.a.type = DTYPE_F16;
    float *is = run_to_new(&p.problem, &matmul_kernel_amx_twin);
    assert_int_equal(instructions_pin("plain"), STATUS_OK);
    run(&p.problem, NULL);
    assert_int_equal(instructions_pin("auto"), STATUS_OK);
    assert_same_bits(is, p.y, 20 * 40, "f16 by bf16");
    memory_free(is);
    product_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#if defined(__x86_64__)
        cmocka_unit_test(the_twin_does_what_the_instruction_does),
        cmocka_unit_test(the_smallest_numbers_are_flushed_as_there),
#endif
        cmocka_unit_test(vectors_pack_as_plain_c_does),
        cmocka_unit_test(plain_c_packs_pairs),
        cmocka_unit_test(sums_have_the_order_of_their_instruction),
        cmocka_unit_test(rows_and_columns_can_be_cut_anywhere),
        cmocka_unit_test(sums_over_rows_can_be_cut_at_tiles),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(a_set_can_be_pinned),
        cmocka_unit_test(other_types_are_widened),
    };
    return cmocka_run_group_tests_name("matmul pairs", tests, NULL, NULL);
}
