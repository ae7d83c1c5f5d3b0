/* Products by groups of warps, and in tensor memory, emulated: the emulation finds what a GPU would do wrong
 * now and then, in them and in bulk copies, and reads every layout of an operand that a descriptor can say.
 * Products have the same bits whichever way their operands come. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#ifdef SNUG_CUDA_EMULATED

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/threads.h"
#include "device/cuda/emulate_order.h"
#include "mistaken_bulk.h"
#include "mistaken_groups.h"
#include "mistaken_tmem.h"

static bool run_bulk(int which) { return bulk_mistake_run(which, false); }
static bool run_tmem(int which) { return tmem_mistake_run(which, false); }

/* How a product ends in a process of its own: its status, and what it said. */
static int status_of(bool (*run)(int which), int which, char *said, size_t bytes) {
    int ends[2], status = -1;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        _exit(run(which) ? 0 : 1);
    }
    close(ends[1]);
    size_t got = 0;
    for (ssize_t n; got + 1 < bytes && (n = read(ends[0], said + got, bytes - 1 - got)) > 0;)
        got += (size_t)n;
    said[got] = 0;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

/* The first mistake is none. `find`: what is said of it; NULL: numbers are wrong. */
static void is_found(bool (*run)(int which), int which, const char *name, const char *find) {
    for (int order = EMULATE_FORWARD; order < EMULATE_ORDERS; order++) {
        char said[4096];
        emulate_order_set((emulate_order)order);
        int status = status_of(run, which, said, sizeof said);
        bool stopped = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
        if (find ? !stopped || !strstr(said, find) : !WIFEXITED(status) || WEXITSTATUS(status) != (which > 0))
            fail_msg("%s, order %d: status %d, '%s'", name, order, status, said);
    }
    emulate_order_set(EMULATE_FORWARD);
}

static void mistakes_are_found(void **state) {
    (void)state;
    for (int i = 0; group_mistakes[i].name; i++)
        is_found(group_mistake_run, i, group_mistakes[i].name, group_mistakes[i].said);
}

static void mistakes_of_bulk_copies_are_found(void **state) {
    (void)state;
    for (int i = 0; bulk_mistakes[i].name; i++)
        is_found(run_bulk, i, bulk_mistakes[i].name, bulk_mistakes[i].said);
    assert_true(bulk_mistake_run(0, true));
}

static void bulk_copies_bring_the_same(void **state) {
    (void)state;
    for (int order = EMULATE_FORWARD; order < EMULATE_ORDERS; order++) {
        int brought = 0;
        emulate_order_set((emulate_order)order);
        assert_int_equal(bulk_products_differ(&brought), 0);
        assert_int_equal(brought, 16);
    }
    emulate_order_set(EMULATE_FORWARD);
}

static void what_the_engine_reads_comes_by_it(void **state) {
    (void)state;
    assert_true(bulk_reads_what_it_can());
    assert_true(bulk_is_taken());
}

static void mistakes_in_tensor_memory_are_found(void **state) {
    (void)state;
    for (int i = 0; tmem_mistakes[i].name; i++)
        is_found(run_tmem, i, tmem_mistakes[i].name, tmem_mistakes[i].said);
    assert_true(tmem_mistake_run(0, true));
}

/* By hand from the PTX ISA's tables 40 and 42: sums of f32 0x10; bf16 0x480; a crossed 0x8000, b 0x10000; 64
 * columns 8 << 17 = 0x100000, 256 32 << 17 = 0x400000; 128 lines 8 << 24 = 0x8000000; e4m3 0, a of e5m2
 * 0x80. Of a descriptor: 16 bytes 1 << 16, 1024 bytes 64 << 32, fixed 1 << 46, rows of 128 bytes 2 << 61. */
static void what_tcgen05_is_told(void **state) {
    (void)state;
    assert_int_equal(tmem_form(true, false, false, false), 0x8100490);
    assert_int_equal(tmem_form(true, true, false, false), 0x8108490);
    assert_int_equal(tmem_form(true, true, true, false), 0x8118490);
    assert_int_equal(tmem_form(false, false, true, false), 0x8110010);
    assert_int_equal(tmem_form(true, false, false, true), 0x8400490);
    assert_int_equal(tmem_form_of_floats(false), 0x8100010);
    assert_int_equal(tmem_form_of_floats(true), 0x8100090);
    assert_true(tmem_descriptor(16, 1024) == 0x4000404000010000);
    assert_true(tmem_descriptor(8192, 1024) == 0x4000404002000000);
}

static void products_in_tensor_memory_are_the_same(void **state) {
    (void)state;
    for (int order = EMULATE_FORWARD; order < EMULATE_ORDERS; order++) {
        int brought = 0;
        emulate_order_set((emulate_order)order);
        assert_int_equal(tmem_products_differ(&brought), 0);
        assert_int_equal(brought, 16);
    }
    emulate_order_set(EMULATE_FORWARD);
}

static void layouts_are_read(void **state) {
    (void)state;
    for (int swizzle = 0; swizzle < GROUP_SWIZZLES; swizzle++)
        for (int crossed = 0; crossed < 2; crossed++)
            if (!group_layout_run(swizzle, crossed != 0))
                fail_msg("swizzle %d, crossed %d", swizzle, crossed);
}

/* With an argument, the test of that name only. */
int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mistakes_are_found),
        cmocka_unit_test(layouts_are_read),
        cmocka_unit_test(mistakes_of_bulk_copies_are_found),
        cmocka_unit_test(bulk_copies_bring_the_same),
        cmocka_unit_test(what_the_engine_reads_comes_by_it),
        cmocka_unit_test(what_tcgen05_is_told),
        cmocka_unit_test(mistakes_in_tensor_memory_are_found),
        cmocka_unit_test(products_in_tensor_memory_are_the_same),
    };
    threads_set(1);
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests_name("groups of warps", tests, NULL, NULL);
}

#else

#include "emulation_left_out.h"

int main(void) { return emulation_left_out("groups of warps"); }

#endif
