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
#include "cli/several.h"
#include "io/scratch.h"

static void same_as_one(const char *options) {
    static const int worlds[] = { 2, 4 };
    char line[1200];
    command_shell("rm -rf one several");
    snprintf(line, sizeof line, "train %s --data text --out one --threads 1 --quiet", options);
    command_expect(0, line);
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
        command_shell("rm -rf several");
        snprintf(line, sizeof line, "train %s --data text --out several --threads 1 --quiet", options);
        int code = several_start(worlds[i], line);
        if (code) fail_msg("%d ranks: %s: exit %d: %s", worlds[i], line, code, several_said());
        several_same_losses("one", "several");
        if (system("cmp -s one/model.safetensors several/model.safetensors") != 0)
            fail_msg("%d ranks: %s: other weights", worlds[i], options);
        several_kept_to_plans("several", worlds[i]);
    }
}

static void the_bits_of_one_process(void **state) {
    (void)state;
    if (several_left_out()) return;
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

/* Buffer by buffer: bytes, category, first and last kernel. */
static void each_buffer_is_observed_as_planned(void **state) {
    (void)state;
    static const char *const shares[] = { "", "--sharding optimizer", "--sharding weights" };
    char line[400];
    if (several_left_out()) return;
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        command_shell("rm -rf several page.html");
        snprintf(line, sizeof line,
                 "train char-small --context 64 --steps 2 --batch 4 --unit 1 --eval-samples 2 %s "
                 "--data text --out several --html page.html --threads 1 --quiet",
                 shares[i]);
        if (several_start(2, line)) fail_msg("%s: %s", line, several_said());
        command_shell("grep -q 'Observed: all [0-9]* buffers of the programs that ran' page.html");
    }
}

