/* Products on tensor cores, emulated, by warps, by groups of warps and in tensor memory: what they promise
 * whatever the tile. A row has the same bits alone and among others, at any address; a product that is cut at
 * whole slices of its depth and chained has those of the whole; GELU in the product has those of the two one
 * after the other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#ifdef SNUG_CUDA_EMULATED

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/instructions.h"
#include "base/memory.h"
#include "base/threads.h"
#include "device/device_gpu.h"
#include "lower/lower.h"
#include "ops/gelu/gelu.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul_gelu/matmul_gelu.h"

enum { SLICE = THREADS_ROW_TILE };

/* Of the products that are tested: what is pinned, the GPU that is asked, and how their kernels' names end.
 */
static const char *kind, *ending;
static uint32_t capability = 90;

static int pin(const char *pinned, uint32_t of, const char *name) {
    kind = pinned, capability = of, ending = name;
    return instructions_pin(kind) != STATUS_OK;
}

/* op(a) is rows x depth, op(b) depth x columns. */
typedef struct {
    int64_t rows, columns, depth;
    bool ta, tb;
    dtype type;
} form;

static void *room(int64_t elements, dtype type) {
    void *data = memory_new((size_t)elements + 8, dtype_bytes(type));
    assert_non_null(data);
    return data;
}

static void fill(uint16_t *x, int64_t n, dtype type, unsigned seed) {
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        float value = (float)(seed >> 8) * 0x1p-24f - 0.5f;
        x[i] = type == DTYPE_BF16 ? half_to_bf16(value) : half_to_f16(value);
    }
}

static double wide(uint16_t x, dtype type) {
    return (double)(type == DTYPE_BF16 ? half_from_bf16(x) : half_from_f16(x));
}

static op_arg matrix(int64_t rows, int64_t columns, dtype type, void *data) {
    return (op_arg){ .shape = { .dim = { rows, columns }, .rank = 2 }, .dtype = type, .data = data };
}

static op_arg left(const form *f, void *data) {
    return f->ta ? matrix(f->depth, f->rows, f->type, data) : matrix(f->rows, f->depth, f->type, data);
}
static op_arg right(const form *f, void *data) {
    return f->tb ? matrix(f->columns, f->depth, f->type, data) : matrix(f->depth, f->columns, f->type, data);
}

/* The first of the list that takes a call; NULL: none. */
static const op_kernel *first_of(const op_kernel *k, const op_call *c) {
    while (k->name && !k->accepts(c)) k++;
    return k->name ? k : NULL;
}

static void run_first(const op_kernel *k, const op_arg *in, uint16_t count, op_arg *out,
                      const void *attributes) {
    op_call c = { .in = in,
                  .out = out,
                  .in_count = count,
                  .out_count = 1,
                  .capability = capability,
                  .attributes = attributes };
    k = first_of(k, &c);
    assert_non_null(k);
    assert_non_null(strstr(k->name, ending));
    k->run(&c);
}

/* y of `type`; bias and accumulator may be NULL. */
static void product(const form *f, void *a, void *b, void *bias, void *accumulator, dtype type, void *y) {
    matmul_attributes t = { f->ta, f->tb, (int32_t)type };
    op_arg in[] = { left(f, a), right(f, b), { 0 }, { 0 }, { 0 } },
           out = matrix(f->rows, f->columns, type, y);
    if (bias) in[MATMUL_BIAS] = (op_arg){ bias, { { f->columns }, 1 }, DTYPE_F32 };
    if (accumulator) in[MATMUL_ACCUMULATOR] = matrix(f->rows, f->columns, type, accumulator);
    run_first(op_matmul.tensor, in, 5, &out, &t);
}

typedef struct {
    form f;
    uint16_t *a, *b;
    float *bias, *y;
} whole;

