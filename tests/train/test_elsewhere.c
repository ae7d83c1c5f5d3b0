/* Planning for a GPU that is elsewhere, beside runs on the emulated one that is taken for it: the same bytes
 * in each pool, a reserve that is held, and a sentence for whatever is not as it was planned. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "io/scratch.h"

#ifdef SNUG_CUDA_EMULATED

#include <stdio.h>
#include <string.h>

#include "device/cuda/device_emulated.h"
#include "device/device_gpu.h"
#include "train/on_device.h"

#define MIB 1048576ull

static const device_gpu large = { .name = "large",
                                  .title = "a large GPU",
                                  .capability = 90,
                                  .multiprocessors = 132,
                                  .memory = 1000 * MIB,
                                  .context = { 1 * MIB, 2 * MIB, 3 * MIB },
                                  .f32 = 60e12,
                                  .bandwidth = 4e12 },
                        small = { .name = "small",
                                  .title = "a small GPU",
                                  .capability = 75,
                                  .multiprocessors = 40,
                                  .memory = 200 * MIB,
                                  .context = { 1 * MIB, 2 * MIB, 3 * MIB },
                                  .f32 = 8e12,
                                  .bandwidth = 3e11 };

static int make_data(void **state) {
    int result = scratch_open(state);
    char words[9000];
    for (size_t i = 0; i < sizeof words; i++) words[i] = (char)('a' + (i * i + i / 7) % 26);
    scratch_write("text", words, sizeof words);
    device_runtime_host(16 << 20); /* the emulation, and what earlier searches have left */
    return result;
}

static int be_usual(void **state) {
    (void)state;
    emulated_be(&emulated_usual);
    return 0;
}

static setup_options usual(const device *on) {
    setup_options o = setup_defaults();
    o.model = "char-small", o.data = "text", o.on = on;
    o.batch = 4, o.context = 32, o.threads = 2, o.steps = 1, o.eval_samples = 2;
    o.rates = RATES_BUILT_IN;
    return o;
}

static void must(status s) {
    if (s != STATUS_OK) fail_msg("%s", status_message());
}

/* Plans; where `steps` says so, trains as well. */
static status go(const setup_options *o, bool steps, decision *d, train_result *r) {
    setup s;
    resume from;
    train_observer silent = { 0 };
    *d = (decision){ 0 }, *r = (train_result){ 0 };
    must(setup_open(o, NULL, &s));
    must(resume_find(&s, &from));
    status result = resume_decide(&s, &from, d);
    if (result == STATUS_OK && steps) result = train_run(&s, d, &from, &silent, r);
    resume_close(&from);
    setup_close(&s);
    return result;
}

static void end(decision *d, train_result *r) {
    train_result_close(r);
    decision_close(d);
}

/* ---- the same bytes ---- */

static void assert_same_plan(const decision *a, const decision *b) {
    for (int i = 0; i < POOL_COUNT; i++) {
        if (i != POOL_HOST) assert_int_equal(plan_taken(&a->plan, i), plan_taken(&b->plan, i));
        assert_int_equal(plan_allocated(&a->plan, i), plan_allocated(&b->plan, i));
    }
    assert_int_equal(a->point.choice.micro_batch, b->point.choice.micro_batch);
    for (int i = 0; pass_table[i]; i++)
        assert_string_equal(a->point.choice.settings[i].text, b->point.choice.settings[i].text);
}

