/* Ranks that are started by torchrun's variables alone, each a process of the test's, upon a stand-in for
 * NCCL that moves in pages which they share (tests/comm/standin): no MPI is there to ask who is missing, nor
 * a launcher that ends all for one, but where the test plays torchrun. Whoever is killed or frozen, at random
 * instants of planning, training and saving, is named by one sentence, and the others end. On one host, and
 * on two, which are names of this one. Left out where there is no emulated GPU, or no MPI for the stand-in.
 *
 *     test_torchrun [CASES [SEED]]        more random instants than the fixed number, or others */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/command.h"
#include "cli/several.h"
#include "io/scratch.h"

#define STANDIN SNUG_BUILD "/standin"

enum { MOST_RANKS = 8, CASES = 4, TIMEOUT = 3 };

static uint64_t seed = 1;
static int wanted = CASES;
static char host[64];

static int make_files(void **state) {
    if (several_open(state) != 0) return -1;
    command_shell("echo '{\"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 2, \"n_embd\": 136, "
                  "\"n_positions\": 32, \"vocab_size\": 256}' >uneven.json");
    return gethostname(host, sizeof host - 1);
}

static bool left_out(void) {
    bool there = access(STANDIN "/libnccl.so.2", R_OK) == 0;
    if (!there) print_message("no emulated GPU, or no MPI: left out\n");
    return !there;
}

/* ---- ranks ---- */

/* A rank gets a signal so many seconds after all have joined; 0: none does. */
typedef struct {
    int ranks, rank, signal;
    double after;
    bool like_torchrun; /* as soon as one has failed, all others are told to end */
    bool two_hosts;     /* half of the ranks each, "left" and "right" */
    const char *options;
} start;

static struct {
    pid_t pids[MOST_RANKS];
    int codes[MOST_RANKS];  /* -1: it is there */
    double signalled, gone; /* when the signal was sent, and when no other one was there any more */
} own;