static void whole_open(whole *w, const form *f) {
    *w = (whole){ .f = *f,
                  .a = room(f->rows * f->depth, f->type),
                  .b = room(f->depth * f->columns, f->type),
                  .bias = room(f->columns, DTYPE_F32),
                  .y = room(f->rows * f->columns, DTYPE_F32) };
    fill(w->a, f->rows * f->depth, f->type, 1), fill(w->b, f->depth * f->columns, f->type, 2);
    for (int64_t i = 0; i < f->columns; i++) w->bias[i] = (float)(i % 7) - 3;
    product(f, w->a, w->b, w->bias, NULL, DTYPE_F32, w->y);
}
static void whole_close(whole *w) {
    memory_free(w->a), memory_free(w->b), memory_free(w->bias), memory_free(w->y);
}

static uint16_t at_a(const whole *w, int64_t row, int64_t depth) {
    return w->a[w->f.ta ? depth * w->f.rows + row : row * w->f.depth + depth];
}
static uint16_t at_b(const whole *w, int64_t depth, int64_t column) {
    return w->b[w->f.tb ? column * w->f.depth + depth : depth * w->f.columns + column];
}

static void is_near_the_sum_in_double(const whole *w) {
    for (int64_t i = 0; i < w->f.rows; i += 1 + w->f.rows / 13)
        for (int64_t j = 0; j < w->f.columns; j += 1 + w->f.columns / 17) {
            double sum = (double)w->bias[j], size = fabs(sum);
            for (int64_t k = 0; k < w->f.depth; k++) {
                double x = wide(at_a(w, i, k), w->f.type) * wide(at_b(w, k, j), w->f.type);
                sum += x, size += fabs(x);
            }
            assert_true(fabs((double)w->y[i * w->f.columns + j] - sum) <= 1e-6 * size);
        }
}

static void rows_alone_are_the_same(const whole *w, int64_t first, int64_t count) {
    form f = w->f;
    f.rows = count;
    uint16_t *a = room(count * f.depth, f.type);
    float *y = room(count * f.columns, DTYPE_F32);
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < f.depth; k++)
            a[f.ta ? k * count + i : i * f.depth + k] = at_a(w, first + i, k);
    product(&f, a, w->b, w->bias, NULL, DTYPE_F32, y);
    assert_memory_equal(y, w->y + first * f.columns, (size_t)(count * f.columns) * sizeof *y);
    memory_free(a), memory_free(y);
}

/* Depths before `cut`, then the others onto them, where pieces are as rows of a batch are: ta and not tb. */
static bool cut_is_the_same(const whole *w, int64_t cut) {
    form first = w->f, rest = w->f;
    int64_t n = w->f.rows * w->f.columns;
    first.depth = cut, rest.depth -= cut;
    float *uncut = room(n, DTYPE_F32), *y = room(n, DTYPE_F32);
    product(&w->f, w->a, w->b, NULL, NULL, DTYPE_F32, uncut);
    product(&first, w->a, w->b, NULL, NULL, DTYPE_F32, y);
    product(&rest, w->a + cut * w->f.rows, w->b + cut * w->f.columns, NULL, y, DTYPE_F32, y);
    bool same = memcmp(uncut, y, (size_t)n * sizeof *y) == 0;
    memory_free(uncut), memory_free(y);
    return same;
}

static void other_addresses_are_the_same(const whole *w) {
    int64_t n_a = w->f.rows * w->f.depth, n_b = w->f.depth * w->f.columns, n = w->f.rows * w->f.columns;
    uint16_t *a = room(n_a, w->f.type), *b = room(n_b, w->f.type);
    float *y = room(n, DTYPE_F32);
    memcpy(a + 1, w->a, (size_t)n_a * sizeof *a), memcpy(b + 3, w->b, (size_t)n_b * sizeof *b);
    product(&w->f, a + 1, b + 3, w->bias, NULL, DTYPE_F32, y + 1);
    assert_memory_equal(y + 1, w->y, (size_t)n * sizeof *y);
    memory_free(a), memory_free(b), memory_free(y);
}

static void narrowed_is_rounded_once(const whole *w) {
    int64_t n = w->f.rows * w->f.columns;
    uint16_t *y = room(n, w->f.type);
    product(&w->f, w->a, w->b, w->bias, NULL, w->f.type, y);
    for (int64_t i = 0; i < n; i++)
        assert_int_equal(y[i], w->f.type == DTYPE_BF16 ? half_to_bf16(w->y[i]) : half_to_f16(w->y[i]));
    memory_free(y);
}

