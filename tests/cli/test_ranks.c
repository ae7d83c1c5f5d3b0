/* Several processes that train together, as a user starts them: the same bits as one, planned and measured
 * bytes equal on each of them, one sentence where something is wrong. Left out where there is no MPI. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/command.h"
#include "io/scratch.h"

static int make_files(void **state) {
    if (scratch_open(state) != 0) return -1;
    command_make_files();
    static const char *const names[] = { "OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) setenv(names[i], "1", 1);
    setenv("SNUG_RATES", "built-in", 1);
    /* MPI keeps some memory to the end of a process, which is no finding of ours. */
    char asan[512];
    const char *before = getenv("ASAN_OPTIONS");
    snprintf(asan, sizeof asan, "%s%sdetect_leaks=0", before ? before : "", before ? ":" : "");
    setenv("ASAN_OPTIONS", asan, 1);
    return 0;
}

static bool left_out(void) {
    bool there =
        access(SNUG_BUILD "/snug-mpi.so", R_OK) == 0 && system("mpirun --version >/dev/null 2>&1") == 0;
    if (!there) print_message("no MPI: left out\n");
    return !there;
}

/* The exit code of `ranks` processes; what they say is in the file "said". */
static int start(int ranks, const char *line) {
    char whole[1400];
    snprintf(whole, sizeof whole,
             "timeout -k 5 120 mpirun --oversubscribe -n %d " SNUG_BUILD "/snug %s >said 2>&1 </dev/null",
             ranks, line);
    int code = system(whole);
    return WIFEXITED(code) ? WEXITSTATUS(code) : -1;
}

static char *said(void) {
    static char all[16384];
    FILE *file = fopen("said", "r");
    size_t n = file ? fread(all, 1, sizeof all - 1, file) : 0;
    if (file) fclose(file);
    all[n] = 0;
    return all;
}

static int times(const char *all, const char *words) {
    int count = 0;
    for (const char *at = all; (at = strstr(at, words)); at++) count++;
    return count;
}

/* ---- the same run ---- */

static void same_losses(const char *a, const char *b) {
    json_document one, other;
    char path[200];
    size_t count, others;
    double x, y;
    snprintf(path, sizeof path, "%s/run.json", a);
    assert_int_equal(json_open(path, &one), STATUS_OK);
    snprintf(path, sizeof path, "%s/run.json", b);
    assert_int_equal(json_open(path, &other), STATUS_OK);
    json_value losses = command_value(&one, "losses"), more = command_value(&other, "losses");
    assert_int_equal(json_as_array(losses, &count), STATUS_OK);
    assert_int_equal(json_as_array(more, &others), STATUS_OK);
    assert_int_equal(count, others);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(json_as_number(json_item(losses, i), -1e300, 1e300, &x), STATUS_OK);
        assert_int_equal(json_as_number(json_item(more, i), -1e300, 1e300, &y), STATUS_OK);
        if (memcmp(&x, &y, sizeof x) != 0) fail_msg("%s: loss %zu is %.9g, and %.9g in %s", b, i, y, x, a);
    }
    json_close(&one);
    json_close(&other);
}

/* Every rank kept to its plan, and that to what all said. */
static void kept_to_plans(const char *folder, int ranks) {
    json_document d;
    char path[200];
    snprintf(path, sizeof path, "%s/run.json", folder);
    assert_int_equal(json_open(path, &d), STATUS_OK);
    assert_int_equal(command_number(&d, "world"), ranks);
    json_value rows = command_value(&d, "ranks");
    size_t count;
    assert_int_equal(json_as_array(rows, &count), STATUS_OK);
    assert_int_equal(count, ranks);
    uint64_t planned = command_number(&d, "predicted.peak_bytes");
    for (int r = 0; r < ranks; r++) {
        int64_t predicted, measured;
        bool equal = false;
        assert_int_equal(
            json_get_integer(json_item(rows, (size_t)r), "predicted_bytes", 1, INT64_MAX, &predicted),
            STATUS_OK);
        assert_int_equal(
            json_get_integer(json_item(rows, (size_t)r), "measured_bytes", 1, INT64_MAX, &measured),
            STATUS_OK);
        assert_int_equal(json_get_bool(json_item(rows, (size_t)r), "equal", &equal), STATUS_OK);
        if (!equal) fail_msg("%s: bytes of rank %d are not as planned", folder, r);
        assert_int_equal(predicted, planned);
        if (measured > predicted)
            fail_msg("%s: rank %d has taken %lld bytes, and %lld were planned", folder, r,
                     (long long)measured, (long long)predicted);
    }
    json_close(&d);
}

