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

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(numbers_of_devices_hold_whole_copies) };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
