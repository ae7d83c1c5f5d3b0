/* The model of time: seconds grow with every count and with the distance of operands, never shrink; programs
 * are the sums of their steps; and measuring gives rates that can be used. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/memory.h"
#include "base/threads.h"
#include "lower/measure.h"
#include "lower/predict.h"
#include "ops/add/add.h"
#include "ops/attention/attention.h"
#include "ops/gelu/gelu.h"
#include "ops/matmul/matmul.h"

static void must(status result) {
    if (result != STATUS_OK) fail_msg("%s", status_message());
}

static void seconds_grow_with_every_count(void **state) {
    (void)state;
    device_rates r = device_rates_default(2);
    for (int kind = 0; kind < WORK_KINDS; kind++)
        for (double flops = 0; flops <= 1e9; flops = flops * 7 + 1e3)
            for (double bytes = 0; bytes <= 1e9; bytes = bytes * 9 + 1e3) {
                op_cost c = { .flops = flops,
                              .bytes_read = bytes,
                              .bytes_written = bytes / 2,
                              .bytes_moved = bytes / 3,
                              .draws = flops / 99,
                              .kind = (work_kind)kind },
                        more = c;
                double before = predict_call(&c, 0.5, 0.5, &r);
                assert_true(before >= r.call_seconds);
                more.flops *= 2;
                assert_true(predict_call(&more, 0.5, 0.5, &r) >= before);
                more.bytes_read *= 2, more.bytes_written *= 2, more.bytes_moved *= 2, more.draws *= 2;
                double after = predict_call(&more, 0.5, 0.5, &r);
                assert_true(after >= before && (flops + bytes == 0 || after > before));
                assert_true(predict_call(&c, 1, 1, &r) >= before && predict_call(&c, 0, 0, &r) <= before);
            }
}

/* By hand: every term counts once, and a slow run's factor counts for all of it. */
static void a_call_is_the_sum_of_its_terms(void **state) {
    (void)state;
    device_rates r = { .flops = { 64, 32, 16, 8, 128 },
                       .draws = 4,
                       .moved = 2,
                       .cached = 8,
                       .bandwidth = 4,
                       .fetched = 2,
                       .call_seconds = 0.5,
                       .scale = 1 };
    op_cost c = { .flops = 128, .bytes_read = 32, .bytes_written = 16, .draws = 8, .bytes_moved = 6 };
    c.kind = WORK_FUNCTIONS;
    assert_true(predict_work(&c, &r) == 4 + 2 + 3);
    assert_true(predict_call(&c, 0, 0, &r) == 0.5 + 9 + 6);
    assert_true(predict_call(&c, 1, 1, &r) == 0.5 + 9 + 12);
    assert_true(predict_call(&c, 0.5, 0, &r) == 0.5 + 9 + 4 + 4); /* 32 bytes held, 16 missed */
    assert_true(predict_call(&c, 0, 0.5, &r) == 0.5 + 9 + 5 + 2);
    c.work = 256; /* what kernels waste */
    assert_true(predict_work(&c, &r) == 8 + 2 + 3);
    c.work = 64;
    assert_true(predict_work(&c, &r) == 4 + 2 + 3);
    c.kind = WORK_PRODUCTS; /* have only what comes from memory */
    assert_true(predict_call(&c, 0, 0, &r) == 0.5 + 13);
    assert_true(predict_call(&c, 0.5, 0, &r) == 0.5 + 13 + 8);
    c.kind = WORK_CODES;
    assert_true(predict_call(&c, 0, 0.25, &r) == 0.5 + 6 + 2);
    r.scale = 2;
    assert_true(predict_call(&c, 0, 0.25, &r) == 17);
    c.reads = true; /* of few rows: the traffic of other ops */
    assert_true(predict_call(&c, 0, 0.25, &r) == 2 * (0.5 + 6 + 5.5 + 1));
}

