/* Steps that a GPU runs at once: which they are in plans of whole models, that memory is what it was but for
 * scratch, and where nothing is joined. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "device/device_gpu.h"
#include "ops/add/add.h"
#include "ops/gelu/gelu.h"
#include "ops/sgd/sgd.h"
#include "ops/sum_squares/sum_squares.h"
#include "run/decision.h"
#include "schedule/sweep.h"

static void must(status result) {
    if (result != STATUS_OK) fail_msg("%s", status_message());
}

static const device_gpu gpu = { .name = "h200",
                                .title = "H200",
                                .capability = 90,
                                .multiprocessors = 132,
                                .threads = 2048,
                                .memory = UINT64_C(139) << 30,
                                .context = { 480 << 20, 527 << 20, 600 << 20 },
                                .f32 = 6.7e13,
                                .bandwidth = 4.8e12,
                                .link = 6.4e10 };

typedef struct {
    const char *model, *kernel;
    const char *pass, *setting; /* pinned; may be NULL */
    int steps, sweeps;          /* of the kernel, in the program that updates */
} expected;

static int pass_of(const char *name) {
    int i = 0;
    while (strcmp(pass_table[i]->name, name) != 0) i++;
    return i;
}

static void decide(const expected *x, device_elsewhere *at, setup *s, decision *d) {
    setup_options o = setup_defaults();
    must(device_elsewhere_plan(&gpu, at));
    o.model = x->model, o.batch = o.micro_batch = 2, o.context = 64, o.threads = 2;
    o.on = &at->device, o.memory = gpu.memory, o.rates = RATES_BUILT_IN;
    o.passes[pass_of("update_early")] = "off", o.passes[pass_of("offload")] = "off";
    if (x->pass) o.passes[pass_of(x->pass)] = x->setting;
    must(setup_open(&o, NULL, s));
    *d = (decision){ 0 };
    must(decision_make(s, d));
}

/* A step is of the sweep that began before it, or begins one. */
static void count(const program *p, const char *kernel, int *steps, int *sweeps) {
    static uint16_t together[20000];
    assert_true(p->count < sizeof together / sizeof *together);
    must(sweep_find(p, together));
    for (uint32_t s = 0; s < p->count; s++) {
        bool joined = s && together[s - 1] > 1;
        assert_true(together[s] >= 1 && s + together[s] <= p->count);
        if (joined) assert_int_equal(together[s], together[s - 1] - 1);
        if (joined) assert_ptr_equal(p->steps[s].kernel, p->steps[s - 1].kernel);
        if (strcmp(p->steps[s].kernel->name, kernel) == 0) ++*steps, *sweeps += !joined;
    }
}

/* How many of its steps the plan has, and in how many sweeps. */
static void count_in_plan(const expected *of, int *steps, int *sweeps) {
    device_elsewhere at;
    setup s;
    decision d;
    *steps = *sweeps = 0;
    decide(of, &at, &s, &d);
    for (uint32_t k = 0; k < d.plan.program_count; k++)
        count(&d.plan.programs[k].program, of->kernel, steps, sweeps);
    print_message("%s, %s: %d steps, %d sweeps\n", of->model, of->kernel, *steps, *sweeps);
    decision_close(&d), setup_close(&s);
}