/* Few rows come in small tiles, all of them in large ones. */
static void a_row_has_its_bits(void **state) {
    (void)state;
    static const form forms[] = {
        { 1290, 1282, 300, false, false, DTYPE_BF16 }, { 1288, 1280, 272, true, false, DTYPE_F16 },
        { 1281, 1290, 264, false, true, DTYPE_F16 },   { 1280, 1288, 261, true, true, DTYPE_BF16 },
        { 70, 130, 40, false, false, DTYPE_F16 },      { 130, 64, 8, false, true, DTYPE_BF16 }
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        whole w;
        whole_open(&w, &forms[i]);
        is_near_the_sum_in_double(&w);
        rows_alone_are_the_same(&w, 0, 1), rows_alone_are_the_same(&w, w.f.rows - 37, 37);
        rows_alone_are_the_same(&w, 3, 64);
        if (i == 2 || i > 3) other_addresses_are_the_same(&w), narrowed_is_rounded_once(&w);
        whole_close(&w);
    }
}

static void cuts_are_exact(void **state) {
    (void)state;
    static const form forms[] = { { 72, 56, 3 * SLICE + 40, true, false, DTYPE_BF16 },
                                  { 67, 55, 2 * SLICE + 3, true, false, DTYPE_F16 },
                                  { 1290, 1288, SLICE + 16, true, false, DTYPE_BF16 } };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        whole w;
        whole_open(&w, &forms[i]);
        for (int64_t cut = SLICE; cut < w.f.depth; cut += SLICE) assert_true(cut_is_the_same(&w, cut));
        if (i == 0) assert_false(cut_is_the_same(&w, SLICE + 48)); /* which shows that bits depend on it */
        whole_close(&w);
    }
}

/* The plain kernels of GELU have the CPU's bits, from the product that was stored. */
static void gelu_is_the_same(const whole *w, bool tanh) {
    dtype type = w->f.type;
    int64_t n = w->f.rows * w->f.columns;
    gelu_attributes of_gelu = { .tanh = tanh };
    matmul_gelu_attributes t = { .product = { w->f.ta, w->f.tb, (int32_t)type }, .tanh = tanh };
    uint16_t *y = room(n, type), *apart = room(n, type);
    op_arg stored = matrix(w->f.rows, w->f.columns, type, apart), out = stored;
    op_arg in[] = { left(&w->f, w->a), right(&w->f, w->b), { w->bias, { { w->f.columns }, 1 }, DTYPE_F32 } };
    product(&w->f, w->a, w->b, w->bias, NULL, type, apart);
    op_call c = { .in = &stored, .out = &out, .in_count = 1, .out_count = 1, .attributes = &of_gelu };
    op_gelu.cuda->run(&c);
    out.data = y;
    run_first(op_matmul_gelu.tensor, in, 3, &out, &t);
    assert_memory_equal(y, apart, (size_t)n * sizeof *y);
    memory_free(y), memory_free(apart);
}

static void gelu_in_the_product(void **state) {
    (void)state;
    static const form forms[] = { { 70, 136, 300, false, false, DTYPE_BF16 },
                                  { 33, 130, 40, false, true, DTYPE_F16 } };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        whole w;
        whole_open(&w, &forms[i]);
        gelu_is_the_same(&w, false), gelu_is_the_same(&w, true);
        whole_close(&w);
    }
}

/* A twin adds the products of an instruction exactly, and rounds once: so in emulation both kinds have the
 * same bits, which shows that others multiply what warps do, from wherever it lies. */
