/* What goes wrong on one of several processes that train together ends all of them, with one sentence that
 * names it, and within seconds: other processors, builds, transports, models, options and budgets; memory
 * that one of them does not get; files that go under way; a process that is frozen while it begins, reads,
 * plans or saves; steps that are not finite; a full disk at the very last save. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <elf.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/instructions.h"
#include "cli/command.h"
#include "cli/several.h"
#include "io/scratch.h"

static const char usual[] = "train tiny --data text --batch 8 --unit 2 --eval-samples 2 --threads 1 --quiet";

/* ---- what differs ---- */

static void options_that_differ(void **state) {
    (void)state;
    static const char *const others[][2] = {
        { "--eval-every 2", "--eval-every differs" },
        { "--save-every 3", "--save-every differs" },
        { "--exact", "--exact differs" },
        { "--seed 3", "--seed differs" },
        { "--rank-timeout 7", "--rank-timeout differs" },
        { "--recompute block", "one of the techniques differs" },
    };
    if (several_left_out()) return;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char one[400], other[500];
        snprintf(one, sizeof one, "%s --steps 2 --out no", usual);
        snprintf(other, sizeof other, "%s %s", one, others[i][0]);
        several_refused_each(2, (const char *[]){ one, other }, 2, others[i][1]);
        assert_true(command_has_words(several_said(), "rank 1 on "));
    }
    assert_int_not_equal(access("no", F_OK), 0);
}

