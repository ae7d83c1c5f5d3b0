/* --html of compare, status and estimate: the page's numbers are those of --json, and files are known to be
 * writable before any work. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "cli/pages.h"
#include "io/scratch.h"
#include "plan/category.h"
#include "report/page_read.h"
#include "sanitized.h"

enum { LARGEST = 1 << 20 };

static double number_at(json_value v, const char *key) {
    double x = -1;
    assert_int_equal(json_get_number(v, key, 0, 1e18, &x), STATUS_OK);
    return x;
}

static json_value at(json_value v, const char *key) {
    json_value x;
    assert_int_equal(json_get(v, key, &x), STATUS_OK);
    return x;
}

/* ---- compare ---- */

/* The bar of a row, in the charts of its group, beside the row of --json. */
static void check_row(const char *page, json_value row, json_value plain) {
    static const char *const titles[][2] = { { "alone", "One technique alone" },
                                             { "lossless", "Together, one after the other, leanest" },
                                             { "allowed", "With what is allowed to change numerics" },
                                             { "asked", "As asked for" } };
    const char *group, *name, *setting, *title = NULL;
    char label[128], chart[128];
    json_value planned;
    assert_int_equal(json_get_string(row, "group", &group), STATUS_OK);
    assert_int_equal(json_get_string(row, "name", &name), STATUS_OK);
    assert_int_equal(json_get_string(row, "setting", &setting), STATUS_OK);
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
        if (strcmp(group, titles[i][0]) == 0) title = titles[i][1];
    if (!title || !json_find(row, "planned", &planned)) return;
    snprintf(label, sizeof label, "%s%s%s", name, *setting ? " " : "", setting);
    if (strlen(label) > 33) return; /* it is cut */
    snprintf(chart, sizeof chart, "%s: bytes at the peak", title);
    json_document bytes = pages_chart(page, chart);
    json_value bar = pages_bar(&bytes, label), pieces = at(bar, "pieces"), marks = at(bar, "marks");
    assert_true(number_at(bar, "value") == number_at(planned, "peak_bytes"));
    assert_true(pages_number(marks, 0) == (uint64_t)number_at(plain, "peak_bytes"));
    for (int c = 0; c < CATEGORY_COUNT; c++)
        assert_true((double)pages_number(pieces, (size_t)c) ==
                    number_at(at(planned, "by_category"), category_name((category)c)));
    json_close(&bytes);
    if (strcmp(name, "--eval-only") == 0) return;
    snprintf(chart, sizeof chart, "%s: the time of a step", title);
    json_document seconds = pages_chart(page, chart);
    assert_true(number_at(pages_bar(&seconds, label), "value") == number_at(planned, "step_seconds"));
    json_close(&seconds);
}

static void rows_are_bars(void **state) {
    (void)state;
    json_document d = command_json(SANITIZED /* takes more for itself */
                                       ? "compare tiny --batch 4 --memory 1GB --html page.html --json"
                                       : "compare tiny --batch 4 --memory 16MB --html page.html --json");
    char *page = pages_read("page.html", LARGEST);
    json_value rows = at(d.root, "rows");
    size_t count;
    pages_check_markup(page);
    assert_int_equal(json_as_array(rows, &count), STATUS_OK);
    assert_true(count > 20);
    json_value plain = at(json_item(rows, 0), "planned");
    for (size_t i = 1; i < count; i++) check_row(page, json_item(rows, i), plain);
    memory_free(page);
    json_close(&d);
    assert_true(command_says("compare tiny --svg one --html one", 2, "both write one; choose two names"));
}

static void measured_rows_have_a_mark(void **state) {
    (void)state;
    json_document d = command_json(
        "compare tiny --batch 2 --measure --steps 2 --threads 1 --html page.html --json --quiet");
    char *page = pages_read("page.html", LARGEST);
    json_document bytes = pages_chart(page, "One technique alone: bytes at the peak"),
                  seconds = pages_chart(page, "One technique alone: the time of a step");
    json_value measured = at(json_item(at(d.root, "rows"), 0), "measured");
    assert_true((double)pages_number(at(pages_bar(&bytes, "plain"), "marks"), 1) ==
                number_at(measured, "peak_bytes"));
    double seen;
    assert_int_equal(json_as_number(json_item(at(pages_bar(&seconds, "plain"), "marks"), 1), 0, 1e9, &seen),
                     STATUS_OK);
    assert_true(seen == number_at(measured, "step_seconds"));
    json_close(&bytes);
    json_close(&seconds);
    memory_free(page);
    json_close(&d);
}

/* ---- status ---- */

