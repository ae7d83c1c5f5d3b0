/* What waits in a file: gradients and master weights beside everything that decides where they are used. The
 * bits are those of the same run in memory, bytes are as planned, and memory falls by what has left it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/threads.h"
#include "run/lab.h"

static const lab_sizes small = {
    .layers = 3, .heads = 2, .channels = 48, .context = 64, .vocabulary = 197, .batch = 8, .clip = 0.5
};

/* The same run with nothing in a file, and with it: the same bits. */
static void compare(const lab_sizes *sizes, int64_t micro_batch, const char *settings, const char *offload,
                    unsigned modes) {
    char with[256];
    snprintf(with, sizeof with, "%s offload=%s", settings, offload);
    lab_compare(&(lab_pair){ .sizes = sizes,
                             .base = settings,
                             .with = with,
                             .base_micro_batch = micro_batch,
                             .micro_batch = micro_batch,
                             .modes = modes });
}

typedef struct {
    int64_t micro_batch;
    const char *settings;
} surrounding;

static void gradients_in_a_file_are_the_same(void **state) {
    (void)state;
    static const surrounding with_clipping[] = {
        { 0, "" },
        { 0, "chunk_loss=64 recompute=block" },
        { 0, "update_early=twice fuse=on" },
        { 0, "quantize_state=8bit" },
        { 0, "precision=bf16" },
        { 4, "accumulate=defer" },
        { 3, "accumulate=add recompute=cheap chunk_loss=100" },
        { 4, "accumulate=add precision=bf16" },
        { 2, "accumulate=defer precision=mixed-f16 quantize_state=bf16" },
    };
    static const surrounding without[] = { { 0, "update_early=on" }, { 4, "accumulate=defer" }, { 0, "" } };
    lab_sizes free = small;
    free.clip = 0;
    for (size_t i = 0; i < sizeof with_clipping / sizeof *with_clipping; i++)
        compare(&small, with_clipping[i].micro_batch, with_clipping[i].settings,
                i % 2 ? "optimizer+gradients" : "gradients", i % 3 ? EXEC_POISON : EXEC_SEPARATE);
    for (size_t i = 0; i < sizeof without / sizeof *without; i++)
        compare(&free, without[i].micro_batch, without[i].settings, "gradients,activations", EXEC_POISON);
}

/* Those that update in pieces, and the one that has to see a gradient whole. */
static void of_every_optimizer(void **state) {
    (void)state;
    for (int kind = 0; kind < OPTIMIZER_COUNT; kind++) {
        lab_sizes sizes = small;
        sizes.optimizer = (optimizer_kind)kind;
        compare(&sizes, 0, "", "gradients", EXEC_POISON);
        compare(&sizes, 4, "accumulate=defer", "gradients", EXEC_POISON);
        if (kind == OPTIMIZER_ADAFACTOR) continue;
        compare(&sizes, 0, "precision=mixed-bf16", "master", EXEC_POISON);
    }
}

static void masters_in_a_file_are_the_same(void **state) {
    (void)state;
    static const surrounding all[] = {
        { 0, "precision=mixed-bf16" },
        { 0, "precision=mixed-f16 chunk_loss=64" },
        { 0, "precision=mixed-bf16 recompute=block attention=flash update_early=twice" },
        { 4, "precision=mixed-bf16 accumulate=defer recompute=cheap" },
        { 3, "precision=mixed-f16 accumulate=add fuse=on gelu_epilogue=on" },
        { 0, "precision=mixed-bf16 quantize_state=8bit" },
    };
    static const char *const also[] = { "master", "master,optimizer",
                                        "activations,gradients,master,optimizer" };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (size_t k = 0; k < 3; k++)
            if (k == 2 || i % 2 == k)
                compare(&small, all[i].micro_batch, all[i].settings, also[k], EXEC_POISON);
    lab_sizes free = small;
    free.clip = 0, free.dropout = 0.2;
    compare(&free, 0, "precision=mixed-bf16 update_early=on", also[2], EXEC_SEPARATE);
}

/* ---- bytes ---- */

static void plan_of(const lab *l, int64_t micro_batch, const char *settings, plan *p) {
    compose_choice c = lab_choose(l, micro_batch, settings);
    if (compose_plan(&l->run, &c, p) != STATUS_OK) fail_msg("%s", status_message());
}

