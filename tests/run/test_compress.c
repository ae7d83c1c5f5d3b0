/* Activations that wait as codes: another run than plain's, by little, whose forward is the same; beside it
 * techniques are as exact as they were, as long as what is kept is the same; bytes fall to a quarter. */
#include <math.h>
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
    .layers = 2, .heads = 2, .channels = 32, .context = 64, .vocabulary = 97, .batch = 8, .clip = 0.5
};

static void run(const lab_sizes *sizes, int64_t micro_batch, const char *settings, int steps, lab_result *r) {
    lab l;
    lab_open(&l, sizes);
    compose_choice c = lab_choose(&l, micro_batch, settings);
    lab_run(&l, &c, EXEC_POISON, steps, r);
    if (steps) lab_assert_exact_bytes(r, settings);
}

static void compare(const lab_sizes *sizes, const char *base, int64_t micro_batch, const char *more) {
    char one[128], two[256];
    snprintf(one, sizeof one, "compress_activations=8bit %s", base);
    snprintf(two, sizeof two, "%s %s", one, more);
    lab_compare(&(lab_pair){
        .sizes = sizes, .base = one, .with = two, .micro_batch = micro_batch, .modes = EXEC_POISON });
}

static void others_stay_exact(void **state) {
    (void)state;
    static const char *const bases[] = { "", "attention=flash", "recompute=block", "precision=mixed-bf16",
                                         "attention=flash recompute=cheap precision=mixed-f16" };
    lab_sizes dropping = small;
    dropping.dropout = 0.2;
    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
        const lab_sizes *sizes = i % 2 ? &dropping : &small;
        compare(sizes, bases[i], 0, "fuse=on");
        compare(sizes, bases[i], 0, "fuse=on gelu_epilogue=on");
        compare(sizes, bases[i], 0, "chunk_loss=256 update_early=twice");
        compare(sizes, bases[i], 0, "offload=optimizer+activations");
        compare(sizes, bases[i], 4, "accumulate=defer");
    }
}

/* Forward reads what it has always read: the first loss is that of the plain run to the bit, and so is a
 * validation of the same weights; later ones are near. */
static void near_the_plain_run(void **state) {
    (void)state;
    static const char *const others[] = { "", "attention=flash", "attention=flash recompute=block",
                                          "recompute=2" };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char with[128];
        lab_result before, after, plain, other;
        snprintf(with, sizeof with, "%s compress_activations=8bit", others[i]);
        run(&small, 0, others[i], 0, &before), run(&small, 0, with, 0, &after);
        run(&small, 0, others[i], 20, &plain), run(&small, 0, with, 20, &other);
        assert_true(lab_same(&before, &after));
        assert_memory_equal(&plain.losses[0], &other.losses[0], sizeof(float));
        double distance = lab_distance(&plain, &other);
        if (distance == 0 || !(distance < 0.05)) fail_msg("%s: %g away", with, distance);
        double is = (double)other.losses[19], should = (double)plain.losses[19];
        if (!(fabs(is - should) < 0.005 * should)) fail_msg("%s: loss %g, without %g", with, is, should);
        lab_result_close(&before), lab_result_close(&after), lab_result_close(&plain),
            lab_result_close(&other);
    }
}

static plan planned(const lab_sizes *sizes, const char *settings) {
    lab l;
    plan p;
    lab_open(&l, sizes);
    compose_choice c = lab_choose(&l, 0, settings);
    assert_int_equal(compose_plan(&l.run, &c, &p), STATUS_OK);
    return p;
}

/* Deep, and the loss in chunks, so that what waits holds the peak: of it a quarter is left (of 16 bits half),
 * and what is widened at one time. */
static void bytes_fall_to_those_of_codes(void **state) {
    (void)state;
    static const char *const others[] = { "attention=flash chunk_loss=256",
                                          "attention=flash chunk_loss=256 recompute=block",
                                          "attention=flash chunk_loss=256 precision=mixed-bf16" };
    lab_sizes deep = small;
    deep.layers = 16, deep.batch = 32, deep.clip = 0;
    for (int i = 0; i < 3; i++) {
        char without[128], with[160];
        snprintf(without, sizeof without, "%s update_early=on", others[i]);
        snprintf(with, sizeof with, "%s compress_activations=8bit", without);
        plan a = planned(&deep, without), b = planned(&deep, with);
        double left = (double)b.pools[POOL_MEMORY].arena_bytes / (double)a.pools[POOL_MEMORY].arena_bytes;
        if (!(left < (i == 1 ? 0.8 : i == 2 ? 0.6 : 0.35)))
            fail_msg("%s leaves %.2f of the bytes", with, left);
        plan_close(&a), plan_close(&b);
    }
}

static void threads_agree(void **state) {
    (void)state;
    lab_result first, r;
    lab l;
    threads_set(3); /* planned for */
    lab_open(&l, &small);
    compose_choice c = lab_choose(&l, 0, "attention=flash compress_activations=8bit recompute=cheap");
    for (int threads = 1; threads <= 3; threads++) {
        threads_set(threads);
        lab_run(&l, &c, threads == 2 ? EXEC_SEPARATE | EXEC_POISON : EXEC_POISON, 5,
                threads == 1 ? &first : &r);
        if (threads == 1) continue;
        assert_true(lab_same(&first, &r));
        lab_result_close(&r);
    }
    threads_set(2);
    lab_result_close(&first);
}

/* ---- where it does not apply ---- */

static void declines_where_nothing_waits(void **state) {
    (void)state;
    lab l;
    lab_sizes tiny = { .layers = 1, .heads = 1, .channels = 8, .context = 8, .vocabulary = 11, .batch = 1 };
    lab_open(&l, &tiny);
    compose_choice c = lab_choose(&l, 0, "compress_activations=8bit");
    pass_context context = compose_context(&l.run, &c);
    graph g;
    assert_int_equal(compose_graph(&l.run, &c, PASS_STEP, &g), STATUS_OK);
    for (int i = 0; pass_table[i]; i++) {
        pass_setting offered[4];
        pass_without without = PASS_OPTIONAL;
        if (strcmp(pass_table[i]->name, "compress_activations") != 0) continue;
        assert_int_equal(pass_table[i]->settings(&g, &context, offered, 4, &without), 0);
        assert_int_equal(pass_table[i]->check(&g, &c.settings[i], &context), STATUS_INVALID);
        assert_non_null(strstr(status_message(), "--compress-activations 8bit"));
    }
    graph_close(&g);
}

int main(void) {
    threads_set(2);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(others_stay_exact),
        cmocka_unit_test(near_the_plain_run),
        cmocka_unit_test(bytes_fall_to_those_of_codes),
        cmocka_unit_test(threads_agree),
        cmocka_unit_test(declines_where_nothing_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