static void same_as_one(const char *options) {
    static const int worlds[] = { 2, 4 };
    char line[1200];
    command_shell("rm -rf one several");
    snprintf(line, sizeof line, "train %s --data text --out one --threads 1 --quiet", options);
    command_expect(0, line);
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
        command_shell("rm -rf several");
        snprintf(line, sizeof line, "train %s --data text --out several --threads 1 --quiet", options);
        int code = start(worlds[i], line);
        if (code) fail_msg("%d ranks: %s: exit %d: %s", worlds[i], line, code, said());
        same_losses("one", "several");
        if (system("cmp -s one/model.safetensors several/model.safetensors") != 0)
            fail_msg("%d ranks: %s: other weights", worlds[i], options);
        kept_to_plans("several", worlds[i]);
    }
}

static void the_bits_of_one_process(void **state) {
    (void)state;
    if (left_out()) return;
    same_as_one(
        "char-small --context 64 --steps 3 --batch 8 --unit 2 --dropout 0.1 --eval-samples 4 --exact");
    same_as_one(
        "char-small --steps 3 --batch 8 --unit 2 --micro-batch 1 --dropout 0.1 --eval-samples 2 --exact");
    same_as_one(
        "char-small --context 64 --steps 3 --batch 16 --unit 2 --precision mixed-bf16 --eval-samples 2 "
        "--attention off --micro-batch 2");
    same_as_one("char-small --context 64 --steps 3 --batch 8 --unit 1 --optimizer sgd --clip off "
                "--recompute block --eval-samples 2 --exact");
    same_as_one(
        "tiny/config.json --steps 4 --batch 12 --unit 3 --optimizer adafactor --eval-every 2 --exact");
}

/* At the least budget that is planned for so many, each keeps to it; with less it is refused. */
static void least_budgets(void **state) {
    (void)state;
    static const char *const of =
        "char-small --batch 8 --unit 2 --threads 1 --exact --eval-samples 2 --data text";
    char line[600];
    if (left_out()) return;
    for (int ranks = 2; ranks <= 4; ranks *= 2) {
        snprintf(line, sizeof line, "plan %s --json --quiet --ranks %d", of, ranks);
        unsigned long long least = command_least_budget(line);
        command_shell("rm -rf several");
        snprintf(line, sizeof line, "train %s --out several --steps 2 --quiet --memory %llu", of, least);
        if (start(ranks, line)) fail_msg("%d ranks in %llu bytes: %s", ranks, least, said());
        kept_to_plans("several", ranks);
        snprintf(line, sizeof line, "train %s --out none --steps 2 --quiet --memory %llu", of,
                 least - (1 << 16));
        int code = start(ranks, line);
        if (code != 3) fail_msg("%d ranks in less: exit %d: %s", ranks, code, said());
    }
}

/* ---- a run's life ---- */

static const char *const usual =
    "tiny --data text --batch 8 --unit 2 --eval-samples 2 --threads 1 --exact --quiet "
    "--save-every 2";

static void other_ranks_go_on(void **state) {
    (void)state;
    char line[600];
    static const int next[] = { 1, 4 };
    if (left_out()) return;
    command_shell("rm -rf whole begun");
    snprintf(line, sizeof line, "train %s --steps 6 --out whole --schedule constant", usual);
    command_expect(0, line);
    snprintf(line, sizeof line, "train %s --steps 4 --out begun --schedule constant", usual);
    assert_int_equal(start(2, line), 0);
    for (size_t i = 0; i < sizeof next / sizeof *next; i++) {
        command_shell("rm -rf went && cp -r begun went");
        snprintf(line, sizeof line, "train %s --steps 6 --out went --schedule constant --resume", usual);
        if (start(next[i], line)) fail_msg("%d ranks don't go on: %s", next[i], said());
        same_losses("whole", "went");
        command_shell("cmp whole/model.safetensors went/model.safetensors");
    }
}

