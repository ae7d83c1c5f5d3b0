/* Functions of one number of 16 bits that are looked up (ops/half_table.h): for all 65,536 numbers of either
 * type the bits are those of widened elements, by vectors and one by one, on one thread and on several, also
 * where the result takes the place of what is read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/half.h"
#include "base/instructions.h"
#include "base/threads.h"
#include "ops/gated/gated.h"
#include "ops/gelu/gelu.h"
#include "ops/half_table.h"
#include "ops/quick_gelu/quick_gelu.h"
#include "ops/silu/silu.h"

enum { ALL = 1 << 16, N = HALF_TABLE_LEAST_F16 + 1037, OPERANDS = 3, RESULTS = 2, ROOM = 1 << 20 };

typedef struct {
    const op_def *op;
    const void *attributes;
    uint16_t in, out;
} looked_up;

static const gelu_attributes by_tanh = { 1 }, by_erf = { 0 };
static const gated_attributes silu = { GATED_SILU }, gelu_tanh = { GATED_GELU_TANH },
                              gelu_erf = { GATED_GELU_ERF };
static const looked_up all[] = { { &op_gelu, &by_tanh, 1, 1 },
                                 { &op_gelu, &by_erf, 1, 1 },
                                 { &op_gelu_backward, &by_tanh, 2, 1 },
                                 { &op_gelu_backward, &by_erf, 2, 1 },
                                 { &op_silu, NULL, 1, 1 },
                                 { &op_silu_backward, NULL, 2, 1 },
                                 { &op_quick_gelu, NULL, 1, 1 },
                                 { &op_quick_gelu_backward, NULL, 2, 1 },
                                 { &op_gated, &silu, 2, 1 },
                                 { &op_gated, &gelu_tanh, 2, 1 },
                                 { &op_gated, &gelu_erf, 2, 1 },
                                 { &op_gated_backward, &silu, 3, 2 },
                                 { &op_gated_backward, &gelu_tanh, 3, 2 },
                                 { &op_gated_backward, &gelu_erf, 3, 2 } };
enum { LOOKED_UP = sizeof all / sizeof *all };

static uint16_t operand[OPERANDS][N], held[OPERANDS][N], should[RESULTS][N], is[RESULTS][N];
static _Alignas(64) unsigned char room[ROOM];

static uint16_t narrowed(dtype type, float x) { return type == DTYPE_F16 ? half_to_f16(x) : half_to_bf16(x); }

/* All numbers in their order; then those that have a place in bf16's table, mixed; with the last piece not
 * whole. */
static void fill(dtype type) {
    for (int i = 0; i < N; i++) {
        uint32_t mixed = (uint32_t)i * 2654435761u;
        uint16_t placed = (uint16_t)((104 << 7) + (mixed >> 8) % (31 << 7));
        operand[0][i] = i < ALL ? (uint16_t)i : (uint16_t)(mixed >> 7 & 0x8000u);
        if (i >= ALL && i % 57) operand[0][i] |= placed;
        operand[1][i] = narrowed(type, (float)(mixed >> 12 & 0xfff) * 0x1p-9f - 3.9f);
        operand[2][i] = narrowed(type, (float)(mixed & 0xfff) * 0x1p-14f - 0.1f);
    }
}

static const op_kernel *kernel_of(const op_def *op, const char *suffix) {
    char name[64];
    snprintf(name, sizeof name, "%s_cpu_%s", op->name, suffix);
    for (const op_kernel *k = op->cpu; k->name; k++)
        if (strcmp(k->name, name) == 0) return k;
    fail_msg("no kernel %s", name);
    return NULL;
}

/* `place`: the operand whose memory result 0 takes; -1: its own. */
static void run(const looked_up *l, dtype type, const char *suffix, int place, int threads,
                uint16_t (*y)[N]) {
    op_arg in[OPERANDS], out[RESULTS];
    const op_kernel *k = kernel_of(l->op, suffix);
    memcpy(held, operand, sizeof held);
    for (int i = 0; i < l->in; i++) in[i] = (op_arg){ held[i], SHAPE(N), type };
    for (int o = 0; o < l->out; o++) out[o] = (op_arg){ y[o], SHAPE(N), type };
    if (place >= 0) out[0].data = held[place];
    op_call c = { .in = in, .out = out, .in_count = l->in, .out_count = l->out, .attributes = l->attributes };
    threads_set(threads);
    c.scratch = room, c.scratch_bytes = k->scratch ? k->scratch(&c, threads) : 0;
    assert_true(k->accepts(&c) && c.scratch_bytes < ROOM);
    memset(room, 0xa5, sizeof room);
    k->run(&c);
    for (uint64_t i = c.scratch_bytes; i < ROOM; i++) assert_int_equal(room[i], 0xa5);
    if (place >= 0) memcpy(y[0], held[place], sizeof *y);
}

static bool is_nan(dtype type, uint16_t x) { return (x & 0x7fff) > (type == DTYPE_F16 ? 0x7c00 : 0x7f80); }

static void compare(const looked_up *l, dtype type, const char *how) {
    for (int o = 0; o < l->out; o++)
        for (int i = 0; i < N; i++)
            if (is[o][i] != should[o][i] && !(is_nan(type, is[o][i]) && is_nan(type, should[o][i])))
                fail_msg("%s of %s, %s: output %d of %04x is %04x, not %04x", l->op->name, dtype_name(type),
                         how, o, operand[0][i], is[o][i], should[o][i]);
}

static void check(dtype type) {
    static const char *const sets[] = { "auto", "plain" };
    fill(type);
    for (int k = 0; k < LOOKED_UP; k++) {
        run(&all[k], type, "widened", -1, 1, should);
        if (type == DTYPE_BF16) run(&all[k], type, "bf16", -1, 1, is);
        if (type == DTYPE_BF16) compare(&all[k], type, "directly");
        for (int s = 0; s < 2; s++) {
            assert_int_equal(instructions_pin(sets[s]), STATUS_OK);
            for (int place = -1; place < all[k].in; place++) {
                run(&all[k], type, "table", place, place < 0 ? 3 : 1, is);
                compare(&all[k], type, sets[s]);
            }
        }
        assert_int_equal(instructions_pin("auto"), STATUS_OK);
    }
    threads_set(1);
}

static void numbers_of_bf16(void **state) {
    (void)state;
    check(DTYPE_BF16);
}

static void numbers_of_f16(void **state) {
    (void)state;
    check(DTYPE_F16);
}

/* Few elements, and other types, are none of the table's. */
static void accepted(void **state) {
    (void)state;
    op_arg x = { NULL, SHAPE(HALF_TABLE_LEAST_BF16), DTYPE_BF16 };
    op_call c = { .in = &x, .out = &x, .in_count = 1, .out_count = 1 };
    assert_true(half_table_accepts(&c));
    x.dtype = DTYPE_F16;
    assert_false(half_table_accepts(&c));
    x.shape = SHAPE(HALF_TABLE_LEAST_F16);
    assert_true(half_table_accepts(&c));
    x.dtype = DTYPE_F32;
    assert_false(half_table_accepts(&c));
    x.dtype = DTYPE_BF16, x.shape = SHAPE(HALF_TABLE_LEAST_BF16 - 1);
    assert_false(half_table_accepts(&c));
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(numbers_of_bf16), cmocka_unit_test(numbers_of_f16),
                                        cmocka_unit_test(accepted) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
