/* Gradients of small graphs against finite differences, in f64, through the reference kernels and the whole
 * way of a program: verified, lowered, planned, run with dead memory poisoned. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "autodiff/autodiff.h"
#include "exec/exec_internal.h"
#include "ir/op.h"
#include "models/gpt2.h"
#include "ops/add/add.h"
#include "ops/concat/concat.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/embedding/embedding.h"
#include "ops/gelu/gelu.h"
#include "ops/layernorm/layernorm.h"
#include "ops/matmul/matmul.h"
#include "ops/reshape/reshape.h"
#include "ops/scale/scale.h"
#include "ops/sum/sum.h"
#include "oracle/reach.h"
#include "schedule/schedule.h"

enum { MOST = 1024, SEEDS = 3, PARTS = 131 };

typedef struct {
    graph g;
    autodiff_seed seeds[SEEDS];
    uint32_t seed_count;
    bool wanted[MOST];
    tensor_id gradient[MOST];
    node_id forward_nodes;
    plan plan;
    exec *exec;
} trial;

/* ---- building ---- */

static tensor_id source(trial *t, const char *name, role r, shape s, uint16_t flags) {
    return graph_add_source(&t->g, &(graph_source){ name, s, DTYPE_F64, r, flags });
}

static tensor_id parameter(trial *t, const char *name, shape s) {
    return source(t, name, ROLE_PARAMETER, s, TENSOR_TRAINABLE);
}

static tensor_id frozen(trial *t, const char *name, shape s) { return source(t, name, ROLE_PARAMETER, s, 0); }

static tensor_id times(trial *t, tensor_id a, tensor_id b) {
    return matmul_apply(&t->g, &(matmul_inputs){ .a = a, .b = b });
}

static tensor_id bend(trial *t, tensor_id x) { return gelu_apply(&t->g, x, true); }

static void lose(trial *t, tensor_id of) {
    t->seeds[t->seed_count++] = (autodiff_seed){ .of = sum_apply(&t->g, of, 0) };
}

/* ---- running ---- */

static double *values(const trial *t, tensor_id x) { return exec_address(t->exec, &t->exec->programs[0], x); }

static const graph *planned_graph(const trial *t) { return &reach_planned(&t->plan, "step")->graph; }

static void must(status result) {
    if (result != STATUS_OK) fail_msg("%s", status_message());
}

static void keep(trial *t, tensor_id x) {
    if (x) graph_tensor(&t->g, x)->flags |= TENSOR_KEEP;
}

static void fill_sources(trial *t) {
    uint32_t random = 1;
    for (uint32_t i = 0; i < t->plan.persistent_count; i++) {
        const plan_persistent *p = &t->plan.persistent[i];
        double *x = exec_persistent(t->exec, p->name);
        for (int64_t k = 0; k < shape_elements(&p->shape); k++) {
            random = random * 1664525u + 1013904223u;
            x[k] = (double)(random >> 8) / (1 << 23) - 1;
        }
    }
    int32_t *ids = reach_input(t->exec, "step", "ids");
    for (int32_t i = 0; ids && i < 6; i++) ids[i] = i * 5 % 4;
}

static void prepare(trial *t, void (*build)(trial *)) {
    *t = (trial){ 0 };
    must(graph_open(&t->g));
    build(t);
    must(graph_status(&t->g));
    assert_true(t->g.tensors.count <= MOST);
    t->forward_nodes = t->g.nodes.count;
    uint32_t forward = t->g.tensors.count;
    must(autodiff_run(&t->g, t->seeds, t->seed_count, t->wanted, t->gradient));
    for (tensor_id x = 1; x < forward; x++)
        if (!graph_tensor(&t->g, x)->producer) keep(t, t->gradient[x]);
    for (uint32_t i = 0; i < t->seed_count; i++) keep(t, t->seeds[i].of);
    program step = { .shape = { "step", TASK_TRAIN, 1, 0, 1, 0 } };
    must(lower_program(&t->g,
                       &(lower_options){ .threads = 64, .reference = true, .rates = device_rates_default(1) },
                       &step));
    must(schedule_program(&step));
    must(plan_make(&step, 1, &(plan_options){ .threads = 64 }, &t->plan));
    must(exec_open(&t->plan, EXEC_POISON, &t->exec));
    fill_sources(t);
}

static void finish(trial *t) {
    exec_close(t->exec);
    plan_close(&t->plan);
}

