/* The pool: every tile once, whatever the number of threads, tiles and callers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include <cmocka.h>

#include "base/threads.h"

enum { MOST = 1000 };

typedef struct {
    _Atomic int times[MOST];
    _Atomic int strangers; /* threads outside of 0 .. count-1 */
} tally;

static void count(void *context, int64_t tile, int thread) {
    tally *t = context;
    atomic_fetch_add(&t->times[tile], 1);
    if (thread < 0 || thread >= threads_count()) atomic_fetch_add(&t->strangers, 1);
}

static void check(const tally *t, int64_t tiles) {
    for (int64_t i = 0; i < MOST; i++) assert_int_equal(t->times[i], i < tiles);
    assert_int_equal(t->strangers, 0);
}

static void every_tile_once(void **state) {
    (void)state;
    static tally t;
    for (int round = 0; round < 3000; round++) {
        int64_t tiles = round * 7 % 40;
        threads_set(1 + round / 3 % 5);
        memset(&t, 0, sizeof t);
        threads_for(tiles, count, &t);
        check(&t, tiles);
    }
}

static void nest(void *context, int64_t tile, int thread) {
    (void)thread;
    if (tile == 3) threads_for(50, count, context);
}

static void a_call_within_a_tile_works_alone(void **state) {
    (void)state;
    static tally t;
    threads_set(3);
    memset(&t, 0, sizeof t);
    threads_for(9, nest, &t);
    check(&t, 50);
}

static void *call_often(void *context) {
    for (int i = 0; i < 500; i++) {
        memset(context, 0, sizeof(tally));
        threads_for(20, count, context);
        check(context, 20);
    }
    return NULL;
}

static void two_callers_do_not_meet(void **state) {
    (void)state;
    static tally mine, other;
    pthread_t thread;
    threads_set(3);
    assert_int_equal(pthread_create(&thread, NULL, call_often, &other), 0);
    call_often(&mine);
    pthread_join(thread, NULL);
    threads_set(1);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_tile_once),
                                        cmocka_unit_test(a_call_within_a_tile_works_alone),
                                        cmocka_unit_test(two_callers_do_not_meet) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
