/* A rank that ends, or does nothing any more, while a chain's last rank tells a sum to all in two steps, or
 * while a sum passes from rank to rank: at each message that it would post then (tests/comm/aimed). The
 * others end within five seconds, the exit code is the usual one, and whoever it was is named: by the
 * launcher, or by those that wait. Left out where there is no MPI, and in a sanitized build, whose own
 * library has to be the first. SNUG_TEST_LONG=1: at each of the messages, else at some of them. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "cli/command.h"
#include "cli/several.h"
#include "io/scratch.h"
#include "sanitized.h"

/* Of four ranks each has a piece of 76,800 bytes of the sum of 160 x 480 numbers, and no other message is as
 * long. Each posts six such: its piece comes, and it gets three others and sends its own to two; or the last
 * one sends three pieces, and its own to three. Before that the sum passes through the ranks as a whole: each
 * of those between the first and the last gets it, and sends it on. */
enum { RANKS = 4, SUM = 160 * 480 * 4, PIECE = SUM / RANKS, OF_A_SUM = 6, OF_A_PASSAGE = 2 };

static const char wide[] = "{\"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 4, \"n_embd\": 160, "
                           "\"n_positions\": 32, \"vocab_size\": 300}\n";

static int open_all(void **state) {
    if (several_open(state) != 0) return -1;
    mkdir("wide", 0700);
    scratch_write("wide/config.json", wide, strlen(wide));
    return 0;
}

/* The exit code; *seconds: how long all have been there since the signal, or -1: it was never sent. */
static int aimed(int rank, int bytes, int which, int number, double *seconds) {
    char before[200];
    struct stat mark;
    struct timespec now;
    command_shell("rm -rf told aimed");
    snprintf(before, sizeof before, "LD_PRELOAD=" SNUG_BUILD "/aimed/libaimed.so AIMED=%d:%d:%d:%d", rank,
             bytes, which, number);
    int code = several_start_as(before, "-x LD_PRELOAD -x AIMED", RANKS,
                                "train wide --data text --context 32 --batch 64 --exact --steps 1000 "
                                "--eval-samples 2 --save-every 2 --threads 1 --quiet --rank-timeout 2 "
                                "--out told");
    clock_gettime(CLOCK_REALTIME, &now);
    *seconds = -1;
    if (stat("aimed", &mark) == 0)
        *seconds =
            (double)(now.tv_sec - mark.st_mtim.tv_sec) + 1e-9 * (double)(now.tv_nsec - mark.st_mtim.tv_nsec);
    return code;
}

/* Of a rank's messages, from 0 on, the first and the last, or all. */
static bool is_taken(int rank, int message) {
    const char *all = getenv("SNUG_TEST_LONG");
    return (all && atoi(all)) || message == (rank % 2 ? 0 : OF_A_SUM - 1);
}

static bool left_out(void) {
    if (SANITIZED) skip();
    return several_left_out();
}

/* What must come of a rank that gets `signal` at one of a sum's messages in the second step of training. */
typedef struct {
    int signal, code;
    double seconds;
    const char *words; /* with the rank's number */
    int sentences;     /* of snug's; -1: any number */
    double gone;       /* after so many seconds */
} fate;

static void meets(const fate *f, int rank, int bytes, int which) {
    char words[100];
    double seconds;
    int code = aimed(rank, bytes, which, f->signal, &seconds);
    snprintf(words, sizeof words, f->words, rank);
    bool said = command_has_words(several_said(), words);
    if (f->sentences >= 0) said = said && several_times(several_said(), "snug: ") == f->sentences;
    if (code != f->code || seconds < 0 || seconds > f->seconds || !said)
        fail_msg("rank %d, message %d: exit %d after %.1f s: %s", rank, which, code, seconds, several_said());
    several_all_gone("told", f->gone);
}

static void whoever_is_killed_ends_all(void **state) {
    static const fate killed = { SIGKILL, 128 + SIGKILL, 5, "process rank %d with PID", -1, 0 };
    (void)state;
    if (left_out()) return;
    for (int rank = 0; rank < RANKS; rank++)
        for (int message = 0; message < OF_A_SUM; message++)
            if (is_taken(rank, message)) meets(&killed, rank, PIECE, OF_A_SUM + 1 + message);
}

/* Two seconds are waited, and two that those who wait take to ask each other; then all end. */
static const fate frozen = { SIGSTOP, 1, 2 + 2 + 5, "rank %d has been waited for for 2 s (--rank-timeout)",
                             1,       5 };

static void whoever_is_frozen_is_named(void **state) {
    (void)state;
    if (left_out()) return;
    for (int rank = 0; rank < RANKS; rank++)
        for (int message = 0; message < OF_A_SUM; message++)
            if (is_taken(rank + 1, message)) meets(&frozen, rank, PIECE, OF_A_SUM + 1 + message);
}

/* Then the last one waits for it, or for one that waits for it, and rank 0, which speaks, waits for the last
 * one to tell the sum: whom a rank waits for is not who is missing. */
static void nor_is_one_that_waits_named(void **state) {
    (void)state;
    if (left_out()) return;
    for (int rank = 1; rank < RANKS - 1; rank++)
        for (int message = 0; message < OF_A_PASSAGE; message++)
            meets(&frozen, rank, SUM, OF_A_PASSAGE + 1 + message);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(whoever_is_killed_ends_all),
                                        cmocka_unit_test(whoever_is_frozen_is_named),
                                        cmocka_unit_test(nor_is_one_that_waits_named) };
    return cmocka_run_group_tests(tests, open_all, several_close);
}