/* As built elsewhere: another number in the linker's note. */
static void builds_that_differ(void **state) {
    (void)state;
    char whole[1200];
    if (several_left_out()) return;
    command_shell("rm -rf elsewhere && mkdir elsewhere && cp " SEVERAL_SNUG " elsewhere/snug && "
                  "ln -s " SNUG_BUILD "/snug-mpi.so elsewhere/");
    FILE *file = fopen("elsewhere/snug", "r+b");
    static char head[1 << 16];
    size_t n = fread(head, 1, sizeof head, file);
    static const char note[] = { 4, 0, 0, 0, 20, 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U', 0 };
    char *at = memmem(head, n, note, sizeof note);
    if (!at) {
        fclose(file);
        print_message("this linker leaves no note: left out\n");
        return;
    }
    assert_int_equal(fseek(file, at - head + (long)sizeof note, SEEK_SET), 0);
    fputc(~at[sizeof note], file);
    fclose(file);
    snprintf(whole, sizeof whole,
             "-n 1 " SEVERAL_SNUG " %s --steps 2 --out no : -n 1 elsewhere/snug %s --steps 2 --out no", usual,
             usual);
    assert_int_equal(several_start_whole(whole), 2);
    if (!command_has_words(several_said(), "is another build of snug") ||
        several_times(several_said(), "snug: ") != 1)
        fail_msg("%s", several_said());
    assert_int_not_equal(access("no", F_OK), 0);
}

static void budgets_that_differ(void **state) {
    (void)state;
    char one[400], other[400];
    if (several_left_out()) return;
    snprintf(one, sizeof one, "%s --steps 2 --out no --memory 1GiB", usual);
    snprintf(other, sizeof other, "%s --steps 2 --out no --memory 4MiB", usual);
    several_refused_each(4, (const char *[]){ one, other, one, one }, 3, "tiny does not fit 4.0 MiB");
    char host[64];
    gethostname(host, sizeof host);
    char words[200];
    snprintf(words, sizeof words, "rank 1 on %s has the smallest budget", host);
    if (!command_has_words(several_said(), words)) fail_msg("%s", several_said());
}

/* A process that may not have so much address space, and less each time: where MPI doesn't end by itself for
 * want of it, one sentence says what there is none for, and nobody waits. Where MPI stands still in its
 * beginning, the others say that it has not begun. */
static void memory_that_is_not_given(void **state) {
    (void)state;
    enum { MOST = 25 }; /* seconds; on a quiet machine 3. Ranks wait for each other for 30 */
    int refused = 0;
    if (several_left_out()) return;
    for (int kib = 300000; kib >= 100000; kib -= 25000) {
        char whole[1200];
        command_shell("rm -rf less");
        snprintf(whole, sizeof whole,
                 "-n 1 " SEVERAL_SNUG
                 " %s --steps 2 --rank-timeout 30 --out less : -n 1 sh -c 'ulimit -v %d; "
                 "exec " SEVERAL_SNUG " %s --steps 2 --rank-timeout 30 --out less'",
                 usual, kib, usual);
        double begun = clock_seconds();
        int code = several_start_whole(whole), lines = several_times(several_said(), "snug: ");
        bool stuck = command_has_words(several_said(), "not all processes have begun within --rank-timeout");
        if (stuck && code == 1 && lines == 1) continue;
        if (clock_seconds() - begun > MOST) fail_msg("%d KiB: %.0f s", kib, clock_seconds() - begun);
        if (!code || !lines) continue; /* MPI has left what it lacked out, or ended by itself */
        if (code > 3 || lines != 1 || !command_has_words(several_said(), "rank 1 on "))
            fail_msg("%d KiB: exit %d: %s", kib, code, several_said());
        refused++;
    }
    assert_true(refused > 0);
}

/* Where numbers of 16 bits are multiplied another way on one of them, all widen, as one process can be told
 * to; sums in f32 have the same bits with every set of instructions. */
static void processors_that_differ(void **state) {
    (void)state;
    static const char halves[] = "train char-small --context 64 --data text --batch 8 --unit 2 --steps 3 "
                                 "--precision mixed-bf16 --eval-samples 2 --threads 1";
    char one[500], other[540];
    if (several_left_out()) return;
    snprintf(one, sizeof one, "%s --steps 2 --exact --out several", usual);
    snprintf(other, sizeof other, "%s --instructions plain", one);
    command_shell("rm -rf several alone");
    if (several_start_each(2, (const char *[]){ one, other })) fail_msg("%s", several_said());
    snprintf(one, sizeof one, "%s --steps 2 --exact --out alone", usual);
    command_expect(0, one);
    several_same_losses("alone", "several");
    if (strcmp(instructions_kind(), "widened") == 0) {
        print_message("this processor has one way to multiply bf16: left out\n");
        return;
    }
    command_shell("rm -rf several alone");
    snprintf(one, sizeof one, "%s --out several", halves);
    snprintf(other, sizeof other, "%s --instructions widened", one);
    if (several_start_each(2, (const char *[]){ one, other })) fail_msg("%s", several_said());
    if (!command_has_words(several_said(), "multiplies bf16 another way than rank 0 (widened, and not"))
        fail_msg("%s", several_said());
    several_kept_to_plans("several", 2);
    snprintf(one, sizeof one, "%s --out alone --instructions widened", halves);
    command_expect(0, one);
    several_same_losses("alone", "several");
}

/* With --exact nobody's bits are changed. A run in bf16, which only going on may do with that, is refused
 * where one of them would multiply in another way, and its folder stays as it is. */
static void bits_that_would_differ(void **state) {
    (void)state;
    static const char halves[] =
        "train char-small --context 64 --data text --batch 8 --unit 2 --save-every 2 --schedule constant "
        "--precision mixed-bf16 --eval-samples 2 --threads 1 --quiet --out halves";
    char one[500], other[540];
    if (several_left_out()) return;
    if (strcmp(instructions_kind(), "widened") == 0) {
        print_message("this processor has one way to multiply bf16: left out\n");
        return;
    }
    command_shell("rm -rf halves");
    snprintf(one, sizeof one, "%s --steps 2", halves);
    if (several_start(2, one)) fail_msg("%s", several_said());
    command_shell("rm -rf before && cp -r halves before");
    snprintf(one, sizeof one, "%s --steps 4 --resume --exact", halves);
    snprintf(other, sizeof other, "%s --instructions widened", one);
    several_refused_each(2, (const char *[]){ one, other }, 2, "--instructions");
    assert_true(command_has_words(several_said(), "rank 1 "));
    command_shell("diff -r before halves");
}

/* ---- transports ---- */

/* A launcher of another MPI: processes are told of each other by its variables, and the MPI that this program
 * was built for sees each of them alone. As launchers do, this one ends all when one has left. */
static void another_mpi(void **state) {
    (void)state;
    static const char launcher[] = "for r in 0 1; do\n"
                                   "PMI_RANK=$r PMI_SIZE=2 " SEVERAL_SNUG " \"$@\" &\n"
                                   "eval p$r=$!\n"
                                   "done\n"
                                   "wait $p0\ncode=$?\nkill $p1\nwait $p1\nexit $code\n";
    char line[500];
    if (several_left_out()) return;
    scratch_write("launcher", launcher, sizeof launcher - 1);
    snprintf(line, sizeof line, "timeout 60 sh launcher %s --steps 2 --out no >said 2>&1", usual);
    int code = system(line);
    if (!WIFEXITED(code) || WEXITSTATUS(code) != 2 || several_times(several_said(), "snug: ") != 1 ||
        !command_has_words(several_said(), "the program was built for another MPI than that of the launcher"))
        fail_msg("exit %x: %s", (unsigned)code, several_said());
    assert_int_not_equal(access("no", F_OK), 0);
}

/* What stands beside the program in the place of its transport. */
static void transports_that_are_none(void **state) {
    (void)state;
    static const struct {
        const char *made_by, *words;
    } cases[] = {
        { "true", "by which they speak to each other, is not to be had: this build has none" },
        { "echo nothing >elsewhere/snug-mpi.so", "snug-mpi.so" },
        { "cp $(ldd " SEVERAL_SNUG " | grep -o '/[^ ]*libm[.]so[^ ]*' | head -n 1) elsewhere/snug-mpi.so",
          "snug-mpi.so is of another version of snug" },
    };
    if (several_left_out()) return;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char whole[800];
        command_shell("rm -rf elsewhere && mkdir elsewhere && cp " SEVERAL_SNUG " elsewhere/snug");
        command_shell("%s", cases[i].made_by);
        snprintf(whole, sizeof whole, "-n 2 elsewhere/snug %s --steps 2 --out no", usual);
        int code = several_start_whole(whole);
        if (code != 2 || several_times(several_said(), "snug: ") != 1 ||
            !command_has_words(several_said(), cases[i].words))
            fail_msg("%s: exit %d: %s", cases[i].made_by, code, several_said());
    }
    assert_int_not_equal(access("no", F_OK), 0);
}

