/* Who of several ranks is there, by records that they share (comm/presence.h): processes of the test's, which
 * say words to each other in pages in the place of NCCL. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/comm_apart.h"
#include "comm/presence.h"
#include "io/scratch.h"

enum { RANKS = 4, WORD = 256, WORDS = 16, BUSY = 1000 };

/* ---- words ---- */

static struct {
    atomic_int said[WORDS], over;
    _Alignas(16) char words[WORDS][RANKS * WORD];
} * pages;
static comm_ranks here;

comm_ranks __wrap_comm_world(void);
status __wrap_comm_hear(const void *mine, uint64_t bytes, const void **all);

comm_ranks __wrap_comm_world(void) { return here; }

status __wrap_comm_hear(const void *mine, uint64_t bytes, const void **all) {
    static int number;
    int i = number++;
    if (bytes > WORD || i == WORDS) abort();
    memcpy(pages->words[i] + (uint64_t)here.rank * bytes, mine, bytes);
    atomic_fetch_add(&pages->said[i], 1);
    while (atomic_load(&pages->said[i]) < RANKS) usleep(500);
    *all = pages->words[i];
    return STATUS_OK;
}

/* ---- ranks ---- */

/* What each does: so many movements, and then it waits, or is silent (BUSY and so many). Rank 0 asks, and its
 * answer is the exit code less 100. */
typedef struct {
    const char *what;
    int moves[RANKS], silent;
} scene;

static void begin(int rank, const char *folder) {
    here = (comm_ranks){ rank, RANKS };
    if (folder) sethostname(rank % 2 ? "odd" : "even", rank % 2 ? 3 : 4);
    if (presence_open() != STATUS_OK || presence_in(folder) != STATUS_OK) _exit(1);
}

static void wait_till_over(bool beats) {
    while (!atomic_load(&pages->over)) {
        if (beats) presence_waits(1, 1);
        usleep(1000);
    }
}

static void be(const scene *s, int rank, const char *folder) {
    begin(rank, folder);
    int moves = s->moves[rank];
    for (int i = 0; i < moves % BUSY; i++) presence_comes_on();
    presence_waits(1, 1);
    if (rank) {
        usleep(700000);
        presence_waits(1, 1); /* where records are files the last one has been written by now */
        wait_till_over(moves < BUSY);
        _exit(0);
    }
    for (int i = 0; i < 900; i++) presence_waits(1, 1), usleep(1000);
    int silent = presence_find_silent();
    atomic_store(&pages->over, 1);
    _exit(100 + silent);
}

static void play(const scene *s, const char *folder) {
    pid_t pids[RANKS];
    int code = 0;
    memset(pages, 0, sizeof *pages);
    for (int r = 0; r < RANKS; r++)
        if (!(pids[r] = fork())) {
            if (folder && unshare(CLONE_NEWUTS) != 0) _exit(1);
            be(s, r, folder);
        }
    for (int r = RANKS - 1; r >= 0; r--) assert_int_equal(waitpid(pids[r], &code, 0), pids[r]);
    assert_true(WIFEXITED(code));
    int silent = WEXITSTATUS(code) - 100;
    if (silent != s->silent) fail_msg("%s: %d is named, not %d", s->what, silent, s->silent);
}

static const scene scenes[] = {
    { "all wait", { 5, 5, 5, 5 }, COMM_ALL_ANSWER },
    { "one is silent", { 5, 5, BUSY + 5, 5 }, 2 },
    { "one that waits is behind one that is silent", { 5, 2, 7, BUSY + 5 }, 3 },
    { "the one that is farther behind", { 5, BUSY + 5, BUSY + 9, BUSY + 4 }, 3 },
    { "of two at one place the first", { 5, 5, BUSY + 4, BUSY + 4 }, 2 },
};

static void the_silent_one_is_named(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) play(&scenes[i], NULL);
}

static void by_files_as_well(void **state) {
    (void)state;
    if (system("unshare --uts true 2>/dev/null") != 0) {
        print_message("hosts can't have names here: left out\n");
        return;
    }
    for (size_t i = 2; i < 4; i++) {
        assert_int_equal(system("rm -rf folder && mkdir -p folder/.ranks && touch folder/.ranks/4"), 0);
        play(&scenes[i], "folder");
        assert_int_equal(system("test -e folder/.ranks/3 && ! test -e folder/.ranks/4"), 0);
    }
}

/* ---- one that has ended ---- */

/* Rank 2 says why it can't go on, or just ends; rank 0 hears of it: 1 with these words, at once or after a
 * second's grace. */
static void hear(bool fails, const char *words, double least, double most) {
    pid_t pids[RANKS];
    int code = 0;
    memset(pages, 0, sizeof *pages);
    for (int r = 0; r < RANKS; r++) {
        pids[r] = fork();
        if (pids[r]) continue;
        char sentence[COMM_SENTENCE];
        begin(r, NULL);
        if (r == 2 && fails) presence_fails("it has no room left");
        if (r == 2 && !fails) _exit(0);
        if (r) wait_till_over(true);
        double began = clock_seconds();
        while (!r && !presence_is_over(false, sentence) && clock_seconds() < began + 5) usleep(1000);
        double took = clock_seconds() - began;
        atomic_store(&pages->over, 1);
        bool right = r || (took >= least && took <= most && strstr(sentence, words) == sentence);
        _exit(right && (r || presence_before() == 0) ? 7 : 1);
    }
    for (int r = RANKS - 1; r >= 0; r--) assert_int_equal(waitpid(pids[r], &code, 0), pids[r]);
    assert_int_equal(WEXITSTATUS(code), 7);
}

static void ends_are_heard_of(void **state) {
    char name[64] = "", words[200];
    (void)state;
    gethostname(name, sizeof name - 1);
    snprintf(words, sizeof words, "rank 2 on %s: it has no room left", name);
    hear(true, words, 0, 1);
    snprintf(words, sizeof words, "rank 2 on %s has ended, and others wait for it", name);
    hear(false, words, 0.9, 3);
}

static int make_pages(void **state) {
    pages = mmap(NULL, sizeof *pages, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return pages == MAP_FAILED ? -1 : scratch_open(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_silent_one_is_named),
        cmocka_unit_test(by_files_as_well),
        cmocka_unit_test(ends_are_heard_of),
    };
    return cmocka_run_group_tests(tests, make_pages, scratch_close);
}
