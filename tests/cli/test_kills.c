/* P5 between any two calls of the system: a run that is killed in place of one that changes a file, and
 * resumed, ends in the files of the run that was not. SNUG_TEST_LONG=1 takes every call, else all of the
 * first and of the last and some between; tools/campaign-kills does the same to runs that are drawn. */
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
#include <sys/wait.h>

#include "cli/command.h"
#include "io/scratch.h"

#define RUN                                                                                                  \
    "train tiny --data text --steps 5 --batch 4 --eval-every 2 --eval-samples 2 --threads 2 --quiet "        \
    "--keep 2 --micro-batch 4 "

/* Runs the program that can be killed; `at` < 0: it is not. Its exit code, -1 where it was. */
static int start(const char *line, long at) {
    char call[2048];
    snprintf(call, sizeof call, "KILL_CALL=%ld KILL_COUNT=calls exec %s %s >said 2>&1", at,
             SNUG_BUILD "/snug-killed", line);
    int how = system(call);
    if (WIFSIGNALED(how)) return -1;
    return WEXITSTATUS(how) == 128 + SIGKILL ? -1 : WEXITSTATUS(how);
}

static char *text_of(const char *path) {
    FILE *file = fopen(path, "rb");
    char *data = calloc(1, 1 << 16);
    if (!file || !data) fail_msg("there is no %s", path);
    size_t bytes = fread(data, 1, (1 << 16) - 1, file);
    fclose(file);
    data[bytes] = 0;
    return data;
}

/* The losses of run.json; times differ. */
static char *losses_of(const char *run) {
    char path[64];
    snprintf(path, sizeof path, "%s/run.json", run);
    char *data = text_of(path), *from = strstr(data, "\"losses\""),
         *to = strstr(data, "\"tokens_per_second\"");
    assert_true(from && to && from < to);
    char *kept = strndup(from, (size_t)(to - from));
    free(data);
    return kept;
}

static void assert_same(const char *whole, const char *run, long at) {
    char line[256];
    snprintf(line, sizeof line, "diff -r -x 'events.*' -x run.json -x metrics.jsonl %s %s", whole, run);
    if (system(line) != 0) fail_msg("killed at call %ld", at);
    char *one = losses_of(whole), *other = losses_of(run);
    if (strcmp(one, other) != 0) fail_msg("killed at call %ld: %s instead of %s", at, other, one);
    free(one);
    free(other);
    snprintf(line, sizeof line, "tail -n 1 %s/metrics.jsonl | grep -q '\"outcome\": \"finished\"'", run);
    if (system(line) != 0) fail_msg("killed at call %ld: its history has no end", at);
}

/* Kills `line` at one call after the other, and resumes it. `before` (may be NULL) makes the folder first. */
static void kill_everywhere(const char *line, const char *more, const char *whole, const char *before) {
    enum { FIRST = 10, LAST = 24, STRIDE = 8 };
    char call[1024], again[1024];
    const char *all = getenv("SNUG_TEST_LONG");
    snprintf(call, sizeof call, "%s --out killed %s", line, more);
    snprintf(again, sizeof again, "%s --out killed %s", line, *more ? more : "--resume");
    assert_int_equal(system("rm -rf killed"), 0);
    if (before) assert_int_equal(system(before), 0);
    assert_int_equal(start(call, -1), 0);
    char *count = text_of("calls");
    long calls = atol(count), kills = 0;
    free(count);
    assert_true(calls > FIRST + LAST);
    for (long at = 0; at < calls + 2; at++) {
        if (!(all && atoi(all)) && at > FIRST && at < calls - LAST && at % STRIDE) continue;
        assert_int_equal(system("rm -rf killed"), 0);
        if (before) assert_int_equal(system(before), 0);
        kills += start(call, at) == -1;
        int code = start(again, -1);
        char *said = text_of("said");
        if (code != 0 && !(code == 2 && strstr(said, "it is finished"))) /* it was killed behind its end */
            fail_msg("killed at call %ld, resuming: exit %d, %s", at, code, said);
        free(said);
        assert_same(whole, "killed", at);
    }
    print_message("%ld kills among %ld calls\n", kills, calls);
    assert_true(kills > FIRST + LAST);
}

static void with_checkpoints(void **state) {
    (void)state;
    kill_everywhere(RUN "--save-every 2", "", "saved", NULL);
}

static void without_checkpoints(void **state) {
    (void)state;
    kill_everywhere(RUN "--save-every off", "", "bare", NULL);
}

/* Begun in a folder of its own from another's checkpoint. */
static void going_on_elsewhere(void **state) {
    (void)state;
    assert_int_equal(start(RUN "--save-every off --out elsewhere --resume saved/checkpoint-4", -1), 0);
    kill_everywhere(RUN "--save-every off", "--resume saved/checkpoint-4", "elsewhere", NULL);
}

/* Where it has ended before there are a checkpoint, a model and a report of that. */
static void after_an_end(void **state) {
    (void)state;
    assert_int_equal(system("rm -rf ended longer"), 0);
    assert_int_equal(start(RUN "--save-every 2 --schedule constant --out ended", -1), 0);
    const char *longer =
        "train tiny --data text --steps 7 --batch 4 --eval-every 2 --eval-samples 2 --threads 2 "
        "--quiet --keep 2 --micro-batch 4 --save-every 2 --schedule constant";
    char line[512];
    assert_int_equal(system("cp -r ended longer"), 0);
    snprintf(line, sizeof line, "%s --out longer --resume", longer);
    assert_int_equal(start(line, -1), 0);
    kill_everywhere(longer, "--resume", "longer", "cp -r ended killed");
}

static int open_files(void **state) {
    int failed = scratch_open(state);
    if (failed) return failed;
    command_make_files();
    failed = start(RUN "--save-every 2 --out saved", -1);
    return failed ? failed : start(RUN "--save-every off --out bare", -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_checkpoints),
        cmocka_unit_test(without_checkpoints),
        cmocka_unit_test(going_on_elsewhere),
        cmocka_unit_test(after_an_end),
    };
    return cmocka_run_group_tests_name("kills", tests, open_files, scratch_close);
}
