#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/units.h"

static void sizes_are_read(void **state) {
    (void)state;
    uint64_t bytes = 0;
    assert_int_equal(units_parse_bytes("4GiB", "--memory", &bytes), STATUS_OK);
    assert_true(bytes == 4294967296u);
    assert_int_equal(units_parse_bytes("1.5KiB", "--memory", &bytes), STATUS_OK);
    assert_true(bytes == 1536);
    assert_int_equal(units_parse_bytes("4GB", "--memory", &bytes), STATUS_INVALID);
    assert_int_equal(units_parse_bytes("-1", "--memory", &bytes), STATUS_INVALID);
    assert_int_equal(units_parse_bytes("", "--memory", &bytes), STATUS_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(sizes_are_read) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