static void others_multiply_the_same(void **state) {
    (void)state;
    static const form forms[] = {
        { 200, 328, 200, false, false, DTYPE_BF16 }, { 136, 200, 328, true, false, DTYPE_F16 },
        { 129, 384, 72, false, true, DTYPE_BF16 },   { 128, 192, 128, true, true, DTYPE_BF16 },
        { 67, 139, 301, false, false, DTYPE_F16 },   { 131, 67, 300, true, true, DTYPE_BF16 }
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        whole w;
        whole_open(&w, &forms[i]);
        const char *other = kind, *name = ending;
        assert_int_equal(pin(INSTRUCTIONS_TENSOR, capability, "_cuda_tensor"), 0);
        int64_t n = w.f.rows * w.f.columns;
        float *y = room(n, DTYPE_F32);
        product(&w.f, w.a, w.b, w.bias, NULL, DTYPE_F32, y);
        assert_memory_equal(y, w.y, (size_t)n * sizeof *y);
        assert_int_equal(pin(other, capability, name), 0);
        memory_free(y);
        whole_close(&w);
    }
}

/* Nothing takes them unasked, nor without the instructions, nor where an operand is of 32 bits. */
static void they_are_asked_for(void **state) {
    (void)state;
    matmul_attributes t = { 0 };
    const form f = { 4, 4, 4, false, false, DTYPE_BF16 };
    op_arg in[] = { left(&f, NULL), right(&f, NULL) }, out = matrix(4, 4, DTYPE_BF16, NULL);
    op_call c = { .in = in, .out = &out, .in_count = 2, .out_count = 1, .attributes = &t };
    static const struct {
        const char *pin;
        uint32_t capability;
        dtype a, b;
        const char *taken; /* NULL: none */
    } cases[] = { { "tensor-cores", 90, DTYPE_BF16, DTYPE_BF16, "matmul_cuda_tensor" },
                  { "tensor-cores", 80, DTYPE_F16, DTYPE_F16, "matmul_cuda_tensor" },
                  { "tensor-cores", 75, DTYPE_BF16, DTYPE_BF16, NULL },
                  { "tensor-cores", 90, DTYPE_F32, DTYPE_BF16, NULL },
                  { "tensor-cores", 90, DTYPE_BF16, DTYPE_F32, NULL },
                  { "tensor-cores", 90, DTYPE_BF16, DTYPE_F16, NULL },
                  { "tensor-cores", 90, DTYPE_F32, DTYPE_F32, NULL },
                  { "tensor-groups", 90, DTYPE_BF16, DTYPE_BF16, "matmul_cuda_group" },
                  { "tensor-groups", 90, DTYPE_F16, DTYPE_F16, "matmul_cuda_group" },
                  { "tensor-groups", 90, DTYPE_F16, DTYPE_BF16, NULL },
                  { "tensor-groups", 90, DTYPE_F32, DTYPE_F32, NULL },
                  { "tensor-groups", 89, DTYPE_BF16, DTYPE_BF16, "matmul_cuda_tensor" },
                  { "tensor-groups", 100, DTYPE_BF16, DTYPE_BF16, "matmul_cuda_tmem" },
                  { "tensor-groups", 100, DTYPE_F16, DTYPE_F16, "matmul_cuda_tmem" },
                  { "tensor-groups", 100, DTYPE_F32, DTYPE_F32, NULL },
                  { "tensor-groups", 103, DTYPE_BF16, DTYPE_BF16, "matmul_cuda_tensor" },
                  { "tensor-cores", 100, DTYPE_BF16, DTYPE_BF16, "matmul_cuda_tensor" },
                  { "auto", 100, DTYPE_BF16, DTYPE_BF16, NULL },
                  { "tensor-groups", 75, DTYPE_BF16, DTYPE_BF16, NULL },
                  { "auto", 90, DTYPE_BF16, DTYPE_BF16, NULL }, /* until a GPU has confirmed them */
                  { "plain", 90, DTYPE_BF16, DTYPE_BF16, NULL },
                  { "widened", 90, DTYPE_BF16, DTYPE_BF16, NULL } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(instructions_pin(cases[i].pin), STATUS_OK);
        c.capability = cases[i].capability, in[0].dtype = cases[i].a, in[1].dtype = cases[i].b;
        const op_kernel *k = first_of(op_matmul.tensor, &c);
        assert_string_equal(k ? k->name : "", cases[i].taken ? cases[i].taken : "");
    }
    assert_int_equal(instructions_pin(kind), STATUS_OK);
}