/* What the seeds differentiate: losses, and values weighted by the gradients that they were given. */
static double run(trial *t) {
    int32_t *ids = reach_input(t->exec, "step", "ids");
    for (int32_t i = 0; ids && i < 6; i++) ids[i] = i * 5 % 4;
    reach_run(t->exec, "step");
    double loss = 0;
    for (uint32_t i = 0; i < t->seed_count; i++) {
        const autodiff_seed *s = &t->seeds[i];
        for (int64_t k = 0; k < shape_elements(graph_shape(planned_graph(t), s->of)); k++)
            loss += values(t, s->of)[k] * (s->gradient ? values(t, s->gradient)[k] : 1);
    }
    return loss;
}

static void compare_with_differences(trial *t, tensor_id x) {
    const graph *g = planned_graph(t);
    double *at = values(t, x);
    double gradient[256];
    int64_t n = shape_elements(graph_shape(g, x));
    assert_true(n <= 256);
    run(t);
    memcpy(gradient, values(t, t->gradient[x]), (size_t)n * sizeof *gradient);
    for (int64_t k = 0; k < n; k++) {
        double kept = at[k], step = 1e-5;
        at[k] = kept + step;
        double above = run(t);
        at[k] = kept - step;
        double below = run(t), slope = (above - below) / (2 * step);
        at[k] = kept;
        if (!(fabs(slope - gradient[k]) < 1e-7 * (1 + fabs(slope))))
            fail_msg("gradient of '%s'[%lld] is %.10g, the slope %.10g", graph_name(g, x), (long long)k,
                     gradient[k], slope);
    }
}

/* The storage of a parameter's gradient is its own: nobody reads it but to add to it. */
static void gradients_are_their_own(const trial *t) {
    const graph *g = planned_graph(t);
    for (node_id id = 1; id < g->nodes.count; id++) {
        const node *n = graph_node(g, id);
        for (uint32_t i = 0; i < n->in_count && !(n->op->traits & OP_VIEW); i++) {
            bool adds = false;
            for (uint32_t a = 0; a < n->op->alias_count; a++)
                adds |= n->op->aliases[a].must && n->op->aliases[a].in == i;
            if (adds || !node_in(g, n, i)) continue;
            tensor_id owner = graph_storage(g, node_in(g, n, i), NULL);
            for (tensor_id p = 1; p < MOST; p++)
                if (t->gradient[p] && !graph_tensor(g, p)->producer &&
                    graph_tensor(g, p)->role == ROLE_PARAMETER && n->op != &op_scale &&
                    graph_storage(g, t->gradient[p], NULL) == owner)
                    fail_msg("node %u (%s) reads the gradient of '%s'", id, n->op->name, graph_name(g, p));
        }
    }
}

static uint32_t count_backward(const trial *t, const op_def *op) {
    const graph *g = planned_graph(t);
    uint32_t count = 0;
    for (node_id id = t->forward_nodes; id < g->nodes.count; id++) count += graph_node(g, id)->op == op;
    return count;
}

/* Everything that wants a gradient has one, and it is the slope. */
static void check(trial *t, void (*build)(trial *)) {
    prepare(t, build);
    gradients_are_their_own(t);
    const graph *g = planned_graph(t);
    int compared = 0;
    for (tensor_id x = 1; x < MOST && x < g->tensors.count; x++) {
        if (graph_tensor(g, x)->producer || graph_tensor(g, x)->dtype != DTYPE_F64) continue;
        bool wants = t->wanted[x] || graph_tensor(g, x)->flags & TENSOR_TRAINABLE;
        assert_int_equal(t->gradient[x] != 0, wants);
        if (wants) compare_with_differences(t, x), compared++;
    }
    assert_true(compared > 0);
}

static void check_and_finish(void (*build)(trial *)) {
    trial t;
    check(&t, build);
    finish(&t);
}

/* ---- values that are read twice by one node ---- */

static void sum_with_itself(trial *t) {
    tensor_id x = parameter(t, "x", SHAPE(3, 3));
    lose(t, bend(t, add_apply(&t->g, x, x)));
}

static void product_with_itself(trial *t) {
    tensor_id x = parameter(t, "x", SHAPE(3, 3));
    lose(t, bend(t, times(t, x, x)));
}

static void product_of_activations(trial *t) {
    tensor_id x = bend(t, parameter(t, "x", SHAPE(3, 3)));
    lose(t, bend(t, times(t, add_apply(&t->g, x, x), times(t, x, x))));
}

