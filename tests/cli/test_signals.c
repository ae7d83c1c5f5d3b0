/* What signals do to who watches them: one stops where it can go on, a second SIGINT ends at once, and what
 * was ignored stays so. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/status.h"
#include "cli/signals.h"

enum { WAITED = 10 }; /* seconds, of a test that would hang */

typedef struct {
    pid_t pid;
    int says; /* how many signals it has seen, a byte each time */
} watcher;

/* Ends with 7 when it has seen `most` of them. */
static void watch(int says, int most) {
    static const char byte = 'x';
    alarm(WAITED);
    signals_watch(SIGNALS_READS_GO_ON);
    for (int seen = 0; seen <= most; seen++) {
        if (write(says, &byte, 1) != 1) _exit(1);
        while (seen < most && !signals_stop) usleep(1000);
        signals_stop = 0;
    }
    _exit(7);
}

/* One that watches. `ignored`: what it was told to ignore before; 0: nothing. */
static watcher start(int ignored, int most) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    watcher w = { fork(), ends[0] };
    assert_true(w.pid >= 0);
    if (w.pid == 0) {
        for (int s = 1; s < 32; s++) signal(s, SIG_DFL);
        if (ignored) signal(ignored, SIG_IGN);
        watch(ends[1], most);
    }
    close(ends[1]);
    return w;
}

static bool sees_one(const watcher *w) {
    char byte;
    return read(w->says, &byte, 1) == 1;
}

static int end_of(const watcher *w) {
    int how;
    while (waitpid(w->pid, &how, 0) < 0 && errno == EINTR) {}
    close(w->says);
    return WIFEXITED(how) ? WEXITSTATUS(how) : -WTERMSIG(how);
}

static void a_second_interrupt_ends_at_once(void **state) {
    (void)state;
    watcher w = start(0, 9);
    assert_true(sees_one(&w)); /* it watches */
    kill(w.pid, SIGINT);
    assert_true(sees_one(&w)); /* and goes on */
    kill(w.pid, SIGINT);
    assert_false(sees_one(&w));
    assert_int_equal(end_of(&w), STATUS_INTERRUPTED);
}

/* Who waits for a process of its own hands it those. */
static void others_never_do(void **state) {
    (void)state;
    static const int numbers[] = { SIGTERM, SIGUSR1, SIGTERM, SIGUSR1, SIGINT, SIGTERM };
    enum { COUNT = sizeof numbers / sizeof *numbers };
    watcher w = start(0, COUNT);
    for (int i = 0; i < COUNT; i++) {
        assert_true(sees_one(&w));
        kill(w.pid, numbers[i]);
    }
    assert_true(sees_one(&w));
    assert_int_equal(end_of(&w), 7);
}

/* nohup, and shells for what runs behind them, ignore signals for whom they start. */
static void what_is_ignored_stays_so(void **state) {
    (void)state;
    static const int numbers[] = { SIGINT, SIGTERM, SIGUSR1 };
    for (int i = 0; i < 3; i++) {
        watcher w = start(numbers[i], 1);
        assert_true(sees_one(&w));
        for (int times = 0; times < 2; times++) kill(w.pid, numbers[i]);
        usleep(20000);
        assert_int_equal(waitpid(w.pid, NULL, WNOHANG), 0);
        kill(w.pid, numbers[(i + 1) % 3]);
        assert_true(sees_one(&w));
        assert_int_equal(end_of(&w), 7);
    }
}

static void judge(int signal_number) {
    (void)signal_number;
    _exit(signals_by_parent() ? 7 : 8);
}

/* What one that judges ends with where `by` sends it a signal: 'p', its parent, 'o', another process, or 's',
 * itself. */
static int judged(char by) {
    int ends[2];
    char byte = 'x';
    assert_int_equal(pipe(ends), 0);
    watcher w = { fork(), ends[0] };
    if (w.pid == 0) {
        for (int s = 1; s < 32; s++) signal(s, SIG_DFL);
        alarm(WAITED);
        signals_call(judge, SIGNALS_READS_GO_ON, NULL);
        if (by == 's') raise(SIGTERM);
        if (write(ends[1], &byte, 1) == 1)
            for (;;) pause();
        _exit(1);
    }
    close(ends[1]);
    if (by != 's') assert_true(sees_one(&w));
    if (by == 'p') kill(w.pid, SIGTERM);
    if (by == 'o') {
        pid_t other = fork();
        if (other == 0) _exit(kill(w.pid, SIGTERM));
        waitpid(other, NULL, 0);
    }
    return end_of(&w);
}

/* A launcher is the parent of whom it ends. */
static void the_sender_is_known(void **state) {
    (void)state;
    assert_int_equal(judged('p'), 7);
    assert_int_equal(judged('o'), 8);
    assert_int_equal(judged('s'), 8);
}

static int came;
static void count(int signal_number) {
    (void)signal_number;
    came++;
}

static void what_was_before_comes_back(void **state) {
    (void)state;
    struct sigaction now;
    signals_kept kept;
    void (*before)(int) = signal(SIGUSR1, SIG_IGN);
    void (*was)(int) = signal(SIGTERM, SIG_DFL);
    signals_call(count, SIGNALS_READS_END, &kept);
    raise(SIGTERM);
    raise(SIGUSR1);
    assert_int_equal(came, 1);
    signals_restore(&kept);
    assert_int_equal(sigaction(SIGUSR1, NULL, &now), 0);
    assert_true(now.sa_handler == SIG_IGN);
    assert_int_equal(sigaction(SIGTERM, NULL, &now), 0);
    assert_true(now.sa_handler == SIG_DFL);
    signal(SIGUSR1, before), signal(SIGTERM, was);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_second_interrupt_ends_at_once), cmocka_unit_test(others_never_do),
        cmocka_unit_test(what_is_ignored_stays_so),        cmocka_unit_test(the_sender_is_known),
        cmocka_unit_test(what_was_before_comes_back),
    };
    return cmocka_run_group_tests_name("signals", tests, NULL, NULL);
}
