/* --html as a user meets it: the page's bytes are the plan's, those of every kernel are the trace's, the file
 * is known to be writable before any work, and a full disk is one sentence. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "cli/command.h"
#include "io/file.h"
#include "io/scratch.h"
#include "plan/category.h"
#include "report/page_read.h"

static char *read_page(const char *path) {
    char *html;
    uint64_t bytes;
    if (io_read_file(path, 64 << 20, &html, &bytes) != STATUS_OK) fail_msg("%s", status_message());
    assert_int_equal(strlen(html), bytes);
    page_read_markup(html);
    page_read_policy(html);
    return html;
}

static uint64_t held_of(const json_document *d) {
    json_value held = page_read_at(d->root, "held");
    assert_int_equal(page_read_count(held), 1);
    return (uint64_t)page_read_whole(json_item(held, 0));
}

/* Of each moment and category, and of the peak, to the byte. */
static void compare_with_plan(const json_document *d, const page_read_sums *s, const json_document *plan) {
    size_t peak = (size_t)page_read_whole(page_read_at(d->root, "peak"));
    uint64_t of_peak = command_number(plan, "predicted.peak_bytes"), most = 0, used = 0;
    assert_int_equal(held_of(d), of_peak);
    assert_int_equal(s->categories, CATEGORY_COUNT);
    for (size_t m = 0; m < s->moments; m++) {
        uint64_t all = 0;
        for (size_t k = 0; k < CATEGORY_COUNT; k++) all += s->bytes[m * CATEGORY_COUNT + k];
        if (all > most) most = all;
        if (m == peak) used = all;
    }
    assert_int_equal(used, most);
    for (int k = 0; k < CATEGORY_COUNT; k++) {
        char path[64];
        snprintf(path, sizeof path, "predicted.by_category.%s", category_name((category)k));
        uint64_t seen = s->bytes[peak * CATEGORY_COUNT + (size_t)k];
        if (k == CATEGORY_GAPS) seen = of_peak - used;
        assert_int_equal(seen, command_number(plan, path));
    }
}

/* The whole front: leaner is slower; its leanest point, the chosen one and plain are those of the plan. */
static void compare_front(const char *html, const json_document *plan) {
    json_document d = page_read_data(html, "points", 0);
    json_value points = page_read_at(d.root, "points");
    double before[2] = { 0, 1e300 };
    int chosen = 0;
    for (size_t k = 0; k < page_read_count(points); k++) {
        json_value x = json_item(points, k);
        int64_t kind = page_read_whole(page_read_at(x, "kind"));
        double peak = 0, seconds = 0;
        assert_int_equal(json_get_number(x, "x", 1, 1e18, &peak), STATUS_OK);
        assert_int_equal(json_get_number(x, "y", 0, 1e9, &seconds), STATUS_OK);
        if (k == 0) assert_int_equal((uint64_t)peak, command_number(plan, "least_budget_bytes"));
        chosen += kind == 1;
        if (kind == 1) assert_true(peak <= (double)command_number(plan, "predicted.peak_bytes"));
        if (kind == 2) {
            assert_int_equal((uint64_t)peak, command_number(plan, "plain.peak_bytes"));
            continue; /* it need not be on the front */
        }
        assert_true(peak > before[0] && seconds < before[1]);
        before[0] = peak, before[1] = seconds;
    }
    assert_int_equal(chosen, 1);
    json_close(&d);
}

static double sum_of_bars(const char *html, int which) {
    json_document d = page_read_data(html, "bars", which);
    json_value bars = page_read_at(d.root, "bars");
    double sum = 0, value = 0;
    for (size_t i = 0; i < page_read_count(bars); i++) {
        assert_int_equal(json_get_number(json_item(bars, i), "value", 0, 1e18, &value), STATUS_OK);
        sum += value;
    }
    json_close(&d);
    return sum;
}

