/* The plugin job_submit/snug under Slurm's own daemons on this machine, with made-up GPUs: it refuses or
 * warns as the site says, admits what it can't see, and never waits longer than it is told to. Left out where
 * Slurm, its header or munge is not there, or may not be started. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/command.h"
#include "io/scratch.h"

static bool runs; /* Slurm, here */

#define TOP "#!/bin/bash\n#SBATCH --gres=gpu:a100_80:1\n"
#define TRAINS                                                                                               \
    TOP "python run_clm.py --model_name_or_path llama-3-8b --do_train --block_size 2048 --torch_dtype "      \
        "float32 "

static const char fat[] = TRAINS "--per_device_train_batch_size 4\n",
                  near[] =
                      TOP "python train.py --model_name_or_path llama-3-8b --per_device_train_batch_size 4\n",
                  thin[] = TOP
                  "python run_clm.py --do_train --model_name_or_path gpt2 --per_device_train_batch_size 4\n",
                  argued[] = TRAINS "--per_device_train_batch_size $1\n";

/* Where distributions have Slurm's own plugins; a folder that is not there is refused. */
static const char *own_plugins(void) {
    static const char *const folders[] = { "/usr/lib/x86_64-linux-gnu/slurm-wlm",
                                           "/usr/lib/aarch64-linux-gnu/slurm-wlm", "/usr/lib64/slurm",
                                           "/usr/lib/slurm" };
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (access(folders[i], R_OK) == 0) return folders[i];
    return "/usr/local/lib/slurm";
}

static void write_configuration(const char *here) {
    char host[64] = "", all[4000];
    gethostname(host, sizeof host - 1);
    int port = 20000 + 2 * (getpid() % 15000);
    int n = snprintf(
        all, sizeof all,
        "ClusterName=one\nSlurmctldHost=%s(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\n"
        "AuthType=auth/munge\nAuthInfo=socket=%s/munge.socket\nCryptoType=crypto/munge\n"
        "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSchedulerType=sched/builtin\n"
        "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nStateSaveLocation=%s/state\n"
        "SlurmdSpoolDir=%s/spool\nSlurmctldPidFile=%s/slurmctld.pid\nSlurmdPidFile=%s/slurmd.pid\n"
        "SlurmctldLogFile=%s/slurmctld.log\nSlurmdLogFile=%s/slurmd.log\nSlurmctldPort=%d\nSlurmdPort=%d\n"
        "ReturnToService=2\nMessageTimeout=60\nGresTypes=gpu\nJobSubmitPlugins=snug\nPluginDir=" SNUG_BUILD
        "/slurm:%s\n"
        "NodeName=%s NodeAddr=127.0.0.1 CPUs=%ld Gres=gpu:a100_80:2 State=UNKNOWN\n"
        "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4\n",
        host, here, here, here, here, here, here, here, port, port + 1, own_plugins(), host,
        sysconf(_SC_NPROCESSORS_ONLN));
    scratch_write("slurm.conf", all, (size_t)n);
    n = snprintf(all, sizeof all, "Name=gpu Type=a100_80 File=%s/gpu[0-1]\n", here);
    scratch_write("gres.conf", all, (size_t)n);
    scratch_write("gpu0", "", 0), scratch_write("gpu1", "", 0);
}

static void say_policy(const char *policy, int seconds) {
    char all[200];
    int n = snprintf(all, sizeof all, "policy: %s # of the site\nseconds: %d\n", policy, seconds);
    scratch_write("snug-admit.yaml", all, (size_t)n);
}

static int begin(void **state) {
    char here[200], line[1600];
    if (scratch_open(state) != 0) return -1;
    if (!getcwd(here, sizeof here)) return -1;
    write_configuration(here);
    say_policy("refuse", 20);
    snprintf(line, sizeof line, "%s/slurm.conf", here);
    setenv("SLURM_CONF", line, 1);
    snprintf(line, sizeof line, "%s/program", here); /* a link, so that a test can put another in its place */
    setenv("SNUG_PROGRAM", line, 1);
    bool there = system("command -v slurmctld slurmd munged sbatch >/dev/null") == 0 && geteuid() == 0 &&
                 access(SNUG_BUILD "/slurm/job_submit_snug.so", R_OK) == 0;
    if (!there) {
        print_message("no Slurm with its header and munge that this user may start: left out\n");
        return 0;
    }
    snprintf(line, sizeof line,
             "ln -s " SNUG_BUILD "/snug program && chmod 755 . && mkdir state spool && "
             "head -c 128 /dev/urandom >munge.key && chmod 600 munge.key && "
             "munged --force --key-file=%s/munge.key --socket=%s/munge.socket --pid-file=%s/munged.pid "
             "--log-file=%s/munged.log --seed-file=%s/munge.seed && slurmctld && slurmd && "
             "until timeout 5 sinfo -h -o %%t 2>>sinfo.said | grep -q '^idle'; do sleep 0.2; done",
             here, here, here, here, here);
    scratch_write("start", line, strlen(line));
    /* Slurm's commands try a controller that does not answer again for as long as MessageTimeout, and daemons
     * keep the outputs that they were started with: neither may hold up who runs this test. */
    runs = system("timeout -k 5 45 sh start </dev/null >start.said 2>&1") == 0;
    if (!runs) {
        print_message("Slurm's daemons don't start here: left out\n");
        command_shell("tail -n 5 start.said sinfo.said *.log 2>/dev/null | head -n 60; true");
    }
    return 0;
}

