#define _GNU_SOURCE
#include "cli/apart.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"

struct apart {
    pid_t process;
    int tasks, answers; /* pipes: to the small process; from it and from the runs */
};

/* A task is a row, an answer one of these; both are shorter than what a pipe takes at once. */
typedef struct {
    enum { ANSWER_STEP, ANSWER_RESULT, ANSWER_ENDED } kind;
    union {
        apart_step step;
        compare_measured result;
        struct {
            uint64_t peak_bytes;
            int how; /* as wait4 has it */
        } ended;
    };
} answer;

static bool read_whole(int file, void *to, size_t bytes) {
    char *at = to;
    while (bytes) {
        ssize_t n = read(file, at, bytes);
        if (n <= 0) return false; /* also when a signal came */
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}

static bool write_whole(int file, const void *from, size_t bytes) {
    const char *at = from;
    while (bytes) {
        ssize_t n = write(file, at, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}

/* ---- a run ---- */

static void stepped(void *context, const train_progress *p) {
    answer a = { .kind = ANSWER_STEP, .step = { p->step, p->steps, p->seconds } };
    write_whole(*(const int *)context, &a, sizeof a);
}

static status run_row(const setup_options *options, const compare_row *row, int answers,
                      compare_measured *m) {
    setup_options o = compare_options(options, row);
    setup s;
    o.out = NULL, o.resume = false;
    TRY(setup_open(&o, NULL, &s));
    train_observer observer = { .context = &answers, .stepped = stepped };
    status result = compare_run(&s, row, &observer, m);
    setup_close(&s);
    return result;
}

static void be_run(const setup_options *options, const compare_row *row, int answers) {
    answer a = { .kind = ANSWER_RESULT, .result = { .loss = NAN, .validation = NAN } };
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (run_row(options, row, answers, &a.result) != STATUS_OK)
        snprintf(a.result.why, sizeof a.result.why, "%s", status_message());
    write_whole(answers, &a, sizeof a);
}

/* ---- the small process ---- */

static void serve(const setup_options *options, int tasks, int answers) {
    compare_row row;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* the terminal sends it to all; the run ends by it, unless all of this was begun without, and that is
     * told */
    bool ignored = signal(SIGINT, SIG_IGN) == SIG_IGN;
    while (read_whole(tasks, &row, sizeof row)) {
        struct rusage usage = { 0 };
        answer a = { .kind = ANSWER_ENDED };
        pid_t run = fork();
        if (run == 0) {
            if (!ignored) signal(SIGINT, SIG_DFL);
            be_run(options, &row, answers);
            _exit(0);
        }
        if (run < 0 || wait4(run, &a.ended.how, 0, &usage) != run) a.ended.how = -1;
        a.ended.peak_bytes = (uint64_t)usage.ru_maxrss * 1024;
        if (!write_whole(answers, &a, sizeof a)) break;
    }
}

/* ---- the caller's side ---- */

status apart_open(const setup_options *options, apart **out) {
    int tasks[2], answers[2];
    apart *a = *out = memory_new(1, sizeof *a);
    if (!a) return status_set(STATUS_FAILED, "no memory to measure");
    if (pipe(tasks) != 0) goto failed;
    if (pipe(answers) != 0) goto failed_answers;
    a->process = fork();
    if (a->process < 0) goto failed_fork;
    if (a->process == 0) {
        close(tasks[1]), close(answers[0]);
        serve(options, tasks[0], answers[1]);
        _exit(0);
    }
    close(tasks[0]), close(answers[1]);
    a->tasks = tasks[1], a->answers = answers[0];
    return STATUS_OK;
failed_fork:
    close(answers[0]), close(answers[1]);
failed_answers:
    close(tasks[0]), close(tasks[1]);
failed:
    memory_free(a);
    *out = NULL;
    return status_set(STATUS_FAILED, "cannot start a process to measure in: %s", strerror(errno));
}

static void note_end(const answer *a, compare_measured *m) {
    m->peak_bytes = a->ended.peak_bytes;
    if (m->done || *m->why) return;
    if (WIFSIGNALED(a->ended.how))
        snprintf(m->why, sizeof m->why, "its process was ended by signal %d%s", WTERMSIG(a->ended.how),
                 WTERMSIG(a->ended.how) == SIGKILL ? ": the machine had no memory left" : "");
    else
        snprintf(m->why, sizeof m->why, "its process ended without a result");
}

status apart_run(apart *a, const compare_row *row, void (*told)(void *context, const apart_step *s),
                 void *context, const volatile sig_atomic_t *stop, compare_measured *m) {
    *m = (compare_measured){ .loss = NAN, .validation = NAN };
    bool sent = write_whole(a->tasks, row, sizeof *row);
    for (answer x; sent && read_whole(a->answers, &x, sizeof x);) {
        if (x.kind == ANSWER_STEP && told) told(context, &x.step);
        if (x.kind == ANSWER_RESULT) *m = x.result;
        if (x.kind != ANSWER_ENDED) continue;
        note_end(&x, m);
        return *stop && !m->done ? status_set(STATUS_INTERRUPTED, "stopped") : STATUS_OK;
    }
    if (*stop) return status_set(STATUS_INTERRUPTED, "stopped");
    return status_set(STATUS_FAILED, "the process to measure in has gone");
}

void apart_close(apart *a) {
    if (!a) return;
    kill(a->process, SIGKILL); /* a run that still goes on ends with it */
    while (waitpid(a->process, NULL, 0) < 0 && errno == EINTR) {}
    close(a->tasks);
    close(a->answers);
    memory_free(a);
}