/* ---- files ---- */

/* A line of the shell that does something as soon as a run has made some steps. */
#define AFTER_STEPS(folder, what)                                                                            \
    "(for i in $(seq 600); do grep -qs '\"step\": 3,' " folder                                               \
    "/metrics.jsonl && break; sleep 0.05; done; " what ") &"

/* Each rank in a folder of its own: what it sees there is its own. */
static void apart(char *whole, size_t bytes, const char *line) {
    char here[200];
    assert_non_null(getcwd(here, sizeof here));
    command_shell("rm -rf at0 at1 && mkdir at0 at1 && cp -r tiny text at0 && cp -r tiny text at1");
    snprintf(whole, bytes, "-n 1 -wdir %s/at0 " SEVERAL_SNUG " %s : -n 1 -wdir %s/at1 " SEVERAL_SNUG " %s",
             here, line, here, line);
}

/* Another configuration, and another weight of the model that is trained on. */
static void models_that_differ(void **state) {
    (void)state;
    static const char *const changes[] = {
        "sed -i 's/\"n_head\": *[0-9]*/\"n_head\": 1/' at1/tiny/config.json",
        "cd at1/tiny && head -c -3 model.safetensors >cut && printf xyz | cat cut - >model.safetensors && rm "
        "cut",
    };
    char line[600], whole[2000];
    if (several_left_out()) return;
    snprintf(line, sizeof line, "%s --steps 2 --out trained", usual);
    command_expect(0, line);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        snprintf(line, sizeof line, "%s --steps 2 --out no", usual);
        apart(whole, sizeof whole, line);
        command_shell("cp trained/model.safetensors at0/tiny && cp trained/model.safetensors at1/tiny");
        command_shell("%s", changes[i]);
        command_shell("! diff -r at0/tiny at1/tiny >/dev/null");
        int code = several_start_whole(whole);
        if (code != 2 || several_times(several_said(), "snug: ") != 1 ||
            !command_has_words(several_said(),
                               "rank 1 finds other data, another model or other options than rank 0 finds"))
            fail_msg("%s: exit %d: %s", changes[i], code, several_said());
        command_shell("[ ! -e at0/no ] && [ ! -e at1/no ]");
    }
}

