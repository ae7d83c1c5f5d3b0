/* snug profile as a user runs it: times add up, the trace says the same as the plan, memory is as planned. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "io/file.h"
#include "io/scratch.h"

static double number(json_value v, const char *key) {
    double x = NAN;
    if (json_get_number(v, key, -1e300, 1e300, &x) != STATUS_OK) fail_msg("%s", status_message());
    return x;
}

static void assert_close(double a, double b) {
    if (fabs(a - b) > 1e-9 + 1e-6 * fabs(b)) fail_msg("%.12g is not %.12g", a, b);
}

static void profile(const char *line, json_document *d) {
    char whole[512];
    snprintf(whole, sizeof whole, "profile %s --json --quiet", line);
    command_result r = command_run(whole);
    if (r.exit) fail_msg("snug %s: exit %d, %s", whole, r.exit, r.err);
    assert_string_equal(r.err, "");
    if (json_parse("profile", r.out, strlen(r.out), d) != STATUS_OK) fail_msg("%s", status_message());
    command_free(&r);
}

/* ---- times ---- */

static const char *const SUMS[] = {
    "calls", "seconds", "predicted_seconds", "bound_seconds", "flops", "bytes"
};

/* Rows add up to the total, in every column. */
static void rows_add_up(const json_document *d, const char *rows) {
    size_t count;
    json_value list = command_value(d, rows), total = command_value(d, "profile.total");
    assert_int_equal(json_as_array(list, &count), STATUS_OK);
    assert_true(count > 0);
    for (size_t c = 0; c < sizeof SUMS / sizeof *SUMS; c++) {
        double sum = 0;
        for (size_t i = 0; i < count; i++) sum += number(json_item(list, i), SUMS[c]);
        assert_close(sum, number(total, SUMS[c]));
    }
}

static double times_add_up(const json_document *d) {
    json_value step = command_value(d, "profile.step"), total = command_value(d, "profile.total");
    double whole = number(step, "seconds");
    assert_close(number(step, "kernels") + number(step, "waiting") + number(step, "copying") +
                     number(step, "loop"),
                 whole);
    assert_close(number(total, "seconds"), number(step, "kernels"));
    assert_close(number(command_value(d, "measured"), "step_seconds"), whole);
    rows_add_up(d, "profile.by_op");
    rows_add_up(d, "profile.by_block");
    return number(step, "kernels") / whole;
}

/* What the plan predicts for the step is what its kernels add up to. */
static void prediction_is_the_plans(const json_document *d) {
    assert_close(number(command_value(d, "profile.total"), "predicted_seconds"),
                 number(command_value(d, "predicted"), "step_seconds"));
}

/* A machine that is busy elsewhere may stop the program between two kernels: once in a dozen times is enough.
 */
static void times_account_for_the_step(void **state) {
    (void)state;
    double best = 0;
    for (int i = 0; i < 12 && best < 0.98; i++) {
        json_document d;
        profile("char-small --batch 4 --context 128 --steps 3", &d);
        double share = times_add_up(&d);
        prediction_is_the_plans(&d);
        if (share > best) best = share;
        json_close(&d);
    }
    if (best < 0.98) fail_msg("kernels account for %.2f %% of the step", 100 * best);
}

/* ---- memory ---- */

static void memory_is_as_planned(const json_document *d) {
    json_value planned = command_value(d, "predicted.by_category"), member;
    void *cursor = NULL;
    while (json_next(planned, &cursor, &member)) {
        char path[64];
        snprintf(path, sizeof path, "measured.by_category.%s", member.key);
        int64_t bytes;
        assert_int_equal(json_as_integer(member, 0, INT64_MAX, &bytes), STATUS_OK);
        if (strcmp(member.key, "runtime") == 0)
            assert_true(command_number(d, path) <= (uint64_t)bytes);
        else
            assert_int_equal(command_number(d, path), bytes);
    }
    assert_true(command_number(d, "measured.peak_bytes") <= command_number(d, "predicted.peak_bytes"));
}

static void plans_are_kept(void **state) {
    (void)state;
    static const char *const lines[] = {
        "tiny --batch 8 --steps 2",
        "tiny --batch 7 --micro-batch 2 --steps 1",
        "tiny --batch 8 --data text --eval-samples 5 --recompute block --steps 1 --workers 0",
        "tiny --batch 4 --eval-batch 64 --eval-samples 100 --steps 1", /* the peak is validation's */
        "tiny --batch 4 --optimizer sgd --clip off --threads 1 --dropout 0.1",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        json_document d;
        profile(lines[i], &d);
        memory_is_as_planned(&d);
        times_add_up(&d);
        json_close(&d);
    }
}