/* All ops together take the time of the step. */
static void compare_time(const char *html, const json_document *plan) {
    int charts = 0;
    for (const char *at = html; (at = strstr(at, "data-kind=\"bars\"")); at++) charts++;
    double sum = sum_of_bars(html, charts - 1), whole = 0;
    json_value predicted = command_value(plan, "predicted");
    if (json_get_number(predicted, "step_seconds", 0, 1e9, &whole) != STATUS_OK)
        return; /* nothing is trained */
    if (sum < 0.999999 * whole || sum > 1.000001 * whole) fail_msg("%g s by op, %g s a step", sum, whole);
}

static const char *const plans[] = {
    "tiny --batch 4",
    "tiny --batch 6 --micro-batch 4 --data text --eval-samples 3 --eval-batch 2",
    "tiny --batch 4 --recompute block --optimizer-state 8bit --lora rank=2",
    "deep --batch 2 --memory 900MB",
    "tiny --batch 4 --eval-only --data text",
    "gpt2 --batch 8",
};

static void pages_have_the_bytes_of_plans(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        char line[256];
        snprintf(line, sizeof line, "plan %s --html page.html --json --quiet", plans[i]);
        json_document plan = command_json(line);
        char *html = read_page("page.html");
        json_document d = page_read_data(html, "bands", 0);
        page_read_sums s = page_read_bands(&d);
        compare_with_plan(&d, &s, &plan);
        free(s.bytes);
        json_close(&d);
        compare_front(html, &plan);
        compare_time(html, &plan);
        memory_free(html);
        json_close(&plan);
        assert_int_equal(remove("page.html"), 0);
    }
}

/* A model with names that a browser would run, were they markup. */
static void names_of_files_are_texts(void **state) {
    (void)state;
    command_shell("mkdir -p '<b>'; cp tiny/config.json '<b>'");
    command_expect(0, "plan <b> --batch 2 --html page.html --quiet");
    char *html = read_page("page.html");
    assert_non_null(strstr(html, "&lt;b&gt;"));
    assert_null(strstr(html, "plan <b>"));
    memory_free(html);
}

/* ---- a page of every kernel: the trace has the same bytes, and was made apart ---- */

static void profiles_have_the_bytes_of_traces(void **state) {
    (void)state;
    command_expect(
        0, "profile tiny --batch 4 --steps 2 --eval-samples 1 --eval-batch 1 --trace trace.json --html "
           "page.html --quiet");
    char *html = read_page("page.html"), *trace;
    uint64_t bytes, compared = 0;
    json_document d = page_read_data(html, "bands", 0), t;
    page_read_sums s = page_read_bands(&d);
    if (io_read_file("trace.json", 64 << 20, &trace, &bytes) != STATUS_OK ||
        json_parse_within("trace", trace, (size_t)bytes, UINT64_MAX, &t) != STATUS_OK)
        fail_msg("%s", status_message());
    json_value events = page_read_at(t.root, "traceEvents");
    size_t moment = 0;
    for (size_t i = 0; i < page_read_count(events); i++) {
        json_value e = json_item(events, i);
        const char *kind = NULL;
        assert_int_equal(json_get_string(e, "ph", &kind), STATUS_OK);
        if (strcmp(kind, "C") != 0 || moment == s.moments) continue;
        json_value sums = page_read_at(e, "args");
        for (int k = 0; k < CATEGORY_COUNT; k++) {
            if (k == CATEGORY_GAPS || k == CATEGORY_RUNTIME) continue;
            int64_t alive = page_read_whole(page_read_at(sums, category_name((category)k)));
            assert_int_equal(s.bytes[moment * CATEGORY_COUNT + (size_t)k], (uint64_t)alive);
            compared++;
        }
        moment++;
        if (moment == s.moments) break;
        /* validation is on the page behind the step, and in no trace */
        json_value part = json_item(json_item(page_read_at(d.root, "moments"), moment), 3);
        if (page_read_whole(part) != 0) break;
    }
    assert_true(compared > 100);
    free(s.bytes);
    json_close(&d);
    json_close(&t);
    memory_free(trace);
    memory_free(html);
}

