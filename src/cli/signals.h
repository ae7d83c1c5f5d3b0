/* Signals that ask a command to stop: SIGINT, SIGTERM, and SIGUSR1, which batch systems send before the time
 * is up. One that the caller has set to be ignored (nohup, a background job of a script) stays so. */
#pragma once

#include <signal.h>
#include <stdbool.h>

/* 1: one has come, to a command that watches. */
extern volatile sig_atomic_t signals_stop;

/* While one of them is handled: has the process sent it that started this one? */
bool signals_by_parent(void);

typedef enum {
    SIGNALS_READS_GO_ON, /* a system call that waits goes on behind the signal */
    SIGNALS_READS_END    /* it ends, as one that failed (EINTR) */
} signals_reads;

/* From now on one of them sets signals_stop. A second SIGINT, which is somebody at the keyboard, ends the
 * program at once; batch systems repeat the others while what was begun is being ended. */
void signals_watch(signals_reads reads);

/* What was done at each before. */
typedef struct {
    struct sigaction before[3];
    void (*asked)(int);
} signals_kept;

/* From now on one of them calls `asked` instead. `kept` may be NULL. */
void signals_call(void (*asked)(int), signals_reads reads, signals_kept *kept);
void signals_restore(const signals_kept *kept);

/* None comes from here to signals_let, which is handed the same set. */
void signals_hold(sigset_t *before);
void signals_let(const sigset_t *before);
