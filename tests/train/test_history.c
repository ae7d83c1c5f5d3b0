/* What a run remembers of an earlier start: every number of its lines, bit for bit; a line that is damaged or
 * of no step of it leaves a loss unknown and harms no other. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "io/scratch.h"
#include "train/history.h"

enum { DONE = 50, ROOM = 4 };

typedef struct {
    double losses[DONE + 1]; /* the last is nobody's */
    train_result r;
} memory;

/* Free its evaluations. */
static void recall(memory *m, const char *lines) {
    scratch_write("metrics.jsonl", lines, strlen(lines));
    m->r = (train_result){ .losses = m->losses, .evaluations = memory_new(ROOM, sizeof *m->r.evaluations) };
    for (int i = 0; i <= DONE; i++) m->losses[i] = 77;
    if (history_recall(".", DONE, ROOM, &m->r) != STATUS_OK) fail_msg("%s", status_message());
    assert_true(m->losses[DONE] == 77);
}

static double loss_of(int64_t step) { return 1.0 / (double)step; }

static void every_line_is_recalled(void **state) {
    (void)state;
    static char lines[1 << 16];
    size_t used = 0;
    memory m;
    for (int64_t step = 1; step <= DONE + 9; step++) { /* later ones are of no step before */
        used += (size_t)snprintf(lines + used, sizeof lines - used,
                                 "{\"step\": %lld, \"loss\": %.17g, \"x\": \"%0400d\"}\n", (long long)step,
                                 loss_of(step), 0);
        if (step % 10 == 0)
            used += (size_t)snprintf(lines + used, sizeof lines - used,
                                     "{\"step\": %lld, \"eval_loss\": %.17g}\n", (long long)step,
                                     2 * loss_of(step));
    }
    recall(&m, lines);
    for (int64_t step = 1; step <= DONE; step++) assert_true(m.losses[step - 1] == loss_of(step));
    assert_int_equal(m.r.evaluation_count, ROOM); /* the first of five has given way */
    for (int64_t i = 0; i < ROOM; i++) {
        assert_int_equal(m.r.evaluations[i].step, 20 + 10 * i);
        assert_true(m.r.evaluations[i].loss == 2 * loss_of(20 + 10 * i));
    }
    memory_free(m.r.evaluations);
}

static void damaged_lines_harm_no_other(void **state) {
    (void)state;
    static const char *const damaged[] = { "",
                                           "{",
                                           "[]",
                                           "7",
                                           "{\"loss\": 3}",
                                           "{\"step\": 0, \"loss\": 3}",
                                           "{\"step\": 51, \"loss\": 3}",
                                           "{\"step\": \"2\", \"loss\": 3}",
                                           "{\"step\": 2, \"loss\": \"3\"}",
                                           "{\"step\": 2, \"loss\": null}",
                                           "{\"step\": 2, \"eval_loss\": [3]}",
                                           "{\"step\": 2.5, \"loss\": 3}" };
    char lines[256];
    memory m;
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        snprintf(lines, sizeof lines, "{\"step\": 1, \"loss\": -0.5}\n%s\n{\"step\": 3, \"loss\": 0.25}\n",
                 damaged[i]);
        recall(&m, lines);
        memory_free(m.r.evaluations);
        assert_int_equal(m.r.evaluation_count, 0);
        for (int step = 1; step <= DONE; step++)
            if (step == 1   ? m.losses[0] != -0.5
                : step == 3 ? m.losses[2] != 0.25
                            : !isnan(m.losses[step - 1]))
                fail_msg("%s: step %d has %g", damaged[i], step, m.losses[step - 1]);
    }
}

/* Without any line nothing is known, and that is no failure. */
static void no_history_is_none(void **state) {
    (void)state;
    memory m;
    recall(&m, "");
    memory_free(m.r.evaluations);
    for (int step = 1; step <= DONE; step++) assert_true(isnan(m.losses[step - 1]));
    m.losses[0] = 77;
    assert_int_equal(unlink("metrics.jsonl"), 0);
    assert_int_equal(history_recall(".", DONE, ROOM, &m.r), STATUS_OK);
    assert_true(isnan(m.losses[0]));
    assert_int_equal(history_recall(NULL, DONE, ROOM, &m.r), STATUS_OK);
    assert_int_equal(mkdir("metrics.jsonl", 0700), 0);
    assert_int_not_equal(history_recall(".", DONE, ROOM, &m.r), STATUS_OK);
    assert_non_null(strstr(status_message(), "metrics.jsonl"));
    assert_int_equal(rmdir("metrics.jsonl"), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_line_is_recalled),
                                        cmocka_unit_test(damaged_lines_harm_no_other),
                                        cmocka_unit_test(no_history_is_none) };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
