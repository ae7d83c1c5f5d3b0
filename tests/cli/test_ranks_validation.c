/* Validation that several processes divide: each has units of samples in turn, and the loss, the accuracy and
 * F1 are those of one process, bit for bit, also where the samples don't divide by the ranks. In training and
 * alone (--eval-only). */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/several.h"
#include "io/scratch.h"

static const int worlds[] = { 2, 4 };
enum { WORLDS = sizeof worlds / sizeof *worlds };

/* Folder "one" of one process, "several" of many; what they say is in "said_one" and "said". */
static void same_as_one(const char *options, const char *line_of_people) {
    char line[1200];
    command_shell("rm -rf one");
    snprintf(line, sizeof line, "train %s --out one --threads 1 --exact", options);
    if (several_start(1, line)) fail_msg("%s: %s", line, several_said());
    command_shell("grep -o '%s' said >said_one", line_of_people);
    for (int i = 0; i < WORLDS; i++) {
        command_shell("rm -rf several");
        snprintf(line, sizeof line, "train %s --out several --threads 1 --exact", options);
        if (several_start(worlds[i], line)) fail_msg("%d: %s: %s", worlds[i], line, several_said());
        several_same_losses("one", "several");
        several_kept_to_plans("several", worlds[i]);
        command_shell("grep -o '%s' said | cmp - said_one", line_of_people);
    }
}

static void while_training(void **state) {
    (void)state;
    if (several_left_out()) return;
    same_as_one("tiny --data text --steps 4 --batch 8 --unit 2 --eval-samples 13 --eval-every 2",
                "validation loss .*");
    same_as_one("tiny --data text --steps 2 --batch 8 --unit 1 --eval-samples 3", "validation loss .*");
    same_as_one("char-small --context 256 --data text --steps 2 --batch 8 --unit 2 --micro-batch 1 "
                "--eval-samples 7",
                "validation loss .*");
}

/* Of a head of classes as well: every class of every rank's samples counts. */
static void classes(void **state) {
    (void)state;
    static const char *const words[] = { "red rose", "blue sea", "green tree", "white snow" };
    static char records[40000];
    uint64_t seed = 5;
    size_t n = 0;
    if (several_left_out()) return;
    for (int i = 0; i < 200; i++) {
        uint64_t class = scratch_random(&seed) % 4, other = scratch_random(&seed) % 4;
        n += (size_t)snprintf(records + n, sizeof records - n, "{\"text\": \"%s %s\", \"label\": \"%llu\"}\n",
                              words[class], words[other], (unsigned long long)class);
    }
    scratch_write("records.jsonl", records, n);
    same_as_one(
        "tiny/config.json --head classes --data records.jsonl --steps 20 --lr 0.01 --batch 8 --unit 2 "
        "--eval-samples 13 --eval-every 10 --context 32",
        "accuracy .*F1 0[.][0-9]*");
}

static double loss_alone(int ranks, const char *options) {
    char line[600];
    json_document d;
    snprintf(line, sizeof line,
             "train began --eval-only --data text %s --threads 1 --exact --quiet --out alone", options);
    command_shell("rm -rf alone");
    if (several_start(ranks, line)) fail_msg("%d ranks: %s: %s", ranks, line, several_said());
    if (ranks > 1) several_kept_to_plans("alone", ranks);
    assert_int_equal(json_open("alone/run.json", &d), STATUS_OK);
    double loss = 0;
    assert_int_equal(json_as_number(command_value(&d, "evaluation.loss"), 0, 1e9, &loss), STATUS_OK);
    json_close(&d);
    return loss;
}

static void alone(void **state) {
    (void)state;
    static const char *const cases[] = { "--unit 2 --eval-samples 7", "--unit 3 --eval-samples 25",
                                         "--unit 4 --eval-batch 2 --eval-samples 3" };
    if (several_left_out()) return;
    command_shell("rm -rf began");
    command_expect(0, "train tiny --data text --out began --steps 2 --batch 4 --quiet");
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        double one = loss_alone(1, cases[c]);
        for (int i = 0; i < WORLDS; i++) {
            double many = loss_alone(worlds[i], cases[c]);
            if (memcmp(&one, &many, sizeof one) != 0)
                fail_msg("%s, %d ranks: %.17g, not %.17g", cases[c], worlds[i], many, one);
        }
    }
    several_refused(2, "train began --eval-only --data text", 2,
                    "2 ranks need --unit N, samples whose losses");
    several_refused(2, "train began --eval-only --data gone --unit 2", 2, "gone");
    several_refused(2, "train began --eval-only --data text --unit 3 --eval-batch 2", 2,
                    "--eval-batch 2 does not divide a unit of 3 samples");
}

/* Whatever is validated in one call. */
static void the_unit_decides(void **state) {
    (void)state;
    static const char *const units[] = { "--unit 4 --eval-batch 4", "--unit 4 --eval-batch 2",
                                         "--unit 4 --eval-batch 1" };
    json_document d;
    double first = 0, loss = 0;
    if (several_left_out()) return;
    command_shell("rm -rf began");
    command_expect(0, "train char-small --data text --out began --steps 1 --batch 4 --quiet --context 256");
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        char line[400];
        snprintf(line, sizeof line, "train began --eval-only --data text --eval-samples 9 --json --quiet %s",
                 units[i]);
        d = command_json(line);
        assert_int_equal(json_as_number(command_value(&d, "evaluation.loss"), 0, 1e9, &loss), STATUS_OK);
        json_close(&d);
        if (!i) first = loss;
        if (memcmp(&first, &loss, sizeof loss) != 0) fail_msg("%s: %.17g, not %.17g", units[i], loss, first);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(while_training),
        cmocka_unit_test(classes),
        cmocka_unit_test(alone),
        cmocka_unit_test(the_unit_decides),
    };
    return cmocka_run_group_tests(tests, several_open, several_close);
}
