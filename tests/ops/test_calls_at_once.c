/* Kernels that run several calls at once have the bits that they have call by call, emulated: tensors of
 * many sizes, more of them than go into a launch, with state in f32, in bf16 with random bits, in codes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#ifdef SNUG_CUDA_EMULATED

#include <string.h>

#include "base/memory.h"
#include "device/cuda/emulate_order.h"
#include "harness_memory.h"
#include "ops/adamw/adamw.h"
#include "ops/lion/lion.h"
#include "ops/sgd/sgd.h"
#include "ops/state.h"
#include "ops/sum_squares/sum_squares.h"
#include "ops/sweeps.h"

enum { CALLS = 100, MOST_ARGS = 16 };

/* What is shared by all calls: lr, t, scale, ok, key. */
static float lr = 0.01f, scale = 0.5f;
static int32_t t = 3, ok = 1, key[4] = { 7, 8, 9, 0 };

static op_arg of(void *data, int64_t n, dtype type) { return (op_arg){ data, { { n }, 1 }, type }; }

static op_arg room(int64_t n, dtype type, double low, double high) {
    op_arg x = of(memory_new((size_t)n, dtype_bytes(type)), n, type);
    assert_non_null(x.data);
    harness_fill(&x, low, high, (uint64_t)n + type);
    return x;
}

/* From one number on to several blocks; some sizes again. */
static int64_t size_of(int call) { return 1 + (int64_t)call * call % 83 * 131; }

typedef struct {
    const op_def *op;
    const void *attributes;
    dtype weight, state; /* state DTYPE_U8: codes */
    int states;
    uint8_t lr, t, scale, ok, key; /* inputs; t 0: it has none */
} form;

typedef struct {
    op_arg in[CALLS][MOST_ARGS], out[CALLS][MOST_ARGS];
    op_call call[CALLS];
} calls;

static void add_state(const form *f, calls *c, int k, int s, int64_t n) {
    const op_state *st = &f->op->update->states[s];
    double low = st->positive ? 0 : -1;
    bool coded = f->state == DTYPE_U8;
    c->in[k][st->in] = coded ? room(n, DTYPE_U8, 0, 255) : room(n, f->state, low, 1);
    c->out[k][st->out] = c->in[k][st->in];
    if (!coded) return;
    c->in[k][st->scales] = room(state_scales(n), DTYPE_F32, 0, 1);
    c->out[k][st->scales_out] = c->in[k][st->scales];
}

/* In place, as updates are. */
static void open_updates(const form *f, calls *c) {
    memset(c, 0, sizeof *c);
    for (int k = 0; k < CALLS; k++) {
        int64_t n = size_of(k);
        c->in[k][0] = c->out[k][0] = room(n, f->weight, -1, 1);
        c->in[k][1] = room(n, DTYPE_F32, -1, 1);
        for (int s = 0; s < f->states; s++) add_state(f, c, k, s, n);
        c->in[k][f->lr] = of(&lr, 1, DTYPE_F32), c->in[k][f->scale] = of(&scale, 1, DTYPE_F32);
        c->in[k][f->ok] = of(&ok, 1, DTYPE_I32);
        if (f->t) c->in[k][f->t] = of(&t, 1, DTYPE_I32);
        if (f->weight == DTYPE_BF16 || f->state == DTYPE_U8) c->in[k][f->key] = of(key, 4, DTYPE_I32);
        c->call[k] = (op_call){ .in = c->in[k],
                                .out = c->out[k],
                                .in_count = f->op->in_count,
                                .out_count = MOST_ARGS,
                                .capability = 90,
                                .attributes = f->attributes };
    }
}

static bool is_shared(const void *data) {
    return data == &lr || data == &scale || data == &t || data == &ok || data == key;
}

static void close_updates(calls *c) {
    for (int k = 0; k < CALLS; k++)
        for (int i = 0; i < MOST_ARGS; i++)
            if (!is_shared(c->in[k][i].data)) memory_free(c->in[k][i].data);
}

static void are_the_same(const calls *a, const calls *b) {
    for (int k = 0; k < CALLS; k++)
        for (int o = 0; o < MOST_ARGS; o++)
            if (a->out[k][o].data)
                assert_memory_equal(a->out[k][o].data, b->out[k][o].data,
                                    (size_t)shape_elements(&a->out[k][o].shape) *
                                        dtype_bytes(a->out[k][o].dtype));
}

static void updates_have_their_bits(void **state) {
    static const adamw_attributes adamw = { 0.9f, 0.999f, 1e-8f, 0.1f, 5 };
    static const lion_attributes lion = { .beta1 = 0.9f, .beta2 = 0.99f, .weight_decay = 0.1f };
    static const sgd_attributes sgd = { .momentum = 0.9f };
    static const form forms[] = {
        { &op_adamw, &adamw, DTYPE_F32, DTYPE_F32, 2, 4, 5, 6, 7, 10 },
        { &op_adamw, &adamw, DTYPE_BF16, DTYPE_BF16, 2, 4, 5, 6, 7, 10 },
        { &op_adamw, &adamw, DTYPE_F32, DTYPE_U8, 2, 4, 5, 6, 7, 10 },
        { &op_lion, &lion, DTYPE_F32, DTYPE_F32, 1, 3, 0, 4, 5, 0 },
        { &op_sgd, &sgd, DTYPE_F32, DTYPE_F32, 1, 3, 0, 4, 5, 0 },
    };
    static calls one_by_one, at_once;
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const op_kernel *k = forms[i].op->cuda;
        open_updates(&forms[i], &one_by_one), open_updates(&forms[i], &at_once);
        for (int c = 0; c < CALLS; c++) k->run(&one_by_one.call[c]);
        emulate_order_set(i % 2 ? EMULATE_REVERSED : EMULATE_SHUFFLED);
        op_sweep_of(k)(at_once.call, CALLS);
        emulate_order_set(EMULATE_FORWARD);
        are_the_same(&one_by_one, &at_once);
        close_updates(&one_by_one), close_updates(&at_once);
    }
}

/* Sizes of a part of a tile up to more tiles than a block has. */
static void norms_have_their_bits(void **state) {
    const op_kernel *k = op_sum_squares.cuda;
    static op_arg in[CALLS], out[CALLS];
    static op_call call[CALLS];
    static float sums[2][CALLS];
    (void)state;
    for (int c = 0; c < CALLS; c++) {
        int64_t n = c % 10 == 3 ? 30 * SUM_SQUARES_TILE + c : size_of(c);
        in[c] = room(n, c % 3 ? DTYPE_F32 : DTYPE_BF16, -1, 1), out[c] = of(&sums[0][c], 1, DTYPE_F32);
        call[c] = (op_call){ .in = &in[c], .out = &out[c], .in_count = 1, .out_count = 1, .capability = 90 };
        call[c].scratch = memory_new((size_t)k->scratch(&call[c], 1) + 1, 1);
        k->run(&call[c]);
        out[c].data = &sums[1][c];
    }
    op_sweep_of(k)(call, CALLS);
    for (int c = 0; c < CALLS; c++) memory_free(in[c].data), memory_free(call[c].scratch);
    assert_memory_equal(sums[0], sums[1], sizeof sums[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(updates_have_their_bits),
                                        cmocka_unit_test(norms_have_their_bits) };
    return cmocka_run_group_tests_name("calls at once", tests, NULL, NULL);
}

#else

#include "emulation_left_out.h"

int main(void) { return emulation_left_out("calls at once"); }

#endif
