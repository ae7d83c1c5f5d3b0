/* snug profile as several processes: what each rank held is what was planned, where its step went adds up,
 * each has a trace, and one report tells of all. */
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
#include <sys/stat.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/several.h"
#include "io/file.h"
#include "io/scratch.h"
#include "sanitized.h"

static double number(json_value v, const char *key) {
    double x = NAN;
    if (json_get_number(v, key, -1e300, 1e300, &x) != STATUS_OK) fail_msg("%s", status_message());
    return x;
}

/* Of so many ranks. */
static json_document profile(int ranks, const char *options) {
    char line[400];
    json_document d;
    snprintf(line, sizeof line, "profile %s --steps 2 --threads 1 --json --quiet", options);
    if (several_start(ranks, line)) fail_msg("%s: %s", line, several_said());
    if (json_open("said", &d) != STATUS_OK) fail_msg("%s: %s", status_message(), several_said());
    return d;
}

static void parts_add_up(json_value row) {
    static const char *const parts[] = { "kernels", "waiting", "meeting", "copying", "loop" };
    double sum = 0, whole = number(row, "seconds");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) sum += number(row, parts[i]);
    if (fabs(sum - whole) > 1e-9 + 1e-6 * whole) fail_msg("parts of %.9f s add up to %.9f", whole, sum);
    assert_true(number(row, "links") <= number(row, "kernels"));
}

static void held_as_planned(const json_document *d, json_value row) {
    json_value planned = command_value(d, "predicted.by_category"), held, member;
    void *cursor = NULL;
    assert_int_equal(json_get(row, "by_category", &held), STATUS_OK);
    while (json_next(planned, &cursor, &member)) {
        int64_t bytes;
        assert_int_equal(json_as_integer(member, 0, INT64_MAX, &bytes), STATUS_OK);
        double is = number(held, member.key);
        bool right = strcmp(member.key, "runtime") == 0 ? is <= (double)bytes : is == (double)bytes;
        if (!right) fail_msg("%s: %.0f bytes, and %lld are planned", member.key, is, (long long)bytes);
    }
    bool equal = false;
    assert_int_equal(json_get_bool(row, "equal", &equal), STATUS_OK);
    assert_true(equal && number(row, "measured_bytes") <= number(row, "predicted_bytes"));
}

/* Data, gradients and states that travel in all ways. */
static void ranks_are_told_of(void **state) {
    (void)state;
#define WEIGHTS "char-small --context 64 --batch 4 --unit 1 --sharding weights"
    static const struct {
        int ranks;
        const char *options;
    } cases[] = { { 2, "tiny --batch 8 --unit 2 --data text --eval-samples 2" },
                  { 4, SANITIZED ? WEIGHTS : WEIGHTS " --memory 80MiB" },
                  { 2, "char-small --context 64 --batch 8 --eval-samples 2" } }; /* a chain */
    if (several_left_out()) return;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_document d = profile(cases[i].ranks, cases[i].options);
        json_value rows = command_value(&d, "ranks");
        size_t count;
        double steps = number(command_value(&d, "profile.step"), "seconds"), moved = 0;
        assert_int_equal(json_as_array(rows, &count), STATUS_OK);
        assert_int_equal(count, cases[i].ranks);
        for (size_t r = 0; r < count; r++) {
            json_value row = json_item(rows, r);
            parts_add_up(row);
            held_as_planned(&d, row);
            assert_true(number(row, "movements") > 0 && number(row, "moving") > 0);
            moved += number(row, "moved_bytes");
        }
        assert_true(moved > 0 && number(command_value(&d, "profile"), "predicted_moving") > 0);
        assert_true(number(json_item(rows, 0), "seconds") == steps); /* that of rank 0 is shown */
        json_close(&d);
    }
}

/* What each gets of every gradient is what the others have of its share: all get as much, and as much as the
 * shapes say. */
static void bytes_that_move_are_counted(void **state) {
    (void)state;
    if (several_left_out()) return;
    json_document d = profile(2, "char-small --context 64 --batch 4 --unit 2 --sharding copies");
    json_value rows = command_value(&d, "ranks");
    double first = number(json_item(rows, 0), "moved_bytes");
    assert_true(first == number(json_item(rows, 1), "moved_bytes"));
    double weights = (double)command_number(&d, "predicted.by_category.weights");
    /* Half of the large gradients to be summed and half of the sums to be whole: about all of the weights. */
    if (first < 0.9 * weights || first > 1.2 * weights) fail_msg("%.0f bytes for %.0f", first, weights);
    json_close(&d);
}

/* However many groups there are, the last one sends no more than others to tell them its sums. */
static void groups_send_as_much_as_each_other(void **state) {
    static const char config[] = "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 4, \"n_embd\": "
                                 "128, \"n_positions\": 32, \"vocab_size\": 640}\n";
    static const char *const settings[] = { "weights:group=2", "gradients:group=2" };
    enum { RANKS = 8, GROUPS = 4, SUMS = 5, SHARES = (640 * 128 + 4 * 65536) / 2 * 4 };
    (void)state;
    if (several_left_out()) return;
    mkdir("cut", 0700);
    scratch_write("cut/config.json", config, sizeof config - 1);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        char line[200];
        snprintf(line, sizeof line, "cut --context 32 --batch 8 --unit 1 --data text --sharding %s",
                 settings[i]);
        json_document d = profile(RANKS, line);
        json_value rows = command_value(&d, "ranks");
        double least = number(json_item(rows, 0), "sent_bytes"), most = least, got = 0, sent = 0;
        for (size_t r = 0; r < RANKS; r++) {
            double bytes = number(json_item(rows, r), "sent_bytes");
            least = bytes < least ? bytes : least, most = bytes > most ? bytes : most;
            sent += bytes, got += number(json_item(rows, r), "moved_bytes");
        }
        assert_true(sent == got && most > 2.0 * (GROUPS - 1) / GROUPS * SHARES);
        if (most - least > SUMS * GROUPS * 16) fail_msg("%s: %.0f to %.0f bytes", settings[i], least, most);
        json_close(&d);
    }
}