/* A plan for such a GPU has them, as the device's own, and reckons with their rate. In tensor memory this one
 * has half as many blocks, of fewer than there are multiprocessors. */
static void plans_take_them(void **state) {
    (void)state;
    static device_gpu gpu = { .name = "some",
                              .title = "some GPU",
                              .capability = 90,
                              .multiprocessors = 100,
                              .memory = 1ull << 30,
                              .f32 = 1e13,
                              .f16 = 1e14,
                              .bandwidth = 1e15,
                              .call_seconds = 1e-12 };
    static const char *const pins[] = { "widened", INSTRUCTIONS_TENSOR, INSTRUCTIONS_GROUPS,
                                        INSTRUCTIONS_GROUPS },
                             *const names[] = { "matmul_cuda_plain", "matmul_cuda_tensor",
                                                "matmul_cuda_group", "matmul_cuda_tmem" };
    double seconds[4];
    for (int i = 0; i < 4; i++) {
        device_elsewhere at;
        graph g;
        program p = { 0 };
        assert_int_equal(instructions_pin(pins[i]), STATUS_OK);
        gpu.capability = i == 3 ? 100 : 90;
        assert_int_equal(device_elsewhere_plan(&gpu, &at), STATUS_OK);
        assert_int_equal(graph_open(&g), STATUS_OK);
        graph_source a = { .name = "a", .shape = SHAPE(512, 512), .dtype = DTYPE_F16, .role = ROLE_INPUT };
        graph_source b = {
            .name = "b", .shape = SHAPE(512, 512), .dtype = DTYPE_F16, .role = ROLE_PARAMETER
        };
        tensor_id x = graph_add_source(&g, &a), w = graph_add_source(&g, &b);
        matmul_apply(&g, &(matmul_inputs){ .a = x, .b = w });
        lower_options o = { .device = &at.device, .threads = 1, .rates = device_gpu_rates(&gpu, 1) };
        assert_int_equal(lower_program(&g, &o, &p), STATUS_OK);
        assert_string_equal(p.steps[0].kernel->name, names[i]);
        assert_false(p.steps[0].by_host);
        assert_int_equal(lower_cost(&p.graph, &p.steps[0]).kind, i ? WORK_PRODUCTS_HALF : WORK_PRODUCTS);
        seconds[i] = p.seconds;
        lower_close(&p);
    }
    assert_true(seconds[1] < 0.1 * seconds[0] && seconds[2] <= seconds[1] && seconds[3] < 0.2 * seconds[0]);
    assert_int_equal(instructions_pin(kind), STATUS_OK);
}

/* With an argument, the test of that name only. */
int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_are_asked_for), cmocka_unit_test(a_row_has_its_bits),
        cmocka_unit_test(cuts_are_exact),     cmocka_unit_test(gelu_in_the_product),
        cmocka_unit_test(plans_take_them),
    };
    const struct CMUnitTest of_others[] = {
        cmocka_unit_test(a_row_has_its_bits),
        cmocka_unit_test(cuts_are_exact),
        cmocka_unit_test(gelu_in_the_product),
        cmocka_unit_test(others_multiply_the_same),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    if (pin(INSTRUCTIONS_TENSOR, 90, "_cuda_tensor")) return 1;
    int failed = cmocka_run_group_tests_name("products on tensor cores", tests, NULL, NULL);
    if (pin(INSTRUCTIONS_GROUPS, 90, "_cuda_group")) return 1;
    failed += cmocka_run_group_tests_name("by groups of warps", of_others, NULL, NULL);
    if (pin(INSTRUCTIONS_GROUPS, 100, "_cuda_tmem")) return 1;
    return failed + cmocka_run_group_tests_name("in tensor memory", of_others, NULL, NULL);
}

#else

#include "emulation_left_out.h"

int main(void) { return emulation_left_out("products on tensor cores"); }

#endif
