/* Units of samples: the sums of each begin at zero and are added in the order of samples. Cut into
 * micro-batches of whole row tiles, beside every technique, a run has the same bits; and bytes are as
 * planned.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "exec/exec_internal.h"
#include "run/lab.h"

/* Two micro-batches of 4 samples in a unit are whole row tiles: their sums keep their order. */
static const lab_sizes four = { .layers = 2,
                                .heads = 2,
                                .channels = 32,
                                .context = 64,
                                .vocabulary = 97,
                                .batch = 32,
                                .unit = 8,
                                .dropout = 0.1,
                                .clip = 0.5 };

static void keep(const lab_sizes *sizes, int64_t micro_batch, const char *base, const char *with) {
    lab_compare(&(lab_pair){
        .sizes = sizes, .base = base, .with = with, .micro_batch = micro_batch, .modes = EXEC_POISON });
}

static void cut_and_uncut(void **state) {
    (void)state;
    keep(&four, 0, "", "");
    keep(&four, 4, "", "accumulate=defer");
    keep(&four, 4, "", "accumulate=defer recompute=block chunk_loss=256");
    keep(&four, 0, "", "offload=optimizer+activations");
    keep(&four, 0, "", "offload=gradients");
    keep(&four, 4, "", "offload=gradients+optimizer accumulate=defer");
    keep(&four, 4, "quantize_state=8bit", "quantize_state=8bit accumulate=defer");
    keep(&four, 4, "precision=mixed-bf16", "precision=mixed-bf16 accumulate=defer recompute=cheap");
    keep(&four, 4, "precision=bf16", "precision=bf16 accumulate=defer recompute=block");
    keep(&four, 4, "precision=mixed-f16", "precision=mixed-f16 accumulate=defer");
}

static void untied_and_unclipped(void **state) {
    (void)state;
    lab_sizes sizes = four;
    sizes.untied = true, sizes.clip = 0;
    keep(&sizes, 4, "", "accumulate=add");
    for (int kind = 0; kind < OPTIMIZER_COUNT; kind++) {
        sizes.optimizer = (optimizer_kind)kind;
        keep(&sizes, 4, "", "accumulate=add recompute=2");
    }
    sizes.decoder = "llama", sizes.kv_heads = 1;
    keep(&sizes, 4, "", "accumulate=add recompute=block");
}

/* A micro-batch that is less than a tile cuts one: another order. And a unit is another run than none. */
static void what_is_not_the_same(void **state) {
    (void)state;
    lab_sizes none = four;
    lab_result with, without, cut;
    lab a, b;
    lab_open(&a, &four);
    none.unit = 0;
    lab_open(&b, &none);
    lab_run_settings(&a, 0, "", &with);
    lab_run_settings(&a, 2, "accumulate=add", &cut);
    lab_run_settings(&b, 0, "", &without);
    double by_cutting = lab_distance(&with, &cut), by_units = lab_distance(&with, &without);
    if (by_cutting == 0 || by_cutting > 2e-4) fail_msg("a cut tile: %g", by_cutting);
    if (by_units == 0 || by_units > 2e-4) fail_msg("units: %g", by_units);
    lab_result_close(&with);
    lab_result_close(&cut);
    lab_result_close(&without);
}

/* By hand: after each call that ends a unit the sums are those of the units before it, each from zero. */
static void sums_are_of_whole_units(void **state) {
    (void)state;
    enum { OF = 97 * 32 };
    static const char name[] = "transformer.wte.weight";
    float *expected = calloc(OF, sizeof *expected);
    lab l;
    plan p;
    exec *e;
    lab_open(&l, &four);
    compose_choice c = lab_choose(&l, 0, "");
    assert_int_equal(compose_plan(&l.run, &c, &p), STATUS_OK);
    char of_units[96];
    snprintf(of_units, sizeof of_units, "units.%s", name);
    for (int64_t first = 0; first < 24; first += 8) { /* of each unit alone, in a run that has just begun */
        assert_int_equal(exec_open(&p, EXEC_OBSERVE, &e), STATUS_OK);
        lab_fill_weights(&l, &p, e);
        lab_hand_in(&l, e, "unit", 0, first, 8);
        exec_run(e, plan_call_of(&p, TASK_TRAIN, 0).program);
        const float *sum = exec_persistent(e, of_units);
        for (int i = 0; i < OF; i++) expected[i] = expected[i] + sum[i];
        exec_close(e);
    }
    assert_int_equal(exec_open(&p, EXEC_OBSERVE, &e), STATUS_OK);
    lab_fill_weights(&l, &p, e);
    for (int64_t first = 0; first < 24; first += 8) {
        lab_hand_in(&l, e, "unit", 0, first, 8);
        exec_run(e, plan_call_of(&p, TASK_TRAIN, first / 8).program);
    }
    assert_memory_equal(exec_persistent(e, of_units), expected, OF * sizeof *expected);
    exec_close(e);
    plan_close(&p);
    free(expected);
}

/* Which program runs when. */
static void calls_follow_the_units(void **state) {
    (void)state;
    static const char *const order[] = { "accumulate", "unit", "accumulate", "unit",
                                         "accumulate", "unit", "accumulate", "step" };
    lab l;
    plan p;
    lab_open(&l, &four);
    compose_choice c = lab_choose(&l, 4, "accumulate=defer");
    assert_int_equal(compose_plan(&l.run, &c, &p), STATUS_OK);
    assert_int_equal(plan_calls(&p, TASK_TRAIN), 8);
    for (int64_t k = 0; k < 8; k++) {
        plan_call call = plan_call_of(&p, TASK_TRAIN, k);
        assert_string_equal(p.programs[call.program].program.shape.name, order[k]);
        assert_int_equal(call.first, 4 * k);
    }
    plan_close(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_follow_the_units), cmocka_unit_test(sums_are_of_whole_units),
        cmocka_unit_test(cut_and_uncut),          cmocka_unit_test(untied_and_unclipped),
        cmocka_unit_test(what_is_not_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
