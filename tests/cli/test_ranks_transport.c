/* What the transport between ranks takes of memory is seen before anything is planned: where processes can't
 * copy from each other's memory it is more than is said with nobody there, and all plan with that. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "cli/command.h"
#include "cli/several.h"
#include "sanitized.h"

static const char usual[] =
    "char-small --context 64 --data text --batch 8 --unit 1 --eval-samples 4 --threads 1";

/* The transport's bytes of a run of `ranks`, started with these words before it. */
static uint64_t taken(const char *before, int ranks) {
    char line[300];
    json_document d;
    command_shell("rm -rf several");
    snprintf(line, sizeof line, "train %s --steps 2 --out several --quiet", usual);
    if (several_start_as(before, "", ranks, line)) fail_msg("%s: %s", before, several_said());
    several_kept_to_plans("several", ranks);
    assert_int_equal(json_open("several/run.json", &d), STATUS_OK);
    uint64_t bytes = command_number(&d, "transport_bytes");
    json_close(&d);
    return bytes;
}

static void more_than_is_said(void **state) {
    (void)state;
    char line[300];
    if (several_left_out()) return;
    snprintf(line, sizeof line, "plan %s --ranks 8 --json --quiet", usual);
    uint64_t said = command_asked(line, "transport_bytes");
    assert_int_equal(said, (14 << 20) + 7 * (128 << 10));
    uint64_t seen = taken("OMPI_MCA_btl_vader_single_copy_mechanism=none", 8);
    if (!SANITIZED) assert_true(seen > said);
    assert_true(seen >= said && seen < said + (16 << 20));
    assert_true(taken("OMPI_MCA_btl=self,tcp", 2) >= (14 << 20) + (128 << 10));
}

/* A budget that the plan with nobody there fits, and the run does not: refused as everything is, before a
 * step, with what it takes. */
static void refused_where_it_does_not_fit(void **state) {
    (void)state;
    char line[400];
    if (several_left_out() || SANITIZED) return;
    snprintf(line, sizeof line, "plan %s --ranks 8 --json --quiet", usual);
    uint64_t least = command_least_budget(line);
    snprintf(line, sizeof line, "train %s --steps 2 --out none --quiet --memory %llu", usual,
             (unsigned long long)least);
    int code = several_start_as("OMPI_MCA_btl_vader_single_copy_mechanism=none", "", 8, line);
    if (code != 3 || several_times(several_said(), "snug: ") != 1 ||
        !command_has_words(several_said(), "the least budget is"))
        fail_msg("exit %d: %s", code, several_said());
}

/* Before anything is planned ranks move large messages, which take memory of no plan: no more than a small
 * run of many ranks has room for. */
static void many_ranks_keep_to_small_plans(void **state) {
    (void)state;
    if (several_left_out() || SANITIZED) return;
    command_shell("rm -rf several");
    int code = several_start(12, "train tiny --data text --batch 12 --unit 1 --eval-samples 2 --threads 1 "
                                 "--steps 2 --out several --quiet");
    if (code) fail_msg("%s", several_said());
    several_kept_to_plans("several", 12);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_than_is_said),
        cmocka_unit_test(refused_where_it_does_not_fit),
        cmocka_unit_test(many_ranks_keep_to_small_plans),
    };
    return cmocka_run_group_tests(tests, several_open, several_close);
}