/* Random numbers in place of data don't change the plan, and the profile's tables are all that is added. */
static void the_plan_is_that_of_plan(void **state) {
    (void)state;
    json_document d, p;
    profile("tiny --batch 8 --steps 2", &d);
    command_result r = command_run("plan tiny --batch 8 --json --quiet");
    assert_int_equal(json_parse("plan", r.out, strlen(r.out), &p), STATUS_OK);
    uint64_t tables = command_number(&d, "profile.table_bytes");
    assert_true(tables > 0);
    assert_int_equal(command_number(&d, "predicted.peak_bytes"),
                     command_number(&p, "predicted.peak_bytes") + tables);
    assert_int_equal(command_number(&d, "predicted.arena_bytes"),
                     command_number(&p, "predicted.arena_bytes"));
    command_free(&r);

    char line[128];
    snprintf(line, sizeof line, "profile tiny --batch 8 --steps 2 --quiet --memory %llu",
             (unsigned long long)command_number(&p, "least_budget_bytes"));
    r = command_run(line);
    assert_int_equal(r.exit, 3);
    assert_non_null(strstr(r.err, "of its own"));
    command_free(&r);
    json_close(&d);
    json_close(&p);
}

/* What is observed is left out where there is no room for it, as of a run; a byte less than the rest is
 * refused. */
static void no_room_to_observe_is_no_refusal(void **state) {
    (void)state;
    json_document whole, less;
    char line[128];
    json_value told;
    profile("tiny --batch 8 --steps 2", &whole);
    uint64_t peak = command_number(&whole, "predicted.peak_bytes"),
             lives = command_number(&whole, "profile.observed.table_bytes");
    assert_true(lives > 1);
    const uint64_t budgets[] = { peak - 1, peak - lives };
    for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++) {
        snprintf(line, sizeof line, "tiny --batch 8 --steps 2 --html page.html --memory %llu",
                 (unsigned long long)budgets[i]);
        profile(line, &less);
        memory_is_as_planned(&less);
        assert_int_equal(json_get(less.root, "profile", &told), STATUS_OK);
        assert_true(json_says(told, "observed") && !json_has(told, "observed"));
        assert_int_equal(command_number(&less, "predicted.peak_bytes"), peak - lives);
        assert_int_equal(command_number(&less, "profile.table_bytes"),
                         command_number(&whole, "profile.table_bytes") - lives);
        json_close(&less);
    }
    snprintf(line, sizeof line, "profile tiny --batch 8 --steps 2 --quiet --memory %llu",
             (unsigned long long)(peak - lives - 1));
    assert_true(command_says(line, 3, "of its own"));
    json_close(&whole);
}

/* ---- the trace ---- */

typedef struct {
    uint64_t kernels, counters, steps, peak;
    double seconds; /* in kernels */
} trace_sums;

static void add_counter(json_value event, trace_sums *sums) {
    json_value args, member;
    uint64_t sum = 0;
    void *cursor = NULL;
    assert_int_equal(json_get(event, "args", &args), STATUS_OK);
    while (json_next(args, &cursor, &member)) {
        int64_t bytes;
        assert_int_equal(json_as_integer(member, 0, INT64_MAX, &bytes), STATUS_OK);
        sum += (uint64_t)bytes;
    }
    sums->counters++;
    if (sum > sums->peak) sums->peak = sum;
}

static void add_kernel(json_value event, trace_sums *sums, double *end) {
    json_value args, shapes;
    const char *name, *phase;
    size_t count;
    assert_int_equal(json_get(event, "args", &args), STATUS_OK);
    assert_int_equal(json_get_string(args, "op", &name), STATUS_OK);
    assert_int_equal(json_get_string(args, "phase", &phase), STATUS_OK);
    assert_int_equal(json_get(args, "makes", &shapes), STATUS_OK);
    assert_int_equal(json_as_array(shapes, &count), STATUS_OK);
    assert_true(count > 0);
    assert_true(number(event, "ts") > *end - 0.01); /* one after the other; rounded to nanoseconds */
    *end = number(event, "ts") + number(event, "dur");
    sums->kernels++;
    sums->seconds += 1e-6 * number(event, "dur");
}