/* At the least budget that is planned for so many, each keeps to it; with less it is refused. */
static void least_budgets(void **state) {
    (void)state;
    static const char *const of =
        "char-small --batch 8 --unit 2 --threads 1 --exact --eval-samples 2 --data text";
    char line[600];
    if (several_left_out()) return;
    for (int ranks = 2; ranks <= 4; ranks *= 2) {
        snprintf(line, sizeof line, "plan %s --json --quiet --ranks %d", of, ranks);
        unsigned long long least = command_least_budget(line);
        command_shell("rm -rf several");
        snprintf(line, sizeof line, "train %s --out several --steps 2 --quiet --memory %llu", of, least);
        if (several_start(ranks, line)) fail_msg("%d ranks in %llu bytes: %s", ranks, least, several_said());
        several_kept_to_plans("several", ranks);
        snprintf(line, sizeof line, "train %s --out none --steps 2 --quiet --memory %llu", of,
                 least - (1 << 16));
        int code = several_start(ranks, line);
        if (code != 3) fail_msg("%d ranks in less: exit %d: %s", ranks, code, several_said());
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
    if (several_left_out()) return;
    command_shell("rm -rf whole begun");
    snprintf(line, sizeof line, "train %s --steps 6 --out whole --schedule constant", usual);
    command_expect(0, line);
    snprintf(line, sizeof line, "train %s --steps 4 --out begun --schedule constant", usual);
    assert_int_equal(several_start(2, line), 0);
    for (size_t i = 0; i < sizeof next / sizeof *next; i++) {
        command_shell("rm -rf went && cp -r begun went");
        snprintf(line, sizeof line, "train %s --steps 6 --out went --schedule constant --resume", usual);
        if (several_start(next[i], line)) fail_msg("%d ranks don't go on: %s", next[i], several_said());
        several_same_losses("whole", "went");
        command_shell("cmp whole/model.safetensors went/model.safetensors");
    }
}

/* A line of the shell that sends one of the processes of a run a signal behind its third step, and writes
 * into "when" at what time it did. */
#define SIGNAL_ONE(signal, folder)                                                                           \
    "(for i in $(seq 600); do grep -qs '\"step\": 3,' " folder                                               \
    "/metrics.jsonl && break; sleep 0.05; done; kill -" signal                                               \
    " " SEVERAL_ONE(folder) "; date +%%s.%%N >when) & "

/* Seconds since then. */
static double since_signal(void) {
    double when = 0;
    FILE *file = fopen("when", "r");
    int read = file ? fscanf(file, "%lf", &when) : 0;
    if (file) fclose(file);
    if (read != 1) fail_msg("nothing was sent: %s", several_said());
    return clock_today() - when;
}

/* Whoever is killed, the others don't wait for it, and its last checkpoint is whole. */
static void one_is_killed(void **state) {
    (void)state;
    char line[600];
    if (several_left_out()) return;
    command_shell("rm -rf killed when");
    snprintf(line, sizeof line,
             SIGNAL_ONE("9", "killed") "timeout -k 5 60 mpirun --oversubscribe -n 2 " SNUG_BUILD
                                       "/snug train %s --steps 100000 --out killed >said 2>&1 "
                                       "</dev/null",
             usual);
    assert_int_not_equal(system(line), 0);
    double took = since_signal();
    if (took > 6) fail_msg("the others were gone after %.1f s", took);
    several_all_gone("killed", 5);
    command_shell("ls killed | grep -q '^checkpoint-[0-9]*$'");
}

/* One that is alive and does nothing is named, and nobody waits for it for ever. */
static void one_is_stopped(void **state) {
    (void)state;
    char line[700];
    if (several_left_out()) return;
    command_shell("rm -rf stopped when");
    snprintf(line, sizeof line,
             SIGNAL_ONE("STOP", "stopped") "timeout -k 5 60 mpirun --oversubscribe -n 2 " SNUG_BUILD
                                           "/snug train %s --steps 100000 --rank-timeout 5 "
                                           "--out stopped >said 2>&1 </dev/null",
             usual);
    int code = system(line);
    double took = since_signal();
    if (!WIFEXITED(code) || WEXITSTATUS(code) != 1 || took > 5 + 6)
        fail_msg("exit %d after %.1f s: %s", code, took, several_said());
    if (!command_has_words(several_said(), "has been waited for for 5 s (--rank-timeout)") ||
        several_times(several_said(), "snug: ") != 1)
        fail_msg("%s", several_said());
    several_all_gone("stopped", 0);
}

/* ---- what is refused ---- */

static void one_sentence(void **state) {
    (void)state;
    if (several_left_out()) return;
    several_refused(2, "train tiny --data text --out no --batch 9", 2, "9 can't be divided among 2 ranks");
    several_refused(2, "train tiny --data text --out no --batch 8 --context 32", 2, "would have 128 rows");
    several_refused(2, "train tiny --data text --out no --batch 8 --unit 8", 2,
                    "1 unit of 8 samples, which 2 ranks can't");
    several_refused(3, "train tiny --data text --out no --batch 8 --unit 2", 2,
                    "4 units of 2 samples, which 3 ranks can't");
    several_refused(2, "train tiny --data text --out no --batch 8 --unit 3", 2,
                    "is no whole number of such units");
    several_refused(2, "train tiny --data gone --out no --batch 8 --unit 2", 2, "gone");
    several_refused(2, "train tiny --data text --out no --batch 8 --unit 2 --memory 1MiB", 3,
                    "tiny does not fit 1.0 MiB");
    several_refused(2, "train tiny --data text --batch 8 --unit 2", 2, "train wants --out");
    several_refused(2, "train tiny --data text --out no --batch 8 --unit 2 --sharding weights", 2,
                    "no weight of 65536 numbers");
    several_refused(2, "train tiny --data text --out no --batch 8 --unit 2 --sharding off", 2,
                    "--sharding off");
    several_refused(2, "train tiny --data text --eval-only", 2,
                    "2 ranks need --unit N, samples whose losses");
    several_refused(
        2, "train char-small --data text --out no --batch 8 --unit 2 --offload gradients --offload-to .", 2,
        "gradients of several ranks travel");
    several_refused(2, "plan tiny --batch 8 --unit 2", 2, "mpirun started 2 processes, and plan is of one");
    several_refused(2, "compare tiny --batch 8 --unit 2", 2,
                    "mpirun started 2 processes, and compare is of one");
    assert_int_not_equal(access("no", F_OK), 0);
}

/* Two processes, each with a line of its own; one sentence says what differs. */
static void differ(const char *first, const char *second, const char *words) {
    several_refused_each(2, (const char *[]){ first, second }, 2, words);
}

/* As on two hosts that don't see the same files. What rank 0 has saved stays as it is. */
static void ranks_that_differ(void **state) {
    (void)state;
    char one[600], other[700];
    if (several_left_out()) return;
    command_shell("rm -rf begun elsewhere && tr a-m n-z <text >another");
    snprintf(one, sizeof one, "train %s --steps 2 --out no", usual);
    snprintf(other, sizeof other, "%s --data another", one);
    differ(one, other, "rank 1 finds other data, another model or other options than rank 0 finds");
    assert_int_not_equal(access("no", F_OK), 0);

    snprintf(one, sizeof one, "train %s --steps 4 --out begun --schedule constant", usual);
    assert_int_equal(several_start(2, one), 0);
    command_shell("cp -r begun before");
    snprintf(one, sizeof one, "train %s --steps 6 --schedule constant --resume --out begun", usual);
    snprintf(other, sizeof other, "train %s --steps 6 --schedule constant --resume --out elsewhere", usual);
    differ(one, other, "rank 1 would go on from step 0, and rank 0 from step 4");
    command_shell("diff -r begun before");

    snprintf(one, sizeof one, "train %s --steps 2 --out no", usual); /* before the others can be reached */
    snprintf(other, sizeof other, "%s --nonsense", one);
    differ(one, other, "unknown option --nonsense");
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
        if (ranks == 2)
            assert_true(gradients < before); /* sums of units are shares; with 4 the peak is elsewhere */
        before = gradients;
    }
    if (several_left_out()) return;
    command_shell("rm -rf several");
    assert_int_equal(
        several_start(2,
                      "train char-small --batch 8 --unit 2 --threads 1 --exact --quiet --data text --steps 1 "
                      "--out several --eval-samples 64"),
        0);
    several_kept_to_plans("several", 2);
    assert_true(
        command_says("compare tiny --batch 8 --unit 2 --ranks 2 --measure", 2, "--measure runs one process"));
    command_expect(0, "compare tiny --batch 8 --unit 2 --ranks 2 --quiet");
    assert_true(command_says("plan tiny --batch 8 --unit 2 --micro-batch 2 --ranks 2", 0,
                             "2 micro-batches of 2 on each of 2 ranks, in units of 2"));
}

