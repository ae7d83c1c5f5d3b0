/* Several processes that srun starts, under Slurm's own daemons on this machine: the bits of one process, a
 * sentence without --mpi=pmix, and a job that is told to stop before its time is over and is queued again.
 * Left out where Slurm or munge is not there, or may not be started. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/several.h"
#include "io/scratch.h"

static bool runs; /* Slurm, here */

static const char usual[] = "train tiny --data text --batch 8 --unit 2 --dropout 0.1 --eval-samples 3 "
                            "--schedule constant --threads 1 --exact --quiet";

/* Everything in the test's own folder, with ports of its own. */
static void write_configuration(const char *here) {
    char host[64] = "", all[4000];
    gethostname(host, sizeof host - 1);
    int port = 20000 + 2 * (getpid() % 15000);
    int n = snprintf(
        all, sizeof all,
        "ClusterName=one\nSlurmctldHost=%s(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\n"
        "AuthType=auth/munge\nAuthInfo=socket=%s/munge.socket\nCryptoType=crypto/munge\n"
        "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSchedulerType=sched/backfill\n"
        "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nStateSaveLocation=%s/state\n"
        "SlurmdSpoolDir=%s/spool\nSlurmctldPidFile=%s/slurmctld.pid\nSlurmdPidFile=%s/slurmd.pid\n"
        "SlurmctldLogFile=%s/slurmctld.log\nSlurmdLogFile=%s/slurmd.log\nSlurmctldPort=%d\nSlurmdPort=%d\n"
        "ReturnToService=2\nNodeName=%s NodeAddr=127.0.0.1 CPUs=%ld State=UNKNOWN\n"
        "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4\n",
        host, here, here, here, here, here, here, here, port, port + 1, host, sysconf(_SC_NPROCESSORS_ONLN));
    scratch_write("slurm.conf", all, (size_t)n);
}

static bool wait_for(const char *line) {
    for (int i = 0; i < 100; i++) {
        if (system(line) == 0) return true;
        usleep(200000);
    }
    return false;
}

static int begin(void **state) {
    char here[200], line[1600];
    if (several_open(state) != 0) return -1;
    if (several_left_out()) return 0;
    if (!getcwd(here, sizeof here)) return -1;
    write_configuration(here);
    snprintf(line, sizeof line, "%s/slurm.conf", here);
    setenv("SLURM_CONF", line, 1);
    bool there = system("command -v slurmctld slurmd munged srun sbatch >/dev/null") == 0 && geteuid() == 0 &&
                 system("srun --mpi=list 2>&1 | grep -q pmix") == 0;
    if (!there) {
        print_message("no Slurm with PMIx and munge that this user may start: left out\n");
        return 0;
    }
    snprintf(
        line, sizeof line,
        "chmod 755 . && mkdir state spool && head -c 128 /dev/urandom >munge.key && chmod 600 munge.key && "
        "munged --force --key-file=%s/munge.key --socket=%s/munge.socket --pid-file=%s/munged.pid "
        "--log-file=%s/munged.log --seed-file=%s/munge.seed 2>munged.said && slurmctld && slurmd",
        here, here, here, here, here);
    runs = system(line) == 0 && wait_for("sinfo -h -o %t 2>/dev/null | grep -q '^idle'");
    if (!runs) print_message("Slurm's daemons don't start here: left out\n");
    return 0;
}

static int end(void **state) {
    int ended = system("scancel -u root 2>/dev/null; for d in slurmd slurmctld munged; do "
                       "[ -f $d.pid ] && kill $(cat $d.pid); done; sleep 1");
    (void)ended;
    return several_close(state);
}

static int srun(const char *how, const char *line) {
    char whole[1200];
    snprintf(whole, sizeof whole,
             "timeout -k 5 100 srun %s --overcommit " SEVERAL_SNUG " %s >said 2>&1 </dev/null", how, line);
    int code = system(whole);
    return WIFEXITED(code) ? WEXITSTATUS(code) : -1;
}

static void the_bits_of_one_process(void **state) {
    (void)state;
    char line[500];
    if (!runs) return;
    snprintf(line, sizeof line, "%s --steps 6 --out alone", usual);
    command_expect(0, line);
    for (int ranks = 2; ranks <= 4; ranks += 2) {
        char how[60];
        command_shell("rm -rf several");
        snprintf(how, sizeof how, "--mpi=pmix -n %d", ranks);
        snprintf(line, sizeof line, "%s --steps 6 --out several", usual);
        if (srun(how, line)) fail_msg("%s: %s", how, several_said());
        several_same_losses("alone", "several");
        command_shell("cmp alone/model.safetensors several/model.safetensors");
        several_kept_to_plans("several", ranks);
    }
}

/* And a single one is fine. */
static void without_pmix(void **state) {
    (void)state;
    char line[500];
    if (!runs) return;
    snprintf(line, sizeof line, "%s --steps 2 --out several", usual);
    int code = srun("-n 2 --mpi=none", line);
    if (code != 2 || several_times(several_said(), "snug: ") != 1 ||
        !command_has_words(several_said(), "say srun --mpi=pmix"))
        fail_msg("exit %d: %s", code, several_said());
    command_shell("rm -rf several");
    if (srun("-n 1 --mpi=none", line)) fail_msg("%s", several_said());
}

/* As docs/ranks.md has it, but for the time: the signal comes from here, and the job is begun again at once.
 */
static void a_job_is_queued_again(void **state) {
    (void)state;
    static const char job[] =
        "#!/bin/bash\n"
        "asked=no\n"
        "trap 'asked=yes; kill -USR1 $run' USR1\n"
        "srun --mpi=pmix --overcommit -n $1 " SEVERAL_SNUG " $2 --steps 3000 --out queued --resume &\n"
        "run=$!\n"
        "wait $run; code=$?\n"
        "while kill -0 $run 2>/dev/null; do wait $run; code=$?; done\n"
        "echo $asked $code >>codes\n";
    char line[900];
    if (!runs) return;
    scratch_write("job", job, sizeof job - 1);
    for (int ranks = 4; ranks >= 1; ranks /= 2) {
        snprintf(line, sizeof line,
                 "rm -f id; sbatch --parsable --overcommit -n %d -o said job %d '%s' >id && "
                 "for i in $(seq 300); do grep -qs '\"step\": %d,' queued/metrics.jsonl && break; sleep 0.1; "
                 "done; "
                 "%s; for i in $(seq 600); do squeue -h | grep -q . || break; sleep 0.1; done",
                 ranks, ranks, usual, ranks == 4 ? 100 : 300,
                 ranks == 1 ? "true" : "scancel -b -s USR1 $(cat id)");
        command_shell("%s", line);
    }
    command_shell("printf 'yes 130\\nyes 130\\nno 0\\n' | cmp - codes");
    snprintf(line, sizeof line, "%s --steps 3000 --out whole", usual);
    command_expect(0, line);
    several_same_losses("whole", "queued");
    command_shell("cmp whole/model.safetensors queued/model.safetensors");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bits_of_one_process),
        cmocka_unit_test(without_pmix),
        cmocka_unit_test(a_job_is_queued_again),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
