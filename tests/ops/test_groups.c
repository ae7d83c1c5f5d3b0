/* Products by groups of warps, emulated: the emulation finds what a GPU would do wrong now and then, and
 * reads every layout of an operand that a descriptor can say. */
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
#include "mistaken_groups.h"

/* How the product ends in a process of its own: its status, and what it said. */
static int status_of(int which, char *said, size_t bytes) {
    int ends[2], status = -1;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        _exit(group_mistake_run(which) ? 0 : 1);
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

static void mistakes_are_found(void **state) {
    (void)state;
    for (int order = EMULATE_FORWARD; order < EMULATE_ORDERS; order++) {
        emulate_order_set((emulate_order)order);
        for (int i = 0; group_mistakes[i].name; i++) {
            const group_mistake *m = &group_mistakes[i];
            char said[4096];
            int status = status_of(i, said, sizeof said);
            bool stopped = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
            if (m->said ? !stopped || !strstr(said, m->said)
                        : !WIFEXITED(status) || WEXITSTATUS(status) != (i > 0))
                fail_msg("%s: status %d, '%s'", m->name, status, said);
        }
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mistakes_are_found),
        cmocka_unit_test(layouts_are_read),
    };
    threads_set(1);
    return cmocka_run_group_tests_name("groups of warps", tests, NULL, NULL);
}

#else

#include "emulation_left_out.h"

int main(void) { return emulation_left_out("groups of warps"); }

#endif
