/* Steps that a GPU runs at once: which they are in plans of whole models, that memory is what it was but for
 * scratch, and where nothing is joined. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "device/device_gpu.h"
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

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(updates_and_norms_are_one_sweep),
                                        cmocka_unit_test(others_are_alone) };
    return cmocka_run_group_tests_name("sweeps", tests, NULL, NULL);
}
