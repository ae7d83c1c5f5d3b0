#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mailbox.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_arrives_in_its_order),
        cmocka_unit_test(a_stuck_reader_costs_items_and_no_time),
        cmocka_unit_test(it_gathers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