/* The planner chooses freely, with all of the memory and with little of it. */
static void a_run_there_has_the_plan_s_bytes(void **state) {
    (void)state;
    const device_gpu *gpus[] = { &large, &small };
    const uint64_t budgets[] = { 0, 170 * MIB, 152 * MIB };
    for (int g = 0; g < 2; g++)
        for (int b = 0; b < 3; b++) {
            device_elsewhere there, here;
            decision planned, run;
            train_result r, none;
            must(device_elsewhere_plan(gpus[g], &there));
            must(device_elsewhere_here(gpus[g], &device_emulated, &here));
            setup_options o = usual(&there.device);
            o.memory = budgets[b];
            must(go(&o, false, &planned, &none));
            o.on = &here.device;
            emulated_seen = (emulated_counts){ 0 };
            must(go(&o, true, &run, &r));
            assert_same_plan(&planned, &run);
            assert_int_equal(emulated_seen.most_bytes, plan_pool_bytes(&planned.plan));
            assert_int_equal(emulated_seen.by_host, 0);
            end(&planned, &none);
            end(&run, &r);
        }
}

/* ---- beside pools ---- */

static void parts_are_held_and_do_not_move(void **state) {
    (void)state;
    decision d;
    train_result r;
    emulated_gpu is = emulated_usual;
    setup_options o = usual(&device_emulated);
    emulated_seen = (emulated_counts){ 0 };
    must(go(&o, true, &d, &r));
    device_parts reserve = device_emulated.reserve(&device_emulated);
    assert_int_equal(d.plan.pools[POOL_MEMORY].runtime_bytes, device_parts_sum(&reserve));
    assert_memory_equal(&r.memory.beside, &is.beside, sizeof is.beside);
    assert_int_equal(r.memory.moved_bytes, 0);
    end(&d, &r);

    is.moves = 12345; /* code that comes with the first kernel would be seen */
    emulated_be(&is);
    emulated_seen = (emulated_counts){ 0 };
    must(go(&o, true, &d, &r));
    assert_int_equal(r.memory.moved_bytes, 12345);
    end(&d, &r);

    is.beside.context = device_parts_sum(&reserve) + 1, is.moves = 0;
    emulated_be(&is);
    assert_int_equal(go(&o, true, &d, &r), STATUS_NO_FIT);
    assert_non_null(
        strstr(status_message(), "before it begins (context 1048577, code 262144, handles 65536)"));
    assert_int_equal(r.steps, 0);
    end(&d, &r);
}

/* ---- what is free ---- */

static void memory_auto_leaves_a_margin(void **state) {
    (void)state;
    emulated_gpu is = emulated_usual;
    uint64_t own = device_parts_sum(&is.beside);
    is.memory = 8192 * MIB, is.others = 1024 * MIB + own;
    emulated_be(&is);
    setup_options o = usual(&device_emulated);
    setup s;
    o.memory_auto = true;
    emulated_seen = (emulated_counts){ 0 };
    must(setup_open(&o, NULL, &s));
    uint64_t whole = is.memory - is.others; /* what others leave, with what the process holds already */
    assert_int_equal(s.margin, whole / 16);
    assert_int_equal(s.budget, whole - s.margin);
    setup_close(&s);

    is.gpu = large, is.gpu.shows = true; /* a screen's programs want more */
    emulated_be(&is);
    must(setup_open(&o, NULL, &s));
    assert_int_equal(s.margin, 512 * MIB);
    setup_close(&s);
}

static void what_others_have_taken_is_refused(void **state) {
    (void)state;
    decision d;
    train_result r;
    emulated_gpu is = emulated_usual;
    is.memory = 150 * MIB;
    emulated_be(&is);
    setup_options o = usual(&device_emulated);
    o.memory = 100 * MIB;
    emulated_seen = (emulated_counts){ 0 };
    must(go(&o, true, &d, &r));
    end(&d, &r);

    setup s; /* planned while there was room, and begun when there is none */
    resume from;
    train_observer silent = { 0 };
    d = (decision){ 0 };
    must(setup_open(&o, NULL, &s));
    must(resume_find(&s, &from));
    must(resume_decide(&s, &from, &d));
    is.others = 149 * MIB;
    emulated_be(&is);
    assert_int_equal(train_run(&s, &d, &from, &silent, &r), STATUS_NO_FIT);
    assert_non_null(strstr(status_message(), "of memory left, and the plan takes"));
    assert_int_equal(r.steps, 0);
    end(&d, &r);
    resume_close(&from);
    setup_close(&s);
}

