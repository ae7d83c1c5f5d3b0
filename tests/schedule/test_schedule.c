/* The order of steps: what moves, what must not, and that no order is larger than that of the graph. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "autodiff/autodiff.h"
#include "autodiff/optimizer.h"
#include "base/memory.h"
#include "models/gpt2.h"
#include "ops/add/add.h"
#include "ops/constant/constant.h"
#include "ops/fill/fill.h"
#include "ops/gelu/gelu.h"
#include "ops/matmul/matmul.h"
#include "ops/reshape/reshape.h"
#include "passes/pass.h"
#include "plan/plan.h"
#include "schedule/schedule.h"

static void must(status result) {
    if (result != STATUS_OK) fail_msg("%s", status_message());
}

static program lowered(graph *g) {
    program p;
    must(lower_program(g, &(lower_options){ .threads = 2, .rates = device_rates_default(2) }, &p));
    return p;
}

/* The names of the ops in the order of the program. */
static void expect_order(program *p, const char *expected) {
    char names[512] = "";
    must(schedule_program(p));
    for (uint32_t s = 0; s < p->count; s++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", s ? " " : "",
                 graph_node(&p->graph, p->steps[s].node)->op->name);
    assert_string_equal(names, expected);
    lower_close(p);
}

static tensor_id source(graph *g, const char *name, role r, shape s) {
    return graph_add_source(g, &(graph_source){ .name = name, .shape = s, .dtype = DTYPE_F32, .role = r });
}

static void a_constant_sinks(void **state) {
    (void)state;
    graph g;
    must(graph_open(&g));
    tensor_id one = constant_apply(&g, DTYPE_F32, 1), x = source(&g, "x", ROLE_INPUT, SHAPE(1));
    constant_apply(&g, DTYPE_F32, 2); /* nobody reads it: stays */
    tensor_id y = gelu_apply(&g, gelu_apply(&g, x, true), true);
    add_apply(&g, y, reshape_apply(&g, one, SHAPE(1))); /* through a view */
    program p = lowered(&g);
    expect_order(&p, "constant gelu gelu constant add");
}

/* Several that sink to one reader keep their order. */
static void several_sink(void **state) {
    (void)state;
    graph g;
    must(graph_open(&g));
    tensor_id a = constant_apply(&g, DTYPE_F32, 1), w = source(&g, "w", ROLE_PARAMETER, SHAPE(1));
    tensor_id b = gelu_apply(&g, w, true), x = gelu_apply(&g, source(&g, "x", ROLE_INPUT, SHAPE(1)), true);
    tensor_id sum = add_apply(&g, x, x);
    add_apply(&g, add_apply(&g, a, b), sum);
    program p = lowered(&g);
    expect_order(&p, "gelu add constant gelu add add");
}

static void what_must_stay(void **state) {
    (void)state;
    graph g;
    must(graph_open(&g));
    tensor_id w = source(&g, "w", ROLE_PARAMETER, SHAPE(1)), y = gelu_apply(&g, w, true);
    tensor_id cleared = fill_apply(&g, w, 0), x = source(&g, "x", ROLE_INPUT, SHAPE(1));
    tensor_id early = gelu_apply(&g, x, true); /* reads an input: it would live longer */
    tensor_id sum = add_apply(&g, cleared, cleared);
    add_apply(&g, add_apply(&g, sum, early), y);
    program p = lowered(&g);
    expect_order(&p, "gelu fill gelu add add add"); /* w is written over: its reader stays before that */
    must(graph_open(&g));
    w = source(&g, "w", ROLE_PARAMETER, SHAPE(8, 8));
    tensor_id product = matmul_apply(&g, &(matmul_inputs){ .a = w, .b = w });
    x = gelu_apply(&g, source(&g, "x", ROLE_INPUT, SHAPE(8, 8)), true);
    add_apply(&g, x, product);
    p = lowered(&g);
    assert_true(p.steps[0].scratch_bytes > 0); /* which might make a new peak elsewhere */
    expect_order(&p, "matmul gelu add");
}

/* ---- whole training programs ---- */

/* Of two steps that touch one storage, one of them to write, the one that is earlier in the graph runs first.
 */