static void data_that_goes(void **state) {
    (void)state;
    char line[600], whole[2000], here[200];
    if (several_left_out()) return;
    assert_non_null(getcwd(here, sizeof here));
    snprintf(line, sizeof line, "%s --steps 1000000 --save-every 2 --out %s/under_way", usual, here);
    apart(whole, sizeof whole, line);
    command_shell("rm -rf under_way");
    command_shell(AFTER_STEPS("under_way", ": >at1/text"));
    int code = several_start_whole(whole);
    if (code != 1 || several_times(several_said(), "snug: ") != 1 ||
        !command_has_words(several_said(), "rank 1 on ") || !strstr(several_said(), "text"))
        fail_msg("exit %d: %s", code, several_said());
    several_all_gone("[^ ]*/under_way", 5);
    command_shell("ls under_way | grep -q '^checkpoint-[0-9]*$'");
}

/* A copy of the folder on rank 1 that lacks a part of a checkpoint is refused; a checkpoint of which nobody
 * finds a part is none. */
static void checkpoints_with_holes(void **state) {
    (void)state;
    char line[600], whole[2000];
    if (several_left_out()) return;
    command_shell("rm -rf holes");
    snprintf(line, sizeof line, "%s --steps 4 --save-every 2 --schedule constant --out holes", usual);
    assert_int_equal(several_start(2, line), 0);
    snprintf(line, sizeof line, "%s --steps 6 --save-every 2 --schedule constant --out holes --resume",
             usual);
    apart(whole, sizeof whole, line);
    command_shell("cp -r holes at0 && cp -r holes at1 && rm at1/holes/checkpoint-4/optimizer*.safetensors");
    int code = several_start_whole(whole);
    if ((code != 1 && code != 2) || several_times(several_said(), "snug: ") != 1 ||
        !command_has_words(several_said(), "is not the folder that rank 0 writes to"))
        fail_msg("exit %d: %s", code, several_said());
    command_shell("diff -r at0/holes holes"); /* nothing was changed */
    command_shell("rm holes/checkpoint-4/optimizer*.safetensors");
    if (several_start(2, line)) fail_msg("%s", several_said()); /* the one before it is whole */
    snprintf(line, sizeof line, "%s --steps 6 --schedule constant --out whole", usual);
    command_expect(0, line);
    command_shell("cmp holes/model.safetensors whole/model.safetensors");
}

/* The launcher ends all others as soon as one rank is gone: rank 0 waits until rank 1's code is written. */
#define THEN_WAIT "; code=$?; for i in $(seq 100); do [ -s code1 ] && break; sleep 0.1; done; exit $code"