static void become(const start *s, int rank) {
    char line[1200], number[2][16];
    snprintf(number[0], sizeof number[0], "%d", rank);
    snprintf(number[1], sizeof number[1], "%d", s->ranks);
    setenv("RANK", number[0], 1);
    setenv("LOCAL_RANK", number[0], 1);
    setenv("WORLD_SIZE", number[1], 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", "29500", 1);
    setenv("LD_LIBRARY_PATH", STANDIN, 1);
    setenv("STANDIN_SHARED", "shared", 1);
    const char *as = !s->two_hosts         ? ""
                     : 2 * rank < s->ranks ? "unshare --uts sh -c 'hostname left; exec \"$@\"' sh "
                                           : "unshare --uts sh -c 'hostname right; exec \"$@\"' sh ";
    snprintf(line, sizeof line,
             "exec %s" SEVERAL_SNUG " train uneven.json --data text --batch 4 --unit 1 --dropout 0.1 "
             "--eval-samples 2 --threads 1 --exact --quiet --device emulated --rank-timeout %d %s "
             ">>said 2>&1 </dev/null",
             as, TIMEOUT, s->options);
    execl("/bin/sh", "sh", "-c", line, (char *)NULL);
    _exit(127);
}

/* How many have joined, as the stand-in counts them. */
static int joined(void) {
    int count = 0, file = open("shared", O_RDONLY);
    if (file < 0) return 0;
    if (pread(file, &count, sizeof count, 0) != (ssize_t)sizeof count) count = 0;
    close(file);
    return count;
}

static int there(const start *s) {
    int count = 0;
    for (int r = 0; r < s->ranks; r++) count += own.codes[r] < 0 && !(s->signal == SIGSTOP && r == s->rank);
    return count;
}

static void reap(const start *s) {
    bool failed = false;
    for (int r = 0; r < s->ranks; r++) {
        int code;
        if (own.codes[r] >= 0 || waitpid(own.pids[r], &code, WNOHANG) != own.pids[r]) continue;
        own.codes[r] = WIFEXITED(code) ? WEXITSTATUS(code) : 128 + WTERMSIG(code);
        failed |= own.codes[r] != 0;
    }
    for (int r = 0; failed && s->like_torchrun && r < s->ranks; r++)
        if (own.codes[r] < 0) kill(own.pids[r], SIGTERM);
}

static void end_all(const start *s) {
    for (int r = 0; r < s->ranks; r++) {
        if (own.codes[r] >= 0) continue;
        kill(own.pids[r], SIGKILL);
        waitpid(own.pids[r], NULL, 0);
    }
}

static void go(const start *s) {
    enum { MOST = 120 };
    double begun = clock_seconds(), all_joined = 0;
    command_shell("rm -rf shared said");
    memset(&own, 0, sizeof own);
    for (int r = 0; r < s->ranks; r++) {
        own.codes[r] = -1, own.pids[r] = fork();
        if (own.pids[r] == 0) become(s, r);
    }
    while (there(s) && clock_seconds() < begun + MOST) {
        if (all_joined <= 0 && joined() == s->ranks) all_joined = clock_seconds();
        if (s->signal && own.signalled <= 0 && all_joined > 0 && clock_seconds() > all_joined + s->after) {
            own.signalled = clock_seconds();
            kill(own.pids[s->rank], s->signal);
        }
        reap(s);
        usleep(2000);
    }
    own.gone = clock_seconds();
    int left = there(s);
    end_all(s);
    if (left) fail_msg("%d ranks are there after %d s: %s", left, MOST, several_said());
}

static void same_as_one(void) {
    command_shell("cmp one/model.safetensors several/model.safetensors");
    command_shell("test \"$(grep '\"losses\"' one/run.json)\" = \"$(grep '\"losses\"' several/run.json)\"");
}

/* A rank that ends while another one still waits for what it has sent is no failure; nothing is left. */
static void nobody_is_missed(void **state) {
    (void)state;
    if (left_out()) return;
    command_shell("rm -rf one");
    command_expect(0, "train uneven.json --data text --batch 4 --unit 1 --dropout 0.1 --eval-samples 2 "
                      "--threads 1 --exact --quiet --steps 3 --out one --device cpu");
    for (int hosts = 1; hosts <= 2; hosts++) {
        command_shell("rm -rf several");
        start s = { .ranks = 4, .two_hosts = hosts == 2, .options = "--steps 3 --out several" };
        if (hosts == 2 && system("unshare --uts hostname left 2>/dev/null") != 0) return;
        go(&s);
        for (int r = 0; r < s.ranks; r++)
            if (own.codes[r]) fail_msg("rank %d: exit %d: %s", r, own.codes[r], several_said());
        same_as_one();
        command_shell("test ! -e several/.ranks");
    }
}

/* ---- whoever is missing ---- */

/* All others end with 1, by one sentence with these words. */
static void ends(const start *s, const char *words, double seconds) {
    command_shell("rm -rf missed");
    go(s);
    if (own.signalled <= 0) fail_msg("they were over before: %s", several_said());
    bool well = own.gone - own.signalled < seconds && several_times(several_said(), "snug: ") == 1 &&
                command_has_words(several_said(), words);
    for (int r = 0; r < s->ranks; r++) well &= r == s->rank || own.codes[r] == 1;
    if (!well)
        fail_msg("rank %d of %d, signal %d after %.2f s: gone after %.2f s, codes %d %d %d %d: %s", s->rank,
                 s->ranks, s->signal, s->after, own.gone - own.signalled, own.codes[0], own.codes[1],
                 own.codes[2], own.codes[3], several_said());
}

static const char endless[] = "--steps 100000 --save-every 40 --out missed";

/* Without a launcher it has been waited for for as long as --rank-timeout says, others are asked for two
 * seconds, and where rank 0 is it that is frozen, it is waited for until it might have spoken. */
static void is_frozen(int ranks, int rank, double after) {
    char words[200];
    start s = { .ranks = ranks, .rank = rank, .signal = SIGSTOP, .after = after, .options = endless };
    snprintf(words, sizeof words, "rank %d on %s has been waited for for %d s (--rank-timeout)", rank, host,
             TIMEOUT);
    ends(&s, words, TIMEOUT + 2 + (rank ? 4 : 7));
}

static void is_killed(int ranks, int rank, double after, bool like_torchrun) {
    char words[200];
    start s = { .ranks = ranks,
                .rank = rank,
                .signal = SIGKILL,
                .after = after,
                .like_torchrun = like_torchrun,
                .options = endless };
    snprintf(words, sizeof words, "rank %d on %s has ended, and others wait for it", rank, host);
    ends(&s, words, 5);
}

static double instant(void) { return 0.3 + 0.0022 * (double)(scratch_random(&seed) % 1000u); }
static int draw(int below) { return (int)(scratch_random(&seed) % (uint32_t)below); }

static void whoever_is_frozen_is_named(void **state) {
    (void)state;
    if (left_out()) return;
    is_frozen(4, 0, 1);
    for (int i = 0; i < wanted; i++) {
        int ranks = draw(2) ? 4 : 2;
        is_frozen(ranks, draw(ranks), instant());
    }
}

static void whoever_is_killed_is_named(void **state) {
    (void)state;
    if (left_out()) return;
    is_killed(4, 0, 1, false);
    for (int i = 0; i < wanted; i++) {
        int ranks = draw(2) ? 4 : 2;
        is_killed(ranks, draw(ranks), instant(), i % 2);
    }
}

/* Of another host's process nobody here knows: it is missed as one that is frozen is, by the record of it in
 * the folder of the run. What was left there goes with the next start. */
static void on_two_hosts(void **state) {
    (void)state;
    if (left_out()) return;
    if (system("unshare --uts hostname left 2>/dev/null") != 0) {
        print_message("hosts can't have names here: left out\n");
        return;
    }
    static const struct {
        int rank, signal;
        const char *words;
        double seconds;
    } runs[] = { { 3, SIGSTOP, "rank 3 on right has been waited for for 3 s (--rank-timeout)", 8 },
                 { 1, SIGSTOP, "rank 1 on left has been waited for for 3 s (--rank-timeout)", 8 } };
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        start s = { .ranks = 4,
                    .rank = runs[i].rank,
                    .signal = runs[i].signal,
                    .after = 2.5,
                    .two_hosts = true,
                    .like_torchrun = true,
                    .options = endless };
        ends(&s, runs[i].words, runs[i].seconds);
    }
}

int main(int count, char **arguments) {
    if (count > 1) wanted = atoi(arguments[1]);
    if (count > 2) seed = strtoull(arguments[2], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_is_missed),
        cmocka_unit_test(whoever_is_frozen_is_named),
        cmocka_unit_test(whoever_is_killed_is_named),
        cmocka_unit_test(on_two_hosts),
    };
    return cmocka_run_group_tests(tests, make_files, several_close);
}
