/* Products whose rows are gathered (convolutions, products of experts): every number is summed in its one
 * order (docs/design.md), by each micro-kernel, by any number of threads, bit for bit. Of bf16 by each of the
 * instructions that multiply it as it is as well, and by their twins in plain C. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/instructions.h"
#include "base/philox.h"
#include "base/threads.h"
#include "ops/conv2d/conv2d_math.h"
#include "ops/expert_matmul/expert_matmul.h"
#include "ops/matmul/matmul_kernel.h"
#include "ops/native.h"

enum { MOST_IN = 4, GUARD = 64 };

/* ---- a call with its buffers ---- */

typedef struct {
    op_arg in[MOST_IN], out[1];
    op_call call;
} bound;

static void *room(uint64_t bytes) {
    void *data = aligned_alloc(64, (bytes + GUARD + 63) / 64 * 64);
    assert_non_null(data);
    return data;
}

static float drawn(uint32_t of, int64_t i) {
    return philox_uniform(philox_draw(3, (philox_block){ { (uint32_t)i, of, 0, 0 } }).word[0]) - 0.5f;
}

static float get(const op_arg *x, int64_t i) {
    if (x->dtype == DTYPE_F32) return ((const float *)x->data)[i];
    uint16_t half = ((const uint16_t *)x->data)[i];
    return x->dtype == DTYPE_BF16 ? half_from_bf16(half) : half_from_f16(half);
}

static void put(const op_arg *x, int64_t i, float value) {
    if (x->dtype == DTYPE_F32)
        ((float *)x->data)[i] = value;
    else
        ((uint16_t *)x->data)[i] = x->dtype == DTYPE_BF16 ? half_to_bf16(value) : half_to_f16(value);
}

static op_arg numbers(uint32_t of, const shape *s, dtype type) {
    op_arg x = { .shape = *s, .dtype = type };
    x.data = room((uint64_t)shape_elements(s) * dtype_bytes(type));
    for (int64_t i = 0; i < shape_elements(s); i++) put(&x, i, drawn(of, i));
    return x;
}

static void close_call(bound *b) {
    for (int i = 0; i < MOST_IN; i++) free(b->in[i].data);
    free(b->out[0].data);
}

/* By the kernel that a run would take, and with nothing written behind its scratch. */
static void run(const bound *b, const op_kernel *k) {
    op_call c = b->call;
    while (k->accepts && !k->accepts(&c)) k++;
    uint64_t bytes = k->scratch ? k->scratch(&c, threads_count()) : 0;
    c.scratch = room(bytes), c.scratch_bytes = bytes;
    memset(c.scratch, 0xff, bytes + GUARD);
    for (int64_t i = 0; i < shape_elements(&c.out[0].shape); i++) put(&c.out[0], i, NAN);
    k->run(&c);
    for (int i = 0; i < GUARD; i++) assert_int_equal(((unsigned char *)c.scratch)[bytes + (uint64_t)i], 0xff);
    free(c.scratch);
}

/* ---- the order of sums ---- */

/* How a slice of the depth is added up from 0. */
typedef float slice_order(const float *a, const float *b, int64_t depths);

static float one_by_one(const float *a, const float *b, int64_t depths) {
    float sum = 0;
    for (int64_t k = 0; k < depths; k++) sum = fmaf(a[k], b[k], sum);
    return sum;
}

static uint32_t pair_at(const float *x, int64_t k, int64_t depths) {
    return half_to_bf16(x[k]) | (uint32_t)(k + 1 < depths ? half_to_bf16(x[k + 1]) : 0) << 16;
}

/* vdpbf16ps */
static float by_pairs(const float *a, const float *b, int64_t depths) {
    float sum = 0;
    for (int64_t k = 0; k < depths; k += 2)
        sum = native_dpbf16ps(sum, pair_at(a, k, depths), pair_at(b, k, depths));
    return sum;
}

/* tdpbf16ps: 32 depths at a time, the even ones and the odd ones apart */
static float by_tiles(const float *a, const float *b, int64_t depths) {
    float sum = 0;
    for (int64_t first = 0; first < depths; first += 32) {
        float part[2] = { 0, 0 };
        for (int64_t k = first; k < first + 32 && k < depths; k++)
            part[k & 1] = native_add_product(part[k & 1], a[k], b[k]);
        sum = native_add_product(sum, native_add_product(part[0], part[1], 1), 1);
    }
    return sum;
}

static slice_order *order_now;

/* A sum in its order: slices of the depth from 0, onto what there is. What a slice has not is left out of it
 * and counted all the same. */
typedef struct {
    float sum;
    int64_t depth;
    float a[THREADS_ROW_TILE], b[THREADS_ROW_TILE];
    int64_t count; /* of them, of the slice at hand */
} ordered;

