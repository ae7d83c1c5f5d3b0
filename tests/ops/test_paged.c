/* Attention over a paged cache: a row has the same bits alone and beside others, with any number of threads
 * and wherever blocks lie; what it does not see is no number here. And several rows of a call that writes to
 * a cache. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/half.h"
#include "base/philox.h"
#include "base/threads.h"
#include "harness_memory.h"
#include "ops/attention_paged/attention_paged.h"
#include "ops/attention_paged/attention_paged_math.h"
#include "ops/cache_write/cache_write_math.h"

/* Texts of up to 1,280 positions: more than two segments. */
enum { TEXTS = 3, COLUMNS = 80, BLOCKS = TEXTS * COLUMNS + 5, MOST_ROWS = 64, INPUTS = 10, MOST_WIDTH = 280 };
enum { MOST_HEADS = 15, DISTANCES = 41, HERE = 20 };

typedef struct {
    const attention_paged_attributes *a;
    dtype type;
    bool biased;
    int32_t table[TEXTS * COLUMNS], text[MOST_ROWS], position[MOST_ROWS], place[MOST_ROWS];
    float bias[MOST_HEADS * DISTANCES];
    float q[MOST_ROWS * MOST_WIDTH];
    int rows;
    op_arg keys, values, scales[2];
} paged_call;

static float number(uint64_t seed, int64_t a, int64_t b, int64_t c) {
    philox_block drawn = philox_draw(seed, (philox_block){ { (uint32_t)a, (uint32_t)b, (uint32_t)c } });
    return (float)(drawn.word[0] >> 8) * 0x1p-23f - 1;
}

static void put(const op_arg *x, int64_t i, float value) {
    if (x->dtype == DTYPE_F32)
        ((float *)x->data)[i] = value;
    else if (x->dtype == DTYPE_I8)
        ((int8_t *)x->data)[i] = (int8_t)lrintf(value * 127);
    else
        ((uint16_t *)x->data)[i] = x->dtype == DTYPE_BF16 ? half_to_bf16(value) : half_to_f16(value);
}

static op_arg cache_of(const paged_call *p, bool keys) {
    cache_write_attributes at = { .heads = p->a->kv_heads, .size = p->a->size, .keys = keys };
    op_arg x = { .shape = cache_write_shape(&at, BLOCKS), .dtype = p->type };
    uint64_t bytes = (uint64_t)shape_elements(&x.shape) * dtype_bytes(x.dtype);
    x.data = harness_block_new(bytes, 0);
    assert_non_null(x.data);
    memset(x.data, HARNESS_POISON, bytes);
    return x;
}

/* What text t has at positions 0 .. last, in the blocks that its line says. */
static void fill_text(const paged_call *p, int t, int64_t last) {
    cache_write_attributes keys = { .heads = p->a->kv_heads, .size = p->a->size, .keys = 1 }, values = keys;
    values.keys = 0;
    for (int64_t at = 0; at <= last; at++)
        for (int64_t h = 0; h < p->a->kv_heads; h++) {
            int64_t block = p->table[t * COLUMNS + at / CACHE_BLOCK], place = at % CACHE_BLOCK;
            for (int64_t d = 0; d < p->a->size; d++) {
                put(&p->keys, cache_place(&keys, block, h, place, d), number(1, 10 * at + t, h, d));
                put(&p->values, cache_place(&values, block, h, place, d), number(2, 10 * at + t, h, d));
            }
            for (int i = 0; i < 2 && p->type == DTYPE_I8; i++)
                ((float *)p->scales[i].data)[cache_scale_place(p->a->kv_heads, block, h, place)] =
                    0.01f + 0.005f * number(3 + (uint64_t)i, 10 * at + t, h, 0);
        }
}

/* Blocks in an order drawn from `seed`. */
static void open_call(paged_call *p, const attention_paged_attributes *a, dtype type, uint64_t seed) {
    bool taken[BLOCKS] = { 0 };
    *p = (paged_call){ .a = a, .type = type, .biased = a->here != 0 };
    for (int i = 0; i < MOST_HEADS * DISTANCES; i++) p->bias[i] = number(9, i, 0, 0);
    for (int i = 0; i < TEXTS * COLUMNS; i++) {
        uint32_t block = philox_draw(seed, (philox_block){ { (uint32_t)i } }).word[0] % BLOCKS;
        while (taken[block]) block = (block + 1) % BLOCKS;
        taken[block] = true, p->table[i] = (int32_t)block;
    }
    p->keys = cache_of(p, true), p->values = cache_of(p, false);
    for (int i = 0; i < 2 && type == DTYPE_I8; i++) {
        p->scales[i] = (op_arg){ .shape = SHAPE(BLOCKS, a->kv_heads, CACHE_BLOCK), .dtype = DTYPE_F32 };
        p->scales[i].data =
            harness_block_new((uint64_t)shape_elements(&p->scales[i].shape) * sizeof(float), 0);
    }
    int64_t last[TEXTS] = { 540, 1279, 5 };
    for (int t = 0; t < TEXTS; t++) fill_text(p, t, last[t]);
}

static void close_call(paged_call *p) {
    harness_block_free(p->keys.data), harness_block_free(p->values.data);
    for (int i = 0; i < 2; i++) harness_block_free(p->scales[i].data);
}

/* A row of text t; its query goes by where it stands. With a bias it stands amidst what it sees. */
static void add_row(paged_call *p, int32_t t, int32_t position) {
    int64_t width = (int64_t)p->a->heads * p->a->size;
    for (int64_t i = 0; i < width; i++) p->q[p->rows * width + i] = 3 * number(7, 10 * position + t, i, 0);
    p->place[p->rows] = position / 2;
    p->text[p->rows] = t, p->position[p->rows++] = position;
}

