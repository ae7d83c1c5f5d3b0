/* Conflicts of shared memory's banks, as the watch of emulated kernels counts them
 * (device/cuda/emulate_watch.h): those of kernels of which they are known; and in products and attention on
 * tensor cores there are none, from their beginnings to their ends. What a block does more of where the sum
 * is twice as long is its main loop. And sectors of memory that products touch beside what they ask for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#ifdef SNUG_WATCHED

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/instructions.h"
#include "base/memory.h"
#include "device/cuda/emulate_watch.h"
#include "mistaken_banks.h"
#include "ops/attention_flash/attention_flash.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul_fp8/matmul_fp8.h"
#include "ops/matmul_int8/matmul_int8.h"

enum { MOST_IN = 12, MOST_OUT = 3 };

static uint32_t capability = 90; /* that kernels are asked for */

/* ---- kernels whose turns are known ---- */

static void turns_are_counted(void **state) {
    (void)state;
    for (const mistaken_banks *k = mistaken_banks_all; k->name; k++) {
        float *x = memory_new(3 * MISTAKEN_BANKS_FLOATS, sizeof *x), *y = x + MISTAKEN_BANKS_FLOATS;
        emulate_traffic t;
        emulate_conflicts worst;
        assert_non_null(x);
        emulate_watch_begin(&(emulate_watch_options){ .traffic = true });
        emulate_watch_memory(x, 3 * MISTAKEN_BANKS_FLOATS * sizeof *x, EMULATE_WATCH_FILLED);
        k->run(x, y);
        if (emulate_watch_end(&t)) fail_msg("%s: %s", k->name, emulate_watch_said());
        for (int writes = 0; writes < 2; writes++)
            if (t.turns[writes] != k->turns[writes] || t.conflicts[writes] != k->conflicts[writes])
                fail_msg("%s, %s: %llu turns and %llu more", k->name, writes ? "writes" : "reads",
                         (unsigned long long)t.turns[writes], (unsigned long long)t.conflicts[writes]);
        bool any = k->conflicts[0] || k->conflicts[1];
        assert_int_equal(emulate_watch_conflicts(0, &worst), any);
        if (any) assert_true(worst.conflicts == k->conflicts[0] || worst.conflicts == k->conflicts[1]);
        memory_free(x);
    }
}

/* ---- a call ---- */

typedef struct {
    op_arg in[MOST_IN], out[MOST_OUT];
    uint16_t in_count, out_count;
    const void *attributes;
} made;

/* Zeros, where sixteen bytes can be copied at once. */
static op_arg zeros(dtype type, shape s) {
    size_t bytes = (size_t)shape_elements(&s) * dtype_bytes(type);
    op_arg x = { .data = aligned_alloc(64, (bytes + 127) / 64 * 64), .shape = s, .dtype = type };
    assert_non_null(x.data);
    memset(x.data, 0, bytes + 1);
    return x;
}

static void watch_all(const op_arg *x, uint16_t count) {
    for (uint16_t i = 0; i < count; i++)
        emulate_watch_memory(x[i].data, (uint64_t)shape_elements(&x[i].shape) * dtype_bytes(x[i].dtype) + 1,
                             EMULATE_WATCH_FILLED);
}

static void free_all(const op_arg *x, uint16_t count) {
    for (uint16_t i = 0; i < count; i++) free(x[i].data);
}

/* One block of each launch of the first kernel that takes the call; frees the call. */
static emulate_traffic traffic_of(const op_kernel *k, const made *m) {
    op_call c = { .in = m->in,
                  .out = m->out,
                  .in_count = m->in_count,
                  .out_count = m->out_count,
                  .capability = capability,
                  .attributes = m->attributes };
    emulate_traffic t;
    while (k->name && !k->accepts(&c)) k++;
    if (!k->name) fail_msg("no kernel takes the call");
    c.scratch_bytes = k->scratch ? k->scratch(&c, 1) : 0;
    c.scratch = aligned_alloc(64, (c.scratch_bytes + 127) / 64 * 64);
    assert_non_null(c.scratch);
    memset(c.scratch, 0, c.scratch_bytes);
    emulate_watch_begin(&(emulate_watch_options){ .traffic = true, .most_blocks = 1 });
    watch_all(m->in, m->in_count), watch_all(m->out, m->out_count);
    emulate_watch_memory(c.scratch, c.scratch_bytes, EMULATE_WATCH_SCRATCH);
    k->run(&c);
    if (emulate_watch_end(&t)) fail_msg("%s: %s", k->name, emulate_watch_said());
    free(c.scratch);
    free_all(m->in, m->in_count), free_all(m->out, m->out_count);
    return t;
}

