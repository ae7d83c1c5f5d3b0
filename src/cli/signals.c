#define _GNU_SOURCE
#include "cli/signals.h"

#include <stddef.h>
#include <unistd.h>

#include "base/status.h"

volatile sig_atomic_t signals_stop;

static const int watched[] = { SIGINT, SIGTERM, SIGUSR1 };
enum { WATCHED = sizeof watched / sizeof *watched };
_Static_assert(sizeof((signals_kept){ 0 }.before) / sizeof(struct sigaction) == WATCHED,
               "what was before each signal is kept");

/* SIGINTs are counted by themselves: who waits for a process of its own hands it the others. */
static void stop(int signal_number) {
    static volatile sig_atomic_t interrupted;
    if (signal_number == SIGINT && interrupted) _exit(STATUS_INTERRUPTED);
    if (signal_number == SIGINT) interrupted = 1;
    signals_stop = 1;
}

static void (*asked_now)(int);
static volatile pid_t sender;

bool signals_by_parent(void) { return sender && sender == getppid(); }

static void come(int signal_number, siginfo_t *how, void *context) {
    (void)context;
    sender = how->si_code == SI_USER ? how->si_pid : 0;
    asked_now(signal_number);
}

void signals_call(void (*asked)(int), signals_reads reads, signals_kept *kept) {
    if (kept) kept->asked = asked_now;
    asked_now = asked;
    for (int i = 0; i < WATCHED; i++) {
        struct sigaction old,
            action = { .sa_flags = SA_SIGINFO | (reads == SIGNALS_READS_GO_ON ? SA_RESTART : 0) };
        action.sa_sigaction = come;
        sigaction(watched[i], NULL, &old); /* of these three neither call can fail */
        if (kept) kept->before[i] = old;
        if (old.sa_handler != SIG_IGN) sigaction(watched[i], &action, NULL);
    }
}

void signals_watch(signals_reads reads) { signals_call(stop, reads, NULL); }

void signals_restore(const signals_kept *kept) {
    asked_now = kept->asked;
    for (int i = 0; i < WATCHED; i++) sigaction(watched[i], &kept->before[i], NULL);
}

void signals_hold(sigset_t *before) {
    sigset_t all;
    sigemptyset(&all);
    for (int i = 0; i < WATCHED; i++) sigaddset(&all, watched[i]);
    sigprocmask(SIG_BLOCK, &all, before);
}

void signals_let(const sigset_t *before) { sigprocmask(SIG_SETMASK, before, NULL); }