/* What is planned with nobody there is what ranks plan, the search's own memory and threads included. */
static void plans_are_those_of_ranks(void **state) {
    (void)state;
    static const char *const of = "char-small --batch 8 --unit 2 --data text --steps 1 --eval-samples 2";
    char line[300];
    json_document run;
    if (several_left_out()) return;
    for (int ranks = 2; ranks <= 4; ranks *= 2) {
        command_shell("rm -rf several");
        snprintf(line, sizeof line, "train %s --out several --quiet", of);
        if (several_start(ranks, line)) fail_msg("%s", several_said());
        several_kept_to_plans("several", ranks);
        snprintf(line, sizeof line, "plan %s --quiet --json --ranks %d", of, ranks);
        uint64_t planned = command_asked(line, "predicted.peak_bytes");
        assert_int_equal(json_open("several/run.json", &run), STATUS_OK);
        if (command_number(&run, "transport_bytes") == command_asked(line, "transport_bytes"))
            assert_int_equal(command_number(&run, "predicted.peak_bytes"), planned);
        json_close(&run);
    }
}

/* ---- links ---- */

static double number_of(const json_document *d, const char *path) {
    double number = -1;
    assert_int_equal(json_as_number(command_value(d, path), -1e300, 1e300, &number), STATUS_OK);
    return number;
}

static double seconds_of_plan(const char *options) {
    char line[400];
    snprintf(line, sizeof line, "plan char-small --batch 8 --unit 2 --threads 1 --exact --json --quiet %s",
             options);
    json_document d = command_json(line);
    double seconds = number_of(&d, "predicted.step_seconds");
    json_close(&d);
    return seconds;
}

/* The built-in links: more ranks on a way take longer, and more hosts another way. */
static void hosts_have_links(void **state) {
    (void)state;
    double here = seconds_of_plan("--ranks 4 --rates built-in"),
           pairs = seconds_of_plan("--ranks 4x2 --rates built-in"),
           alone = seconds_of_plan("--ranks 4x1 --rates built-in");
    assert_true(here > 0 && here == seconds_of_plan("--ranks 4x4 --rates built-in"));
    assert_true(pairs != here && alone != pairs);
    assert_true(command_says("plan tiny --batch 8 --unit 2 --ranks 4x5", 2,
                             "5 ranks on each host are more than 4 in all"));
    assert_true(command_says("plan tiny --batch 8 --unit 2 --ranks 4x", 2, "is not a whole number"));
    assert_true(command_says("plan tiny --batch 8 --unit 2 --ranks x4", 2, "is not a whole number"));
    assert_true(command_says("plan tiny --batch 8 --unit 2 --ranks 4x2x1", 2, "is not a whole number"));
}