/* Whoever is killed, the others don't wait for it, and its last checkpoint is whole. */
static void one_is_killed(void **state) {
    (void)state;
    char line[600];
    if (left_out()) return;
    command_shell("rm -rf killed");
    snprintf(line, sizeof line,
             "(sleep 3; kill -9 $(pgrep -n -f '^[^ ]*/snug train .*--out killed')) & timeout -k 5 60 mpirun "
             "--oversubscribe -n 2 " SNUG_BUILD
             "/snug train %s --steps 100000 --out killed >said 2>&1 </dev/null",
             usual);
    double before = clock_seconds();
    assert_int_not_equal(system(line), 0);
    double took = clock_seconds() - before;
    if (took > 3 + 6) fail_msg("the others were gone after %.1f s", took - 3);
    assert_int_not_equal(system("pgrep -f '^[^ ]*/snug train .*--out killed' >/dev/null"), 0);
    command_shell("ls killed | grep -q '^checkpoint-[0-9]*$'");
}

/* One that is alive and does nothing is named, and nobody waits for it for ever. */
static void one_is_stopped(void **state) {
    (void)state;
    char line[700];
    if (left_out()) return;
    command_shell("rm -rf stopped");
    snprintf(
        line, sizeof line,
        "(sleep 3; kill -STOP $(pgrep -n -f '^[^ ]*/snug train .*--out stopped')) & timeout -k 5 60 mpirun "
        "--oversubscribe -n 2 " SNUG_BUILD
        "/snug train %s --steps 100000 --rank-timeout 2 --out stopped >said 2>&1 </dev/null",
        usual);
    double before = clock_seconds();
    int code = system(line);
    double took = clock_seconds() - before;
    if (!WIFEXITED(code) || WEXITSTATUS(code) != 1 || took > 3 + 2 + 6)
        fail_msg("exit %d after %.1f s: %s", code, took, said());
    if (!command_has_words(said(), "has been waited for for 2 s (--rank-timeout)") ||
        times(said(), "snug: ") != 1)
        fail_msg("%s", said());
    assert_int_not_equal(system("pgrep -f '^[^ ]*/snug train .*--out stopped' >/dev/null"), 0);
}

/* ---- what is refused ---- */

static void refused(int ranks, const char *line, int code, const char *words) {
    int is = start(ranks, line);
    int lines = times(said(), "snug: ");
    if (is != code || lines != 1 || !command_has_words(said(), words))
        fail_msg("%d ranks, %s: exit %d, and %d sentences: %s", ranks, line, is, lines, said());
}

static void one_sentence(void **state) {
    (void)state;
    if (left_out()) return;
    refused(2, "train tiny --data text --out no --batch 8", 2, "2 ranks need --unit N");
    refused(2, "train tiny --data text --out no --batch 8 --unit 8", 2,
            "1 unit of 8 samples, which 2 ranks can't");
    refused(3, "train tiny --data text --out no --batch 8 --unit 2", 2,
            "4 units of 2 samples, which 3 ranks can't");
    refused(2, "train tiny --data text --out no --batch 8 --unit 3", 2, "is no whole number of such units");
    refused(2, "train tiny --data gone --out no --batch 8 --unit 2", 2, "gone");
    refused(2, "train tiny --data text --out no --batch 8 --unit 2 --memory 1MiB", 3,
            "tiny does not fit 1.0 MiB");
    refused(2, "train tiny --data text --batch 8 --unit 2", 2, "train wants --out");
    refused(2, "train tiny --data text --out no --batch 8 --unit 2 --sharding weights", 2, "don't exist yet");
    refused(2, "train tiny --data text --out no --batch 8 --unit 2 --sharding off", 2, "--sharding off");
    refused(2, "train tiny --data text --eval-only --batch 8 --unit 2", 2, "--eval-only is of one process");
    refused(2, "train char-small --data text --out no --batch 8 --unit 2 --offload gradients --offload-to .",
            2, "gradients of several ranks travel");
    refused(2, "plan tiny --batch 8 --unit 2", 2, "mpirun started 2 processes, and plan is of one");
    assert_int_not_equal(access("no", F_OK), 0);
}