/* The disk is full when the run is told to stop: rank 0 can't save, and all end as it does. */
static void no_room_for_the_last(void **state) {
    (void)state;
    char whole[2000];
    if (several_left_out()) return;
    command_shell("rm -rf full code1");
    command_shell(AFTER_STEPS("full", "kill -USR1 " SEVERAL_TRAINING("full")));
    snprintf(whole, sizeof whole,
             "-n 1 sh -c 'trap \"\" USR1; ulimit -f 100; " SEVERAL_SNUG
             " %s --steps 1000000 --out full" THEN_WAIT "' : -n 1 sh -c '"
             "trap \"\" USR1; " SEVERAL_SNUG " %s --steps 1000000 --out full; echo $? >code1; exit 1'",
             usual, usual);
    int code = several_start_whole(whole);
    if (code != 1 || several_times(several_said(), "snug: ") != 1)
        fail_msg("exit %d: %s", code, several_said());
    command_shell("grep -qx 1 code1");
}

/* A step fails on rank 0 alone, behind which all would validate. */
static void no_room_where_ranks_meet(void **state) {
    (void)state;
    char whole[2000];
    static const char of[] =
        "train tiny --data text --batch 8 --unit 2 --steps 100000 --eval-samples 2 "
        "--eval-every 1 --save-every off --threads 1 --quiet --out full --rank-timeout 10";
    if (several_left_out()) return;
    command_shell("rm -rf full");
    snprintf(whole, sizeof whole,
             "-n 1 sh -c 'ulimit -f 24; exec " SEVERAL_SNUG " %s' : -n 1 " SEVERAL_SNUG " %s", of, of);
    int code = several_start_whole(whole);
    if (code != 1 || several_times(several_said(), "snug: ") != 1 || strstr(several_said(), "can't reach") ||
        !strstr(several_said(), "metrics.jsonl"))
        fail_msg("exit %d: %s", code, several_said());
}

/* At the last step, where the model follows the checkpoint: nobody goes on to what rank 0 doesn't come to. */
static void no_room_where_weights_are_shares(void **state) {
    (void)state;
    static const char of[] =
        "train shared --data text --context 32 --batch 8 --unit 2 --sharding weights --steps 4 "
        "--save-every 4 --eval-samples 2 --threads 1 --quiet --out full --rank-timeout 10";
    static const char config[] = "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 4, \"n_embd\": 128, "
                                 "\"n_positions\": 32, \"vocab_size\": 600}\n";
    char whole[2000];
    if (several_left_out()) return;
    mkdir("shared", 0700);
    scratch_write("shared/config.json", config, sizeof config - 1);
    command_shell("rm -rf full code1");
    snprintf(whole, sizeof whole,
             "-n 1 sh -c 'ulimit -f 400; " SEVERAL_SNUG " %s" THEN_WAIT "' : -n 1 sh -c '" SEVERAL_SNUG
             " %s; echo $? >code1; exit 1'",
             of, of);
    int code = several_start_whole(whole);
    if (code != 1 || several_times(several_said(), "snug: ") != 1 || strstr(several_said(), "can't reach"))
        fail_msg("exit %d: %s", code, several_said());
    command_shell("grep -qx 1 code1");
}

/* ---- steps ---- */

static void steps_that_are_not_finite(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        { "--optimizer sgd --clip off", "in forward, on rank " },
        { "", "became inf in step" },
    };
    if (several_left_out()) return;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[600];
        command_shell("rm -rf infinite");
        snprintf(line, sizeof line,
                 "train char-small --context 64 --data text --batch 8 --unit 2 --eval-samples 2 --threads 1 "
                 "--quiet --steps 30 --lr 1000 --schedule constant --warmup 0 --out infinite %s",
                 cases[i][0]);
        double begun = clock_seconds();
        several_refused(4, line, 1, cases[i][1]);
        assert_true(command_has_words(several_said(), "made it first"));
        assert_true(clock_seconds() - begun < 60);
    }
}

/* ---- frozen ---- */