static trace_sums read_trace(const char *path) {
    json_document t;
    json_value events;
    size_t count;
    double end = 0;
    trace_sums sums = { 0 };
    char *trace;
    uint64_t bytes;
    if (io_read_file(path, 64 << 20, &trace, &bytes) != STATUS_OK ||
        json_parse_within(path, trace, (size_t)bytes, UINT64_MAX, &t) != STATUS_OK)
        fail_msg("%s", status_message());
    free(trace);
    assert_int_equal(json_get(t.root, "traceEvents", &events), STATUS_OK);
    assert_int_equal(json_as_array(events, &count), STATUS_OK);
    for (size_t i = 0; i < count; i++) {
        json_value event = json_item(events, i);
        const char *kind, *name;
        assert_int_equal(json_get_string(event, "ph", &kind), STATUS_OK);
        assert_int_equal(json_get_string(event, "name", &name), STATUS_OK);
        if (*kind == 'C')
            add_counter(event, &sums);
        else if (*kind == 'X' && json_has(event, "cat"))
            add_kernel(event, &sums, &end);
        else if (*kind == 'X')
            sums.steps += strncmp(name, "step ", 5) == 0;
        else
            assert_string_equal(kind, "M");
    }
    json_close(&t);
    return sums;
}

static void traces_say_what_ran(void **state) {
    (void)state;
    static const struct {
        const char *line;
        unsigned steps;
    } cases[] = { { "tiny --batch 8 --steps 3", 3 }, { "tiny --batch 7 --micro-batch 2 --steps 1", 1 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[256];
        json_document d;
        snprintf(line, sizeof line, "%s --eval-samples 1 --eval-batch 1 --trace trace.json", cases[i].line);
        profile(line, &d);
        trace_sums sums = read_trace("trace.json");
        assert_int_equal(sums.steps, cases[i].steps);
        assert_int_equal(sums.kernels, cases[i].steps * command_number(&d, "profile.total.calls"));
        assert_int_equal(sums.counters, sums.kernels);
        assert_int_equal(sums.peak, command_number(&d, "predicted.persistent_bytes") +
                                        command_number(&d, "predicted.lower_bound_bytes"));
        if (cases[i].steps == 1)
            assert_true(fabs(sums.seconds - number(command_value(&d, "profile.step"), "kernels")) < 1e-5);
        json_close(&d);
    }
}

/* ---- text and mistakes ---- */

static void people_read_tables(void **state) {
    (void)state;
    static const char *const words[] = { "Time by op", "Time by block", "matmul",      "block 1",
                                         "in kernels", "predicted",     "activations", "ui.perfetto.dev" };
    command_result r = command_run("profile tiny --batch 8 --steps 1 --trace trace.json");
    assert_int_equal(r.exit, 0);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) assert_non_null(strstr(r.out, words[i]));
    for (const char *line = r.out; *line; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") <= 110);
    command_free(&r);
}

static void help_shows_its_own_steps(void **state) {
    (void)state;
    command_result r = command_run("help profile");
    const char *at = strstr(r.out, "\n  --steps N");
    assert_int_equal(r.exit, 0);
    assert_non_null(at);
    assert_null(strstr(at + 1, "\n  --steps N"));
    assert_non_null(strstr(at, "[5]"));
    assert_null(strstr(r.out, "--out"));
    command_free(&r);
}

static void mistakes_are_found_early(void **state) {
    (void)state;
    command_expect(2, "profile");
    command_expect(2, "profile tiny --steps 0");
    command_expect(2, "profile tiny --steps 1001");
    command_expect(2, "profile tiny --out here");
    command_expect(2, "plan tiny --trace here");
    command_expect(3, "profile tiny --memory 1MiB");
    command_expect(2, "profile tiny --steps 1 --trace nowhere/trace.json");
    assert_int_not_equal(access("nowhere", F_OK), 0);
}

static int open_files(void **state) {
    int failed = scratch_open(state);
    if (!failed) command_make_files();
    return failed;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_account_for_the_step), cmocka_unit_test(plans_are_kept),
        cmocka_unit_test(the_plan_is_that_of_plan),   cmocka_unit_test(no_room_to_observe_is_no_refusal),
        cmocka_unit_test(traces_say_what_ran),        cmocka_unit_test(people_read_tables),
        cmocka_unit_test(help_shows_its_own_steps),   cmocka_unit_test(mistakes_are_found_early),
    };
    return cmocka_run_group_tests_name("profile", tests, open_files, scratch_close);
}