/* The plan is that of ranks with nobody there, and the profile's tables are all that is added. */
static void the_plan_is_that_of_plan(void **state) {
    (void)state;
    static const char *const of = "tiny --batch 8 --unit 2";
    char line[200];
    if (several_left_out()) return;
    json_document d = profile(2, of);
    snprintf(line, sizeof line, "plan %s --ranks 2 --threads 1 --json --quiet", of);
    if (command_number(&d, "transport_bytes") == command_asked(line, "transport_bytes"))
        assert_int_equal(command_number(&d, "predicted.peak_bytes"),
                         command_asked(line, "predicted.peak_bytes") +
                             command_number(&d, "profile.table_bytes"));
    json_close(&d);
}

static void is_json(const char *path) {
    json_document d;
    char *all;
    uint64_t bytes;
    if (io_read_file(path, 64 << 20, &all, &bytes) != STATUS_OK ||
        json_parse_within(path, all, (size_t)bytes, UINT64_MAX, &d) != STATUS_OK)
        fail_msg("%s", status_message());
    free(all);
    json_close(&d);
}

static void each_rank_has_a_trace(void **state) {
    (void)state;
    char line[300];
    if (several_left_out()) return;
    command_shell("rm -rf traces && mkdir traces");
    json_document d = profile(2, "tiny --batch 8 --unit 2 --trace traces/step.json");
    unsigned long long calls = 2 * command_number(&d, "profile.total.calls");
    json_close(&d);
    for (int r = 0; r < 2; r++) {
        snprintf(line, sizeof line, "traces/step-rank%d.json", r);
        is_json(line);
        snprintf(line, sizeof line, "[ $(grep -c '\"cat\": ' traces/step-rank%d.json) = %llu ]", r, calls);
        command_shell(line);
        snprintf(line, sizeof line, "! grep '\"pid\": ' traces/step-rank%d.json | grep -v '\"pid\": %d'", r,
                 r + 1);
        command_shell(line);
        snprintf(line, sizeof line, "grep -q 'tiny, rank %d' traces/step-rank%d.json", r, r);
        command_shell(line);
    }
    command_shell("[ $(ls traces | wc -l) = 2 ]");
}

static void people_read_of_ranks(void **state) {
    (void)state;
    if (several_left_out()) return;
    static const char *const words[] = { "Time by op", "The step by rank", "0 on ", "1 on ",
                                         "predicted",  "meeting",          "links", "and 1 more" };
    command_shell("rm -f page.html");
    assert_int_equal(
        several_start(2, "profile tiny --batch 8 --unit 2 --steps 1 --trace step.json --html page.html"), 0);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strstr(several_said(), words[i])) fail_msg("'%s' is missing: %s", words[i], several_said());
    assert_int_equal(several_times(several_said(), "Time by op"), 1); /* rank 0 speaks */
    for (const char *line = several_said(); *line; line += strcspn(line, "\n"), line += *line != 0)
        assert_true(strcspn(line, "\n") <= 110);
    command_shell("grep -q 'The step by rank' page.html && grep -q 'rank 1' page.html");
}

/* One sentence, and nobody waits for ever. */
static void mistakes_of_one_are_told(void **state) {
    (void)state;
    if (several_left_out()) return;
    several_refused_each(2,
                         (const char *[]){ "profile tiny --batch 8 --unit 2 --quiet --trace step.json",
                                           "profile tiny --batch 8 --unit 2 --quiet --trace no/step.json" },
                         2, "rank 1 on ");
    several_refused(2, "profile tiny --batch 9 --unit 2 --quiet", 2, "is no whole number");
    several_refused(2, "profile tiny --batch 8 --unit 2 --quiet --memory 1MiB", 3, "does not fit");
    several_refused_each(2,
                         (const char *[]){ "profile tiny --batch 8 --unit 2 --quiet",
                                           "profile tiny --batch 8 --unit 2 --quiet --data text" },
                         2, "rank 1");
    /* Rank 0 says how many steps. */
    assert_int_equal(several_start_each(2, (const char *[]){ "profile tiny --batch 8 --unit 2 --steps 2",
                                                             "profile tiny --batch 8 --unit 2 --steps 9" }),
                     0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_are_told_of),
        cmocka_unit_test(bytes_that_move_are_counted),
        cmocka_unit_test(groups_send_as_much_as_each_other),
        cmocka_unit_test(each_rank_has_a_trace),
        cmocka_unit_test(the_plan_is_that_of_plan),
        cmocka_unit_test(people_read_of_ranks),
        cmocka_unit_test(mistakes_of_one_are_told),
    };
    return cmocka_run_group_tests(tests, several_open, several_close);
}
