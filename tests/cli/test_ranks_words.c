/* Ranks speak to each other without taking memory: once they have begun every call for it fails here, and
 * what they say arrives all the same, also that one of them has failed. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/several.h"
#include "comm/comm.h"
#include "train/together.h"

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *block, size_t bytes);
void *__real_aligned_alloc(size_t to, size_t bytes);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *block, size_t bytes);
void *__wrap_aligned_alloc(size_t to, size_t bytes);
char *__wrap_strdup(const char *text);

static bool starving; /* this process gets no memory any more */
static int asked;     /* how often it has asked */

static bool fails(void) {
    asked += starving;
    return starving;
}

void *__wrap_malloc(size_t bytes) { return fails() ? NULL : __real_malloc(bytes); }

void *__wrap_calloc(size_t count, size_t bytes) { return fails() ? NULL : __real_calloc(count, bytes); }

void *__wrap_realloc(void *block, size_t bytes) { return fails() ? NULL : __real_realloc(block, bytes); }

void *__wrap_aligned_alloc(size_t to, size_t bytes) {
    return fails() ? NULL : __real_aligned_alloc(to, bytes);
}

char *__wrap_strdup(const char *text) { return fails() ? NULL : __real_strdup(text); }

/* ---- one of several processes ---- */

/* The first promise that is not kept; 0: all are. */
#define KEPT(promise)                                                                                        \
    if (!(promise)) return __LINE__

static int told_long_things(int rank) {
    static char words[3 * COMM_WORD + 5];
    memset(words, rank ? 0 : 'w', sizeof words);
    KEPT(comm_tell(words, sizeof words) == STATUS_OK);
    for (size_t i = 0; i < sizeof words; i++) KEPT(words[i] == 'w');
    return 0;
}

static int heard_from_all(int rank, int world) {
    char mine[COMM_WORD];
    const void *heard;
    memset(mine, rank + 1, sizeof mine);
    KEPT(comm_hear(mine, sizeof mine, &heard) == STATUS_OK);
    const char *all = heard;
    for (int r = 0; r < world; r++)
        KEPT(all[r * COMM_WORD] == r + 1 && all[(r + 1) * COMM_WORD - 1] == r + 1);
    return 0;
}

/* The longest sentence that there is comes whole, or as much of it as has room behind the name. */
static int agreed_on_failures(int rank) {
    static char longest[STATUS_SENTENCE];
    memset(longest, 'x', sizeof longest - 1);
    status mine = rank == 1 ? status_set(STATUS_INVALID, "%s", longest) : STATUS_OK;
    KEPT(comm_agree(mine) == STATUS_INVALID);
    KEPT(strncmp(status_message(), "rank 1 on ", 10) == 0 && strstr(status_message(), ": xxxx"));
    KEPT(comm_agree(STATUS_OK) == STATUS_OK);
    mine = rank ? status_set(STATUS_FAILED, "no memory") : STATUS_OK;
    KEPT(together_end(mine) == STATUS_FAILED && strstr(status_message(), "no memory"));
    return 0;
}

static int agreed_on_steps(int rank, int world) {
    together_note note = { (uint64_t)rank + 1, rank == 1 };
    KEPT(together_agree(STATUS_OK, &note) == STATUS_OK);
    KEPT(note.labels == (uint64_t)(world * (world + 1) / 2) && note.stops);
    status mine = rank == 1 ? status_set(STATUS_FAILED, "its disk is full") : STATUS_OK;
    KEPT(together_agree(mine, &note) == STATUS_FAILED);
    KEPT(strncmp(status_message(), "rank 1 on ", 10) == 0 && strstr(status_message(), "its disk is full"));
    return 0;
}

static int speak(int rank, int world) {
    int line = told_long_things(rank);
    if (!line) line = heard_from_all(rank, world);
    if (!line) line = agreed_on_failures(rank);
    if (!line) line = agreed_on_steps(rank, world);
    KEPT(line || !asked);
    return line;
}

static int be_a_rank(void) {
    launch l;
    if (launch_find(&l) != STATUS_OK || comm_open(&l) != STATUS_OK) return 2;
    comm_limit(20);
    starving = true;
    int line = speak(l.rank, l.world);
    starving = false;
    if (line)
        fprintf(stderr, "rank %d: line %d, asked %d times: %s\n", l.rank, line, asked, status_message());
    comm_close();
    return line != 0;
}

/* ---- all of them ---- */

static void words_take_no_memory(void **state) {
    (void)state;
    if (several_left_out()) return;
    for (int ranks = 2; ranks <= 4; ranks += 2) {
        char line[200];
        snprintf(line, sizeof line, "-n %d " SNUG_BUILD "/test_ranks_words --rank", ranks);
        if (several_start_whole(line)) fail_msg("%d ranks: %s", ranks, several_said());
    }
}

int main(int count, char **words) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(words_take_no_memory) };
    if (count > 1 && strcmp(words[1], "--rank") == 0) return be_a_rank();
    return cmocka_run_group_tests(tests, several_open, several_close);
}
