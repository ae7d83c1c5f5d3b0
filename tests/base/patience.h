/* A hang is a failure with a name: what waits too long says what it was that it waited for, and ends. */
#pragma once

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char patience_text[256];
static pid_t patience_with; /* not 0: the process that is waited for, which ends too */

static inline void patience_over(int signal_number) {
    (void)signal_number;
    if (patience_with) kill(patience_with, SIGKILL);
    ssize_t written = write(STDERR_FILENO, patience_text, strlen(patience_text));
    _exit(written > 0 ? 1 : 2);
}

/* From now on for as long: then the program ends and names `what`. 0 seconds: no longer. */
static inline void patience(const char *what, unsigned seconds) {
    snprintf(patience_text, sizeof patience_text, "%s hangs: it has not ended within %u s\n", what, seconds);
    signal(SIGALRM, patience_over);
    alarm(seconds);
}
