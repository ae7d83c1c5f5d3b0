/* Results that no cache keeps are written past the caches, by a path of their own (ops/fast.h). Such a call
 * must give the bits of the same rows computed in two halves, each of which a cache keeps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "ops/add/add.h"
#include "ops/fast.h"
#include "ops/layernorm/layernorm.h"

/* A width that is no multiple of anything, and two numbers of rows of which only the sum is too much. Rows
 * are summed in tiles of 256, so the first half ends with one. */
enum { WIDTH = 1027, FIRST = 4096, SECOND = 4131, ROWS = FIRST + SECOND, MOST_SIDES = 8 };

_Static_assert((int64_t)ROWS *WIDTH *(int64_t)sizeof(float) > FAST_CACHED, "too much for a cache");
_Static_assert((int64_t)SECOND *WIDTH *(int64_t)sizeof(float) < FAST_CACHED, "not too much");

typedef struct {
    float *in[MOST_SIDES], *out[MOST_SIDES]; /* of all rows */
} operands;

static float *numbers(int64_t n, uint32_t random) {
    float *x = malloc((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) {
        random = random * 1664525u + 1013904223u;
        x[i] = (float)(random >> 8) / (1 << 23) - 1;
    }
    return x;
}

typedef struct {
    const op_def *op;
    graph g;
    const node *n;
} one_node;

static void open_node(one_node *o, const op_def *op, int64_t rows) {
    *o = (one_node){ .op = op };
    assert_int_equal(graph_open(&o->g), STATUS_OK);
    graph *g = &o->g;
    char name[] = "a";
    tensor_id s[8];
    for (int i = 0; i < 8; i++, name[0]++) {
        shape of = i < 4 ? SHAPE(rows, WIDTH) : i < 6 ? SHAPE(WIDTH) : SHAPE(rows);
        s[i] = graph_add_source(g, &(graph_source){ name, of, DTYPE_F32, ROLE_INPUT, 0 });
    }
    if (op == &op_add) add_apply(g, s[0], s[1]);
    if (op == &op_layernorm) layernorm_apply(g, s[0], s[4], s[5], 1e-5f);
    if (op == &op_layernorm_backward)
        layernorm_backward_apply(g, (layernorm_backward_inputs){
                                        .x = s[0], .gamma = s[4], .mean = s[6], .rstd = s[7], .dy = s[1] });
    assert_int_equal(graph_status(g), STATUS_OK);
    o->n = graph_node(g, g->nodes.count - 1);
}

/* Rows first .. first + rows - 1, by the kernel that a plan would take. */
static void run_rows(const op_def *op, const operands *x, int64_t first, int64_t rows) {
    one_node o;
    op_arg in[MOST_SIDES] = { 0 }, out[MOST_SIDES] = { 0 };
    open_node(&o, op, rows);
    op_call call = { .in = in,
                     .out = out,
                     .in_count = o.n->in_count,
                     .out_count = o.n->out_count,
                     .attributes = node_attributes(&o.g, o.n) };
    for (uint32_t i = 0; i < call.in_count; i++) {
        tensor_id t = node_in(&o.g, o.n, i);
        if (!t) continue;
        const shape *s = graph_shape(&o.g, t);
        int64_t each = s->dim[0] == rows ? shape_elements(s) / rows : 0;
        in[i] = (op_arg){ x->in[i] + first * each, *s, DTYPE_F32 };
    }
    for (uint32_t i = 0; i < call.out_count; i++) {
        const shape *s = graph_shape(&o.g, node_out(&o.g, o.n, i));
        int64_t each = s->dim[0] == rows ? shape_elements(s) / rows : 0;
        out[i] = (op_arg){ x->out[i] + first * each, *s, DTYPE_F32 };
    }
    const op_kernel *k = op->cpu;
    while (k->accepts && !k->accepts(&call)) k++;
    uint64_t bytes = k->scratch ? k->scratch(&call, threads_count()) : 0;
    call.scratch = bytes ? aligned_alloc(64, (bytes + 63) / 64 * 64) : NULL;
    call.scratch_bytes = bytes;
    k->run(&call);
    free(call.scratch);
    graph_close(&o.g);
}

/* `row_outputs`: of which each row has its own values. */
static void compare(const op_def *op, operands *x, uint32_t row_outputs, const int64_t each[]) {
    float *whole[MOST_SIDES] = { 0 }, *parts[MOST_SIDES] = { 0 };
    for (uint32_t o = 0; o < 3; o++) {
        whole[o] = numbers((int64_t)ROWS * WIDTH, 9);
        parts[o] = o < row_outputs ? numbers((int64_t)ROWS * WIDTH, 8) : numbers(WIDTH, 8);
    }
    memcpy(x->out, whole, sizeof whole);
    run_rows(op, x, 0, ROWS);
    memcpy(x->out, parts, sizeof parts);
    run_rows(op, x, 0, FIRST);
    run_rows(op, x, FIRST, SECOND);
    for (uint32_t o = 0; o < row_outputs; o++)
        for (int64_t i = 0; i < ROWS * each[o]; i++)
            if (memcmp(&whole[o][i], &parts[o][i], sizeof(float)) != 0)
                fail_msg("%s: output %u, element %lld is %.9g, in halves %.9g", op->name, o, (long long)i,
                         (double)whole[o][i], (double)parts[o][i]);
    for (uint32_t o = 0; o < 3; o++) free(whole[o]), free(parts[o]);
}

static void large_results_have_the_same_bits(void **state) {
    (void)state;
    int64_t all = (int64_t)ROWS * WIDTH;
    float *x = numbers(all, 1), *y = numbers(all, 2), *gamma = numbers(WIDTH, 3), *beta = numbers(WIDTH, 4);
    float *mean = numbers(ROWS, 5), *rstd = numbers(ROWS, 6);
    operands add = { .in = { x, y } }, norm = { .in = { x, gamma, beta } };
    operands back = { .in = { x, gamma, mean, rstd, y } };
    for (int threads = 1; threads <= 2; threads++) {
        threads_set(threads);
        compare(&op_add, &add, 1, (const int64_t[]){ WIDTH });
        compare(&op_layernorm, &norm, 3, (const int64_t[]){ WIDTH, 1, 1 });
        compare(&op_layernorm_backward, &back, 1, (const int64_t[]){ WIDTH });
    }
    free(x), free(y), free(gamma), free(beta), free(mean), free(rstd);
}

/* And they are what they should be. */
static void large_sums_are_sums(void **state) {
    (void)state;
    int64_t all = (int64_t)ROWS * WIDTH;
    operands add = { .in = { numbers(all, 1), numbers(all, 2) }, .out = { numbers(all, 3) } };
    run_rows(&op_add, &add, 0, ROWS);
    for (int64_t i = 0; i < all; i++)
        if (add.out[0][i] != add.in[0][i] + add.in[1][i]) fail_msg("element %lld", (long long)i);
    free(add.in[0]), free(add.in[1]), free(add.out[0]);
}

int main(void) {
    threads_set(2);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_results_have_the_same_bits),
        cmocka_unit_test(large_sums_are_sums),
    };
    return cmocka_run_group_tests_name("large", tests, NULL, NULL);
}