static float ordered_end(ordered *o) {
    if (o->count) o->sum = o->sum + order_now(o->a, o->b, o->count);
    o->count = 0;
    return o->sum;
}

static void ordered_pass(ordered *o) {
    if (++o->depth % THREADS_ROW_TILE == 0) ordered_end(o);
}

static void ordered_add(ordered *o, float a, float b) {
    o->a[o->count] = a, o->b[o->count++] = b;
    ordered_pass(o);
}

typedef float element(const bound *b, int64_t i);

/* Micro-kernels with the order in which they add. */
typedef struct {
    const matmul_kernel *kernel;
    instruction_set needs;
    slice_order *order;
} way;

static const way ways[] = {
#if defined(__x86_64__)
    { &matmul_kernel_avx512, INSTRUCTIONS_AVX512, one_by_one },
    { &matmul_kernel_avx2, INSTRUCTIONS_AVX2, one_by_one },
    { &matmul_kernel_avx512_bf16, INSTRUCTIONS_AVX512_BF16, by_pairs },
    { &matmul_kernel_amx, INSTRUCTIONS_AMX, by_tiles },
#endif
    { &matmul_kernel_portable, INSTRUCTIONS_PLAIN, one_by_one },
    { &matmul_kernel_avx512_bf16_twin, INSTRUCTIONS_PLAIN, by_pairs },
    { &matmul_kernel_amx_twin, INSTRUCTIONS_PLAIN, by_tiles },
};
enum { WAYS = sizeof ways / sizeof *ways };

/* Nobody's products but packed ones are made in pairs. */
static bool is_packed(const bound *b, const op_kernel *k) {
    while (k->accepts && !k->accepts(&b->call)) k++;
    return strstr(k->name, "depthwise") == NULL;
}

static void check_way(const bound *b, const op_kernel *kernels, const op_arg *should, const way *w,
                      const char *what) {
    const op_arg *y = &b->out[0];
    matmul_kernel_choose(w->kernel);
    for (int threads = 1; threads <= 3; threads++) {
        threads_set(threads);
        run(b, kernels);
        for (int64_t i = 0; i < shape_elements(&y->shape); i++)
            if (get(y, i) != get(should, i))
                fail_msg("%s, %s, %s, %d threads: element %lld is %a, not %a", what, dtype_name(y->dtype),
                         w->kernel->name, threads, (long long)i, (double)get(y, i), (double)get(should, i));
    }
    matmul_kernel_choose(NULL);
}

static void check(const bound *b, const op_kernel *kernels, element *of, const char *what) {
    const op_arg *y = &b->out[0];
    op_arg should = { .shape = y->shape, .dtype = y->dtype };
    should.data = room((uint64_t)shape_elements(&y->shape) * dtype_bytes(y->dtype));
    slice_order *known = NULL;
    for (int w = 0; w < WAYS; w++) {
        bool pairs = ways[w].kernel->type == DTYPE_BF16;
        if (!instructions_present(ways[w].needs) || (pairs && y->dtype != DTYPE_BF16)) continue;
        order_now = is_packed(b, kernels) ? ways[w].order : one_by_one;
        for (int64_t i = 0; known != order_now && i < shape_elements(&y->shape); i++)
            put(&should, i, of(b, i));
        known = order_now;
        check_way(b, kernels, &should, &ways[w], what);
    }
    free(should.data);
}

/* ---- convolutions ---- */

typedef struct {
    int64_t samples, height, width, channels, outputs, kernel_height, kernel_width;
    conv2d_attributes a;
} form;

static const form forms[] = { { 2, 7, 6, 3, 5, 3, 3, { 1, 1, 1 } },
                              { 1, 6, 7, 70, 40, 3, 2, { 1, 1, 1 } },  /* more than a slice */
                              { 2, 9, 8, 33, 34, 3, 3, { 2, 1, 1 } },  /* kinds of places, slices with gaps */
                              { 1, 8, 9, 90, 35, 1, 1, { 2, 0, 1 } },  /* places that see nothing */
                              { 1, 9, 7, 6, 300, 1, 1, { 1, 0, 1 } },  /* no windows */
                              { 1, 11, 10, 12, 9, 4, 5, { 3, 2, 3 } }, /* groups, steps of 3 */
                              { 1, 9, 9, 3, 33, 4, 4, { 4, 0, 1 } },   /* patches */
                              { 2, 13, 12, 37, 37, 7, 7, { 1, 3, 37 } },
                              { 1, 13, 12, 40, 40, 5, 3, { 2, 2, 40 } },
                              { 1, 18, 19, 2, 2, 17, 16, { 1, 8, 2 } }, /* more taps than a slice */
                              { 1, 1, 1, 1, 1, 1, 1, { 1, 0, 1 } } };