/* What a step waits for is told apart, in JSON and in words. Of one process there is none to tell. */
static void waiting_is_told_apart(void **state) {
    (void)state;
    static const char *const of = "plan char-small --batch 8 --unit 2 --threads 1 --exact --sharding "
                                  "copies --micro-batch 2 --recompute off --rates built-in";
    static const char *const ways[] = { "4x4", "4x2", "4x1" };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char line[400];
        snprintf(line, sizeof line, "%s --json --ranks %s", of, ways[i]);
        json_document d = command_json(line);
        double waits = number_of(&d, "predicted.waiting_seconds"),
               all = number_of(&d, "predicted.step_seconds");
        json_close(&d);
        assert_true(waits > 0 && waits < all);
        snprintf(line, sizeof line, "%s --ranks %s", of, ways[i]);
        assert_true(command_says(line, 0, "of it for other ranks"));
    }
    command_result r = command_run("plan char-small --batch 8 --unit 2 --threads 1 --json");
    assert_int_equal(r.exit, 0);
    assert_true(!strstr(r.out, "waiting_seconds") && !strstr(r.err, "waiting"));
    command_free(&r);
}

/* What is free on a host is divided among its ranks alone. */
static void a_host_is_divided(void **state) {
    (void)state;
    static const char *const of = "plan tiny --batch 8 --unit 2 --memory auto --json --quiet";
    char line[300];
    double whole, half, quarter;
    snprintf(line, sizeof line, "%s --ranks 4x1", of);
    whole = (double)command_asked(line, "budget_bytes");
    snprintf(line, sizeof line, "%s --ranks 4x2", of);
    half = (double)command_asked(line, "budget_bytes");
    snprintf(line, sizeof line, "%s --ranks 4", of);
    quarter = (double)command_asked(line, "budget_bytes");
    assert_true(half > 0.35 * whole && half < 0.65 * whole); /* others take memory at the same time */
    assert_true(quarter > 0.15 * whole && quarter < 0.35 * whole);
}

/* Measured by two, they are kept, and plans for ranks go by them. */
static void links_are_measured(void **state) {
    (void)state;
    if (several_left_out()) return;
    assert_int_equal(several_start(2, "devices --measure --json --quiet"), 0);
    json_document d;
    assert_int_equal(json_open("said", &d), STATUS_OK);
    double rate = number_of(&d, "links.within_a_host.bytes");
    assert_true(rate > 1e7 && rate < 1e12);
    assert_true(number_of(&d, "links.within_a_host.seconds") < 0.1);
    json_close(&d);
    command_shell("grep -q '\"between_hosts\": null' snug/links-*.json");
    double before = seconds_of_plan("--ranks 2 --rates known");
    command_shell("sed -i 's/\"rate\": [0-9.e+]*/\"rate\": 1000000/' snug/links-*.json");
    double slow = seconds_of_plan("--ranks 2 --rates known");
    /* Of 2.1 MB in large tensors two ranks send halves, each of two units and what is gathered; of 1.3 MB in
     * small ones all, of each unit. */
    if (slow < before + 11 || slow > before + 12.5)
        fail_msg("%.3f s, and %.3f s on a link of 1 MB/s", before, slow);
    command_shell("echo '{}' >$(ls snug/links-*.json)");
    assert_true(seconds_of_plan("--ranks 2 --rates known") < slow); /* what can't be used is passed over */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_buffer_is_observed_as_planned),
        cmocka_unit_test(the_bits_of_one_process),
        cmocka_unit_test(least_budgets),
        cmocka_unit_test(other_ranks_go_on),
        cmocka_unit_test(one_sentence),
        cmocka_unit_test(ranks_that_differ),
        cmocka_unit_test(launchers_without_mpi),
        cmocka_unit_test(plans_for_ranks),
        cmocka_unit_test(plans_are_those_of_ranks),
        cmocka_unit_test(one_is_killed),
        cmocka_unit_test(one_is_stopped),
        cmocka_unit_test(hosts_have_links),
        cmocka_unit_test(a_host_is_divided),
        cmocka_unit_test(links_are_measured),
        cmocka_unit_test(waiting_is_told_apart),
    };
    return cmocka_run_group_tests(tests, several_open, several_close);
}