static uint64_t in_file(const plan *p, category c) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < p->persistent_count; i++)
        if (p->persistent[i].pool == POOL_FILE && p->persistent[i].category == c)
            bytes += p->persistent[i].bytes;
    return bytes;
}

static const lab_sizes wide = {
    .layers = 6, .heads = 4, .channels = 128, .context = 16, .vocabulary = 499, .batch = 4, .clip = 1
};

/* Sums over micro-batches leave memory, and what is left of gradients is what is being added to. */
static void gradients_leave_memory(void **state) {
    (void)state;
    lab l;
    plan here, there, at_once, at_once_there;
    lab_open(&l, &wide);
    plan_of(&l, 2, "accumulate=defer", &here);
    plan_of(&l, 2, "accumulate=defer offload=gradients", &there);
    plan_of(&l, 0, "", &at_once);
    plan_of(&l, 0, "offload=gradients", &at_once_there);
    const uint64_t block = 4 * 12 * 128 * 128;
    assert_true(in_file(&there, CATEGORY_GRADIENTS) >= 6 * block);
    assert_true(there.by_category[CATEGORY_GRADIENTS] + 5 * block < here.by_category[CATEGORY_GRADIENTS]);
    assert_true(plan_file_bytes(&at_once_there) >= 6 * block);
    assert_true(at_once_there.by_category[CATEGORY_GRADIENTS] + 5 * block <
                at_once.by_category[CATEGORY_GRADIENTS]);
    plan_close(&here), plan_close(&there), plan_close(&at_once), plan_close(&at_once_there);
}

static void masters_leave_memory(void **state) {
    (void)state;
    lab l;
    plan here, there;
    lab_open(&l, &wide);
    plan_of(&l, 0, "precision=mixed-bf16", &here);
    plan_of(&l, 0, "precision=mixed-bf16 offload=master", &there);
    const uint64_t block = 4 * 12 * 128 * 128, words = 4 * 499 * 128;
    assert_true(in_file(&there, CATEGORY_WEIGHTS) >= 6 * block + words);
    assert_true(there.by_category[CATEGORY_WEIGHTS] + 6 * block + words <=
                here.by_category[CATEGORY_WEIGHTS]);
    plan_close(&here), plan_close(&there);
}

/* ---- what can't be ---- */

static void refusals_say_what_would_do(void **state) {
    (void)state;
    static const struct {
        optimizer_kind optimizer;
        const char *settings, *offload, *says;
    } cases[] = {
        { OPTIMIZER_ADAMW, "", "master", "--precision mixed-bf16" },
        { OPTIMIZER_ADAMW, "precision=bf16", "gradients+master", "no master weights" },
        { OPTIMIZER_ADAFACTOR, "precision=mixed-bf16", "master", "--optimizer adamw" },
    };
    const pass *p = NULL;
    for (int i = 0; pass_table[i]; i++)
        if (strcmp(pass_table[i]->name, "offload") == 0) p = pass_table[i];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lab_sizes sizes = small;
        sizes.optimizer = cases[i].optimizer;
        lab l;
        graph g;
        pass_setting s;
        lab_open(&l, &sizes);
        compose_choice c = lab_choose(&l, 0, cases[i].settings);
        pass_context context = compose_context(&l.run, &c);
        assert_int_equal(compose_graph(&l.run, &c, PASS_STEP, &g), STATUS_OK);
        assert_int_equal(p->parse(cases[i].offload, &s), STATUS_OK);
        assert_int_equal(p->check(&g, &s, &context), STATUS_INVALID);
        if (!strstr(status_message(), cases[i].says)) fail_msg("%s", status_message());
        graph_close(&g);
    }
    pass_setting s;
    assert_int_equal(p->parse("activations,optimizer", &s), STATUS_OK);
    assert_string_equal(s.text, "optimizer+activations");
    static const char *const nonsense[] = { "", "weights", "optimizer,", "optimizer;master",
                                            "optimizermaster" };
    for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++)
        assert_int_equal(p->parse(nonsense[i], &s), STATUS_INVALID);
}

int main(void) {
    threads_set(2);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_in_a_file_are_the_same),
        cmocka_unit_test(of_every_optimizer),
        cmocka_unit_test(masters_in_a_file_are_the_same),
        cmocka_unit_test(gradients_leave_memory),
        cmocka_unit_test(masters_leave_memory),
        cmocka_unit_test(refusals_say_what_would_do),
    };
    return cmocka_run_group_tests_name("offload", tests, NULL, NULL);
}
