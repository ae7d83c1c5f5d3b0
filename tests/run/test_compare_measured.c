/* A row of a comparison says that its bytes were the planned ones only where those of every category were.
 * What training measures is changed on its way here (test_compare_measured.wrap). */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compare/compare.h"
#include "io/scratch.h"

static int changed = -1; /* the category of which another number of bytes is measured; -1: of none */

status __real_train_run(const setup *s, const decision *d, resume *from, const train_observer *o,
                        train_result *r);
status __wrap_train_run(const setup *s, const decision *d, resume *from, const train_observer *o,
                        train_result *r);
status __wrap_train_run(const setup *s, const decision *d, resume *from, const train_observer *o,
                        train_result *r) {
    status result = __real_train_run(s, d, from, o, r);
    if (changed >= 0) r->memory.by_category[changed]++;
    return result;
}

static bool as_planned(int measured) {
    setup s;
    setup_options o = setup_defaults();
    const compare_row plain = { .point = { .choice = { .micro_batch = 1 } } };
    compare_measured m = { 0 };
    o.model = "config.json", o.batch = 1, o.threads = 1, o.steps = 1;
    if (setup_open(&o, NULL, &s) != STATUS_OK) fail_msg("%s", status_message());
    changed = measured;
    if (compare_run(&s, &plain, &(train_observer){ 0 }, &m) != STATUS_OK) fail_msg("%s", status_message());
    assert_true(m.done);
    assert_int_equal(m.steps, 1);
    setup_close(&s);
    return m.planned;
}

static void every_category_counts(void **state) {
    (void)state;
    static const char config[] = "{\"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 1, \"n_embd\": 4, "
                                 "\"n_positions\": 8, \"vocab_size\": 8}\n";
    scratch_write("config.json", config, sizeof config - 1);
    assert_true(as_planned(-1));
    for (int c = 0; c < CATEGORY_COUNT; c++) assert_int_equal(as_planned(c), c == CATEGORY_RUNTIME);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_category_counts) };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