/* ---- runs ---- */

static void runs_have_their_curves(void **state) {
    (void)state;
    command_expect(
        0, "train tiny --data text --batch 4 --steps 6 --eval-every 3 --eval-samples 2 --threads 1 --out o "
           "--html page.html --quiet");
    char *html = read_page("page.html");
    static const char *const names[] = { "Loss and validation", "Gradient norm", "Learning rate",
                                         "Time of a step", "Memory of the process" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!strstr(html, names[i])) fail_msg("no chart of %s", names[i]);
        json_document d = page_read_data(html, "lines", (int)i);
        json_value points = page_read_at(json_item(page_read_at(d.root, "lines"), 0), "points");
        assert_int_equal(page_read_count(points), 2 * 6);
        json_close(&d);
    }
    assert_non_null(strstr(html, "was trained for 6 steps"));
    assert_non_null(strstr(html, "of memory, as planned"));
    memory_free(html);
    command_expect(0, "train o --eval-only --data text --threads 1 --html page.html --quiet");
    html = read_page("page.html");
    assert_non_null(strstr(html, "a perplexity of"));
    memory_free(html);
}

/* Its sentence and its exit code stay those of a run that was stopped. */
static void a_run_that_is_stopped_has_a_page(void **state) {
    (void)state;
    pid_t run = command_start("train tiny --data text --batch 4 --steps 200000 --threads 1 --out long --html "
                              "stopped.html --quiet",
                              NULL, -1);
    struct stat about = { 0 };
    for (int i = 0; i < 3000 && !(stat("long/metrics.jsonl", &about) == 0 && about.st_size > 1000); i++)
        usleep(10000);
    assert_int_equal(kill(run, SIGINT), 0);
    command_result r = command_wait(run);
    assert_int_equal(r.exit, 130);
    assert_true(command_has_words(r.err, "--resume goes on from there"));
    command_free(&r);
    char *html = read_page("stopped.html");
    assert_non_null(strstr(html, "was stopped after"));
    memory_free(html);
}

/* Within its plan, page and all. */
static void a_page_takes_no_memory_beyond_the_plan(void **state) {
    (void)state;
    command_result r =
        command_run("train tiny --data text --batch 4 --steps 3 --threads 1 --out small --html "
                    "page.html --json --quiet");
    json_document d;
    assert_int_equal(r.exit, 0);
    assert_int_equal(json_parse("run", r.out, strlen(r.out), &d), STATUS_OK);
    assert_true(r.resident_peak <= command_number(&d, "predicted.peak_bytes"));
    json_close(&d);
    command_free(&r);
}

/* ---- what does not fit, and files that can't be written ---- */

static void what_does_not_fit_has_a_page(void **state) {
    (void)state;
    static const char *const lines[] = { "plan tiny --batch 4 --memory 5MB",
                                         "profile tiny --batch 4 --memory 5MB",
                                         "train tiny --data text --batch 4 --memory 5MB --out never" };
    for (size_t i = 0; i < 3; i++) {
        char line[256];
        snprintf(line, sizeof line, "%s --html page.html --quiet", lines[i]);
        command_expect(3, line);
        char *html = read_page("page.html");
        assert_non_null(strstr(html, "<h1 class=\"no\">"));
        assert_non_null(strstr(html, "does not fit into"));
        memory_free(html);
        assert_int_equal(remove("page.html"), 0);
    }
}

static void files_are_tried_before_any_work(void **state) {
    (void)state;
    static const char *const lines[] = {
        "plan nonsense --html nowhere/page.html", "profile nonsense --html nowhere/page.html",
        "train nonsense --data nothing --out never --html nowhere/page.html"
    };
    for (size_t i = 0; i < 3; i++) assert_true(command_says(lines[i], 2, "nowhere"));
    assert_true(access("never", F_OK) != 0);
    assert_true(command_says("plan tiny --html tiny", 2, "tiny is no regular file"));
    command_expect(2, "plan tiny --html text/page.html");
    command_expect(2, "devices --html page.html");
    command_expect(2, "plan tiny --html");
    assert_true(access("page.html", F_OK) != 0);
}