enum { FORMS = sizeof forms / sizeof *forms };

typedef struct {
    shape x, w, y;
} shapes;

static shapes shapes_of(const form *f) {
    int64_t height = (f->height + 2 * f->a.padding - f->kernel_height) / f->a.stride + 1,
            width = (f->width + 2 * f->a.padding - f->kernel_width) / f->a.stride + 1;
    return (shapes){ SHAPE(f->samples, f->height, f->width, f->channels),
                     SHAPE(f->outputs, f->channels / f->a.groups, f->kernel_height, f->kernel_width),
                     SHAPE(f->samples, height, width, f->outputs) };
}

static float times(const op_arg *x, int64_t at) { return at < 0 ? 0.0f : get(x, at); }

static float element_of_y(const bound *b, int64_t i) {
    const op_arg *x = &b->in[0], *w = &b->in[1];
    conv2d_sizes n = conv2d_sizes_of(&x->shape, &w->shape, &b->out[0].shape, b->call.attributes);
    int64_t o = i % n.all_outputs;
    ordered sum = { 0 };
    n.group = o / n.outputs;
    for (int64_t u = 0; u < n.kernel_height; u++)
        for (int64_t v = 0; v < n.kernel_width; v++)
            for (int64_t k = 0; k < n.channels; k++)
                ordered_add(&sum, times(x, conv2d_seen(&n, (conv2d_join){ i / n.all_outputs, u, v, k })),
                            get(w, conv2d_weight(&n, o % n.outputs, k, u, v)));
    return ordered_end(&sum) + get(&b->in[2], o);
}

/* Does a place of x see (u,v) somewhere, inside of dy or not? What it never sees is no part of its sum. */
static bool is_seen(const conv2d_sizes *n, int64_t place, int64_t u, int64_t v) {
    int64_t j = place % n->width, i = place / n->width % n->height;
    return (i + n->padding - u) % n->stride == 0 && (j + n->padding - v) % n->stride == 0;
}

static float element_of_dx(const bound *b, int64_t i) {
    const conv2d_backward_attributes *a = b->call.attributes;
    const op_arg *dy = &b->in[0], *w = &b->in[1];
    conv2d_sizes n = conv2d_sizes_of(&b->out[0].shape, &w->shape, &dy->shape, &a->of);
    int64_t k = i % n.all_channels;
    ordered sum = { 0 };
    n.group = k / n.channels;
    for (int64_t u = 0; u < n.kernel_height; u++)
        for (int64_t v = 0; v < n.kernel_width; v++)
            for (int64_t o = 0; o < n.outputs; o++)
                if (is_seen(&n, i / n.all_channels, u, v))
                    ordered_add(&sum,
                                times(dy, conv2d_seer(&n, (conv2d_join){ i / n.all_channels, u, v, o })),
                                get(w, conv2d_weight(&n, o, k % n.channels, u, v)));
                else
                    ordered_pass(&sum);
    return ordered_end(&sum);
}

static float element_of_dw(const bound *b, int64_t i) {
    const conv2d_backward_attributes *a = b->call.attributes;
    const op_arg *x = &b->in[0], *dy = &b->in[1];
    conv2d_sizes n = conv2d_sizes_of(&x->shape, &b->out[0].shape, &dy->shape, &a->of);
    int64_t v = i % n.kernel_width, u = i / n.kernel_width % n.kernel_height,
            line = i / n.kernel_width / n.kernel_height, o = line / n.channels;
    ordered sum = { .sum = get(&b->in[2], i) };
    n.group = o / n.outputs;
    for (int64_t place = 0; place < shape_rows(&dy->shape); place++)
        ordered_add(&sum, times(x, conv2d_seen(&n, (conv2d_join){ place, u, v, line % n.channels })),
                    get(dy, place * n.all_outputs + o));
    return ordered_end(&sum);
}

static void bind(bound *b, uint32_t count, const void *attributes) {
    b->call = (op_call){
        .in = b->in, .out = b->out, .in_count = (uint16_t)count, .out_count = 1, .attributes = attributes
    };
}