/* Of the call that was watched last. */
static void never_waits(const char *name, const emulate_traffic *t) {
    emulate_conflicts c = { .where = "" };
    uint64_t conflicts = t->conflicts[0] + t->conflicts[1];
    if (!conflicts) return;
    emulate_watch_conflicts(0, &c);
    fail_msg("%s: %llu conflicts beside %llu turns, as at %s: %llu beside %llu", name,
             (unsigned long long)conflicts, (unsigned long long)(t->turns[0] + t->turns[1]), c.where,
             (unsigned long long)c.conflicts, (unsigned long long)c.turns);
}

/* How many turns a main loop takes; fails where banks make the calls wait. */
static uint64_t main_loop(const char *name, const op_kernel *k, const made *once, const made *twice) {
    emulate_traffic less = traffic_of(k, once);
    never_waits(name, &less);
    emulate_traffic more = traffic_of(k, twice);
    never_waits(name, &more);
    return more.turns[0] + more.turns[1] - less.turns[0] - less.turns[1];
}

/* ---- products ---- */

static shape matrix(int64_t rows, int64_t columns) { return SHAPE(rows, columns); }

static made product(int64_t rows, int64_t columns, int64_t depth, const matmul_attributes *t) {
    return (made){ .in = { zeros(DTYPE_BF16, t->ta ? matrix(depth, rows) : matrix(rows, depth)),
                           zeros(DTYPE_BF16, t->tb ? matrix(columns, depth) : matrix(depth, columns)) },
                   .out = { zeros(DTYPE_F32, SHAPE(rows, columns)) },
                   .in_count = 2,
                   .out_count = 1,
                   .attributes = t };
}

enum { SHORT = 512 /* depths */ };

/* The same, that begins with what was before. */
static made chained(int64_t rows, int64_t columns, int64_t depth, const matmul_attributes *t) {
    made m = product(rows, columns, depth, t);
    m.in[MATMUL_ACCUMULATOR] = zeros(DTYPE_F32, matrix(rows, columns));
    m.in_count = MATMUL_ACCUMULATOR + 1;
    return m;
}

/* What the copy engine brings takes no turns, nor does what tcgen05 multiplies; what groups of warps do. So a
 * main loop may be `beside` the kernel's threads. */
static void check_loop(const char *name, const op_kernel *k, const made *once, const made *twice,
                       bool beside) {
    uint64_t turns = main_loop(name, k, once, twice);
    if (beside != !turns) fail_msg("%s: %llu turns", name, (unsigned long long)turns);
}

static bool are_groups(const char *kind) { return strcmp(kind, INSTRUCTIONS_GROUPS) == 0; }

/* In every form, in small and in large tiles, where lines don't begin at sixteen bytes, and where ends have a
 * number at a time. */
static void products(const char *kind, uint32_t of) {
    static const int64_t lines[] = { 128, 1280, 1284, 1283 };
    assert_int_equal(instructions_pin(kind), STATUS_OK);
    capability = of;
    for (int form = 0; form < 4; form++)
        for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
            char name[100];
            matmul_attributes t = { form & 1, form >> 1, DTYPE_F32 };
            int64_t n = lines[i], odd = n % 8;
            made once = product(n, n, SHORT + odd, &t), twice = product(n, n, 2 * SHORT + odd, &t);
            snprintf(name, sizeof name, "%s, %u, %lld lines, %s, %s", kind, of, (long long)n,
                     t.ta ? "a transposed" : "a", t.tb ? "b transposed" : "b");
            check_loop(name, op_matmul.tensor, &once, &twice, are_groups(kind) && of == 100 && !odd);
            once = chained(n, n, SHORT + odd, &t);
            emulate_traffic whole = traffic_of(op_matmul.tensor, &once);
            never_waits(name, &whole);
        }
    capability = 90;
}

static made of_floats(int64_t lines, int64_t depth, const matmul_fp8_attributes *t) {
    bool over = t->ta;
    shape a = over ? matrix(depth, lines) : matrix(lines, depth);
    shape scales = matrix(a.dim[0], fp8_blocks(a.dim[1]));
    made m = { .in = { [MATMUL_FP8_A] = zeros(DTYPE_U8, a), [MATMUL_FP8_A_SCALES] = zeros(DTYPE_U8, scales) },
               .out = { zeros(DTYPE_F32, SHAPE(lines, lines)) },
               .in_count = MATMUL_FP8_INPUTS,
               .out_count = 1,
               .attributes = t };
    m.in[MATMUL_FP8_B] = over    ? zeros(DTYPE_U8, a)
                         : t->tb ? zeros(DTYPE_BF16, matrix(lines, depth))
                                 : zeros(DTYPE_BF16, matrix(depth, lines));
    if (over) m.in[MATMUL_FP8_B_SCALES] = zeros(DTYPE_U8, scales);
    return m;
}