/* A factor gets no gradient, also where it is the scaled value itself. */
static void half_a_gradient(trial *t) {
    tensor_id p = parameter(t, "p", SHAPE(1)), x = bend(t, p);
    lose(t, scale_apply(&t->g, x, frozen(t, "factor", SHAPE(1)), 2));
    lose(t, bend(t, x));
}

static void read_twice(void **state) {
    (void)state;
    check_and_finish(sum_with_itself);
    check_and_finish(product_with_itself);
    check_and_finish(product_of_activations);
    check_and_finish(half_a_gradient);
}

/* The second place gives nothing, and must not take away what the first gave. */
static void second_place_gives_nothing(void **state) {
    (void)state;
    graph g;
    must(graph_open(&g));
    tensor_id p =
        graph_add_source(&g, &(graph_source){ "p", SHAPE(1), DTYPE_F64, ROLE_PARAMETER, TENSOR_TRAINABLE });
    tensor_id gradient[MOST], loss = sum_apply(&g, scale_apply(&g, p, p, 1), 0);
    must(autodiff_run(&g, &(autodiff_seed){ .of = loss }, 1, NULL, gradient));
    assert_true(gradient[p] != 0);
    graph_close(&g);
}

/* ---- shared weights ---- */

static void weight_used_three_times(trial *t) {
    tensor_id x = parameter(t, "x", SHAPE(5, 3)), w = parameter(t, "w", SHAPE(3, 3));
    tensor_id h = bend(t, times(t, bend(t, times(t, x, w)), w));
    lose(t, matmul_apply(&t->g, &(matmul_inputs){ .a = h, .b = w, .tb = true }));
}

static void one_storage(void **state) {
    (void)state;
    trial t;
    check(&t, weight_used_three_times);
    const graph *g = planned_graph(&t);
    tensor_id w = graph_find(g, "w"), owner = graph_storage(g, t.gradient[w], NULL);
    int found = 0;
    for (tensor_id x = 1; x < g->tensors.count; x++) {
        if (graph_storage(g, x, NULL) != owner) continue;
        found++;
        assert_true(graph_tensor(g, x)->flags & TENSOR_GRADIENT);
    }
    assert_int_equal(found, 3);
    assert_int_equal(count_backward(&t, &op_add) + count_backward(&t, &op_scale), 0);
    finish(&t);
}

static void tied_embedding(trial *t) {
    graph *g = &t->g;
    tensor_id ids = graph_add_source(g, &(graph_source){ "ids", SHAPE(2, 3), DTYPE_I32, ROLE_INPUT, 0 });
    tensor_id table = parameter(t, "table", SHAPE(4, 3)), x = embedding_apply(g, ids, table);
    x = layernorm_apply(g, x, parameter(t, "gamma", SHAPE(3)), parameter(t, "beta", SHAPE(3)), 1e-5f);
    tensor_id logits = matmul_apply(g, &(matmul_inputs){ .a = x, .b = table, .tb = true });
    tensor_id loss = cross_entropy_apply(g, logits, ids, frozen(t, "scale", SHAPE(1)), 0);
    t->seeds[t->seed_count++] = (autodiff_seed){ .of = loss };
}

static void tied(void **state) {
    (void)state;
    check_and_finish(tied_embedding);
}

/* ---- what is differentiated ---- */

static void two_losses(trial *t) {
    tensor_id x = parameter(t, "x", SHAPE(4, 3)), h = times(t, x, parameter(t, "w", SHAPE(3, 2)));
    lose(t, bend(t, h));
    lose(t, scale_apply(&t->g, bend(t, times(t, h, parameter(t, "u", SHAPE(2, 2)))), 0, -3));
}

static void frozen_weight(trial *t) {
    tensor_id h = bend(t, times(t, frozen(t, "x", SHAPE(4, 3)), parameter(t, "w", SHAPE(3, 3))));
    lose(t, bend(t, times(t, h, frozen(t, "f", SHAPE(3, 3)))));
}

static void wanted_input(trial *t) {
    tensor_id x = source(t, "x", ROLE_STATE, SHAPE(4, 3), 0);
    t->wanted[x] = true;
    lose(t, bend(t, times(t, x, parameter(t, "w", SHAPE(3, 3)))));
}

