/* Several processes write files of their own, where a model is large enough: checkpoints and the model at the
 * end, whose tensors have the bits of one process, that any number of processes goes on from, and that
 * whatever ends a process leaves alone. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/command.h"
#include "cli/several.h"
#include "io/lock.h"
#include "io/safetensors.h"
#include "io/scratch.h"

/* 45 MiB of weights: two files, and of its states four. */
static const char config[] = "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 4, \"n_embd\": 640, "
                             "\"n_positions\": 16, \"vocab_size\": 3000}\n";
static const char usual[] = "train large --data text --context 16 --batch 8 --unit 1 --save-every 2 "
                            "--eval-samples 2 --threads 1 --exact --quiet --schedule constant";

static int open_all(void **state) {
    if (several_open(state) != 0) return -1;
    mkdir("large", 0700);
    scratch_write("large/config.json", config, sizeof config - 1);
    return 0;
}

/* Two steps, of which the checkpoint stays; and four by one process. */
static void have_begun(void) {
    char line[400];
    if (access("whole/run.json", F_OK) == 0) return;
    snprintf(line, sizeof line, "%s --steps 4 --out whole", usual);
    command_expect(0, line);
    snprintf(line, sizeof line, "%s --steps 2 --out begun --sharding weights", usual);
    if (several_start(4, line)) fail_msg("%s", several_said());
}

/* ---- what is in them ---- */

static void same_files(const char *folder) {
    several_same_tensors("whole", folder, "model.safetensors", "model.safetensors.index.json");
    several_same_tensors("whole", folder, "checkpoint-4/model.safetensors",
                         "checkpoint-4/model.safetensors.index.json");
    several_same_tensors("whole", folder, "checkpoint-4/optimizer.safetensors",
                         "checkpoint-4/optimizer.safetensors.index.json");
}

static void has_files(const char *folder, const char *pattern, int count) {
    char line[300];
    snprintf(line, sizeof line, "[ $(ls %s | grep -c '%s') = %d ]", folder, pattern, count);
    if (system(line) != 0) {
        snprintf(line, sizeof line, "ls -lR %s >&2", folder);
        command_shell(line);
        fail_msg("%s has not %d files %s", folder, count, pattern);
    }
}

/* Whole and shared, in memory and in a file; two write, and four of which two have none of the model. */
static void each_writes_files_of_its_own(void **state) {
    (void)state;
    static const struct {
        int ranks;
        const char *with;
    } cases[] = { { 2, "--sharding copies" },
                  { 4, "--sharding weights" },
                  { 2, "--sharding weights --offload optimizer --offload-to away" } };
    if (several_left_out()) return;
    have_begun();
    mkdir("away", 0700);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[500];
        command_shell("rm -rf several");
        snprintf(line, sizeof line, "%s --steps 4 --out several %s", usual, cases[i].with);
        if (several_start(cases[i].ranks, line)) fail_msg("%s: %s", cases[i].with, several_said());
        several_kept_to_plans("several", cases[i].ranks);
        several_same_losses("whole", "several");
        same_files("several");
        has_files("several", "^model-0000.-of-00002.safetensors$", 2);
        has_files("several/checkpoint-4", "^model-0000.-of-00002.safetensors$", 2);
        has_files("several/checkpoint-4", "^optimizer-0000.-of-0000..safetensors$", cases[i].ranks);
        has_files("several", "partial", 0);
    }
}

/* ---- going on ---- */