static const matmul_fp8_attributes forms_of_floats[] = { { 0, 0, DTYPE_F32, FP8_E4M3, FP8_E4M3 },
                                                         { 0, 1, DTYPE_F32, FP8_E5M2, FP8_E4M3 },
                                                         { 1, 0, DTYPE_F32, FP8_E4M3, FP8_E5M2 } };
enum { FORMS_OF_FLOATS = sizeof forms_of_floats / sizeof *forms_of_floats };

/* `kind` NULL: without tensor cores. Their kernels. */
static const op_kernel *kernels_of_floats(const char *kind) {
    if (!kind) return op_matmul_fp8.cuda;
    assert_int_equal(instructions_pin(kind), STATUS_OK);
    capability = are_groups(kind) ? 90 : 89; /* where their instructions are */
    return op_matmul_fp8.tensor;
}

static void products_of_floats(const char *kind) {
    static const int64_t lines[] = { 32, 128, 1280 };
    const op_kernel *kernels = kernels_of_floats(kind);
    for (int f = 0; f < FORMS_OF_FLOATS; f++)
        for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
            char name[100];
            made once = of_floats(lines[i], SHORT, &forms_of_floats[f]),
                 twice = of_floats(lines[i], 2 * SHORT, &forms_of_floats[f]);
            snprintf(name, sizeof name, "%s, floats of 8 bits, form %d, %lld lines", kind ? kind : "plain", f,
                     (long long)lines[i]);
            check_loop(name, kernels, &once, &twice, false);
        }
    capability = 90;
}

static made of_codes(int64_t depth, const matmul_int8_attributes *t) {
    enum { LINES = 128 };
    return (
        made){ .in = { [MATMUL_INT8_A] = zeros(DTYPE_BF16, matrix(LINES, depth)),
                       [MATMUL_INT8_B] = zeros(DTYPE_I8, t->tb ? matrix(LINES, depth) : matrix(depth, LINES)),
                       [MATMUL_INT8_SCALES] = zeros(DTYPE_F32, SHAPE(LINES)) },
               .out = { zeros(DTYPE_F32, SHAPE(LINES, LINES)) },
               .in_count = MATMUL_INT8_INPUTS,
               .out_count = 1,
               .attributes = t };
}

static void products_of_codes(void) {
    assert_int_equal(instructions_pin(INSTRUCTIONS_TENSOR), STATUS_OK);
    for (int tb = 0; tb < 2; tb++) {
        matmul_int8_attributes t = { .tb = tb, .type = DTYPE_F32 };
        made once = of_codes(SHORT, &t), twice = of_codes(2 * SHORT, &t);
        assert_true(main_loop("codes of 8 bits", op_matmul_int8.cuda, &once, &twice) > 0);
    }
}

static void products_never_wait_for_banks(void **state) {
    (void)state;
    products(INSTRUCTIONS_TENSOR, 90), products(INSTRUCTIONS_GROUPS, 90), products(INSTRUCTIONS_GROUPS, 100);
    products_of_floats(INSTRUCTIONS_TENSOR), products_of_floats(INSTRUCTIONS_GROUPS);
    products_of_floats(NULL);
    products_of_codes();
}

/* ---- sectors ---- */

/* Bytes of the sectors that are read, in 100 of those that are asked for. */
static void touches_at_most(uint64_t most, const char *name, const op_kernel *k, const made *m) {
    emulate_traffic t = traffic_of(k, m);
    const uint64_t touched = t.sectors[0] * 32 * 100;
    if (touched > most * t.asked[0])
        fail_msg("%s: %llu sectors for %llu bytes", name, (unsigned long long)t.sectors[0],
                 (unsigned long long)t.asked[0]);
}

static void products_touch_whole_sectors(void **state) {
    (void)state;
    static const char *const kinds[] = { INSTRUCTIONS_TENSOR, INSTRUCTIONS_GROUPS };
    static const int64_t lines[] = { 128, 1280 };
    for (int form = 0; form < 4; form++)
        for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
            char name[100];
            matmul_attributes t = { form & 1, form >> 1, DTYPE_F32 };
            snprintf(name, sizeof name, "form %d, %lld lines", form, (long long)lines[i]);
            made m = product(lines[i], lines[i], SHORT, &t);
            touches_at_most(102, name, op_matmul.cuda, &m);
            for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
                assert_int_equal(instructions_pin(kinds[k]), STATUS_OK);
                m = product(lines[i], lines[i], SHORT, &t);
                touches_at_most(102, name, op_matmul.tensor, &m);
            }
        }
}