/* Rank `who` stands still from the start on, or after a while; whoever waits says so. */
static void frozen(int who, const char *when) {
    enum { MOST = 25 }; /* seconds; on a quiet machine 4 */
    char whole[2000];
    size_t n = 0;
    command_shell("rm -rf frozen");
    for (int r = 0; r < 2; r++) {
        n += (size_t)snprintf(whole + n, sizeof whole - n, "%s-n 1 sh -c '", r ? " : " : "");
        if (r == who) n += (size_t)snprintf(whole + n, sizeof whole - n, "(%s; kill -STOP $$) & ", when);
        n +=
            (size_t)snprintf(whole + n, sizeof whole - n,
                             "exec " SEVERAL_SNUG " %s --steps 1000000 --save-every 1 --rank-timeout 3 --out "
                             "frozen'",
                             usual);
    }
    double begun = clock_seconds();
    int code = several_start_whole(whole);
    double took = clock_seconds() - begun;
    if (code != 1 || took > MOST || several_times(several_said(), "snug: ") != 1 ||
        !strstr(several_said(), "--rank-timeout"))
        fail_msg("rank %d frozen after '%s': exit %d after %.1f s: %s", who, when, code, took,
                 several_said());
    several_all_gone("frozen", 5);
}

/* Rank 0 is frozen while it waits for rank 1 to begin, for longer than it would have waited: rank 1 says so,
 * and rank 0, which the launcher wakes to end it, does not say it again. */
static void frozen_as_it_waits(void **state) {
    (void)state;
    char whole[2000];
    static const char of[] = "--steps 1000000 --rank-timeout 3 --out frozen";
    if (several_left_out()) return;
    command_shell("rm -rf frozen");
    snprintf(whole, sizeof whole,
             "-n 1 sh -c '(sleep 1; kill -STOP $$) & exec " SEVERAL_SNUG
             " %s %s' : -n 1 sh -c 'sleep 2; exec " SEVERAL_SNUG " %s %s'",
             usual, of, usual, of);
    int code = several_start_whole(whole);
    if (code != 1 || several_times(several_said(), "snug: ") != 1 ||
        !strstr(several_said(), "not all processes have begun within --rank-timeout"))
        fail_msg("exit %d: %s", code, several_said());
    several_all_gone("frozen", 5);
}

/* As soon as it heeds SIGTERM: then it plans. Others are ended by that, and it is woken to be. */
#define HEEDS_SIGTERM                                                                                        \
    "until [ $((0x$(sed -n \"s/^SigCgt:.//p\" /proc/$$/status) & 0x4000)) != 0 ]; do sleep 0.01; done"

static void one_is_frozen(void **state) {
    (void)state;
    static const char *const whens[] = { "true", "sleep 0.1", "sleep 0.2", "sleep 0.5" };
    if (several_left_out()) return;
    for (size_t i = 0; i < sizeof whens / sizeof *whens; i++) frozen(1, whens[i]);
    frozen(0, "true");
    frozen(0, "sleep 0.5");
    frozen(0, HEEDS_SIGTERM);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_that_differ),
        cmocka_unit_test(builds_that_differ),
        cmocka_unit_test(budgets_that_differ),
        cmocka_unit_test(memory_that_is_not_given),
        cmocka_unit_test(processors_that_differ),
        cmocka_unit_test(bits_that_would_differ),
        cmocka_unit_test(another_mpi),
        cmocka_unit_test(transports_that_are_none),
        cmocka_unit_test(models_that_differ),
        cmocka_unit_test(data_that_goes),
        cmocka_unit_test(checkpoints_with_holes),
        cmocka_unit_test(no_room_for_the_last),
        cmocka_unit_test(steps_that_are_not_finite),
        cmocka_unit_test(no_room_where_ranks_meet),
        cmocka_unit_test(no_room_where_weights_are_shares),
        cmocka_unit_test(frozen_as_it_waits),
        cmocka_unit_test(one_is_frozen),
    };
    return cmocka_run_group_tests(tests, several_open, several_close);
}
