/* The pool: every tile once, whatever the number of threads, tiles and callers; and where they run. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "../io/scratch.h"
#include "base/patience.h"
#include "base/threads.h"
#include "base/threads_pin.h"

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
    threads_set(3);
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
    patience("two callers of the pool", 120);
    threads_set(3);
    assert_int_equal(pthread_create(&thread, NULL, call_often, &other), 0);
    call_often(&mine);
    pthread_join(thread, NULL);
    threads_set(1);
    patience("", 0);
}

/* One caller's number is no concern of another: scratch is planned for it. */
typedef struct {
    int threads;
    tally t;
    int wrong;
} caller;

static void *call_with_own_number(void *context) {
    caller *c = context;
    for (int i = 0; i < 400; i++) {
        int threads = 1 + (c->threads + i) % 4;
        threads_set(threads);
        memset(&c->t, 0, sizeof c->t);
        threads_for(24, count, &c->t);
        c->wrong += threads_count() != threads || c->t.strangers != 0;
        for (int k = 0; k < 24; k++) c->wrong += c->t.times[k] != 1;
    }
    return NULL;
}

static void each_caller_has_its_own_number(void **state) {
    (void)state;
    enum { CALLERS = 3 };
    static caller callers[CALLERS];
    pthread_t threads[CALLERS];
    patience("callers of the pool with numbers of their own", 120);
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (caller){ .threads = i };
        assert_int_equal(pthread_create(&threads[i], NULL, call_with_own_number, &callers[i]), 0);
    }
    for (int i = 0; i < CALLERS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < CALLERS; i++) assert_int_equal(callers[i].wrong, 0);
    patience("", 0);
}

/* ---- places ---- */

enum { SEEN = 64 };
typedef struct {
    _Atomic int processors[SEEN]; /* that each thread may use, where it ran */
    _Atomic int place[SEEN];
} seen;

static void look(void *context, int64_t tile, int thread) {
    seen *s = context;
    cpu_set_t set;
    (void)tile;
    if (thread >= SEEN || sched_getaffinity(0, sizeof set, &set) != 0) return;
    s->processors[thread] = CPU_COUNT(&set);
    s->place[thread] = sched_getcpu();
    nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL); /* so that others get tiles, too */
}

static int usable(cpu_set_t *set) { return sched_getaffinity(0, sizeof *set, set) == 0 ? CPU_COUNT(set) : 0; }

static void each_on_a_core_of_its_own_and_the_caller_free_again(void **state) {
    (void)state;
    cpu_set_t before, after;
    static seen s;
    int n = usable(&before);
    if (n < 2 || n > SEEN) skip();
    threads_set(n);
    threads_pin();
    assert_int_equal(threads_available() > 1, 1); /* of the process, not of the pinned thread */
    threads_for(40 * n, look, &s);
    threads_unpin();
    for (int i = 0; i < n; i++)
        for (int k = 0; k <= i; k++) {
            if (s.processors[i]) assert_int_equal(s.processors[i], 1);
            if (k < i && s.processors[i] && s.processors[k]) assert_int_not_equal(s.place[i], s.place[k]);
        }
    assert_int_equal(s.processors[0], 1);
    assert_int_equal(usable(&after), n);
    assert_true(CPU_EQUAL(&before, &after));
    threads_pin_allow(false);
    threads_pin();
    threads_pin_allow(true);
    assert_int_equal(usable(&after), n);
    threads_unpin();
    threads_set(1);
}

static void put_core(unsigned cpu, const char *siblings) {
    char path[128];
    mkdir("sys", 0777), mkdir("sys/devices", 0777), mkdir("sys/devices/system", 0777);
    mkdir("sys/devices/system/cpu", 0777);
    snprintf(path, sizeof path, "sys/devices/system/cpu/cpu%u", cpu);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "sys/devices/system/cpu/cpu%u/topology", cpu);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "sys/devices/system/cpu/cpu%u/topology/thread_siblings_list", cpu);
    scratch_write(path, siblings, strlen(siblings));
}

/* Two cores of two processors each: 0 with 2, 1 with 3. */
static void cores_come_before_their_second_processors(void **state) {
    (void)state;
    cpu_set_t mask;
    unsigned cpu[4];
    CPU_ZERO(&mask);
    for (unsigned i = 0; i < 4; i++) {
        CPU_SET(i, &mask);
        put_core(i, i % 2 ? "1,3\n" : "0,2\n");
    }
    assert_true(threads_pin_choose(".", &mask, 2, cpu));
    assert_true(cpu[0] == 0 && cpu[1] == 1);
    assert_true(threads_pin_choose(".", &mask, 3, cpu));
    assert_true(cpu[0] == 0 && cpu[1] == 1 && cpu[2] == 2);
    assert_true(threads_pin_choose(".", &mask, 4, cpu) && cpu[3] == 3);
    assert_false(threads_pin_choose(".", &mask, 5, cpu)); /* more than there are */
    CPU_CLR(0, &mask);
    assert_true(threads_pin_choose(".", &mask, 2, cpu) && cpu[0] == 1 && cpu[1] == 2);
    put_core(3, "3\n");
    assert_false(threads_pin_choose(".", &mask, 2, cpu)); /* a third core is left for others */
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_tile_once),
                                        cmocka_unit_test(a_call_within_a_tile_works_alone),
                                        cmocka_unit_test(two_callers_do_not_meet),
                                        cmocka_unit_test(each_caller_has_its_own_number),
                                        cmocka_unit_test(each_on_a_core_of_its_own_and_the_caller_free_again),
                                        cmocka_unit_test(cores_come_before_their_second_processors) };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