static int end(void **state) {
    if (runs) command_shell("timeout 20 scancel -u root 2>/dev/null; true");
    command_shell(
        "daemons=$(cat slurmd.pid slurmctld.pid munged.pid 2>/dev/null); [ -z \"$daemons\" ] || "
        "{ kill $daemons; sleep 2; kill -9 $daemons 2>/dev/null; }; true"); /* a slurmd alone waits on */
    return scratch_close(state);
}

/* sbatch OPTIONS job.sh ARGUMENTS, held, so that nothing runs; with these words in what it says, or without.
 */
static void expect(const char *script, const char *arguments, bool submitted, const char *words) {
    char line[400];
    scratch_write("job.sh", script, strlen(script));
    snprintf(line, sizeof line, "timeout 60 sbatch --hold job.sh %s >said 2>&1", arguments);
    bool went = system(line) == 0;
    snprintf(line, sizeof line,
             "tr -s '\\n ' ' ' <said | sed 's/sbatch: error: *//g; s/sbatch: *//g' | grep -qF -e '%s'",
             words);
    bool said = !*words || system(line) == 0;
    if (went != submitted || !said) {
        int shown = system("cat said");
        (void)shown;
        fail_msg("%s where '%s' and %s was meant:\n%s", went ? "submitted" : "refused", words,
                 submitted ? "submitted" : "refused", script);
    }
}

static void it_refuses_what_does_not_fit(void **state) {
    (void)state;
    if (!runs) skip();
    expect(fat, "", false, "does not fit NVIDIA A100 80 GB");
    expect(thin, "", true, "Submitted");
    expect(near, "", true, "likely does not fit");
    expect(argued, "4", false, "--batch 4");
    expect(argued, "", true, "");
    expect(TOP "true\n", "", true, "Submitted");
}

static void it_warns_where_the_site_says_so(void **state) {
    (void)state;
    if (!runs) skip();
    say_policy("warn", 20);
    expect(fat, "", true, "does not fit NVIDIA A100 80 GB");
    say_policy("refuse", 20);
    expect(fat, "", false, "does not fit NVIDIA A100 80 GB");
}

/* A program that hangs, floods, dies or is none: the job is admitted, in the time that the site allows. */
static void nothing_keeps_the_controller(void **state) {
    (void)state;
    static const char *const programs[] = { "sleep 100",  "cat /dev/zero", "exit 2",
                                            "kill -9 $$", "exit 3",        "exec 0<&- 1>&-; sleep 100" };
    if (!runs) skip();
    say_policy("refuse", 1);
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        struct timespec before, after;
        command_shell("rm program; printf '#!/bin/sh\\n%s\\n' >program; chmod +x program", programs[i]);
        clock_gettime(CLOCK_MONOTONIC, &before);
        expect(fat, "", true, "Submitted");
        clock_gettime(CLOCK_MONOTONIC, &after);
        assert_true(after.tv_sec - before.tv_sec < 15); /* of a busy machine: a second, and sbatch itself */
    }
    command_shell("rm program");
    expect(fat, "", true, "Submitted");
    command_shell("ln -s " SNUG_BUILD "/snug program");
    say_policy("refuse", 20);
    expect(fat, "", false, "does not fit");
    command_shell("rm snug-admit.yaml"); /* without a word of the site's nothing is asked */
    expect(fat, "", true, "Submitted");
}

/* The wrapper is what users alias: it refuses before anything is submitted. */
static void the_wrapper_is_natural(void **state) {
    (void)state;
    if (!runs) skip();
    scratch_write("job.sh", fat, sizeof fat - 1);
    say_policy("refuse", 20);
    static const char wrapper[] = "PATH=" SNUG_BUILD ":$PATH " SNUG_ROOT "/plugins/slurm/sbatch-snug";
    command_shell("%s --hold job.sh >said 2>&1; [ $? = 1 ] && grep -q 'not submitted' said", wrapper);
    scratch_write("job.sh", thin, sizeof thin - 1);
    command_shell("%s --hold --job-name 'a b' job.sh x 'y z' >said 2>&1; grep -q Submitted said", wrapper);
    command_shell("%s --hold --gres=gpu:1 --wrap 'echo \"a  b\"' >said 2>&1; grep -q Submitted said",
                  wrapper);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_refuses_what_does_not_fit),
        cmocka_unit_test(it_warns_where_the_site_says_so),
        cmocka_unit_test(nothing_keeps_the_controller),
        cmocka_unit_test(the_wrapper_is_natural),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
