/* snug status: of runs that go on, ended, were killed, and of folders that are none of a run's. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/command.h"
#include "io/scratch.h"

static int make_files(void **state) {
    if (scratch_open(state) != 0) return -1;
    command_make_files();
    return 0;
}

static json_document status_of(const char *line) {
    command_result r = command_run(line);
    json_document d;
    if (r.exit) fail_msg("snug %s: %s", line, r.err);
    assert_int_equal(json_parse(line, r.out, strlen(r.out), &d), STATUS_OK);
    command_free(&r);
    return d;
}

static const char *word(const json_document *d, const char *key) {
    const char *value = NULL;
    assert_int_equal(json_get_string(d->root, key, &value), STATUS_OK);
    return value;
}

static void a_finished_run(void **state) {
    (void)state;
    char line[200]; /* a budget that a process with sanitizers can meet as well */
    uint64_t budget = command_least_budget("plan tiny/config.json --json --quiet") + (8 << 20);
    snprintf(line, sizeof line,
             "train tiny/config.json --data text --out done --steps 40 --eval-every 10 --quiet --memory %llu",
             (unsigned long long)budget);
    command_expect(0, line);
    json_document d = status_of("status done --json");
    assert_string_equal(word(&d, "state"), "finished");
    assert_int_equal(command_number(&d, "step"), 40);
    assert_int_equal(command_number(&d, "steps"), 40);
    assert_int_equal(command_number(&d, "eval_step"), 40);
    assert_int_equal(command_number(&d, "budget_bytes"), budget);
    assert_true(command_number(&d, "memory_bytes") <= command_number(&d, "planned_bytes"));
    assert_false(json_has(d.root, "seconds_left"));
    assert_false(json_has(d.root, "owner"));
    json_document run; /* the last loss is that of the run */
    size_t count;
    double last, shown;
    assert_int_equal(json_open("done/run.json", &run), STATUS_OK);
    json_value losses = command_value(&run, "losses");
    assert_int_equal(json_as_array(losses, &count), STATUS_OK);
    assert_int_equal(json_as_number(json_item(losses, count - 1), 0, 100, &last), STATUS_OK);
    assert_int_equal(json_get_number(d.root, "loss", 0, 100, &shown), STATUS_OK);
    assert_true(last == shown);
    json_close(&d), json_close(&run);
    command_result r = command_run("status done --follow"); /* there is nothing to wait for */
    assert_int_equal(r.exit, 0);
    assert_non_null(strstr(r.out, "done: finished; last heard of "));
    assert_non_null(strstr(r.out, "step 40/40  loss "));
    assert_non_null(strstr(r.out, "validation loss "));
    assert_null(strstr(r.out, " left"));
    command_free(&r);
}

static void pause_briefly(void) { nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL); }

/* Starts a long run in `out` and waits until it has made some steps. */
static pid_t start_run(const char *out) {
    char line[200];
    snprintf(line, sizeof line,
             "train tiny/config.json --data text --out %s --steps 1000000 --save-every 20 --quiet", out);
    pid_t pid = command_start(line, NULL, -1);
    for (int i = 0; i < 1500; i++, pause_briefly()) {
        snprintf(line, sizeof line, "status %s --json", out);
        command_result r = command_run(line);
        json_document d;
        bool going = r.exit == 0 && json_parse("status", r.out, strlen(r.out), &d) == STATUS_OK;
        bool far = going && command_number(&d, "step") >= 30 && command_number(&d, "checkpoint") >= 20;
        if (going) json_close(&d);
        command_free(&r);
        if (far) return pid;
    }
    fail_msg("the run in %s makes no steps", out);
    return pid;
}