static void a_run_has_its_curves(void **state) {
    (void)state;
    command_expect(0, "train tiny --data text --out run --steps 6 --eval-every 3 --threads 1 --quiet");
    command_expect(0, "status run --html page.html");
    char *page = pages_read("page.html", LARGEST);
    pages_check_markup(page);
    json_document run, loss = pages_chart(page, "Loss and validation"),
                       memory = pages_chart(page, "Memory by category: measured and planned");
    assert_int_equal(json_open("run/run.json", &run), STATUS_OK);
    json_value points = at(json_item(at(loss.root, "lines"), 0), "points"), losses = at(run.root, "losses");
    for (size_t i = 0; i < 6; i++) {
        double shown, said;
        assert_int_equal(pages_number(points, 2 * i), i + 1);
        assert_int_equal(json_as_number(json_item(points, 2 * i + 1), 0, 100, &shown), STATUS_OK);
        assert_int_equal(json_as_number(json_item(losses, i), 0, 100, &said), STATUS_OK);
        assert_true(shown == said);
    }
    for (int c = 0; c < CATEGORY_COUNT; c++) {
        char path[64];
        const char *name = category_name((category)c);
        snprintf(path, sizeof path, "predicted.by_category.%s", name);
        uint64_t planned = command_number(&run, path);
        if (!planned) continue;
        assert_int_equal(pages_number(at(pages_bar(&memory, name), "marks"), 0), planned);
        snprintf(path, sizeof path, "measured.by_category.%s", name);
        assert_int_equal(pages_bar_value(&memory, name), command_number(&run, path));
    }
    assert_non_null(strstr(page, "<h1>The run is finished: 6 steps, loss "));
    json_close(&run);
    json_close(&loss);
    json_close(&memory);
    memory_free(page);
}

/* A reason in the journal is a stranger's text; a run that ended without a word says so. */
static void what_went_wrong_stays_text(void **state) {
    (void)state;
    command_shell("mkdir bad && head -n 3 run/metrics.jsonl >bad/metrics.jsonl && printf '%%s\\n' "
                  "'{\"ended\": \"x\", \"done\": 2, \"outcome\": \"failed\", "
                  "\"reason\": \"</script><b>\\u202e\\u0007\"}' >>bad/metrics.jsonl && "
                  "echo '{\"predicted\": {\"by_category\": 7}, \"measured\": []}' >bad/run.json");
    command_expect(0, "status bad --html page.html");
    char *page = pages_read("page.html", LARGEST);
    pages_check_markup(page);
    assert_non_null(strstr(page, "&lt;/script&gt;&lt;b&gt;\xef\xbf\xbd\xef\xbf\xbd"));
    assert_non_null(strstr(page, "<h1 class=\"no\">The run failed at step 2 of 6"));
    memory_free(page);
    command_shell("head -n 3 run/metrics.jsonl >bad/metrics.jsonl");
    command_expect(0, "status bad --html page.html --json");
    page = pages_read("page.html", LARGEST);
    assert_non_null(strstr(page, "It ended without a word."));
    memory_free(page);
}

/* ---- estimate ---- */

static void check_layer(const json_document *bars, const json_document *d, const char *label,
                        const char *key) {
    json_value bar = pages_bar(bars, label), marks = at(bar, "marks"), said;
    if (!json_find(d->root, key, &said)) return;
    assert_true(number_at(bar, "value") == number_at(said, "likely"));
    assert_true((double)pages_number(marks, 0) == number_at(said, "low"));
    assert_true((double)pages_number(marks, 1) == number_at(said, "high"));
}

/* The highest moment of the step is the peak, made of the terms. */
static void check_step(const char *page, const json_document *d) {
    static const char *const terms[] = { "weights",     "gradients", "optimizer", "activations",
                                         "temporaries", "logits",    "inputs" };
    json_document step = pages_chart(page, "Live memory, call by call"),
                  made = pages_chart(page, "What it is made of");
    page_read_sums s = page_read_bands(&step);
    uint64_t peak = command_number(&step, "peak"), highest = 0, of_peak = 0;
    for (size_t m = 0; m < s.moments; m++) {
        uint64_t all = 0;
        for (size_t k = 0; k < s.categories; k++) all += s.bytes[m * s.categories + k];
        if (all > highest) highest = all;
        if (m == peak) of_peak = all;
    }
    assert_true(of_peak == highest);
    assert_true((double)highest == number_at(at(d->root, "live_bytes"), "likely"));
    json_value by_term = at(d->root, "by_term");
    for (size_t i = 0; i < sizeof terms / sizeof *terms; i++) {
        int64_t said = 0;
        assert_int_equal(json_optional_integer(by_term, terms[i], 0, INT64_MAX, &said), STATUS_OK);
        assert_int_equal(pages_bytes_at(&step, peak, terms[i]), said);
        if (said) assert_int_equal(pages_bar_value(&made, terms[i]), said);
    }
    free(s.bytes);
    json_close(&step);
    json_close(&made);
}

