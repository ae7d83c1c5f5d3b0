/* Every default, as a number that stands here once more: who changes one has to say so twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "run/setup.h"

static void same(double is, double should, const char *what) {
    if (is != should) fail_msg("the default of %s is %.17g, not %.17g", what, is, should);
}

static void defaults_are_these(void **state) {
    (void)state;
    setup_options o = setup_defaults();
    same((double)o.batch, 8, "--batch");
    same((double)o.eval_samples, 64, "--eval-samples");
    same((double)o.steps, 1000, "--steps");
    same((double)o.save_every, 1000, "--save-every");
    same((double)o.keep, 2, "--keep");
    same((double)o.seed, 1337, "--seed");
    same((double)o.workers, 1, "--workers");
    same((double)o.warmup, 20, "--warmup");
    same(o.learning_rate, 0.0006, "--lr");
    same(o.minimum_rate, 0.1, "the least rate");
    same(o.dropout, -1, "--dropout (the model's)");
    same(o.schedule, SCHEDULE_COSINE, "--schedule");
    same(o.optimizer.kind, OPTIMIZER_ADAMW, "--optimizer");
    same(o.optimizer.beta1, OPTIMIZER_OWN, "--beta1 (the optimizer's)");
    same(o.optimizer.beta2, OPTIMIZER_OWN, "--beta2 (the optimizer's)");
    same(o.optimizer.eps, 1e-8, "epsilon");
    same(o.optimizer.momentum, 0, "--momentum");
    same(o.optimizer.weight_decay, 0.1, "--weight-decay");
    same(o.optimizer.clip, 1, "--clip");
}

/* All others are off, absent or left to the planner. */
static void other_defaults_are_nothing(void **state) {
    (void)state;
    setup_options o = setup_defaults();
    assert_null(o.model);
    assert_true(!o.data && !o.eval_data && !o.source && !o.eval_source && !o.allow && !o.folder && !o.out);
    for (int i = 0; i < PASS_MAX; i++) assert_null(o.passes[i]);
    assert_int_equal(o.data_kind, DATA_KIND_AUTO);
    assert_int_equal(o.memory, 0);
    assert_int_equal(o.context, 0);
    assert_int_equal(o.micro_batch | o.accumulate | o.eval_batch | o.eval_every | o.threads, 0);
    assert_false(o.memory_auto || o.eval_only || o.exact || o.resume || o.resume_from || o.overwrite);
}

static void optimizers_settle_to_these(void **state) {
    (void)state;
    static const struct {
        optimizer_kind kind;
        double beta1, beta2;
    } own[] = { { OPTIMIZER_ADAMW, 0.9, 0.95 }, { OPTIMIZER_LION, 0.9, 0.99 } };
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        optimizer_options o = setup_defaults().optimizer;
        o.kind = own[i].kind;
        o = optimizer_settle(o);
        same(o.beta1, own[i].beta1, "beta1");
        same(o.beta2, own[i].beta2, "beta2");
        same(o.weight_decay, 0.1, "weight decay");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_these),
        cmocka_unit_test(other_defaults_are_nothing),
        cmocka_unit_test(optimizers_settle_to_these),
    };
    return cmocka_run_group_tests_name("setup", tests, NULL, NULL);
}