/* A model of several files takes the place of one, and one that of several. */
static void any_ranks_go_on(void **state) {
    (void)state;
    static const int next[] = { 1, 2, 8 };
    if (several_left_out()) return;
    have_begun();
    for (size_t i = 0; i < sizeof next / sizeof *next; i++) {
        char line[400];
        command_shell("rm -rf went && cp -r begun went");
        snprintf(line, sizeof line, "%s --steps 4 --out went --resume", usual);
        if (several_start(next[i], line)) fail_msg("%d ranks don't go on: %s", next[i], several_said());
        several_same_losses("whole", "went");
        if (next[i] > 1) same_files("went");
        if (next[i] == 1) several_same_tensors("whole", "went", "model.safetensors", "model.safetensors");
        has_files("went", "^model", next[i] == 1 ? 1 : 3);
    }
    command_shell("rm -rf went && cp -r whole went && rm -r went/checkpoint-4 went/run.json");
    char line[400];
    snprintf(line, sizeof line, "%s --steps 4 --out went --resume", usual);
    if (several_start(2, line)) fail_msg("one process: %s", several_said());
    same_files("went");
    has_files("went", "^model", 3);
    snprintf(line, sizeof line, "%s --steps 2 --out went --overwrite", usual);
    command_expect(0, line);
    has_files("went", "^model", 1);
}

/* A byte of any of its files: the checkpoint before is taken. */
static void damage_is_seen(void **state) {
    (void)state;
    static const char *const files[] = { "model-00002-of-00002.safetensors", "model.safetensors.index.json",
                                         "optimizer-00003-of-00004.safetensors",
                                         "optimizer.safetensors.index.json" };
    if (several_left_out()) return;
    have_begun();
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char line[600];
        command_shell("rm -rf hurt && mkdir hurt && cp -r begun/checkpoint-2 hurt");
        snprintf(line, sizeof line, "printf x | dd of=hurt/checkpoint-2/%s bs=1 seek=99 conv=notrunc 2>said",
                 files[i]);
        command_shell(line);
        snprintf(line, sizeof line, "%s --steps 4 --out no --resume hurt", usual);
        several_refused(2, line, 2, files[i]);
        snprintf(line, sizeof line, "rm hurt/checkpoint-2/%s", files[i]);
        command_shell(line);
        snprintf(line, sizeof line, "%s --steps 4 --out no --resume hurt", usual);
        several_refused(2, line, 2, files[i]);
    }
    assert_int_not_equal(access("no", F_OK), 0);
}

/* ---- what goes wrong ---- */

/* The checkpoint before is intact, and nothing else is left; one process goes on from there. */
static void goes_on(const char *folder, const char *after) {
    char line[400];
    snprintf(line, sizeof line, "%s --steps 4 --out %s --resume", usual, folder);
    if (several_start(1, line)) fail_msg("%s: nobody goes on: %s", after, several_said());
    several_same_losses("whole", folder);
    several_same_tensors("whole", folder, "", "");
    has_files(folder, "partial\\|removed\\|before", 0);
}

/* Rank 0 or another can't write more than a part of its file of the checkpoint. */
static void a_full_disk(int full, const char *with) {
    char whole[2000], words[100];
    size_t n = 0;
    command_shell("rm -rf full && cp -r begun full");
    for (int r = 0; r < 2; r++)
        n += (size_t)snprintf(whole + n, sizeof whole - n,
                              "%s-n 1 sh -c '%sexec " SEVERAL_SNUG " %s --steps 4 --out full --resume "
                              "--rank-timeout 20 %s'",
                              r ? " : " : "", r == full ? "ulimit -f 30000; " : "", usual, with);
    double begun = clock_seconds();
    int code = several_start_whole(whole);
    snprintf(words, sizeof words, "rank %d on ", full);
    if (code != 1 || several_times(several_said(), "snug: ") != 1 || strstr(several_said(), "can't reach") ||
        !command_has_words(several_said(), words) || !strstr(several_said(), "safetensors"))
        fail_msg("rank %d, %s: exit %d: %s", full, with, code, several_said());
    if (clock_seconds() - begun > 30) fail_msg("rank %d: after %.0f s", full, clock_seconds() - begun);
    has_files("full", "^checkpoint-2$", 1);
    has_files("full", "^checkpoint-4\\|partial", 0);
    goes_on("full", "a full disk");
}

/* Rank 1 fails at once, and rank 0 would at 40 MiB of a file of 45: it hears of rank 1 before that, also
 * where nothing is shared. */
