/* Several processes in a build that watches threads for data races: the thread that moves data between ranks
 * meets those that compute, in steps, validation and saving, and as a run is told to stop. In other builds
 * the same is done without a watch. */
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

static int begin(void **state) {
    const char *before = getenv("TSAN_OPTIONS");
    char all[1000];
    snprintf(all, sizeof all, "%s%ssuppressions=" SNUG_ROOT "/tests/cli/ranks.supp", before ? before : "",
             before ? ":" : "");
    setenv("TSAN_OPTIONS", all, 1);
    return several_open(state);
}

static const char usual[] = "train tiny --data text --batch 8 --unit 2 --eval-samples 7 --eval-every 5 "
                            "--save-every 5 --threads 2 --quiet --out watched";

static void watched(void **state) {
    (void)state;
    char line[400];
    if (several_left_out()) return;
    for (int ranks = 2; ranks <= 4; ranks += 2) {
        command_shell("rm -rf watched");
        snprintf(line, sizeof line, "%s --steps 20", usual);
        if (several_start(ranks, line)) fail_msg("%d ranks: %s", ranks, several_said());
    }
    command_shell("rm -rf watched");
    snprintf(line, sizeof line, "%s --steps 100000", usual);
    command_shell("(for i in $(seq 200); do [ -d watched/checkpoint-5 ] && break; sleep 0.05; done; "
                  "kill -USR1 " SEVERAL_PIDS("^mpirun .*--out watched") ") &");
    int code = several_start(2, line);
    if (code != 130) fail_msg("exit %d: %s", code, several_said());
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(watched) };
    return cmocka_run_group_tests(tests, begin, several_close);
}
