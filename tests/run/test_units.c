/* Units of samples: the sums of each begin at zero and are added in the order of samples. Cut into
 * micro-batches of whole row tiles, beside every technique, a run has the same bits; and bytes are as
 * planned.
 */
#include <math.h>
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

/* ---- validation alone ---- */

/* Of so many samples in units of 4, two calls each, by so many ranks. */
static double seconds_of_validation(int64_t samples, int64_t ranks) {
    lab l;
    plan p;
    lab_open(&l, &four);
    l.run.training = false, l.run.unit = 4, l.run.ranks = ranks;
    l.run.eval_batch = 2, l.run.eval_samples = samples;
    compose_choice c = lab_choose(&l, 0, "");
    assert_int_equal(compose_plan(&l.run, &c, &p), STATUS_OK);
    double seconds = compose_seconds(&l.run, &p);
    assert_true(compose_waiting(&l.run, &p) == 0);
    plan_close(&p);
    return seconds;
}

/* Ranks have units in turn: a validation takes what the first of them has. What fills no call all run once,
 * whoever has its unit. */
static void validation_is_divided(void **state) {
    (void)state;
    double unit = seconds_of_validation(4, 1), call = unit / 2, rest = seconds_of_validation(5, 1) - unit;
    static const struct {
        int64_t samples, ranks;
        int calls, rests; /* of rank 0 */
    } cases[] = { { 24, 1, 12, 0 }, { 24, 2, 6, 0 }, { 24, 3, 4, 0 }, { 24, 4, 4, 0 }, { 24, 8, 2, 0 },
                  { 22, 1, 11, 0 }, { 22, 2, 6, 0 }, { 22, 5, 3, 0 }, { 21, 5, 2, 1 }, { 23, 5, 3, 1 },
                  { 23, 2, 6, 1 },  { 1, 2, 0, 1 },  { 4, 100, 2, 0 } };
    assert_true(unit > 0 && rest > 0 && rest < call);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double is = seconds_of_validation(cases[i].samples, cases[i].ranks),
               meant = cases[i].calls * call + cases[i].rests * rest;
        if (fabs(is - meant) > 1e-9 * meant)
            fail_msg("%d samples, %d ranks: %g s, not %g", (int)cases[i].samples, (int)cases[i].ranks, is,
                     meant);
    }
}

/* A step is what it computes and what it waits for; the faster the link, the less it waits. */
static void waiting_is_a_part_of_the_step(void **state) {
    (void)state;
    double before = 0;
    for (int k = 0; k < 3; k++) {
        lab l;
        plan p;
        lab_open(&l, &four);
        l.run.ranks = 2;
        l.run.lower.rates.links =
            (links){ .of = { [LINK_WITHIN] = { 1e-4, 1e10 / pow(100, k), 0, 0 } }, .ranks = 2, .of_host = 2 };
        compose_choice c = lab_choose(&l, 8, "sharding=copies");
        assert_int_equal(compose_plan(&l.run, &c, &p), STATUS_OK);
        double computing = 0, waiting = compose_waiting(&l.run, &p);
        for (uint32_t i = 0; i < p.program_count; i++) {
            const program *x = &p.programs[i].program;
            if (x->shape.task == TASK_TRAIN) computing += (double)x->shape.calls * x->computing;
        }
        double all = compose_seconds(&l.run, &p);
        assert_true(waiting > before && fabs(all - waiting - computing) < 1e-9 * all);
        before = waiting;
        plan_close(&p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiting_is_a_part_of_the_step),
        cmocka_unit_test(validation_is_divided),
        cmocka_unit_test(calls_follow_the_units),
        cmocka_unit_test(sums_are_of_whole_units),
        cmocka_unit_test(cut_and_uncut),
        cmocka_unit_test(untied_and_unclipped),
        cmocka_unit_test(what_is_not_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