static void updates_and_norms_are_one_sweep(void **state) {
    static const expected all[] = {
        { "gpt2", "adamw_cuda_blocks", NULL, NULL, 148, 1 },
        { "gpt2", "sum_squares_cuda_tiles", NULL, NULL, 148, 1 },
        { "gpt2", "adamw_cuda_blocks", "quantize_state", "8bit", 148, 1 },
        { "char-small", "adamw_cuda_blocks", NULL, NULL, 52, 1 },
        { "char-small", "sum_squares_cuda_tiles", NULL, NULL, 52, 1 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        int steps, sweeps;
        count_in_plan(&all[i], &steps, &sweeps);
        assert_int_equal(steps, all[i].steps), assert_int_equal(sweeps, all[i].sweeps);
    }
}

/* Where updates are early, other steps stand between them; where state is away, it comes and goes between
 * steps. */
static void others_are_alone(void **state) {
    static const expected all[] = {
        { "char-small", "adamw_cuda_blocks", "update_early", "twice", 52, 0 },
        { "char-small", "adamw_cuda_blocks", "offload", "optimizer", 52, 52 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        int steps, sweeps;
        count_in_plan(&all[i], &steps, &sweeps);
        assert_int_equal(steps, all[i].steps), assert_true(sweeps > 1);
        if (all[i].sweeps) assert_int_equal(sweeps, all[i].sweeps);
    }
}

/* ---- the rules, one by one ---- */

typedef struct {
    graph g;
    device_elsewhere at;
} made;

static void make(made *m) {
    must(device_elsewhere_plan(&gpu, &m->at));
    must(graph_open(&m->g));
}

static tensor_id weight(made *m, const char *name) {
    return graph_add_source(
        &m->g,
        &(graph_source){ .name = name, .shape = SHAPE(8), .dtype = DTYPE_F32, .role = ROLE_PARAMETER });
}

static tensor_id update(made *m, tensor_id w, tensor_id g, tensor_id rate) {
    return sgd_apply(&m->g, (sgd_inputs){ .w = w, .g = g, .lr = rate }, &(sgd_attributes){ 0 });
}

static tensor_id rate_of(made *m) {
    return graph_add_source(
        &m->g,
        &(graph_source){ .name = "rate", .shape = SHAPE(1), .dtype = DTYPE_F32, .role = ROLE_PARAMETER });
}

/* Takes the graph. The lengths of the sweeps of its program, in their order. */
static void expect_sweeps(made *m, const char *wanted) {
    uint16_t together[16];
    char lengths[64] = "";
    program p;
    must(lower_program(
        &m->g, &(lower_options){ .device = &m->at.device, .threads = 1, .rates = device_rates_default(1) },
        &p));
    assert_true(p.count < sizeof together / sizeof *together);
    must(sweep_find(&p, together));
    for (uint32_t s = 0; s < p.count; s += together[s])
        snprintf(lengths + strlen(lengths), sizeof lengths - strlen(lengths), "%s%d", s ? " " : "",
                 together[s]);
    lower_close(&p);
    assert_string_equal(lengths, wanted);
}

static void updates_that_touch_each_other_are_apart(void **state) {
    (void)state;
    made m;
    make(&m); /* the rate is read by both */
    tensor_id rate = rate_of(&m), a = weight(&m, "a"), b = weight(&m, "b"), c = weight(&m, "c");
    update(&m, a, c, rate), update(&m, b, c, rate);
    expect_sweeps(&m, "2");
    make(&m); /* the second reads what the first has written */
    rate = rate_of(&m), a = weight(&m, "a"), b = weight(&m, "b"), c = weight(&m, "c");
    update(&m, b, update(&m, a, c, rate), rate);
    expect_sweeps(&m, "1 1");
    make(&m); /* it writes what the first reads */
    rate = rate_of(&m), a = weight(&m, "a"), b = weight(&m, "b"), c = weight(&m, "c");
    update(&m, a, b, rate), update(&m, b, c, rate);
    expect_sweeps(&m, "1 1");
}

/* A result may lie where a value was that died in the sweep, which the kernels still read. */
static void nothing_is_born_where_something_died(void **state) {
    (void)state;
    for (int dies = 0; dies < 2; dies++) {
        made m;
        make(&m);
        tensor_id a = weight(&m, "a"), b = weight(&m, "b"), x = gelu_apply(&m.g, a, true);
        tensor_id one = sum_squares_apply(&m.g, x), two = sum_squares_apply(&m.g, b);
        add_apply(&m.g, one, two);
        if (!dies) gelu_apply(&m.g, x, true); /* reads it again, afterwards */
        expect_sweeps(&m, dies ? "1 1 1 1" : "1 2 1 1");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(updates_and_norms_are_one_sweep),
                                        cmocka_unit_test(others_are_alone),
                                        cmocka_unit_test(updates_that_touch_each_other_are_apart),
                                        cmocka_unit_test(nothing_is_born_where_something_died) };
    return cmocka_run_group_tests_name("sweeps", tests, NULL, NULL);
}
