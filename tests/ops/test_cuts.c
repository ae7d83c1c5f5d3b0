/* A batch in pieces gives the bits of the whole batch: sums over rows chained through their accumulators when
 * the cuts fall on row tiles (docs/design.md), ops that add row after row when cut anywhere, and random
 * draws, which belong to the global sample. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/memory.h"
#include "base/philox.h"
#include "base/threads.h"
#include "harness_memory.h"
#include "ops/add_positions/add_positions.h"
#include "ops/class_token/class_token.h"
#include "ops/column_scale/column_scale.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/dropout/dropout.h"
#include "ops/embedding/embedding.h"
#include "ops/layernorm/layernorm.h"
#include "ops/rmsnorm/rmsnorm.h"
#include "ops/sum/sum.h"

/* What a piece gets of an argument: all of it, its rows of dimension 0, or the result of the piece before. */
typedef enum { WHOLE, ROWS, CHAIN } part;

enum { ARGS = 8, OUTS = 3 };
typedef struct {
    const op_def *op;
    struct {
        dtype dtype;
        shape shape;
        part part;
        double low, high;
    } in[ARGS];
    struct {
        shape shape;
        part part;
        int chained; /* CHAIN: the input that is its accumulator */
    } out[OUTS];
    const void *attributes;
    int64_t cuts[4]; /* ascending, the last is the number of rows */
} cut_case;

#define F DTYPE_F32
static const cut_case cut_cases[] = {
    { &op_layernorm_backward,
      { { F, { { 700, 33 }, 2 }, ROWS, -1, 1 },
        { F, { { 33 }, 1 }, WHOLE, -1, 1 },
        { F, { { 700 }, 1 }, ROWS, -1, 1 },
        { F, { { 700 }, 1 }, ROWS, 1, 2 },
        { F, { { 700, 33 }, 2 }, ROWS, -1, 1 },
        { F, { { 700, 33 }, 2 }, ROWS, -1, 1 },
        { F, { { 33 }, 1 }, CHAIN, -1, 1 },
        { F, { { 33 }, 1 }, CHAIN, -1, 1 } },
      { { { { 700, 33 }, 2 }, ROWS, 0 }, { { { 33 }, 1 }, CHAIN, 6 }, { { { 33 }, 1 }, CHAIN, 7 } },
      NULL,
      { 256, 512, 700 } },
    { &op_rmsnorm_backward,
      { { F, { { 1400, 33 }, 2 }, ROWS, -1, 1 },
        { F, { { 33 }, 1 }, WHOLE, -1, 1 },
        { F, { { 1400 }, 1 }, ROWS, 1, 2 },
        { F, { { 1400, 33 }, 2 }, ROWS, -1, 1 },
        { F, { { 1400, 33 }, 2 }, ROWS, -1, 1 },
        { F, { { 33 }, 1 }, CHAIN, -1, 1 } },
      { { { { 1400, 33 }, 2 }, ROWS, 0 }, { { { 33 }, 1 }, CHAIN, 5 } },
      &(rmsnorm_backward_attributes){ 0 },
      { 768, 1400 } },
    { &op_cross_entropy,
      { { F, { { 700, 33 }, 2 }, ROWS, -4, 4 },
        { DTYPE_I32, { { 700 }, 1 }, ROWS, -3, 33 },
        { F, { { 1 }, 1 }, WHOLE, 0.001, 0.002 },
        { F, { { 1 }, 1 }, CHAIN, -1, 1 } },
      { { { { 1 }, 1 }, CHAIN, 3 }, { { { 700 }, 1 }, ROWS, 0 } },
      NULL,
      { 512, 700 } },
    { &op_sum,
      { { F, { { 700, 33 }, 2 }, ROWS, -4, 4 }, { F, { { 1 }, 1 }, CHAIN, -1, 1 } },
      { { { { 1 }, 1 }, CHAIN, 1 } },
      NULL,
      { 256, 700 } },
    { &op_embedding_backward,
      { { DTYPE_I32, { { 700 }, 1 }, ROWS, 0, 5 },
        { F, { { 700, 33 }, 2 }, ROWS, -1, 1 },
        { F, { { 5, 33 }, 2 }, CHAIN, -1, 1 } },
      { { { { 5, 33 }, 2 }, CHAIN, 2 } },
      &(embedding_backward_attributes){ 5, 0 },
      { 1, 333, 700 } },
    { &op_add_positions_backward,
      { { F, { { 9, 7, 33 }, 3 }, ROWS, -1, 1 },
        { DTYPE_I32, { { 1 }, 1 }, WHOLE, 2, 3 },
        { F, { { 10, 33 }, 2 }, CHAIN, -1, 1 } },
      { { { { 10, 33 }, 2 }, CHAIN, 2 } },
      &(add_positions_backward_attributes){ .rows = 10 },
      { 1, 4, 9 } },
    { &op_column_scale_backward,
      { { F, { { 700, 33 }, 2 }, ROWS, -1, 1 },
        { F, { { 33 }, 1 }, WHOLE, -1, 1 },
        { F, { { 700, 33 }, 2 }, ROWS, -1, 1 },
        { F, { { 33 }, 1 }, CHAIN, -1, 1 } },
      { { { { 33 }, 1 }, CHAIN, 3 }, { { { 700, 33 }, 2 }, ROWS, 0 } },
      NULL,
      { 256, 512, 700 } },
    { &op_class_token_backward,
      { { F, { { 9, 7, 33 }, 3 }, ROWS, -1, 1 }, { F, { { 33 }, 1 }, CHAIN, -1, 1 } },
      { { { { 33 }, 1 }, CHAIN, 1 }, { { { 9, 6, 33 }, 3 }, ROWS, 0 } },
      NULL,
      { 1, 4, 9 } },
    { &op_add_positions_backward, /* one row for all */
      { { F, { { 9, 7, 33 }, 3 }, ROWS, -1, 1 },
        { DTYPE_I32, { { 1 }, 1 }, WHOLE, 2, 3 },
        { F, { { 2, 33 }, 2 }, CHAIN, -1, 1 } },
      { { { { 2, 33 }, 2 }, CHAIN, 2 } },
      &(add_positions_backward_attributes){ .rows = 2, .at = { 1, 1 } },
      { 1, 4, 9 } },
};

