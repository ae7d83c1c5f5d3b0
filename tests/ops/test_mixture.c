/* A whole mixture of experts, from its router to the sum: the ops' cases draw their places at random, which a
 * router never does, so what they make of each other's results is checked here. Values against every expert
 * computed for every row; gradients of everything against differences; and all rows to one expert. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "autodiff/autodiff.h"
#include "harness_memory.h"
#include "ops/expert_matmul/expert_matmul.h"
#include "ops/expert_rows/expert_rows.h"
#include "ops/gated_halves/gated_halves.h"
#include "ops/matmul/matmul.h"
#include "ops/reference.h"
#include "ops/route/route.h"

enum { ROWS = 11, WIDTH = 5, INNER = 3, EXPERTS = 4, CHOSEN = 2, SOURCES = 4 };

typedef struct {
    graph g;
    tensor_id source[SOURCES]; /* x, router, gate_up, down */
    tensor_id y, seed, gradient[SOURCES];
    node_id forward;
    harness_memory memory;
} mixture;

static tensor_id add_source(graph *g, const char *name, shape s) {
    return graph_add_source(g, &(graph_source){ .name = name,
                                                .shape = s,
                                                .dtype = DTYPE_F64,
                                                .role = ROLE_PARAMETER,
                                                .flags = TENSOR_TRAINABLE });
}

static void open_mixture(mixture *m, bool normalised) {
    graph *g = &m->g;
    *m = (mixture){ 0 };
    assert_int_equal(graph_open(g), STATUS_OK);
    m->source[0] = add_source(g, "x", SHAPE(ROWS, WIDTH));
    m->source[1] = add_source(g, "router", SHAPE(EXPERTS, WIDTH));
    m->source[2] = add_source(g, "gate_up", SHAPE(EXPERTS, 2 * INNER, WIDTH));
    m->source[3] = add_source(g, "down", SHAPE(EXPERTS, WIDTH, INNER));
    tensor_id logits = matmul_apply(g, &(matmul_inputs){ .a = m->source[0], .b = m->source[1], .tb = true });
    tensor_id weights =
        route_apply(g, logits, &(route_attributes){ .chosen = CHOSEN, .normalised = normalised });
    tensor_id rows = expert_rows_apply(g, m->source[0], weights + 1);
    tensor_id inner =
        gated_halves_apply(g, expert_matmul_apply(g, rows, m->source[2], weights + 2, true), GATED_SILU);
    m->y = expert_sum_apply(g, expert_matmul_apply(g, inner, m->source[3], weights + 2, true), weights + 1,
                            weights);
    m->forward = g->nodes.count;
    m->seed = graph_add_source(
        g, &(graph_source){
               .name = "seed", .shape = SHAPE(ROWS, WIDTH), .dtype = DTYPE_F64, .role = ROLE_INPUT });
    tensor_id gradient[256];
    assert_int_equal(autodiff_run(g, &(autodiff_seed){ m->y, m->seed }, 1, NULL, gradient), STATUS_OK);
    for (int i = 0; i < SOURCES; i++) m->gradient[i] = gradient[m->source[i]];
    assert_true(harness_memory_open(&m->memory, g));
    for (int i = 0; i < SOURCES; i++) {
        op_arg x = harness_memory_arg(&m->memory, m->source[i]);
        harness_fill(&x, -1, 1, 0x3a17 + (uint64_t)i);
    }
    op_arg seed = harness_memory_arg(&m->memory, m->seed);
    harness_fill(&seed, -1, 1, 0x5eed);
}

static void close_mixture(mixture *m) {
    harness_memory_close(&m->memory);
    graph_close(&m->g);
}

static double *data(const mixture *m, tensor_id t) { return harness_memory_arg(&m->memory, t).data; }

/* ---- the same without sorting: every expert answers for every row ---- */

