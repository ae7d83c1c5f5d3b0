/* What a profile is made of: the step that it tells of is the one in the middle, and what can't be begun is
 * said. Threads are started through here (test_profiling.wrap). */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "io/scratch.h"
#include "run/decision.h"
#include "run/made_up.h"
#include "train/evaluate.h"
#include "train/profile.h"
#include "train/train_report.h"

static bool no_threads;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*body)(void *), void *context);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*body)(void *), void *context);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*body)(void *),
                          void *context) {
    return no_threads ? EAGAIN : __real_pthread_create(thread, how, body, context);
}

static setup s;
static decision d;

static int open_small(void **state) {
    static const char config[] = "{\"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 1, \"n_embd\": 4, "
                                 "\"n_positions\": 8, \"vocab_size\": 8}\n";
    setup_options o = setup_defaults();
    if (scratch_open(state) != 0) return -1;
    scratch_write("config.json", config, sizeof config - 1);
    o.model = "config.json", o.batch = 1, o.threads = 1, o.workers = 1;
    if (setup_open(&o, NULL, &s) != STATUS_OK || decision_make(&s, &d) != STATUS_OK) return -1;
    return made_up_train(&s) == STATUS_OK ? 0 : -1;
}

static int close_small(void **state) {
    decision_close(&d);
    setup_close(&s);
    return scratch_close(state);
}

static double seconds_of(const profile_result *r, int64_t i) { return r->step[i].end - r->step[i].begin; }

/* Of an even number of steps the faster one in the middle. */
static void the_step_in_the_middle_is_shown(void **state) {
    (void)state;
    for (int64_t steps = 1; steps <= 9; steps++) {
        profile_result r;
        if (profile_run(&s, &d, steps, true, NULL, &r) != STATUS_OK) fail_msg("%s", status_message());
        assert_int_equal(r.steps, steps);
        int64_t faster = 0, slower = 0, middle = (steps - 1) / 2;
        for (int64_t i = 0; i < steps; i++) {
            faster += seconds_of(&r, i) < seconds_of(&r, r.shown);
            slower += seconds_of(&r, i) > seconds_of(&r, r.shown);
        }
        assert_in_range(faster, 0, middle);
        assert_in_range(slower, 0, steps - 1 - middle);
        assert_true(r.run.step_seconds == seconds_of(&r, r.shown));
        profile_close(&r);
    }
}

/* Data is read by a thread of its own; nothing is run without it. */
static void without_a_thread_nothing_is_profiled(void **state) {
    (void)state;
    profile_result r;
    no_threads = true;
    status result = profile_run(&s, &d, 3, true, NULL, &r);
    no_threads = false;
    assert_int_equal(result, STATUS_FAILED);
    assert_non_null(strstr(status_message(), "cannot start data worker"));
    assert_int_equal(r.steps, 0);
    profile_close(&r);
}

/* What can only be planned is refused for that, and not for its weights, which nobody could bring. */
static void what_does_not_compute_is_not_evaluated(void **state) {
    (void)state;
    evaluate_result r;
    setup other = s;
    other.model.untrained = "it stands for its sizes";
    assert_int_equal(evaluate_run(&other, &d, NULL, &r), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "it stands for its sizes"));
}

/* Without the weights that the run begins with there is no profile of it. */
static void without_its_weights_nothing_is_profiled(void **state) {
    (void)state;
    profile_result r;
    setup other = s;
    other.weights = "nowhere";
    assert_int_equal(profile_run(&other, &d, 3, true, NULL, &r), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "nowhere"));
    assert_int_equal(r.steps, 0);
    profile_close(&r);
}

/* Of a step that took no time that the clock can tell no share of anything is known. */
static void no_time_has_no_rate(void **state) {
    (void)state;
    train_progress p = { .step = 2, .seconds = 0 };
    train_report_step(&s, &d, 0.5, 0, 1, &p);
    assert_true(p.peak_share == 0);
    assert_true(isnan(p.tokens_per_second));
    p.seconds = 2;
    train_report_step(&s, &d, 0.5, 0, 1, &p);
    assert_true(p.peak_share == 0.25);
    assert_true(p.tokens_per_second == 4);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(the_step_in_the_middle_is_shown),
                                        cmocka_unit_test(without_a_thread_nothing_is_profiled),
                                        cmocka_unit_test(what_does_not_compute_is_not_evaluated),
                                        cmocka_unit_test(without_its_weights_nothing_is_profiled),
                                        cmocka_unit_test(no_time_has_no_rate) };
    return cmocka_run_group_tests(tests, open_small, close_small);
}