typedef struct {
    op_arg in[ARGS], out[OUTS];
    int in_count, out_count;
} buffers;

static void buffers_open(buffers *b, const cut_case *c) {
    *b = (buffers){ 0 };
    for (; b->in_count < ARGS && c->in[b->in_count].dtype; b->in_count++) {
        op_arg *x = &b->in[b->in_count];
        *x = (op_arg){ .shape = c->in[b->in_count].shape, .dtype = c->in[b->in_count].dtype };
        x->data = harness_block_new((uint64_t)shape_elements(&x->shape) * 4, 0);
        assert_non_null(x->data);
        harness_fill(x, c->in[b->in_count].low, c->in[b->in_count].high, 77u + (uint64_t)b->in_count);
    }
    for (; b->out_count < OUTS && c->out[b->out_count].shape.rank; b->out_count++) {
        op_arg *y = &b->out[b->out_count];
        *y = (op_arg){ .shape = c->out[b->out_count].shape, .dtype = DTYPE_F32 };
        y->data = harness_block_new((uint64_t)shape_elements(&y->shape) * 4, 0);
        assert_non_null(y->data);
    }
}

static void buffers_close(buffers *b) {
    for (int i = 0; i < b->in_count; i++) harness_block_free(b->in[i].data);
    for (int i = 0; i < b->out_count; i++) harness_block_free(b->out[i].data);
}

static op_arg rows_of(op_arg x, int64_t first, int64_t last) {
    int64_t row = shape_elements(&x.shape) / x.shape.dim[0];
    x.data = (char *)x.data + first * row * 4;
    x.shape.dim[0] = last - first;
    return x;
}