static void launchers_without_mpi(void **state) {
    (void)state;
    static const char *const torchrun[] = { "RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=here", NULL };
    command_result r = command_run_with("train tiny --data text --out no --batch 8 --unit 2", torchrun);
    assert_int_equal(r.exit, 2);
    assert_true(
        command_has_words(r.err, "torchrun started 2 processes; on a CPU ranks speak to each other by MPI"));
    command_free(&r);
    static const char *const second[] = { "RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=here", NULL };
    r = command_run_with("train tiny --data text --out no --batch 8 --unit 2", second);
    assert_int_equal(r.exit, 2);
    assert_true(command_has_words(r.err, "torchrun started 2 processes"));
    command_free(&r);
    r = command_run_with("plan tiny --batch 8 --quiet --json", second); /* a container has such variables */
    assert_int_equal(r.exit, 0);
    assert_non_null(strstr(r.out, "predicted"));
    command_free(&r);
    static const char *const slurm[] = { "SLURM_STEP_NUM_TASKS=2", "SLURM_PROCID=0", NULL };
    r = command_run_with("plan tiny --batch 8 --quiet --json",
                         slurm); /* a shell in a step of several tasks */
    assert_int_equal(r.exit, 0);
    command_free(&r);
    r = command_run_with("train tiny --data text --out no --batch 8 --unit 2", slurm);
    assert_int_equal(r.exit, 2);
    assert_true(command_has_words(r.err, "say srun --mpi=pmix"));
    command_free(&r);
}

/* ---- planned with nobody there ---- */

static void plans_for_ranks(void **state) {
    (void)state;
    static const char *const line =
        "char-small --batch 8 --unit 2 --threads 1 --exact --json --quiet --ranks";
    char whole[300];
    uint64_t before = 0;
    for (int ranks = 1; ranks <= 4; ranks *= 2) {
        snprintf(whole, sizeof whole, "plan %s %d", line, ranks);
        uint64_t gradients = command_asked(whole, "predicted.by_category.gradients");
        assert_int_equal(command_asked(whole, "world"), ranks);
        assert_true(gradients > 0);
        if (ranks > 1)
            assert_int_equal(command_asked(whole, "transport_bytes"), (14 << 20) + (ranks - 1) * (128 << 10));
        if (ranks > 1) assert_true(gradients < before); /* sums of units are shares */
        before = gradients;
    }
    if (left_out()) return;
    command_shell("rm -rf several");
    assert_int_equal(
        start(2, "train char-small --batch 8 --unit 2 --threads 1 --exact --quiet --data text --steps 1 "
                 "--out several --eval-samples 64"),
        0);
    kept_to_plans("several", 2);
    assert_true(
        command_says("compare tiny --batch 8 --unit 2 --ranks 2 --measure", 2, "--measure runs one process"));
    command_expect(0, "compare tiny --batch 8 --unit 2 --ranks 2 --quiet");
    assert_true(command_says("plan tiny --batch 8 --unit 2 --micro-batch 2 --ranks 2", 0,
                             "2 micro-batches of 2 on each of 2 ranks, in units of 2"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bits_of_one_process), cmocka_unit_test(least_budgets),
        cmocka_unit_test(other_ranks_go_on),       cmocka_unit_test(one_sentence),
        cmocka_unit_test(launchers_without_mpi),   cmocka_unit_test(plans_for_ranks),
        cmocka_unit_test(one_is_killed),           cmocka_unit_test(one_is_stopped),
    };
    return cmocka_run_group_tests(tests, make_files, scratch_close);
}
