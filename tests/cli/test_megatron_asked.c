/* Megatron-LM as a user asks of it: what --solve tries, what a cluster is asked for, and what contradicts. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cli/command.h"
#include "io/scratch.h"

#define ASK "estimate llama-3-8b --framework megatron "

/* The least number is a multiple of what a copy of the model takes, not 1. */
static void numbers_of_devices_hold_whole_copies(void **state) {
    (void)state;
    static const struct {
        const char *line;
        uint64_t gpus;
    } cases[] = {
        { ASK "--gpu h100-80 --tensor-model-parallel-size 4 --pipeline-model-parallel-size 2 --micro-batch 1 "
              "--context 4096 --solve gpus --json",
          8 },
        { ASK "--gpu h100-80 --context-parallel-size 2 --use-distributed-optimizer --micro-batch 1 "
              "--context 4096 --recompute-granularity full --solve gpus --json",
          4 },
        { "estimate mixtral-8x7b --framework megatron --gpu h200 --expert-model-parallel-size 8 "
          "--pipeline-model-parallel-size 3 --use-distributed-optimizer --micro-batch 1 --context 2048 "
          "--num-layers 12 --solve gpus --json",
          24 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(command_asked(cases[i].line, "value"), cases[i].gpus);
    assert_true(command_says(ASK
                             "--gpu h100-80 --tensor-model-parallel-size 8 --pipeline-model-parallel-size "
                             "32 --context-parallel-size 8 --context 4096 --solve gpus",
                             2, "a copy of the model takes 2048 devices, and numbers up to 1024 are tried"));
}

/* --shard is none of its options: the line that the script has must be one that is understood. */
static void clusters_share_by_its_own_sizes(void **state) {
    (void)state;
    command_result r = command_run(ASK "--cluster ascend --tensor-model-parallel-size 2 --context 4096 "
                                       "--micro-batch 1 --use-distributed-optimizer --emit slurm");
    assert_int_equal(r.exit, 0);
    assert_true(command_has_words(r.out, "--gpus 4") && strstr(r.out, "--gpus-per-node=4\n"));
    assert_null(strstr(r.out, "fsdp"));
    assert_null(strstr(r.err, "fsdp"));
    char line[1024];
    const char *estimated = strstr(r.out, "# Estimated: snug ");
    assert_non_null(estimated);
    estimated += strlen("# Estimated: snug ");
    snprintf(line, sizeof line, "%.*s", (int)strcspn(estimated, "\n"), estimated);
    command_expect(0, line);
    command_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(numbers_of_devices_hold_whole_copies),
                                        cmocka_unit_test(clusters_share_by_its_own_sizes) };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