/* Rows first .. last-1; chained sums continue from `chain` where this is not the first piece. false: the
 * kernel is for other types. */
static bool run_piece(const cut_case *c, const op_kernel *k, buffers *b, int64_t first, int64_t last) {
    op_arg in[ARGS], out[OUTS];
    for (int i = 0; i < b->in_count; i++)
        in[i] = c->in[i].part == ROWS ? rows_of(b->in[i], first, last) : b->in[i];
    for (int o = 0; o < b->out_count; o++) {
        out[o] = c->out[o].part == ROWS ? rows_of(b->out[o], first, last) : b->out[o];
        if (c->out[o].part == CHAIN && first > 0) in[c->out[o].chained] = b->out[o];
    }
    op_call call = { .in = in,
                     .out = out,
                     .in_count = (uint16_t)b->in_count,
                     .out_count = (uint16_t)b->out_count,
                     .attributes = c->attributes };
    if (k->accepts && !k->accepts(&call)) return false;
    assert_true(harness_run_kernel(k, &call));
    return true;
}

static void pieces_give_the_bits_of_the_whole(void **state) {
    (void)state;
    threads_set(2);
    for (size_t i = 0; i < sizeof cut_cases / sizeof *cut_cases; i++) {
        const cut_case *c = &cut_cases[i];
        for (const op_kernel *k = c->op->cpu; k->name; k++) {
            buffers whole, cut;
            buffers_open(&whole, c);
            buffers_open(&cut, c);
            bool ran = run_piece(c, k, &whole, 0, c->in[0].shape.dim[0]);
            for (int64_t piece = 0, first = 0; first < c->in[0].shape.dim[0]; first = c->cuts[piece++])
                run_piece(c, k, &cut, first, c->cuts[piece]);
            for (int o = 0; ran && o < whole.out_count; o++)
                if (memcmp(whole.out[o].data, cut.out[o].data, harness_block_bytes(cut.out[o].data)) != 0)
                    fail_msg("%s: output %d differs when the batch is cut", k->name, o);
            buffers_close(&whole);
            buffers_close(&cut);
        }
    }
}

static void dropout_belongs_to_the_global_sample(void **state) {
    (void)state;
    enum { SAMPLES = 5, SIZE = 203 };
    philox_key key = { 11, 22, 33, 100 }, later = { 11, 22, 33, 102 };
    static float x[SAMPLES * SIZE], whole[SAMPLES * SIZE], cut[SAMPLES * SIZE];
    for (int i = 0; i < SAMPLES * SIZE; i++) x[i] = 1;
    op_arg in[] = { { x, SHAPE(SAMPLES, SIZE), DTYPE_F32 }, { &key, SHAPE(4), DTYPE_I32 } };
    op_arg rest[] = { { x, SHAPE(3, SIZE), DTYPE_F32 }, { &later, SHAPE(4), DTYPE_I32 } };
    op_arg out = { whole, SHAPE(SAMPLES, SIZE), DTYPE_F32 }, tail = { cut, SHAPE(3, SIZE), DTYPE_F32 };
    dropout_attributes a = { 0.25f, 5 };
    assert_true(harness_run_kernel(
        dropout_cpu, &(op_call){ .in = in, .out = &out, .in_count = 2, .out_count = 1, .attributes = &a }));
    assert_true(harness_run_kernel(
        dropout_cpu,
        &(op_call){ .in = rest, .out = &tail, .in_count = 2, .out_count = 1, .attributes = &a }));
    assert_memory_equal(whole + 2 * SIZE, cut, sizeof(float) * 3 * SIZE);
    int kept = 0;
    for (int i = 0; i < SAMPLES * SIZE; i++) {
        assert_true(whole[i] == 0 || whole[i] == 1 / 0.75f);
        kept += whole[i] != 0;
    }
    assert_in_range(kept, SAMPLES * SIZE * 70 / 100, SAMPLES * SIZE * 80 / 100);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(pieces_give_the_bits_of_the_whole),
                                        cmocka_unit_test(dropout_belongs_to_the_global_sample) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