/* ---- another GPU ---- */

static void expect_refused(status got, const char *says) {
    assert_int_equal(got, STATUS_INVALID);
    if (!strstr(status_message(), says)) fail_msg("nothing of '%s' in: %s", says, status_message());
}

static void another_gpu_is_refused(void **state) {
    (void)state;
    device_elsewhere at;
    emulated_gpu is = emulated_usual;
    is.gpu = large;
    emulated_be(&is);
    must(device_elsewhere_here(&large, &device_emulated, &at));
    expect_refused(
        device_elsewhere_here(&small, &device_emulated, &at),
        "--gpu small has capability 7.5, 40 multiprocessors, 200.0 MiB, and what is here is another: "
        "a large GPU with capability 9.0");
    is.gpu.memory -= large.memory / 17; /* a driver that keeps more is no other GPU, */
    emulated_be(&is);
    must(device_elsewhere_here(&large, &device_emulated, &at));
    is.gpu.memory = large.memory / 2; /* half of one is */
    emulated_be(&is);
    expect_refused(device_elsewhere_here(&large, &device_emulated, &at), "is another");
    expect_refused(device_elsewhere_here(&large, &device_cpu, &at), "--device cpu is no GPU");
}

static void nothing_runs_elsewhere(void **state) {
    (void)state;
    device_elsewhere at;
    decision d;
    train_result r;
    must(device_elsewhere_plan(&large, &at));
    setup_options o = usual(&at.device);
    expect_refused(go(&o, true, &d, &r), "plans are made for it, and nothing is run on it from here");
    end(&d, &r);
    device_gpu old = large;
    old.capability = 61;
    expect_refused(device_elsewhere_plan(&old, &at), "no kernels for capability 6.1; they begin at 7.0");
    old.capability = 70;
    must(device_elsewhere_plan(&old, &at));
}

/* What an H200 was seen to take, and somewhat more: one plan, which leaves room, and not much. */
static void what_was_seen_is_reserved_in_steps(void **state) {
    (void)state;
    device_parts seen = { .context = 567869440, .code = 0, .handles = 2 * MIB };
    device_parts first = device_gpu_reserve_seen(&seen);
    assert_int_equal(first.context % (32 * MIB), 0);
    assert_true(first.context >= seen.context + 8 * MIB && first.code >= 8 * MIB);
    assert_true(first.handles >= seen.handles + 4 * MIB);
    assert_true(device_parts_sum(&first) <= device_parts_sum(&seen) + 72 * MIB);
    seen.context += 4 * MIB, seen.code += 2 * MIB, seen.handles += 1 * MIB;
    device_parts again = device_gpu_reserve_seen(&seen);
    assert_memory_equal(&first, &again, sizeof first);
    seen.context += 32 * MIB;
    again = device_gpu_reserve_seen(&seen);
    assert_int_equal(again.context, first.context + 32 * MIB);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_run_there_has_the_plan_s_bytes),
                                        cmocka_unit_test_teardown(parts_are_held_and_do_not_move, be_usual),
                                        cmocka_unit_test_teardown(memory_auto_leaves_a_margin, be_usual),
                                        cmocka_unit_test_teardown(what_others_have_taken_is_refused,
                                                                  be_usual),
                                        cmocka_unit_test_teardown(another_gpu_is_refused, be_usual),
                                        cmocka_unit_test(nothing_runs_elsewhere),
                                        cmocka_unit_test(what_was_seen_is_reserved_in_steps) };
    return cmocka_run_group_tests_name("plans for GPUs elsewhere and runs on an emulated one", tests,
                                       make_data, scratch_close);
}

#else

#include "emulation_left_out.h"

int main(void) { return emulation_left_out("GPUs elsewhere"); }

#endif