static void others_stop_soon(void **state) {
    (void)state;
    static const char *const shares[] = { "copies", "weights" };
    char whole[1000];
    if (several_left_out()) return;
    have_begun();
    for (int i = 0; i < 2; i++) {
        size_t n = 0;
        command_shell("rm -rf full && cp -r begun full");
        for (int r = 0; r < 2; r++) /* blocks of 512 bytes */
            n += (size_t)snprintf(whole + n, sizeof whole - n,
                                  "%s-n 1 sh -c 'ulimit -f %d; exec " SEVERAL_SNUG
                                  " %s --steps 4 --out full --resume --sharding %s'",
                                  r ? " : " : "", r ? 200 : 40 * 2048, usual, shares[i]);
        int code = several_start_whole(whole);
        if (code != 1 || !command_has_words(several_said(), "rank 1 on "))
            fail_msg("%s: exit %d: %s", shares[i], code, several_said());
    }
}

static void a_full_disk_on_one_rank(void **state) {
    (void)state;
    if (several_left_out()) return;
    have_begun();
    a_full_disk(1, "--sharding copies");
    a_full_disk(1, "--sharding weights");
    a_full_disk(0, "--sharding weights");
}

/* How many calls that change a file a rank makes from that checkpoint to the end. */
static long calls_of(int rank) {
    char whole[2000];
    long count = 0;
    size_t n = 0;
    command_shell("rm -rf killed && cp -r begun killed");
    for (int r = 0; r < 2; r++)
        n += (size_t)snprintf(whole + n, sizeof whole - n,
                              "%s-n 1 env %s " SNUG_BUILD "/snug-killed %s --steps 4 --out killed --resume",
                              r ? " : " : "", r == rank ? "KILL_COUNT=count" : "A=1", usual);
    if (several_start_whole(whole)) fail_msg("%s", several_said());
    FILE *file = fopen("count", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld", &count), 1);
    fclose(file);
    return count;
}

/* Killed at some of the calls that change a file, spread over those of the last checkpoint and of the model:
 * the checkpoint before, or that one, is intact, and whoever goes on ends with the bits of one process. */
static void kills(int rank) {
    enum { KILLS = 5 };
    long calls = calls_of(rank);
    assert_true(calls > KILLS);
    for (long k = 0; k < KILLS; k++) {
        char whole[2000], when[100];
        size_t n = 0;
        long call = calls - 1 - k * (calls - 1) / KILLS - (k ? k % 3 : 0);
        snprintf(when, sizeof when, "rank %d killed at call %ld of %ld", rank, call, calls);
        command_shell("rm -rf killed && cp -r begun killed");
        for (int r = 0; r < 2; r++)
            n += (size_t)snprintf(whole + n, sizeof whole - n,
                                  "%s-n 1 env KILL_CALL=%ld " SNUG_BUILD
                                  "/snug-killed %s --steps 4 --out killed --resume",
                                  r ? " : " : "", r == rank ? call : -1, usual);
        double begun = clock_seconds();
        int code = several_start_whole(whole);
        if (!code || code == 2 || code == 3) fail_msg("%s: exit %d: %s", when, code, several_said());
        if (clock_seconds() - begun > 20) fail_msg("%s: %.0f s", when, clock_seconds() - begun);
        several_all_gone("killed", 5);
        goes_on("killed", when);
    }
}

static void one_is_killed_as_it_writes(void **state) {
    (void)state;
    if (several_left_out()) return;
    have_begun();
    kills(0);
    kills(1);
}

/* What stands in the place of a file of the end is found before the first step. */
static void obstacles_are_found_early(void **state) {
    (void)state;
    static const char *const names[] = { "model.safetensors.index.json", "model-00002-of-00002.safetensors",
                                         "model.safetensors", "best/model-00001-of-00002.safetensors" };
    char line[400];
    if (several_left_out()) return;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(line, sizeof line, "rm -rf stands && mkdir -p stands/%s", names[i]);
        command_shell(line);
        snprintf(line, sizeof line, "%s --steps 2 --out stands --keep-best", usual);
        several_refused(2, line, 2, names[i]);
        command_shell("[ ! -e stands/metrics.jsonl ]");
    }
    command_shell("rm -rf stands && mkdir stands && touch stands/model.partial");
    snprintf(line, sizeof line, "%s --steps 2 --out stands", usual);
    several_refused(2, line, 2, "stands/model.partial is no folder");
}

