/* A run of one rank: every collective leaves what this rank has, and wrong calls are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "comm/comm.h"

static void one_rank(void **state) {
    (void)state;
    comm c;
    float x[] = { 1.5f, -2, 3 }, before[3];
    memcpy(before, x, sizeof x);
    comm_buffer b = { x, 3, DTYPE_F32 };
    assert_int_equal(comm_open("self", &c), STATUS_OK);
    assert_int_equal(c.rank, 0);
    assert_int_equal(c.world, 1);
    assert_string_equal(c.transport->name, "self");
    assert_int_equal(comm_all_reduce(&c, &b, COMM_SUM), STATUS_OK);
    assert_int_equal(comm_all_reduce(&c, &b, COMM_MAX), STATUS_OK);
    assert_int_equal(comm_broadcast(&c, &b, 0), STATUS_OK);
    assert_int_equal(comm_barrier(&c), STATUS_OK);
    assert_memory_equal(x, before, sizeof x);
    comm_close(&c);
    comm_close(&c);
}

static void wrong_calls(void **state) {
    (void)state;
    comm c;
    float x = 1;
    assert_int_equal(comm_open("smoke signals", &c), STATUS_INVALID);
    assert_string_equal(status_message(),
                        "this build has no transport 'smoke signals' between ranks, only self");
    comm_close(&c);
    assert_int_equal(comm_open("self", &c), STATUS_OK);
    assert_int_equal(comm_broadcast(&c, &(comm_buffer){ &x, 1, DTYPE_F32 }, 1), STATUS_INVALID);
    assert_string_equal(status_message(), "there is no rank 1 to broadcast from, only 0 to 0");
    assert_int_equal(comm_broadcast(&c, &(comm_buffer){ &x, 1, DTYPE_F32 }, -1), STATUS_INVALID);
    assert_int_equal(comm_all_reduce(&c, &(comm_buffer){ NULL, 1, DTYPE_F32 }, COMM_SUM), STATUS_INVALID);
    assert_int_equal(comm_all_reduce(&c, &(comm_buffer){ &x, -1, DTYPE_F32 }, COMM_SUM), STATUS_INVALID);
    assert_int_equal(comm_all_reduce(&c, &(comm_buffer){ &x, 1, DTYPE_NONE }, COMM_SUM), STATUS_INVALID);
    assert_int_equal(comm_all_reduce(&c, &(comm_buffer){ NULL, 0, DTYPE_F32 }, COMM_SUM), STATUS_OK);
    comm_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(one_rank), cmocka_unit_test(wrong_calls) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
