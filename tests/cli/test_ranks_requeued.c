/* Several processes are told to stop, as a batch system does before the time of a job is over: the run saves,
 * ends with code 130, and goes on with other ranks, to the bits of a run that nobody has stopped. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "cli/command.h"
#include "cli/several.h"

enum { STEPS = 500 };

static const char usual[] =
    "train tiny --data text --batch 8 --unit 2 --dropout 0.1 "
    "--eval-samples 7 --eval-every 125 --schedule constant --threads 1 --exact --quiet";

static void whole_run(void) {
    char line[400];
    snprintf(line, sizeof line, "%s --steps %d --out whole", usual, STEPS);
    if (system("test -f whole/run.json") != 0) command_expect(0, line);
}

static int steps_done(void) {
    json_document d;
    assert_int_equal(json_open("stopped/run.json", &d), STATUS_OK);
    size_t count = 0;
    assert_int_equal(json_as_array(command_value(&d, "losses"), &count), STATUS_OK);
    json_close(&d);
    return (int)count;
}

/* `to`: who gets the signal, as the shell finds them; it comes when the first steps are done. */
static void stop(const char *signal, const char *to, int ranks) {
    char line[500];
    command_shell("rm -rf stopped");
    command_shell(
        "(for i in $(seq 200); do grep -qs '\"step\": 3' stopped/metrics.jsonl && break; sleep 0.05; "
        "done; kill -%s %s) &",
        signal, to);
    snprintf(line, sizeof line, "%s --steps %d --out stopped", usual, STEPS);
    int code = several_start(ranks, line);
    if (code != 130) fail_msg("%d ranks, %s: exit %d: %s", ranks, signal, code, several_said());
    if (!command_has_words(several_said(), "--resume goes on from there") ||
        several_times(several_said(), "snug: ") != 1)
        fail_msg("%s", several_said());
    several_all_gone("stopped", 5);
}

/* Goes on with `ranks`, and for a part of the rest with `others`. */
static void go_on(int ranks, int others) {
    char line[500];
    int done = steps_done();
    assert_in_range(done, 3, STEPS - 1);
    command_shell("rm -rf went && cp -r stopped went");
    if (others) {
        snprintf(line, sizeof line, "%s --steps %d --out went --resume", usual, done + (STEPS - done) / 2);
        if (several_start(others, line)) fail_msg("%d ranks don't go on: %s", others, several_said());
    }
    snprintf(line, sizeof line, "%s --steps %d --out went --resume", usual, STEPS);
    if (several_start(ranks, line)) fail_msg("%d ranks don't go on: %s", ranks, several_said());
    several_same_losses("whole", "went");
    command_shell("cmp whole/model.safetensors went/model.safetensors");
}

/* mpirun hands SIGUSR1 to all. */
static void four_stop_and_fewer_go_on(void **state) {
    (void)state;
    if (several_left_out()) return;
    whole_run();
    stop("USR1", SEVERAL_PIDS("^mpirun .*--out stopped"), 4);
    go_on(2, 0);
    go_on(1, 2);
}

/* One of them alone is told: all stop. */
static void one_is_told(void **state) {
    (void)state;
    if (several_left_out()) return;
    whole_run();
    stop("USR1", SEVERAL_ONE("stopped"), 2);
    go_on(4, 0);
    stop("TERM", SEVERAL_ONE("stopped"), 2);
    go_on(2, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_stop_and_fewer_go_on),
        cmocka_unit_test(one_is_told),
    };
    return cmocka_run_group_tests(tests, several_open, several_close);
}