/* What a page is made of is not replaced by it, and neither is anything else that is no page. */
static void only_a_page_gives_way(void **state) {
    (void)state;
    static const struct {
        const char *line, *file;
    } runs[] = { { "plan tiny --batch 2 --html tiny/config.json", "tiny/config.json" },
                 { "estimate step.json --batch 2 --html step.json", "step.json" },
                 { "status o --html o/run.json", "o/run.json" },
                 { "train tiny --data text --batch 4 --steps 2 --threads 1 --out never --html text",
                   "text" } };
    command_shell("cp '%s/tests/estimate/recorded/step_blocks.json' step.json", SNUG_ROOT);
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        io_sum before, after;
        assert_int_equal(io_sum_file(runs[i].file, false, &before), STATUS_OK);
        assert_true(command_says(runs[i].line, 2, "is no page; choose another name"));
        assert_int_equal(io_sum_file(runs[i].file, false, &after), STATUS_OK);
        assert_true(before.sum == after.sum && before.bytes == after.bytes);
    }
    command_shell("(echo '<!DOCTYPE html>' && cat text) > data.html");
    assert_true(command_says("train tiny --data data.html --batch 4 --steps 2 --out never --html data.html",
                             2, "data.html is the data; choose another name"));
    scratch_write("page.html", "", 0);
    for (int i = 0; i < 2; i++) command_expect(0, "plan tiny --batch 2 --html page.html --quiet");
    assert_int_equal(remove("page.html"), 0);
}

/* The page that was there stays, and nothing lies beside it. */
static void a_full_disk_is_one_sentence(void **state) {
    (void)state;
    command_shell("echo '<!DOCTYPE html>before' > page.html");
    command_shell("sh -c 'ulimit -f 20; " SNUG_BUILD
                  "/snug plan tiny --batch 4 --html page.html --quiet 2> said; "
                  "test $? = 1'");
    command_shell("test $(wc -l < said) = 1 && grep -q page.html said");
    command_shell("test \"$(cat page.html)\" = '<!DOCTYPE html>before' && test ! -e page.html.partial");
    command_shell("sh -c 'ulimit -f 20; " SNUG_BUILD
                  "/snug profile tiny --batch 4 --steps 1 --html page.html --quiet "
                  "2> said; test $? = 1'");
    command_shell("test $(wc -l < said) = 1 && test \"$(cat page.html)\" = '<!DOCTYPE html>before'");
}

static void a_large_model_has_a_small_page(void **state) {
    (void)state;
    json_document plan = command_json("plan gpt2-xl --html page.html --json --quiet");
    char *html = read_page("page.html");
    assert_true(strlen(html) <= 1 << 20);
    json_document d = page_read_data(html, "bands", 0);
    page_read_sums s = page_read_bands(&d);
    compare_with_plan(&d, &s, &plan);
    free(s.bytes);
    json_close(&d);
    json_close(&plan);
    memory_free(html);
}

static int open_files(void **state) {
    if (scratch_open(state) != 0) return -1;
    command_make_files();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_have_the_bytes_of_plans),
        cmocka_unit_test(names_of_files_are_texts),
        cmocka_unit_test(profiles_have_the_bytes_of_traces),
        cmocka_unit_test(runs_have_their_curves),
        cmocka_unit_test(a_run_that_is_stopped_has_a_page),
        cmocka_unit_test(a_page_takes_no_memory_beyond_the_plan),
        cmocka_unit_test(what_does_not_fit_has_a_page),
        cmocka_unit_test(files_are_tried_before_any_work),
        cmocka_unit_test(only_a_page_gives_way),
        cmocka_unit_test(a_full_disk_is_one_sentence),
        cmocka_unit_test(a_large_model_has_a_small_page),
    };
    return cmocka_run_group_tests(tests, open_files, scratch_close);
}