static void what_is_asked(void **state) {
    (void)state;
    check_and_finish(two_losses);
    check_and_finish(wanted_input);
    trial t;
    check(&t, frozen_weight);
    assert_int_equal(count_backward(&t, &op_matmul), 2); /* of w and of h: nothing for what is frozen */
    finish(&t);
}

static void no_gradient_without_a_path(void **state) {
    (void)state;
    graph g;
    must(graph_open(&g));
    graph_source s = { "p", SHAPE(2, 2), DTYPE_F64, ROLE_PARAMETER, TENSOR_TRAINABLE };
    tensor_id p = graph_add_source(&g, &s), gradient[MOST];
    s.name = "q";
    tensor_id q = graph_add_source(&g, &s), loss = sum_apply(&g, p, 0);
    sum_apply(&g, q, 0); /* another value, which is not asked for */
    must(autodiff_run(&g, &(autodiff_seed){ .of = loss }, 1, NULL, gradient));
    assert_true(gradient[p] != 0 && gradient[q] == 0);
    graph_close(&g);
}

/* ---- gradients that are handed on ---- */

/* The gradient of the sum is that of w and of the product; w's other contribution must not be written over
 * it. */
static void sum_of_product_and_weight(trial *t) {
    tensor_id w = parameter(t, "w", SHAPE(3, 3));
    lose(t, bend(t, add_apply(&t->g, times(t, frozen(t, "x", SHAPE(3, 3)), w), w)));
}

static void sum_of_parameters(trial *t) {
    tensor_id p = parameter(t, "p", SHAPE(3, 3)), r = parameter(t, "r", SHAPE(3, 3));
    lose(t, bend(t, times(t, parameter(t, "x", SHAPE(4, 3)), p)));
    lose(t, bend(t, add_apply(&t->g, p, r)));
}

/* One half of the sum's gradient is written over while another value still wants all of it. */
static void part_of_a_concatenation(trial *t) {
    graph *g = &t->g;
    tensor_id q = bend(t, parameter(t, "q", SHAPE(6, 3))), a = bend(t, parameter(t, "a", SHAPE(3, 3)));
    tensor_id product = times(t, parameter(t, "x", SHAPE(2, 3)), a);
    tensor_id parts[] = { a, bend(t, parameter(t, "b", SHAPE(3, 3))) };
    lose(t, bend(t, product));
    lose(t, bend(t, add_apply(g, concat_apply(g, parts, 2), q)));
}

/* An earlier value still wants the gradient that the second use of k is accumulated into. */
static void activation_used_twice(trial *t) {
    tensor_id q = bend(t, parameter(t, "q", SHAPE(3, 3))), k = bend(t, parameter(t, "k", SHAPE(3, 3)));
    tensor_id scores = times(t, parameter(t, "x", SHAPE(2, 3)), k);
    lose(t, bend(t, scores));
    lose(t, bend(t, add_apply(&t->g, reshape_apply(&t->g, k, SHAPE(3, 3)), q)));
}

/* Adapters beside a trained weight: two things are made from one gradient. */
static void weight_and_adapter(trial *t) {
    tensor_id low = times(t, parameter(t, "a", SHAPE(3, 2)), parameter(t, "b", SHAPE(2, 3)));
    tensor_id w = add_apply(&t->g, low, parameter(t, "w", SHAPE(3, 3)));
    lose(t, bend(t, times(t, parameter(t, "x", SHAPE(5, 3)), w)));
}

static void seed_of_the_caller(trial *t) {
    tensor_id k = bend(t, parameter(t, "k", SHAPE(3, 3)));
    lose(t, bend(t, times(t, parameter(t, "x", SHAPE(2, 3)), k)));
    t->seeds[t->seed_count++] = (autodiff_seed){ .of = k, .gradient = frozen(t, "seed", SHAPE(3, 3)) };
}

static void seed_of_a_parameter(trial *t) {
    tensor_id p = parameter(t, "p", SHAPE(3, 3)), seed = frozen(t, "seed", SHAPE(3, 3));
    t->seeds[t->seed_count++] = (autodiff_seed){ .of = add_apply(&t->g, p, p), .gradient = seed };
    t->seeds[t->seed_count++] =
        (autodiff_seed){ .of = reshape_apply(&t->g, parameter(t, "q", SHAPE(3, 3)), SHAPE(9)),
                         .gradient = reshape_apply(&t->g, seed, SHAPE(9)) };
}

