/* A plan that is made of somebody else's choice is the plan of whoever has chosen: so one of several ranks
 * searches for all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "run/decision.h"
#include "sanitized.h"

static void same_plan(const plan *a, const plan *b) {
    assert_int_equal(a->peak_bytes, b->peak_bytes);
    assert_int_equal(a->planning_bytes, b->planning_bytes);
    assert_int_equal(a->threads, b->threads);
    assert_memory_equal(a->pools, b->pools, sizeof a->pools);
    assert_memory_equal(a->by_category, b->by_category, sizeof a->by_category);
    assert_int_equal(a->persistent_count, b->persistent_count);
    for (uint32_t i = 0; i < a->persistent_count; i++) {
        assert_string_equal(a->persistent[i].name, b->persistent[i].name);
        assert_int_equal(a->persistent[i].offset, b->persistent[i].offset);
        assert_int_equal(a->persistent[i].bytes, b->persistent[i].bytes);
    }
    assert_int_equal(a->program_count, b->program_count);
    for (uint32_t k = 0; k < a->program_count; k++) {
        const plan_program *x = &a->programs[k], *y = &b->programs[k];
        uint32_t tensors = x->program.graph.tensors.count;
        assert_int_equal(x->program.count, y->program.count);
        assert_int_equal(tensors, y->program.graph.tensors.count);
        assert_memory_equal(x->offset, y->offset, tensors * sizeof *x->offset);
    }
}

static void follow(uint64_t memory) {
    setup_options o = setup_defaults();
    setup s;
    decision d, other;
    o.model = "char-small", o.batch = 8, o.context = 64, o.threads = 1, o.memory = memory;
    if (SANITIZED && memory) o.memory += 1u << 30; /* for themselves */
    o.rates = RATES_BUILT_IN;
    if (setup_open(&o, NULL, &s) != STATUS_OK) fail_msg("%s", status_message());
    if (decision_make(&s, &d) != STATUS_OK) fail_msg("%s", status_message());
    assert_true(d.held_bytes > 0);
    if (decision_follow(&s, &d.point, d.held_bytes, &other) != STATUS_OK) fail_msg("%s", status_message());
    same_plan(&d.plan, &other.plan);
    assert_memory_equal(&d.split, &other.split, sizeof d.split);
    assert_int_equal(d.budget, other.budget);
    decision_close(&other);
    decision_close(&d);
    setup_close(&s);
}

static void who_follows_has_the_same_plan(void **state) {
    (void)state;
    follow(0);
    follow(64 << 20);
    follow(40 << 20);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(who_follows_has_the_same_plan) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
