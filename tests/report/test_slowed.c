/* What is said where steps get slower: from when to when, and what it may come from where it can be known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "report/report.h"

static void says(const pace_fall *fall, bool apart, const char *line) {
    text out = { 0 };
    report_slowed(&out, 240, fall, apart);
    assert_string_equal(out.data, line);
    text_close(&out);
}

static void each_has_its_reason(void **state) {
    (void)state;
    pace_fall fall = { .now = 0.25, .before = 0.125, .before_at = 60, .share = 0.475 };
    says(&fall, false,
         "step 240  a step takes 250.0 ms, where it took 125.0 ms at step 60: other work left 48 % of the "
         "processors asked for\n");
    fall.share = 0.95;
    says(&fall, false,
         "step 240  a step takes 250.0 ms, where it took 125.0 ms at step 60: the clock fell, or others use "
         "the "
         "memory\n");
    fall.share = 1;
    says(&fall, true,
         "step 240  a step takes 250.0 ms, where it took 125.0 ms at step 60: `nvidia-smi -q -d PERFORMANCE` "
         "tells whether the GPU's clock fell, and why\n");
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(each_has_its_reason) };
    return cmocka_run_group_tests_name("slowed", tests, NULL, NULL);
}
