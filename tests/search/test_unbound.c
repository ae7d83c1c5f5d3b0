/* A budget that plain training on a GPU fits into gives the front without one, and looks at no more
 * candidates.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "device/device_gpu.h"
#include "run/setup.h"

static const device_gpu gpu = { .name = "one",
                                .capability = 90,
                                .multiprocessors = 100,
                                .memory = (uint64_t)1 << 33,
                                .context = { 1 << 20, 2 << 20, 3 << 20 },
                                .f32 = 1e13,
                                .bandwidth = 1e12 };

static void must(status result) {
    if (result != STATUS_OK) fail_msg("%s", status_message());
}

static search_front front_within(const setup *s, uint64_t budget) {
    search_front f;
    must(search_run(&s->request, &(search_wish){ .budget = budget, .plain = true }, &f));
    return f;
}

static void assert_same(const search_front *a, const search_front *b) {
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->plain.peak_bytes, b->plain.peak_bytes);
    for (uint32_t i = 0; i < a->count; i++) {
        assert_int_equal(a->points[i].peak_bytes, b->points[i].peak_bytes);
        assert_memory_equal(&a->points[i].seconds, &b->points[i].seconds, sizeof(double));
    }
}

static void what_plain_fits_into_binds_nothing(void **state) {
    (void)state;
    device_elsewhere at;
    setup s;
    setup_options o = setup_defaults();
    if (device_elsewhere_plan(&gpu, &at) != STATUS_OK) skip(); /* no C++ compiler */
    o.model = "char-small", o.on = &at.device, o.batch = 8, o.context = 64, o.rates = RATES_BUILT_IN;
    must(setup_open(&o, NULL, &s));
    search_front free = front_within(&s, UINT64_MAX), just = front_within(&s, free.plain.peak_bytes),
                 bound = front_within(&s, free.plain.peak_bytes - 1);
    assert_same(&free, &just);
    assert_int_equal(just.outlined, free.outlined);
    assert_true(bound.outlined > free.outlined);
    assert_true(bound.points[bound.count - 1].peak_bytes < free.plain.peak_bytes);
    assert_int_equal(search_least(&bound), search_least(&free));
    search_close(&free);
    search_close(&just);
    search_close(&bound);
    setup_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(what_plain_fits_into_binds_nothing) };
    return cmocka_run_group_tests_name("budgets that bind nothing", tests, NULL, NULL);
}