static void check_estimate(const char *line, int code, bool plays) {
    command_result r = command_run(line);
    json_document d;
    assert_int_equal(r.exit, code);
    assert_int_equal(json_parse(line, r.out, strlen(r.out), &d), STATUS_OK);
    char *page = pages_read("page.html", LARGEST);
    pages_check_markup(page);
    json_document bars = pages_chart(page, "Memory, as intervals");
    if (plays) check_layer(&bars, &d, "live", "live_bytes");
    check_layer(&bars, &d, "reserved", "reserved_bytes");
    if (json_has(d.root, "device")) check_layer(&bars, &d, "whole device", "device_bytes");
    if (plays) check_step(page, &d);
    if (!plays) assert_null(strstr(page, "Live memory, call by call"));
    memory_free(page);
    json_close(&bars);
    json_close(&d);
    command_free(&r);
}

static void estimates_are_what_json_says(void **state) {
    (void)state;
    static const struct {
        const char *line;
        int code;
        bool plays;
    } asked[] = {
        { "estimate gpt2 --batch 8 --context 1024 --gpu rtx4090", 0, true },
        { "estimate gpt2 --batch 8 --context 1024 --framework pytorch", 0, true },
        { "estimate gpt2-medium --batch 4 --context 512 --gradient-checkpointing --gpu h100-80", 0, true },
        { "estimate llama-3-8b --batch 1 --context 2048 --gpu h100-80", 3, true },
        { "estimate llama-3-8b --batch 1 --context 1024 --gpu h100-80 --gpus 4 --shard fsdp", 0, true },
        { "estimate llama-3-8b --batch 1 --context 512 --adapter-rank 8 --framework litgpt --dtype half", 0,
          true },
        { "estimate gpt2 --batch 4 --context 512 --shortest 128 --gpu rtx4090", 0, true },
        { "estimate llama-3-8b --framework vllm --gpu h100-80", 0, false },
    };
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        char line[256];
        snprintf(line, sizeof line, "%s --html page.html --json --quiet", asked[i].line);
        print_message("%s\n", line);
        check_estimate(line, asked[i].code, asked[i].plays);
    }
}

static void changes_are_estimated_as_well(void **state) {
    (void)state;
    command_expect(0, "estimate gpt2 --batch 8 --context 1024 --gpu rtx4090 --html page.html");
    char *page = pages_read("page.html", LARGEST);
    json_document with = pages_chart(page, "With each change by itself"),
                  d = command_json("estimate gpt2 --batch 8 --context 1024 --gpu rtx4090 "
                                   "--gradient-checkpointing --json --quiet");
    assert_true(pages_bar_value(&with, "--gradient-checkpointing") ==
                (uint64_t)number_at(at(d.root, "device_bytes"), "likely"));
    json_close(&with);
    json_close(&d);
    memory_free(page);
    /* A plan of ours has the page of a plan. */
    command_expect(0, "estimate tiny --framework snug --batch 2 --html page.html");
    page = pages_read("page.html", LARGEST);
    assert_non_null(strstr(page, ">Memory over the step</figcaption>"));
    memory_free(page);
}

/* ---- mistakes ---- */

static void mistakes_are_found_early(void **state) {
    (void)state;
    static const char *const lines[] = { "compare tiny --html nowhere/page.html",
                                         "status run --html nowhere/page.html",
                                         "estimate gpt2 --html nowhere/page.html",
                                         "estimate gpt2 --solve batch --gpu rtx4090 --html nowhere" };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        command_result r = command_run(lines[i]);
        assert_int_equal(r.exit, 2);
        assert_string_equal(r.out, "");
        assert_non_null(strstr(r.err, strstr(lines[i], "--solve") ? "leave out --solve" : "nowhere"));
        command_free(&r);
    }
    unlink("page.html");
    command_expect(2, "status nothing --html page.html");
    assert_int_not_equal(access("page.html", F_OK), 0);
    command_shell("(ulimit -f 16; '%s/snug' compare tiny --html page.html --quiet >said 2>&1; test $? = 1)",
                  SNUG_BUILD);
    command_shell("grep -q page.html said");
    assert_int_not_equal(access("page.html", F_OK), 0);
    assert_int_not_equal(access("page.html.partial", F_OK), 0);
}

static int open_files(void **state) {
    int failed = scratch_open(state);
    if (!failed) command_make_files();
    return failed;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_bars),
        cmocka_unit_test(measured_rows_have_a_mark),
        cmocka_unit_test(a_run_has_its_curves),
        cmocka_unit_test(what_went_wrong_stays_text),
        cmocka_unit_test(estimates_are_what_json_says),
        cmocka_unit_test(changes_are_estimated_as_well),
        cmocka_unit_test(mistakes_are_found_early),
    };
    return cmocka_run_group_tests_name("pages_elsewhere", tests, open_files, scratch_close);
}