/* What the caller computed, for a value and for what is made of it: the last of the graph. */
static void one_seed_of_two(trial *t) {
    tensor_id seed = bend(t, frozen(t, "seed", SHAPE(3, 3))), x = bend(t, parameter(t, "x", SHAPE(3, 3)));
    tensor_id w = parameter(t, "w", SHAPE(3, 3));
    keep(t, seed);
    t->seeds[t->seed_count++] = (autodiff_seed){ .of = x, .gradient = seed };
    t->seeds[t->seed_count++] = (autodiff_seed){ .of = times(t, w, x), .gradient = seed };
}

/* More inputs than any fixed list would have had room for. */
static void many_parts(trial *t) {
    tensor_id parts[PARTS];
    for (int i = 0; i < PARTS; i++) {
        char name[16];
        snprintf(name, sizeof name, "part%d", i);
        parts[i] = bend(t, parameter(t, name, SHAPE(1, 2)));
    }
    lose(t, bend(t, concat_apply(&t->g, parts, PARTS)));
}

#define TEST(build)                                                                                          \
    static void test_##build(void **state) {                                                                 \
        (void)state;                                                                                         \
        check_and_finish(build);                                                                             \
    }
TEST(sum_of_product_and_weight)
TEST(sum_of_parameters)
TEST(part_of_a_concatenation)
TEST(activation_used_twice)
TEST(weight_and_adapter)
TEST(seed_of_the_caller)
TEST(seed_of_a_parameter)
TEST(one_seed_of_two)
TEST(many_parts)

/* ---- the common path ---- */

static void residual_blocks(trial *t) {
    tensor_id x = parameter(t, "x", SHAPE(4, 3));
    for (int i = 0; i < 2; i++) {
        char gamma[] = "gamma0", w[] = "w0", u[] = "u0";
        gamma[5] = w[1] = u[1] = (char)('0' + i);
        tensor_id n = layernorm_apply(&t->g, x, parameter(t, gamma, SHAPE(3)), 0, 1e-5f);
        tensor_id wide = bend(t, times(t, n, parameter(t, w, SHAPE(3, 5))));
        x = add_apply(&t->g, x, times(t, wide, parameter(t, u, SHAPE(5, 3))));
    }
    lose(t, bend(t, x));
}

static void residuals_are_not_copied(void **state) {
    (void)state;
    trial t;
    check(&t, residual_blocks);
    assert_int_equal(count_backward(&t, &op_add) + count_backward(&t, &op_scale), 0);
    finish(&t);
}

static void gpt2_has_no_copies(void **state) {
    (void)state;
    for (int tied_weights = 0; tied_weights < 2; tied_weights++) {
        gpt2_config c = gpt2_default();
        c.layers = 3, c.heads = 2, c.channels = 8, c.context = 4, c.vocabulary = 11, c.inner = 32;
        c.tied = tied_weights, c.dropout_residual = c.dropout_embedding = 0.1;
        model m;
        model_ports ports;
        graph g;
        tensor_id gradient[512];
        gpt2_model(&c, "small", &m);
        must(graph_open(&g));
        m.build(&m, &g, &(model_run){ .mode = MODEL_TRAIN, .batch = 2, .context = 4 }, &ports);
        assert_true(g.tensors.count < 512);
        node_id forward = g.nodes.count;
        must(autodiff_run(&g, &(autodiff_seed){ .of = ports.loss }, 1, NULL, gradient));
        for (node_id id = forward; id < g.nodes.count; id++)
            assert_true(graph_node(&g, id)->op != &op_add && graph_node(&g, id)->op != &op_scale);
        graph_close(&g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read_twice),
        cmocka_unit_test(second_place_gives_nothing),
        cmocka_unit_test(one_storage),
        cmocka_unit_test(tied),
        cmocka_unit_test(what_is_asked),
        cmocka_unit_test(no_gradient_without_a_path),
        cmocka_unit_test(test_sum_of_product_and_weight),
        cmocka_unit_test(test_sum_of_parameters),
        cmocka_unit_test(test_part_of_a_concatenation),
        cmocka_unit_test(test_activation_used_twice),
        cmocka_unit_test(test_weight_and_adapter),
        cmocka_unit_test(test_seed_of_the_caller),
        cmocka_unit_test(test_seed_of_a_parameter),
        cmocka_unit_test(test_one_seed_of_two),
        cmocka_unit_test(test_many_parts),
        cmocka_unit_test(residuals_are_not_copied),
        cmocka_unit_test(gpt2_has_no_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
