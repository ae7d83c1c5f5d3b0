/* What a plan says that its programs start on a GPU is what they start there: counted on the emulated GPU,
 * program by program, and the same for a GPU that is elsewhere. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "device/device_gpu.h"
#include "exec/exec.h"
#include "io/scratch.h"
#include "ops/sweeps.h"
#include "run/decision.h"
#include "schedule/sweep.h"
#ifdef SNUG_CUDA_EMULATED
#include "base/instructions.h"
#include "device/cuda/device_emulated.h"
#endif

static void must(status result) {
    if (result != STATUS_OK) fail_msg("%s", status_message());
}

static const char llama[] =
    "{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
    "\"num_key_value_heads\": 2, \"hidden_size\": 64, \"intermediate_size\": 96, \"vocab_size\": 256, "
    "\"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-5, \"hidden_act\": \"silu\", "
    "\"tie_word_embeddings\": false}\n";

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

static int open_folder(void **state) {
    int result = scratch_open(state);
    scratch_write("llama.json", llama, strlen(llama));
    return result;
}

static int pass_of(const char *name) {
    int i = 0;
    while (strcmp(pass_table[i]->name, name) != 0) i++;
    return i;
}

/* `launches`: of a step, counted on the emulated GPU. */
static const struct {
    const char *model, *pass, *setting;
    optimizer_kind optimizer;
    int64_t micro_batch;
    uint64_t launches;
} cases[] = {
    { "char-small", NULL, NULL, OPTIMIZER_ADAMW, 2, 183 },
    { "llama.json", NULL, NULL, OPTIMIZER_ADAMW, 2, 117 },
    { "llama.json", "attention", "flash", OPTIMIZER_LION, 2, 114 },
    { "llama.json", "precision", "mixed-bf16", OPTIMIZER_ADAMW, 1, 284 },
    { "llama.json", "quantize_state", "8bit", OPTIMIZER_ADAMW, 2, 117 },
    { "llama.json", "update_early", "twice", OPTIMIZER_SGD, 2, 225 },
    { "llama.json", "recompute", "block", OPTIMIZER_ADAFACTOR, 2, 323 },
    { "llama.json", "chunk_loss", "64", OPTIMIZER_ADAMW, 2, 124 },
};
enum { CASES = sizeof cases / sizeof *cases };

static void decide(int i, const device *on, setup *s, decision *d) {
    setup_options o = setup_defaults();
    o.model = cases[i].model, o.batch = 2, o.micro_batch = cases[i].micro_batch, o.context = 64,
    o.threads = 1;
    o.on = on, o.memory = UINT64_C(1) << 30, o.rates = RATES_BUILT_IN, o.optimizer.kind = cases[i].optimizer;
    for (int p = 0; pass_table[p]; p++)
        if (strcmp(pass_table[p]->name, "precision") != 0 && strcmp(pass_table[p]->name, "accumulate") != 0)
            o.passes[p] = "off";
    if (cases[i].pass) o.passes[pass_of(cases[i].pass)] = cases[i].setting;
    must(setup_open(&o, NULL, s));
    *d = (decision){ 0 };
    must(decision_make(s, d));
}

static uint64_t planned_of(const decision *d) {
    uint64_t starts = 0;
    for (uint32_t k = 0; k < d->plan.program_count; k++) {
        const program *p = &d->plan.programs[k].program;
        if (p->shape.task == TASK_TRAIN) starts += (uint64_t)p->shape.calls * lower_starts(p);
    }
    return starts;
}

static void a_plan_counts_them_elsewhere(void **state) {
    (void)state;
    for (int i = 0; i < CASES; i++) {
        device_elsewhere at;
        setup s;
        decision d;
        must(device_elsewhere_plan(&gpu, &at));
        decide(i, &at.device, &s, &d);
        assert_int_equal(planned_of(&d), cases[i].launches);
        decision_close(&d), setup_close(&s);
    }
}

/* Each start counts in its step's seconds and in the program's, and a sweep's once. */
static void seconds_have_a_start_for_each(void **state) {
    (void)state;
    device_elsewhere at;
    setup s;
    decision d;
    must(device_elsewhere_plan(&gpu, &at));
    decide(0, &at.device, &s, &d);
    const double start = device_gpu_rates(&gpu, 1).call_seconds;
    for (uint32_t k = 0; k < d.plan.program_count; k++) {
        const program *p = &d.plan.programs[k].program;
        double all = 0;
        int swept = 0, begun = 0;
        for (uint32_t i = 0; i < p->count; i++) {
            const lower_step *step = &p->steps[i];
            all += step->seconds;
            assert_true(step->seconds >= start * step->starts);
            if (!op_sweep_of(step->kernel)) continue;
            swept++, begun += step->starts > 0;
            if (!step->starts) assert_true(step->seconds < start); /* small tensors */
        }
        assert_true(all > 0.999999 * p->seconds && all < 1.000001 * p->seconds);
        if (p->shape.task == TASK_TRAIN) assert_true(swept == 104 && begun == 2); /* updates, and norms */
    }
    decision_close(&d), setup_close(&s);
}

#ifdef SNUG_CUDA_EMULATED
static void they_are_what_is_started(void **state) {
    (void)state;
    must(instructions_pin("widened"));
    device_runtime_host(16 << 20);
    for (int i = 0; i < CASES; i++) {
        setup s;
        decision d;
        exec *e;
        uint64_t of_step = 0;
        decide(i, &device_emulated, &s, &d);
        must(exec_open(&d.plan, 0, &e));
        for (uint32_t k = 0; k < d.plan.program_count; k++) {
            const program *p = &d.plan.programs[k].program;
            uint64_t before = emulated_seen.launches;
            exec_run(e, k);
            uint64_t seen = emulated_seen.launches - before;
            if (seen != lower_starts(p))
                fail_msg("%s, %s: %s starts %llu kernels, planned are %llu", cases[i].model,
                         cases[i].pass ? cases[i].pass : "plain", p->shape.name, (unsigned long long)seen,
                         (unsigned long long)lower_starts(p));
            if (p->shape.task == TASK_TRAIN) of_step += (uint64_t)p->shape.calls * seen;
        }
        print_message("%s, %s: %llu launches\n", cases[i].model, cases[i].pass ? cases[i].pass : "plain",
                      (unsigned long long)of_step);
        assert_int_equal(of_step, cases[i].launches);
        exec_close(e);
        decision_close(&d), setup_close(&s);
    }
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_counts_them_elsewhere),
        cmocka_unit_test(seconds_have_a_start_for_each),
#ifdef SNUG_CUDA_EMULATED
        cmocka_unit_test(they_are_what_is_started),
#endif
    };
    return cmocka_run_group_tests_name("launches", tests, open_folder, scratch_close);
}
