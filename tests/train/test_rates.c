/* Rates that are kept: what was stored is found again, by this machine and build only, and what is damaged is
 * passed over with a sentence. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/memory.h"
#include "io/file.h"
#include "io/scratch.h"
#include "train/rates.h"

static void must(status result) {
    if (result != STATUS_OK) fail_msg("%s", status_message());
}

static rates_measured invented(void) {
    rates_measured m = { .count = 2, .threads = { 1, 5 } };
    for (int i = 0; i < 2; i++) {
        m.rates[i] = device_rates_default(1);
        for (int k = 0; k < WORK_KINDS; k++) m.rates[i].flops[k] = (1 + i * 4) * 1.25e9 * (k + 1);
        m.rates[i].bandwidth = (1 + i) * 3e9;
    }
    return m;
}

static void forget(void) {
    char path[RATES_PATH_BYTES];
    must(rates_path(path));
    unlink(path);
}

static void what_was_stored_is_found(void **state) {
    (void)state;
    rates_measured m = invented();
    must(rates_store(&m));
    for (int i = 0; i < 2; i++) {
        device_rates r = rates_find(m.threads[i]);
        assert_memory_equal(r.flops, m.rates[i].flops, sizeof r.flops);
        assert_true(r.bandwidth == m.rates[i].bandwidth && r.moved == m.rates[i].moved);
        assert_true(r.draws == m.rates[i].draws && r.cached == m.rates[i].cached);
        assert_true(r.cache_bytes == m.rates[i].cache_bytes && r.call_seconds == m.rates[i].call_seconds);
        assert_string_equal(r.source, "measurement of this machine");
        assert_true(r.scale == 1);
    }
    assert_true(rates_find(3).bandwidth == 4.5e9); /* in between */
    assert_true(rates_find(99).bandwidth == 6e9);  /* the nearest */
    must(rates_store_scale(2, 1, &m.rates[0]));    /* knows less, and is not noted */
    assert_true(rates_find(1).scale == 1);
    forget();
}

static void a_run_scales_the_table(void **state) {
    (void)state;
    device_rates before = rates_find(2);
    assert_true(before.scale == 1 && strncmp(before.source, "built-in table", 14) == 0);
    must(rates_store_scale(3, 2, &before));
    device_rates r = rates_find(2);
    assert_true(r.scale == 1.5);
    assert_non_null(strstr(r.source, "times 1.50 as a run took here"));
    must(rates_store_scale(2, 2, &r)); /* predicted with the factor, and right */
    assert_true(rates_find(2).scale == 1.5);
    must(rates_store_scale(1, 2, &r));
    assert_true(rates_find(2).scale == 0.75);
    r = rates_find(2);
    must(rates_store_scale(5, 1, &r)); /* twice the machine's own time and more: it does other work */
    assert_true(rates_find(2).scale == 0.75 + (3.75 - 0.75) / 4);
    forget();
}

/* `bytes` as the file of this machine: the table is used, and says why. */
static void expect_passed_over(const char *bytes, size_t count) {
    char path[RATES_PATH_BYTES];
    must(rates_path(path));
    must(io_write_file(path, bytes, count));
    device_rates r = rates_find(2), table = device_rates_default(2);
    assert_memory_equal(r.flops, table.flops, sizeof r.flops);
    if (!strstr(r.source, "built-in table") || !strstr(r.source, "passed over")) fail_msg("%s", r.source);
}

static void damage_is_passed_over(void **state) {
    (void)state;
    char path[RATES_PATH_BYTES], *data, *place;
    uint64_t bytes;
    rates_measured m = invented();
    must(rates_store(&m));
    must(rates_path(path));
    must(io_read_file(path, 1 << 16, &data, &bytes));
    for (size_t cut = 0; cut + 2 < bytes; cut += 37) expect_passed_over(data, cut);
    static const char *const wrong[][2] = { { "\"bandwidth\": ", "\"bandwidth\":-" },
                                            { "\"threads\": 5", "\"threads\": 1" },
                                            { "\"draws\"", "\"drafs\"" },
                                            { "usable; rates", "usable; notes" } /* another build */ };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char *copy = strndup(data, bytes);
        assert_non_null(place = strstr(copy, wrong[i][0]));
        memcpy(place, wrong[i][1], strlen(wrong[i][1]));
        expect_passed_over(copy, bytes);
        free(copy);
    }
    memory_free(data);
    must(rates_store(&m)); /* measuring again repairs it */
    assert_string_equal(rates_find(1).source, "measurement of this machine");
    forget();
}

static void the_key_names_the_machine(void **state) {
    (void)state;
    char path[RATES_PATH_BYTES];
    must(rates_path(path));
    assert_true(strncmp(path, scratch_path, strlen(scratch_path)) == 0);
    assert_non_null(strstr(path, "/snug/rates-"));
    setenv("XDG_CACHE_HOME", "not/absolute", 1); /* to be ignored */
    setenv("HOME", "/home/somebody", 1);
    must(rates_path(path));
    assert_true(strncmp(path, "/home/somebody/.cache/snug/rates-", 33) == 0);
    unsetenv("HOME");
    assert_int_equal(rates_path(path), STATUS_INVALID);
    assert_true(strncmp(rates_find(2).source, "built-in table", 14) == 0);
    setenv("XDG_CACHE_HOME", scratch_path, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_stored_is_found),
        cmocka_unit_test(a_run_scales_the_table),
        cmocka_unit_test(damage_is_passed_over),
        cmocka_unit_test(the_key_names_the_machine),
    };
    return cmocka_run_group_tests_name("rates", tests, scratch_open, scratch_close);
}