/* A rank whose folder of the network lags: it sees the checkpoint, and of the validations before the first
 * alone. All go by what rank 0 has read, and stop at the same step. */
static void a_history_is_that_of_rank_0(void **state) {
    (void)state;
    char here[200], whole[2000];
    static const char of[] = "train tiny --data text --batch 8 --unit 2 --threads 1 --exact --quiet "
                             "--eval-samples 2 --eval-every 1 --save-every 2 --schedule constant --lr 3 "
                             "--rank-timeout 20 --out mine --patience 3";
    if (several_left_out()) return;
    assert_non_null(getcwd(here, sizeof here));
    command_shell("rm -rf at0 at1 && mkdir at0 at1 && cp -r tiny text at0 && cp -r tiny text at1");
    snprintf(whole, sizeof whole, "-n 2 -wdir %s/at0 " SEVERAL_SNUG " %s --steps 2", here, of);
    if (several_start_whole(whole)) fail_msg("%s", several_said());
    command_shell("rm at0/mine/run.json; mkdir at1/mine && for f in $(ls at0/mine) " LOCK_OF_FOLDER "; do "
                  "ln -s $PWD/at0/mine/$f at1/mine; done; rm at1/mine/metrics.jsonl; "
                  "head -n 2 at0/mine/metrics.jsonl >at1/mine/metrics.jsonl");
    snprintf(whole, sizeof whole,
             "-n 1 -wdir %s/at0 " SEVERAL_SNUG " %s --steps 20 --resume : -n 1 -wdir %s/at1 " SEVERAL_SNUG
             " %s --steps 20 --resume",
             here, of, here, of);
    int code = several_start_whole(whole);
    if (code) fail_msg("exit %d: %s", code, several_said());
    command_shell("grep -q '\"stopped_early\": true' at0/mine/run.json");
}

/* Each rank in a folder of its own, with a path that is not one for all. */
static void one_folder_for_all(void **state) {
    (void)state;
    char here[200], whole[2000];
    if (several_left_out()) return;
    assert_non_null(getcwd(here, sizeof here));
    command_shell("rm -rf at0 at1 && mkdir at0 at1 && cp -r tiny text at0 && cp -r tiny text at1");
    for (int there = 0; there < 2; there++) { /* rank 1 has no such folder, or another one */
        static const char of[] = "train tiny --data text --batch 8 --unit 2 --threads 1 --quiet --out mine";
        if (there) command_shell("mkdir at1/mine");
        snprintf(whole, sizeof whole,
                 "-n 1 -wdir %s/at0 " SEVERAL_SNUG " %s : -n 1 -wdir %s/at1 " SEVERAL_SNUG " %s", here, of,
                 here, of);
        int code = several_start_whole(whole);
        if (code != 2 || several_times(several_said(), "snug: ") != 1 ||
            !command_has_words(several_said(), "--out mine is not the folder that rank 0 writes to"))
            fail_msg("exit %d: %s", code, several_said());
        if (there) command_shell("rmdir at1/mine");
        assert_int_not_equal(access("at1/mine", F_OK), 0);
        command_shell("[ -z \"$(ls at0/mine)\" ]"); /* nothing was begun */
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_writes_files_of_its_own),
        cmocka_unit_test(any_ranks_go_on),
        cmocka_unit_test(damage_is_seen),
        cmocka_unit_test(a_full_disk_on_one_rank),
        cmocka_unit_test(others_stop_soon),
        cmocka_unit_test(obstacles_are_found_early),
        cmocka_unit_test(a_history_is_that_of_rank_0),
        cmocka_unit_test(one_is_killed_as_it_writes),
        cmocka_unit_test(one_folder_for_all),
    };
    return cmocka_run_group_tests(tests, open_all, several_close);
}