/* Functions beside other work have their own rate, and a further pass finds what a pass leaves in a cache. */
static void functions_and_further_passes_count(void **state) {
    (void)state;
    device_rates r = { .flops = { 64, 32, 16 },
                       .draws = 1,
                       .moved = 1,
                       .cached = 8,
                       .bandwidth = 4,
                       .fetched = 2,
                       .cache_bytes = 64,
                       .scale = 1 };
    op_cost c = { .flops = 32, .functions = 64, .kind = WORK_PRODUCTS };
    assert_true(predict_work(&c, &r) == 2 + 2);
    c = (op_cost){ .bytes_read = 32, .bytes_again = 64 };
    assert_true(predict_call(&c, 0, 0, &r) == 4 + 8);
    assert_true(predict_call(&c, 1, 0, &r) == 8 + 8);
    c.bytes_read = 96; /* half of it is gone when the next pass comes to it */
    assert_true(predict_call(&c, 0, 0, &r) == 12 + 4 + 8);
    c.bytes_read = 128;
    assert_true(predict_call(&c, 0, 0, &r) == 16 + 16);
}

/* y = gelu(x), z = x + y: each of 4,096 bytes, 20,480 of traffic together. What was not touched yet was so in
 * the program before, that long ago; x and y half of both calls ago. Within the cache's size nothing is
 * missed, from twice of it on everything. */
