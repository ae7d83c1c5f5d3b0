#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "base/memory.h"
#include "io/file.h"
#include "io/lock.h"
#include "io/scratch.h"
#include "train/journal.h"
#include "train/standing.h"

static setup of_run(const char *out) {
    return (setup){ .options = { .out = out, .steps = 1000, .batch = 4 }, .budget = UINT64_MAX };
}

static journal *start(const char *out, int64_t done) {
    setup s = of_run(out);
    decision d = { .plan = { .peak_bytes = 12345 } };
    journal *j;
    if (journal_open(&s, &d, &(identity){ 0 }, done, &j) != STATUS_OK) fail_msg("%s", status_message());
    return j;
}

static train_progress at(int64_t step) {
    return (train_progress){ .step = step,
                             .steps = 1000,
                             .loss = 1.0 / (double)step,
                             .norm = step % 2 ? NAN : 0.5,
                             .learning_rate = 1e-4,
                             .seconds = 0.25,
                             .tokens_per_second = 100,
                             .resident_bytes = 4096 };
}

static void run_steps(journal *j, int64_t first, int64_t last) {
    for (int64_t step = first; step <= last; step++) {
        train_progress p = at(step);
        assert_int_equal(journal_step(j, &p), STATUS_OK);
        if (step % 10 == 0) assert_int_equal(journal_evaluated(j, step, 2), STATUS_OK);
    }
}

static char *text_of(const char *path) {
    char *data;
    uint64_t bytes;
    assert_int_equal(io_read_file(path, 1 << 24, &data, &bytes), STATUS_OK);
    return data;
}

static int count(const char *text, const char *what) {
    int n = 0;
    for (; (text = strstr(text, what)); text += strlen(what)) n++;
    return n;
}

/* Lines of steps are 1 .. last, each once and in order. */
static void expect_history(const char *path, int64_t last, int starts, int ends) {
    char *text = text_of(path);
    int64_t step = 0;
    for (char *line = text; (line = strstr(line, "{\"step\": ")); line++) {
        long long number = strtoll(line + 9, NULL, 10);
        bool evaluation = strstr(line, "eval_loss") && strstr(line, "eval_loss") < strchr(line, '\n');
        assert_int_equal(number, evaluation ? step : ++step);
    }
    assert_int_equal(step, last);
    assert_int_equal(count(text, "\"began\""), starts);
    assert_int_equal(count(text, "\"ended\""), ends);
    memory_free(text);
}

static void lines_say_what_happened(void **state) {
    (void)state;
    journal *j = start("lines", 0);
    run_steps(j, 1, 10);
    assert_int_equal(journal_close(j, STATUS_OK, 10), STATUS_OK);
    char *text = text_of("lines/metrics.jsonl");
    assert_non_null(strstr(text, "\"done\": 0, \"steps\": 1000, \"batch\": 4, \"context\": 0, \"run\": \""));
    assert_non_null(strstr(text, "\", \"planned_bytes\": 12345, \"budget_bytes\": null}\n"));
    assert_non_null(strstr(text, "\n{\"step\": 1, \"loss\": 1, \"lr\": 0.0001, \"seconds\": 0.25, "
                                 "\"tokens_per_second\": 100, \"memory_bytes\": 4096}\n"));
    assert_non_null(strstr(text, "\n{\"step\": 2, \"loss\": 0.5, \"grad_norm\": 0.5, "));
    assert_non_null(strstr(text, "\n{\"step\": 10, \"eval_loss\": 2}\n"));
    assert_non_null(strstr(text, "\"done\": 10, \"outcome\": \"finished\"}\n"));
    memory_free(text);
    expect_history("lines/metrics.jsonl", 10, 1, 1);
}

static void a_run_without_a_folder_writes_nothing(void **state) {
    (void)state;
    setup s = of_run(NULL);
    decision d = { 0 };
    journal *j;
    train_progress p = at(1);
    assert_int_equal(journal_open(&s, &d, &(identity){ 0 }, 0, &j), STATUS_OK);
    assert_null(j);
    assert_int_equal(journal_step(j, &p), STATUS_OK);
    assert_int_equal(journal_evaluated(j, 1, 1), STATUS_OK);
    assert_int_equal(journal_flush(j), STATUS_OK);
    assert_int_equal(journal_close(j, STATUS_NO_FIT, 1), STATUS_NO_FIT);
}

