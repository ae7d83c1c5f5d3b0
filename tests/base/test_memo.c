/* What is kept by a key: found again, once for each key, from several threads, and no more than there is
 * room. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <string.h>

#include "base/memo.h"
#include "base/threads.h"

enum { KEYS = 5000 }; /* several in each chain */

static size_t key_of(int64_t i, char key[32]) { return (size_t)snprintf(key, 32, "key %lld", (long long)i); }

static void keep(memo *m, int64_t i) {
    char key[32];
    size_t length = key_of(i, key);
    memo_keep(m, key, length, &i, sizeof i);
}

/* -1: nothing. */
static int64_t find(memo *m, int64_t i) {
    char key[32];
    size_t length = key_of(i, key), bytes = 0;
    const int64_t *value = memo_find(m, key, length, &bytes);
    assert_true(!value || bytes == sizeof i);
    return value ? *value : -1;
}

static void keys_are_found_again(void **state) {
    (void)state;
    memo *m = memo_open(1 << 20);
    assert_non_null(m);
    assert_int_equal(find(m, 0), -1);
    assert_int_equal(memo_bytes(m), 0);
    for (int64_t i = 0; i < KEYS; i++) keep(m, i);
    for (int64_t i = 0; i < KEYS; i++) assert_int_equal(find(m, i), i);
    assert_int_equal(find(m, KEYS), -1);
    memo_close(m);
    memo_close(NULL);
}

static void the_first_value_stays(void **state) {
    (void)state;
    size_t bytes = 0;
    memo *m = memo_open(1 << 20);
    assert_non_null(m);
    memo_keep(m, "a", 1, "first", 6);
    const char *first = memo_find(m, "a", 1, &bytes);
    memo_keep(m, "a", 1, "second", 7);
    assert_ptr_equal(memo_find(m, "a", 1, &bytes), first);
    assert_string_equal(first, "first");
    assert_int_equal(bytes, 6);
    assert_null(memo_find(m, "ab", 2, &bytes)); /* no key that only begins like it */
    assert_null(memo_find(m, "", 0, &bytes));
    memo_close(m);
}

static void no_more_than_there_is_room(void **state) {
    (void)state;
    static const char large[4096];
    size_t bytes = 0;
    memo *m = memo_open(4096);
    assert_non_null(m);
    memo_keep(m, "large", 5, large, sizeof large);
    assert_null(memo_find(m, "large", 5, &bytes));
    int64_t kept = 0;
    for (int64_t i = 0; i < KEYS; i++) {
        keep(m, i);
        kept += find(m, i) == i;
    }
    assert_true(kept > 10 && kept <= 4096 / (int64_t)sizeof(int64_t));
    assert_true(memo_bytes(m) > (size_t)kept * sizeof(int64_t) && memo_bytes(m) <= 4096);
    assert_int_equal(find(m, 0), 0);
    memo_close(m);
}

static void keep_tile(void *context, int64_t tile, int thread) {
    (void)thread;
    for (int64_t i = 0; i < KEYS; i++)
        if (find(context, i) < 0) keep(context, i);
    assert_int_equal(find(context, tile), tile);
}

static void threads_share_it(void **state) {
    (void)state;
    memo *m = memo_open(1 << 20);
    assert_non_null(m);
    threads_set(4);
    threads_for(16, keep_tile, m);
    for (int64_t i = 0; i < KEYS; i++) assert_int_equal(find(m, i), i);
    memo_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(keys_are_found_again),
                                        cmocka_unit_test(the_first_value_stays),
                                        cmocka_unit_test(no_more_than_there_is_room),
                                        cmocka_unit_test(threads_share_it) };
    return cmocka_run_group_tests_name("memo", tests, NULL, NULL);
}
