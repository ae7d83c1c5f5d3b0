#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mailbox.h"
#include "base/patience.h"

typedef struct {
    double number;
    int64_t order;
} item;

typedef struct {
    _Atomic int64_t handled, gatherings, wrong;
    atomic_bool stuck; /* the handler waits while it is set */
} reader;

static void handle(void *context, const void *what, bool more) {
    reader *r = context;
    const item *i = what;
    while (r->stuck) usleep(1000);
    r->wrong += i->order != r->handled || i->number != (double)i->order / 3;
    r->handled++;
    r->gatherings += !more;
}

static mailbox *open_for(reader *r, uint32_t room, double linger) {
    mailbox *m;
    mailbox_options o = {
        .item_bytes = sizeof(item), .room = room, .linger_seconds = linger, .handle = handle, .context = r
    };
    assert_int_equal(mailbox_open(&o, &m), STATUS_OK);
    return m;
}

static bool put(mailbox *m, int64_t order, bool wait) {
    return mailbox_put(m, &(item){ .order = order, .number = (double)order / 3 }, wait);
}

static void everything_arrives_in_its_order(void **state) {
    (void)state;
    static const uint32_t rooms[] = { 1, 2, 7, 256 };
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
        reader r = { 0 };
        mailbox *m = open_for(&r, rooms[i], 0.001);
        for (int64_t k = 0; k < 3000; k++) assert_true(put(m, k, true));
        mailbox_drain(m);
        assert_int_equal(r.handled, 3000);
        for (int64_t k = 3000; k < 3010; k++) put(m, k, true);
        mailbox_close(m); /* drains as well */
        assert_int_equal(r.handled, 3010);
        assert_int_equal(r.wrong, 0);
    }
}

static void a_stuck_reader_costs_items_and_no_time(void **state) {
    (void)state;
    reader r = { .stuck = true };
    mailbox *m = open_for(&r, 16, 0);
    double begin = clock_seconds();
    int64_t taken = 0;
    for (int64_t k = 0; k < 100000; k++) taken += put(m, taken, false);
    assert_true(clock_seconds() - begin < 2);
    assert_int_equal(taken, 16);
    r.stuck = false;
    mailbox_close(m);
    assert_int_equal(r.handled, 16);
    assert_int_equal(r.wrong, 0);
}

static void it_gathers(void **state) {
    (void)state;
    reader r = { 0 };
    mailbox *m = open_for(&r, 100, 0.3);
    for (int64_t k = 0; k < 40; k++) put(m, k, false);
    usleep(20000);
    assert_int_equal(r.handled, 0); /* it lingers */
    for (int64_t k = 40; k < 50; k++) put(m, k, false);
    double begin = clock_seconds(); /* half of the room: at once */
    while (r.handled < 50 && clock_seconds() - begin < 5) usleep(1000);
    assert_true(clock_seconds() - begin < 0.2);
    assert_int_equal(r.handled, 50);
    assert_int_equal(r.gatherings, 1);
    put(m, 50, false);
    begin = clock_seconds();
    mailbox_drain(m); /* does not linger */
    assert_true(clock_seconds() - begin < 0.2);
    mailbox_close(m);
    assert_int_equal(r.handled, 51);
}

/* Several threads put, one of them drains now and then. */
typedef struct {
    mailbox *m;
    int number;
} sender;

static void add_up(void *context, const void *what, bool more) {
    const item *i = what;
    reader *r = context;
    r->handled += i->order;
    r->gatherings += !more;
}

static void *send_all(void *context) {
    const sender *s = context;
    for (int64_t k = 0; k < 2000; k++) {
        mailbox_put(s->m, &(item){ .order = 1 }, true);
        if (s->number == 0 && k % 100 == 0) mailbox_drain(s->m);
    }
    return NULL;
}

static void several_may_put(void **state) {
    (void)state;
    enum { SENDERS = 3 };
    reader r = { 0 };
    mailbox *m;
    mailbox_options o = {
        .item_bytes = sizeof(item), .room = 8, .linger_seconds = 0.0005, .handle = add_up, .context = &r
    };
    pthread_t threads[SENDERS];
    sender senders[SENDERS];
    patience("a mailbox with several senders", 120);
    assert_int_equal(mailbox_open(&o, &m), STATUS_OK);
    for (int i = 0; i < SENDERS; i++) {
        senders[i] = (sender){ m, i };
        assert_int_equal(pthread_create(&threads[i], NULL, send_all, &senders[i]), 0);
    }
    for (int i = 0; i < SENDERS; i++) pthread_join(threads[i], NULL);
    mailbox_close(m);
    assert_int_equal(r.handled, SENDERS * 2000);
    patience("", 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_arrives_in_its_order),
        cmocka_unit_test(a_stuck_reader_costs_items_and_no_time),
        cmocka_unit_test(it_gathers),
        cmocka_unit_test(several_may_put),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