/* A scale is a byte of a sector without codes. Lines so few that a tile is small; depths of one tile, of more
 * than there are scales read at once, and of more than there are scales in a sector. On tensor cores a warp
 * of several reads the scales of its rows alone, which is more where a row's are no whole fours; and over
 * rows a depth has one scale for each tile of lines. */
static void products_of_floats_touch_whole_sectors(void **state) {
    (void)state;
    static const char *const kinds[] = { NULL, INSTRUCTIONS_TENSOR, INSTRUCTIONS_GROUPS };
    static const struct {
        int64_t lines, depth;
        uint64_t most_tensor[2]; /* along, over rows */
    } sizes[] = { { 32, 128, { 103, 112 } },   { 32, 1280, { 106, 112 } },   { 128, 128, { 103, 103 } },
                  { 1280, 768, { 106, 109 } }, { 1280, 4096, { 106, 109 } }, { 1280, 4224, { 112, 109 } },
                  { 4224, 256, { 103, 118 } } };
    for (int f = 0; f < FORMS_OF_FLOATS; f++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
                const op_kernel *kernels = kernels_of_floats(kinds[k]);
                char name[100];
                made m = of_floats(sizes[i].lines, sizes[i].depth, &forms_of_floats[f]);
                snprintf(name, sizeof name, "%s, floats of 8 bits, form %d, %lld lines, %lld depths",
                         kinds[k] ? kinds[k] : "plain", f, (long long)sizes[i].lines,
                         (long long)sizes[i].depth);
                touches_at_most(kinds[k] ? sizes[i].most_tensor[forms_of_floats[f].ta] : 103, name, kernels,
                                &m);
            }
    capability = 90;
}

/* ---- attention ---- */

enum { QUERIES = 64, HEADS = 2 };

/* Own queries beside as many keys; own keys are beside as many queries. */
static made attention(int64_t length, int64_t size, bool backward, const attention_attributes *t) {
    made m = { .in_count = 8, .out_count = 2, .attributes = t };
    op_arg *in = m.in;
    *in++ = zeros(DTYPE_BF16, SHAPE(1, length, HEADS * size * 3));
    in += 2;
    if (backward) {
        *in++ = zeros(DTYPE_BF16, SHAPE(1, length, HEADS * size));
        *in++ = zeros(DTYPE_F32, SHAPE(1, HEADS, length));
        *in++ = zeros(DTYPE_BF16, SHAPE(1, length, HEADS * size));
        m.out[0] = zeros(DTYPE_BF16, SHAPE(1, length, HEADS * size * 3));
        m.in_count = 11, m.out_count = 1;
    } else {
        m.out[0] = zeros(DTYPE_BF16, SHAPE(1, length, HEADS * size));
        m.out[1] = zeros(DTYPE_F32, SHAPE(1, HEADS, length));
    }
    in[3] = zeros(DTYPE_I32, SHAPE(4)); /* behind lengths, segments and offset */
    return m;
}

static void attention_never_waits_for_banks(void **state) {
    (void)state;
    static const attention_attributes forms[] = { { .heads = HEADS },
                                                  { .heads = HEADS, .dropout = 0.1f, .cap = 30 } };
    assert_int_equal(instructions_pin(INSTRUCTIONS_TENSOR), STATUS_OK);
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++)
        for (int64_t size = 64; size <= 128; size += 64)
            for (int backward = 0; backward < 2; backward++) {
                char name[100];
                const op_def *op = backward ? &op_attention_flash_backward : &op_attention_flash;
                made once = attention(2 * QUERIES, size, backward, &forms[f]),
                     twice = attention(4 * QUERIES, size, backward, &forms[f]);
                snprintf(name, sizeof name, "%s, heads of %lld, form %zu", op->name, (long long)size, f);
                assert_true(main_loop(name, op->tensor, &once, &twice) > 0);
            }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turns_are_counted),
        cmocka_unit_test(products_never_wait_for_banks),
        cmocka_unit_test(products_touch_whole_sectors),
        cmocka_unit_test(products_of_floats_touch_whole_sectors),
        cmocka_unit_test(attention_never_waits_for_banks),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests_name("banks of shared memory", tests, NULL, NULL);
}

#else

#include "emulation_left_out.h"

int main(void) { return emulation_left_out("banks of shared memory"); }

#endif