static void a_run_that_goes_on_and_is_stopped(void **state) {
    (void)state;
    pid_t pid = start_run("going");
    char owner[64];
    snprintf(owner, sizeof owner, "process %ld on ", (long)pid);
    json_document d = status_of("status going --json");
    assert_string_equal(word(&d, "state"), "running");
    assert_int_equal(strncmp(word(&d, "owner"), owner, strlen(owner)), 0);
    assert_true(json_has(d.root, "seconds_left"));
    json_close(&d);
    command_expect(
        2, "train tiny/config.json --data text --out going --steps 3"); /* looking took no lock away */
    assert_int_equal(kill(pid, SIGTERM), 0);
    command_result r = command_run("status going --follow --json"); /* until it has ended */
    assert_int_equal(r.exit, 0);
    assert_non_null(strstr(r.out, "\"state\": \"interrupted\""));
    assert_int_equal(strchr(r.out, '{') - r.out, 0);
    command_free(&r);
    int how;
    assert_int_equal(waitpid(pid, &how, 0), pid);
    d = status_of("status going --json");
    assert_string_equal(word(&d, "state"), "interrupted");
    assert_non_null(strstr(word(&d, "reason"), "stopped after step"));
    json_close(&d);
}

/* Ctrl-C is how following ends: the page of what there is is written, and nothing else stays. */
static void following_ends_with_a_page(void **state) {
    (void)state;
    pid_t run = start_run("followed"), pid;
    int how;
    pid = command_start("status followed --follow --json --html page.html", NULL, -1);
    for (int i = 0; i < 1500 && access("page.html.partial", F_OK) != 0; i++) pause_briefly();
    assert_int_equal(kill(pid, SIGINT), 0);
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), STATUS_INTERRUPTED);
    assert_int_equal(access("page.html", F_OK), 0);
    assert_int_not_equal(access("page.html.partial", F_OK), 0);
    assert_int_equal(kill(run, SIGKILL), 0);
    assert_int_equal(waitpid(run, &how, 0), run);
}

static void a_run_that_was_killed(void **state) {
    (void)state;
    pid_t pid = start_run("killed");
    int how;
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &how, 0), pid);
    FILE *file = fopen("killed/metrics.jsonl", "a"); /* as a kill in the middle of a line leaves it */
    fputs("{\"step\": 99999999, \"lo", file);
    fclose(file);
    json_document d = status_of("status killed --json");
    assert_string_equal(word(&d, "state"), "killed");
    assert_true(command_number(&d, "step") >= 30 && command_number(&d, "step") < 99999999);
    assert_true(command_number(&d, "checkpoint") % 20 == 0);
    json_close(&d);
    command_result r = command_run("status killed");
    assert_int_equal(r.exit, 0);
    assert_non_null(strstr(r.out, "--resume goes on"));
    assert_non_null(strstr(r.out, "newest checkpoint killed/checkpoint-"));
    command_free(&r);
}

static void other_folders_get_a_sentence(void **state) {
    (void)state;
    mkdir("bare", 0700), mkdir("foreign", 0700), mkdir("pages", 0700), mkdir("nested", 0700),
        mkdir("nested/metrics.jsonl", 0700);
    scratch_write("foreign/metrics.jsonl", "{\"epoch\": 3}\n[1]\nhello\n", 22);
    scratch_write("pages/metrics.jsonl", "", 0);
    static const struct {
        const char *line, *sentence;
    } cases[] = { { "status", "status wants a DIR" },
                  { "status nowhere", "there is no folder nowhere" },
                  { "status text", "text is no folder" },
                  { "status bare", "bare has no metrics.jsonl" },
                  { "status foreign", "foreign/metrics.jsonl holds nothing that a run has written" },
                  { "status nested", "nested/metrics.jsonl is a folder; a regular file is needed" },
                  { "status pages --follow", "pages/metrics.jsonl holds nothing" } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        command_result r = command_run(cases[i].line);
        if (r.exit != 2 || !strstr(r.err, cases[i].sentence))
            fail_msg("snug %s: exit %d, %s", cases[i].line, r.exit, r.err);
        assert_string_equal(r.out, "");
        command_free(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_finished_run),
        cmocka_unit_test(a_run_that_goes_on_and_is_stopped),
        cmocka_unit_test(following_ends_with_a_page),
        cmocka_unit_test(a_run_that_was_killed),
        cmocka_unit_test(other_folders_get_a_sentence),
    };
    return cmocka_run_group_tests(tests, make_files, scratch_close);
}
