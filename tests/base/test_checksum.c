/* The checksum of files is XXH64: its published values, and the same value however the bytes are cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/checksum.h"

static uint64_t of(const void *data, uint64_t bytes) {
    checksum c = checksum_begin();
    checksum_add(&c, data, bytes);
    return checksum_value(&c);
}

/* As xxh64sum prints them. */
static void values_are_those_of_xxh64sum(void **state) {
    (void)state;
    assert_true(of("", 0) == 0xef46db3751d8e999u);
    assert_true(of("a", 1) == 0xd24ec4f1a98c6e5bu);
    assert_true(of("abc", 3) == 0x44bc2cf5ad770999u);
}

static void cuts_do_not_matter(void **state) {
    (void)state;
    unsigned char data[300];
    for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)(i * 37 + i / 5);
    uint64_t whole = of(data, sizeof data);
    for (size_t cut = 0; cut <= sizeof data; cut++) {
        checksum c = checksum_begin();
        checksum_add(&c, data, cut);
        checksum_value(&c); /* asking on the way changes nothing */
        checksum_add(&c, data + cut, sizeof data - cut);
        assert_true(checksum_value(&c) == whole);
    }
    data[299] ^= 1;
    assert_true(of(data, sizeof data) != whole);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(values_are_those_of_xxh64sum),
                                        cmocka_unit_test(cuts_do_not_matter) };
    return cmocka_run_group_tests_name("checksums", tests, NULL, NULL);
}