static double dot(const double *a, const double *b, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

static void answer(const mixture *m, const double *x, int expert, double y[WIDTH]) {
    const double *up = data(m, m->source[2]) + expert * 2 * INNER * WIDTH;
    const double *down = data(m, m->source[3]) + expert * WIDTH * INNER;
    double inner[INNER];
    for (int i = 0; i < INNER; i++) {
        double gate = dot(up + i * WIDTH, x, WIDTH);
        inner[i] = gate / (1 + exp(-gate)) * dot(up + (INNER + i) * WIDTH, x, WIDTH);
    }
    for (int i = 0; i < WIDTH; i++) y[i] = dot(down + i * INNER, inner, INNER);
}

static void expected_row(const mixture *m, int row, bool normalised, double y[WIDTH]) {
    const double *x = data(m, m->source[0]) + row * WIDTH;
    double p[EXPERTS], sum = 0, chosen = 0;
    bool taken[EXPERTS] = { false };
    for (int e = 0; e < EXPERTS; e++) sum += p[e] = exp(dot(data(m, m->source[1]) + e * WIDTH, x, WIDTH));
    for (int j = 0; j < CHOSEN; j++) {
        int best = -1;
        for (int e = 0; e < EXPERTS; e++)
            if (!taken[e] && (best < 0 || p[e] > p[best])) best = e;
        taken[best] = true, chosen += p[best];
    }
    for (int i = 0; i < WIDTH; i++) y[i] = 0;
    for (int e = 0; e < EXPERTS; e++) {
        double of[WIDTH];
        answer(m, x, e, of);
        for (int i = 0; i < WIDTH && taken[e]; i++) y[i] += of[i] * p[e] / (normalised ? chosen : sum);
    }
}

static void every_row_gets_its_experts_answers(void **state) {
    (void)state;
    for (int normalised = 0; normalised < 2; normalised++) {
        mixture m;
        open_mixture(&m, normalised);
        assert_true(harness_memory_run(&m.memory, 1, m.forward));
        for (int row = 0; row < ROWS; row++) {
            double y[WIDTH];
            expected_row(&m, row, normalised, y);
            for (int i = 0; i < WIDTH; i++) assert_true(fabs(y[i] - data(&m, m.y)[row * WIDTH + i]) < 1e-12);
        }
        close_mixture(&m);
    }
}

/* ---- gradients ---- */

static double value_at(const mixture *m, double *x, double to) {
    double was = *x;
    *x = to;
    assert_true(harness_memory_run(&m->memory, 1, m->forward));
    *x = was;
    return dot(data(m, m->y), data(m, m->seed), ROWS * WIDTH);
}

static void gradients_are_slopes(void **state) {
    (void)state;
    const double step = 1e-5;
    for (int normalised = 0; normalised < 2; normalised++) {
        mixture m;
        open_mixture(&m, normalised);
        assert_true(harness_memory_run(&m.memory, 1, m.g.nodes.count));
        for (int s = 0; s < SOURCES; s++) {
            int64_t n = shape_elements(graph_shape(&m.g, m.source[s]));
            double *x = data(&m, m.source[s]), gradient[256];
            assert_true(n <= 256);
            for (int64_t i = 0; i < n; i++) gradient[i] = data(&m, m.gradient[s])[i];
            for (int64_t i = 0; i < n; i++) {
                double slope =
                    (value_at(&m, &x[i], x[i] + step) - value_at(&m, &x[i], x[i] - step)) / (2 * step);
                if (!(fabs(slope - gradient[i]) < 1e-8))
                    fail_msg("source %d, element %d: %g, should be %g", s, (int)i, gradient[i], slope);
            }
        }
        close_mixture(&m);
    }
}

/* ---- the worst case ---- */

/* However crowded, the buffers are the same: with one expert first for all rows, its group has all of them.
 */
static void nothing_is_dropped_when_all_choose_one(void **state) {
    (void)state;
    mixture m;
    open_mixture(&m, true);
    double *x = data(&m, m.source[0]), *router = data(&m, m.source[1]);
    for (int i = 0; i < ROWS * WIDTH; i++) x[i] = fabs(x[i]) + 0.1;
    for (int e = 0; e < EXPERTS; e++)
        for (int i = 0; i < WIDTH; i++) router[e * WIDTH + i] = e == 2 ? 5 : e == 1 ? 4 : 0;
    assert_true(harness_memory_run(&m.memory, 1, m.g.nodes.count));
    for (int row = 0; row < ROWS; row++) {
        double y[WIDTH];
        expected_row(&m, row, true, y);
        for (int i = 0; i < WIDTH; i++) assert_true(fabs(y[i] - data(&m, m.y)[row * WIDTH + i]) < 1e-12);
    }
    const node *router_node = NULL;
    for (node_id id = 1; id < m.forward; id++)
        if (graph_node(&m.g, id)->op == &op_route) router_node = graph_node(&m.g, id);
    assert_non_null(router_node);
    const int32_t *ends = harness_memory_arg(&m.memory, node_out(&m.g, router_node, 2)).data;
    const int32_t expected[EXPERTS] = { 0, ROWS, 2 * ROWS, 2 * ROWS };
    for (int e = 0; e < EXPERTS; e++) assert_int_equal(ends[e], expected[e]);
    close_mixture(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_row_gets_its_experts_answers),
                                        cmocka_unit_test(gradients_are_slopes),
                                        cmocka_unit_test(nothing_is_dropped_when_all_choose_one) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