static void is_topological(const program *p) {
    const graph *g = &p->graph;
    node_id *wrote =
        test_calloc(g->tensors.count, sizeof *wrote); /* by owner: the last of the graph so far */
    node_id *touched = test_calloc(g->tensors.count, sizeof *touched);
    for (uint32_t s = 0; s < p->count; s++) {
        node_id id = p->steps[s].node;
        const node *n = graph_node(g, id);
        for (uint32_t i = 0; i < n->in_count; i++) {
            if (!node_in(g, n, i)) continue;
            tensor_id owner = graph_storage(g, node_in(g, n, i), NULL);
            assert_true(wrote[owner] <= id);
            if (graph_tensor(g, owner)->producer &&
                !(graph_node(g, graph_tensor(g, owner)->producer)->op->traits & OP_GATHER))
                assert_true(wrote[owner] > 0);
            if (touched[owner] < id) touched[owner] = id;
        }
        for (uint32_t i = 0; i < n->out_count; i++) {
            tensor_id owner = graph_storage(g, node_out(g, n, i), NULL);
            assert_true(touched[owner] <= id);
            wrote[owner] = touched[owner] = id;
        }
    }
    test_free(wrote);
    test_free(touched);
}

static uint64_t peak_of(const program *p) {
    live_set live;
    live_peak peak;
    must(live_of_program(p, &live));
    must(live_find_peak(&live, p->count, &peak));
    live_close(&live);
    return peak.bytes;
}

static void check_program(graph *g) {
    program p = lowered(g);
    uint64_t before = peak_of(&p);
    node_id *nodes = test_calloc(p.graph.nodes.count, sizeof *nodes);
    uint32_t count = p.count;
    must(schedule_program(&p));
    assert_int_equal(p.count, count);
    for (uint32_t s = 0; s < count; s++) nodes[p.steps[s].node]++;
    for (node_id id = 1; id < p.graph.nodes.count; id++)
        assert_int_equal(nodes[id], !(graph_node(&p.graph, id)->op->traits & (OP_VIEW | OP_GATHER)));
    is_topological(&p);
    assert_true(peak_of(&p) <= before);
    test_free(nodes);
    lower_close(&p);
}

static void build(const gpt2_config *c, graph *g, tensor_id *loss) {
    model m;
    model_ports ports = { 0 };
    gpt2_model(c, "small", &m);
    must(graph_open(g));
    m.build(&m, g, &(model_run){ .mode = MODEL_TRAIN, .batch = 4, .context = 64 }, &ports);
    *loss = ports.loss;
}

static void train(graph *g, tensor_id loss) {
    uint32_t tensors = g->tensors.count;
    tensor_id *gradient = test_calloc(tensors, sizeof *gradient);
    must(autodiff_run(g, &(autodiff_seed){ .of = loss }, 1, NULL, gradient));
    must(optimizer_append(g, &(optimizer_options){ .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .clip = 1 },
                          loss, gradient, tensors));
    test_free(gradient);
}

/* A training step as it is, and under every setting of every technique that rewrites it. */
static void training_programs(void **state) {
    (void)state;
    gpt2_config c = gpt2_default();
    c.layers = 3, c.heads = 2, c.channels = 64, c.context = 64, c.vocabulary = 2000, c.inner = 256;
    c.dropout_residual = 0.1;
    graph g, next;
    tensor_id loss;
    int programs = 0;
    for (int i = -1; i < 0 || pass_table[i]; i++) {
        pass_setting list[64];
        pass_without without = PASS_OPTIONAL;
        pass_context context = {
            .training = true, .batch = 8, .unit = 8, .micro_batch = 4, .tokens = 64, .clipping = true
        };
        build(&c, &g, &loss);
        train(&g, loss);
        uint32_t count = 0;
        if (i >= 0 && pass_table[i]->stage == PASS_STEP) {
            count = pass_table[i]->settings(&g, &context, list, 64, &without);
            context.batch = 4; /* techniques that need the whole batch at once */
            if (!count) count = pass_table[i]->settings(&g, &context, list, 64, &without);
        }
        for (uint32_t k = 0; k < count; k++, programs++) {
            must(graph_open(&next));
            must(pass_table[i]->run(&g, &list[k], &context, &next));
            check_program(&next);
        }
        if (i < 0)
            check_program(&g);
        else
            graph_close(&g);
    }
    assert_true(programs >= 5);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_constant_sinks), cmocka_unit_test(several_sink),
                                        cmocka_unit_test(what_must_stay),
                                        cmocka_unit_test(training_programs) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