/* The first line says when, in the time of no place: as text it sorts by it. */
static void it_says_when(void **state) {
    (void)state;
    static const char form[] = "{\"began\": \"%4d-%2d-%2dT%2d:%2d:%2dZ\"%n";
    struct tm parts = { 0 };
    int end = 0;
    time_t before = time(NULL);
    assert_int_equal(journal_close(start("when", 0), STATUS_OK, 0), STATUS_OK);
    char *text = text_of("when/metrics.jsonl");
    int read = sscanf(text, form, &parts.tm_year, &parts.tm_mon, &parts.tm_mday, &parts.tm_hour,
                      &parts.tm_min, &parts.tm_sec, &end);
    assert_int_equal(read, 6);
    assert_int_equal(end, strlen("{\"began\": \"2026-11-21T08:30:00Z\""));
    parts.tm_year -= 1900, parts.tm_mon -= 1;
    assert_in_range(timegm(&parts), before, time(NULL));
    memory_free(text);
}

/* A start that was killed may have left the beginning of its history: the next one does not go on with it. */
static void what_a_kill_has_left_is_not_read(void **state) {
    (void)state;
    journal *j = start("left", 0);
    run_steps(j, 1, 3);
    assert_int_equal(journal_close(j, STATUS_OK, 3), STATUS_OK);
    assert_int_equal(system("cp left/metrics.jsonl left/metrics.jsonl.partial"), 0);
    j = start("left", 0);
    run_steps(j, 1, 5);
    assert_int_equal(journal_close(j, STATUS_OK, 5), STATUS_OK);
    expect_history("left/metrics.jsonl", 5, 1, 1);
    assert_int_not_equal(access("left/metrics.jsonl.partial", F_OK), 0);
}

/* A file where the folder would be is named as what is in the way. */
static void a_file_is_no_folder(void **state) {
    (void)state;
    setup s = of_run("file/run");
    decision d = { 0 };
    journal *j;
    scratch_write("file", "x", 1);
    assert_int_equal(journal_open(&s, &d, &(identity){ 0 }, 0, &j), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "cannot make the folder"));
}

/* Where the history can't take its place nothing of it stays. */
static void what_is_in_the_way_is_said(void **state) {
    (void)state;
    setup s = of_run("way");
    decision d = { 0 };
    journal *j;
    assert_int_equal(mkdir("way", 0777) | mkdir("way/metrics.jsonl", 0777), 0);
    assert_int_equal(journal_open(&s, &d, &(identity){ 0 }, 0, &j), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "cannot replace way/metrics.jsonl"));
    assert_int_not_equal(access("way/metrics.jsonl.partial", F_OK), 0);
}

/* Where a run goes on, the history is cut: behind a whole line, behind a torn one, within many blocks of
 * lines, after an end, and when nothing was written behind the step. */
static void going_on_cuts_the_history(void **state) {
    (void)state;
    static const struct {
        int64_t written, done;
        const char *torn;
        bool ended;
    } cases[] = { { 95, 80, "", false },         { 95, 80, "{\"step\": 96, \"lo", false },
                  { 95, 95, "{\"st", true },     { 400, 17, "", true },
                  { 400, 399, "garbage", true }, { 12, 10, "", true } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        journal *j = start("cut", 0);
        run_steps(j, 1, cases[i].written);
        if (cases[i].ended) {
            status stopped = status_set(STATUS_INTERRUPTED, "stopped by \"someone\"");
            assert_int_equal(journal_close(j, stopped, cases[i].written), STATUS_INTERRUPTED);
            assert_string_equal(status_message(), "stopped by \"someone\"");
        } else {
            status failed = status_set(STATUS_FAILED, "x");
            assert_int_equal(journal_close(j, failed, cases[i].written), STATUS_FAILED);
        }
        FILE *file = fopen("cut/metrics.jsonl", "a");
        fputs(cases[i].torn, file);
        fclose(file);
        j = start("cut", cases[i].done);
        run_steps(j, cases[i].done + 1, cases[i].done + 30);
        assert_int_equal(journal_close(j, STATUS_OK, cases[i].done + 30), STATUS_OK);
        expect_history("cut/metrics.jsonl", cases[i].done + 30, 2, 1);
    }
    journal *j = start("cut", 0); /* and a new run begins a new one */
    assert_int_equal(journal_close(j, STATUS_OK, 0), STATUS_OK);
    expect_history("cut/metrics.jsonl", 0, 1, 1);
}

/* The time that is left, of a run that is under way: the mean of what its steps took, for those that come. */
static void all_recent_steps_foretell_the_time(void **state) {
    (void)state;
    journal *j = start("stands", 0);
    run_steps(j, 1, 4);
    assert_int_equal(journal_close(j, STATUS_OK, 4), STATUS_OK);
    char *text = text_of("stands/metrics.jsonl"), *last = strrchr(text, '\n');
    while (last > text && last[-1] != '\n') last--; /* which says that it has ended */
    scratch_write("stands/metrics.jsonl", text, (size_t)(last - text));
    memory_free(text);
    lock held;
    standing s = { 0 };
    assert_int_equal(lock_open("stands/" LOCK_OF_FOLDER, &held), STATUS_OK);
    assert_int_equal(standing_look("stands", &s), STATUS_OK);
    assert_int_equal(s.state, STANDING_RUNNING);
    assert_true(s.at.seconds_left == 0.25 * 996);
    lock_close(&held);
}