static void run(paged_call *p, int threads, float *y) {
    int64_t width = (int64_t)p->a->heads * p->a->size;
    op_arg in[INPUTS] = { { p->q, SHAPE(1, p->rows, width), DTYPE_F32 },
                          p->keys,
                          p->values,
                          { p->table, SHAPE(TEXTS, COLUMNS), DTYPE_I32 },
                          { p->text, SHAPE(p->rows), DTYPE_I32 },
                          { p->position, SHAPE(p->rows), DTYPE_I32 },
                          p->scales[0],
                          p->scales[1],
                          { p->bias, SHAPE(p->a->heads, 1, DISTANCES), DTYPE_F32 },
                          { p->place, SHAPE(p->rows), DTYPE_I32 } };
    op_arg out = { y, SHAPE(1, p->rows, width), DTYPE_F32 };
    op_call call = { .in = in,
                     .out = &out,
                     .in_count = p->biased             ? INPUTS
                                 : p->type == DTYPE_I8 ? INPUTS - 2
                                                       : INPUTS - 4,
                     .out_count = 1,
                     .attributes = p->a };
    threads_set(threads);
    assert_true(harness_run_kernel(&attention_paged_cpu[0], &call));
    threads_set(2);
}

/* Rows around the end of a segment, the last one of a long text, one that sees little, one that is not
 * needed. */
static void add_rows(paged_call *p) {
    for (int32_t at = 500; at < 541; at++) add_row(p, 0, at);
    add_row(p, 1, 1279), add_row(p, 1, 1024), add_row(p, 0, -1);
    for (int32_t at = 0; at < 6; at++) add_row(p, 2, at);
    add_row(p, 1, 1023);
}

static void rows_are_alike(const attention_paged_attributes *a, dtype type) {
    static paged_call all, alone;
    static float whole[MOST_ROWS * MOST_WIDTH], other[MOST_ROWS * MOST_WIDTH], one[MOST_WIDTH];
    size_t bytes = (size_t)a->heads * (size_t)a->size * sizeof(float);
    open_call(&all, a, type, 11);
    add_rows(&all);
    run(&all, 1, whole);
    for (size_t i = 0; i < (size_t)all.rows * bytes / sizeof(float); i++) assert_true(isfinite(whole[i]));
    for (int threads = 2; threads <= 40; threads += 19) { /* many: every segment is a task */
        run(&all, threads, other);
        assert_memory_equal(other, whole, (size_t)all.rows * bytes);
    }
    open_call(&alone, a, type, 12);
    for (int row = 0; row < all.rows; row++) {
        alone.rows = 0;
        add_row(&alone, all.text[row], all.position[row]);
        run(&alone, 1 + row % 3 * 10, one);
        if (memcmp(one, (char *)whole + (size_t)row * bytes, bytes) != 0)
            fail_msg("type %d, %d heads: row %d, text %d at %d, has other bits alone", type, a->heads, row,
                     all.text[row], all.position[row]);
    }
    close_call(&all), close_call(&alone);
}

static void a_row_has_the_same_bits_whoever_is_beside_it(void **state) {
    (void)state;
    static const attention_paged_attributes plain = { .heads = 2, .kv_heads = 2, .size = 84 },
                                            shared = { .heads = 15,
                                                       .kv_heads = 3,
                                                       .size = 16,
                                                       .scale = 0.4F },
                                            one = { .heads = 4, .kv_heads = 1, .size = 70, .cap = 3 },
                                            window = { .heads = 6, .kv_heads = 2, .size = 24, .window = 530 },
                                            biased = { .heads = 4, .kv_heads = 2, .size = 24, .here = HERE };
    const attention_paged_attributes *const kinds[] = { &plain, &shared, &one, &window, &biased };
    const dtype types[] = { DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_I8 };
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t t = 0; t < 4; t++) rows_are_alike(kinds[k], types[t]);
}

/* Rows of one call, of which some go nowhere, against one row at a time. */
static void several_rows_are_written_as_one_by_one(void **state) {
    (void)state;
    enum { ROWS = 5, WIDTH = 70, HEADS = 3, SIZE = 20, CACHE = 4 * HEADS * CACHE_BLOCK * SIZE };
    static float x[ROWS * WIDTH], together[CACHE], single[CACHE];
    int32_t slot[ROWS] = { 17, -1, 3, 63, 16 };
    for (int keys = 0; keys < 2; keys++) {
        cache_write_attributes a = { .column = 9, .heads = HEADS, .size = SIZE, .keys = keys };
        for (int i = 0; i < ROWS * WIDTH; i++) x[i] = number(5, i, 0, 0);
        for (int i = 0; i < CACHE; i++) together[i] = single[i] = (float)i;
        for (int first = -1; first < ROWS; first++) { /* -1: all of them */
            int rows = first < 0 ? ROWS : 1, from = first < 0 ? 0 : first;
            float *cache = first < 0 ? together : single;
            op_arg in[] = { { cache, cache_write_shape(&a, 4), DTYPE_F32 },
                            { x + from * WIDTH, SHAPE(1, rows, WIDTH), DTYPE_F32 },
                            { slot + from, SHAPE(rows), DTYPE_I32 } };
            op_call c = { .in = in, .out = in, .in_count = 3, .out_count = 1, .attributes = &a };
            assert_true(harness_run_kernel(&cache_write_cpu[0], &c));
        }
        assert_memory_equal(together, single, sizeof single);
        cache_write_attributes at = a;
        assert_true(together[cache_place(&at, 1, 2, 1, 4)] == x[9 + 2 * SIZE + 4]);
    }
}

int main(void) {
    threads_set(2);
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_row_has_the_same_bits_whoever_is_beside_it),
                                        cmocka_unit_test(several_rows_are_written_as_one_by_one) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