static void check_form(const form *f, dtype type) {
    shapes s = shapes_of(f);
    shape bias = SHAPE(f->outputs);
    char what[96];
    snprintf(what, sizeof what, "form %d", (int)(f - forms));
    bound y = { .in = { numbers(1, &s.x, type), numbers(2, &s.w, type), numbers(3, &bias, type) },
                .out = { numbers(0, &s.y, type) } };
    bind(&y, 3, &f->a);
    check(&y, conv2d_cpu, element_of_y, what);
    close_call(&y);
    conv2d_backward_attributes of_x = { f->a, (int32_t)f->height, (int32_t)f->width, 0 };
    bound dx = { .in = { numbers(4, &s.y, type), numbers(5, &s.w, type) },
                 .out = { numbers(0, &s.x, type) } };
    bind(&dx, 2, &of_x);
    check(&dx, conv2d_data_cpu, element_of_dx, what);
    close_call(&dx);
    conv2d_backward_attributes of_w = { f->a, (int32_t)f->kernel_height, (int32_t)f->kernel_width, 0 };
    bound dw = { .in = { numbers(6, &s.x, type), numbers(7, &s.y, type), numbers(8, &s.w, type) },
                 .out = { numbers(0, &s.w, type) } };
    bind(&dw, 3, &of_w);
    check(&dw, conv2d_weights_cpu, element_of_dw, what);
    close_call(&dw);
}

static void convolutions_add_in_order(void **state) {
    (void)state;
    static const dtype types[] = { DTYPE_F32, DTYPE_BF16, DTYPE_F16 };
    for (int i = 0; i < FORMS; i++)
        for (int t = 0; t < 3; t++) check_form(&forms[i], types[t]);
}

/* ---- experts ---- */

enum { ROWS = 600, DEEP = 300, WIDE = 70, EXPERTS = 5 };

/* An expert without rows, one with few, one with more than a slice, and rows of nobody. */
static const int32_t ends[EXPERTS] = { 3, 3, 330, 331, 590 };

static int64_t expert_of(int64_t row) {
    int64_t e = 0;
    while (e < EXPERTS && row >= ends[e]) e++;
    return e;
}

static float element_of_experts(const bound *b, int64_t i) {
    bool tb = ((const expert_matmul_attributes *)b->call.attributes)->tb != 0;
    int64_t row = i / WIDE, column = i % WIDE, e = expert_of(row);
    ordered sum = { 0 };
    for (int64_t k = 0; k < DEEP && e < EXPERTS; k++)
        ordered_add(&sum, get(&b->in[0], row * DEEP + k),
                    get(&b->in[1], e * DEEP * WIDE + (tb ? column * DEEP + k : k * WIDE + column)));
    return ordered_end(&sum);
}

static float element_of_weights(const bound *b, int64_t i) {
    int64_t e = i / (DEEP * WIDE), m = i / WIDE % DEEP, k = i % WIDE;
    ordered sum = { .sum = get(&b->in[3], i) };
    for (int64_t row = e ? ends[e - 1] : 0; row < ends[e]; row++)
        ordered_add(&sum, get(&b->in[0], row * DEEP + m), get(&b->in[1], row * WIDE + k));
    return ordered_end(&sum);
}

static op_arg ends_of_rows(void) {
    op_arg x = { .shape = SHAPE(EXPERTS), .dtype = DTYPE_I32, .data = room(sizeof ends) };
    memcpy(x.data, ends, sizeof ends);
    return x;
}

static void check_experts(dtype type, bool tb) {
    shape x = SHAPE(ROWS, DEEP), y = SHAPE(ROWS, WIDE),
          w = tb ? SHAPE(EXPERTS, WIDE, DEEP) : SHAPE(EXPERTS, DEEP, WIDE), dw = SHAPE(EXPERTS, DEEP, WIDE);
    expert_matmul_attributes a = { .tb = tb };
    bound f = { .in = { numbers(1, &x, type), numbers(2, &w, type), ends_of_rows() },
                .out = { numbers(0, &y, type) } };
    bind(&f, 3, &a);
    check(&f, expert_matmul_cpu, element_of_experts, tb ? "experts, transposed" : "experts");
    close_call(&f);
    bound g = { .in = { numbers(3, &x, type), numbers(4, &y, type), ends_of_rows(), numbers(5, &dw, type) },
                .out = { numbers(0, &dw, type) } };
    bind(&g, 4, &(expert_matmul_weights_attributes){ 0 });
    check(&g, expert_matmul_weights_cpu, element_of_weights, "experts' weights");
    close_call(&g);
}

static void experts_add_in_order(void **state) {
    (void)state;
    check_experts(DTYPE_F32, false);
    check_experts(DTYPE_F32, true);
    check_experts(DTYPE_BF16, true);
}

int main(void) {
    if (instructions_pin("widened") != STATUS_OK) return 1; /* pairs only where a test asks for them */
    const struct CMUnitTest tests[] = { cmocka_unit_test(convolutions_add_in_order),
                                        cmocka_unit_test(experts_add_in_order) };
    return cmocka_run_group_tests_name("gathered products", tests, NULL, NULL);
}