/* Who reads the events of several files drops those of earlier ones from the step on that a later file begins
 * with. */
static void events_begin_behind_what_is_done(void **state) {
    (void)state;
    static const char start_of_81[] = { 0x10, 81, 0x3a, 2, 8, 1 }; /* a step, and that a session begins */
    for (int64_t done = 0; done <= 80; done += 80) {
        journal *j = start("begins", done);
        assert_int_equal(journal_close(j, STATUS_OK, done), STATUS_OK);
    }
    DIR *folder = opendir("begins");
    assert_non_null(folder);
    int found = 0;
    for (struct dirent *item; (item = readdir(folder));) {
        char path[512], *data;
        uint64_t bytes;
        if (!strstr(item->d_name, "tfevents")) continue;
        snprintf(path, sizeof path, "begins/%s", item->d_name);
        assert_int_equal(io_read_file(path, 1 << 20, &data, &bytes), STATUS_OK);
        found += memmem(data, bytes, start_of_81, sizeof start_of_81) != NULL;
        memory_free(data);
    }
    closedir(folder);
    assert_int_equal(found, 1);
}

static void flushed_lines_are_in_the_file(void **state) {
    (void)state;
    journal *j = start("flushed", 0);
    run_steps(j, 1, 700); /* more than the queue holds */
    assert_int_equal(journal_flush(j), STATUS_OK);
    expect_history("flushed/metrics.jsonl", 700, 1, 0);
    assert_int_equal(journal_close(j, STATUS_OK, 700), STATUS_OK);
}

static void a_full_disk_is_said_once_and_leaves_whole_lines(void **state) {
    (void)state;
    journal *j = start("full", 0);
    run_steps(j, 1, 20);
    assert_int_equal(journal_flush(j), STATUS_OK);
    struct rlimit before, limit;
    getrlimit(RLIMIT_FSIZE, &before);
    limit = before;
    limit.rlim_cur = 8000;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    status result = STATUS_OK;
    int64_t step = 21;
    for (; step < 1000 && result == STATUS_OK; step++) {
        train_progress p = at(step);
        result = journal_step(j, &p);
    }
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(result, STATUS_FAILED);
    assert_non_null(strstr(status_message(), "full/"));
    assert_int_equal(journal_close(j, STATUS_FAILED, step), STATUS_FAILED);
    assert_non_null(strstr(status_message(), "full/"));
    char *text = text_of("full/metrics.jsonl");
    assert_int_equal(text[strlen(text) - 1], '\n');
    memory_free(text);
}

static uint64_t bytes_of(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 ? (uint64_t)about.st_size : 0;
}

/* The line of an evaluation, which comes last, has no room any more, and the events, which are shorter, have.
 */
static void a_lost_evaluation_is_said(void **state) {
    (void)state;
    journal *j = start("lost", 0);
    run_steps(j, 1, 20);
    assert_int_equal(journal_flush(j), STATUS_OK);
    struct rlimit before, limit;
    getrlimit(RLIMIT_FSIZE, &before);
    limit = before;
    limit.rlim_cur = bytes_of("lost/metrics.jsonl") + 10;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    status first = journal_evaluated(j, 20, 2), then = journal_flush(j);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_true(first != STATUS_OK || then != STATUS_OK);
    assert_non_null(strstr(status_message(), "lost/metrics.jsonl"));
    assert_int_equal(journal_close(j, STATUS_FAILED, 20), STATUS_FAILED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_say_what_happened),
        cmocka_unit_test(it_says_when),
        cmocka_unit_test(what_a_kill_has_left_is_not_read),
        cmocka_unit_test(what_is_in_the_way_is_said),
        cmocka_unit_test(a_file_is_no_folder),
        cmocka_unit_test(a_run_without_a_folder_writes_nothing),
        cmocka_unit_test(going_on_cuts_the_history),
        cmocka_unit_test(all_recent_steps_foretell_the_time),
        cmocka_unit_test(events_begin_behind_what_is_done),
        cmocka_unit_test(flushed_lines_are_in_the_file),
        cmocka_unit_test(a_full_disk_is_said_once_and_leaves_whole_lines),
        cmocka_unit_test(a_lost_evaluation_is_said),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
