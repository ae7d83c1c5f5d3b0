/* PEFT's adapters in recorded steps. Whole models with them are compared by
 * bench/estimate/recorded_settings.py and recorded_plans.py. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "estimate/recorded_played.h"

static void adapters_freeze_all_else(void **state) {
    torch_settings s = plain();
    (void)state;
    s.adapter_rank = 4, s.update_by_rule = true;
    torch_result out = played(&golden, &s);
    /* 3 blocks, each with 32 -> 128 and 128 -> 32 */
    uint64_t trained = 3 * 2 * 4 * (32 + 128);
    assert_int_equal(out.trained, trained);
    assert_int_equal(out.state, 8 * trained);
    assert_int_equal(out.parameters, 28498 + trained);
    s.adapter_targets = "up";
    assert_int_equal(played(&golden, &s).trained, trained / 2);
}

/* As PyTorch counts them of the step of PEFT's own model (tools/record_step.py), but for counters of the
 * update, and scales of dropout. Gradients that are views are added up anew, and what a module was given is
 * there until its adapter is done, as is the f32 copy that PEFT makes of it. */
static void adapters_take_what_is_counted(void **state) {
    static const struct {
        int64_t batch;
        double dropout;
        uint64_t wide, autocast;
    } counted[] = { { 2, 0, 799656, 595882 },
                    { 5, 0, 1755048, 1176490 },
                    { 2, 0.1, 995756, 874144 },
                    { 5, 0.1, 2249132, 1872544 } };
    (void)state;
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++) {
        torch_settings s = plain();
        s.batch = s.step = counted[i].batch;
        s.adapter_rank = 4, s.update_by_rule = true, s.adapter_dropout = counted[i].dropout;
        assert_in_range(peak_of(&golden, &s), counted[i].wide - 128, counted[i].wide);
        s.types = TORCH_AUTOCAST;
        assert_in_range(peak_of(&golden, &s), counted[i].autocast - 128, counted[i].autocast);
    }
}

/* Recorded under autocast: copies of what is frozen go with their calls there too, adapters are given what
 * the module was, and what products have within themselves is theirs alone. */
static void from_autocast_it_is_the_same(void **state) {
    static const char *const paths[][2] = { { STEP("blocks"), STEP("autocast") },
                                            { STEP("masked"), STEP("masked_autocast") } };
    (void)state;
    for (size_t i = 0; i < 2 * sizeof paths / sizeof *paths; i++) {
        recording r[2];
        uint64_t peaks[2];
        for (size_t k = 0; k < 2; k++) {
            torch_settings s = plain();
            s.adapter_rank = 4, s.update_by_rule = true, s.types = TORCH_AUTOCAST;
            if (i / 2) s.adapter_targets = "given,out";
            s.batch = s.step = i % 2 ? 5 : 2;
            assert_int_equal(recording_read(paths[i / 2][k], &r[k]), STATUS_OK);
            peaks[k] = peak_of(&r[k], &s);
            recording_close(&r[k]);
        }
        assert_in_range(peaks[1], peaks[0] - 128, peaks[0] + 1024);
    }
}

/* Beside attention whose first products are given what nothing trained has made: autocast's copies of their
 * weights are for one call, and go with it. */
static void adapters_beside_attention_take_what_is_counted(void **state) {
    static const uint64_t counted[][3] = { { 2, 1254152, 1350912 }, { 5, 2937608, 3017472 } };
    recording r;
    (void)state;
    assert_int_equal(recording_read(STEP("masked"), &r), STATUS_OK);
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++) {
        torch_settings s = plain();
        s.batch = s.step = (int64_t)counted[i][0];
        s.adapter_rank = 4, s.adapter_targets = "given,out", s.update_by_rule = true;
        assert_in_range(peak_of(&r, &s), counted[i][1] - 128, counted[i][1]);
        s.types = TORCH_AUTOCAST;
        assert_in_range(peak_of(&r, &s), counted[i][2] - 128, counted[i][2]);
    }
    recording_close(&r);
}

/* Of one sample the gradient of what is added to all, which is not trained, is that of the blocks' input. */
static void gradients_that_are_handed_on_stay(void **state) {
    recording r;
    torch_settings s = plain();
    (void)state;
    assert_int_equal(recording_read(STEP("placed"), &r), STATUS_OK);
    s.batch = s.step = 1;
    assert_int_equal(peak_of(&r, &s), 667268);
    s.adapter_rank = 4, s.update_by_rule = true;
    assert_in_range(peak_of(&r, &s), 489640 - 128, 489640);
    recording_close(&r);
}

static void adapters_have_a_module(void **state) {
    torch_settings s = plain();
    torch_result out;
    (void)state;
    s.adapter_rank = 4, s.adapter_targets = "q_proj";
    assert_int_equal(recorded_play(&golden, &s, &out), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "the blocks of Model have up, down"));
}

/* Both settings together, as a recording of a model that PEFT adapted is played. */
static void adapters_are_computed_again(void **state) {
    torch_settings s = plain();
    (void)state;
    s.adapter_rank = 4, s.update_by_rule = true;
    uint64_t kept = peak_of(&golden, &s);
    s.checkpointing = true;
    torch_result out = played(&golden, &s);
    assert_true(out.live.likely < kept);
    assert_true(out.by_term[TAPE_ACTIVATIONS] > 0);
}

/* A half byte and its scales; the weights are there whole for one product after the other. */
static void coded_weights_are_fewer_bytes(void **state) {
    torch_settings s = plain();
    (void)state;
    s.adapter_rank = 4, s.update_by_rule = true;
    torch_result whole = played(&golden, &s);
    s.base_bits = 4;
    torch_result coded = played(&golden, &s);
    assert_int_equal(coded.parameters, whole.parameters);
    uint64_t matrices = 6 * 4096, codes = 6 * (uint64_t)(4096 * (0.5 + 1.0 / 64 + 4.0 / (64 * 256)));
    assert_int_equal(whole.by_term[TAPE_WEIGHTS] - coded.by_term[TAPE_WEIGHTS], 4 * matrices - codes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adapters_freeze_all_else),
        cmocka_unit_test(adapters_take_what_is_counted),
        cmocka_unit_test(from_autocast_it_is_the_same),
        cmocka_unit_test(adapters_beside_attention_take_what_is_counted),
        cmocka_unit_test(gradients_that_are_handed_on_stay),
        cmocka_unit_test(adapters_have_a_module),
        cmocka_unit_test(adapters_are_computed_again),
        cmocka_unit_test(coded_weights_are_fewer_bytes),
    };
    return cmocka_run_group_tests(tests, open_golden, close_golden);
}