static void distance_decides_what_is_missed(void **state) {
    (void)state;
    static const struct {
        double cache, missed, again;
    } cases[] = { { 20480, 0, 0 }, { 16384, 0.25, 0 }, { 10240, 1, 0 }, { 8192, 1, 0.25 }, { 64, 1, 1 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        graph g;
        program p;
        must(graph_open(&g));
        graph_source input = { .shape = SHAPE(1024), .dtype = DTYPE_F32, .role = ROLE_INPUT };
        tensor_id x = graph_add_source(&g, &input);
        add_apply(&g, x, gelu_apply(&g, x, true));
        lower_options o = { .threads = 1, .rates = device_rates_default(1) };
        o.rates.cache_bytes = cases[i].cache;
        must(lower_program(&g, &o, &p));
        assert_int_equal(p.count, 2);
        for (uint32_t s = 0; s < 2; s++) {
            const node *n = graph_node(&p.graph, p.steps[s].node);
            op_cost c = n->op->cost(&p.graph, n);
            assert_true(c.bytes_read == 4096 * (s + 1.0) && c.bytes_written == 4096);
            double read = s ? cases[i].again : cases[i].missed;
            assert_true(p.steps[s].seconds == predict_call(&c, read, cases[i].missed, &o.rates));
        }
        lower_close(&p);
    }
}

static double seconds_of(int64_t rows, int64_t width, double cache) {
    graph g;
    program p;
    must(graph_open(&g));
    tensor_id x = graph_add_source(
        &g, &(graph_source){ .shape = SHAPE(rows, width), .dtype = DTYPE_F32, .role = ROLE_INPUT });
    tensor_id w = graph_add_source(
        &g, &(graph_source){
                .name = "w", .shape = SHAPE(width, width), .dtype = DTYPE_F32, .role = ROLE_PARAMETER });
    tensor_id y = gelu_apply(&g, matmul_apply(&g, &(matmul_inputs){ .a = x, .b = w }), true);
    add_apply(&g, x, y);
    lower_options o = { .threads = 1, .rates = device_rates_default(1) };
    o.rates.cache_bytes = cache;
    must(lower_program(&g, &o, &p));
    double sum = 0;
    for (uint32_t i = 0; i < p.count; i++) {
        assert_true(p.steps[i].seconds > 0);
        sum += p.steps[i].seconds;
    }
    assert_true(p.seconds == sum);
    lower_close(&p);
    return sum;
}

static void programs_grow_with_their_shapes(void **state) {
    (void)state;
    double before = 0;
    for (int64_t rows = 1; rows <= 4096; rows *= 4) {
        double seconds = seconds_of(rows, 256, 32e6);
        assert_true(seconds > before);
        before = seconds;
        assert_true(seconds_of(rows, 512, 32e6) > seconds);
        assert_true(seconds_of(rows, 256, 1e3) >= seconds); /* nothing stays in so small a cache */
    }
}

/* A bound is arithmetic at the rate of its kind of products. */
static void codes_have_a_rate_of_their_own(void **state) {
    (void)state;
    device_rates r = { .flops = { [WORK_PRODUCTS] = 2e11,
                                  [WORK_PRODUCTS_HALF] = 4e11,
                                  [WORK_CODES] = 8e11,
                                  [WORK_FUNCTIONS] = 1e9 } };
    op_cost cost = { .flops = 8e11, .kind = WORK_CODES };
    assert_true(predict_arithmetic(&cost, &r) == 1);
    cost.kind = WORK_PRODUCTS;
    assert_true(predict_arithmetic(&cost, &r) == 4);
    cost.kind = WORK_PRODUCTS_HALF;
    assert_true(predict_arithmetic(&cost, &r) == 2);
    cost.kind = WORK_FUNCTIONS;
    assert_true(predict_arithmetic(&cost, &r) == 4);
}

/* A product is of 16 bits where both its operands are bf16, attention where its queries are. */
static void kinds_go_by_the_operands(void **state) {
    (void)state;
    static const dtype types[] = { DTYPE_F32, DTYPE_BF16, DTYPE_F16 };
    for (int i = 0; i < 9; i++) {
        dtype left = types[i / 3], right = types[i % 3];
        graph g;
        must(graph_open(&g));
        tensor_id x = graph_add_source(
            &g, &(graph_source){ .shape = SHAPE(4, 96, 96), .dtype = left, .role = ROLE_INPUT });
        tensor_id w = graph_add_source(
            &g,
            &(graph_source){ .name = "w", .shape = SHAPE(96, 96), .dtype = right, .role = ROLE_PARAMETER });
        tensor_id y = matmul_apply(&g, &(matmul_inputs){ .a = x, .b = w });
        tensor_id z = attention_apply(&g, &(attention_inputs){ .q = x },
                                      &(attention_attributes){ .heads = 2, .causal = true });
        const node *product = graph_node(&g, graph_tensor(&g, y)->producer),
                   *attention = graph_node(&g, graph_tensor(&g, z)->producer);
        bool half = dtype_is_half(left), both = left == DTYPE_BF16 && right == DTYPE_BF16;
        assert_int_equal(product->op->cost(&g, product).kind, both ? WORK_PRODUCTS_HALF : WORK_PRODUCTS);
        assert_int_equal(attention->op->cost(&g, attention).kind,
                         half ? WORK_ATTENTION_HALF : WORK_ATTENTION);
        graph_close(&g);
    }
}

/* What no sample is of keeps the table's rates. */
static bool all_are_measured(const device_rates *r, int threads) {
    device_rates table = device_rates_default(threads);
    bool all = true;
    for (int k = 0; k < WORK_KINDS; k++) all &= memcmp(&r->flops[k], &table.flops[k], sizeof *r->flops) != 0;
    return all;
}

/* Of a busy machine samples of a hundredth of a second may tell nothing of a kind: the next do. */
static void measuring_gives_rates(void **state) {
    enum { TRIES = 10 };
    (void)state;
    for (int threads = 1; threads <= 2; threads++) {
        device_rates r;
        measure_result told;
        measure_observer quick = { .seconds = 0.01 };
        int tries = 0;
        do must(measure_rates(threads, &quick, &r, &told));
        while (!all_are_measured(&r, threads) && ++tries < TRIES);
        assert_true(tries < TRIES);
        for (int k = 0; k < WORK_KINDS; k++) assert_true(r.flops[k] > 1e6 && r.flops[k] < 1e16);
        assert_true(r.bandwidth > 1e6 && r.cached > 1e6 && r.moved > 1e6 && r.draws > 1e5);
        assert_true(r.call_seconds > 0 && r.call_seconds < 1 && r.scale == 1 && r.cache_bytes > 0);
    }
}

/* A GPU: starts add up, work takes as much longer as multiprocessors are idle, and so does what they take
 * from a cache; memory does so where they can't take as much of it. What is started with others has no start.
 */
static void a_part_of_a_gpu_takes_longer(void **state) {
    (void)state;
    device_rates r = { .flops = { 64, 32, 16, 8, 128 },
                       .draws = 4,
                       .moved = 2,
                       .cached = 12,
                       .bandwidth = 4,
                       .fetched = 2,
                       .call_seconds = 0.5,
                       .scale = 1 };
    op_cost c = { .flops = 128, .bytes_read = 48, .draws = 8, .kind = WORK_ARITHMETIC };
    assert_true(predict_call(&c, 0, 0, &r) == 0.5 + 4 + 4);
    c.starts = 3;
    assert_true(predict_call(&c, 0, 0, &r) == 1.5 + 4 + 4);
    c.stretch = 2;
    assert_true(predict_call(&c, 0, 0, &r) == 1.5 + 8 + 8);
    assert_true(predict_call(&c, 1, 1, &r) == 1.5 + 8 + 12); /* half of it takes as much of memory as all */
    c.stretch = 6;
    assert_true(predict_call(&c, 1, 1, &r) == 1.5 + 24 + 24); /* and a sixth does not */
    c.joined = true;
    assert_true(predict_call(&c, 1, 1, &r) == 24 + 24);
}

/* What was measured takes the place of rates, but for what is beside products. */
static void measured_shapes_go_before_rates(void **state) {
    (void)state;
    device_rates r = { .flops = { 64, 32, 16, 8, 128, 16, 8 },
                       .draws = 4,
                       .moved = 2,
                       .cached = 12,
                       .bandwidth = 4,
                       .fetched = 2,
                       .call_seconds = 0.5,
                       .scale = 2 };
    op_cost c = { .flops = 160, .tiles = 10, .functions = 32, .bytes_read = 8, .kind = WORK_PRODUCTS };
    assert_true(predict_call(&c, 1, 1, &r) == 2 * (0.5 + 10 + 1 + 4));
    device_shapes_add(&r.shapes, &(device_shape){ .tiles = 10, .flops = 160, .seconds = 3 });
    assert_true(predict_call(&c, 1, 1, &r) == 2 * (0.5 + 3 + 1));
    c.tiles = 0; /* not by tiles */
    assert_true(predict_call(&c, 1, 1, &r) == 2 * (0.5 + 10 + 1 + 4));
    c.tiles = 10, c.kind = WORK_CODES, c.functions = 0;
    assert_true(predict_call(&c, 1, 1, &r) == 2 * (0.5 + 160.0 / 128 + 4));
    c.kind = WORK_ATTENTION;
    assert_true(predict_call(&c, 1, 1, &r) == 2 * (0.5 + 20 + 2));
    device_shapes_add(&r.shapes,
                      &(device_shape){ DEVICE_ATTENTION, .tiles = 10, .flops = 160, .seconds = 7 });
    assert_true(predict_call(&c, 1, 1, &r) == 2 * (0.5 + 7));
    c.backward = true;
    assert_true(predict_call(&c, 1, 1, &r) == 2 * (0.5 + 20 + 2));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_of_a_gpu_takes_longer),
        cmocka_unit_test(measured_shapes_go_before_rates),
        cmocka_unit_test(seconds_grow_with_every_count),
        cmocka_unit_test(a_call_is_the_sum_of_its_terms),
        cmocka_unit_test(functions_and_further_passes_count),
        cmocka_unit_test(distance_decides_what_is_missed),
        cmocka_unit_test(programs_grow_with_their_shapes),
        cmocka_unit_test(codes_have_a_rate_of_their_own),
        cmocka_unit_test(kinds_go_by_the_operands),
        cmocka_unit_test(measuring_gives_rates),
    };
    return cmocka_run_group_tests_name("predict", tests, NULL, NULL);
}
